//! The folder through which everything goes to a cluster and back.

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use backtrail_interruption::folder::remove;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::duplicate::copy_folder;
use super::local::{make, own_paths};
use super::process::{self, TASK};
use super::signals::Watch;
use super::task::Staging;
use super::tree::Ours;
use super::{Copies, Isolation, SlurmOptions, Variant};
use crate::Error;

/// The folder everything goes through, removed at the end.
pub(super) struct StagingFolder(pub PathBuf);

impl StagingFolder {
    pub fn new(options: &SlurmOptions, directory: &Path) -> Result<Self, Error> {
        let places = match &options.folder {
            Some(folder) => {
                let resolved = folder.canonicalize();
                vec![resolved.map_err(|source| Error::Write { path: folder.clone(), source })?]
            }
            None => {
                directory.ancestors().skip(1).take(1).chain([directory]).map(Into::into).collect()
            }
        };
        let mut last = None;
        for place in &places {
            let folder = tempfile::Builder::new().prefix(".backtrail-slurm-").tempdir_in(place);
            match folder {
                Ok(folder) => return Ok(Self(folder.keep())),
                Err(source) => last = Some(Error::Write { path: place.clone(), source }),
            }
        }
        Err(last.unwrap_or_else(|| Error::Engine {
            engine: "slurm",
            what: "there is no folder for staging; give one".to_owned(),
        }))
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        let _ = remove(&self.0);
    }
}

/// Puts all that does not change into the staging folder.
pub(super) fn stage(
    copies: &Copies<'_>,
    staging: &Staging,
    directory: &Path,
    watch: &Watch,
) -> Result<(), Error> {
    let write = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Write { path, source }
    };
    for folder in [staging.done(), staging.log(), staging.work(), staging.0.join("failed")] {
        make(&folder)?;
    }
    let entry = staging.entry();
    fs::copy(copies.entry, &entry).map_err(write(&entry))?;
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o755)).map_err(write(&entry))?;
    for (index, variant) in copies.variants.iter().enumerate() {
        stage_variant(variant, &staging.variant(index))?;
    }
    stage_input(copies, &staging.stdin(), watch)?;
    if copies.isolation != Isolation::None {
        make(&staging.snapshot())?;
        let ours = Ours::below(directory, own_paths(copies.variants, &staging.0));
        copy_folder(directory, &staging.snapshot(), &ours)?;
    }
    let script = staging.0.join("task.sh");
    let text = format!(
        "#!/bin/sh\nexec {} {} {TASK} {}\n",
        quoted(&staging.entry()),
        process::VERB,
        quoted(&staging.0)
    );
    fs::write(&script, text).map_err(write(&script))
}

/// Standard input, for all tasks.
fn stage_input(copies: &Copies<'_>, path: &Path, watch: &Watch) -> Result<(), Error> {
    let write = |source| Error::Write { path: path.to_owned(), source };
    let null = Path::new("/dev/null");
    if fs::read_link("/proc/self/fd/0").is_ok_and(|it| it == null) {
        // Nodes have one, too.
        return symlink(null, path).map_err(write);
    }
    let mut file = File::create(path).map_err(write)?;
    if io::stdin().is_terminal() {
        copies.notice("standard input is a terminal, which tasks do not have: theirs is empty");
        return Ok(());
    }
    read_to_end(&mut file, watch, path)
}

/// Reads standard input to its end, unless a signal comes first.
fn read_to_end(file: &mut File, watch: &Watch, path: &Path) -> Result<(), Error> {
    let stdin = io::stdin();
    let mut buffer = vec![0; 1 << 16];
    loop {
        if let Some(signal) = watch.received() {
            return Err(Error::Interrupted { signal });
        }
        let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, PollTimeout::from(200u8)) == Ok(0) {
            continue;
        }
        match nix::unistd::read(stdin.as_fd(), &mut buffer) {
            Ok(0) | Err(Errno::EBADF) => return Ok(()),
            Ok(read) => file
                .write_all(&buffer[..read])
                .map_err(|source| Error::Write { path: path.to_owned(), source })?,
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(error) => {
                let path = "standard input".into();
                return Err(Error::Read { path, source: error.into() });
            }
        }
    }
}

/// The executable, and the shared libraries beside it.
fn stage_variant(variant: &Variant, to: &Path) -> Result<(), Error> {
    make(to)?;
    let name = variant.executable.file_name().unwrap_or_default();
    let target = to.join(name);
    fs::copy(&variant.executable, &target)
        .map_err(|source| Error::Write { path: target.clone(), source })?;
    let mut libraries = name.to_owned();
    libraries.push(".libs");
    let from = variant.executable.with_file_name(&libraries);
    if from.is_dir() {
        make(&to.join(&libraries))?;
        copy_folder(&from, &to.join(&libraries), &Ours::default())?;
    }
    Ok(())
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_a_script() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
