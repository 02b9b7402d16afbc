//! `cargo xtask fuzz installed`: whatever is installed, traced by breakpoints.
//!
//! Every executable of a folder is asked for its version, alone and traced, and has to
//! do the same: print the same and end in the same way. Which blocks a trace has is not
//! looked at here ([`crate::stepped`] does that), but that there is one. It becomes
//! `docs/breakpoints-installed.md`. What they do at [`work`] is another command.

pub mod work;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::packages::Need;
use crate::workspace::Profile;
use crate::{command, setup, workspace};

const PAGE: &str = "docs/breakpoints-installed.md";

/// Programs that do not end by themselves, that need more than standard input, or that do
/// not take `--version` for a question; by how their names begin.
const LEFT_OUT: [&str; 28] = [
    "systemd",
    "dbus",
    "login",
    "su",
    "ssh-agent",
    "Xvfb",
    "chromium",
    "yes",
    "reset",
    "tset",
    "sleep",
    "watch",
    "top",
    "slabtop",
    "telnet",
    "script",
    "setsid",
    "kill",
    "pkill",
    "skill",
    "snice",
    "tload",
    "reboot",
    "shutdown",
    "halt",
    "poweroff",
    "init",
    "telinit",
];

/// The most seconds that a program may take alone.
const ALONE: u32 = 30;

/// What `cargo xtask fuzz installed` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    /// The folder whose executables are traced
    #[arg(long, default_value = "/usr/bin")]
    folder: PathBuf,
    /// Executables that are larger are left out
    #[arg(long, value_name = "MB", default_value_t = 4)]
    largest: u64,
    /// The most seconds that a trace may take
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    patience: u32,
    /// How many are traced at a time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

/// What became of a program.
struct Row {
    name: String,
    /// What is not as it is alone; nothing if all is.
    wrong: Option<String>,
    counts: Counts,
}

/// What the tool tells of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Counts {
    in_file: Option<u64>,
    unknown_jumps: Option<u64>,
    executed: Option<u64>,
    stops: Option<u64>,
}

impl Counts {
    /// Of what `--explain` prints.
    fn of_text(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines().filter_map(|it| it.strip_prefix("backtrail: ")) {
            let words: Vec<&str> = line.split([' ', ',', ';', '[', ']']).collect();
            let before = |what: &str| {
                let place = words.windows(2).position(|it| it.join(" ") == what);
                place.and_then(|it| words[..it].last()?.parse().ok())
            };
            let behind = |what: &str| {
                let place = words.iter().position(|&it| it == what)?;
                words[place + 1..].iter().find_map(|it| it.parse().ok())
            };
            found.unknown_jumps = found.unknown_jumps.or(before("computed jumps"));
            found.executed = found.executed.or(before("blocks executed"));
            found.in_file = found.in_file.or(behind("routines"));
            found.stops = found.stops.or(behind("stops"));
        }
        found
    }
}

impl Row {
    fn new(name: String, difference: Result<(Option<String>, Counts)>) -> Self {
        let failed = |why: anyhow::Error| (Some(why.to_string()), Counts::default());
        let (wrong, counts) = difference.unwrap_or_else(failed);
        Self { name, wrong, counts }
    }
}

