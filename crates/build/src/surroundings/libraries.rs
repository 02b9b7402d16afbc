//! The shared libraries that a file is loaded with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use backtrail_machine::elf::Elf;

use crate::carry::frame;
use crate::libraries::{SYSTEM_FOLDERS, expand_origin};

/// The libraries that were found.
pub struct Needed {
    /// Where they are, without those that are modules of their own: they carry units, and
    /// so do all by way of which they are asked for ([`crate::libraries::own_libraries`]).
    pub found: Vec<PathBuf>,
    /// Whether there are others.
    pub is_any_missing: bool,
}

/// Finds what `elf`, the file at `path`, is loaded with, directly or by way of others.
/// `linked` are the libraries that it was linked against, by the name that they are asked
/// for.
pub fn find(elf: &Elf<'_>, path: &Path, linked: &BTreeMap<String, PathBuf>) -> Needed {
    let mut found = BTreeSet::new();
    let mut modules = BTreeSet::new();
    let mut is_any_missing = false;
    let mut seen = BTreeSet::new();
    let mut pending = Vec::new();
    let needs = |elf: &Elf<'_>, path: &Path, by: AskedBy| {
        let folders = run_path(elf, path);
        elf.needed().into_iter().map(move |name| (name, folders.clone(), by)).collect::<Vec<_>>()
    };
    pending.extend(needs(elf, path, AskedBy::Module));
    while let Some((name, folders, by)) = pending.pop() {
        if !seen.insert((name.clone(), by)) {
            continue;
        }
        let in_folder = |folder: &Path| Some(folder.join(&name)).filter(|path| path.is_file());
        let library = folders
            .iter()
            .find_map(|folder| in_folder(folder))
            .or_else(|| linked.get(&name).cloned())
            .or_else(|| SYSTEM_FOLDERS.iter().find_map(|folder| in_folder(Path::new(folder))))
            .or_else(|| linked.values().find_map(|other| in_folder(other.parent()?)));
        let contents = library.as_ref().and_then(|path| std::fs::read(path).ok());
        let (Some(library), Some(contents)) = (library, contents) else {
            is_any_missing = true;
            continue;
        };
        let Ok(elf) = Elf::parse(&contents) else {
            is_any_missing = true;
            continue;
        };
        let carries = elf.section_names().iter().any(|name| name == backtrail_abi::UNIT_SECTION);
        let by = if carries { by } else { AskedBy::Native };
        pending.extend(needs(&elf, &library, by));
        match by {
            AskedBy::Module => modules.insert(library),
            AskedBy::Native => found.insert(library),
        };
    }
    let found = found.difference(&modules).cloned().collect();
    Needed { found, is_any_missing }
}

/// By what a library is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AskedBy {
    /// What carries units.
    Module,
    /// What does not, or is itself asked for by such a library alone.
    Native,
}

fn run_path(elf: &Elf<'_>, path: &Path) -> Vec<PathBuf> {
    let origin = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folders = elf.run_path().into_iter().filter(|folder| !folder.is_empty());
    folders.map(|folder| expand_origin(&folder, origin)).collect()
}

/// What tells whether a library is the same.
pub fn identity(bytes: &[u8]) -> [u8; 16] {
    let build_id = Elf::parse(bytes).ok().and_then(|elf| elf.build_id().ok().flatten());
    match build_id {
        Some(id) if !id.is_empty() => frame::hash(&[&id]),
        _ => frame::hash(&[bytes]),
    }
}
