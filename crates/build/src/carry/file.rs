//! Reads what a file carries.

use std::path::{Path, PathBuf};

use backtrail_foreign::file;
use backtrail_machine::elf::{Elf, Kind};

use super::frame::{self, FrameError};
use super::recipe::{self, Recipe};
use super::unit::{self, Damaged, UnitRecord};
use super::variant::{self, VariantMark};
use crate::Error;

/// The suffix of side files, which are named by build id.
pub const SIDE_SUFFIX: &str = ".backtrail";

/// Everything an executable, shared library or object carries.
pub struct Carried {
    /// The file.
    pub path: PathBuf,
    /// What kind of ELF file it is.
    pub kind: Kind,
    /// Its build id; empty if it has none.
    pub build_id: Vec<u8>,
    /// The units linked into it, in link order.
    pub units: Vec<UnitRecord>,
    /// How it was linked; objects have none.
    pub recipe: Option<Recipe>,
    /// The shared libraries it asks for.
    pub needed: Vec<String>,
    /// Where it asks for them to be looked for.
    pub run_path: Vec<String>,
    /// The side file it was read from, if it was detached.
    pub side: Option<PathBuf>,
    /// Bytes of the file.
    pub file_size: u64,
    /// The layout of its counters ([`backtrail_plan::counters::Layout`]) as
    /// bytes, if it is a variant that counts.
    pub layout: Option<Vec<u8>>,
    /// Where its functions and their records are
    /// ([`backtrail_plan::frames::FrameTable`]) as bytes, if it is a variant
    /// whose frames hold records.
    pub frames: Option<Vec<u8>>,
    /// Which variant it is, if it is one that records.
    pub variant: Option<VariantMark>,
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn frame_error(path: &Path) -> impl Fn(FrameError) -> Error {
    let path = path.to_owned();
    move |error| match error {
        FrameError::Damaged(what) => Error::Damaged { path: path.clone(), what },
        FrameError::Version(found) => {
            Error::Version { path: path.clone(), found, read: frame::VERSION }
        }
    }
}

pub(super) fn damaged(path: &Path) -> impl Fn(Damaged) -> Error {
    let path = path.to_owned();
    move |Damaged(what)| Error::Damaged { path: path.clone(), what }
}

/// The units in the contents of a unit section of `path`.
pub fn read_units(path: &Path, section: &[u8]) -> Result<Vec<UnitRecord>, Error> {
    let bodies = frame::unwrap_all(unit::MAGIC, section).map_err(frame_error(path))?;
    bodies.into_iter().map(|body| UnitRecord::from_body(body).map_err(damaged(path))).collect()
}

/// The only record in `section` of `path`, which begins with `magic`.
pub(crate) fn one_record<'a>(
    path: &Path,
    magic: [u8; 8],
    section: &'a [u8],
) -> Result<&'a [u8], Error> {
    let bodies = frame::unwrap_all(magic, section).map_err(frame_error(path))?;
    match bodies[..] {
        [body] => Ok(body),
        _ => Err(damaged(path)(Damaged("it is not one record".into()))),
    }
}

pub(super) fn read_recipe(path: &Path, section: &[u8]) -> Result<Option<Recipe>, Error> {
    let bodies = frame::unwrap_all(recipe::MAGIC, section).map_err(frame_error(path))?;
    bodies.last().map(|body| Recipe::from_body(body).map_err(damaged(path))).transpose()
}

pub(super) fn read_mark(path: &Path, section: &[u8]) -> Result<VariantMark, Error> {
    let body = one_record(path, variant::MAGIC, section)?;
    VariantMark::from_body(body).map_err(damaged(path))
}

/// If `bytes` are a libtool wrapper script at `path`, the program it starts.
pub fn libtool_program(path: &Path, bytes: &[u8]) -> Option<PathBuf> {
    let head = &bytes[..bytes.len().min(4096)];
    let is_script = head.starts_with(b"#!") && String::from_utf8_lossy(head).contains("libtool");
    let folder = path.parent().unwrap_or(Path::new(""));
    is_script.then(|| folder.join(".libs").join(path.file_name().unwrap_or_default()))
}

/// Folders where side files are looked for: beside the executable, and where
/// distributions keep debug files.
fn side_candidates(path: &Path, build_id: &[u8]) -> Vec<PathBuf> {
    let name = format!("{}{SIDE_SUFFIX}", hex(build_id));
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let (head, tail) = name.split_at(2.min(name.len()));
    vec![
        folder.join(&name),
        folder.join(".debug").join(&name),
        Path::new("/usr/lib/debug/.build-id").join(head).join(tail),
    ]
}

/// The side file of the executable `path`, which has this build id, if there is one.
pub fn side_file(path: &Path, build_id: &[u8]) -> Option<PathBuf> {
    let candidates = side_candidates(path, build_id).into_iter();
    candidates.filter(|_| !build_id.is_empty()).find(|side| side.is_file())
}

