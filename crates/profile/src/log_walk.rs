//! A profile from a log of blocks: the slow twin of counting.
//!
//! A log says which blocks a thread executed, in order, and nothing of calls
//! and returns. Those are worked out from the blocks: a function's first block,
//! to which no edge leads, begins an activation; any other block goes on with
//! the innermost activation it can go on with, and those above it have ended.
//! Paths are then what the graph of pieces says, without numbers.
//!
//! An activation whose last block leads out of the function has finished there,
//! unless one above it ended in another way than by returning: then it was left
//! on the way. What cannot be told from a log at all is whether an activation
//! that is at its last block has still to return when code without probes ends
//! the process there: it is taken to have returned. And of a forked process,
//! what it inherited is not in its log: such blocks are counted as
//! [`LogWalk::inherited`] and otherwise passed over.
//!
//! A log can say what the program cannot do: it was damaged, or is of another
//! program. A path that comes out of it and that no counter has cannot be in the
//! profile; it is counted, and the profile says so.

use std::collections::{BTreeMap, HashMap};

use backtrail_abi::UnitId;
use backtrail_graph::{Edge, Index};
use backtrail_ir::{Block, Callee, Func, Function, Inst, Op, Sym, SymbolKind, Unit};

use crate::Error;
use crate::decode::{Decoder, Tally};
use crate::function_graph::{Joint, Leave, traits_of};
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

/// An activation under way.
struct Activation {
    /// The function's number.
    function: usize,
    block: Block,
    path: DecodedPath,
    /// Blocks with a call that can return twice, in the order of execution.
    twice: Vec<Block>,
}

/// How an activation ended.
#[derive(Clone, Copy, PartialEq)]
enum Ended {
    Returned,
    Otherwise,
}

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
        blocks: impl IntoIterator<Item = Result<(UnitId, Func, Block), E>>,
    ) -> Result<(), E> {
        let tally = self.tally.take().unwrap_or_else(|| self.decoder.new_tally());
        let mut thread = Thread {
            sources: &self.decoder.skeleton().sources,
            by_function: &self.by_function,
            numbers: &mut self.numbers,
            unnumbered: &mut self.unnumbered,
            partial: &mut self.partial,
            tally,
            stack: Vec::new(),
            inherited: 0,
        };
        for event in blocks {
            let (unit, function, block) = event?;
            thread.step(unit, function, block);
        }
        thread.unwind_to(0);
        let Thread { tally, inherited, .. } = thread;
        self.tally = Some(tally);
        self.inherited += inherited;
        Ok(())
    }

    /// Ends the process under way.
    pub fn end_process(&mut self, incomplete: Option<String>) -> Result<(), Error> {
        let tally = self.tally.take().unwrap_or_else(|| self.decoder.new_tally());
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
        let mut profile = self.decoder.finish()?;
        profile.partial = self.partial.into_paths();
        Ok(profile)
    }
}

