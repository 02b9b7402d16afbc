//! The resolution itself. See [`super`] for the rules.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use backtrail_graph::IndexMap;

use super::{
    Duplicate, Fate, Input, Link, NativeObject, Object, Program, Resolution, Strength, Wrapping,
    is_definition,
};
use crate::{Func, Function, Linkage, Sym, Symbol, SymbolKind, Unit};

pub(super) fn program(link: Link<'_>) -> Program<'_> {
    let inputs: IndexMap<Object, Input<'_>> = link.inputs.into_iter().collect();
    let groups = Groups::new(&inputs);
    let bases: IndexMap<Object, Bases> =
        inputs.iter().map(|(object, input)| Bases::new(&groups, object, input)).collect();
    let mut names = Names { table: HashMap::new(), duplicates: Vec::new() };
    for (object, input) in inputs.iter() {
        match input {
            Input::Unit(unit) => names.define_unit(&bases[object], object, unit),
            Input::Native(native) => names.define_native(&groups, object, native),
        }
    }
    let name = |object: Object| inputs[object].name().to_string();
    let duplicate = |(symbol, first, second): (&str, Object, Object)| Duplicate {
        name: symbol.to_string(),
        first,
        second,
        objects: (name(first), name(second)),
    };
    let duplicates = names.duplicates.into_iter().map(duplicate).collect();
    let resolver = Resolver {
        inputs: &inputs,
        bases: &bases,
        table: &names.table,
        wrapping: link.wrapping,
        wrapped: link.wrapped.iter().map(String::as_str).collect(),
    };
    let resolutions: IndexMap<Object, IndexMap<Sym, Resolution>> = inputs
        .iter()
        .map(|(object, input)| match input {
            Input::Unit(unit) => resolver.unit(object, unit),
            Input::Native(_) => IndexMap::new(),
        })
        .collect();
    let fates = inputs
        .iter()
        .map(|(object, input)| match input {
            Input::Unit(unit) => fates(&bases[object], &names.table, object, unit),
            Input::Native(_) => IndexMap::new(),
        })
        .collect();
    Program { resolutions, fates, duplicates, inputs }
}

/// Which object's copy of each COMDAT group is kept.
struct Groups<'a> {
    kept: HashMap<&'a str, Object>,
}

impl<'a> Groups<'a> {
    fn new(inputs: &'a IndexMap<Object, Input<'_>>) -> Self {
        let mut kept = HashMap::new();
        for (object, input) in inputs.iter() {
            match input {
                // A group is there only if something is in it.
                Input::Unit(unit) => {
                    for symbol in unit.symbols.values() {
                        if let Some(comdat) = symbol.comdat
                            && is_definition(&symbol.kind, symbol.linkage)
                        {
                            kept.entry(&*unit.comdats[comdat]).or_insert(object);
                        }
                    }
                }
                Input::Native(native) if native.shared => {}
                Input::Native(native) => {
                    for name in native.definitions.iter().filter_map(|it| it.comdat.as_deref()) {
                        kept.entry(name).or_insert(object);
                    }
                }
            }
        }
        Self { kept }
    }

    fn keeps(&self, object: Object, group: Option<&str>) -> bool {
        group.is_none_or(|name| self.kept.get(name) == Some(&object))
    }
}

/// Where the symbols of one unit are.
struct Bases {
    /// What each symbol names within its unit: itself, unless it is an alias.
    base: IndexMap<Sym, Sym>,
    /// Whether the place it names is in the program.
    kept: IndexMap<Sym, bool>,
}

impl Bases {
    fn new(groups: &Groups<'_>, object: Object, input: &Input<'_>) -> Self {
        let Input::Unit(unit) = input else {
            return Self { base: IndexMap::new(), kept: IndexMap::new() };
        };
        // Aliases of aliases: each is followed once.
        let mut base: IndexMap<Sym, Option<Sym>> = unit.symbols.values().map(|_| None).collect();
        let mut path = Vec::new();
        for start in unit.symbols.indices() {
            let mut at = start;
            let end = loop {
                match (base[at], &unit.symbols[at].kind) {
                    (Some(known), _) => break known,
                    (None, SymbolKind::Alias { target: Some(target) }) => {
                        path.push(at);
                        at = *target;
                    }
                    (None, _) => break at,
                }
            };
            base[start] = Some(end);
            for alias in path.drain(..) {
                base[alias] = Some(end);
            }
        }
        let base: IndexMap<Sym, Sym> = base.iter().map(|(sym, base)| base.unwrap_or(sym)).collect();
        let is_kept = |&place: &Sym| {
            let group = unit.symbols[place].comdat.map(|comdat| &*unit.comdats[comdat]);
            groups.keeps(object, group)
        };
        let kept = base.values().map(is_kept).collect();
        Self { base, kept }
    }
}

#[derive(Clone, Copy)]
enum Place {
    Unit(Object, Sym),
    Native(Object),
}

impl Place {
    fn object(self) -> Object {
        match self {
            Self::Unit(object, _) | Self::Native(object) => object,
        }
    }
}

#[derive(Clone, Copy)]
struct Definition {
    place: Place,
    strength: Strength,
    shared: bool,
}

type Table<'a> = HashMap<&'a str, Definition>;

/// What each name means to those who see it from outside.
struct Names<'a> {
    table: Table<'a>,
    /// Names with two strong definitions, and where they are.
    duplicates: Vec<(&'a str, Object, Object)>,
}

