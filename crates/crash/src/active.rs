//! What can have run: the blocks, edges and functions that some execution which
//! agrees with a core can have passed.
//!
//! After Ohmann and Liblit (*Lightweight control-flow instrumentation and
//! postmortem analysis in support of debugging*, 2017, section 4), with these
//! differences:
//!
//! - Activations that have ended and those that are live are kept apart. One that
//!   has ended began at the entry and came to an end: a return, **or a call that
//!   left it** (longjmp, an exception, the end of a thread). One that is live came
//!   to where it is, by the blocks that it recorded last.
//! - A call that nothing can return from is not passed, and one whose callee was
//!   never entered was not made. What ends the process was not called: its
//!   activation would be live.
//! - A block that an activation is known to have entered excludes what is on no
//!   way with it: outside of loops, only one branch of an `if` ran.
//! - Functions run because a live frame or an active call can have called them, or
//!   because unseen code may: before `main`, in callbacks, in threads, in signal
//!   handlers ([`Code`]).
//! - A call in tail position may have given up its frame. So what is between two
//!   frames of a stack may have been more than one call.
//!
//! Every executed block, edge and call is active, if the program does what its
//! code says: no assumption covers a wild jump. Blocks count as executed once they
//! are entered.
//!
//! Cost: a few passes over the program, and over the function of each live frame
//! one for each block that it is known to have entered.

mod code;
mod facts;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use backtrail_analysis::Body;
use backtrail_graph::{Dominators, Edge, Index as _, IndexMap};
use backtrail_ir::{Block, Inst};

pub use code::Code;
use code::{CallSite, UnseenCalls};
use facts::Facts;
use view::Part;

use crate::evidence::{Activation, Evidence, FunctionId, Position, Seen, StackFrame};

/// What can have run.
#[derive(Debug, Clone)]
pub struct Active {
    parts: IndexMap<Body, Part>,
    /// By function and block: whether it certainly ran.
    executed: IndexMap<Body, Vec<bool>>,
    /// By thread and frame: the blocks that the activation can have entered.
    live: BTreeMap<(usize, usize), Vec<bool>>,
    /// Direct calls of the program, as edges.
    calls: Vec<(Body, usize)>,
}

/// How much can have run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Functions.
    pub functions: u64,
    /// Blocks.
    pub nodes: u64,
    /// Edges between blocks, and direct calls.
    pub edges: u64,
}

impl Active {
    /// What can have run of `code`, if `evidence` is what is known.
    pub fn compute(code: &Code, evidence: &Evidence) -> Self {
        let incomplete =
            evidence.threads_missing || evidence.threads.iter().any(|thread| !thread.complete);
        let facts = Facts::new(code, evidence, code.may_end_anywhere || incomplete);
        let mut alone = BTreeSet::new();
        loop {
            let mut search = Search::new(code, &facts, evidence, incomplete, &alone);
            search.run();
            // A function with one activation only: what the function did is what
            // that activation did.
            let more = search.with_one_activation();
            if more == alone {
                return search.finish();
            }
            alone = more;
        }
    }

    /// Whether a block can have been entered.
    pub fn block(&self, body: Body, block: Block) -> bool {
        self.parts[body].blocks.get(block.position()).copied().unwrap_or(false)
    }

    /// Whether an edge of [`Code::flow`] can have been taken.
    pub fn edge(&self, body: Body, edge: Edge) -> bool {
        self.parts[body].edges.get(edge.position()).copied().unwrap_or(false)
    }

    /// Whether an activation can have entered a block, by the places of its thread
    /// and its frame in the evidence; not known of what is not there.
    pub fn by_activation(&self, thread: usize, frame: usize, block: Block) -> Option<bool> {
        self.live.get(&(thread, frame))?.get(block.position()).copied()
    }

    /// The calls that can have begun, in order.
    pub fn calls<'a>(&'a self, code: &'a Code, body: Body) -> impl Iterator<Item = Inst> + 'a {
        let calls = code.bodies[body].calls.iter().zip(&self.parts[body].calls);
        calls.filter(|(_, active)| **active).map(|(site, _)| site.inst)
    }

