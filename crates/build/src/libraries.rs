//! A program's own shared libraries: those that carry units too.
//!
//! They are looked for where the dynamic loader would look (the program's run
//! path, `$LD_LIBRARY_PATH`, the system's folders), and where the program was
//! linked from, which is where an uninstalled library is. A library that the
//! program opens by itself (`dlopen`) cannot be known; derive it on its own.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use backtrail_machine::elf::Elf;

use crate::Error;
use crate::carry::Carried;
use crate::carry::recipe::InputKind;

const SYSTEM_FOLDERS: [&str; 6] = [
    "/usr/local/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
];

/// The shared libraries that `program` loads, directly or through others of
/// its own, and that carry units; by the name they are asked for.
pub fn own_libraries(program: &Carried) -> Result<BTreeMap<String, Carried>, Error> {
    let mut found = BTreeMap::new();
    let mut pending = own_needs(program)?;
    while let Some((name, library)) = pending.pop() {
        if let Entry::Vacant(entry) = found.entry(name) {
            pending.extend(own_needs(&library)?);
            entry.insert(library);
        }
    }
    Ok(found)
}

fn own_needs(program: &Carried) -> Result<Vec<(String, Carried)>, Error> {
    let mut own = Vec::new();
    for name in &program.needed {
        let Some(path) = find(program, name) else { continue };
        if carries_units(&path)? {
            own.push((name.clone(), Carried::read(&path)?));
        }
    }
    Ok(own)
}

/// Whether the ELF file at `path` carries units.
fn carries_units(path: &Path) -> Result<bool, Error> {
    let bytes = std::fs::read(path).map_err(Error::read(path))?;
    let elf = Elf::parse(&bytes);
    Ok(elf.is_ok_and(|elf| {
        elf.section_names().iter().any(|name| name == backtrail_abi::UNIT_SECTION)
    }))
}

/// Where the library that `program` asks for as `name` is.
fn find(program: &Carried, name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let origin = program.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let origin = origin.unwrap_or(Path::new(".")).to_string_lossy();
    let expand = |path: &String| {
        PathBuf::from(path.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", &origin))
    };
    let variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = program.run_path.iter().map(expand).chain(std::env::split_paths(&variable));
    let in_folder = |folder: PathBuf| Some(folder.join(name)).filter(|path| path.is_file());
    folders
        .filter(|folder| !folder.as_os_str().is_empty())
        .find_map(in_folder)
        .or_else(|| linked_from(program, name))
        .or_else(|| SYSTEM_FOLDERS.iter().map(PathBuf::from).find_map(in_folder))
}

/// Where the library `name` was when `program` was linked.
fn linked_from(program: &Carried, name: &str) -> Option<PathBuf> {
    let inputs = &program.recipe.as_ref()?.inputs;
    let is_asked_for = |input: &&crate::carry::Input| match &input.kind {
        InputKind::Shared { soname: Some(soname) } => soname == name,
        InputKind::Shared { soname: None } => {
            input.path.file_name().is_some_and(|file| file == name)
        }
        _ => false,
    };
    inputs.iter().find(is_asked_for).map(|input| input.path.clone()).filter(|path| path.is_file())
}
