//! How often a run passed blocks, and went from each to which, by its trace.
//!
//! A trace has blocks and the depths of their frames. The block before, in the same
//! frame, says which way was taken; a frame that begins says who called or jumped.
//! Where a trace does not say (how often a library called back at the top of a
//! thread), ways are counted too seldom and nodes are not: what no plan can stay
//! below is then told lower than it is, never higher ([`crate::lower_bound`]).

use std::collections::HashMap;

use backtrail_machine::code::{Callee, Code, Exit};

/// What a run passed.
#[derive(Debug, Clone)]
pub struct Counts<'a> {
    code: &'a Code,
    /// By block: how often it was executed.
    pub(super) blocks: Vec<u64>,
    /// By block and block: how often the second followed in the same frame, or took
    /// the frame over.
    pub(super) steps: HashMap<(u32, u32), u64>,
    /// By block that ends in a call: how often there was one call more than its own.
    pub(super) callbacks: Vec<u64>,
    frames: Vec<Frame>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    /// The last block in it.
    block: u32,
    /// Whether that has made its own call.
    has_called: bool,
}

impl<'a> Counts<'a> {
    /// Nothing yet.
    pub fn new(code: &'a Code) -> Self {
        let blocks = vec![0; code.blocks.len()];
        let callbacks = blocks.clone();
        Self { code, blocks, steps: HashMap::new(), callbacks, frames: Vec::new() }
    }

    /// Another thread begins.
    pub fn begin_thread(&mut self) {
        self.frames.clear();
    }

    /// The next block of a thread, as trace files have it: how many frames there
    /// are, and whether its own begins. Blocks that the code does not have count
    /// nothing.
    pub fn push(&mut self, block: u32, depth: u32, enters: bool) {
        let Some(count) = self.blocks.get_mut(block as usize) else { return };
        *count += 1;
        let depth = depth.max(1) as usize;
        let frame = Frame { block, has_called: false };
        if depth > self.frames.len() + 1 {
            // Frames that are not known.
            self.frames.resize(depth, frame);
            return;
        }
        let is_new = depth == self.frames.len() + 1;
        self.frames.truncate(depth);
        match self.frames.last().copied() {
            Some(before) if !is_new && (!enters || self.hands_over(before.block, block)) => {
                *self.steps.entry((before.block, block)).or_insert(0) += 1;
            }
            _ if depth > 1 => self.count_call(depth - 2),
            _ => {}
        }
        self.frames.truncate(depth - 1);
        self.frames.push(frame);
    }

    /// Whether a block may jump to one that begins another routine.
    fn hands_over(&self, block: u32, next: u32) -> bool {
        match &self.code.blocks[block as usize].exit {
            Exit::Blocks(_)
            | Exit::BlocksOrTail(_, Callee::Routine(_))
            | Exit::Tail(Callee::Routine(_))
            | Exit::Call(_, Some(_)) => true,
            Exit::BlocksOrTail(blocks, _) => blocks.contains(&(next as usize)),
            _ => false,
        }
    }

    fn count_call(&mut self, caller: usize) {
        let Some(frame) = self.frames.get_mut(caller) else { return };
        let is_own = matches!(
            self.code.blocks[frame.block as usize].exit,
            Exit::Call(Callee::Routine(_), _)
        );
        if std::mem::replace(&mut frame.has_called, true) || !is_own {
            self.callbacks[frame.block as usize] += 1;
        }
    }
}
