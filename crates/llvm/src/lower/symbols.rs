//! The symbols of a unit.

use std::borrow::Cow;
use std::collections::BTreeSet;

use backtrail_ir::{Comdat, Func, Linkage, Sym, Symbol, SymbolKind, Visibility};
use backtrail_ir::{Index, IndexMap};
use backtrail_llvm_ffi as ffi;
use backtrail_llvm_ffi::{Function, Global, Module};

use super::Attributes;
use super::constants::Constants;
use crate::identity::{ById, Ids};

/// The symbols, and which global has which number.
pub struct Symbols {
    pub list: IndexMap<Sym, Symbol>,
    pub comdats: IndexMap<Comdat, String>,
    numbers: ById<Sym>,
    intrinsics: Ids,
    debug_intrinsics: Ids,
}

impl Symbols {
    /// All symbols of `module`, without what constants say of them.
    pub fn collect(module: &Module<'_>, attributes: &Attributes) -> Self {
        let mut symbols = Self {
            list: IndexMap::new(),
            comdats: IndexMap::new(),
            numbers: ById::default(),
            intrinsics: Ids::default(),
            debug_intrinsics: Ids::default(),
        };
        let mut comdats = ById::default();
        let mut bodies = 0;
        for function in module.functions() {
            if function.is_intrinsic() {
                if is_debug_intrinsic_name(&function.name()) {
                    symbols.debug_intrinsics.insert(function.id());
                    continue;
                }
                symbols.intrinsics.insert(function.id());
            }
            let kind = if function.is_declaration() {
                SymbolKind::ExternalFunction(function_traits(function, attributes))
            } else {
                bodies += 1;
                SymbolKind::Function(Func::new(bodies - 1))
            };
            symbols.add(*function, kind, &mut comdats);
        }
        for variable in module.variables() {
            let kind = SymbolKind::Data {
                defined: !variable.is_declaration(),
                constant: variable.is_constant(),
                size: variable.content().stride().unwrap_or(0),
                refers_to: Vec::new(),
                section: variable.section().map(Cow::into_owned),
            };
            symbols.add(variable, kind, &mut comdats);
        }
        for alias in module.aliases() {
            symbols.add(alias, SymbolKind::Alias { target: None }, &mut comdats);
        }
        for ifunc in module.ifuncs() {
            symbols.add(ifunc, SymbolKind::IFunc { resolver: None }, &mut comdats);
        }
        symbols
    }

    fn add(&mut self, global: Global<'_>, kind: SymbolKind, comdats: &mut ById<Comdat>) {
        // Groups that are not made unique decide nothing for the linker.
        let comdat = global.comdat().filter(|comdat| comdat.is_unique()).map(|comdat| {
            *comdats.entry(comdat.id()).or_insert_with(|| self.comdats.push(comdat.name()))
        });
        let symbol = self.list.push(Symbol {
            name: linkage_name(global),
            kind,
            linkage: linkage(global.linkage()),
            visibility: match global.visibility() {
                ffi::Visibility::Default => Visibility::Default,
                ffi::Visibility::Hidden => Visibility::Hidden,
                ffi::Visibility::Protected => Visibility::Protected,
            },
            comdat,
            thread_local: global.is_thread_local(),
        });
        self.numbers.insert(global.id(), symbol);
    }

    /// The number of a global.
    pub fn number(&self, global: Global<'_>) -> Option<Sym> {
        self.numbers.get(&global.id()).copied()
    }

    /// The symbols that a text mentions as words, in order.
    pub fn in_text(&self, text: &str) -> Vec<Sym> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
        let words: BTreeSet<&str> =
            text.split(|c| !is_name(c)).filter(|word| !word.is_empty()).collect();
        let found = self.list.iter().filter(|(_, symbol)| words.contains(&*symbol.name));
        found.map(|(number, _)| number).collect()
    }

    /// Whether the global is one of LLVM's intrinsics.
    pub fn is_intrinsic(&self, global: Global<'_>) -> bool {
        self.intrinsics.contains(&global.id())
    }

    /// Whether a symbol stands for code: a function, or a name for something
    /// that is called like one.
    pub fn is_code(&self, symbol: Sym) -> bool {
        !matches!(self.list[symbol].kind, SymbolKind::Data { .. })
    }

    /// Whether the value with this id is an intrinsic for debug information.
    pub fn is_debug_intrinsic(&self, id: usize) -> bool {
        !self.debug_intrinsics.is_empty() && self.debug_intrinsics.contains(&id)
    }

    /// Completes the symbols with what constants say.
    pub fn add_links(&mut self, links: Vec<(Sym, Vec<Sym>)>) {
        for (symbol, mentioned) in links {
            let first = mentioned.first().copied();
            let is_thread_local = first.is_some_and(|it| self.list[it].thread_local);
            let data = &mut self.list[symbol];
            match &mut data.kind {
                SymbolKind::Data { refers_to, .. } => *refers_to = mentioned,
                SymbolKind::Alias { target } => {
                    *target = first;
                    data.thread_local = is_thread_local;
                }
                SymbolKind::IFunc { resolver } => *resolver = first,
                SymbolKind::Function(_) | SymbolKind::ExternalFunction(_) => {}
            }
        }
    }
}

/// What the initial values of variables mention, and what aliases and ifuncs
/// lead to.
pub fn links(
    module: &Module<'_>,
    symbols: &Symbols,
    constants: &mut Constants<'_>,
) -> Vec<(Sym, Vec<Sym>)> {
    let globals = module.variables().chain(module.aliases()).chain(module.ifuncs());
    globals
        .filter_map(|global| {
            let symbol = symbols.number(global)?;
            let value = global.initializer().or_else(|| global.target())?;
            Some((symbol, constants.mentioned(value)))
        })
        .collect()
}

/// What is known of a function.
pub fn function_traits(function: Function<'_>, attributes: &Attributes) -> backtrail_ir::Traits {
    let traits = attributes.traits(|attribute| function.has(attribute));
    backtrail_ir::Traits { variadic: function.content().is_variadic(), ..traits }
}

/// Whether an intrinsic of this name only says something to debuggers: the
/// program model leaves its calls out.
pub fn is_debug_intrinsic_name(name: &str) -> bool {
    name.starts_with("llvm.dbg.")
}

/// The name the linker sees. A leading `\x01` tells LLVM to add no prefix.
pub fn linkage_name(global: Global<'_>) -> String {
    let name = global.name();
    name.strip_prefix('\u{1}').unwrap_or(&name).to_owned()
}

fn linkage(linkage: ffi::Linkage) -> Linkage {
    match linkage {
        ffi::Linkage::External => Linkage::External,
        ffi::Linkage::AvailableExternally => Linkage::AvailableExternally,
        ffi::Linkage::LinkOnceAny | ffi::Linkage::WeakAny => Linkage::Weak,
        ffi::Linkage::LinkOnceOdr | ffi::Linkage::WeakOdr => Linkage::WeakOdr,
        ffi::Linkage::Appending => Linkage::Appending,
        ffi::Linkage::Internal | ffi::Linkage::Private => Linkage::Internal,
        ffi::Linkage::ExternalWeak => Linkage::ExternWeak,
        ffi::Linkage::Common => Linkage::Common,
    }
}
