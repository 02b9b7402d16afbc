//! The first difference between two copies.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use backtrail_machine::tracee::inputs;
use nix::sys::signal::Signal;

pub use super::output::Stream;
use super::tree::{Changes, Description, Kind};
use crate::Error;

/// In what copies differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// How they ended.
    Status {
        /// The first copy.
        first: ExitStatus,
        /// The other one.
        other: ExitStatus,
    },
    /// What they printed.
    Printed {
        /// On which stream.
        stream: Stream,
        /// How many bytes were the same.
        byte: u64,
        /// The line in which they differ, counted from 1.
        line: u64,
        /// What the first copy printed from there on, to the end of the line
        /// or a part of it.
        first: String,
        /// What the other one printed.
        other: String,
    },
    /// What they left in the working directory.
    Left {
        /// The file.
        path: PathBuf,
        /// How it differs.
        how: String,
    },
    /// What came into them from outside.
    Input(inputs::Different),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Status { first, other } => {
                write!(f, "{} against {}", ended(*first), ended(*other))
            }
            Difference::Printed { stream, byte, line, first, other } => {
                write!(f, "{stream} from byte {byte} (line {line}) on, {first} against {other}")
            }
            Difference::Left { path, how } => write!(f, "{} {how}", path.display()),
            Difference::Input(different) => different.fmt(f),
        }
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(number)) => match Signal::try_from(number) {
            Ok(signal) => format!("signal {number} ({signal})"),
            Err(_) => format!("signal {number}"),
        },
        (None, None) => status.to_string(),
    }
}

/// How a copy went, as far as it is compared.
pub(super) struct Ending {
    pub status: ExitStatus,
    pub output: File,
    pub error: File,
    pub changes: Option<Changes>,
}

/// The first difference between the first copy and another one.
pub(super) fn compare(first: &Ending, other: &Ending) -> Result<Option<Difference>, Error> {
    if first.status != other.status {
        let (first, other) = (first.status, other.status);
        return Ok(Some(Difference::Status { first, other }));
    }
    let streams = [
        (Stream::Output, &first.output, &other.output),
        (Stream::Error, &first.error, &other.error),
    ];
    for (stream, first, other) in streams {
        let difference = compare_streams(stream, first, other);
        let failed = |source| Error::Read { path: stream.to_string().into(), source };
        if let Some(difference) = difference.map_err(failed)? {
            return Ok(Some(difference));
        }
    }
    match (&first.changes, &other.changes) {
        (Some(changes), Some(others)) => {
            compare_changes(changes, others, first.status.signal().is_some())
        }
        _ => Ok(None),
    }
}

fn compare_streams(
    stream: Stream,
    first: &File,
    other: &File,
) -> std::io::Result<Option<Difference>> {
    let open = |mut file: &File| {
        file.rewind()?;
        Ok::<_, std::io::Error>(BufReader::with_capacity(1 << 16, file.try_clone()?))
    };
    let (mut first, mut other) = (open(first)?, open(other)?);
    let (mut byte, mut line) = (0, 1);
    loop {
        let (left, right) = (first.fill_buf()?, other.fill_buf()?);
        if left.is_empty() && right.is_empty() {
            return Ok(None);
        }
        let shared = left.len().min(right.len());
        let same = left.iter().zip(right).take_while(|(left, right)| left == right).count();
        line += left[..same].iter().filter(|&&byte| byte == b'\n').count() as u64;
        byte += same as u64;
        if same < shared || shared == 0 {
            let (first, other) = (excerpt(&left[same..]), excerpt(&right[same..]));
            return Ok(Some(Difference::Printed { stream, byte, line, first, other }));
        }
        first.consume(shared);
        other.consume(shared);
    }
}

/// The rest of a line, or its beginning.
fn excerpt(bytes: &[u8]) -> String {
    const LONGEST: usize = 40;
    if bytes.is_empty() {
        return "nothing more".to_owned();
    }
    let end = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| end + 1);
    let shown = &bytes[..end.min(LONGEST)];
    let more = if end > LONGEST { "…" } else { "" };
    format!("\"{}\"{more}", shown.escape_ascii())
}

/// If the program ended by a signal, core dumps are no difference: they hold
/// numbers of processes and random addresses, and may be named after the former.
fn compare_changes(
    first: &Changes,
    other: &Changes,
    crashed: bool,
) -> Result<Option<Difference>, Error> {
    let mut names: Vec<&Path> =
        first.changed.keys().chain(other.changed.keys()).map(PathBuf::as_path).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (left, right) = (first.describe(name)?, other.describe(name)?);
        let is_core = |it: &Description| matches!(it.kind, Kind::File { is_core: true, .. });
        if crashed && (left.iter().any(is_core) || right.iter().any(is_core)) {
            continue;
        }
        if let Some(how) = difference(left.as_ref(), right.as_ref()) {
            return Ok(Some(Difference::Left { path: name.to_owned(), how }));
        }
    }
    Ok(None)
}

fn difference(first: Option<&Description>, other: Option<&Description>) -> Option<String> {
    let (first, other) = match (first, other) {
        (None, None) => return None,
        (Some(_), None) => return Some("is left by the one only".to_owned()),
        (None, Some(_)) => return Some("is left by the other only".to_owned()),
        (Some(first), Some(other)) => (first, other),
    };
    if first == other {
        None
    } else if first.kind.name() != other.kind.name() {
        Some(format!("is {} against {}", first.kind.name(), other.kind.name()))
    } else if first.kind != other.kind {
        Some("has other contents".to_owned())
    } else if first.mode != other.mode {
        Some(format!("has mode {:o} against {:o}", first.mode, other.mode))
    } else {
        let owners = (first.user, first.group, other.user, other.group);
        Some(format!("belongs to {}:{} against {}:{}", owners.0, owners.1, owners.2, owners.3))
    }
}
