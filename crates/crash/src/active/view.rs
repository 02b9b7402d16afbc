//! One function, as far as what is known leaves it: which blocks, edges and calls
//! can be part of an activation.
//!
//! Control leaves a block by its end, or within it, at a call that does not come
//! back. So a call is looked at in three ways: can it begin, can it return, can it
//! leave the frame. An edge is *open* if all calls before it can return.

use backtrail_graph::{Edge, Index as _};
use backtrail_ir::Block;

use super::code::{BodyCode, Exit};
use crate::evidence::Activation;

/// What can happen at a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CallFate {
    pub begins: bool,
    pub returns: bool,
    pub leaves: bool,
    /// Whether it can end the activation by taking over its frame, without
    /// returning or leaving.
    pub gives_up: bool,
}

impl CallFate {
    fn ends(self) -> bool {
        self.leaves || self.gives_up
    }
}

/// A function with what cannot be taken away.
pub(super) struct View<'a> {
    pub body: &'a BodyCode,
    /// By block.
    pub possible: Vec<bool>,
    /// By call.
    pub fates: Vec<CallFate>,
    /// Whether an activation may end anywhere.
    pub ends_anywhere: bool,
    /// By edge.
    open: Vec<bool>,
}

/// What can be part of some activations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// By block.
    pub blocks: Vec<bool>,
    /// By edge.
    pub edges: Vec<bool>,
    /// By call: whether it can have begun.
    pub calls: Vec<bool>,
}

impl Part {
    /// Nothing of a function.
    pub fn empty(body: &BodyCode) -> Self {
        Self {
            blocks: vec![false; body.flow.node_count()],
            edges: vec![false; body.flow.edge_count()],
            calls: vec![false; body.calls.len()],
        }
    }

    /// Adds what is in another.
    pub fn add(&mut self, other: &Self) {
        let join = |mine: &mut Vec<bool>, its: &[bool]| {
            mine.iter_mut().zip(its).for_each(|(mine, its)| *mine |= its);
        };
        join(&mut self.blocks, &other.blocks);
        join(&mut self.edges, &other.edges);
        join(&mut self.calls, &other.calls);
    }
}

impl<'a> View<'a> {
    /// The function in which these blocks and calls are possible.
    pub fn new(
        body: &'a BodyCode,
        possible: Vec<bool>,
        fates: Vec<CallFate>,
        ends_anywhere: bool,
    ) -> Self {
        let mut view = Self { body, possible, fates, ends_anywhere, open: Vec::new() };
        view.open = body.flow.edges().map(|edge| view.is_open(edge)).collect();
        view
    }

    fn is_open(&self, edge: Edge) -> bool {
        let (from, to) = (self.body.flow.source(edge), self.body.flow.target(edge));
        if !self.possible[from.position()] || !self.possible[to.position()] {
            return false;
        }
        let calls = self.calls(from);
        match self.body.exits[from.position()] {
            Exit::Invoke(next, unwound) => {
                let Some((last, before)) = calls.split_last() else { return true };
                let fits = (last.returns && to == next) || (last.leaves && to == unwound);
                fits && before.iter().all(|fate| fate.returns)
            }
            _ => calls.iter().all(|fate| fate.returns),
        }
    }

    /// The calls of a block.
    fn calls(&self, block: Block) -> &[CallFate] {
        let (first, end) = self.body.calls_of[block.position()];
        &self.fates[first as usize..end as usize]
    }

    /// The calls of a block that control can come to.
    pub fn reached_calls(&self, block: Block) -> usize {
        let calls = self.calls(block);
        let stop = calls.iter().position(|fate| !fate.returns);
        stop.map_or(calls.len(), |stop| stop + usize::from(calls[stop].begins))
    }

