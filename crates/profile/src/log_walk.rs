//! A profile from a log of blocks: the slow twin of counting.
//!
//! A log says which blocks a thread executed, in order, of which activation each is, and
//! where activations ended; who reads it says so in [`Logged`]. Paths are then what the
//! graph of pieces says, without numbers. Where counters count before a call, the log
//! says that control came there; so nothing about calls has to be worked out.
//!
//! An activation that did not end is unfinished, whatever block it was in. What a forked
//! process inherited began in its parent's log, which is walked up to there without
//! counting ([`LogWalk::walk_before`]); what is under way then is inherited. Blocks of
//! activations of which no log says that they began are counted as [`LogWalk::inherited`]
//! and otherwise passed over.
//!
//! A log can say what the program cannot do: it was damaged, or is of another
//! program. A path that comes out of it and that no counter has cannot be in the
//! profile; it is counted, and the profile says so.

use std::collections::{BTreeMap, HashMap};

use backtrail_abi::UnitId;
use backtrail_analysis::calls::traits_of;
use backtrail_graph::{Edge, Index};
use backtrail_ir::{Block, Func, Function, Inst, Op, Unit};

use crate::Error;
use crate::decode::{Decoder, Origin, Tally};
use crate::function_graph::{Joint, Leave};
use crate::model::{End, Profile, Start};
use crate::partial::PartialSum;
use crate::path_plan::{DecodedPath, PathPlan};
use crate::skeleton::Source;

/// Adds logs of processes up to a profile.
pub struct LogWalk<'a> {
    decoder: Decoder<'a>,
    by_function: BTreeMap<(UnitId, Func), usize>,
    /// The numbers of paths that were met, by function.
    numbers: Vec<HashMap<DecodedPath, Option<u64>>>,
    tally: Option<Tally>,
    /// Paths of the process under way that have no number, by function.
    unnumbered: Vec<u64>,
    /// Paths that were left on the way.
    partial: PartialSum,
    /// Blocks of activations that no log saw begin.
    pub inherited: u64,
}

/// What a thread did. Activations of a thread have numbers of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logged {
    /// An activation executed a block; with its function's first it began.
    Block(u64, (UnitId, Func), Block),
    /// It ended.
    Ended(u64),
    /// It will not go on.
    Left(u64),
    /// It came to a call that does not return, may return twice, or is before a shared
    /// return.
    Comes(u64, Inst),
    /// A call of it that may return twice returned.
    Returned(u64, Inst),
}

/// An activation under way.
struct Activation {
    /// The function's number.
    function: usize,
    block: Block,
    path: DecodedPath,
    /// The call that may return twice which it is in.
    calling: Option<Inst>,
    /// Whether it is counted as having ended.
    has_ended: bool,
    /// Whether a process inherited it, and it is in no count of that yet.
    is_inherited: bool,
}

/// What was under way in a thread when it forked.
#[derive(Default)]
pub struct Before(BTreeMap<u64, Activation>);

impl<'a> LogWalk<'a> {
    /// Walks logs of the program whose records `decoder` would decode.
    pub fn new(decoder: Decoder<'a>) -> Self {
        let sources = decoder.skeleton().sources.iter().enumerate();
        let mut by_function = BTreeMap::new();
        for (number, source) in sources {
            by_function.entry((source.unit_id, source.function)).or_insert(number);
        }
        let numbers = vec![HashMap::new(); decoder.skeleton().sources.len()];
        let unnumbered = vec![0; numbers.len()];
        let partial = PartialSum::default();
        Self { decoder, by_function, numbers, tally: None, unnumbered, partial, inherited: 0 }
    }

    /// Adds the log of one thread of the process under way.
    pub fn add_thread<E>(
        &mut self,
        log: impl IntoIterator<Item = Result<Logged, E>>,
    ) -> Result<(), E> {
        self.add_thread_behind(Before::default(), &[], log)
    }

    /// Walks the log of a thread up to where it forked, and counts nothing.
    pub fn walk_before<E>(
        &mut self,
        log: impl IntoIterator<Item = Result<Logged, E>>,
    ) -> Result<Before, E> {
        let mut unnumbered = vec![0; self.unnumbered.len()];
        let mut partial = PartialSum::default();
        let mut thread = Thread {
            sources: &self.decoder.skeleton().sources,
            by_function: &self.by_function,
            numbers: &mut self.numbers,
            unnumbered: &mut unnumbered,
            partial: &mut partial,
            tally: self.decoder.new_tally(),
            live: BTreeMap::new(),
            inherited: 0,
        };
        for logged in log {
            thread.take(logged?);
        }
        Ok(Before(thread.live))
    }

