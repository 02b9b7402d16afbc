//! The libraries that a loader is told to load first (`$LD_PRELOAD`, `/etc/ld.so.preload`):
//! it searches them before all others, so what they define is meant wherever the executable
//! itself does not define it, and they may call what it exports.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use backtrail_foreign::file;
use backtrail_ir::program::{Strength, SurroundingNative, Surroundings};

use super::symbols;
use crate::carry::Carried;
use crate::libraries::{SYSTEM_FOLDERS, find};

/// What the loader is told for all programs.
const FOR_ALL: &str = "/etc/ld.so.preload";

/// Those that a run of a program here and now has. As in the loader, one that is not there
/// is nothing.
pub fn of_run(program: &Carried) -> Vec<PathBuf> {
    let list = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let for_all = std::fs::read(FOR_ALL).unwrap_or_default();
    let names = names(list.as_bytes(), b" :").chain(names_in_file(&for_all));
    names.filter_map(|name| find(program, name)).collect()
}

/// Adds libraries to what surrounds the units of an executable. What cannot be read is
/// taken for something that is not known.
pub fn add(surroundings: &mut Surroundings, libraries: &[PathBuf]) {
    let exported = surroundings.loaded.exports.clone();
    for path in libraries {
        let Ok(contents) = file::read(path) else {
            surroundings.loaded.has_unknown = true;
            continue;
        };
        let mut object = symbols::of_library(&path.display().to_string(), &contents);
        // It stands for a part of the executable that gives way to any other.
        object.shared = false;
        object.system = is_system(path);
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

fn names<'a>(list: &'a [u8], between: &'static [u8]) -> impl Iterator<Item = &'a str> {
    let names = list.split(|byte| between.contains(byte));
    names.filter(|name| !name.is_empty()).filter_map(|name| str::from_utf8(name).ok())
}

/// As glibc reads it: what is behind a `#` is said to people.
fn names_in_file(text: &[u8]) -> impl Iterator<Item = &str> {
    let lines = text.split(|&byte| byte == b'\n');
    let said = lines.map(|line| line.split(|&byte| byte == b'#').next().unwrap_or_default());
    said.flat_map(|line| names(line, b": \t"))
}

fn is_system(library: &Path) -> bool {
    let folder = library.parent().and_then(|folder| folder.canonicalize().ok());
    let is_it = |system: &&str| folder.as_deref() == Some(Path::new(system));
    SYSTEM_FOLDERS.iter().any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_lists_and_in_a_file() {
        let of: Vec<&str> = names(b"liba.so:/x/libb.so  libc.so", b" :").collect();
        assert_eq!(of, ["liba.so", "/x/libb.so", "libc.so"]);
        let text = b"# for all\n/lib/liba.so /lib/libb.so # two\n\tlibc.so:libd.so\n";
        let of: Vec<&str> = names_in_file(text).collect();
        assert_eq!(of, ["/lib/liba.so", "/lib/libb.so", "libc.so", "libd.so"]);
    }
}
