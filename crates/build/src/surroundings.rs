//! What a file was linked with besides its units: found when it is linked, carried in its
//! recipe, used by whoever asks what a name means or who may call a function.
//!
//! Objects are looked for as the linker does it, with the members of archives that it took
//! (`archives.rs`); shared libraries are all that the file is loaded with (`libraries.rs`),
//! and what a run loads before them (`preloaded.rs`).
//! Of all these, only what concerns the units is kept: of an object what it defines, and
//! which of the units' names it refers to; of a library, which of the names that the file
//! exports.
//!
//! What the linker's words themselves refer to (`-u`, `-e`, `--defsym`), and a linker
//! script, counts as an object; what they assign is defined in it. So does what the loader
//! enters, if a unit has it: `_start`, unless the linker was told another name.

mod archives;
mod assignments;
mod libraries;
mod preloaded;
mod symbols;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use backtrail_ir::program::{Loaded, SurroundingNative, Surroundings, Wrapping};
use backtrail_machine::elf::{Elf, Kind};
use backtrail_outside as outside;
use object::{Object as _, ObjectSymbol as _};

use crate::Error;
use crate::carry::Carried;
use crate::carry::recipe::{Library, Recipe};
use crate::carry::unit::UnitRecord;
use crate::libraries::find as find_library;
use crate::link::LinkCommand;
use crate::link_args::LinkArg;
use archives::Objects;
use assignments::Assignment;

/// What the linker was told about names.
#[derive(Debug, Default)]
struct Told {
    wrapped: Vec<String>,
    /// Names that its words refer to.
    mentioned: BTreeSet<String>,
    /// What it assigns to names.
    assigned: Vec<Assignment>,
    /// Whether it was told where the program begins.
    has_entry: bool,
}

/// Where a program begins, if nothing else is said.
const START: &str = "_start";

/// Options whose value is a name, or begins with one.
const NAMES: [&str; 4] = ["u", "undefined", "require-defined", "export-dynamic-symbol"];

impl Told {
    fn new(arguments: &[LinkArg], through_driver: bool) -> Self {
        let mut told = Self::default();
        let mut words = Vec::new();
        for argument in arguments {
            let LinkArg::Text(text) = argument else { continue };
            // The linker's next word.
            if through_driver && text == "-Xlinker" {
                continue;
            }
            match text.strip_prefix("-Wl,").filter(|_| through_driver) {
                Some(list) => words.extend(list.split(',')),
                None => words.push(&**text),
            }
        }
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
                continue;
            };
            let (option, value) = match name.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (name, None),
            };
            let mut value = || value.or_else(|| words.next()).unwrap_or_default().to_owned();
            match option {
                "wrap" => told.wrapped.push(value()),
                "init" | "fini" => drop(told.mentioned.insert(value())),
                "defsym" => {
                    let value = value();
                    told.mentioned.extend(names_in(&value));
                    told.assigned.extend(assignments::of(&value));
                }
                "e" | "entry" => {
                    told.has_entry = true;
                    told.mentioned.insert(value());
                }
                _ if NAMES.contains(&option) => drop(told.mentioned.insert(value())),
                _ => {}
            }
        }
        told
    }
}

/// Whether it is a linker that remembers what archives define: lld, mold.
fn is_lld(command: &LinkCommand<'_>) -> bool {
    let is_one = |name: &str| name.contains("lld") || name.contains("mold");
    let name = command.linker.file_name().unwrap_or_default().to_string_lossy();
    let mut used = command.arguments.iter().filter_map(|argument| match argument {
        LinkArg::Text(text) => text.strip_prefix("-fuse-ld="),
        _ => None,
    });
    is_one(&name) || used.next_back().is_some_and(is_one)
}

/// All words that could be names of symbols.
fn names_in(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "_.$@".contains(c)));
    words.filter(|word| !word.is_empty()).map(str::to_owned)
}

