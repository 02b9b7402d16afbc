//! Executions of random programs, stopped anywhere, and what a core would tell of
//! them.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_crash::evidence::{
    Activation, Coverage, Evidence, FunctionEvidence, Position, Seen, Stack, StackFrame,
};
use backtrail_graph::Index as _;
use backtrail_ir::{Block, Callee, Func, Inst, Op, SymbolKind, Tail, Unit, Value};
use fastrand::Rng;

use crate::random_program::UNIT;

/// What was executed.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Truth {
    pub blocks: BTreeSet<(Func, Block)>,
    pub edges: BTreeSet<(Func, Block, Block)>,
    pub calls: BTreeSet<(Func, Inst)>,
}

/// An activation of a function that is seen.
#[derive(Debug, Clone)]
pub struct Known {
    pub function: Func,
    pub block: Block,
    /// The next instruction, or the call that is under way.
    pub next: Inst,
    /// Whether a call is under way there.
    pub calling: bool,
    /// All blocks it entered.
    pub log: Vec<Block>,
    /// From where on its record is: a second return begins it anew.
    pub recorded: usize,
    pub blocks: BTreeSet<Block>,
    pub calls: BTreeSet<Inst>,
    /// Where calls returned that may return again.
    pub landings: Vec<(Block, Inst)>,
}

/// A frame.
#[derive(Debug, Clone)]
pub enum Frame {
    Known(Known),
    /// Unseen code of this name, and whom it was given to call.
    Unseen(String, Option<Func>),
    /// A signal interrupted what is below.
    Signal,
}

/// A run.
pub struct Execution<'a> {
    unit: &'a Unit,
    pub truth: Truth,
    /// The stacks, outermost first.
    pub threads: Vec<Vec<Frame>>,
    taken: Vec<Func>,
    handlers: bool,
}

/// The functions whose address is taken.
fn taken(unit: &Unit) -> Vec<Func> {
    let mut found = BTreeSet::new();
    let mut take = |symbol| {
        if let SymbolKind::Function(function) = unit.symbols[symbol].kind {
            found.insert(function);
        }
    };
    for symbol in unit.symbols.values() {
        if let SymbolKind::Data { refers_to, .. } = &symbol.kind {
            refers_to.iter().for_each(|&it| take(it));
        }
    }
    for value in unit.functions.values().flat_map(|function| &function.operands) {
        if let Value::Symbol(symbol, _) = value {
            take(*symbol);
        }
    }
    found.into_iter().collect()
}

impl<'a> Execution<'a> {
    pub fn new(unit: &'a Unit) -> Self {
        let mut run = Self {
            unit,
            truth: Truth::default(),
            threads: vec![Vec::new()],
            taken: taken(unit),
            handlers: false,
        };
        run.enter(0, Func::new(0));
        run
    }

    fn enter(&mut self, thread: usize, function: Func) {
        let known = Known {
            function,
            block: Block::new(0),
            next: Inst::new(0),
            calling: false,
            log: Vec::new(),
            recorded: 0,
            blocks: BTreeSet::new(),
            calls: BTreeSet::new(),
            landings: Vec::new(),
        };
        self.threads[thread].push(Frame::Known(known));
        self.go_to(thread, Block::new(0), false);
    }

    fn go_to(&mut self, thread: usize, block: Block, from_here: bool) {
        let Some(Frame::Known(frame)) = self.threads[thread].last_mut() else { unreachable!() };
        if from_here {
            self.truth.edges.insert((frame.function, frame.block, block));
        }
        frame.block = block;
        frame.calling = false;
        frame.next = Inst::new(self.unit.functions[frame.function].blocks[block].first as usize);
        frame.log.push(block);
        frame.blocks.insert(block);
        self.truth.blocks.insert((frame.function, block));
    }

    /// Takes some steps; whether the process is still there.
    pub fn run(&mut self, rng: &mut Rng, steps: usize) -> bool {
        for _ in 0..steps {
            let alive: Vec<usize> =
                (0..self.threads.len()).filter(|&it| !self.threads[it].is_empty()).collect();
            let depth: usize = self.threads.iter().map(Vec::len).sum();
            let Some(&thread) = alive.get(rng.usize(0..alive.len().max(1))) else { return false };
            if depth > 60 {
                return true;
            }
            if self.handlers && !self.taken.is_empty() && rng.u8(0..20) == 0 {
                self.threads[thread].push(Frame::Signal);
                let handler = self.taken[rng.usize(0..self.taken.len())];
                self.enter(thread, handler);
                continue;
            }
            if !self.step(rng, thread) {
                return false;
            }
        }
        self.threads.iter().any(|thread| !thread.is_empty())
    }

