//! What a copy sees as the working directory, and what it did to it.

use std::fs;
use std::path::{Path, PathBuf};

use super::duplicate::copy_folder;
use super::overlay;
use super::process::{Mount, probe};
use super::tree::{Changes, Ours, States};
use super::{Event, Isolation};
use crate::Error;

/// How views are made, after it was found out what the kernel allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Overlay,
    Copy,
    Shared,
}

/// What can be done here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means {
    pub method: Method,
    /// Whether copies can have mounts of their own.
    pub mounts: bool,
}

impl Means {
    /// Finds out, for a copy that sees `base` as `directory`.
    pub fn find(
        isolation: Isolation,
        base: &Path,
        directory: &Path,
        entry: &Path,
        scratch: &Path,
        listener: &dyn Fn(Event),
    ) -> Result<Self, Error> {
        let make = |name: &str| {
            let path = scratch.join(name);
            fs::create_dir_all(&path)
                .map_err(|source| Error::Write { path: path.clone(), source })?;
            Ok(path)
        };
        let (from, to) = (make("probe")?, make("probe/to")?);
        let bind = Mount::Bind { from, to };
        let mounts = probe(entry, vec![bind], scratch);
        let overlays = || {
            let inner = mounts_below(base);
            if let Some(inner) = inner {
                let inner = inner.display();
                return Ok(Err(format!(
                    "{inner} is mounted in the working directory, and an overlay does not show it"
                )));
            }
            let (upper, work) = (make("probe/upper")?, make("probe/work")?);
            let (lower, to) = (base.to_owned(), directory.to_owned());
            Ok(probe(entry, vec![Mount::Overlay { lower, upper, work, to }], scratch))
        };
        let method = match isolation {
            Isolation::None => Method::Shared,
            Isolation::Copy => Method::Copy,
            Isolation::Overlay => match overlays()? {
                Ok(()) => Method::Overlay,
                Err(why) => {
                    let what = format!("there can be no overlay: {why}; --isolate copy needs none");
                    return Err(Error::Engine { engine: "isolation", what });
                }
            },
            Isolation::Auto if mounts.is_ok() && overlays()?.is_ok() => Method::Overlay,
            Isolation::Auto => Method::Copy,
        };
        if let (Err(why), Method::Copy) = (&mounts, method) {
            listener(Event::Notice(format!(
                "the copies see their working directory and their records at different paths: {why}"
            )));
        }
        backtrail_interruption::folder::remove(&scratch.join("probe"))
            .map_err(|source| Error::Write { path: scratch.to_owned(), source })?;
        Ok(Self { method, mounts: mounts.is_ok() })
    }
}

/// The first place below a folder where something else is mounted.
fn mounts_below(folder: &Path) -> Option<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape);
    let mut inner: Vec<PathBuf> =
        points.filter(|point| point != folder && point.starts_with(folder)).collect();
    inner.sort();
    inner.into_iter().next()
}

/// Takes a path of mountinfo, which has blanks in octal.
fn unescape(text: &str) -> PathBuf {
    let (mut path, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('\\') {
        path.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(code.map_or('\\', char::from));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    path.push_str(rest);
    path.into()
}

/// One copy's view of the working directory.
pub(super) struct View {
    /// What it needs mounted.
    pub mounts: Vec<Mount>,
    /// Where the copy starts.
    pub directory: PathBuf,
    kind: Kind,
    ours: Ours,
}

enum Kind {
    Folder { root: PathBuf, before: States },
    Overlay { lower: PathBuf, upper: PathBuf },
    Shared,
}

impl View {
    /// A view of `base`, seen as `directory`. What it needs is kept in
    /// `scratch`. With `in_place`, `base` itself may be used.
    pub fn new(
        means: &Means,
        base: &Path,
        directory: &Path,
        scratch: &Path,
        ours: &Ours,
        in_place: bool,
    ) -> Result<Self, Error> {
        let make = |name: &str| {
            let path = scratch.join(name);
            fs::create_dir_all(&path)
                .map_err(|source| Error::Write { path: path.clone(), source })?;
            Ok(path)
        };
        let mut mounts = Vec::new();
        let mut start = directory.to_owned();
        let kind = match means.method {
            Method::Shared => Kind::Shared,
            Method::Overlay => {
                let (upper, work) = (make("upper")?, make("work")?);
                // The root of the view has the attributes of the upper layer's.
                let failed = |source| Error::Read { path: base.to_owned(), source };
                let metadata = fs::metadata(base).map_err(failed)?;
                super::duplicate::copy_attributes(&metadata, &upper)?;
                let (lower, to) = (base.to_owned(), directory.to_owned());
                mounts.push(Mount::Overlay {
                    lower: lower.clone(),
                    upper: upper.clone(),
                    work,
                    to,
                });
                Kind::Overlay { lower, upper }
            }
            Method::Copy => {
                let root = if in_place {
                    base.to_owned()
                } else {
                    let root = make("folder")?;
                    copy_folder(base, &root, ours)?;
                    if means.mounts {
                        mounts.push(Mount::Bind { from: root.clone(), to: directory.to_owned() });
                    } else {
                        start = root.clone();
                    }
                    root
                };
                let before = States::note(&root, ours)?;
                Kind::Folder { root, before }
            }
        };
        Ok(Self { mounts, directory: start, kind, ours: ours.clone() })
    }

    /// What the copy changed, if that is known.
    pub fn changes(&self) -> Result<Option<Changes>, Error> {
        Ok(match &self.kind {
            Kind::Shared => None,
            Kind::Folder { root, before } => Some(before.changes(root, &self.ours)?),
            Kind::Overlay { lower, upper } => Some(overlay::changes(lower, upper, &self.ours)?),
        })
    }

    /// Where what was changed is kept, if it is not in place already.
    pub fn apart(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Overlay { upper, .. } => Some(upper),
            Kind::Folder { root, .. } => Some(root),
            Kind::Shared => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_mount_points() {
        assert_eq!(unescape(r"/a\040b\134c"), Path::new(r"/a b\c"));
        assert_eq!(unescape(r"/a\x"), Path::new(r"/a\x"));
    }
}
