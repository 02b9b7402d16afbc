//! Where probes go.
//!
//! An edge has a place at its source's end if it is the only way out, or at its
//! target's start if it is the only way in; every other edge gets a block of its
//! own. Probes of one place keep the plan's order, and where places coincide,
//! what comes first in time is inserted first: the function's entry, edges at the
//! start of their target, what follows an instruction, what precedes one, edges at
//! the end of their source.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_ir::Index;
use backtrail_llvm_ffi::{Block, BlockEdge, Function, Instruction, Module, Opcode};
use backtrail_plan::{FunctionPlan, Place};

use super::Located;
use crate::Error;
use crate::lower::is_debug_intrinsic_name;

/// Where the probes of edges go.
pub type Rooms = BTreeMap<BlockEdge, Room>;

/// Where the probes of an edge go.
#[derive(Clone, Copy)]
pub enum Room {
    /// Before the end of this block.
    End(u32),
    /// At the start of this block.
    Start(u32),
}

/// Checks that every place of `wanted` exists in `function`.
pub fn check(function: Function<'_>, wanted: &FunctionPlan) -> Result<(), Error> {
    let blocks: Vec<Block<'_>> = function.blocks().collect();
    let insts = instructions(&blocks);
    let name = || wanted.name.clone();
    let known = |block: backtrail_ir::Block| {
        let data = blocks.get(block.position());
        data.copied().ok_or_else(|| Error::NoSuchBlock { name: name(), block })
    };
    let no_place = |block| Error::NoPlace { name: name(), block };
    for probe in &wanted.probes {
        match probe.at {
            Place::Block(block) => {
                let is_entry = block.position() == 0;
                first_place(known(block)?, is_entry).ok_or_else(|| no_place(block))?;
            }
            Place::Entry => {
                let block = backtrail_ir::Block::new(0);
                first_place(known(block)?, true).ok_or_else(|| no_place(block))?;
            }
            Place::Edge { from, to } => {
                let (source, target) = (known(from)?, known(to)?);
                first_place(target, false).ok_or_else(|| no_place(to))?;
                let terminator = source.terminator().ok_or_else(|| no_place(from))?;
                let leads_there = terminator.successors().any(|it| it.id() == target.id());
                if !leads_there || terminator.opcode() == Opcode::INDIRECT_BR {
                    return Err(Error::NoSuchEdge { name: name(), from, to });
                }
            }
            Place::Before(inst) => {
                insts.get(inst.position()).ok_or(Error::NoSuchInst { name: name(), inst })?;
            }
            Place::After(inst) => {
                let found = insts.get(inst.position());
                let found = found.filter(|it| !it.opcode().is_terminator());
                found.ok_or(Error::NoSuchInst { name: name(), inst })?;
            }
        }
    }
    Ok(())
}

/// Gives edges that have no place one. `position` is that of the function in
/// the module; its places were checked.
pub fn make_room(
    module: &mut Module<'_>,
    position: usize,
    wanted: &FunctionPlan,
) -> Result<Rooms, Error> {
    let mut rooms = Rooms::new();
    let mut to_split = BTreeSet::new();
    {
        let function = module.functions().nth(position).expect("the function was found");
        let blocks: Vec<Block<'_>> = function.blocks().collect();
        let mut positions = BTreeMap::new();
        positions.extend(blocks.iter().enumerate().map(|(at, block)| (block.id(), at)));
        let mut out: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); blocks.len()];
        let mut into = out.clone();
        for (at, block) in blocks.iter().enumerate() {
            for next in block.terminator().into_iter().flat_map(|it| it.successors()) {
                let next = positions[&next.id()];
                out[at].insert(next);
                into[next].insert(at);
            }
        }
        for probe in &wanted.probes {
            let Place::Edge { from, to } = probe.at else { continue };
            let (from, to) = (from.position(), to.position());
            let edge = BlockEdge { from: from as u32, to: to as u32 };
            if out[from].len() == 1 {
                rooms.insert(edge, Room::End(edge.from));
            } else if into[to].len() == 1 {
                rooms.insert(edge, Room::Start(edge.to));
            } else {
                to_split.insert(edge);
            }
        }
    }
    for (edge, block) in module.split_edges(position, &to_split) {
        rooms.insert(edge, Room::End(block));
    }
    Ok(rooms)
}

/// Finds all places, in the order in which probes are inserted.
pub fn locate<'m>(
    function: Function<'m>,
    wanted: &FunctionPlan,
    rooms: &Rooms,
) -> Result<Vec<Located<'m>>, Error> {
    let blocks: Vec<Block<'m>> = function.blocks().collect();
    let insts = instructions(&blocks[..wanted.blocks as usize]);
    let place = |at: Place| match at {
        Place::Block(block) => first_place(blocks[block.position()], block.position() == 0),
        Place::Entry => first_place(blocks[0], true),
        Place::Edge { from, to } => {
            let edge = BlockEdge { from: from.position() as u32, to: to.position() as u32 };
            match rooms.get(&edge)? {
                Room::End(block) => blocks[*block as usize].terminator(),
                Room::Start(block) => first_place(blocks[*block as usize], false),
            }
        }
        Place::Before(inst) => insts.get(inst.position()).copied(),
        Place::After(inst) => insts.get(inst.position() + 1).copied(),
    };
    let order = |at: Place| match at {
        Place::Block(_) | Place::Entry => 0,
        Place::Edge { from, to } => {
            let edge = BlockEdge { from: from.position() as u32, to: to.position() as u32 };
            match rooms.get(&edge) {
                // Behind everything else in the block.
                Some(Room::End(_)) => 4,
                _ => 1,
            }
        }
        Place::After(_) => 2,
        Place::Before(_) => 3,
    };
    let mut located = Vec::new();
    let mut probes: Vec<_> = wanted.probes.iter().collect();
    probes.sort_by_key(|probe| order(probe.at));
    for probe in probes {
        let lost = || Error::NoPlace { name: wanted.name.clone(), block: Index::new(0) };
        let before = place(probe.at).ok_or_else(lost)?;
        located.push(Located { at: probe.at, before, action: probe.action });
    }
    Ok(located)
}

/// The instructions as the program model numbers them.
pub fn instructions<'m>(blocks: &[Block<'m>]) -> Vec<Instruction<'m>> {
    let is_debug = |instruction: &Instruction<'m>| {
        instruction.opcode() == Opcode::CALL
            && instruction.as_call().is_some_and(|call| {
                let callee = call.callee();
                callee.as_global().is_some_and(|it| is_debug_intrinsic_name(&it.name()))
            })
    };
    let all = blocks.iter().flat_map(|block| block.instructions());
    all.filter(|instruction| !is_debug(instruction)).collect()
}

/// The instruction before which a probe of a block goes. There is none where
/// exceptions are handled in funclets: a call would have to name its funclet.
fn first_place(block: Block<'_>, is_entry: bool) -> Option<Instruction<'_>> {
    let mut at_start = is_entry;
    for instruction in block.instructions() {
        match instruction.opcode() {
            Opcode::PHI | Opcode::LANDING_PAD => {}
            Opcode::ALLOCA if at_start => {}
            Opcode::CATCH_PAD | Opcode::CLEANUP_PAD | Opcode::CATCH_SWITCH => return None,
            _ => return Some(instruction),
        }
        at_start &= instruction.opcode() == Opcode::ALLOCA;
    }
    None
}
