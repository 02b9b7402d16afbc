//! The symbols of a module that something outside its units refers to.

use std::collections::BTreeSet;
use std::path::Path;

use backtrail_plan::frames::Outside;
use object::read::archive::ArchiveFile;
use object::{Object as _, ObjectSymbol as _};

use crate::Error;
use crate::carry::Carried;
use crate::carry::recipe::{InputKind, Recipe, decompress_native};
use crate::carry::unit::{Damaged, UnitRecord};

/// The names that a file exports, or that what it was linked with besides its
/// units refers to. More names than that do no harm.
pub fn from_outside(carried: &Carried, recipe: &Recipe) -> Result<BTreeSet<String>, Error> {
    let mut names = BTreeSet::new();
    let own = std::fs::read(&carried.path).map_err(Error::read(&carried.path))?;
    if let Ok(file) = object::File::parse(&own[..]) {
        let exported = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
        names.extend(exported.filter_map(|symbol| symbol.name().ok().map(str::to_owned)));
    }
    for input in &recipe.inputs {
        add_input(&mut names, carried, &input.path, &input.kind)?;
    }
    Ok(names)
}

/// What is outside of the units of a file, as far as it matters to them.
pub fn outside(
    carried: &Carried,
    recipe: &Recipe,
    units: &[&UnitRecord],
) -> Result<Outside, Error> {
    let names = from_outside(carried, recipe)?;
    let mut refers_to = BTreeSet::new();
    for record in units {
        let damaged = |Damaged(what)| Error::Damaged { path: carried.path.clone(), what };
        let Some(unit) = record.model().map_err(damaged)? else { continue };
        let own = unit.symbols.values().filter(|symbol| names.contains(&symbol.name));
        refers_to.extend(own.map(|symbol| symbol.name.clone()));
    }
    let is_native = |kind: &InputKind| matches!(kind, InputKind::Native { .. });
    let has_native = recipe.inputs.iter().any(|input| match &input.kind {
        InputKind::Archive(members) => members.iter().any(|member| is_native(&member.kind)),
        kind => is_native(kind),
    });
    Ok(Outside { refers_to: refers_to.into_iter().collect(), has_native })
}

fn add_input(
    names: &mut BTreeSet<String>,
    carried: &Carried,
    path: &Path,
    kind: &InputKind,
) -> Result<(), Error> {
    match kind {
        InputKind::Native { contents, .. } => {
            let contents = decompress_native(contents).map_err(|damaged| Error::Damaged {
                path: carried.path.clone(),
                what: damaged.0,
            })?;
            add_file(names, &contents);
        }
        InputKind::Archive(members) => {
            for member in members {
                add_input(names, carried, path, &member.kind)?;
            }
        }
        // What is gone by now is missed by the linker, too, and named there.
        InputKind::System => {
            if let Ok(contents) = std::fs::read(path) {
                add_file(names, &contents);
            }
        }
        InputKind::Units(_) | InputKind::Shared { .. } => {}
    }
    Ok(())
}

/// Adds what an object or archive refers to; other files refer to nothing, but
/// linker scripts, whose words are all taken for names.
fn add_file(names: &mut BTreeSet<String>, contents: &[u8]) {
    if let Ok(file) = object::File::parse(contents) {
        let undefined = file.symbols().filter(|symbol| symbol.is_undefined());
        names.extend(undefined.filter_map(|symbol| symbol.name().ok().map(str::to_owned)));
    } else if let Ok(archive) = ArchiveFile::parse(contents) {
        for member in archive.members().flatten() {
            if let Ok(data) = member.data(contents) {
                add_file(names, data);
            }
        }
    } else if let Ok(text) = std::str::from_utf8(contents) {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_.$@".contains(c)));
        names.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
    }
}
