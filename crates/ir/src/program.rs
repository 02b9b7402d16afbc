//! A program: units joined by symbol resolution, with the linker's rules.
//!
//! The input is what was really linked, in link order: the units, the native
//! objects and shared libraries as far as their symbols are known, and of an
//! archive only the members the linker took. The answer is, for every symbol of
//! every unit, which definition it means, and for every function whether its
//! code is in the result.
//!
//! Rules, those of ELF linkers (System V gABI, "Symbol Table" and "Section
//! Groups"; GNU ld, LLD):
//!
//! - *Groups.* Of the COMDAT groups of one name the first in link order is kept.
//!   The others' members are discarded, with the internal symbols among them; a
//!   reference to a discarded symbol that is not internal means whatever its
//!   name means.
//! - *Strength.* A strong definition beats a common one, a common one beats a
//!   weak one. Of several weak ones the first counts, of several common ones the
//!   largest, the first of these. Several strong ones are an error of the
//!   program ([`Program::duplicates`]); the first counts, as for linkers that
//!   are told to go on.
//! - *What is seen.* Internal symbols are those of their unit. Hidden and
//!   protected ones are seen by all that is linked together, like default ones.
//!   A body that is `AvailableExternally` is no definition. Shared libraries
//!   define only what nothing else does.
//! - *Aliases* are definitions under a name of their own. What they name is the
//!   place in their own unit, even if the name of that place means something
//!   else to everyone.
//! - *`--wrap`.* A reference to NAME means `__wrap_NAME`, and one to
//!   `__real_NAME` means NAME. Where NAME is defined, linkers differ
//!   ([`Wrapping`]).
//!
//! What nothing given defines is [`Resolution::Elsewhere`]: in a shared library
//! or an object that was not given, in the linker itself (`_end`), or in
//! assembly at module level, whose symbols are not seen. A weak reference that
//! nothing given defines is [`Resolution::Null`]. LLVM's own functions (`llvm.…`)
//! are no symbols to the linker and always elsewhere.
//!
//! - *Assignments.* A name that the linker's words or a script assign (`--defsym`) means
//!   what they say, if that is another name, and else something unknown; whatever else
//!   defines it.
//! - *Modules.* An executable and its shared libraries are linked each by itself, and
//!   bound when they are loaded: a name that a module does not define, and one that it
//!   defines so that it can be preempted, means the first of the modules that exports it,
//!   of whatever strength (gABI, "Shared Object Dependencies").
//! - *Names that others use.* Objects without a unit and libraries that are not given
//!   refer to names; what these mean is found in the same way ([`Program::by_name`]).
//!
//! Not modelled: `--gc-sections` and identical code folding, which take away
//! code that is unused or there twice, without changing what a symbol means.
//! The words of linker scripts count as references.
//!
//! Cost: O(symbols) expected, one hash table of names for each module.

mod counts;
mod resolve;
mod surroundings;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use backtrail_graph::{IndexMap, define_index};

use serde::{Deserialize, Serialize};

pub use counts::{Calls, Counts};
pub use resolve::wrapped_name;
pub use surroundings::{Loaded, SurroundingNative, Surroundings};

use crate::{CallData, Callee, Func, Linkage, Sym, SymbolKind, Unit};

define_index!(
    /// Something that was linked: a unit, a native object, a shared library.
    Object, "o"
);

/// What is linked.
#[derive(Debug, Clone)]
pub enum Input<'u> {
    /// A unit, which verifies.
    Unit(&'u Unit),
    /// A file of which only the symbols are known.
    Native(NativeObject),
}

/// The symbols of an object without a unit, or of a shared library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeObject {
    /// The file, for messages.
    pub name: String,
    /// Whether it is a shared library, linked against and not in.
    pub shared: bool,
    /// Whether it is of the system or the toolchain: what its functions do is known by
    /// their names.
    pub system: bool,
    /// What it defines and lets others see.
    pub definitions: Vec<NativeDefinition>,
    /// What it refers to by name, and may call.
    pub references: Vec<String>,
}

/// A symbol that a native object defines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeDefinition {
    /// Its name.
    pub name: String,
    /// How it stands against others of its name.
    pub strength: Strength,
    /// The name of the COMDAT group it is in.
    pub comdat: Option<String>,
    /// The name that it is another one for, if the linker was told so (`--defsym`).
    pub means: Option<String>,
}