    /// Whether a block was certainly entered.
    pub fn executed(&self, body: Body, block: Block) -> bool {
        self.executed[body].get(block.position()).copied().unwrap_or(false)
    }

    /// Whether a function can have been entered.
    pub fn function(&self, body: Body) -> bool {
        self.block(body, Block::new(0))
    }

    /// The functions that certainly did something which cannot have been, if the model of
    /// the program is right: so it is not. One that something called is such a function if
    /// nothing is known to call it; of the outermost frame nothing is known anyway.
    pub fn contradictions(&self, code: &Code, evidence: &Evidence) -> BTreeSet<FunctionId> {
        let covered = evidence.functions.iter().filter(|&(&id, seen)| {
            let blocks = || seen.coverage.blocks.indices();
            code.body(id).is_some_and(|body| {
                let is_wrong =
                    |block| seen.coverage.block(block) == Seen::Yes && !self.block(body, block);
                (seen.entered == Seen::Yes && !self.function(body)) || blocks().any(is_wrong)
            })
        });
        let live = evidence.activations().filter(|activation| {
            let body = code.body(activation.function);
            body.is_some_and(|body| {
                !self.function(body) || activation.at.is_some_and(|at| !self.block(body, at))
            })
        });
        let unreachable = code.unreachable();
        let inner = evidence.threads.iter().flat_map(|thread| {
            let (_, inner) = thread.frames.split_last().unwrap_or((&StackFrame::Unseen, &[]));
            inner.iter().filter_map(StackFrame::known).chain(&thread.folded)
        });
        let called = inner.filter(|activation| unreachable.contains(&activation.function));
        let wrong = live.chain(called).map(|activation| activation.function);
        covered.map(|(id, _)| *id).chain(wrong).collect()
    }

    /// How much it is.
    pub fn size(&self) -> Size {
        let count = |list: &[bool]| list.iter().filter(|it| **it).count() as u64;
        let direct = self.calls.iter().filter(|(body, call)| self.parts[*body].calls[*call]);
        Size {
            functions: self.parts.indices().filter(|&body| self.function(body)).count() as u64,
            nodes: self.parts.values().map(|part| count(&part.blocks)).sum(),
            edges: self.parts.values().map(|part| count(&part.edges)).sum::<u64>()
                + direct.count() as u64,
        }
    }

    /// What is active in both, and certain in both.
    pub fn intersect(&self, other: &Self) -> Self {
        let mut both = self.clone();
        let and = |mine: &mut Vec<bool>, its: &[bool]| {
            mine.iter_mut().zip(its).for_each(|(mine, its)| *mine &= its);
        };
        for body in self.parts.indices() {
            let (mine, its) = (&mut both.parts[body], &other.parts[body]);
            and(&mut mine.blocks, &its.blocks);
            and(&mut mine.edges, &its.edges);
            and(&mut mine.calls, &its.calls);
            and(&mut both.executed[body], &other.executed[body]);
        }
        both.live.clear();
        both
    }
}

/// What called what, seen from a frame: the frame above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inner {
    /// None: the frame is the innermost.
    None,
    /// A function of the program.
    Known(Body),
    /// Code that is not seen.
    Unseen,
    /// It is not known which.
    Unknown,
}

/// Whom a function may give up its frame for.
#[derive(Debug, Default)]
struct TailCalls {
    bodies: BTreeSet<Body>,
    unseen: bool,
    /// Whether that unseen code may call functions of the program.
    calls_back: bool,
}

impl TailCalls {
    /// Whether the frame that is there then can be this one.
    fn lead_to(&self, inner: Inner) -> bool {
        match inner {
            Inner::None => false,
            Inner::Known(body) => self.calls_back || self.bodies.contains(&body),
            Inner::Unseen => self.unseen,
            Inner::Unknown => true,
        }
    }
}

