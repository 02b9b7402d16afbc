//! Debug information that tells blocks: see [`backtrail_plan::block_lines`].
//!
//! Instructions that were there before probes were inserted have the line of
//! their piece; all others are probes.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_ir::{Func, Index, Inst};
use backtrail_llvm_ffi::{Block, DebugBuilder, Function, Instruction, Module, Opcode};
use backtrail_plan::block_lines::{BEGIN, CODE, FRAME_LINE, PROBE, RECORD, RECORD_NAME, line_of};
use backtrail_plan::{FunctionPlan, Place, UnitPlan};

use super::Located;
use super::places::{self, Room, Rooms};
use super::record::Record;
use crate::identity::Ids;

/// What a function looks like before probes are inserted.
pub struct Before {
    /// Its instructions.
    own: Ids,
    /// The first line of each of its blocks, and behind the last.
    lines: Vec<u32>,
    /// Instructions with which a piece begins within a block.
    splits: Ids,
}

impl Before {
    /// Of a function with so many blocks of its own; the others were added to
    /// make room.
    pub fn new(function: Function<'_>, blocks: usize, splits: &[Inst]) -> Self {
        let all: Vec<Block<'_>> = function.blocks().collect();
        let insts = places::instructions(&all[..blocks]);
        let splits: Ids =
            splits.iter().filter_map(|inst| insts.get(inst.position())).map(|it| it.id()).collect();
        let mut lines = vec![line_of(0)];
        for block in &all[..blocks] {
            let within = block.instructions().filter(|it| splits.contains(&it.id())).count();
            lines.push(lines[lines.len() - 1] + 1 + within as u32);
        }
        let own = all.iter().flat_map(|block| block.instructions()).map(|it| it.id()).collect();
        Self { own, lines, splits }
    }

    /// The line of the last piece of a block.
    fn last_line(&self, block: usize) -> u32 {
        self.lines[block + 1] - 1
    }
}

/// A function to which probes were added.
pub struct Probed<'a, 'm> {
    /// What was planned.
    pub plan: &'a FunctionPlan,
    /// What it was before.
    pub before: &'a Before,
    /// Where room was made.
    pub rooms: &'a Rooms,
    /// The probes.
    pub probes: &'a [Located<'m>],
    /// Its record.
    pub record: Option<Record<'m>>,
}

/// Describes all functions of a module, which has no debug information.
pub fn describe<'m>(
    module: &'m Module<'m>,
    plan: &UnitPlan,
    probed: &BTreeMap<Func, Probed<'_, 'm>>,
) {
    let builder = DebugBuilder::new(module, &UnitPlan::suffix(plan.unit, plan.variant));
    let bodies = module.functions().filter(|it| !it.is_declaration());
    for (position, function) in bodies.enumerate() {
        let number = Func::new(position);
        let scope = builder.describe(function, &position.to_string(), FRAME_LINE);
        let place = |it: Instruction<'m>, line, column| builder.place(it, scope, (line, column));
        match probed.get(&number) {
            Some(probed) => {
                place_probed(function, probed, &place);
                if let Some(record) = probed.record {
                    let mut behind = function.blocks().flat_map(|block| block.instructions());
                    let first = behind.find(|it| it.opcode() != Opcode::ALLOCA);
                    let first = first.expect("a block does not end with an alloca");
                    let bytes = record.content.bytes();
                    builder.declare(record.place, scope, RECORD_NAME, bytes, first);
                }
            }
            None => {
                for (block, data) in function.blocks().enumerate() {
                    let line = line_of(block as u32);
                    data.instructions().for_each(|it| place(it, line, CODE));
                }
            }
        }
    }
}

fn place_probed<'m>(
    function: Function<'m>,
    probed: &Probed<'_, 'm>,
    place: &dyn Fn(Instruction<'m>, u32, u32),
) {
    let before = probed.before;
    let blocks = probed.plan.blocks as usize;
    // The line of the piece that the probes before an instruction leave, where
    // that is not the one that stands there.
    let mut leaving: BTreeMap<usize, u32> = BTreeMap::new();
    let mut entry: BTreeSet<usize> = BTreeSet::new();
    for probe in probed.probes {
        match probe.at {
            Place::Edge { from, .. } => {
                let line = before.last_line(from.position());
                leaving.entry(probe.before.id()).or_insert(line);
            }
            Place::Entry => drop(entry.insert(probe.before.id())),
            _ => {}
        }
    }
    // Blocks that were added stand for an edge.
    let mut added: BTreeMap<usize, u32> = BTreeMap::new();
    for (edge, room) in probed.rooms {
        if let Room::End(block) = room
            && *block as usize >= blocks
        {
            added.insert(*block as usize, before.last_line(edge.from as usize));
        }
    }
    let mut addresses: Ids = probed.record.iter().map(|record| record.place.id()).collect();
    let mut probe_column = |it: Instruction<'m>| column_of(it, &mut addresses);
    for (number, block) in function.blocks().enumerate() {
        if number >= blocks {
            let line = added.get(&number).copied().unwrap_or(0);
            block.instructions().for_each(|it| place(it, line, probe_column(it)));
            continue;
        }
        let mut line = before.lines[number];
        let mut pending: Vec<Instruction<'m>> = Vec::new();
        for instruction in block.instructions() {
            if !before.own.contains(&instruction.id()) {
                pending.push(instruction);
                continue;
            }
            let left = leaving.get(&instruction.id()).copied();
            let begins = entry.contains(&instruction.id());
            let has_probes = !pending.is_empty();
            for probe in pending.drain(..) {
                let is_memory = probe.opcode() == Opcode::ALLOCA;
                let column = match (is_memory, begins) {
                    (true, _) => CODE,
                    (false, true) => BEGIN,
                    (false, false) => probe_column(probe),
                };
                place(probe, left.unwrap_or(line), column);
            }
            if before.splits.contains(&instruction.id()) {
                line += 1;
            }
            // Behind the probes of the only edge out of here.
            let is_end = instruction.opcode().is_terminator() && left == Some(line);
            place(instruction, line, if is_end && has_probes { PROBE } else { CODE });
        }
    }
}

/// The column of an instruction that was inserted. `addresses` are those of the
/// record and its parts, as far as they were computed.
fn column_of(instruction: Instruction<'_>, addresses: &mut Ids) -> u32 {
    let touches = instruction.operands().any(|it| addresses.contains(&it.id()));
    if touches && instruction.opcode() == Opcode::GET_ELEMENT_PTR {
        addresses.insert(instruction.id());
    }
    if touches && instruction.as_call().is_some() { RECORD } else { PROBE }
}