/// Finds what `output`, which was linked by `command`, was linked with, and notes it in
/// the recipe.
pub fn note(
    recipe: &mut Recipe,
    command: &LinkCommand<'_>,
    output: &Path,
    bytes: &[u8],
    units: &[UnitRecord],
    is_system: &dyn Fn(&Path) -> bool,
) -> Result<(), Error> {
    let elf = Elf::parse(bytes).map_err(Error::machine(output))?;
    let told = Told::new(&command.arguments, command.through_driver);
    let is_lld = is_lld(command);
    let mut objects = Objects::new(units, is_system, is_lld);
    objects.wrap(&told.wrapped);
    objects.told(told.mentioned, told.assigned);
    let begins = !told.has_entry && defines(units, START);
    if begins && elf.kind().is_ok_and(|kind| kind != Kind::SharedLibrary) {
        objects.told([START.to_owned()].into(), Vec::new());
    }
    objects.link(&command.arguments)?;
    let bound = symbols::of_library("", bytes);
    let exports: BTreeSet<String> = bound.definitions.into_iter().map(|it| it.name).collect();
    let mut natives = objects.taken(&exports);
    let assigned: HashSet<String> = assigned_names(&natives).map(str::to_owned).collect();
    let known = Names::new(units, &told.wrapped, &assigned);
    for native in natives.iter_mut().filter(|native| native.object.system) {
        native.object.references.retain(|name| known.concerns(name));
    }
    // What an executable defines is always meant in it.
    let mut preemptible: BTreeSet<String> = match elf.kind().map_err(Error::machine(output))? {
        Kind::SharedLibrary => bound.references.into_iter().collect(),
        _ => BTreeSet::new(),
    };
    preemptible.retain(|name| exports.contains(name));
    let needed = libraries::find(&elf, output, objects.libraries());
    let mut libraries = Vec::new();
    for path in needed.found {
        let contents = std::fs::read(&path).map_err(Error::read(&path))?;
        let (identity, system) = (libraries::identity(&contents), is_system(&path));
        let path = std::path::absolute(&path).unwrap_or(path);
        libraries.push(Library { path, identity, system });
    }
    recipe.libraries = libraries;
    recipe.surroundings = Surroundings {
        natives,
        wrapped: told.wrapped,
        wrapping: if is_lld { Wrapping::All } else { Wrapping::Foreign },
        loaded: Loaded { exports, preemptible, has_unknown: needed.is_any_missing },
    };
    add_libraries(&mut recipe.surroundings, &recipe.libraries, &undefined(bytes), units.len())
}

/// Whether a unit has a symbol of this name.
fn defines(units: &[UnitRecord], name: &str) -> bool {
    units.iter().flat_map(|unit| &unit.meta.symbols).any(|(symbol, _)| symbol == name)
}

/// A library that is not what a file was linked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// There is another one in its place.
    Other(PathBuf),
    /// It is not where it was, nor where the loader looks.
    Gone(PathBuf),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(path) => write!(
                f,
                "{} has changed since the link; what it calls is read anew",
                path.display()
            ),
            Self::Gone(path) => write!(
                f,
                "{} is not there any more; it is reckoned to call anything",
                path.display()
            ),
        }
    }
}

/// What surrounds the units of a file, with libraries as they are now; and which have
/// changed since it was linked.
pub fn current(carried: &Carried) -> (Surroundings, Vec<Change>) {
    let Some(recipe) = &carried.recipe else { return <_>::default() };
    let mut changes = Vec::new();
    let mut libraries = recipe.libraries.clone();
    for library in &mut libraries {
        if !library.path.is_file()
            && let Some(name) = library.path.file_name().and_then(|it| it.to_str())
            && let Some(path) = find_library(carried, name)
        {
            library.path = path;
        }
        match std::fs::read(&library.path) {
            Err(_) => changes.push(Change::Gone(library.path.clone())),
            Ok(contents) if libraries::identity(&contents) != library.identity => {
                changes.push(Change::Other(library.path.clone()));
            }
            Ok(_) => {}
        }
    }
    let mut surroundings = recipe.surroundings.clone();
    if changes.is_empty() {
        return (surroundings, changes);
    }
    let wanted: HashSet<String> = surroundings
        .natives
        .iter()
        .filter(|it| it.object.shared)
        .flat_map(|it| it.object.definitions.iter().map(|it| it.name.clone()))
        .collect();
    surroundings.natives.retain(|native| !native.object.shared);
    let units = surroundings.natives.iter().map(|it| it.units_before).max().unwrap_or_default();
    libraries.retain(|library| !changes.contains(&Change::Gone(library.path.clone())));
    let are_read = add_libraries(&mut surroundings, &libraries, &wanted, units as usize).is_ok();
    let is_any_gone = changes.iter().any(|change| matches!(change, Change::Gone(_)));
    surroundings.loaded.has_unknown |= !are_read || is_any_gone;
    (surroundings, changes)
}

