//! The resolution itself. See [`super`] for the rules.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use backtrail_graph::IndexMap;

use super::{
    ByName, Duplicate, Fate, Input, Link, Loaded, NativeObject, Object, Program, Resolution,
    Strength, Wrapping, is_definition,
};
use crate::{Func, Function, Linkage, Sym, Symbol, SymbolKind, Unit};

pub(super) fn program(links: Vec<(Link<'_>, Loaded)>) -> Program<'_> {
    let mut inputs: IndexMap<Object, Input<'_>> = IndexMap::new();
    let mut modules: IndexMap<Object, u32> = IndexMap::new();
    let mut rules = Vec::new();
    for (number, (link, loaded)) in links.into_iter().enumerate() {
        for input in link.inputs {
            inputs.push(input);
            modules.push(number as u32);
        }
        rules.push((link.wrapped.into_iter().collect::<HashSet<_>>(), link.wrapping, loaded));
    }
    let mut bases: IndexMap<Object, Bases> = IndexMap::new();
    let mut scopes = Vec::new();
    for (number, (wrapped, wrapping, loaded)) in rules.iter().enumerate() {
        let own = || inputs.iter().filter(|(object, _)| modules[*object] as usize == number);
        let groups = Groups::new(own());
        for (object, input) in own() {
            bases.push(Bases::new(&groups, object, input));
        }
        let mut names = Names { table: HashMap::new(), duplicates: Vec::new() };
        for (object, input) in own() {
            match input {
                Input::Unit(unit) => names.define_unit(&bases[object], object, unit),
                Input::Native(native) => names.define_native(&groups, object, native),
            }
        }
        scopes.push(Scope {
            table: names.table,
            duplicates: names.duplicates,
            wrapped,
            wrapping: *wrapping,
            loaded,
        });
    }
    let name = |object: Object| inputs[object].name().to_string();
    let duplicate = |&(symbol, first, second): &(&str, Object, Object)| Duplicate {
        name: symbol.to_string(),
        first,
        second,
        objects: (name(first), name(second)),
    };
    let duplicates = scopes.iter().flat_map(|scope| &scope.duplicates).map(duplicate).collect();
    let resolver = Resolver { inputs: &inputs, bases: &bases, scopes: &scopes };
    let resolutions: IndexMap<Object, IndexMap<Sym, Resolution>> = inputs
        .iter()
        .map(|(object, input)| match input {
            Input::Unit(unit) => resolver.unit(modules[object] as usize, object, unit),
            Input::Native(_) => IndexMap::new(),
        })
        .collect();
    let fates = inputs
        .iter()
        .map(|(object, input)| match input {
            Input::Unit(unit) => resolver.fates(modules[object] as usize, object, unit),
            Input::Native(_) => IndexMap::new(),
        })
        .collect();
    let by_name = resolver.by_name(&modules);
    let other_names = resolver.other_names(&modules);
    let has_unknown = scopes.iter().any(|scope| scope.loaded.has_unknown);
    let wrapped = rules.into_iter().map(|(wrapped, ..)| wrapped).collect();
    Program {
        resolutions,
        fates,
        duplicates,
        by_name,
        other_names,
        has_unknown,
        modules,
        wrapped,
        inputs,
    }
}

/// What names mean within a module, and to the others.
struct Scope<'a> {
    table: Table<'a>,
    /// Names with two strong definitions, and where they are.
    duplicates: Vec<(&'a str, Object, Object)>,
    wrapped: &'a HashSet<String>,
    wrapping: Wrapping,
    loaded: &'a Loaded,
}

impl<'a> Scope<'a> {
    /// What the module itself defines under a name.
    fn own(&self, name: &str) -> Option<&Definition<'a>> {
        self.table.get(name).filter(|definition| !definition.shared)
    }
}

/// The name that a reference to `name` goes to under `--wrap`.
pub fn wrapped_name<'n>(wrapped: &HashSet<String>, name: &'n str) -> Cow<'n, str> {
    match name.strip_prefix("__real_") {
        _ if wrapped.contains(name) => format!("__wrap_{name}").into(),
        Some(real) if wrapped.contains(real) => real.into(),
        _ => name.into(),
    }
}