    /// Adds the log of the thread that a forked process began with. `under_way` are the
    /// activations on its stack; others may have been left for good, and are inherited
    /// if they go on.
    pub fn add_thread_behind<E>(
        &mut self,
        before: Before,
        under_way: &[u64],
        log: impl IntoIterator<Item = Result<Logged, E>>,
    ) -> Result<(), E> {
        let tally = self.tally.take().unwrap_or_else(|| self.decoder.new_tally());
        let mut thread = Thread {
            sources: &self.decoder.skeleton().sources,
            by_function: &self.by_function,
            numbers: &mut self.numbers,
            unnumbered: &mut self.unnumbered,
            partial: &mut self.partial,
            tally,
            live: before.0,
            inherited: 0,
        };
        thread.live.retain(|_, activation| !activation.has_ended);
        thread.live.values_mut().for_each(|activation| activation.is_inherited = true);
        for &number in under_way {
            thread.with(number, |_, _| {});
        }
        for logged in log {
            thread.take(logged?);
        }
        let left = std::mem::take(&mut thread.live);
        left.into_values().for_each(|activation| thread.leave(activation));
        let Thread { tally, inherited, .. } = thread;
        self.tally = Some(tally);
        self.inherited += inherited;
        Ok(())
    }

    /// Ends the process under way, which began so.
    pub fn end_process(&mut self, origin: Origin, incomplete: Option<String>) -> Result<(), Error> {
        let mut tally = self.tally.take().unwrap_or_else(|| self.decoder.new_tally());
        tally.origin = origin;
        tally.inherited.get_or_insert_with(|| vec![0; self.unnumbered.len()]);
        let mut reasons: Vec<String> = incomplete.into_iter().collect();
        for (count, function) in
            self.unnumbered.iter_mut().zip(&self.decoder.skeleton().profile.functions)
        {
            if let missing @ 1.. = std::mem::take(count) {
                let name = &function.name;
                reasons.push(format!(
                    "{missing} paths of {name} are missing: the log has steps the program cannot take"
                ));
            }
        }
        let incomplete = (!reasons.is_empty()).then(|| reasons.join("; "));
        self.decoder.add_tally(tally, incomplete)
    }

    /// The profile.
    pub fn finish(self) -> Result<Profile, Error> {
        self.decoder.finish_log(self.partial.into_paths())
    }
}

struct Thread<'w, 'a> {
    sources: &'w [Source<'a>],
    by_function: &'w BTreeMap<(UnitId, Func), usize>,
    numbers: &'w mut [HashMap<DecodedPath, Option<u64>>],
    unnumbered: &'w mut [u64],
    partial: &'w mut PartialSum,
    tally: Tally,
    /// Activations that have not ended, by number.
    live: BTreeMap<u64, Activation>,
    inherited: u64,
}

