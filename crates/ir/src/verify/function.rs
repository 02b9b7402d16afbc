//! The part of [`crate::verify`] about one function. See there for the rules.

use backtrail_graph::{Digraph, Index};

use super::in_range;
use crate::{
    Block, BlockData, CallData, Callee, Function, Inst, InstData, Op, SymbolKind, Unit, Value,
};

/// Where in the function, and what.
type Wrong = (Option<Block>, Option<Inst>, String);

/// Checks `function`, whose symbol is known to be in range.
pub(super) fn verify(unit: &Unit, function: &Function) -> Result<(), Wrong> {
    if let Some(loc) = function.location {
        in_range(&unit.locations, loc).map_err(|what| (None, None, what))?;
    }
    ranges(function)?;
    for (block, data) in function.blocks.iter() {
        for inst in data.insts() {
            let wrong = |what| (Some(block), Some(inst), what);
            let is_last = inst == data.terminator();
            instruction(unit, function, &function.insts[inst], is_last).map_err(wrong)?;
        }
        let last = data.terminator();
        let wrong = |what| (Some(block), Some(last), what);
        successors(function, data, &function.insts[last].op).map_err(wrong)?;
    }
    phis(function)?;
    landing_pads(function)
}

/// Blocks cover the instructions, and instructions the operands, in order.
fn ranges(function: &Function) -> Result<(), Wrong> {
    if function.blocks.is_empty() {
        return Err((None, None, "it has no block".into()));
    }
    let mut next = 0;
    for (block, data) in function.blocks.iter() {
        let wrong = |what: String| Err((Some(block), None, what));
        if data.first != next {
            return wrong(format!("it begins at i{}, not at i{next}", data.first));
        }
        if data.end <= data.first {
            return wrong("it has no instruction".into());
        }
        if data.end as usize > function.insts.len() {
            let count = function.insts.len();
            return wrong(format!("it ends at i{}, there are {count} instructions", data.end));
        }
        next = data.end;
    }
    if next as usize != function.insts.len() {
        return Err((None, Some(Inst::new(next as usize)), "it is in no block".into()));
    }
    let mut next = 0u32;
    for (inst, data) in function.insts.iter() {
        let wrong = |what: String| Err((None, Some(inst), what));
        if data.operands != next {
            return wrong(format!("its operands begin at {}, not at {next}", data.operands));
        }
        next = match next.checked_add(data.operand_count) {
            Some(end) if end as usize <= function.operands.len() => end,
            _ => return wrong(format!("{} operands are not there", data.operand_count)),
        };
    }
    if next as usize != function.operands.len() {
        return Err((None, None, format!("operands from {next} belong to no instruction")));
    }
    Ok(())
}

fn instruction(
    unit: &Unit,
    function: &Function,
    inst: &InstData,
    is_last: bool,
) -> Result<(), String> {
    match (inst.op.is_terminator(), is_last) {
        (true, false) => return Err("a terminator before the end of its block".into()),
        (false, true) => return Err("the block does not end with a terminator".into()),
        _ => {}
    }
    if let Some(loc) = inst.location {
        in_range(&unit.locations, loc)?;
    }
    operand_count(inst)?;
    for value in function.operands_of(inst) {
        operand(unit, function, value)?;
    }
    if let Op::Phi { from } = &inst.op {
        for &block in from {
            in_range(&function.blocks, block)?;
        }
    }
    inst.op.call().map_or(Ok(()), |call| callee(unit, call, inst.operand_count))
}

fn operand_count(inst: &InstData) -> Result<(), String> {
    let (least, most) = inst.op.operand_counts();
    let count = inst.operand_count;
    if least <= count && count <= most {
        return Ok(());
    }
    Err(match (least, most) {
        _ if least == most => format!("it has {count} operands instead of {least}"),
        (_, u32::MAX) => format!("it has {count} operands, at least {least} are needed"),
        _ => format!("it has {count} operands instead of {least} to {most}"),
    })
}

fn operand(unit: &Unit, function: &Function, value: &Value) -> Result<(), String> {
    match value {
        Value::Inst(inst) => {
            if !in_range(&function.insts, *inst)?.op.may_have_result() {
                return Err(format!("operand {inst} computes no value"));
            }
        }
        Value::Param(number) => {
            if *number >= function.parameters {
                let count = function.parameters;
                return Err(format!("parameter p{number} is out of range: there are {count}"));
            }
        }
        Value::Symbol(sym, _) => {
            in_range(&unit.symbols, *sym)?;
        }
        Value::Expr(symbols) => {
            for &sym in symbols {
                in_range(&unit.symbols, sym)?;
            }
        }
        Value::BlockAddress(sym, block) => {
            let SymbolKind::Function(of) = in_range(&unit.symbols, *sym)?.kind else {
                return Err(format!("a block address of {sym}, which has no body here"));
            };
            in_range(&in_range(&unit.functions, of)?.blocks, *block)?;
        }
        Value::Int(_) | Value::Opaque => {}
    }
    Ok(())
}

