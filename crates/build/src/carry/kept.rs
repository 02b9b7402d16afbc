//! What is kept of variants in the cache, so that their records can be read when they are
//! gone, or something else is in their place (a build tree that a test suite ran in, and
//! that was put back): everything that they carry, without their code.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use backtrail_foreign::file;
use backtrail_machine::elf::{Elf, Kind};

use super::Carried;
use super::file::{damaged, frame_error, read_mark, read_recipe, read_units};
use super::frame;
use super::unit::Damaged;
use crate::Error;
use crate::cache::Cache;

/// The first bytes of what is kept.
const MAGIC: [u8; 8] = *b"BTKEPT\r\n";

fn key(id: &[u8; 16]) -> [u8; 16] {
    frame::hash(&[b"variant", id])
}

/// Keeps what is carried by the variant at `path`, if it is one that records.
pub fn keep(path: &Path, cache: &Cache) -> Result<(), Error> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let bytes = file::read(&path).map_err(Error::read(&path))?;
    let elf = Elf::parse(&bytes).map_err(Error::machine(&path))?;
    let section = |name| elf.section(name).map_err(Error::machine(&path));
    let Some(mark) = section(backtrail_abi::VARIANT_SECTION)? else { return Ok(()) };
    let is_library = elf.kind().map_err(Error::machine(&path))? == Kind::SharedLibrary;
    let layout = section(backtrail_abi::counts::LAYOUT_SECTION)?;
    let parts: [&[u8]; 7] = [
        path.as_os_str().as_bytes(),
        &[is_library.into()],
        &mark,
        &section(backtrail_abi::UNIT_SECTION)?.unwrap_or_default(),
        &section(backtrail_abi::LINK_SECTION)?.unwrap_or_default(),
        &[layout.is_some().into()],
        &layout.unwrap_or_default(),
    ];
    let kept = frame::wrap(MAGIC, &frame::join_parts(&parts));
    cache.put(&key(&read_mark(&path, &mark)?.id), &kept)
}

/// What the variant with this id carries, if it is kept. It says where it was when it was
/// made.
pub fn find(id: &[u8; 16], cache: &Cache) -> Result<Option<Carried>, Error> {
    let Some(bytes) = cache.get(&key(id)) else { return Ok(None) };
    let place = cache.folder();
    let bodies = frame::unwrap_all(MAGIC, &bytes).map_err(frame_error(place))?;
    let parts = bodies.first().and_then(|body| frame::split_parts(body)).unwrap_or_default();
    let [path, is_library, mark, units, link, counts, layout] = parts[..] else {
        return Err(damaged(place)(Damaged("what is kept of a variant is not whole".into())));
    };
    let path = Path::new(OsStr::from_bytes(path));
    Ok(Some(Carried {
        path: path.to_owned(),
        kind: if is_library == [1] { Kind::SharedLibrary } else { Kind::Executable },
        build_id: Vec::new(),
        units: read_units(path, units)?,
        recipe: read_recipe(path, link)?,
        needed: Vec::new(),
        run_path: Vec::new(),
        side: None,
        file_size: 0,
        layout: (counts == [1]).then(|| layout.to_vec()),
        frames: None,
        variant: Some(read_mark(path, mark)?),
    }))
}
