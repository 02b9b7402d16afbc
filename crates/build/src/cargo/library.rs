//! Records for the units in an archive that rustc wrote.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use ar_archive_writer::{ArchiveKind, DEFAULT_OBJECT_READER, NewArchiveMember};
use object::read::archive::ArchiveFile;
use rayon::prelude::*;

use super::units::Compilation;
use crate::Error;
use crate::output::{self, Mode};

/// Gives every object of `compilation` in the archive at `path` its record.
pub fn attach(compilation: &Compilation, path: &Path) -> Result<(), Error> {
    let changed = change(path, |name, contents| match compilation.unit_of(name) {
        Some(unit) => {
            let changed = compilation.attach(unit, contents)?;
            Ok(changed.map(|bytes| Member { name: compilation.lasting_name(unit), bytes }))
        }
        // What other libraries brought along.
        None => Ok(None),
    })?;
    match changed {
        Some(bytes) => output::write_whole(path, &bytes, Mode::Data),
        None => Ok(()),
    }
}

/// A member of an archive.
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// The archive at `path` with the members that `change` gives in place of
/// others, by name and contents; `None` if it changes none. They keep their
/// order.
pub fn change(
    path: &Path,
    change: impl Fn(&str, &[u8]) -> Result<Option<Member>, Error> + Sync,
) -> Result<Option<Vec<u8>>, Error> {
    let bytes = fs::read(path).map_err(Error::read(path))?;
    let damaged = |error: object::Error| Error::machine(path)(error.into());
    let archive = ArchiveFile::parse(&bytes[..]).map_err(damaged)?;
    let mut members = Vec::new();
    for member in archive.members() {
        let member = member.map_err(damaged)?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        members.push((name, member.data(&bytes[..]).map_err(damaged)?));
    }
    let changed: Vec<Option<Member>> = members
        .par_iter()
        .map(|(name, contents)| change(name, contents))
        .collect::<Result<_, Error>>()?;
    if changed.iter().all(Option::is_none) {
        return Ok(None);
    }
    let members: Vec<NewArchiveMember<'_>> = members
        .iter()
        .zip(&changed)
        .map(|((name, old), new)| {
            let (name, contents) = match new {
                Some(member) => (&member.name, &member.bytes[..]),
                None => (name, *old),
            };
            NewArchiveMember::new(contents, &DEFAULT_OBJECT_READER, name.clone())
        })
        .collect();
    let mut out = Cursor::new(Vec::new());
    ar_archive_writer::write_archive_to_stream(&mut out, &members, ArchiveKind::Gnu, false, None)
        .map_err(Error::write(path))?;
    Ok(Some(out.into_inner()))
}
