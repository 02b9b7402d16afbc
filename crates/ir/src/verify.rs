//! Checks that a unit is well-formed.
//!
//! Everything that reads a [`Unit`] relies on what is listed here and on nothing
//! else. The verifier runs on what comes out of a front end and on everything
//! read from a file: it never panics, whatever the data, and takes time linear
//! in the size of the unit.
//!
//! **Unit**
//! - No list is longer than indices can count (2³² − 1).
//! - Every index (symbol, function, COMDAT group, file, location) that the unit
//!   mentions is in range.
//!
//! **Symbols**
//! - A symbol of kind `Function(f)` is the symbol of `f`, and the symbol of
//!   every function is of kind `Function` of it: one symbol per function.
//! - What is declared only (`ExternalFunction`, data that is not defined) is
//!   `External` or `ExternWeak`, is in no COMDAT group, and refers to nothing.
//! - What is defined is not `ExternWeak`. `Common` and `Appending` are for data.
//! - An internal symbol has default visibility.
//! - Data lists each symbol it refers to once.
//! - Aliases do not form a cycle.
//!
//! **Locations**
//! - Following `inlined_at` comes to an end.
//!
//! **Functions**
//! - There is a block. The blocks' ranges follow one another, without gap, from
//!   the first instruction to the last; none is empty.
//! - The last instruction of a block, and only that, is a terminator.
//! - The operand ranges of the instructions follow one another, without gap,
//!   from the first operand to the last.
//! - The number of successors is what the terminator says: none for `Return`,
//!   `Resume` and `Unreachable`, one for `Jump`, two for `Branch` and `Invoke`,
//!   one more than cases for `Switch`, at least one for `AsmGoto`.
//! - The number of operands is what the operation says.
//! - Phis come first in their block. A phi has one value per edge that leads to
//!   the block: as often from a block as that lists this one as successor.
//! - A landing pad is reached over the unwind edges of `Invoke` (or from funclet
//!   control flow, `OtherTerminator`) and over no other; every unwind edge leads
//!   to one. It is not the entry. Its first instruction that is no phi is
//!   `LandingPad` (or `Compute` or `OtherTerminator`, for funclet pads), and
//!   `LandingPad` stands nowhere else.
//! - Operands: instructions are of the function and may have a result,
//!   parameters are declared, a block address names a block of a function with a
//!   body here.
//! - A direct callee is a function, an alias or an ifunc; an intrinsic is a
//!   function declared here whose name begins with `llvm.`. An indirect call has
//!   its callee as an operand.
//!
//! Not checked: that definitions dominate their uses, and anything about types,
//! which the model does not have.

mod function;

use backtrail_graph::{Index, IndexMap};

use crate::{Error, Linkage, Place, Sym, Symbol, SymbolKind, Unit, Visibility};

/// Checks `unit`; the error names the first thing that is wrong.
pub fn verify(unit: &Unit) -> Result<(), Error> {
    lengths(unit)?;
    symbols(unit)?;
    locations(unit)?;
    for (func, function) in unit.functions.iter() {
        function::verify(unit, function).map_err(|(block, inst, what)| {
            let name = unit.symbols.get(function.symbol).map(|symbol| symbol.name.clone());
            let place = Place {
                function: Some((func, name.unwrap_or_default())),
                block,
                inst,
                entity: None,
            };
            Error::Invalid { place, what }
        })?;
    }
    Ok(())
}

fn invalid(entity: impl ToString, what: impl Into<String>) -> Error {
    let place = Place { entity: Some(entity.to_string()), ..Place::default() };
    Error::Invalid { place, what: what.into() }
}

/// An error unless `index` is in range of `map`.
fn in_range<I: Index, T>(map: &IndexMap<I, T>, index: I) -> Result<&T, String> {
    map.get(index).ok_or_else(|| format!("{index} is out of range: there are {}", map.len()))
}

fn lengths(unit: &Unit) -> Result<(), Error> {
    let too_long = |length: usize| u32::try_from(length).map_or(true, |length| length == u32::MAX);
    let mut lists = vec![
        ("symbols", unit.symbols.len()),
        ("functions", unit.functions.len()),
        ("comdat groups", unit.comdats.len()),
        ("files", unit.files.len()),
        ("locations", unit.locations.len()),
    ];
    for function in unit.functions.values() {
        lists.push(("blocks", function.blocks.len()));
        lists.push(("instructions", function.insts.len()));
        lists.push(("operands", function.operands.len()));
    }
    match lists.into_iter().find(|&(_, length)| too_long(length)) {
        Some((what, length)) => Err(invalid("unit", format!("{length} {what} are too many"))),
        None => Ok(()),
    }
}

