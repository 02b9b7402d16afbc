//! The block log plan: every block execution is logged, and which activation it is of.
//!
//! The slow twin of everything cleverer. Nothing is worked out that can be said: where
//! activations begin, end and go on is logged ([`backtrail_abi::frames`]).
//!
//! An activation ends
//! - before its function returns or goes on unwinding,
//! - before a call in tail position that may reuse its frame: what is called takes its
//!   place, and is called by whoever called it. Behind the call the frame would have to
//!   be kept, and a program that loops by such calls would run out of stack;
//! - or not: what is left by a jump, by unwinding that it does not see, or with its
//!   thread does not go on, and nothing says so.
//!
//! Where control can come back to a frame in another way than by returns of what it
//! called, it is looked at whether it was the running one: behind each call, where such
//! a call may have led (a landing pad, a target of `asm goto`), and before it ends.

use std::collections::BTreeSet;

use backtrail_abi::frames::Word;
use backtrail_graph::Index;
use backtrail_ir::{Block, Callee, Func, Function, Inst, Linkage, Op, Tail, Unit};

use crate::{Action, FunctionPlan, LeftOut, Place, Probe, UnitPlan};
use backtrail_analysis::calls::{
    call_before_shared_return, is_in_tail_position, resolving, traits_of,
};

/// Why `function` of `unit` cannot be probed, if it cannot.
pub fn left_out(unit: &Unit, function: Func) -> Option<LeftOut> {
    let data = &unit.functions[function];
    if unit.symbols[data.symbol].linkage == Linkage::AvailableExternally {
        Some(LeftOut::AvailableExternally)
    } else if data.traits.naked {
        Some(LeftOut::Naked)
    } else if resolving(unit).contains(&function) {
        Some(LeftOut::IFuncResolver)
    } else {
        None
    }
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
        plan.functions.push(FunctionPlan {
            function,
            name: unit.symbols[data.symbol].name.clone(),
            blocks: data.blocks.len() as u32,
            probes: probes(unit, data, first),
        });
    }
    plan
}

/// The probes of a function whose first block has the number `first`.
fn probes(unit: &Unit, function: &Function, first: u32) -> Vec<Probe> {
    let mut probes = Vec::new();
    // Blocks that control may come to behind a call.
    let is_call = |op: &Op| matches!(op, Op::Invoke(_) | Op::AsmGoto(_));
    let behind: BTreeSet<Block> = function
        .blocks
        .values()
        .filter(|block| is_call(&function.insts[block.terminator()].op))
        .flat_map(|block| block.successors.iter().copied())
        .collect();
    for (block, data) in function.blocks.iter() {
        let at = Place::Block(block);
        let number = first + block.position() as u32;
        match block.position() {
            0 => probes.push(Probe { at: Place::Entry, action: Action::Begin { number } }),
            _ => {
                if behind.contains(&block) {
                    probes.push(Probe { at, action: Action::Resume });
                }
                probes.push(Probe { at, action: Action::Log { number } });
            }
        }
        let before_return = call_before_shared_return(function, block);
        for inst in data.insts() {
            let before = |action: Action| Probe { at: Place::Before(inst), action };
            let say = |word: Word| Action::Say { word: word.number() };
            let call = match &function.insts[inst].op {
                Op::Return | Op::Resume if !follows_tail_call(function, inst) => {
                    probes.push(before(Action::End));
                    continue;
                }
                Op::Call(_) if is_in_tail_position(function, inst) => {
                    probes.push(before(Action::End));
                    continue;
                }
                Op::Call(call) if !matches!(call.callee, Callee::Intrinsic(_)) => call,
                _ => continue,
            };
            let number = inst.position() as u32;
            let traits = traits_of(unit, call);
            if traits.no_return || traits.returns_twice || before_return == Some(inst) {
                probes.push(before(say(Word::Comes(number))));
            }
            let at = Place::After(inst);
            probes.push(Probe { at, action: Action::Resume });
            if traits.returns_twice {
                probes.push(Probe { at, action: say(Word::Returns(number)) });
            }
        }
    }
    probes
}

/// Whether the end of a block stands behind a call in tail position, with which the
/// activation has ended.
fn follows_tail_call(function: &Function, last: Inst) -> bool {
    let before = |steps: usize| last.position().checked_sub(steps).map(Inst::new);
    let is_must =
        |inst: Inst| function.insts[inst].op.call().is_some_and(|call| call.tail == Tail::Must);
    let is_tail = |inst: Inst| is_in_tail_position(function, inst);
    // Between a call that must reuse the frame and the return there may be a conversion.
    let is_within = |inst: Inst| !function.insts[inst].op.is_terminator();
    before(1).is_some_and(is_tail)
        || before(1).is_some_and(is_within) && before(2).is_some_and(is_must)
}
