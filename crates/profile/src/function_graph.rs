//! The graph whose paths are counted: pieces of blocks, and what joins them.
//!
//! Nearly every block is one piece. Some are several, because a path must end
//! within them:
//!
//! - before a call that returns twice (`setjmp`, `vfork`), and behind it a new
//!   path starts: on the second return the sum of the first would be stale;
//! - before a computed goto, whose edges have no place for a probe: a new path
//!   starts with the jump, so that no edge behind it needs one;
//! - before a call that does not return, where the piece has no successor and
//!   the path leaves the function. What follows in the block is never run. Not
//!   so in a function with a call that returns twice: what does not return may
//!   come back there (`longjmp`, `_exit` in the child of a `vfork`), and the
//!   activation goes on;
//! - before a call in tail position that may reuse the frame: it is the end of
//!   the activation. Counting behind it would keep the frame, and a program that
//!   loops by such calls would run out of stack.
//!
//! However many cases of a `switch` lead from one block to another, they are one
//! edge. The edges of a piece are by the number of their target, so that two
//! computed gotos with the same targets number them alike.

use std::collections::BTreeSet;

use backtrail_analysis::calls::{
    call_before_shared_return, has_call_that_returns_twice, is_in_tail_position, traits_of,
};
use backtrail_graph::{Digraph, Edge, Index, IndexMap, define_index};
use backtrail_ir::{Block, Callee, Func, Function, Inst, Op, Unit};
use backtrail_plan::LeftOut;

define_index!(
    /// A piece of a block.
    Piece, "p"
);

/// How a piece begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// With its block.
    Block,
    /// Within it, behind a call that returns twice.
    Returned,
    /// Within it, at a computed goto.
    Jump,
}

/// How a piece that has no successor ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// The function is left here: before this instruction the path is counted.
    Function(Inst),
    /// Before this call, which does not return.
    Call(Inst),
}

/// A piece of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceData {
    /// The block.
    pub block: Block,
    /// How it begins.
    pub begin: Begin,
    /// How it ends, if nothing follows.
    pub leave: Option<Leave>,
}

/// What joins two pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// An edge between blocks; code can be put on it.
    Edge,
    /// An edge between blocks that has no place for code.
    Computed,
    /// The point before this computed goto.
    Jump(Inst),
    /// Before and behind this call, which returns twice.
    Twice(Inst),
}

/// The graph of a function's pieces.
#[derive(Debug, Clone)]
pub struct FunctionGraph {
    /// The pieces; the first is where the function begins.
    pub pieces: IndexMap<Piece, PieceData>,
    /// How they are joined.
    pub flow: Digraph<Piece>,
    /// What each edge of `flow` is, by number.
    pub joints: Vec<Joint>,
}

impl FunctionGraph {
    /// The graph of `function`, or why its paths cannot be counted.
    pub fn new(unit: &Unit, function: Func) -> Result<Self, LeftOut> {
        let body = &unit.functions[function];
        let returns_twice = has_call_that_returns_twice(unit, body);
        let mut pieces = IndexMap::<Piece, PieceData>::new();
        // Joints within blocks, and the last piece of each block that leads on.
        let mut within: Vec<(Piece, Piece, Joint)> = Vec::new();
        let mut first_piece = Vec::new();
        let mut leading_on: Vec<Option<Piece>> = Vec::new();
        for (block, data) in body.blocks.iter() {
            let mut piece = pieces.push(PieceData { block, begin: Begin::Block, leave: None });
            first_piece.push(piece);
            let mut leave = None;
            for inst in data.insts() {
                match &body.insts[inst].op {
                    Op::Call(call) => {
                        let traits = traits_of(unit, call);
                        if traits.no_return && !returns_twice {
                            leave = Some(Leave::Call(inst));
                        } else if is_in_tail_position(body, inst) {
                            leave = Some(Leave::Function(inst));
                        } else if traits.returns_twice {
                            let begin = Begin::Returned;
                            let next = pieces.push(PieceData { block, begin, leave: None });
                            within.push((piece, next, Joint::Twice(inst)));
                            piece = next;
                        }
                    }
                    Op::Invoke(call) if traits_of(unit, call).returns_twice => {
                        return Err(LeftOut::InvokeReturnsTwice);
                    }
                    Op::IndirectJump => {
                        let next =
                            pieces.push(PieceData { block, begin: Begin::Jump, leave: None });
                        within.push((piece, next, Joint::Jump(inst)));
                        piece = next;
                    }
                    Op::OtherTerminator { .. } => return Err(LeftOut::Funclets),
                    _ => {}
                }
                if leave.is_some() {
                    break;
                }
            }
            if leave.is_none() && data.successors.is_empty() {
                leave = Some(Leave::Function(data.terminator()));
            }
            pieces[piece].leave = leave;
            leading_on.push(leave.is_none().then_some(piece));
        }
        let mut ends = Vec::new();
        let mut joints = Vec::new();
        for (from, to, joint) in within {
            ends.push((from, to));
            joints.push(joint);
        }
        for (block, data) in body.blocks.iter() {
            let Some(from) = leading_on[block.position()] else { continue };
            let computed = matches!(body.insts[data.terminator()].op, Op::IndirectJump);
            let targets: BTreeSet<Block> = data.successors.iter().copied().collect();
            for target in targets {
                ends.push((from, first_piece[target.position()]));
                joints.push(if computed { Joint::Computed } else { Joint::Edge });
            }
        }
        let flow = Digraph::new(pieces.len(), ends);
        Ok(Self { pieces, flow, joints })
    }

    /// Where the function begins.
    pub fn entry(&self) -> Piece {
        Piece::new(0)
    }

    /// What joins the pieces of an edge.
    pub fn joint(&self, edge: Edge) -> Joint {
        self.joints[edge.position()]
    }

    /// The edges at which paths must end.
    pub fn forced_cuts(&self) -> BTreeSet<Edge> {
        let is_forced = |edge: &Edge| matches!(self.joint(*edge), Joint::Jump(_) | Joint::Twice(_));
        self.flow.edges().filter(is_forced).collect()
    }

    /// The calls behind which a new path begins at each return.
    pub fn calls_that_return_twice(&self) -> impl Iterator<Item = Inst> {
        self.joints.iter().filter_map(|joint| match joint {
            Joint::Twice(inst) => Some(*inst),
            _ => None,
        })
    }

    /// The edges that have no place for code.
    pub fn computed(&self) -> BTreeSet<Edge> {
        self.flow.edges().filter(|edge| self.joint(*edge) == Joint::Computed).collect()
    }

    /// The block of a piece.
    pub fn block(&self, piece: Piece) -> Block {
        self.pieces[piece].block
    }
}

/// Whether an activation of `function` can end before its path does, other than
/// by a fault or a kill: something is called that may exit, jump or unwind.
pub fn can_be_left_early(function: &Function) -> bool {
    function.blocks.iter().any(|(block, data)| {
        let last = call_before_shared_return(function, block);
        data.insts().any(|inst| {
            let call = function.insts[inst].op.call();
            call.is_some_and(|call| !matches!(call.callee, Callee::Intrinsic(_)))
                && !is_in_tail_position(function, inst)
                && last != Some(inst)
        })
    })
}