fn callee(unit: &Unit, call: &CallData, operands: u32) -> Result<(), String> {
    match call.callee {
        Callee::Direct(sym) => match in_range(&unit.symbols, sym)?.kind {
            SymbolKind::Data { .. } => Err(format!("callee {sym} is data")),
            _ => Ok(()),
        },
        Callee::Intrinsic(sym) => {
            let symbol = in_range(&unit.symbols, sym)?;
            let is_function = matches!(symbol.kind, SymbolKind::ExternalFunction(_));
            if is_function && symbol.name.starts_with("llvm.") {
                Ok(())
            } else {
                Err(format!("callee {sym} is not an intrinsic"))
            }
        }
        Callee::Indirect if operands == 0 => {
            Err("an indirect call needs its callee as an operand".into())
        }
        Callee::Indirect | Callee::Asm => Ok(()),
    }
}

fn successors(function: &Function, data: &BlockData, terminator: &Op) -> Result<(), String> {
    for &to in &data.successors {
        in_range(&function.blocks, to)?;
    }
    let count = data.successors.len();
    let expected = match terminator {
        Op::AsmGoto(_) if count == 0 => Some(1),
        other => other.successor_count(),
    };
    match expected {
        Some(expected) if expected != count => {
            Err(format!("it has {count} successors instead of {expected}"))
        }
        _ => Ok(()),
    }
}

/// Phis stand first and have one value per edge. Work is linear because a phi is
/// only compared with the edges once it has as many values as there are edges.
fn phis(function: &Function) -> Result<(), Wrong> {
    let is_phi = |inst: Inst| matches!(function.insts[inst].op, Op::Phi { .. });
    if !function.insts.indices().any(is_phi) {
        return Ok(());
    }
    let edges = function
        .blocks
        .iter()
        .flat_map(|(from, data)| data.successors.iter().map(move |&to| (from, to)));
    let graph = Digraph::new(function.blocks.len(), edges);
    // How many values from each block the phi at hand still lacks.
    let mut missing = vec![0u32; function.blocks.len()];
    for (block, data) in function.blocks.iter() {
        for predecessor in graph.predecessors(block) {
            missing[predecessor.position()] += 1;
        }
        let mut behind_others = false;
        for inst in data.insts() {
            let wrong = |what: String| Err((Some(block), Some(inst), what));
            let Op::Phi { from } = &function.insts[inst].op else {
                behind_others = true;
                continue;
            };
            if behind_others {
                return wrong("a phi behind other instructions".into());
            }
            let expected = graph.in_edges(block).len();
            if from.len() != expected {
                let count = from.len();
                return wrong(format!("it has {count} values for {expected} incoming edges"));
            }
            for &block in from {
                let left = &mut missing[block.position()];
                if *left == 0 {
                    return wrong(format!("it has more values for {block} than edges from there"));
                }
                *left -= 1;
            }
            for &block in from {
                missing[block.position()] += 1;
            }
        }
        for predecessor in graph.predecessors(block) {
            missing[predecessor.position()] -= 1;
        }
    }
    Ok(())
}

fn landing_pads(function: &Function) -> Result<(), Wrong> {
    if function.blocks[function.entry()].landing_pad {
        return Err((Some(function.entry()), None, "the entry cannot be a landing pad".into()));
    }
    for (block, data) in function.blocks.iter() {
        let last = data.terminator();
        for (number, &to) in data.successors.iter().enumerate() {
            let unwinds = match function.insts[last].op {
                Op::Invoke(_) => number == 1,
                Op::OtherTerminator { .. } => continue,
                _ => false,
            };
            if unwinds != function.blocks[to].landing_pad {
                let what = if unwinds {
                    format!("it unwinds to {to}, which is no landing pad")
                } else {
                    format!("it goes to landing pad {to} without unwinding")
                };
                return Err((Some(block), Some(last), what));
            }
        }
        let op = |inst: &Inst| &function.insts[*inst].op;
        let mut behind_phis = data.insts().skip_while(|inst| matches!(op(inst), Op::Phi { .. }));
        let first = behind_phis.next();
        let wrong = |inst: Inst, what: &str| Err((Some(block), Some(inst), what.to_string()));
        if let Some(first) = first {
            let begins_pad = matches!(
                op(&first),
                Op::LandingPad | Op::Compute { .. } | Op::OtherTerminator { .. }
            );
            if data.landing_pad && !begins_pad {
                return wrong(first, "a landing pad must begin with the instruction that says so");
            }
            if !data.landing_pad && matches!(op(&first), Op::LandingPad) {
                return wrong(first, "the block is not marked as a landing pad");
            }
        }
        if let Some(inst) = behind_phis.find(|inst| matches!(op(inst), Op::LandingPad)) {
            return wrong(inst, "it must come first in its block");
        }
    }
    Ok(())
}