    /// One step of a thread; false if the process ends.
    fn step(&mut self, rng: &mut Rng, thread: usize) -> bool {
        match self.threads[thread].last().unwrap() {
            Frame::Signal => {
                self.threads[thread].pop();
            }
            Frame::Unseen(name, passed) => {
                let (name, passed) = (name.clone(), *passed);
                return self.step_unseen(rng, thread, &name, passed);
            }
            Frame::Known(_) => {
                let returns = self.is_at_return(thread);
                self.step_known(rng, thread);
                // `main` has returned.
                return !(returns && thread == 0 && self.threads[0].is_empty());
            }
        }
        true
    }

    fn is_at_return(&self, thread: usize) -> bool {
        let Some(Frame::Known(frame)) = self.threads[thread].last() else { return false };
        matches!(self.unit.functions[frame.function].insts[frame.next].op, Op::Return)
    }

    fn step_unseen(
        &mut self,
        rng: &mut Rng,
        thread: usize,
        name: &str,
        passed: Option<Func>,
    ) -> bool {
        let anyone = |rng: &mut Rng| {
            (!self.taken.is_empty()).then(|| self.taken[rng.usize(0..self.taken.len())])
        };
        let called = match name {
            "qsort" => passed,
            "anything" | "exit" => anyone(rng),
            _ => None,
        };
        if let (Some(called), true) = (called, rng.bool()) {
            // Sometimes without a frame of its own.
            if name == "anything" && rng.u8(0..4) == 0 {
                self.threads[thread].pop();
            }
            self.enter(thread, called);
            return true;
        }
        match name {
            "exit" => {
                // Its thread stays in it until the process is gone.
                return rng.u8(0..4) > 0;
            }
            "longjmp" => self.leave(rng, thread),
            "anything" if rng.u8(0..4) == 0 => self.leave(rng, thread),
            _ => {
                self.threads[thread].pop();
                self.came_back(rng, thread, true);
                return thread != 0 || !self.threads[0].is_empty();
            }
        }
        true
    }

    /// A call has returned, or was unwound to, in the frame that is innermost now.
    fn came_back(&mut self, rng: &mut Rng, thread: usize, returned: bool) {
        let unit = self.unit;
        let Some(Frame::Known(frame)) = self.threads[thread].last_mut() else { return };
        if !frame.calling {
            return;
        }
        frame.calling = false;
        let body = &unit.functions[frame.function];
        if let Op::Invoke(_) = body.insts[frame.next].op {
            let to = body.blocks[frame.block].successors[usize::from(!returned)];
            self.go_to(thread, to, true);
            return;
        }
        let op = body.insts[frame.next].op.call();
        let twice = op.is_some_and(|call| match call.callee {
            Callee::Direct(symbol) => unit.symbols[symbol].name == "setjmp",
            _ => false,
        });
        if twice && rng.bool() {
            let landing = (frame.block, frame.next);
            frame.landings.push(landing);
        }
        frame.next = Inst::new(frame.next.position() + 1);
    }

    /// Leaves frames: for a call that returns twice, for a landing pad, or for
    /// good.
    fn leave(&mut self, rng: &mut Rng, thread: usize) {
        let way = rng.u8(0..3);
        let stack = &self.threads[thread];
        let can_land = |frame: &Frame| match frame {
            Frame::Known(known) if way == 0 => !known.landings.is_empty(),
            Frame::Known(known) if way == 1 => {
                let op = &self.unit.functions[known.function].insts[known.next].op;
                known.calling && matches!(op, Op::Invoke(_))
            }
            _ => false,
        };
        // Nothing leaves what runs while the process ends.
        let exit =
            stack.iter().rposition(|it| matches!(it, Frame::Unseen(name, _) if name == "exit"));
        let first = exit.map_or(0, |it| it + 1);
        let places: Vec<usize> = (first..stack.len()).filter(|&it| can_land(&stack[it])).collect();
        let place = match way {
            // Exceptions are caught by the innermost.
            1 => places.last().copied(),
            _ => places.get(rng.usize(0..places.len().max(1))).copied(),
        };
        let Some(place) = place else {
            // Unseen code that is below may catch, or the thread ends.
            let unseen = stack[..stack.len() - 1].iter().rposition(
                |it| matches!(it, Frame::Unseen(name, _) if name == "anything" || name == "exit"),
            );
            self.threads[thread].truncate(unseen.map_or(0, |it| it + 1));
            return;
        };
        self.threads[thread].truncate(place + 1);
        if way == 1 {
            self.came_back(rng, thread, false);
            return;
        }
        let Some(Frame::Known(frame)) = self.threads[thread].last_mut() else { unreachable!() };
        let (block, call) = frame.landings[rng.usize(0..frame.landings.len())];
        frame.block = block;
        frame.calling = false;
        frame.next = Inst::new(call.position() + 1);
        frame.recorded = frame.log.len();
    }

