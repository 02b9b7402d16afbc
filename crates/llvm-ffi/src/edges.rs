//! Making room on edges.
//!
//! An edge from a block with several successors to a block with several
//! predecessors has no place for an instruction. It gets a block of its own.
//! LLVM's C API has no function for that, and cannot change a `phi`, so those of
//! the target are built anew.
//!
//! A block that unwinding leads to begins with a `landingpad`, and every
//! `invoke` that unwinds to it must go to a block that does. So where one such
//! edge needs room, each `invoke` gets a pad of its own, which goes on to the
//! block that was the pad; the values of the pads meet there in a `phi`.

use std::collections::{BTreeMap, BTreeSet};

use crate::table::{BlockRef, ValueRef};
use crate::{Block, Builder, Function, Instruction, Module, Opcode};

/// An edge by the positions of its blocks within the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockEdge {
    /// The block it leaves.
    pub from: u32,
    /// The block it leads to.
    pub to: u32,
}

impl Module<'_> {
    /// Gives each of `edges` of the function at position `function` (all
    /// functions counted, declarations included) a block of its own. If a block
    /// lists another several times, these are one edge. New blocks stand behind
    /// all others, so blocks and instructions keep their positions. Gives the
    /// positions of the new blocks; those of edges to a landing pad are given
    /// for all its edges.
    ///
    /// # Panics
    /// If there is no such function, block or edge, or if the edge leaves an
    /// `indirectbr`.
    pub fn split_edges(
        &mut self,
        function: usize,
        edges: &BTreeSet<BlockEdge>,
    ) -> BTreeMap<BlockEdge, u32> {
        let module: &Module<'_> = self;
        let function = module.functions().nth(function).expect("the function exists");
        let blocks: Vec<Block<'_>> = function.blocks().collect();
        let mut targets: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for edge in edges {
            targets.entry(edge.to).or_default().insert(edge.from);
        }
        let split = Split { module, function, blocks: &blocks, builder: Builder::new(module) };
        let mut made = BTreeMap::new();
        let mut next = blocks.len() as u32;
        // Handles of what is erased end with this function, which has the
        // module to itself.
        for (to, mut sources) in targets {
            let pad = blocks[to as usize].instructions().find(|it| it.opcode() != Opcode::PHI);
            let pad = pad.filter(|it| it.opcode() == Opcode::LANDING_PAD);
            if pad.is_some() {
                sources = split.predecessors(to);
            }
            split.split(to, &sources, pad);
            for from in sources {
                made.insert(BlockEdge { from, to }, next);
                next += 1;
            }
        }
        made
    }
}

struct Split<'a, 'm> {
    module: &'m Module<'m>,
    function: Function<'m>,
    blocks: &'a [Block<'m>],
    builder: Builder<'m>,
}

impl<'m> Split<'_, 'm> {
    /// The blocks that lead to the one at `to`.
    fn predecessors(&self, to: u32) -> BTreeSet<u32> {
        let target = self.blocks[to as usize].id();
        let leads_there = |block: &Block<'m>| {
            let terminator = block.terminator();
            terminator.is_some_and(|it| it.successors().any(|next| next.id() == target))
        };
        let positions = self.blocks.iter().enumerate().filter(|(_, block)| leads_there(block));
        positions.map(|(position, _)| position as u32).collect()
    }

    /// Makes a block on the edge from each of `sources`; `pad` is the target's
    /// landing pad, if it has one.
    fn split(&self, to: u32, sources: &BTreeSet<u32>, pad: Option<Instruction<'m>>) {
        let functions = self.module.functions_table();
        let target = self.blocks[to as usize];
        let mut between: BTreeMap<usize, BlockRef> = BTreeMap::new();
        let mut pads: Vec<(ValueRef, BlockRef)> = Vec::new();
        for &from in sources {
            let source = self.blocks[from as usize];
            let terminator = source.terminator().expect("a block that leads on is complete");
            assert!(terminator.opcode() != Opcode::INDIRECT_BR, "computed edges have no room");
            // SAFETY: the function, the blocks and the terminator are alive and
            // of one module; the terminator has the successors that are set.
            unsafe {
                let context = self.module.context.raw;
                let name = c"".as_ptr();
                let block =
                    (functions.LLVMAppendBasicBlockInContext)(context, self.function.raw, name);
                (functions.LLVMPositionBuilderAtEnd)(self.builder.raw, block);
                if let Some(pad) = pad {
                    let copy = (functions.LLVMInstructionClone)(pad.raw);
                    (functions.LLVMInsertIntoBuilder)(self.builder.raw, copy);
                    pads.push((copy, block));
                }
                let jump = (functions.LLVMBuildBr)(self.builder.raw, target.raw);
                let location = (functions.LLVMInstructionGetDebugLoc)(terminator.raw);
                (functions.LLVMInstructionSetDebugLoc)(jump, location);
                for (index, successor) in terminator.successors().enumerate() {
                    if successor.id() == target.id() {
                        (functions.LLVMSetSuccessor)(terminator.raw, index as u32, block);
                    }
                }
                between.insert(source.id(), block);
            }
        }
        let phis: Vec<Instruction<'m>> =
            target.instructions().take_while(|it| it.opcode() == Opcode::PHI).collect();
        for phi in phis {
            let mut values = Vec::new();
            let mut seen = BTreeSet::new();
            for (value, block) in phi.operands().zip(phi.incoming_blocks()) {
                match between.get(&block.id()) {
                    // One edge now, however many there were.
                    Some(_) if !seen.insert(block.id()) => {}
                    Some(new) => values.push((value.raw, *new)),
                    None => values.push((value.raw, block.raw)),
                }
            }
            self.replace(phi, &values);
        }
        if let Some(pad) = pad {
            self.replace(pad, &pads);
        }
    }

    /// Replaces a `phi` or landing pad by a `phi` of `values`.
    fn replace(&self, old: Instruction<'m>, values: &[(ValueRef, BlockRef)]) {
        let functions = self.module.functions_table();
        let (mut incoming, mut blocks): (Vec<_>, Vec<_>) = values.iter().copied().unzip();
        // SAFETY: everything is alive and of one module; the values have the
        // type of the instruction they replace, which is erased when nothing
        // uses it any more and not touched afterwards.
        unsafe {
            (functions.LLVMPositionBuilderBefore)(self.builder.raw, old.raw);
            let new = (functions.LLVMBuildPhi)(self.builder.raw, old.ty().raw, c"".as_ptr());
            (functions.LLVMAddIncoming)(
                new,
                incoming.as_mut_ptr(),
                blocks.as_mut_ptr(),
                incoming.len() as u32,
            );
            let location = (functions.LLVMInstructionGetDebugLoc)(old.raw);
            (functions.LLVMInstructionSetDebugLoc)(new, location);
            if (functions.LLVMCanValueUseFastMathFlags)(old.raw) != 0
                && (functions.LLVMCanValueUseFastMathFlags)(new) != 0
            {
                let flags = (functions.LLVMGetFastMathFlags)(old.raw);
                (functions.LLVMSetFastMathFlags)(new, flags);
            }
            (functions.LLVMReplaceAllUsesWith)(old.raw, new);
            (functions.LLVMInstructionEraseFromParent)(old.raw);
        }
    }
}
