//! The recipes that this user made.
//!
//! A list of hashes in `$XDG_STATE_HOME/backtrail/known-recipes`, one on each line, to
//! which each link adds its own. A hash is over all that a derivation carries out: the
//! recipe with the files it holds, and the units with their options and bitcode. So no
//! other file can use one that is known.
//!
//! The list is a convenience of the build and never its concern: where it cannot be
//! written (a package that is built without a home), nothing is said, and the recipe
//! is one from elsewhere. It is believed only if it belongs to this user and nobody
//! else can write to it. Two links at a time append under a lock of the folder; whoever
//! does not get it soon goes on without, since a line is appended by one write.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::carry::file::hex;
use crate::carry::recipe::Recipe;
use crate::carry::unit::UnitRecord;
use crate::compile::warn;

/// What tells a recipe with its units from all others.
pub type Fingerprint = [u8; 32];

/// Lines that are kept. What was linked long ago goes first.
const MOST: usize = 1 << 16;

/// Bytes of a line: a hash in hexadecimal, and its end.
const LINE: usize = 65;

/// How often, and how long each time, a link waits for another one.
const PATIENCE: (u32, Duration) = (100, Duration::from_millis(5));

/// The hash of all that is carried out when variants are derived.
pub fn fingerprint(recipe: &Recipe, units: &[UnitRecord]) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    let mut add = |part: &[u8]| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    add(b"backtrail recipe 1");
    add(&postcard::to_stdvec(recipe).expect("serialising into memory does not fail"));
    for unit in units {
        unit.parts().iter().for_each(|part| add(part));
    }
    *hasher.finalize().as_bytes()
}

/// Where the list is, if this user has a place for such things.
fn list() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local").join("state")));
    Some(state?.join("backtrail").join("known-recipes"))
}

/// Whether this user made the recipe.
pub fn is_known(fingerprint: &Fingerprint) -> bool {
    list().is_some_and(|path| match read(&path) {
        Ok(lines) => holds(&lines, fingerprint),
        Err(why) => {
            // Once is enough, for however many variants.
            static SAID: Once = Once::new();
            SAID.call_once(|| warn(&format!("{} is not believed: {why}", path.display())));
            false
        }
    })
}

/// Adds the recipe to those that this user made, if that can be done.
pub fn remember(fingerprint: &Fingerprint) {
    // Without it, the recipe is one from elsewhere.
    let _ = list().map_or(Ok(()), |path| append(&path, fingerprint));
}

fn holds(lines: &[u8], fingerprint: &Fingerprint) -> bool {
    let wanted = hex(fingerprint);
    lines.split(|byte| *byte == b'\n').any(|line| line == wanted.as_bytes())
}

/// The user this process acts for.
fn user() -> io::Result<u32> {
    Ok(fs::metadata("/proc/self")?.uid())
}

/// Why something is not only this user's, if it is not.
fn not_ours(metadata: &fs::Metadata) -> io::Result<Option<&'static str>> {
    Ok(match metadata {
        it if it.uid() != user()? => Some("it belongs to another user"),
        it if it.mode() & 0o022 != 0 => Some("others can write to it"),
        _ => None,
    })
}

fn options() -> fs::OpenOptions {
    let mut options = File::options();
    // Neither another file by a link, nor a pipe that nobody writes to.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    options.mode(0o600).custom_flags(flags.bits().cast_signed());
    options
}