/// Which object's copy of each COMDAT group is kept.
struct Groups<'a> {
    kept: HashMap<&'a str, Object>,
}

impl<'a> Groups<'a> {
    fn new(inputs: impl Iterator<Item = (Object, &'a Input<'a>)>) -> Self {
        let mut kept = HashMap::new();
        for (object, input) in inputs {
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
struct Definition<'a> {
    place: Place,
    strength: Strength,
    shared: bool,
    /// The name that it is another one for.
    means: Option<&'a str>,
}

type Table<'a> = HashMap<&'a str, Definition<'a>>;

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
            self.define(&symbol.name, Definition { place, strength, shared: false, means: None });
        }
    }

    fn define_native(&mut self, groups: &Groups<'_>, object: Object, native: &'a NativeObject) {
        for definition in &native.definitions {
            if native.shared || groups.keeps(object, definition.comdat.as_deref()) {
                let place = Place::Native(object);
                let (strength, shared) = (definition.strength, native.shared);
                let means = definition.means.as_deref();
                self.define(&definition.name, Definition { place, strength, shared, means });
            }
        }
    }

    fn define(&mut self, name: &'a str, new: Definition<'a>) {
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
    /// By module.
    scopes: &'a [Scope<'a>],
}

impl Resolver<'_> {
    fn unit(&self, module: usize, object: Object, unit: &Unit) -> IndexMap<Sym, Resolution> {
        let resolve = |(sym, symbol)| self.symbol(module, object, sym, symbol);
        unit.symbols.iter().map(resolve).collect()
    }

    fn symbol(&self, module: usize, object: Object, sym: Sym, symbol: &Symbol) -> Resolution {
        let is_definition = is_definition(&symbol.kind, symbol.linkage);
        if is_definition && !is_shared_name(symbol) {
            return if self.bases[object].kept[sym] {
                self.place(Place::Unit(object, sym))
            } else {
                Resolution::Discarded
            };
        }
        let scope = &self.scopes[module];
        let is_own = is_definition && scope.wrapping == Wrapping::Foreign;
        let name = match is_own || scope.wrapped.is_empty() {
            true => Cow::from(&*symbol.name),
            false => wrapped_name(scope.wrapped, &symbol.name),
        };
        match self.find(module, &name) {
            Some(place) => self.place(place),
            None if symbol.linkage == Linkage::ExternWeak => Resolution::Null,
            None => Resolution::Elsewhere,
        }
    }

    /// What a reference from within a module means.
    fn find(&self, module: usize, name: &str) -> Option<Place> {
        let mut found = self.find_name(module, name)?;
        // What is assigned may name what is assigned.
        let mut means = self.meaning(module, name);
        for _ in 0..self.scopes[module].table.len() {
            let Some(name) = means else { break };
            found = self.find_name(module, name).unwrap_or(found);
            means = self.meaning(module, name);
        }
        Some(found)
    }

    fn meaning(&self, module: usize, name: &str) -> Option<&str> {
        self.scopes[module].own(name)?.means
    }

    fn find_name(&self, module: usize, name: &str) -> Option<Place> {
        let scope = &self.scopes[module];
        let found = scope.table.get(name).map(|definition| definition.place);
        match scope.own(name) {
            Some(_) if scope.loaded.preemptible.contains(name) => self.exported(name).or(found),
            Some(_) => found,
            None => self.exported(name).or(found),
        }
    }

    /// The first of the modules that exports a name.
    fn exported(&self, name: &str) -> Option<Place> {
        let exports = |scope: &&Scope<'_>| scope.loaded.exports.contains(name);
        let found = self.scopes.iter().filter(exports).find_map(|scope| scope.own(name));
        found.map(|definition| definition.place)
    }

    /// Which functions code that is not of the units refers to by name.
    fn by_name(&self, modules: &IndexMap<Object, u32>) -> IndexMap<Object, IndexMap<Func, ByName>> {
        let functions = |input: &Input<'_>| match input {
            Input::Unit(unit) => unit.functions.values().map(|_| ByName::default()).collect(),
            Input::Native(_) => IndexMap::new(),
        };
        let mut all: IndexMap<Object, IndexMap<Func, ByName>> =
            self.inputs.values().map(functions).collect();
        let mut mark = |place: Option<Place>, how: fn(&mut ByName)| {
            if let Some(Resolution::Function(object, function)) = place.map(|it| self.place(it)) {
                how(&mut all[object][function]);
            }
        };
        for (object, input) in self.inputs.iter() {
            let Input::Native(native) = input else { continue };
            let module = modules[object] as usize;
            for name in &native.references {
                if native.shared {
                    mark(self.exported(name), |it| it.library = true);
                    continue;
                }
                let name = wrapped_name(self.scopes[module].wrapped, name);
                match native.system {
                    true => mark(self.find(module, &name), |it| it.library = true),
                    false => mark(self.find(module, &name), |it| it.object = true),
                }
            }
        }
        // Assembly at module level may call whatever it names, of its own unit too.
        for (object, input) in self.inputs.iter() {
            let Input::Unit(unit) = input else { continue };
            let is_name = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
            let words = unit.module_asm.split(|c: char| !is_name(c));
            let words: HashSet<&str> = words.filter(|word| !word.is_empty()).collect();
            if words.is_empty() {
                continue;
            }
            for (sym, symbol) in unit.symbols.iter().filter(|(_, it)| words.contains(&*it.name)) {
                let place = match is_shared_name(symbol) {
                    true => self.find(modules[object] as usize, &symbol.name),
                    false => Some(Place::Unit(object, sym)),
                };
                mark(place, |it| it.object = true);
            }
        }
        let has_unknown = self.scopes.iter().any(|scope| scope.loaded.has_unknown);
        for scope in self.scopes {
            for name in &scope.loaded.exports {
                let own = scope.own(name).map(|definition| definition.place);
                mark(own, |it| it.exported = true);
                if has_unknown {
                    mark(own, |it| it.library = true);
                }
            }
        }
        all
    }

    /// The names besides its own under which what is linked with it finds a function.
    fn other_names(
        &self,
        modules: &IndexMap<Object, u32>,
    ) -> BTreeMap<(Object, Func), BTreeSet<String>> {
        let mut found: BTreeMap<(Object, Func), BTreeSet<String>> = BTreeMap::new();
        let mut ask = |module: usize, name: &str| {
            let asked = wrapped_name(self.scopes[module].wrapped, name);
            let Some(place) = self.find(module, &asked) else { return };
            let Resolution::Function(object, function) = self.place(place) else { return };
            let Input::Unit(unit) = &self.inputs[object] else { return };
            if unit.symbols[unit.functions[function].symbol].name != name {
                found.entry((object, function)).or_default().insert(name.to_owned());
            }
        };
        for (object, input) in self.inputs.iter() {
            let Input::Unit(unit) = input else { continue };
            let is_alias = |it: &&Symbol| matches!(it.kind, SymbolKind::Alias { .. });
            for symbol in unit.symbols.values().filter(is_alias).filter(|it| is_shared_name(it)) {
                ask(modules[object] as usize, &symbol.name);
            }
        }
        for (module, scope) in self.scopes.iter().enumerate() {
            let assigned = scope.table.iter().filter(|it| it.1.means.is_some()).map(|it| *it.0);
            assigned.for_each(|name| ask(module, name));
            for name in scope.wrapped {
                ask(module, name);
                ask(module, &format!("__real_{name}"));
            }
        }
        found
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

    /// What became of the functions of `unit`.
    fn fates(&self, module: usize, object: Object, unit: &Unit) -> IndexMap<Func, Fate> {
        let bases = &self.bases[object];
        let fate = |function: &Function| {
            let symbol = &unit.symbols[function.symbol];
            let is_meant = || match self.find(module, &symbol.name) {
                Some(Place::Unit(other, sym)) => {
                    other == object && bases.base[sym] == function.symbol
                }
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
}
