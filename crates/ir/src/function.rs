//! What can be asked of an instruction, a block or a function.
//!
//! These assume a verified unit: positions are in range, every block ends with
//! its one terminator.

use backtrail_graph::{Digraph, Index, PathCount, PathDag};

use crate::{Block, BlockData, CallData, Function, Inst, InstData, Op, Value};

impl Op {
    /// Whether it ends its block.
    pub fn is_terminator(&self) -> bool {
        match self {
            Self::Return
            | Self::Jump
            | Self::Branch
            | Self::Switch { .. }
            | Self::IndirectJump
            | Self::Invoke(_)
            | Self::AsmGoto(_)
            | Self::Resume
            | Self::Unreachable
            | Self::OtherTerminator { .. } => true,
            Self::Alloca { .. }
            | Self::Load(_)
            | Self::Store(_)
            | Self::AtomicUpdate(_)
            | Self::Fence
            | Self::Address { .. }
            | Self::Phi { .. }
            | Self::Select
            | Self::Compare
            | Self::Compute { .. }
            | Self::Call(_)
            | Self::LandingPad => false,
        }
    }

    /// Whether it may compute a value; calls may or may not.
    pub fn may_have_result(&self) -> bool {
        match self {
            Self::Invoke(_) | Self::AsmGoto(_) | Self::OtherTerminator { .. } => true,
            Self::Store(_) | Self::Fence => false,
            other => !other.is_terminator(),
        }
    }

    /// The least and the most operands it has; `u32::MAX` for any number.
    pub(crate) fn operand_counts(&self) -> (u32, u32) {
        match self {
            Self::Fence | Self::Jump | Self::Unreachable => (0, 0),
            Self::Return => (0, 1),
            Self::Alloca { .. } | Self::Load(_) | Self::Branch | Self::Switch { .. } => (1, 1),
            Self::IndirectJump | Self::Resume => (1, 1),
            Self::AtomicUpdate(_) => (1, 3),
            Self::Store(_) | Self::Compare => (2, 2),
            Self::Select => (3, 3),
            Self::Address { .. } => (1, u32::MAX),
            Self::Phi { from } => {
                let count = u32::try_from(from.len()).unwrap_or(u32::MAX);
                (count, count)
            }
            Self::Compute { .. }
            | Self::Call(_)
            | Self::LandingPad
            | Self::Invoke(_)
            | Self::AsmGoto(_)
            | Self::OtherTerminator { .. } => (0, u32::MAX),
        }
    }

    /// How many successors its block has, where that is settled.
    pub(crate) fn successor_count(&self) -> Option<usize> {
        match self {
            Self::Return | Self::Resume | Self::Unreachable => Some(0),
            Self::Jump => Some(1),
            Self::Branch | Self::Invoke(_) => Some(2),
            Self::Switch { cases } => Some(cases.len() + 1),
            _ => None,
        }
    }

    /// The call, for [`Op::Call`], [`Op::Invoke`] and [`Op::AsmGoto`].
    pub fn call(&self) -> Option<&CallData> {
        match self {
            Self::Call(call) | Self::Invoke(call) | Self::AsmGoto(call) => Some(call),
            _ => None,
        }
    }
}

impl BlockData {
    /// Its instructions.
    pub fn insts(&self) -> impl DoubleEndedIterator<Item = Inst> + ExactSizeIterator + use<> {
        (self.first as usize..self.end as usize).map(Inst::new)
    }

    /// Its last instruction.
    pub fn terminator(&self) -> Inst {
        Inst::new(self.end as usize - 1)
    }
}

impl Function {
    /// The operands of `inst`.
    pub fn operands_of(&self, inst: &InstData) -> &[Value] {
        &self.operands[inst.operands as usize..][..inst.operand_count as usize]
    }

    /// The first block. Control enters here.
    pub fn entry(&self) -> Block {
        Block::new(0)
    }

    /// The control-flow graph. However many cases of a `switch` or targets of
    /// an indirect jump lead from one block to another, they are one edge: which
    /// of them was taken makes no difference to the blocks that run.
    pub fn control_flow(&self) -> Digraph<Block> {
        // `listed[to] == from + 1` once the edge is there.
        let mut listed = vec![0u32; self.blocks.len()];
        let mut edges = Vec::new();
        for (from, data) in self.blocks.iter() {
            for &to in &data.successors {
                let mark = from.position() as u32 + 1;
                if listed[to.position()] != mark {
                    listed[to.position()] = mark;
                    edges.push((from, to));
                }
            }
        }
        Digraph::new(self.blocks.len(), edges)
    }

    /// The acyclic graph of its paths, on [`Self::control_flow`].
    pub fn path_dag(&self) -> PathDag {
        PathDag::new(&self.control_flow(), self.entry())
    }

    /// How many acyclic paths it has: from the entry or a loop head, to an exit
    /// or the bottom of a loop. See [`backtrail_graph::path_dag`]; several edges
    /// from one block to another count as one.
    pub fn acyclic_paths(&self) -> PathCount {
        self.path_dag().path_count()
    }
}