struct Search<'a> {
    code: &'a Code,
    facts: &'a Facts<'a>,
    evidence: &'a Evidence,
    /// Functions all of whose doings are those of their one activation.
    alone: &'a BTreeSet<Body>,
    parts: IndexMap<Body, Part>,
    /// Functions that can have activations that have ended.
    ended: IndexMap<Body, bool>,
    pending: Vec<Body>,
    live: BTreeMap<(usize, usize), Vec<bool>>,
    anyone: bool,
    incomplete: bool,
}

impl<'a> Search<'a> {
    fn new(
        code: &'a Code,
        facts: &'a Facts<'a>,
        evidence: &'a Evidence,
        incomplete: bool,
        alone: &'a BTreeSet<Body>,
    ) -> Self {
        Self {
            code,
            facts,
            evidence,
            alone,
            parts: code.bodies.values().map(Part::empty).collect(),
            ended: code.bodies.values().map(|_| false).collect(),
            pending: Vec::new(),
            live: BTreeMap::new(),
            anyone: false,
            incomplete,
        }
    }

    fn run(&mut self) {
        for &body in &self.code.called_in_any_case {
            self.end(body);
        }
        let is_live = |body: Body| {
            let mut live = self.evidence.activations();
            live.any(|activation| self.code.body(activation.function) == Some(body))
        };
        if let Some(main) = self.code.main
            && (self.incomplete || !is_live(main) || self.code.is_main_called)
        {
            self.end(main);
        }
        if self.incomplete || self.code.main.is_none() {
            self.call_anyone();
        }
        for (number, thread) in self.evidence.threads.iter().enumerate() {
            let mut inner = Inner::None;
            for (place, frame) in thread.frames.iter().enumerate() {
                inner = match frame {
                    StackFrame::Unseen => {
                        // `main` may have given up its frame; what else unseen code
                        // calls is thought of there.
                        self.code.main.into_iter().for_each(|main| self.give_up(main, inner));
                        Inner::Unseen
                    }
                    StackFrame::Known(activation) => match self.code.body(activation.function) {
                        Some(body) => {
                            let blocks = self.add_live(body, activation, inner);
                            self.live.insert((number, place), blocks);
                            Inner::Known(body)
                        }
                        None => Inner::Unseen,
                    },
                };
            }
            self.code.main.into_iter().for_each(|main| self.give_up(main, inner));
            for activation in &thread.folded {
                if let Some(body) = self.code.body(activation.function) {
                    self.add_live(body, activation, Inner::Unknown);
                }
            }
        }
        while let Some(body) = self.pending.pop() {
            let part = self.facts.view(body, None).ended();
            self.call_all(body, &part);
            self.parts[body].add(&part);
        }
    }

    /// An activation of a function can have ended.
    fn end(&mut self, body: Body) {
        if self.facts.enters(body) && !std::mem::replace(&mut self.ended[body], true) {
            self.pending.push(body);
        }
    }

    /// Unseen code can have called whatever it can.
    fn call_anyone(&mut self) {
        if !std::mem::replace(&mut self.anyone, true) {
            for &body in &self.code.called_by_anyone {
                self.end(body);
            }
        }
    }

    /// The active calls of a part have been made, and are over.
    fn call_all(&mut self, body: Body, part: &Part) {
        let code = self.code;
        for (site, _) in code.bodies[body].calls.iter().zip(&part.calls).filter(|(_, it)| **it) {
            for &callee in &*site.callees {
                self.end(callee);
            }
            self.call_unseen(site);
        }
    }

    fn call_unseen(&mut self, site: &CallSite) {
        match site.unseen.as_ref().map(|unseen| &unseen.calls) {
            Some(UnseenCalls::Anyone) => self.call_anyone(),
            Some(UnseenCalls::These(bodies)) => bodies.iter().for_each(|&body| self.end(body)),
            Some(UnseenCalls::Nobody) | None => {}
        }
    }

