//! Symbol resolution, slowly: each answer from a search of everything.

use backtrail_graph::Index;
use backtrail_ir::program::{Input, Link, Object, Resolution, Strength, Wrapping};
use backtrail_ir::{Linkage, Sym, Symbol, SymbolKind, Unit};

/// A definition that others can see.
struct Found {
    strength: Strength,
    shared: bool,
    meaning: Resolution,
}

/// What `symbol` of the unit at `position` means.
pub fn resolve(link: &Link<'_>, position: usize, symbol: Sym) -> Resolution {
    let Input::Unit(unit) = link.inputs[position] else { panic!("not a unit") };
    let data = &unit.symbols[symbol];
    if makes(data) && (is_local(data) || data.name.is_empty()) {
        return match is_kept(link, position, group_of(unit, symbol)) {
            true => meaning(unit, position, symbol),
            false => Resolution::Discarded,
        };
    }
    let mut name = data.name.clone();
    if !makes(data) || link.wrapping == Wrapping::All {
        for wrapped in &link.wrapped {
            if data.name == *wrapped {
                name = format!("__wrap_{wrapped}");
            }
        }
        for wrapped in &link.wrapped {
            if data.name == format!("__real_{wrapped}") && !link.wrapped.contains(&data.name) {
                name = wrapped.clone();
            }
        }
    }
    let all = definitions(link, &name);
    let best = |shared: bool| {
        let strongest = all.iter().filter(|it| it.shared == shared).map(|it| it.strength).max()?;
        all.iter().find(|it| it.shared == shared && (it.strength == strongest || shared))
    };
    match best(false).or_else(|| best(true)) {
        Some(found) => found.meaning,
        None if data.linkage == Linkage::ExternWeak => Resolution::Null,
        None => Resolution::Elsewhere,
    }
}

/// The names with several strong definitions, once for each further one.
pub fn duplicates(link: &Link<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for input in &link.inputs {
        match input {
            Input::Unit(unit) => names.extend(unit.symbols.values().map(|it| it.name.clone())),
            Input::Native(native) => {
                names.extend(native.definitions.iter().map(|it| it.name.clone()))
            }
        }
    }
    names.sort();
    names.dedup();
    let strong = |name: &String| {
        let is_strong = |it: &&Found| it.strength == Strength::Strong && !it.shared;
        definitions(link, name).iter().filter(is_strong).count()
    };
    names.into_iter().flat_map(|name| vec![name.clone(); strong(&name).saturating_sub(1)]).collect()
}

/// Every kept definition of `name` that others can see, in link order.
fn definitions(link: &Link<'_>, name: &str) -> Vec<Found> {
    let mut all = Vec::new();
    for (position, input) in link.inputs.iter().enumerate() {
        match input {
            Input::Unit(unit) => {
                for (sym, data) in unit.symbols.iter() {
                    let fits =
                        data.name == name && !name.is_empty() && makes(data) && !is_local(data);
                    if fits && is_kept(link, position, group_of(unit, sym)) {
                        let meaning = meaning(unit, position, sym);
                        all.push(Found { strength: strength(data), shared: false, meaning });
                    }
                }
            }
            Input::Native(native) => {
                for it in native.definitions.iter().filter(|it| it.name == name) {
                    if native.shared || is_kept(link, position, it.comdat.clone()) {
                        let meaning = Resolution::Native(Object::new(position));
                        let (strength, shared) = (it.strength, native.shared);
                        all.push(Found { strength, shared, meaning });
                    }
                }
            }
        }
    }
    all
}

fn strength(data: &Symbol) -> Strength {
    match (data.linkage, &data.kind) {
        (Linkage::Weak | Linkage::WeakOdr, _) => Strength::Weak,
        (Linkage::Common, SymbolKind::Data { size, .. }) => Strength::Common(*size),
        _ => Strength::Strong,
    }
}

fn is_local(data: &Symbol) -> bool {
    data.linkage == Linkage::Internal || data.linkage == Linkage::Appending
}

/// Whether the object file has something of that name.
fn makes(data: &Symbol) -> bool {
    data.linkage != Linkage::AvailableExternally
        && data.linkage != Linkage::ExternWeak
        && !matches!(
            data.kind,
            SymbolKind::ExternalFunction(_) | SymbolKind::Data { defined: false, .. }
        )
}

/// What the symbol names in its unit.
fn named(unit: &Unit, symbol: Sym) -> Sym {
    match unit.symbols[symbol].kind {
        SymbolKind::Alias { target: Some(target) } => named(unit, target),
        _ => symbol,
    }
}

fn group_of(unit: &Unit, symbol: Sym) -> Option<String> {
    unit.symbols[named(unit, symbol)].comdat.map(|comdat| unit.comdats[comdat].clone())
}

fn meaning(unit: &Unit, position: usize, symbol: Sym) -> Resolution {
    let object = Object::new(position);
    let named = named(unit, symbol);
    match unit.symbols[named].kind {
        _ if !makes(&unit.symbols[named]) => Resolution::Elsewhere,
        SymbolKind::Function(func) => Resolution::Function(object, func),
        SymbolKind::IFunc { .. } => Resolution::IFunc(object, named),
        SymbolKind::ExternalFunction(_) => unreachable!("it is not made here"),
        SymbolKind::Data { .. } | SymbolKind::Alias { .. } => Resolution::Data(object, named),
    }
}

/// Whether no object before `position` has the group.
fn is_kept(link: &Link<'_>, position: usize, group: Option<String>) -> bool {
    let Some(group) = group else { return true };
    let has_group = |input: &Input<'_>| match input {
        Input::Unit(unit) => unit.symbols.values().any(|data| {
            makes(data) && data.comdat.is_some_and(|comdat| unit.comdats[comdat] == group)
        }),
        Input::Native(native) => {
            !native.shared && native.definitions.iter().any(|it| it.comdat.as_ref() == Some(&group))
        }
    };
    link.inputs.iter().position(has_group) == Some(position)
}