struct Thread<'w, 'a> {
    sources: &'w [Source<'a>],
    by_function: &'w BTreeMap<(UnitId, Func), usize>,
    numbers: &'w mut [HashMap<DecodedPath, Option<u64>>],
    unnumbered: &'w mut [u64],
    partial: &'w mut PartialSum,
    tally: Tally,
    stack: Vec<Activation>,
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

    fn step(&mut self, unit: UnitId, function: Func, block: Block) {
        // A copy that was discarded, or a function without paths.
        let Some(&number) = self.by_function.get(&(unit, function)) else { return };
        if self.plan(number).is_none() {
            return;
        }
        if block.position() == 0 {
            self.pop_returned(number);
            *self.tally.entries[number].get_or_insert(0) += 1;
            let path = DecodedPath { starts: Start::Entry, ends: End::Exit, blocks: vec![0] };
            self.stack.push(Activation { function: number, block, path, twice: Vec::new() });
            return;
        }
        let can_go_on = |activation: &Activation| {
            let blocks = &self.body(number).blocks;
            activation.function == number
                && (blocks[activation.block].successors.contains(&block)
                    || activation.twice.iter().any(|it| blocks[*it].successors.contains(&block)))
        };
        let Some(depth) = self.stack.iter().rposition(can_go_on) else {
            self.inherited += 1;
            return;
        };
        let above = self.unwind_to(depth + 1);
        let mut activation = self.stack.pop().expect("it was found");
        let body = self.body(number);
        let is_successor = |it: &Block| body.blocks[*it].successors.contains(&block);
        // What was called did not return: if this block may also follow a call
        // that returns twice, it does.
        let jumped = above == Some(Ended::Otherwise)
            && !body.blocks[block].landing_pad
            && activation.twice.iter().any(is_successor);
        if jumped || !is_successor(&activation.block) {
            // A second return: the path in between is left on the way.
            self.leave_path(&activation);
            let from = activation.twice.iter().rev().copied().find(is_successor);
            let from = from.unwrap_or(activation.block);
            activation.block = from;
            let blocks = vec![from.position() as u32];
            activation.path = DecodedPath { starts: Start::ReturnTwice, ends: End::Exit, blocks };
            self.tally.returns[number] += 1;
            // That was the block's last such call: what is behind it is done.
            let call = last_twice(self.unit(number), body, from);
            let behind = body.blocks[from].insts().filter(|inst| Some(*inst) > call);
            self.finish(&mut activation, behind);
        } else {
            let all = body.blocks[activation.block].insts();
            self.finish(&mut activation, all);
        }
        self.cross(&mut activation, block);
        activation.block = block;
        self.stack.push(activation);
    }

    /// Ends the paths that end at these instructions of the activation's block;
    /// all calls among them have returned.
    fn finish(&mut self, activation: &mut Activation, insts: impl Iterator<Item = Inst>) {
        let unit = self.unit(activation.function);
        let body = self.body(activation.function);
        let number = activation.block.position() as u32;
        for inst in insts {
            let next = match &body.insts[inst].op {
                Op::Call(call) if traits_of(unit, call).returns_twice => {
                    if !activation.twice.contains(&activation.block) {
                        activation.twice.push(activation.block);
                    }
                    self.tally.returns[activation.function] += 1;
                    Start::ReturnTwice
                }
                Op::IndirectJump => Start::CutWithin,
                _ => continue,
            };
            let new = DecodedPath { starts: next, ends: End::Exit, blocks: vec![number] };
            self.end_path(activation, End::CutWithin, new);
        }
    }

    /// Goes over the edge to `block`.
    fn cross(&mut self, activation: &mut Activation, block: Block) {
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

    /// Ends the innermost activations that have returned before `callee` was
    /// called: nothing in their last block can call it.
    fn pop_returned(&mut self, callee: usize) {
        while let Some(top) = self.stack.last() {
            let body = self.body(top.function);
            let unit = self.unit(top.function);
            let data = &body.blocks[top.block];
            let Some(Leave::Function(_)) = self.leave(top) else { return };
            let name = &self.unit(callee).symbols[self.body(callee).symbol].name;
            // What runs before it has returned.
            let is_main = name == "main";
            let may_call = |inst: Inst| match body.insts[inst].op.call() {
                None => false,
                Some(call) => match call.callee {
                    Callee::Intrinsic(_) => false,
                    Callee::Indirect | Callee::Asm => true,
                    Callee::Direct(symbol) => {
                        is_unknown(unit, symbol) || unit.symbols[symbol].name == *name
                    }
                },
            };
            if !is_main && data.insts().any(may_call) {
                return;
            }
            let depth = self.stack.len() - 1;
            self.unwind_to(depth);
        }
    }

    /// How an activation leaves the function at its block, if it does.
    fn leave(&self, activation: &Activation) -> Option<Leave> {
        let graph = self.plan(activation.function)?.graph();
        // The pieces of a block are next to each other.
        let pieces = graph.pieces.values().as_slice();
        let at = pieces.partition_point(|piece| piece.block < activation.block);
        let mut own = pieces[at..].iter().take_while(|piece| piece.block == activation.block);
        own.find_map(|piece| piece.leave)
    }

    /// Ends all activations from `depth` on; tells how the outermost ended.
    fn unwind_to(&mut self, depth: usize) -> Option<Ended> {
        let mut above: Option<(usize, Ended)> = None;
        while self.stack.len() > depth {
            let mut activation = self.stack.pop().expect("it is longer than that");
            let tail_called = self.take_tail_call(&mut activation, above);
            let leave = self.leave(&activation);
            let is_left = match (leave, above) {
                // Nothing gets there: a call before it did not return.
                (Some(Leave::Function(inst)), _) if self.is_unreachable(&activation, inst) => false,
                (_, None | Some((_, Ended::Returned))) => true,
                _ if tail_called => true,
                // Above is what was called, and does not return or has taken
                // the frame over.
                (
                    Some(Leave::Call(inst) | Leave::Function(inst)),
                    Some((callee, Ended::Otherwise)),
                ) => self.calls(&activation, inst, callee),
                (_, Some((_, Ended::Otherwise))) => false,
            };
            let mut ended = Ended::Otherwise;
            if let (Some(leave), true) = (leave, is_left) {
                let body = self.body(activation.function);
                let (Leave::Function(at) | Leave::Call(at)) = leave;
                let insts = body.blocks[activation.block].insts();
                self.finish(&mut activation, insts.take_while(|inst| *inst < at));
                let ends = match leave {
                    Leave::Function(inst) => {
                        match body.insts[inst].op {
                            Op::Resume | Op::Unreachable => {}
                            // As what it called did.
                            Op::Call(_) => {
                                ended = above.map_or(Ended::Returned, |(_, ended)| ended);
                            }
                            _ if tail_called => {}
                            _ => ended = Ended::Returned,
                        }
                        End::Exit
                    }
                    Leave::Call(_) => End::Call,
                };
                let new = DecodedPath { starts: Start::Entry, ends: End::Exit, blocks: vec![0] };
                self.end_path(&mut activation, ends, new);
            } else {
                self.leave_path(&activation);
            }
            above = Some((activation.function, ended));
        }
        above.map(|(_, ended)| ended)
    }

    /// If what an activation called in tail position has not returned, the
    /// activation ended with that call: it is taken to its return. Tells whether
    /// that is so.
    fn take_tail_call(
        &mut self,
        activation: &mut Activation,
        above: Option<(usize, Ended)>,
    ) -> bool {
        let Some((callee, Ended::Otherwise)) = above else { return false };
        let plan = self.plan(activation.function);
        let Some((next, call)) = plan.and_then(|plan| plan.tail_call_of(activation.block)) else {
            return false;
        };
        if !self.calls(activation, call, callee) {
            return false;
        }
        let all = self.body(activation.function).blocks[activation.block].insts();
        self.finish(activation, all);
        self.cross(activation, next);
        activation.block = next;
        true
    }

    fn is_unreachable(&self, activation: &Activation, inst: Inst) -> bool {
        matches!(self.body(activation.function).insts[inst].op, Op::Unreachable)
    }

    fn calls(&self, activation: &Activation, inst: Inst, callee: usize) -> bool {
        let unit = self.unit(activation.function);
        let call = self.body(activation.function).insts[inst].op.call();
        match call.map(|call| &call.callee) {
            Some(Callee::Direct(symbol)) => {
                let callee = &self.unit(callee).symbols[self.body(callee).symbol].name;
                unit.symbols[*symbol].name == *callee || is_unknown(unit, *symbol)
            }
            Some(Callee::Indirect | Callee::Asm) => true,
            Some(Callee::Intrinsic(_)) | None => false,
        }
    }
}

/// Whether a called symbol may be something else than a function of the
/// program's by that name.
fn is_unknown(unit: &Unit, symbol: Sym) -> bool {
    !matches!(unit.symbols[symbol].kind, SymbolKind::Function(_))
}

/// The last call of a block that can return twice.
fn last_twice(unit: &Unit, body: &Function, block: Block) -> Option<Inst> {
    let is_twice = |inst: &Inst| {
        let call = body.insts[*inst].op.call();
        call.is_some_and(|call| traits_of(unit, call).returns_twice)
    };
    body.blocks[block].insts().rev().find(is_twice)
}