fn symbols(unit: &Unit) -> Result<(), Error> {
    // `seen[s] == n + 1` once the data symbol of number n has listed s.
    let mut seen = vec![0u32; unit.symbols.len()];
    for (sym, symbol) in unit.symbols.iter() {
        let entity = || format!("{sym} '{}'", symbol.name.escape_debug());
        self::symbol(unit, sym, symbol, &mut seen).map_err(|what| invalid(entity(), what))?;
    }
    for (func, function) in unit.functions.iter() {
        let symbol =
            in_range(&unit.symbols, function.symbol).map_err(|what| invalid(func, what))?;
        if symbol.kind != SymbolKind::Function(func) {
            return Err(invalid(func, format!("its symbol {} does not name it", function.symbol)));
        }
    }
    let alias_target = |position: usize| match unit.symbols[Sym::new(position)].kind {
        SymbolKind::Alias { target } => target.map(Sym::position),
        _ => None,
    };
    match cycle(unit.symbols.len(), alias_target) {
        Some(position) => Err(invalid(Sym::new(position), "the alias leads back to itself")),
        None => Ok(()),
    }
}

fn symbol(unit: &Unit, sym: Sym, symbol: &Symbol, seen: &mut [u32]) -> Result<(), String> {
    if let Some(comdat) = symbol.comdat {
        in_range(&unit.comdats, comdat)?;
    }
    let defined = match &symbol.kind {
        SymbolKind::Function(func) => {
            let function = in_range(&unit.functions, *func)?;
            if function.symbol != sym {
                return Err(format!("it names {func}, whose symbol is {}", function.symbol));
            }
            true
        }
        SymbolKind::ExternalFunction(_) => false,
        SymbolKind::Data { defined, refers_to, .. } => {
            for &to in refers_to {
                in_range(&unit.symbols, to)?;
                let mark = sym.position() as u32 + 1;
                if std::mem::replace(&mut seen[to.position()], mark) == mark {
                    return Err(format!("it refers to {to} twice"));
                }
            }
            if !defined && !refers_to.is_empty() {
                return Err("it is not defined, and refers to something".into());
            }
            *defined
        }
        SymbolKind::Alias { target } => {
            target.map_or(Ok(()), |target| in_range(&unit.symbols, target).map(|_| ()))?;
            true
        }
        SymbolKind::IFunc { resolver } => {
            resolver.map_or(Ok(()), |resolver| in_range(&unit.symbols, resolver).map(|_| ()))?;
            true
        }
    };
    let is_data = matches!(symbol.kind, SymbolKind::Data { .. });
    let linkage_fits = match symbol.linkage {
        Linkage::External => true,
        Linkage::ExternWeak => !defined,
        Linkage::Common | Linkage::Appending => defined && is_data,
        Linkage::Weak | Linkage::WeakOdr | Linkage::Internal | Linkage::AvailableExternally => {
            defined
        }
    };
    if !linkage_fits {
        let state = if defined { "defined" } else { "declared" };
        return Err(format!("it is {state} here and cannot be {:?}", symbol.linkage));
    }
    if !defined && symbol.comdat.is_some() {
        return Err("it is not defined here and cannot be in a comdat group".into());
    }
    if symbol.linkage == Linkage::Internal && symbol.visibility != Visibility::Default {
        return Err("it is internal and must have default visibility".into());
    }
    Ok(())
}

fn locations(unit: &Unit) -> Result<(), Error> {
    for (loc, location) in unit.locations.iter() {
        in_range(&unit.files, location.file).map_err(|what| invalid(loc, what))?;
        if let Some(outer) = location.inlined_at {
            in_range(&unit.locations, outer).map_err(|what| invalid(loc, what))?;
        }
    }
    let outer = |position: usize| {
        unit.locations[Index::new(position)].inlined_at.map(|outer| outer.position())
    };
    match cycle(unit.locations.len(), outer) {
        Some(position) => {
            let loc: crate::Loc = Index::new(position);
            Err(invalid(loc, "it is inlined into itself"))
        }
        None => Ok(()),
    }
}

/// A position on a cycle of `next`, if there is one. Linear: a position that is
/// known to lead to an end is not walked again.
fn cycle(length: usize, next: impl Fn(usize) -> Option<usize>) -> Option<usize> {
    // 0: not walked; otherwise the number of the walk that came here first.
    let mut walked = vec![0u32; length];
    for start in 0..length {
        let walk = start as u32 + 1;
        let mut at = Some(start);
        while let Some(position) = at {
            if walked[position] != 0 {
                if walked[position] == walk {
                    return Some(position);
                }
                break;
            }
            walked[position] = walk;
            at = next(position);
        }
    }
    None
}
