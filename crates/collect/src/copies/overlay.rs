//! What a copy changed in an overlay, and putting it in place.
//!
//! An overlay keeps what was changed in a folder of its own, its upper layer: a
//! file that was changed as a whole, a folder with what was changed in it, and
//! for what was removed a character device with number 0. A folder that was
//! removed and made anew is marked opaque by an extended attribute: nothing of
//! the old one shows through (Documentation/filesystems/overlayfs.rst of Linux).
//! So the cost of looking and of putting in place is that of the changes,
//! however large the folder is.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use backtrail_interruption::folder::remove;

use super::duplicate::{copy_attributes, copy_contents, copy_entry};
use super::tree::{Changes, Kind, Ours, describe, list, look, walk};
use crate::Error;

/// What the upper layer `upper` changes in `lower`.
pub(super) fn changes(lower: &Path, upper: &Path, ours: &Ours) -> Result<Changes, Error> {
    let mut changed = BTreeMap::new();
    walk(upper, ours, &mut |name, metadata| {
        let description = match is_removed(metadata) {
            true => None,
            false => describe(&upper.join(name))?,
        };
        // What was opened for writing and not changed is here, too, and what
        // was made and removed again.
        let before = describe(&lower.join(name))?;
        let hides = metadata.is_dir() && before.is_some() && is_opaque(&upper.join(name));
        if description != before {
            changed.insert(name.to_owned(), description);
        }
        if hides && lower.join(name).is_dir() {
            for child in list(&lower.join(name))? {
                if look(&upper.join(name).join(&child))?.is_none() {
                    changed.insert(name.join(child), None);
                }
            }
        }
        Ok(())
    })?;
    Ok(Changes { changed, unchanged: lower.to_owned() })
}

fn is_removed(metadata: &Metadata) -> bool {
    metadata.file_type().is_char_device() && metadata.rdev() == 0
}

fn is_opaque(folder: &Path) -> bool {
    let mut value = [0; 1];
    ["trusted.overlay.opaque", "user.overlay.opaque"].into_iter().any(|name| {
        matches!(rustix::fs::lgetxattr(folder, name, &mut value[..]), Ok(1)) && value[0] == b'y'
    })
}

/// Makes the same changes in the folder `to`; what is there afterwards is in
/// `from`, by name.
pub(super) fn put_in_place(changes: &Changes, from: &Path, to: &Path) -> Result<(), Error> {
    let mut folders: Vec<(PathBuf, Metadata)> = Vec::new();
    for (name, description) in &changes.changed {
        let (source, target) = (from.join(name), to.join(name));
        let write = |source| Error::Write { path: target.clone(), source };
        let Some(description) = description else {
            remove(&target).map_err(write)?;
            continue;
        };
        let Some(metadata) = look(&source)? else { continue };
        let before = look(&target)?;
        match (&description.kind, before) {
            (Kind::Folder, Some(before)) if before.is_dir() => folders.push((target, metadata)),
            (Kind::Folder, _) => {
                remove(&target).map_err(write)?;
                fs::create_dir(&target).map_err(write)?;
                folders.push((target, metadata));
            }
            (Kind::File { .. }, Some(before)) if before.is_file() => {
                // Into the same file, which other names may have and which
                // may have attributes we know nothing of.
                if rewrite(&source, &target).is_err() {
                    remove(&target).map_err(write)?;
                    copy_entry(&source, &metadata, &target)?;
                } else {
                    copy_attributes(&metadata, &target)?;
                }
            }
            _ => {
                remove(&target).map_err(write)?;
                copy_entry(&source, &metadata, &target)?;
            }
        }
    }
    // Last, as they may forbid what was just done.
    for (target, metadata) in folders.iter().rev() {
        copy_attributes(metadata, target)?;
    }
    Ok(())
}

fn rewrite(source: &Path, target: &Path) -> io::Result<()> {
    let input = File::open(source)?;
    let output = OpenOptions::new().write(true).open(target)?;
    output.set_len(0)?;
    copy_contents(&input, &output)
}