    /// Whether control can come to the end of a block. An invoke is its end.
    fn passes(&self, block: Block) -> bool {
        let calls = self.calls(block);
        let before = match self.body.exits[block.position()] {
            Exit::Invoke(..) => &calls[..calls.len().saturating_sub(1)],
            _ => calls,
        };
        before.iter().all(|fate| fate.returns)
    }

    /// Whether an activation that enters a block may end in it.
    fn ends_in(&self, block: Block) -> bool {
        let calls = &self.calls(block)[..self.reached_calls(block)];
        self.ends_anywhere
            || calls.iter().any(|fate| fate.ends())
            || (matches!(self.body.exits[block.position()], Exit::Return | Exit::Leave)
                && self.passes(block))
    }

    /// The blocks that the entry leads to.
    pub fn forward(&self) -> Vec<bool> {
        let entry = Block::new(0);
        match self.possible.first() {
            Some(true) => self.reach([entry], false),
            _ => vec![false; self.possible.len()],
        }
    }

    /// The blocks that some lead to over open edges, or that lead to them.
    fn reach(&self, from: impl IntoIterator<Item = Block>, backward: bool) -> Vec<bool> {
        let flow = &self.body.flow;
        let mut reached = vec![false; flow.node_count()];
        let mut pending: Vec<Block> = from.into_iter().collect();
        let twice = if self.body.twice.is_empty() { Vec::new() } else { self.leaving_blocks() };
        for &block in &pending {
            reached[block.position()] = true;
        }
        while let Some(block) = pending.pop() {
            let mut visit = |next: Block| {
                if !std::mem::replace(&mut reached[next.position()], true) {
                    pending.push(next);
                }
            };
            let edges = if backward { flow.in_edges(block) } else { flow.out_edges(block) };
            for &edge in edges.iter().filter(|edge| self.open[edge.position()]) {
                visit(if backward { flow.source(edge) } else { flow.target(edge) });
            }
            // What leaves a frame may come back to where a call returns twice.
            if !twice.is_empty() {
                let landings = || self.body.twice.iter().copied();
                if backward && self.body.twice.contains(&block) {
                    twice.iter().copied().for_each(visit);
                } else if !backward && twice.contains(&block) {
                    landings().filter(|it| self.possible[it.position()]).for_each(visit);
                }
            }
        }
        reached
    }

    /// The blocks in which a call may leave, for a landing in the same function.
    fn leaving_blocks(&self) -> Vec<Block> {
        let leaves = |&block: &Block| {
            let calls = &self.calls(block)[..self.reached_calls(block)];
            self.possible[block.position()]
                && (self.ends_anywhere || calls.iter().any(|fate| fate.leaves))
        };
        self.body.flow.nodes().filter(leaves).collect()
    }

    /// Whether an activation can return, and whether it can end otherwise.
    pub fn outcomes(&self) -> (bool, bool) {
        let reached = self.forward();
        let mut found = (false, false);
        for block in self.body.flow.nodes().filter(|block| reached[block.position()]) {
            let exit = self.body.exits[block.position()];
            let calls = &self.calls(block)[..self.reached_calls(block)];
            found.0 |= exit == Exit::Return && self.passes(block);
            found.1 |= (exit == Exit::Leave && self.passes(block))
                || self.ends_anywhere
                || calls.iter().any(|fate| fate.leaves);
        }
        found
    }

