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
//! Not modelled: `--gc-sections` and identical code folding, which take away
//! code that is unused or there twice, without changing what a symbol means;
//! interposition when the program is loaded, which can give the default-visible
//! symbols of a shared library another meaning; `--defsym` and linker scripts.
//!
//! Cost: O(symbols) expected, one hash table of names.

mod counts;
mod resolve;

use std::fmt;

use backtrail_graph::{IndexMap, define_index};

pub use counts::{Calls, Counts};

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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NativeObject {
    /// The file, for messages.
    pub name: String,
    /// Whether it is a shared library, linked against and not in.
    pub shared: bool,
    /// What it defines and lets others see.
    pub definitions: Vec<NativeDefinition>,
}

/// A symbol that a native object defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeDefinition {
    /// Its name.
    pub name: String,
    /// How it stands against others of its name.
    pub strength: Strength,
    /// The name of the COMDAT group it is in.
    pub comdat: Option<String>,
}

/// How a definition stands against others of its name: the greater wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// It may be overridden.
    Weak,
    /// It is a tentative definition of so many bytes.
    Common(u64),
    /// It must be the only one.
    Strong,
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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

/// Units joined by symbol resolution.
#[derive(Debug, Clone)]
pub struct Program<'u> {
    inputs: IndexMap<Object, Input<'u>>,
    /// By object and symbol; empty for native objects.
    resolutions: IndexMap<Object, IndexMap<Sym, Resolution>>,
    fates: IndexMap<Object, IndexMap<Func, Fate>>,
    duplicates: Vec<Duplicate>,
}

impl<'u> Program<'u> {
    /// Joins what is linked. The units must be verified.
    pub fn new(link: Link<'u>) -> Self {
        resolve::program(link)
    }

    /// Joins units, in link order, of a link of which no more is known.
    pub fn of_units(units: impl IntoIterator<Item = &'u Unit>) -> Self {
        let inputs = units.into_iter().map(Input::Unit).collect();
        Self::new(Link { inputs, ..Link::default() })
    }

    /// All inputs, in link order.
    pub fn inputs(&self) -> &IndexMap<Object, Input<'u>> {
        &self.inputs
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