impl<'w, 'a> Thread<'w, 'a> {
    fn unit(&self, function: usize) -> &'a Unit {
        self.sources[function].unit
    }

    fn body(&self, function: usize) -> &'a Function {
        let source = &self.sources[function];
        &source.unit.functions[source.function]
    }

    fn plan(&self, function: usize) -> Option<&'w PathPlan> {
        self.sources[function].plan()
    }

    fn take(&mut self, logged: Logged) {
        match logged {
            Logged::Block(activation, of, block) => {
                // A copy that was discarded, or a function without paths.
                let number = self.by_function.get(&of).copied();
                if let Some(function) = number.filter(|it| self.plan(*it).is_some()) {
                    self.step(activation, function, block);
                }
            }
            Logged::Ended(activation) => {
                if let Some(mut activation) = self.live.remove(&activation) {
                    self.count_inherited(&mut activation);
                    self.end(activation);
                }
            }
            Logged::Left(activation) => {
                if let Some(activation) = self.live.remove(&activation) {
                    self.leave(activation);
                }
            }
            Logged::Comes(activation, call) => self.with(activation, |thread, activation| {
                thread.come(activation, call);
            }),
            Logged::Returned(activation, call) => self.with(activation, |thread, activation| {
                thread.call_returned(activation, call);
            }),
        }
    }

    fn with(&mut self, number: u64, what: impl FnOnce(&mut Self, &mut Activation)) {
        if let Some(mut activation) = self.live.remove(&number) {
            self.count_inherited(&mut activation);
            what(self, &mut activation);
            self.live.insert(number, activation);
        }
    }

    /// An activation goes on that may be inherited.
    fn count_inherited(&mut self, activation: &mut Activation) {
        if std::mem::take(&mut activation.is_inherited) {
            let count = self.sources.len();
            let inherited = self.tally.inherited.get_or_insert_with(|| vec![0; count]);
            inherited[activation.function] += 1;
        }
    }

    fn step(&mut self, number: u64, function: usize, block: Block) {
        if block.position() == 0 {
            *self.tally.entries[function].get_or_insert(0) += 1;
            let path = path_from(Start::Entry, block);
            let (calling, has_ended, is_inherited) = (None, false, false);
            let activation = Activation { function, block, path, calling, has_ended, is_inherited };
            self.live.insert(number, activation);
            return;
        }
        // Of a log that was damaged, it may be of another function.
        if self.live.get(&number).is_none_or(|activation| activation.function != function) {
            self.inherited += 1;
            return;
        }
        self.with(number, |thread, activation| {
            let body = thread.body(function);
            let last = body.blocks[activation.block].terminator();
            if matches!(body.insts[last].op, Op::IndirectJump) {
                let new = path_from(Start::CutWithin, activation.block);
                thread.end_path(activation, End::CutWithin, new);
            }
            thread.cross(activation, block);
            activation.block = block;
        });
    }

    /// Control comes to a call before which paths may end.
    fn come(&mut self, activation: &mut Activation, call: Inst) {
        let plan = self.plan(activation.function);
        let body = self.body(activation.function);
        let unit = self.unit(activation.function);
        // Of a log that was damaged, it may be of another function.
        let data = body.insts.get(call).and_then(|data| data.op.call());
        let is_twice = data.is_some_and(|data| traits_of(unit, data).returns_twice);
        if self.leave_of(activation) == Some(Leave::Call(call)) {
            self.end_path(activation, End::Call, path_from(Start::Entry, activation.block));
            activation.has_ended = true;
        } else if let Some((next, tail)) = plan.and_then(|it| it.tail_call_of(activation.block))
            && tail == call
        {
            // What it calls may use its frame: it is counted as having returned.
            self.cross(activation, next);
            self.end_path(activation, End::Exit, path_from(Start::Entry, next));
            activation.has_ended = true;
        } else if is_twice {
            let new = path_from(Start::ReturnTwice, activation.block);
            self.end_path(activation, End::CutWithin, new);
            activation.calling = Some(call);
        }
    }

    /// A call that may return twice returned: the first time, if the activation is in it.
    fn call_returned(&mut self, activation: &mut Activation, call: Inst) {
        self.tally.returns[activation.function] += 1;
        if activation.calling.take() != Some(call) {
            // The path in between is left on the way.
            self.leave_path(activation);
            let inst = call.position() as u32;
            let blocks = self.body(activation.function).blocks.iter();
            let mut of_call = blocks.filter(|(_, data)| (data.first..data.end).contains(&inst));
            activation.block = of_call.next().map_or(activation.block, |(block, _)| block);
            activation.path = path_from(Start::ReturnTwice, activation.block);
        }
    }

    /// An activation ended.
    fn end(&mut self, mut activation: Activation) {
        if let Some(Leave::Function(_)) = self.leave_of(&activation) {
            let new = path_from(Start::Entry, activation.block);
            self.end_path(&mut activation, End::Exit, new);
        } else if !activation.has_ended {
            self.unnumbered[activation.function] += 1;
        }
    }

    /// An activation will not go on.
    fn leave(&mut self, activation: Activation) {
        // One that was left before a fork is not of the child.
        if !activation.has_ended && !activation.is_inherited {
            self.leave_path(&activation);
        }
    }

    /// Goes over the edge to `block`.
    fn cross(&mut self, activation: &mut Activation, block: Block) {
        if activation.has_ended {
            return;
        }
        let Some(plan) = self.plan(activation.function) else { return };
        let graph = plan.graph();
        let joins = |edge: &Edge| {
            matches!(graph.joint(*edge), Joint::Edge | Joint::Computed)
                && graph.block(graph.flow.source(*edge)) == activation.block
                && graph.block(graph.flow.target(*edge)) == block
        };
        // The edges of the block's last piece. Without one, the program cannot go
        // there: the path has no number, which is noticed where it ends.
        let edge = plan.edges_of(activation.block).find(joins);
        let number = block.position() as u32;
        let Some(edge) = edge.filter(|edge| plan.ends_path(*edge)) else {
            activation.path.blocks.push(number);
            return;
        };
        let (ends, starts) = plan.crossing(edge);
        let new = DecodedPath { starts, ends: End::Exit, blocks: vec![number] };
        self.end_path(activation, ends, new);
    }

    fn end_path(&mut self, activation: &mut Activation, ends: End, new: DecodedPath) {
        if activation.has_ended {
            return;
        }
        let mut path = std::mem::replace(&mut activation.path, new);
        path.ends = ends;
        let known = self.numbers[activation.function].get(&path).copied();
        let number = known.unwrap_or_else(|| {
            let number = self.plan(activation.function).and_then(|plan| plan.number(&path));
            self.numbers[activation.function].insert(path, number);
            number
        });
        match number {
            Some(number) => {
                *self.tally.paths[activation.function].entry(number).or_default() += 1;
            }
            None => self.unnumbered[activation.function] += 1,
        }
    }

    /// The path under way will not get to its end.
    fn leave_path(&mut self, activation: &Activation) {
        let DecodedPath { starts, blocks, .. } = &activation.path;
        self.partial.add_one(activation.function as u32, *starts, blocks.clone());
    }

    /// How an activation leaves the function at its block, if it does.
    fn leave_of(&self, activation: &Activation) -> Option<Leave> {
        let graph = self.plan(activation.function)?.graph();
        // The pieces of a block are next to each other.
        let pieces = graph.pieces.values().as_slice();
        let at = pieces.partition_point(|piece| piece.block < activation.block);
        let mut own = pieces[at..].iter().take_while(|piece| piece.block == activation.block);
        own.find_map(|piece| piece.leave)
    }
}

/// A path that begins so in a block.
fn path_from(starts: Start, block: Block) -> DecodedPath {
    DecodedPath { starts, ends: End::Exit, blocks: vec![block.position() as u32] }
}