    /// Adds a live activation; gives the blocks it can have entered.
    fn add_live(&mut self, body: Body, activation: &Activation, inner: Inner) -> Vec<bool> {
        let code = self.code;
        let data = &code.bodies[body];
        let count = data.flow.node_count();
        if activation.at.iter().chain(&activation.suffix).any(|it| it.position() >= count) {
            // Of another function: nothing can be concluded from it.
            let unknown = Activation {
                at: None,
                position: Position::Within,
                suffix: Vec::new(),
                complete: false,
                ..activation.clone()
            };
            return self.add_live(body, &unknown, inner);
        }
        let view = self.facts.view(body, Some(activation));
        let known = self.entered(body, activation);
        let part = view.live(activation, &known);
        self.call_all(body, &part);
        self.parts[body].add(&part);
        let blocks = part.blocks;
        let Some(at) = activation.at else {
            // It may be at any call of any block.
            for site in &data.calls {
                self.progress(site, Inner::Unknown);
            }
            return blocks;
        };
        let first = data.calls_of[at.position()].0 as usize;
        let calls = first..first + view.reached_calls(at);
        let candidates: Vec<usize> = match (activation.position, inner) {
            // It may have passed all of them.
            (Position::Within, _) => Vec::new(),
            (Position::Call(inst), _) => {
                calls.clone().filter(|&call| data.calls[call].inst == inst).collect()
            }
            (Position::SomeCall, _) => {
                let fits = |&call: &usize| {
                    view.fates[call].begins && self.can_be_below(&data.calls[call], inner)
                };
                calls.clone().filter(fits).collect()
            }
        };
        let last = candidates.last().copied();
        let passed = match last {
            Some(last) => calls.start..last,
            None => calls.clone(),
        };
        let mut part = Part::empty(data);
        for call in passed.chain(candidates.iter().copied()) {
            part.calls[call] = view.fates[call].begins;
        }
        self.parts[body].add(&part);
        candidates.iter().for_each(|&call| part.calls[call] = false);
        // Of several that may be under way the last need not be the one.
        for &call in candidates.iter().filter(|&&call| Some(call) != last) {
            part.calls[call] = true;
        }
        self.call_all(body, &part);
        if candidates.is_empty() && activation.position != Position::Within {
            calls.for_each(|call| self.progress(&data.calls[call], Inner::Unknown));
        }
        for call in candidates {
            self.progress(&data.calls[call], inner);
        }
        blocks
    }

    /// The blocks that an activation is known to have entered, but for those that
    /// it entered last.
    fn entered(&self, body: Body, activation: &Activation) -> Vec<Block> {
        let data = &self.code.bodies[body];
        let whole = self.evidence.functions.get(&activation.function);
        let whole = whole.filter(|_| self.alone.contains(&body)).map(|it| &it.coverage);
        let mut found = BTreeSet::new();
        for coverage in whole.into_iter().chain([&activation.coverage]) {
            let blocks = coverage.blocks.iter().filter(|(_, seen)| **seen == Seen::Yes);
            found.extend(blocks.map(|(block, _)| block));
            let calls = data.calls.iter();
            let calls = calls.filter(|site| coverage.call(site.inst) == Seen::Yes);
            found.extend(calls.map(|site| site.block));
        }
        let is_old = |block: &Block| {
            !activation.suffix.contains(block) && block.position() < data.flow.node_count()
        };
        found.into_iter().filter(is_old).collect()
    }

    /// Whether the frame above one that is at this call can be `inner`.
    fn can_be_below(&self, site: &CallSite, inner: Inner) -> bool {
        let by_unseen = match site.unseen.as_ref().map(|unseen| &unseen.calls) {
            // It may have no frame of its own.
            Some(UnseenCalls::Anyone | UnseenCalls::These(_)) => true,
            Some(UnseenCalls::Nobody) => !matches!(inner, Inner::Known(_)),
            None => false,
        };
        let is_own = |&callee: &Body| inner == Inner::Known(callee);
        by_unseen || site.callees.iter().any(|it| is_own(it) || self.tail_calls(*it).lead_to(inner))
    }