/// How a definition stands against others of its name: the greater wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Strength {
    /// It may be overridden.
    Weak,
    /// It is a tentative definition of so many bytes.
    Common(u64),
    /// It must be the only one.
    Strong,
    /// The linker was told what the name is, whatever defines it (`--defsym`).
    Told,
}

/// What is linked, and how.
#[derive(Debug, Clone, Default)]
pub struct Link<'u> {
    /// The inputs, in link order.
    pub inputs: Vec<Input<'u>>,
    /// The names given with `--wrap`.
    pub wrapped: Vec<String>,
    /// Which references these names concern.
    pub wrapping: Wrapping,
}

/// Which references `--wrap` concerns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wrapping {
    /// Those from objects that do not define the name: GNU ld.
    #[default]
    Foreign,
    /// All: LLD.
    All,
}

/// What a symbol means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// A function with a body.
    Function(Object, Func),
    /// Data of a unit; or the symbol itself, if it is an alias of which the
    /// model does not know what it names.
    Data(Object, Sym),
    /// A function of a unit that is chosen when the program is loaded.
    IFunc(Object, Sym),
    /// Something in this native object or shared library.
    Native(Object),
    /// Something that no input defines.
    Elsewhere,
    /// A weak reference that no input defines: null, unless there was more to
    /// the link than was given.
    Null,
    /// An internal symbol in a COMDAT group whose copy here was discarded.
    Discarded,
}

/// What became of a function's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is in the program, and its symbol means it.
    Kept,
    /// It is in the program, and its symbol means another definition.
    Overridden,
    /// It was in a COMDAT group of which another copy was kept.
    Discarded,
    /// No code is made from this body.
    NoCode,
}

/// Two strong definitions of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The name.
    pub name: String,
    /// Where the one is that counts.
    pub first: Object,
    /// Where another one is.
    pub second: Object,
    /// What these objects are called.
    pub objects: (String, String),
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = &self.objects;
        let name = self.name.escape_debug();
        write!(f, "'{name}' is defined in '{first}' and again in '{second}'")
    }
}

impl std::error::Error for Duplicate {}

/// Which code that is not of the units refers to a function by its name, and may call
/// it whenever it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByName {
    /// An object of the program's that was linked into one of its modules, or the
    /// linker's command line.
    pub object: bool,
    /// A shared library without units, or an object of the system.
    pub library: bool,
    /// Whoever asks for it while the program runs (`dlsym`), or is loaded then.
    pub exported: bool,
}

impl ByName {
    /// Whether any such code does.
    pub fn is_any(self) -> bool {
        self.object || self.library || self.exported
    }
}

/// Units joined by symbol resolution.
#[derive(Debug, Clone)]
pub struct Program<'u> {
    inputs: IndexMap<Object, Input<'u>>,
    /// By object: the module that it is in.
    modules: IndexMap<Object, u32>,
    /// By module: the names given with `--wrap`.
    wrapped: Vec<HashSet<String>>,
    by_name: IndexMap<Object, IndexMap<Func, ByName>>,
    /// The names besides its own under which what is linked with it finds a function.
    other_names: BTreeMap<(Object, Func), BTreeSet<String>>,
    has_unknown: bool,
    /// By object and symbol; empty for native objects.
    resolutions: IndexMap<Object, IndexMap<Sym, Resolution>>,
    fates: IndexMap<Object, IndexMap<Func, Fate>>,
    duplicates: Vec<Duplicate>,
}

impl<'u> Program<'u> {
    /// Joins what is linked into one executable, which exports nothing. The units must be
    /// verified.
    pub fn new(link: Link<'u>) -> Self {
        resolve::program(vec![(link, Loaded::default())])
    }

