//! A program's own shared libraries: those that carry units too.
//!
//! They are looked for where the dynamic loader would look (the program's run
//! path, `$LD_LIBRARY_PATH`, the system's folders), and where the program was
//! linked from, which is where an uninstalled library is. A library that the
//! program opens by itself (`dlopen`) cannot be known; derive it on its own.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use backtrail_foreign::file;
use backtrail_machine::elf::Elf;

use crate::Error;
use crate::carry::Carried;
use crate::carry::recipe::{InputKind, Recipe};

pub(crate) const SYSTEM_FOLDERS: [&str; 6] = [
    "/usr/local/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
];

/// The shared libraries that `program` loads, directly or through others of
/// its own, and that carry units; by file name. Those of a variant are in one folder.
pub fn own_libraries(program: &Carried) -> Result<BTreeMap<String, Carried>, Error> {
    let mut found = BTreeMap::new();
    let mut pending = own_needs(program)?;
    while let Some((name, library)) = pending.pop() {
        match found.entry(name) {
            Entry::Vacant(entry) => {
                pending.extend(own_needs(&library)?);
                entry.insert(library);
            }
            Entry::Occupied(entry) if is_same_file(&entry.get().path, &library.path) => {}
            Entry::Occupied(entry) => {
                return Err(Error::SameFileName {
                    one: entry.get().path.clone(),
                    other: library.path,
                });
            }
        }
    }
    Ok(found)
}

fn own_needs(program: &Carried) -> Result<Vec<(String, Carried)>, Error> {
    let mut own = Vec::new();
    for name in &program.needed {
        let Some(path) = find(program, name) else { continue };
        if carries_units(&path)? {
            own.push((file_name(name).to_owned(), Carried::read(&path)?));
        }
    }
    Ok(own)
}

/// Whether `name`, by which `program` asks for a library, is a path of one of `libraries`.
pub(crate) fn is_path_of_one(
    libraries: &BTreeMap<String, Carried>,
    program: &Carried,
    name: &str,
) -> bool {
    let is_it = |library: &Carried| {
        find(program, name).is_some_and(|path| is_same_file(&path, &library.path))
    };
    name.contains('/') && libraries.get(file_name(name)).is_some_and(is_it)
}

/// A shared library that a program asks for, directly or through others.
pub struct Library {
    /// The name by which it is asked for.
    pub name: String,
    /// Where it is, if it is anywhere.
    pub path: Option<PathBuf>,
    /// Whether it is in a folder of the system's.
    pub is_system: bool,
    /// What it carries, if it is made of units.
    pub carried: Option<Carried>,
}

/// The shared libraries that `program` asks for, directly or through others: those that
/// carry units, those that do not, and those that are not found; in the order in which they
/// are asked for.
pub fn libraries_of(program: &Carried) -> Result<Vec<Library>, Error> {
    let system: Vec<PathBuf> =
        SYSTEM_FOLDERS.iter().filter_map(|folder| Path::new(folder).canonicalize().ok()).collect();
    let is_system = |path: &Path| {
        let path = path.canonicalize();
        path.is_ok_and(|path| system.iter().any(|folder| path.starts_with(folder)))
    };
    let mut found: Vec<Library> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut pending: VecDeque<(String, Option<PathBuf>)> = needs(&Asking::of(program)).collect();
    while let Some((name, path)) = pending.pop_front() {
        if !seen.insert((name.clone(), path.clone())) {
            continue;
        }
        let mut carried = None;
        if let Some(path) = &path {
            let bytes = file::read(path).map_err(Error::read(path))?;
            match Elf::parse(&bytes) {
                Ok(elf) if has_units(&elf) => {
                    let library = Carried::read(path)?;
                    pending.extend(needs(&Asking::of(&library)));
                    carried = Some(library);
                }
                Ok(elf) => {
                    let (needed, run_path) = (elf.needed(), elf.run_path());
                    let asking =
                        Asking { path, needed: &needed, run_path: &run_path, recipe: None };
                    pending.extend(needs(&asking));
                }
                // The loader says what is wrong with it.
                Err(_) => {}
            }
        }
        let is_system = path.as_deref().is_some_and(is_system);
        found.push(Library { name, path, is_system, carried });
    }
    Ok(found)
}

fn needs<'a>(asking: &'a Asking<'a>) -> impl Iterator<Item = (String, Option<PathBuf>)> + 'a {
    asking.needed.iter().map(|name| (name.clone(), asking.find(name)))
}

fn file_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|it| (it.dev(), it.ino()));
    identity(one).is_some_and(|it| identity(other) == Some(it))
}

/// Whether the ELF file at `path` carries units.
fn carries_units(path: &Path) -> Result<bool, Error> {
    let bytes = file::read(path).map_err(Error::read(path))?;
    Ok(Elf::parse(&bytes).is_ok_and(|elf| has_units(&elf)))
}

fn has_units(elf: &Elf<'_>) -> bool {
    elf.section_names().iter().any(|name| name == backtrail_abi::UNIT_SECTION)
}

/// Where the library that `program` asks for as `name` is.
pub(crate) fn find(program: &Carried, name: &str) -> Option<PathBuf> {
    Asking::of(program).find(name)
}

/// A file that asks for libraries.
struct Asking<'a> {
    path: &'a Path,
    needed: &'a [String],
    run_path: &'a [String],
    recipe: Option<&'a Recipe>,
}

impl<'a> Asking<'a> {
    fn of(file: &'a Carried) -> Self {
        let recipe = file.recipe.as_ref();
        Self { path: &file.path, needed: &file.needed, run_path: &file.run_path, recipe }
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        let linked_from = || self.recipe.and_then(|recipe| linked_from(recipe, name));
        if name.contains('/') {
            let path = Some(PathBuf::from(name)).filter(|path| path.is_file());
            return path.or_else(linked_from);
        }
        let origin = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let origin = origin.unwrap_or(Path::new("."));
        let expand = |path: &String| expand_origin(path, origin);
        let variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders = self.run_path.iter().map(expand).chain(std::env::split_paths(&variable));
        let in_folder = |folder: PathBuf| Some(folder.join(name)).filter(|path| path.is_file());
        folders
            .filter(|folder| !folder.as_os_str().is_empty())
            .find_map(in_folder)
            .or_else(linked_from)
            .or_else(|| SYSTEM_FOLDERS.iter().map(PathBuf::from).find_map(in_folder))
    }
}

/// Whether a folder of a run path depends on where the file is that has it.
pub fn looks_beside_itself(folder: &str) -> bool {
    folder.contains("$ORIGIN") || folder.contains("${ORIGIN}")
}

/// A folder of the run path of a file in `origin`.
pub fn expand_origin(folder: &str, origin: &Path) -> PathBuf {
    let origin = origin.to_string_lossy();
    PathBuf::from(folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", &origin))
}

/// Where the library `name` was when this was linked.
fn linked_from(recipe: &Recipe, name: &str) -> Option<PathBuf> {
    let is_asked_for = |input: &&crate::carry::Input| match &input.kind {
        InputKind::Shared { soname: Some(soname) } => soname == name,
        // It is asked for as the linker was given it.
        InputKind::Shared { soname: None } => input.path.file_name() == Path::new(name).file_name(),
        _ => false,
    };
    recipe
        .inputs
        .iter()
        .find(is_asked_for)
        .map(|input| input.path.clone())
        .filter(|path| path.is_file())
}
