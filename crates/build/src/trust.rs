//! Executables from elsewhere: what of their recipes is carried out.
//!
//! To derive a variant means to run a linker and compilers with words that stand in
//! the executable. Its maker chose them, and a sum guards against damage only, not
//! against intent. So there are two kinds of recipes:
//!
//! - Those that this user made are carried out as they are. Each link notes a hash of
//!   all that a derivation goes by ([`known`]) outside of the executable, which stays
//!   what it was.
//! - Of any other one, each word must be on a list of what can neither run code nor
//!   touch other files (`linking`, `link_inputs`, `generating`); the programs are this machine's
//!   own, looked for by name and version (`installed`), never by a path that is
//!   carried; and assembly in bitcode reads no files. What is not on the list is named
//!   and refused, before anything is run.
//!
//! Whoever knows better says so ([`Trust::AsItIs`]). Bitcode is read by libLLVM in a
//! process of its own in any case; that is a parser, and stays one.

mod generating;
mod installed;
pub mod known;
mod link_inputs;
mod link_words;
mod linking;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::Error;
use crate::carry::Carried;
use crate::carry::recipe::Recipe;
use crate::carry::unit::{Generator, UnitRecord};
use installed::Installed;

/// Whether recipes that this user did not make are carried out as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Only what cannot do harm.
    #[default]
    Checked,
    /// All.
    AsItIs,
}

impl Trust {
    /// What `--trust` says.
    pub fn given(trusted: bool) -> Self {
        if trusted { Self::AsItIs } else { Self::Checked }
    }
}

/// What makes the object of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Maker {
    /// The libLLVM.
    pub library: PathBuf,
    /// The compiler and its options.
    pub generator: Generator,
    /// Whether assembly in the unit may read files.
    pub reads_files: bool,
}

/// How a file is derived.
pub struct Admitted<'a> {
    /// How it is linked.
    pub recipe: Cow<'a, Recipe>,
    /// What makes the objects of its units, where that is not what they say.
    makers: BTreeMap<[u8; 16], Maker>,
}

impl Admitted<'_> {
    /// What makes the object of `unit`.
    pub fn maker(&self, unit: &UnitRecord) -> Maker {
        let carried = || Maker {
            library: unit.meta.library.clone(),
            generator: unit.meta.generator.clone(),
            reads_files: true,
        };
        self.makers.get(&unit.meta.id).cloned().unwrap_or_else(carried)
    }
}

/// What may be carried out of `recipe`, by which `carried` was linked, and of its
/// `units`, which are to be made again.
pub fn admit<'a>(
    trust: Trust,
    carried: &Carried,
    recipe: &'a Recipe,
    units: &[&UnitRecord],
) -> Result<Admitted<'a>, Error> {
    let as_it_is = || Admitted { recipe: Cow::Borrowed(recipe), makers: BTreeMap::new() };
    if trust == Trust::AsItIs || known::is_known(&known::fingerprint(recipe, &carried.units)) {
        return Ok(as_it_is());
    }
    let refused = |what: String| Error::Untrusted { path: carried.path.clone(), what };
    let mut installed = Installed::find();
    let mut makers = BTreeMap::new();
    for unit in units {
        let name = &unit.meta.name;
        let library_gone = || Error::LibraryGone {
            unit: name.clone(),
            version: unit.meta.compiler.clone(),
            library: unit.meta.library.clone(),
        };
        let maker = match &unit.meta.generator {
            Generator::Clang { program, arguments } => {
                generating::check(arguments).map_err(|what| refused(format!("{name}: {what}")))?;
                let own = installed.clang(&unit.meta.compiler, program);
                let own = own.ok_or_else(library_gone)?;
                let generator =
                    Generator::Clang { program: own.program, arguments: arguments.clone() };
                Maker { library: own.library, generator, reads_files: false }
            }
            Generator::Library(codegen) => {
                generating::check_library(codegen)
                    .map_err(|what| refused(format!("{name}: {what}")))?;
                let own = installed.rust_library(&unit.meta.compiler, &unit.meta.library);
                Maker {
                    library: own.ok_or_else(library_gone)?,
                    generator: unit.meta.generator.clone(),
                    reads_files: false,
                }
            }
            Generator::None => {
                Maker { library: PathBuf::new(), generator: Generator::None, reads_files: false }
            }
        };
        makers.insert(unit.meta.id, maker);
    }
    linking::check(recipe, &installed).map_err(refused)?;
    let linker = installed.linker(&recipe.linker, recipe.through_driver).map_err(refused)?;
    let recipe = Cow::Owned(Recipe { linker, ..recipe.clone() });
    Ok(Admitted { recipe, makers })
}