impl<'a> Names<'a> {
    fn define_unit(&mut self, bases: &Bases, object: Object, unit: &'a Unit) {
        for (sym, symbol) in unit.symbols.iter() {
            let is_seen = is_shared_name(symbol) && is_definition(&symbol.kind, symbol.linkage);
            if !is_seen || !bases.kept[sym] {
                continue;
            }
            let strength = match (symbol.linkage, &symbol.kind) {
                (Linkage::Weak | Linkage::WeakOdr, _) => Strength::Weak,
                (Linkage::Common, SymbolKind::Data { size, .. }) => Strength::Common(*size),
                _ => Strength::Strong,
            };
            let place = Place::Unit(object, sym);
            self.define(&symbol.name, Definition { place, strength, shared: false });
        }
    }

    fn define_native(&mut self, groups: &Groups<'_>, object: Object, native: &'a NativeObject) {
        for definition in &native.definitions {
            if native.shared || groups.keeps(object, definition.comdat.as_deref()) {
                let place = Place::Native(object);
                let (strength, shared) = (definition.strength, native.shared);
                self.define(&definition.name, Definition { place, strength, shared });
            }
        }
    }

    fn define(&mut self, name: &'a str, new: Definition) {
        let mut entry = match self.table.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(new);
                return;
            }
            Entry::Occupied(entry) => entry,
        };
        let old = *entry.get();
        let both_strong = old.strength == Strength::Strong && new.strength == Strength::Strong;
        if new.shared {
            // Whatever is there comes first.
        } else if old.shared || new.strength > old.strength {
            entry.insert(new);
        } else if both_strong {
            self.duplicates.push((name, old.place.object(), new.place.object()));
        }
    }
}

/// Whether others can mean this symbol by its name.
fn is_shared_name(symbol: &Symbol) -> bool {
    !matches!(symbol.linkage, Linkage::Internal | Linkage::Appending) && !symbol.name.is_empty()
}

struct Resolver<'a> {
    inputs: &'a IndexMap<Object, Input<'a>>,
    bases: &'a IndexMap<Object, Bases>,
    table: &'a Table<'a>,
    wrapping: Wrapping,
    wrapped: HashSet<&'a str>,
}

impl Resolver<'_> {
    fn unit(&self, object: Object, unit: &Unit) -> IndexMap<Sym, Resolution> {
        let resolve = |(sym, symbol)| self.symbol(object, sym, symbol);
        unit.symbols.iter().map(resolve).collect()
    }

    fn symbol(&self, object: Object, sym: Sym, symbol: &Symbol) -> Resolution {
        let is_definition = is_definition(&symbol.kind, symbol.linkage);
        if is_definition && !is_shared_name(symbol) {
            return if self.bases[object].kept[sym] {
                self.place(Place::Unit(object, sym))
            } else {
                Resolution::Discarded
            };
        }
        let is_own = is_definition && self.wrapping == Wrapping::Foreign;
        let found = if is_own || self.wrapped.is_empty() {
            self.table.get(&*symbol.name)
        } else {
            self.table.get(&*self.wrapped_name(&symbol.name))
        };
        match found {
            Some(definition) => self.place(definition.place),
            None if symbol.linkage == Linkage::ExternWeak => Resolution::Null,
            None => Resolution::Elsewhere,
        }
    }

    /// The name that a reference to `name` goes to under `--wrap`.
    fn wrapped_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match name.strip_prefix("__real_") {
            _ if self.wrapped.contains(name) => format!("__wrap_{name}").into(),
            Some(real) if self.wrapped.contains(real) => real.into(),
            _ => name.into(),
        }
    }

    fn place(&self, place: Place) -> Resolution {
        let (object, sym) = match place {
            Place::Native(object) => return Resolution::Native(object),
            Place::Unit(object, sym) => (object, sym),
        };
        let Input::Unit(unit) = self.inputs[object] else {
            unreachable!("places of units are in units")
        };
        let base = self.bases[object].base[sym];
        let symbol = &unit.symbols[base];
        match symbol.kind {
            // An alias of something that is not here; LLVM does not allow it.
            _ if !is_definition(&symbol.kind, symbol.linkage) => Resolution::Elsewhere,
            SymbolKind::Function(func) => Resolution::Function(object, func),
            SymbolKind::IFunc { .. } => Resolution::IFunc(object, base),
            _ => Resolution::Data(object, base),
        }
    }
}

/// What became of the functions of `unit`.
fn fates(bases: &Bases, table: &Table<'_>, object: Object, unit: &Unit) -> IndexMap<Func, Fate> {
    let fate = |function: &Function| {
        let symbol = &unit.symbols[function.symbol];
        let is_meant = || match table.get(&*symbol.name).map(|definition| definition.place) {
            Some(Place::Unit(other, sym)) => other == object && bases.base[sym] == function.symbol,
            Some(Place::Native(_)) | None => false,
        };
        if !is_definition(&symbol.kind, symbol.linkage) {
            Fate::NoCode
        } else if !bases.kept[function.symbol] {
            Fate::Discarded
        } else if !is_shared_name(symbol) || is_meant() {
            Fate::Kept
        } else {
            Fate::Overridden
        }
    };
    unit.functions.values().map(fate).collect()
}
