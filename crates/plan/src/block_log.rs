//! The block log plan: every block execution is logged.
//!
//! The slow twin of everything cleverer. It uses nothing but the order of
//! functions and blocks, so there is little in it that could be wrong.

use std::collections::BTreeSet;

use backtrail_graph::Index;
use backtrail_ir::{Func, Linkage, Sym, SymbolKind, Unit};

use crate::{Action, FunctionPlan, LeftOut, Place, Probe, UnitPlan};

/// Why `function` of `unit` cannot be probed, if it cannot.
pub fn left_out(unit: &Unit, function: Func) -> Option<LeftOut> {
    let data = &unit.functions[function];
    if unit.symbols[data.symbol].linkage == Linkage::AvailableExternally {
        Some(LeftOut::AvailableExternally)
    } else if data.traits.naked {
        Some(LeftOut::Naked)
    } else if resolvers(unit).contains(&data.symbol) {
        Some(LeftOut::IFuncResolver)
    } else {
        None
    }
}

fn resolvers(unit: &Unit) -> BTreeSet<Sym> {
    let resolver = |symbol: &backtrail_ir::Symbol| match symbol.kind {
        SymbolKind::IFunc { resolver } => resolver,
        _ => None,
    };
    unit.symbols.values().filter_map(resolver).collect()
}

/// The number of each function's first block, blocks of the unit counted through.
pub fn first_blocks(unit: &Unit) -> impl Iterator<Item = (Func, u32)> + '_ {
    let mut next = 0u32;
    unit.functions.iter().map(move |(function, data)| {
        let first = next;
        next += data.blocks.len() as u32;
        (function, first)
    })
}

/// Logs every block of `unit`, which is known by `id`.
pub fn plan(unit: &Unit, id: [u8; 16]) -> UnitPlan {
    let blocks = unit.functions.values().map(|data| data.blocks.len() as u32).sum();
    let mut plan = UnitPlan { unit: id, blocks, ..UnitPlan::default() };
    for (function, first) in first_blocks(unit) {
        if let Some(why) = left_out(unit, function) {
            plan.left_out.push((function, why));
            continue;
        }
        let data = &unit.functions[function];
        let probe = |block: backtrail_ir::Block| Probe {
            at: Place::Block(block),
            action: Action::Log { number: first + block.position() as u32 },
        };
        plan.functions.push(FunctionPlan {
            function,
            name: unit.symbols[data.symbol].name.clone(),
            blocks: data.blocks.len() as u32,
            probes: data.blocks.indices().map(probe).collect(),
        });
    }
    plan
}