impl Carried {
    /// Reads `path`, which must carry units.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::read_with_side(path, None)
    }

    /// Reads `path`, whose carried data may stand in `side`.
    pub fn read_with_side(path: &Path, side: Option<&Path>) -> Result<Self, Error> {
        // What is something else may be large.
        let head = file::read_head(path, 4096).map_err(Error::read(path))?;
        if let Err(error @ backtrail_machine::Error::NotElf) = Elf::parse(&head) {
            if let Some(program) = libtool_program(path, &head) {
                return Err(Error::LibtoolWrapper { path: path.to_owned(), program });
            }
            return Err(Error::machine(path)(error));
        }
        let bytes = file::read(path).map_err(Error::read(path))?;
        let elf = Elf::parse(&bytes).map_err(Error::machine(path))?;
        let machine = || Error::machine(path);
        let kind = elf.kind().map_err(machine())?;
        let build_id = elf.build_id().map_err(machine())?.unwrap_or_default();
        let mut carried = Self {
            path: path.to_owned(),
            kind,
            needed: elf.needed(),
            run_path: elf.run_path(),
            units: Vec::new(),
            recipe: None,
            side: None,
            file_size: bytes.len() as u64,
            layout: elf.section(backtrail_abi::counts::LAYOUT_SECTION).map_err(machine())?,
            frames: elf.section(backtrail_abi::record::FRAMES_SECTION).map_err(machine())?,
            variant: None,
            build_id,
        };
        if let Some(mark) = elf.section(backtrail_abi::VARIANT_SECTION).map_err(machine())? {
            carried.variant = Some(read_mark(path, &mark)?);
        }
        let section = elf.section(backtrail_abi::UNIT_SECTION).map_err(machine())?;
        match section {
            Some(units) if side.is_none() => {
                carried.units = read_units(path, &units)?;
                if let Some(section) = elf.section(backtrail_abi::LINK_SECTION).map_err(machine())?
                {
                    carried.recipe = read_recipe(path, &section)?;
                }
            }
            _ => carried.read_side(path, side)?,
        }
        if carried.units.is_empty() {
            return Err(carried.not_carried());
        }
        Ok(carried)
    }

    fn not_carried(&self) -> Error {
        let hint = match self.build_id.is_empty() {
            true => String::new(),
            false => format!(
                " (if it was stripped by llvm-strip or detached, put {}{SIDE_SUFFIX} beside it)",
                hex(&self.build_id)
            ),
        };
        Error::NotCarried { path: self.path.clone(), hint }
    }

    fn read_side(&mut self, path: &Path, side: Option<&Path>) -> Result<(), Error> {
        let found = match side {
            Some(side) => Some(side.to_owned()),
            None => side_file(path, &self.build_id),
        };
        let Some(side) = found else { return Ok(()) };
        let bytes = file::read(&side).map_err(Error::read(&side))?;
        let contents = SideFile::from_bytes(&side, &bytes)?;
        if contents.build_id != self.build_id {
            return Err(Error::OtherBuild {
                path: path.to_owned(),
                wanted: hex(&self.build_id),
                found: hex(&contents.build_id),
                side,
            });
        }
        self.units = read_units(&side, &contents.units)?;
        self.recipe = read_recipe(&side, &contents.link)?;
        let own = self.frames.take();
        self.frames = own.or_else(|| Some(contents.frames).filter(|it| !it.is_empty()));
        self.side = Some(side);
        Ok(())
    }
}

/// What `detach` writes: the carried sections, and whose they are.
pub struct SideFile {
    /// The build id of the executable.
    pub build_id: Vec<u8>,
    /// The contents of the unit section.
    pub units: Vec<u8>,
    /// The contents of the link section.
    pub link: Vec<u8>,
    /// The table of frames, if it has one.
    pub frames: Vec<u8>,
}

/// The first bytes of a side file.
const SIDE_MAGIC: [u8; 8] = *b"BTSIDE\r\n";

impl SideFile {
    /// The bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut parts: Vec<&[u8]> = vec![&self.build_id, &self.units, &self.link];
        if !self.frames.is_empty() {
            parts.push(&self.frames);
        }
        frame::wrap(SIDE_MAGIC, &frame::join_parts(&parts))
    }

    /// Reads the bytes of the side file `path`.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let bodies = frame::unwrap_all(SIDE_MAGIC, bytes).map_err(frame_error(path))?;
        let parts = match bodies[..] {
            [body] => frame::split_parts(body).unwrap_or_default(),
            _ => Vec::new(),
        };
        let (build_id, units, link, frames) = match parts[..] {
            [build_id, units, link] => (build_id, units, link, &[][..]),
            [build_id, units, link, frames] => (build_id, units, link, frames),
            _ => return Err(damaged(path)(Damaged("not a side file of Backtrail".into()))),
        };
        Ok(Self {
            build_id: build_id.to_vec(),
            units: units.to_vec(),
            link: link.to_vec(),
            frames: frames.to_vec(),
        })
    }
}
