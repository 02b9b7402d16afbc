//! The libraries that `$LD_PRELOAD` names: what runs a program now has the loader search
//! them before all others, so what they define is meant wherever the executable itself
//! does not define it, and they may call what it exports.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use backtrail_ir::program::{Strength, SurroundingNative, Surroundings};
use backtrail_machine::elf::Kind;

use super::symbols;
use crate::carry::Carried;
use crate::libraries::{SYSTEM_FOLDERS, find};

/// Adds those that are there to what surrounds the units of an executable. As in the
/// loader, one that is not is nothing.
pub fn add(surroundings: &mut Surroundings, program: &Carried) {
    if program.kind == Kind::SharedLibrary {
        return;
    }
    let list = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let exported = surroundings.loaded.exports.clone();
    for name in names(&list) {
        let Some(path) = find(program, name) else { continue };
        let Ok(contents) = std::fs::read(&path) else { continue };
        let mut object = symbols::of_library(&path.display().to_string(), &contents);
        // It stands for a part of the executable that gives way to any other.
        object.shared = false;
        object.system = is_system(&path);
        object.definitions.iter_mut().for_each(|it| it.strength = Strength::Weak);
        let own: BTreeSet<&str> = object.definitions.iter().map(|it| &*it.name).collect();
        let concerns = |name: &String| {
            exported.contains(name) || (!object.system && !own.contains(name.as_str()))
        };
        object.references.retain(concerns);
        surroundings.loaded.exports.extend(object.definitions.iter().map(|it| it.name.clone()));
        surroundings.natives.push(SurroundingNative { units_before: u32::MAX, object });
    }
}

fn names(list: &OsStr) -> impl Iterator<Item = &str> {
    let names = list.as_bytes().split(|byte| b" :".contains(byte));
    names.filter(|name| !name.is_empty()).filter_map(|name| str::from_utf8(name).ok())
}

fn is_system(library: &Path) -> bool {
    let folder = library.parent().and_then(|folder| folder.canonicalize().ok());
    let is_it = |system: &&str| folder.as_deref() == Some(Path::new(system));
    SYSTEM_FOLDERS.iter().any(is_it)
}