    /// What can be part of an activation that has ended.
    pub fn ended(&self) -> Part {
        let flow = &self.body.flow;
        let reached = self.forward();
        let ends = flow.nodes().filter(|&block| reached[block.position()] && self.ends_in(block));
        let ends: Vec<Block> = ends.collect();
        let alive = self.reach(ends, true);
        let mut part = Part::empty(self.body);
        for block in flow.nodes() {
            part.blocks[block.position()] = reached[block.position()] && alive[block.position()];
        }
        for edge in flow.edges() {
            let ends = [flow.source(edge), flow.target(edge)];
            part.edges[edge.position()] = self.open[edge.position()]
                && ends.iter().all(|block| part.blocks[block.position()]);
        }
        for block in flow.nodes().filter(|block| part.blocks[block.position()]) {
            // From the end of the block on: what leads to an end?
            let exit = self.body.exits[block.position()];
            let out = flow.out_edges(block).iter();
            let goes_on = |edge: &&Edge| part.edges[edge.position()];
            let mut alive = self.ends_anywhere
                || matches!(exit, Exit::Return | Exit::Leave)
                || out.filter(goes_on).count() > 0;
            let is_invoke = matches!(exit, Exit::Invoke(..));
            let first = self.body.calls_of[block.position()].0 as usize;
            let fates = self.calls(block);
            for (place, fate) in fates.iter().enumerate().rev() {
                // Whether an invoke returns is part of whether edges are open.
                let returns = fate.returns || (is_invoke && place + 1 == fates.len());
                alive = self.ends_anywhere || fate.ends() || (returns && alive);
                part.calls[first + place] =
                    fate.begins && alive && place < self.reached_calls(block);
            }
        }
        part
    }

    /// What can be part of this activation, which is live; calls in the block
    /// where it is only as far as it passed that block before.
    pub fn live(&self, activation: &Activation, known: &[Block]) -> Part {
        let flow = &self.body.flow;
        let mut part = Part::empty(self.body);
        let suffix = &activation.suffix;
        if !activation.complete || suffix.is_empty() {
            self.before(suffix.first().copied(), known, &mut part);
        }
        for (place, &block) in suffix.iter().enumerate() {
            part.blocks[block.position()] = true;
            let Some(&next) = suffix.get(place + 1) else { continue };
            let (first, end) = self.body.calls_of[block.position()];
            for call in first..end {
                part.calls[call as usize] |= self.fates[call as usize].begins;
            }
            for &edge in flow.out_edges(block) {
                part.edges[edge.position()] |= flow.target(edge) == next;
            }
        }
        part
    }

    /// What can come before an activation enters `until`; if that is not known,
    /// all that it can do. Each block of `known` was entered.
    fn before(&self, until: Option<Block>, known: &[Block], part: &mut Part) {
        let flow = &self.body.flow;
        let reached = self.forward();
        let leads_there = match until {
            Some(until) => self.reach([until], true),
            None => vec![true; flow.node_count()],
        };
        let mut inside: Vec<bool> =
            reached.iter().zip(&leads_there).map(|(&from, &to)| from && to).collect();
        let mut edges: Vec<bool> = flow
            .edges()
            .map(|edge| {
                let ends = [flow.source(edge), flow.target(edge)];
                self.open[edge.position()] && ends.iter().all(|block| inside[block.position()])
            })
            .collect();
        // All that was executed is on one way: whatever neither leads to a block
        // that was entered nor comes after it was not.
        let known: Vec<Block> =
            known.iter().copied().filter(|block| inside[block.position()]).collect();
        for block in known {
            let (from, to) = (self.reach([block], false), self.reach([block], true));
            for edge in flow.edges() {
                let (source, target) = (flow.source(edge), flow.target(edge));
                edges[edge.position()] &= from[source.position()] || to[target.position()];
            }
            for other in flow.nodes() {
                inside[other.position()] &= from[other.position()] || to[other.position()];
            }
        }
        for block in flow.nodes().filter(|block| inside[block.position()]) {
            part.blocks[block.position()] = true;
            // Where a call returns twice, calls may have left a block that was not
            // passed.
            let passed = until != Some(block)
                || !self.body.twice.is_empty()
                || flow.out_edges(block).iter().any(|edge| edges[edge.position()]);
            if passed {
                let first = self.body.calls_of[block.position()].0 as usize;
                for call in first..first + self.reached_calls(block) {
                    part.calls[call] |= self.fates[call].begins;
                }
            }
        }
        for (mine, its) in part.edges.iter_mut().zip(edges) {
            *mine |= its;
        }
    }
}
