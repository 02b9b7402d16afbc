//! A program's own shared libraries: those that carry units too.
//!
//! They are looked for where the dynamic loader would look (the program's run
//! path, `$LD_LIBRARY_PATH`, the system's folders), and where the program was
//! linked from, which is where an uninstalled library is. A library that the
//! program opens by itself (`dlopen`) cannot be known; derive it on its own.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use backtrail_foreign::file;
use backtrail_machine::elf::Elf;

use crate::Error;
use crate::carry::Carried;
use crate::carry::recipe::InputKind;

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
    let elf = Elf::parse(&bytes);
    Ok(elf.is_ok_and(|elf| {
        elf.section_names().iter().any(|name| name == backtrail_abi::UNIT_SECTION)
    }))
}

/// Where the library that `program` asks for as `name` is.
pub(crate) fn find(program: &Carried, name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let path = Some(PathBuf::from(name)).filter(|path| path.is_file());
        return path.or_else(|| linked_from(program, name));
    }
    let origin = program.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let origin = origin.unwrap_or(Path::new("."));
    let expand = |path: &String| expand_origin(path, origin);
    let variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = program.run_path.iter().map(expand).chain(std::env::split_paths(&variable));
    let in_folder = |folder: PathBuf| Some(folder.join(name)).filter(|path| path.is_file());
    folders
        .filter(|folder| !folder.as_os_str().is_empty())
        .find_map(in_folder)
        .or_else(|| linked_from(program, name))
        .or_else(|| SYSTEM_FOLDERS.iter().map(PathBuf::from).find_map(in_folder))
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

/// Where the library `name` was when `program` was linked.
fn linked_from(program: &Carried, name: &str) -> Option<PathBuf> {
    let inputs = &program.recipe.as_ref()?.inputs;
    let is_asked_for = |input: &&crate::carry::Input| match &input.kind {
        InputKind::Shared { soname: Some(soname) } => soname == name,
        // It is asked for as the linker was given it.
        InputKind::Shared { soname: None } => input.path.file_name() == Path::new(name).file_name(),
        _ => false,
    };
    inputs.iter().find(is_asked_for).map(|input| input.path.clone()).filter(|path| path.is_file())
}