/// What surrounds the units of a file that is run here and now: the same, and what the
/// loader is told to load before.
pub fn of_run(carried: &Carried) -> (Surroundings, Vec<Change>) {
    let (mut surroundings, changes) = current(carried);
    if carried.kind != Kind::SharedLibrary {
        load_first(&mut surroundings, &preloaded::of_run(carried));
    }
    (surroundings, changes)
}

/// Adds libraries that are loaded before those that an executable asks for.
pub fn load_first(surroundings: &mut Surroundings, libraries: &[PathBuf]) {
    preloaded::add(surroundings, libraries);
}

fn add_libraries(
    surroundings: &mut Surroundings,
    libraries: &[Library],
    wanted: &HashSet<String>,
    units: usize,
) -> Result<(), Error> {
    // The program's own come first, as where they are loaded before the system's.
    let (of_system, own): (Vec<&Library>, Vec<&Library>) =
        libraries.iter().partition(|library| library.system);
    for Library { path, system, .. } in own.into_iter().chain(of_system) {
        let contents = std::fs::read(path).map_err(Error::read(path))?;
        let mut object = symbols::of_library(&path.display().to_string(), &contents);
        object.system = *system;
        let own: HashSet<&str> = object.definitions.iter().map(|it| &*it.name).collect();
        let exports = &surroundings.loaded.exports;
        // A library of the program's own may refer to what another one has.
        let concerns = |name: &str| {
            exports.contains(name) || ((!system || installs_hooks(name)) && !own.contains(name))
        };
        let references = std::mem::take(&mut object.references);
        object.references = references.into_iter().filter(|name| concerns(name)).collect();
        // What other libraries ask for by name may be a library's of the program's own.
        let is_replaced = |name: &str| !system && outside::of(name).is_some();
        object.definitions.retain(|it| wanted.contains(&it.name) || is_replaced(&it.name));
        if !object.references.is_empty() || !object.definitions.is_empty() {
            let units_before = units as u32;
            surroundings.natives.push(SurroundingNative { units_before, object });
        }
    }
    Ok(())
}

/// Whether a function or variable of a library is there to leave hooks.
fn installs_hooks(name: &str) -> bool {
    outside::of(name).is_some_and(|row| !row.installs.is_empty())
        || outside::hooks_through(name).is_some()
}

/// The names that concern the units.
struct Names<'a> {
    defined: HashSet<&'a str>,
    wrapped: &'a [String],
    /// What the linker was told to be another name of something.
    assigned: &'a HashSet<String>,
}

impl<'a> Names<'a> {
    fn new(units: &'a [UnitRecord], wrapped: &'a [String], assigned: &'a HashSet<String>) -> Self {
        let names = units.iter().flat_map(|unit| &unit.meta.symbols);
        Self { defined: names.map(|(name, _)| &**name).collect(), wrapped, assigned }
    }

    fn concerns(&self, name: &str) -> bool {
        let real = name.strip_prefix("__real_").unwrap_or(name);
        self.defined.contains(name)
            || self.assigned.contains(name)
            || self.wrapped.iter().any(|it| it == real)
            || installs_hooks(name)
    }
}

fn assigned_names(natives: &[SurroundingNative]) -> impl Iterator<Item = &str> {
    let definitions = natives.iter().flat_map(|native| &native.object.definitions);
    definitions.filter(|it| it.means.is_some()).map(|it| &*it.name)
}

/// The names that a linked file asks others for.
fn undefined(bytes: &[u8]) -> HashSet<String> {
    let Ok(file) = object::File::parse(bytes) else { return HashSet::new() };
    let asked = file.dynamic_symbols().filter(|symbol| symbol.is_undefined());
    asked.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())).collect()
}