    fn step_known(&mut self, rng: &mut Rng, thread: usize) {
        let unit = self.unit;
        let Some(Frame::Known(frame)) = self.threads[thread].last_mut() else { unreachable!() };
        let function = frame.function;
        let body = &unit.functions[function];
        let inst = frame.next;
        let op = &body.insts[inst].op;
        if frame.calling {
            // Only a frame that was given up comes back so.
            self.came_back(rng, thread, true);
            return;
        }
        match op {
            Op::Call(call) | Op::Invoke(call) => {
                let class: Vec<Func> = self.taken.clone();
                let callee = match call.callee {
                    Callee::Direct(symbol) => match unit.symbols[symbol].kind {
                        SymbolKind::Function(function) => Ok(function),
                        _ => Err(unit.symbols[symbol].name.clone()),
                    },
                    _ if !class.is_empty() && rng.u8(0..4) > 0 => {
                        Ok(class[rng.usize(0..class.len())])
                    }
                    _ => Err("anything".to_owned()),
                };
                frame.calling = true;
                frame.calls.insert(inst);
                self.truth.calls.insert((function, inst));
                let next = &body.insts
                    [Inst::new(inst.position() + 1).min(Inst::new(body.insts.len() - 1))]
                .op;
                let gives_up = call.tail == Tail::May
                    && matches!(op, Op::Call(_))
                    && matches!(next, Op::Return)
                    && rng.bool();
                if gives_up {
                    self.threads[thread].pop();
                }
                match callee {
                    Ok(callee) => self.enter(thread, callee),
                    Err(name) => self.enter_unseen(thread, function, inst, &name),
                }
            }
            Op::Return => {
                self.threads[thread].pop();
                self.came_back(rng, thread, true);
            }
            Op::Resume => self.leave(rng, thread),
            // It stays there.
            Op::Unreachable => {}
            Op::Jump | Op::Branch => {
                let successors = &body.blocks[frame.block].successors;
                let to = successors[rng.usize(0..successors.len())];
                self.go_to(thread, to, true);
            }
            _ => frame.next = Inst::new(inst.position() + 1),
        }
    }

    fn enter_unseen(&mut self, thread: usize, function: Func, inst: Inst, name: &str) {
        let body = &self.unit.functions[function];
        let operands = body.operands_of(&body.insts[inst]);
        let passed = |place: usize| match operands.get(place) {
            Some(Value::Symbol(symbol, _)) => match self.unit.symbols[*symbol].kind {
                SymbolKind::Function(function) => Some(function),
                _ => None,
            },
            _ => None,
        };
        let (third, fourth) = (passed(2), passed(3));
        match name {
            "sigaction" => self.handlers = true,
            "pthread_create" => {
                if let (Some(start), true) = (third, self.threads.len() < 4) {
                    self.threads.push(Vec::new());
                    let new = self.threads.len() - 1;
                    self.enter(new, start);
                }
            }
            _ => {}
        }
        self.threads[thread].push(Frame::Unseen(name.to_owned(), fourth));
    }

    /// What a core tells, of which some is told with these odds, of 8.
    pub fn evidence(&self, rng: &mut Rng, odds: [u8; 4]) -> Evidence {
        let [functions, globals, locals, suffixes] = odds;
        let mut evidence = Evidence::default();
        let chosen = |rng: &mut Rng, odds: u8| rng.u8(0..8) < odds;
        for (function, body) in self.unit.functions.iter() {
            let mut found = FunctionEvidence::default();
            let entered = self.truth.blocks.contains(&(function, Block::new(0)));
            if chosen(rng, functions) {
                found.entered = if entered { Seen::Yes } else { Seen::No };
            }
            let blocks = |block| self.truth.blocks.contains(&(function, block));
            let calls = |inst| self.truth.calls.contains(&(function, inst));
            found.coverage = coverage(rng, body, globals, &blocks, &calls);
            evidence.functions.insert((UNIT, function), found);
        }
        for thread in self.threads.iter().filter(|thread| !thread.is_empty()) {
            let mut frames = Vec::new();
            let mut inner: Option<&Frame> = None;
            for frame in thread.iter().rev() {
                frames.push(match frame {
                    Frame::Unseen(..) | Frame::Signal => StackFrame::Unseen,
                    Frame::Known(known) => {
                        let interrupted = matches!(inner, None | Some(Frame::Signal));
                        StackFrame::Known(self.activation(
                            rng,
                            known,
                            interrupted,
                            locals,
                            suffixes,
                        ))
                    }
                });
                inner = Some(frame);
            }
            evidence.threads.push(Stack { frames, folded: Vec::new(), complete: true });
        }
        evidence
    }

