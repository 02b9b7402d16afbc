//! Random units that have names in common, and native objects among them.

use backtrail_ir::program::{Input, Link, NativeDefinition, NativeObject, Strength, Wrapping};
use backtrail_ir::{Linkage, SymbolKind, Unit};
use fastrand::Rng;

use crate::random_unit::{Size, unit};

const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "__wrap_a", "__real_a", "__real___wrap_b", ""];
const GROUPS: [&str; 3] = ["a", "b", "g"];

/// Units that share a few names.
pub fn units(seed: u64) -> Vec<Unit> {
    let mut rng = Rng::with_seed(seed);
    let rename = |mut unit: Unit, rng: &mut Rng| {
        for sym in unit.symbols.indices() {
            let symbol = &mut unit.symbols[sym];
            if !symbol.name.starts_with("llvm.") {
                symbol.name = NAMES[rng.usize(0..NAMES.len())].to_string();
            }
            // Strong ones would mostly be duplicates.
            let is_strong = symbol.linkage == Linkage::External && is_defined(&symbol.kind);
            if is_strong && rng.bool() {
                symbol.linkage = Linkage::Weak;
            }
        }
        for comdat in unit.comdats.indices() {
            unit.comdats[comdat] = GROUPS[rng.usize(0..GROUPS.len())].to_string();
        }
        unit
    };
    let size = Size { functions: 3, blocks: 1, insts: 1 };
    let count = rng.usize(1..5);
    (0..count).map(|_| rename(unit(rng.u64(..), size), &mut rng)).collect()
}

fn is_defined(kind: &SymbolKind) -> bool {
    use SymbolKind::*;
    match kind {
        ExternalFunction(_) => false,
        Data { defined, .. } => *defined,
        Function(_) | Alias { .. } | IFunc { .. } => true,
    }
}

/// A link of `units`, with native objects between them.
pub fn link(seed: u64, units: &[Unit]) -> Link<'_> {
    let mut rng = Rng::with_seed(seed);
    let mut inputs = Vec::new();
    for unit in units {
        if rng.u8(0..4) == 0 {
            inputs.push(Input::Native(native(&mut rng)));
        }
        inputs.push(Input::Unit(unit));
    }
    let mut wrapped = Vec::new();
    if rng.bool() {
        wrapped.extend(["a", "__wrap_b"].map(String::from));
    }
    let wrapping = if rng.bool() { Wrapping::All } else { Wrapping::Foreign };
    Link { inputs, wrapped, wrapping }
}

fn native(rng: &mut Rng) -> NativeObject {
    let definition = |rng: &mut Rng| NativeDefinition {
        name: NAMES[rng.usize(0..NAMES.len() - 1)].to_string(),
        strength: match rng.u8(0..4) {
            0 => Strength::Strong,
            1 => Strength::Common(rng.u64(0..8)),
            _ => Strength::Weak,
        },
        comdat: (rng.u8(0..3) == 0).then(|| GROUPS[rng.usize(0..GROUPS.len())].to_string()),
        means: None,
    };
    let count = rng.usize(0..4);
    NativeObject {
        name: "native.o".to_string(),
        shared: rng.bool(),
        definitions: (0..count).map(|_| definition(rng)).collect(),
        references: Vec::new(),
        system: false,
    }
}