    /// Whom a function may give up its frame for, directly or not.
    fn tail_calls(&self, from: Body) -> TailCalls {
        let mut found = TailCalls::default();
        let mut pending = vec![from];
        while let Some(body) = pending.pop() {
            for site in self.code.bodies[body].calls.iter().filter(|site| site.tail) {
                if let Some(unseen) = &site.unseen {
                    found.unseen = true;
                    found.calls_back |= unseen.calls != UnseenCalls::Nobody;
                }
                pending.extend(site.callees.iter().filter(|&&it| found.bodies.insert(it)));
            }
        }
        found
    }

    /// A function may have given up its frame for this one.
    fn give_up(&mut self, from: Body, inner: Inner) {
        let calls = self.tail_calls(from);
        if calls.lead_to(inner) {
            self.end(from);
            calls.bodies.into_iter().for_each(|body| self.end(body));
        }
    }

    /// A call is under way, with this frame above it: what else did it do?
    fn progress(&mut self, site: &CallSite, inner: Inner) {
        for &callee in site.callees.iter() {
            self.give_up(callee, inner);
        }
        // Whose frame it is is clear if only one function can be called.
        let is_own = matches!((inner, &*site.callees, &site.unseen),
            (Inner::Known(body), callees, None) if callees.contains(&body));
        if !is_own {
            self.call_unseen(site);
        }
    }

    /// The functions with one activation in the whole run, which is live.
    fn with_one_activation(&self) -> BTreeSet<Body> {
        let mut counts = IndexMap::<Body, u32>::new();
        self.code.bodies.indices().for_each(|_| _ = counts.push(0));
        for activation in self.evidence.activations() {
            if let Some(body) = self.code.body(activation.function) {
                counts[body] += 1;
            }
        }
        let is_alone = |body: &Body| counts[*body] == 1 && !self.ended[*body];
        self.code.bodies.indices().filter(is_alone).collect()
    }

    fn finish(self) -> Active {
        let mut executed: IndexMap<Body, Vec<bool>> =
            self.code.bodies.values().map(|body| vec![false; body.flow.node_count()]).collect();
        let mut note = |body: Body, block: Block| {
            if let Some(executed) = executed[body].get_mut(block.position()) {
                *executed = true;
            }
        };
        for activation in self.evidence.activations() {
            let Some(body) = self.code.body(activation.function) else { continue };
            note(body, Block::new(0));
            for &block in activation.at.iter().chain(&activation.suffix) {
                note(body, block);
            }
            for block in self.entered(body, activation) {
                note(body, block);
            }
        }
        for (body, data) in self.code.bodies.iter() {
            let Some(found) = self.evidence.functions.get(&data.id) else { continue };
            if found.entered == Seen::Yes {
                note(body, Block::new(0));
            }
            for (block, _) in found.coverage.blocks.iter().filter(|(_, it)| **it == Seen::Yes) {
                note(body, block);
            }
            for site in &data.calls {
                if found.coverage.call(site.inst) == Seen::Yes {
                    note(body, site.block);
                    if let ([callee], None) = (&*site.callees, &site.unseen) {
                        note(*callee, Block::new(0));
                    }
                }
            }
        }
        for (body, data) in self.code.bodies.iter() {
            if executed[body].iter().any(|it| *it) {
                add_dominators(&data.flow, &mut executed[body]);
            }
        }
        let calls = self.code.bodies.iter().flat_map(|(body, data)| {
            let calls = data.calls.iter().enumerate().filter(|(_, site)| site.is_direct());
            calls.map(move |(call, _)| (body, call))
        });
        Active { calls: calls.collect(), live: self.live, executed, parts: self.parts }
    }
}

/// What is on every way to a block that was executed was executed, too.
fn add_dominators(flow: &backtrail_graph::Digraph<Block>, executed: &mut [bool]) {
    let dominators = Dominators::new(flow, Block::new(0));
    for block in flow.nodes() {
        let mut at = Some(block).filter(|it| executed[it.position()]);
        while let Some(above) = at.and_then(|it| dominators.immediate(it)) {
            at = (!std::mem::replace(&mut executed[above.position()], true)).then_some(above);
        }
    }
}
