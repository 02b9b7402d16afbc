//! What a core tells of a run, as plain data.
//!
//! Whoever reads records and coverage out of a core fills this in; whoever asks
//! what can have run ([`crate::active`]) reads it. Neither knows how the other
//! works.
//!
//! *Executed* means of a block that it was entered, and of a call that it was
//! begun: that control came to it and the callee was about to be entered. So a
//! block in which the program died is executed, and so is the call in progress.
//! Everything here must be certain, or [`Seen::Unknown`]: a single wrong `No`
//! makes executed code impossible. In particular a probe that comes a few
//! instructions behind what it stands for says nothing of the place at which a
//! thread was stopped; blocks that are `at` or in `suffix` of some activation are
//! taken as executed whatever the coverage says.

use std::collections::BTreeMap;

use backtrail_ir::{Block, Func, IndexMap, Inst};

/// Whether something was executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seen {
    /// It is not known.
    #[default]
    Unknown,
    /// It was not.
    No,
    /// It was.
    Yes,
}

/// A function: the id of its unit, and its number in it.
pub type FunctionId = ([u8; 16], Func);

/// What was executed of a function: by all its activations, or by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// By block; empty if nothing is known of any.
    pub blocks: IndexMap<Block, Seen>,
    /// By call ([`backtrail_ir::Op::call`], intrinsics and assembly excepted);
    /// those that are missing are unknown.
    pub calls: BTreeMap<Inst, Seen>,
}

impl Coverage {
    /// Whether a block was executed.
    pub fn block(&self, block: Block) -> Seen {
        self.blocks.get(block).copied().unwrap_or_default()
    }

    /// Whether a call was begun.
    pub fn call(&self, call: Inst) -> Seen {
        self.calls.get(&call).copied().unwrap_or_default()
    }
}

/// What is known of a function over the whole run, in all threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionEvidence {
    /// Whether it was ever entered.
    pub entered: Seen,
    /// What was ever executed, by any activation.
    pub coverage: Coverage,
}

/// Where an activation is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Position {
    /// At some instruction of its block, which may be any: the program died or was
    /// interrupted there.
    #[default]
    Within,
    /// At a call that is under way, whichever of its block that is.
    SomeCall,
    /// At this call, which is under way.
    Call(Inst),
}

/// A live activation of a function that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activation {
    /// The function.
    pub function: FunctionId,
    /// The block that is being executed, if it is known.
    pub at: Option<Block>,
    /// Where in that block.
    pub position: Position,
    /// The blocks it entered last, oldest first: what a log of the blocks of this
    /// activation ends with. The last is `at`, unless the list is empty.
    pub suffix: Vec<Block>,
    /// Whether that is all since the function was entered.
    pub complete: bool,
    /// What this activation executed.
    pub coverage: Coverage,
}

/// A frame of a thread's stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackFrame {
    /// Of a function that is known.
    Known(Activation),
    /// Of code that is not seen: a library, a signal's frame.
    Unseen,
}

/// The stack of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stack {
    /// Its frames, innermost first.
    pub frames: Vec<StackFrame>,
    /// Further activations, in no order: of a deep recursion not every frame is
    /// kept.
    pub folded: Vec<Activation>,
    /// Whether these are all, and certain.
    pub complete: bool,
}

/// What a core tells of the functions of one program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Functions; nothing is known of those that are missing.
    pub functions: BTreeMap<FunctionId, FunctionEvidence>,
    /// The threads, all that there were when the program died.
    pub threads: Vec<Stack>,
    /// Whether there may have been other threads.
    pub threads_missing: bool,
}

impl StackFrame {
    /// The activation, if the function is known.
    pub fn known(&self) -> Option<&Activation> {
        match self {
            Self::Known(activation) => Some(activation),
            Self::Unseen => None,
        }
    }
}

impl Evidence {
    /// The live activations, of all threads.
    pub fn activations(&self) -> impl Iterator<Item = &Activation> {
        self.threads.iter().flat_map(|thread| {
            thread.frames.iter().filter_map(StackFrame::known).chain(&thread.folded)
        })
    }

    /// The same stacks, and nothing else: neither coverage nor paths.
    pub fn stacks_only(&self) -> Self {
        let stripped = |activation: &Activation| Activation {
            suffix: activation.at.into_iter().collect(),
            complete: false,
            coverage: Coverage::default(),
            ..*activation
        };
        let frame = |frame: &StackFrame| match frame {
            StackFrame::Unseen => StackFrame::Unseen,
            StackFrame::Known(activation) => StackFrame::Known(stripped(activation)),
        };
        let stack = |stack: &Stack| Stack {
            frames: stack.frames.iter().map(frame).collect(),
            folded: stack.folded.iter().map(stripped).collect(),
            complete: stack.complete,
        };
        Self {
            functions: BTreeMap::new(),
            threads: self.threads.iter().map(stack).collect(),
            threads_missing: self.threads_missing,
        }
    }
}