/// Traces all of them, and writes the page.
pub fn run(options: &Options) -> Result<()> {
    setup::run(Need::Tool, &options.installing)?;
    let tool = workspace::build_tool(Profile::Release)?.join("backtrail");
    let programs = executables(&options.folder, options.largest << 20)?;
    let scratch = workspace::target()?.join("breakpoints-installed");
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for job in 0..options.jobs.max(1) {
            let scratch = scratch.join(job.to_string());
            let (tool, programs, next, rows) = (&tool, &programs, &next, &rows);
            scope.spawn(move || {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = compare(tool, program, options.patience, &scratch);
                    println!("{} {}", row.name, row.wrong.as_deref().unwrap_or("the same"));
                    rows.lock().unwrap_or_else(|it| it.into_inner()).push(row);
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_else(|it| it.into_inner());
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let page = page(&rows, options)?;
    std::fs::write(workspace::root().join(PAGE), page).context(PAGE)
}

/// The executables for this machine in a folder, by name.
fn executables(folder: &Path, largest: u64) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let (path, data) = (entry.path(), entry.metadata()?);
        let name = entry.file_name();
        let is_left_out = LEFT_OUT.iter().any(|it| name.to_string_lossy().starts_with(it));
        // Those with privileges of their own are refused.
        let mode = data.permissions().mode();
        if data.is_file() && mode & 0o6111 == 0o111 && data.len() < largest && !is_left_out {
            let mut begin = [0; 5];
            let is_read = File::open(&path).and_then(|mut it| it.read_exact(&mut begin)).is_ok();
            if is_read && begin == *b"\x7fELF\x02" {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn compare(tool: &Path, program: &Path, patience: u32, scratch: &Path) -> Row {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let command = [program.as_os_str(), OsStr::new("--version")];
    Row::new(name, difference(tool, &command, patience, scratch))
}

/// What a command does otherwise when it is traced, and what is told of the trace.
fn difference(
    tool: &Path,
    command: &[&OsStr],
    patience: u32,
    scratch: &Path,
) -> Result<(Option<String>, Counts)> {
    std::fs::create_dir_all(scratch)?;
    let trace = scratch.join("trace");
    let _ = std::fs::remove_file(&trace);
    let run = |seconds: u32, words: &[&OsStr]| -> Result<Output> {
        let mut timed = Command::new("timeout");
        timed.current_dir(scratch).env("LC_ALL", "C").arg(seconds.to_string()).args(words);
        command::capture(&mut timed)
    };
    let alone = run(ALONE, command)?;
    let options = ["trace", "--explain", "--witness", "breakpoint", "-o"].map(OsStr::new);
    let (program, words) = command.split_first().context("no command")?;
    let named = [trace.as_os_str(), program, OsStr::new("--")];
    let traced = [&[tool.as_os_str()], &options[..], &named, words].concat();
    let traced = run(patience, &traced)?;
    let told = String::from_utf8_lossy(&traced.stderr);
    let counts = Counts::of_text(&told);
    let told = told.lines().rfind(|it| it.starts_with("backtrail: ")).unwrap_or_default();
    let wrong = match (alone.status.code(), traced.status.code()) {
        (Some(124), _) => Some("did not end alone".to_owned()),
        (_, Some(124)) => Some(format!("was not done after {patience} s")),
        (one, other) if one != other => {
            Some(format!("ended with {other:?} instead of {one:?}: {told}"))
        }
        _ if alone.stdout != traced.stdout => {
            let again = run(ALONE, command)?;
            Some(match alone.stdout == again.stdout {
                true => "printed something else".to_owned(),
                false => "does not always print the same, alone".to_owned(),
            })
        }
        _ if !trace.exists() => Some(format!("left no trace: {told}")),
        _ => None,
    };
    Ok((wrong, counts))
}

/// A cell of a table.
fn on_page(text: &str) -> String {
    text.replace('|', "\\|")
}

fn page(rows: &[Row], options: &Options) -> Result<String> {
    let wrong: Vec<&Row> = rows.iter().filter(|row| row.wrong.is_some()).collect();
    let mut page = String::from("# Whatever is installed, traced by breakpoints\n\n");
    writeln!(
        page,
        "`cargo xtask fuzz installed`: the executables of {} below {} MB, each asked for its \
         `--version`, alone and traced by breakpoints in one run. Left out are scripts, those that \
         have privileges of their own, and those that do not end by themselves or do not take \
         that for a question ([`xtask/src/installed.rs`](../xtask/src/installed.rs) names them).\n",
        options.folder.display(),
        options.largest
    )?;
    writeln!(
        page,
        "Of {} executables, {} print the same, end in the same way and leave a trace.\n",
        rows.len(),
        rows.len() - wrong.len()
    )?;
    if !wrong.is_empty() {
        page.push_str("| program | what is different |\n| --- | --- |\n");
        for row in wrong {
            let what = on_page(row.wrong.as_deref().unwrap_or_default());
            writeln!(page, "| `{}` | {what} |", row.name)?;
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_different_is_on_the_page_and_counted() {
        let row = |name: &str, wrong: Option<&str>| Row {
            name: name.to_owned(),
            wrong: wrong.map(str::to_owned),
            counts: Counts::default(),
        };
        let rows = [row("ls", None), row("as", Some("left no trace: a | b"))];
        let options = Options {
            installing: setup::Installing::default(),
            folder: "/usr/bin".into(),
            largest: 4,
            patience: 120,
            jobs: 1,
        };
        let page = page(&rows, &options).unwrap();
        assert!(page.contains("Of 2 executables, 1 print the same"), "{page}");
        assert!(page.contains("| `as` | left no trace: a \\| b |"), "{page}");
    }

    #[test]
    fn what_the_tool_tells_of_a_trace_is_read() {
        let text = "of the program\n\
                    backtrail: 38564 routines, 1348939 blocks; 746 computed jumps taken for calls\n\
                    backtrail: 14470715 blocks executed\n\
                    backtrail: stops [7824306], predicted [7824306], at most 7824306 in a run\n";
        let counts = Counts::of_text(text);
        assert_eq!((counts.in_file, counts.unknown_jumps), (Some(1_348_939), Some(746)));
        assert_eq!((counts.executed, counts.stops), (Some(14_470_715), Some(7_824_306)));
        assert_eq!(Counts::of_text("14 blocks executed"), Counts::default());
    }

    #[test]
    fn executables_are_found_and_scripts_are_not() {
        let found = executables(Path::new("/usr/bin"), 1 << 30).unwrap();
        assert!(found.contains(&PathBuf::from("/usr/bin/true")));
        assert!(!found.iter().any(|it| it.ends_with("ldd") || it.ends_with("sleep")));
    }
}