    /// Whether a core of this would tell the same.
    pub fn agrees(&self, evidence: &Evidence) -> bool {
        let fits = |seen: Seen, is: bool| seen == Seen::Unknown || (seen == Seen::Yes) == is;
        let covers =
            |coverage: &Coverage, block: &dyn Fn(Block) -> bool, call: &dyn Fn(Inst) -> bool| {
                coverage.blocks.iter().all(|(it, &seen)| fits(seen, block(it)))
                    && coverage.calls.iter().all(|(&it, &seen)| fits(seen, call(it)))
            };
        let functions = evidence.functions.iter().all(|(&(_, function), found)| {
            let block = |it| self.truth.blocks.contains(&(function, it));
            fits(found.entered, block(Block::new(0)))
                && covers(&found.coverage, &block, &|it| self.truth.calls.contains(&(function, it)))
        });
        let same = |frame: &Frame, told: &StackFrame| match (frame, told) {
            (Frame::Known(known), StackFrame::Known(told)) => {
                let position = match told.position {
                    Position::Within => !known.calling,
                    Position::SomeCall => known.calling,
                    Position::Call(inst) => known.calling && known.next == inst,
                };
                position
                    && told.function.1 == known.function
                    && told.at == Some(known.block)
                    && known.log.ends_with(&told.suffix)
                    && (!told.complete || known.log == told.suffix)
                    && covers(&told.coverage, &|it| known.blocks.contains(&it), &|it| {
                        known.calls.contains(&it)
                    })
            }
            (Frame::Known(_), _) | (_, StackFrame::Known(_)) => false,
            _ => true,
        };
        let live: Vec<&Vec<Frame>> = self.threads.iter().filter(|it| !it.is_empty()).collect();
        functions
            && live.len() == evidence.threads.len()
            && live.iter().zip(&evidence.threads).all(|(mine, told)| {
                mine.len() == told.frames.len()
                    && mine.iter().rev().zip(&told.frames).all(|(mine, told)| same(mine, told))
            })
    }

    fn activation(
        &self,
        rng: &mut Rng,
        known: &Known,
        interrupted: bool,
        locals: u8,
        suffixes: u8,
    ) -> Activation {
        let position = match (interrupted, rng.bool()) {
            (true, _) => Position::Within,
            (false, true) => Position::SomeCall,
            (false, false) => Position::Call(known.next),
        };
        let recorded = &known.log[known.recorded..];
        let kept = if rng.u8(0..8) < suffixes { rng.usize(0..=recorded.len()) } else { 0 };
        let mut suffix = recorded[recorded.len() - kept..].to_vec();
        let complete = kept == known.log.len();
        if suffix.is_empty() {
            suffix.push(known.block);
        }
        let body = &self.unit.functions[known.function];
        let blocks = |block| known.blocks.contains(&block);
        let calls = |inst| known.calls.contains(&inst);
        Activation {
            function: (UNIT, known.function),
            at: Some(known.block),
            position,
            suffix,
            complete,
            coverage: coverage(rng, body, locals, &blocks, &calls),
        }
    }
}

fn coverage(
    rng: &mut Rng,
    body: &backtrail_ir::Function,
    odds: u8,
    block: &dyn Fn(Block) -> bool,
    call: &dyn Fn(Inst) -> bool,
) -> Coverage {
    let mut told = |is: bool| match (rng.u8(0..8) < odds, is) {
        (false, _) => Seen::Unknown,
        (true, true) => Seen::Yes,
        (true, false) => Seen::No,
    };
    let blocks = body.blocks.indices().map(|it| told(block(it))).collect();
    let is_call = |inst: &Inst| {
        let call = body.insts[*inst].op.call();
        call.is_some_and(|call| !matches!(call.callee, Callee::Intrinsic(_) | Callee::Asm))
    };
    let calls: BTreeMap<Inst, Seen> =
        body.insts.indices().filter(is_call).map(|it| (it, told(call(it)))).collect();
    Coverage { blocks, calls }
}