/// The list, if it is there; or why it cannot be believed.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let read = || -> io::Result<Result<Vec<u8>, &'static str>> {
        let folder = path.parent().unwrap_or(Path::new("/")).metadata()?;
        let file = options().read(true).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Err("it is no ordinary file"));
        }
        if let Some(why) = not_ours(&metadata)? {
            return Ok(Err(why));
        }
        if not_ours(&folder)?.is_some() {
            return Ok(Err("its folder is not this user's alone"));
        }
        let mut lines = Vec::new();
        file.take((4 * MOST * LINE) as u64).read_to_end(&mut lines)?;
        Ok(Ok(lines))
    };
    match read() {
        Ok(read) => read.map_err(str::to_owned),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

fn append(path: &Path, fingerprint: &Fingerprint) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    make(folder)?;
    let locked = File::open(folder)?;
    let _ = wait_for(&locked);
    let lines = read(path).map_err(io::Error::other)?;
    if holds(&lines, fingerprint) {
        return Ok(());
    }
    let mut line = hex(fingerprint) + "\n";
    // A disk that was full may have left half a line.
    if lines.last().is_some_and(|last| *last != b'\n') {
        line.insert(0, '\n');
    }
    if lines.len() >= MOST * LINE {
        let kept = lines.split_inclusive(|byte| *byte == b'\n').collect::<Vec<_>>();
        let kept = kept[kept.len() / 2..].concat();
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(&[&kept, line.as_bytes()].concat())?;
        new.persist(path)?;
        return Ok(());
    }
    options().append(true).create(true).open(path)?.write_all(line.as_bytes())
}

/// Makes the folder, for this user alone. Not in what belongs to somebody else: a build
/// by the administrator in a user's home must not take the list away from the user.
fn make(folder: &Path) -> io::Result<()> {
    let there = folder.ancestors().find(|it| it.exists()).unwrap_or(Path::new("/"));
    if there.metadata()?.uid() != user()? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Locks the folder, unless somebody holds it for longer than a build may wait.
fn wait_for(folder: &File) -> io::Result<()> {
    let (times, pause) = PATIENCE;
    for _ in 0..times {
        match flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => std::thread::sleep(pause),
            done => return Ok(done?),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn print(number: usize) -> Fingerprint {
        *blake3::hash(&number.to_le_bytes()).as_bytes()
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("backtrail").join("known-recipes");
        (state, path)
    }

    #[test]
    fn a_list_is_this_users_and_has_each_hash_once() {
        let (_state, path) = place();
        for number in [1, 2, 1] {
            append(&path, &print(number)).unwrap();
        }
        let lines = read(&path).unwrap();
        assert_eq!(lines.len(), 2 * LINE);
        assert!(holds(&lines, &print(1)) && holds(&lines, &print(2)) && !holds(&lines, &print(3)));
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn half_a_line_spoils_no_other() {
        let (_state, path) = place();
        append(&path, &print(1)).unwrap();
        options().append(true).open(&path).unwrap().write_all(b"0123").unwrap();
        append(&path, &print(2)).unwrap();
        let lines = read(&path).unwrap();
        assert!(holds(&lines, &print(1)) && holds(&lines, &print(2)));
    }

    #[test]
    fn a_full_list_forgets_what_is_oldest() {
        let (_state, path) = place();
        append(&path, &print(0)).unwrap();
        let filled: String = (0..MOST).map(|number| hex(&print(number)) + "\n").collect();
        fs::write(&path, filled).unwrap();
        append(&path, &print(MOST)).unwrap();
        let lines = read(&path).unwrap();
        assert_eq!(lines.len(), (MOST / 2 + 1) * LINE);
        assert!(holds(&lines, &print(MOST)) && holds(&lines, &print(MOST - 1)));
        assert!(!holds(&lines, &print(0)));
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn many_at_once_lose_nothing() {
        let (_state, path) = place();
        std::thread::scope(|scope| {
            for number in 0..16 {
                let path = &path;
                scope.spawn(move || append(path, &print(number)).unwrap());
            }
        });
        let lines = read(&path).unwrap();
        assert_eq!(lines.len(), 16 * LINE);
        assert!((0..16).all(|number| holds(&lines, &print(number))));
    }

    #[test]
    fn what_others_can_write_is_not_believed() {
        let (_state, path) = place();
        assert_eq!(read(&path).unwrap(), b"");
        append(&path, &print(1)).unwrap();
        let change = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        change(&path, 0o620);
        assert_eq!(read(&path).unwrap_err(), "others can write to it");
        assert!(append(&path, &print(2)).is_err());
        change(&path, 0o600);
        change(path.parent().unwrap(), 0o777);
        assert_eq!(read(&path).unwrap_err(), "its folder is not this user's alone");
        change(path.parent().unwrap(), 0o700);
        let elsewhere = path.with_file_name("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(read(&path).is_err() && append(&path, &print(2)).is_err());
    }
}