    /// A program as it was linked: the units of each of its modules with what else was
    /// linked into it, the executable first, and the libraries in the order in which they
    /// are searched. One module alone may be a library.
    pub fn linked<'s>(
        modules: impl IntoIterator<Item = (Vec<&'u Unit>, &'s Surroundings)>,
    ) -> Self {
        let link = |(units, surroundings): (Vec<&'u Unit>, &Surroundings)| {
            (surroundings.link(units), surroundings.loaded.clone())
        };
        resolve::program(modules.into_iter().map(link).collect())
    }

    /// All inputs, in link order.
    pub fn inputs(&self) -> &IndexMap<Object, Input<'u>> {
        &self.inputs
    }

    /// The module that `object` is in, by its place.
    pub fn module(&self, object: Object) -> usize {
        self.modules[object] as usize
    }

    /// The name by which the unit `object` refers to what is not in its own file when it
    /// says `symbol`, as `--wrap` has it.
    pub fn external_name(&self, object: Object, symbol: Sym) -> Cow<'u, str> {
        let unit = self.unit(object).expect("only units have symbols");
        resolve::wrapped_name(&self.wrapped[self.module(object)], &unit.symbols[symbol].name)
    }

    /// Whether it is loaded with libraries of which it is not known what they refer to.
    pub fn has_unknown(&self) -> bool {
        self.has_unknown
    }

    /// Which code that is not of the units refers to `function` of the unit `object`.
    pub fn by_name(&self, object: Object, function: Func) -> ByName {
        self.by_name[object][function]
    }

    /// The names under which what is linked with it finds `function` of the unit `object`:
    /// its own, those that are aliases of it or assigned to it, and what `--wrap` has
    /// go to it.
    pub fn names(&self, object: Object, function: Func) -> impl Iterator<Item = &str> {
        let unit = self.unit(object).expect("functions are of units");
        let own = &*unit.symbols[unit.functions[function].symbol].name;
        let others = self.other_names.get(&(object, function)).into_iter().flatten();
        std::iter::once(own).chain(others.map(|it| &**it))
    }

    /// The unit that `object` is, if it is one.
    pub fn unit(&self, object: Object) -> Option<&'u Unit> {
        match self.inputs[object] {
            Input::Unit(unit) => Some(unit),
            Input::Native(_) => None,
        }
    }

    /// The units, in link order.
    pub fn units(&self) -> impl Iterator<Item = (Object, &'u Unit)> + '_ {
        self.inputs.indices().filter_map(|object| Some((object, self.unit(object)?)))
    }

    /// What `symbol` of the unit `object` means.
    ///
    /// # Panics
    /// If `object` is not a unit or has no such symbol.
    pub fn resolve(&self, object: Object, symbol: Sym) -> Resolution {
        self.resolutions[object][symbol]
    }

    /// Who is called by a call in the unit `object`; none for indirect calls and
    /// assembly, and for LLVM's own functions.
    pub fn callee(&self, object: Object, call: &CallData) -> Option<Resolution> {
        match call.callee {
            Callee::Direct(symbol) => Some(self.resolve(object, symbol)),
            Callee::Indirect | Callee::Intrinsic(_) | Callee::Asm => None,
        }
    }

    /// What became of `function` of the unit `object`.
    pub fn fate(&self, object: Object, function: Func) -> Fate {
        self.fates[object][function]
    }

    /// Whether the code of `function` is in the program, whether or not its
    /// symbol means it.
    pub fn kept(&self, object: Object, function: Func) -> bool {
        matches!(self.fate(object, function), Fate::Kept | Fate::Overridden)
    }

    /// The names with more than one strong definition: a program that links
    /// has none, unless the linker was told to go on.
    pub fn duplicates(&self) -> &[Duplicate] {
        &self.duplicates
    }

    /// How large the program is: what its kept functions add up to.
    pub fn counts(&self) -> Counts {
        counts::of(self)
    }
}

impl Input<'_> {
    /// What messages call it.
    pub fn name(&self) -> &str {
        match self {
            Self::Unit(unit) => &unit.name,
            Self::Native(native) => &native.name,
        }
    }
}

/// Whether the unit makes `kind` with `linkage` under its name, for the linker.
fn is_definition(kind: &SymbolKind, linkage: Linkage) -> bool {
    let defined = match kind {
        SymbolKind::ExternalFunction(_) => false,
        SymbolKind::Data { defined, .. } => *defined,
        SymbolKind::Function(_) | SymbolKind::Alias { .. } | SymbolKind::IFunc { .. } => true,
    };
    defined && linkage != Linkage::AvailableExternally
}
