//! The traced graph of a program whose units are known.
//!
//! Each function whose code is in the program is a routine. A block is one node,
//! or several: behind a call that matters a piece begins. Calls that matter are
//! those to functions that are seen, indirect ones, and those into unseen code
//! that may do more than return ([`backtrail_analysis::external`]); `printf` does not
//! split its block, unless the program has a `malloc` of its own. A call in tail position gives up its frame, so that a program that
//! loops by such calls needs no deeper stack here than there. But functions whose
//! return is the end of a run or a thread keep theirs, unless they loop in that way:
//! so there is a place where it is seen that they return.
//!
//! Landings are landing pads and the pieces behind calls that return twice.
//! Without any, nothing leaves frames. Not modelled: unseen code that catches what
//! a callback of it throws.
//!
//! The root is a routine that stands for what runs before and behind `main`, or in its
//! place where an object without a unit has it: it calls constructors, `main`, destructors, what other code calls by name, and what is
//! passed to `atexit` and its like, which destructors of a thread's own data are, too.
//! A thread's trace begins at the routine it was started with, which has to be a root,
//! too: what is passed to `pthread_create` by name, or every function whose address is
//! taken. So are handlers of signals, which can run at any time: what is passed to
//! `signal` by name, or every function whose address is taken and that could be one.
//!
//! What cannot be reached in the graph cannot run, if the graph is right. So that it is
//! noticed if it does, it has a probe, too ([`crate::probes`]).
//!
//! A piece begins behind every call of `fork` and of what forks and returns in the
//! child, too, and where `exec` returns because it failed: these are *turns*, which
//! have to be observed, so that it is known where a child begins and that it went on
//! as another program.
//!
//! The child of `vfork` goes on in the frames and in the log of its parent, which
//! returns behind it: to the parent it looks as if `execve` and `_exit` had left
//! for there.
//!
//! Assumptions, beside those of [`backtrail_analysis::call_targets`] and
//! [`backtrail_analysis::external`]: assembly does not leave its block but by the ways it names,
//! and ends the process only where it is said not to return.

use std::collections::BTreeSet;

use backtrail_analysis::calls::{is_in_tail_position, traits_of};
use backtrail_analysis::{Body, CallTargets, External, Externals, Target};
use backtrail_graph::{Index, IndexMap};
use backtrail_ir::program::{Object, Program};
use backtrail_ir::{
    Block, CallData, Callee, Func, Function, Inst, InstData, Op, SymbolKind, Tail, Traits,
};
use backtrail_outside::{self as outside, Class, Elsewhere, Whom};

use super::{Builder, Icfg, Node, Role, Routine, WayKind};
use crate::Error;

/// Where a node begins in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// With this block.
    Block(Block),
    /// Behind this call; if it may unwind, on the edge by which it returns.
    After(Inst),
    /// Nowhere: it stands for unseen code that this call runs, or that starts and
    /// ends the program.
    Unseen(Option<Inst>),
}

/// The traced graph of a program, and what its nodes are in it.
#[derive(Debug, Clone)]
pub struct ProgramGraph {
    /// The graph. The number of a [`Role::Block`] is its place in `blocks`.
    pub icfg: Icfg,
    /// Blocks, by number.
    pub blocks: Vec<(Object, Func, Block)>,
    /// Where each node begins.
    pub begins: IndexMap<Node, Begin>,
    /// The function that each routine is; the first routine, which runs before
    /// and behind `main`, is none.
    pub functions: IndexMap<Routine, Option<(Object, Func)>>,
    /// Those that may be handlers of signals, which are roots.
    pub handlers: Vec<Routine>,
    /// Pieces behind calls that fork, and behind those that return only if another
    /// program could not be executed; in order.
    pub turns: Vec<Node>,
    /// Where calls in tail position are made whose callers keep their frames in this graph
    /// alone: to whoever asks who called what, the activation has ended there. In order.
    pub given_up: Vec<Node>,
    /// What runs behind `main`, and behind the function that the last thread of a process
    /// began with.
    pub behind: Node,
    /// Routines whose entry and return are always seen, and at once: `main`, what threads
    /// begin with, and what runs behind them, after which a child or a thread may end
    /// without anybody saying so; what a child may begin with, which is what was left to be
    /// called by `fork`; if `main` is not seen, whatever it may call. In order.
    pub announced: Vec<Routine>,
}

impl ProgramGraph {
    /// The graph of a program.
    pub fn new(program: &Program<'_>) -> Result<Self, Error> {
        let targets = CallTargets::new(program);
        let externals = Externals::new(program, &targets);
        let mut maker = Maker {
            program,
            targets: &targets,
            externals: &externals,
            builder: Builder::new(),
            blocks: Vec::new(),
            begins: IndexMap::new(),
            has_landings: has_landings(program, &targets),
            has_vfork: false,
            keepers: BTreeSet::new(),
            turns: Vec::new(),
            given_up: Vec::new(),
        };
        maker.keepers = maker.find_keepers();
        maker.has_vfork = maker.calls_any(|row| row.vforks);
        let start = maker.builder.routine();
        for _ in targets.bodies().indices() {
            maker.builder.routine();
        }
        let behind = maker.add_start(start);
        let handlers: Vec<Routine> = maker.handlers().into_iter().map(routine_of).collect();
        handlers.iter().for_each(|&handler| maker.builder.root(handler));
        for body in targets.bodies().indices() {
            maker.add_function(body);
        }
        let functions = targets.bodies().values().map(|&function| Some(function));
        let functions = std::iter::once(None).chain(functions).collect();
        let Maker { builder, blocks, begins, turns, mut given_up, .. } = maker;
        given_up.sort_unstable();
        let icfg = builder.build()?;
        let mut announced: Vec<Routine> = targets.main().map(routine_of).into_iter().collect();
        announced.extend(&icfg.roots()[1..]);
        if targets.main().is_none() || !turns.is_empty() || icfg.roots().len() > 1 {
            announced.extend(icfg.ways_of(behind).filter_map(|way| match icfg.ways()[way].kind {
                WayKind::Call { callee, .. } => Some(callee),
                _ => None,
            }));
        }
        if !turns.is_empty() {
            announced.extend(externals.hooks(Class::AtFork).into_iter().map(routine_of));
        }
        announced.sort_unstable();
        announced.dedup();
        Ok(Self { icfg, blocks, begins, functions, handlers, turns, given_up, behind, announced })
    }
}

fn has_landings(program: &Program<'_>, targets: &CallTargets<'_, '_>) -> BTreeSet<Body> {
    let is_landed = |&body: &Body| {
        let (object, _) = targets.bodies()[body];
        let unit = program.unit(object).expect("bodies are of units");
        let function = targets.function(body);
        let twice = |op: &Op| op.call().is_some_and(|call| traits_of(unit, call).returns_twice);
        function.blocks.values().any(|block| block.landing_pad)
            || function.insts.values().any(|inst| twice(&inst.op))
    };
    targets.bodies().indices().filter(is_landed).collect()
}

struct Maker<'a, 'u> {
    program: &'a Program<'u>,
    targets: &'a CallTargets<'a, 'u>,
    externals: &'a Externals<'a, 'u>,
    builder: Builder,
    blocks: Vec<(Object, Func, Block)>,
    begins: IndexMap<Node, Begin>,
    has_landings: BTreeSet<Body>,
    has_vfork: bool,
    /// Those that keep their frames.
    keepers: BTreeSet<Body>,
    turns: Vec<Node>,
    given_up: Vec<Node>,
}

/// The routine of a body: the first routine is the start.
fn routine_of(body: Body) -> Routine {
    Routine::new(body.position() + 1)
}

impl Maker<'_, '_> {
    fn node(&mut self, routine: Routine, role: Role, begin: Begin) -> Node {
        self.begins.push(begin);
        self.builder.node(routine, role)
    }

    /// Adds what runs before and behind `main`; gives what runs behind it.
    fn add_start(&mut self, start: Routine) -> Node {
        let before = self.node(start, Role::Hub, Begin::Unseen(None));
        let main = self.targets.main();
        // A `main` that is not seen calls what it can reach, at any time.
        let behind = match main {
            Some(_) => self.node(start, Role::Hub, Begin::Unseen(None)),
            None => before,
        };
        // What other code calls by name may be called by the code that starts the program.
        let mut named: BTreeSet<Body> = self.externals.named().collect();
        match main {
            Some(main) => {
                named.remove(&main);
                let callee = routine_of(main);
                self.builder.way(before, WayKind::Call { callee, back: behind });
            }
            None => named.extend(self.externals.anyone()),
        }
        let mut early = self.targets.before_main();
        early.extend(&named);
        let mut late = self.late();
        late.extend(&named);
        if main.is_none() {
            early.append(&mut late);
        }
        for (hub, callees) in [(before, early), (behind, late)] {
            for body in callees {
                let callee = routine_of(body);
                self.builder.way(hub, WayKind::Call { callee, back: hub });
            }
        }
        self.builder.way(behind, WayKind::End);
        self.builder.root(start);
        for body in self.threads() {
            self.builder.root(routine_of(body));
        }
        behind
    }

    /// What runs behind `main` and behind what threads begin with.
    fn late(&self) -> BTreeSet<Body> {
        let mut late = self.targets.after_main();
        for class in [Class::AtExit, Class::ThreadExit, Class::Stream] {
            late.extend(self.externals.hooks(class));
        }
        // Rust's library drops what it was given, in vtables, and what is a thread's own.
        let drops =
            self.calls_any(|row| row.starts_threads && row.elsewhere == Some(Elsewhere::Rust));
        let is_dropped = |body: &Body| drops && self.targets.function(*body).parameters == 1;
        late.extend(self.targets.taken().iter().copied().filter(is_dropped));
        late
    }

    /// Those whose return is to be seen, and that do not loop by calls in tail position.
    fn find_keepers(&self) -> BTreeSet<Body> {
        let mut keepers: BTreeSet<Body> = self.targets.main().into_iter().collect();
        keepers.extend(self.threads());
        keepers.extend(self.late());
        keepers.retain(|&keeper| {
            let mut reached = BTreeSet::new();
            let mut pending = vec![keeper];
            while let Some(body) = pending.pop() {
                let callees = self.tail_callees(body);
                pending.extend(callees.into_iter().filter(|&callee| reached.insert(callee)));
            }
            !reached.contains(&keeper)
        });
        keepers
    }

    /// Whom a function calls in tail position.
    fn tail_callees(&self, body: Body) -> BTreeSet<Body> {
        let (object, _) = self.targets.bodies()[body];
        let function = self.targets.function(body);
        let mut callees = BTreeSet::new();
        for (inst, data) in function.insts.iter() {
            let Some(call) = data.op.call() else { continue };
            if !is_in_tail_position(function, inst) {
                continue;
            }
            match self.targets.target(object, function, inst, call) {
                Target::Body(callee) => callees.extend([callee]),
                Target::Taken { arguments } => callees.extend(self.targets.taken_with(arguments)),
                Target::Inline | Target::Unseen(_) | Target::Native(_) => {}
            }
        }
        callees
    }

    /// Where threads may begin.
    fn threads(&self) -> BTreeSet<Body> {
        self.externals.hooks(Class::Thread)
    }

    /// What may run anywhere: handlers of signals, and what code generation calls where
    /// functions begin or end.
    fn handlers(&self) -> BTreeSet<Body> {
        let is_one = |&body: &Body| {
            let function = self.targets.function(body);
            let mut insts = function.insts.values();
            let returns_nothing = |inst: &InstData| {
                !matches!(inst.op, Op::Return) || function.operands_of(inst).is_empty()
            };
            matches!(function.parameters, 1 | 3) && insts.all(returns_nothing)
        };
        let mut found = self.externals.hooks(Class::Signal);
        found.retain(is_one);
        found.extend(self.externals.inserted());
        found
    }

    /// Whether a function of a library is called or mentioned that is like this.
    fn calls_any(&self, is_wanted: impl Fn(&outside::Function) -> bool) -> bool {
        self.program.units().any(|(object, unit)| {
            unit.symbols.iter().any(|(symbol, data)| {
                matches!(data.kind, SymbolKind::ExternalFunction(_))
                    && self.row(object, &Target::Unseen(symbol)).is_some_and(&is_wanted)
            })
        })
    }

    /// What is known of the function of a library that is called.
    fn row(&self, object: Object, target: &Target) -> Option<&'static outside::Function> {
        let Target::Unseen(symbol) = *target else { return None };
        outside::of(&self.program.external_name(object, symbol))
    }

    fn add_function(&mut self, body: Body) {
        let (object, func) = self.targets.bodies()[body];
        let function = self.targets.function(body);
        let routine = routine_of(body);
        let mut firsts = Vec::new();
        for (block, data) in function.blocks.iter() {
            let role = Role::Block(self.blocks.len() as u32);
            self.blocks.push((object, func, block));
            let node = self.node(routine, role, Begin::Block(block));
            if data.landing_pad {
                self.builder.landing(node);
            }
            firsts.push(node);
        }
        let place = FunctionPlace { object, routine, function, body, firsts: &firsts };
        for (block, data) in function.blocks.iter() {
            let mut node = Some(firsts[block.position()]);
            for inst in data.insts() {
                let Some(at) = node else { break };
                node = match &function.insts[inst].op {
                    Op::Call(call) => self.add_call(&place, at, inst, call),
                    op if op.is_terminator() => {
                        self.add_terminator(&place, at, inst, op, &data.successors);
                        None
                    }
                    op => Some(self.add_instruction(&place, at, inst, op)),
                };
            }
        }
    }

    /// Ends a piece with an instruction of which code generation may make a call; the piece
    /// that goes on, the same if it does not.
    fn add_instruction(
        &mut self,
        place: &FunctionPlace<'_>,
        at: Node,
        inst: Inst,
        op: &Op,
    ) -> Node {
        let Some(external) = self.externals.of_instruction(op) else { return at };
        let behind = self.node(place.routine, Role::Piece, Begin::After(inst));
        let called = self.externals.called(&external.calls);
        self.join(place, at, inst, &mut BTreeSet::new(), Some((external, called)), behind);
        behind
    }

    /// Ends a piece with a call; the piece that goes on, the same if the call
    /// does not matter.
    fn add_call(
        &mut self,
        place: &FunctionPlace<'_>,
        at: Node,
        inst: Inst,
        call: &CallData,
    ) -> Option<Node> {
        let unit = self.program.unit(place.object).expect("bodies are of units");
        let traits = traits_of(unit, call);
        let target = self.targets.target(place.object, place.function, inst, call);
        let mut callees = self.callees(&target);
        let keeps_frame = self.keepers.contains(&place.body) && call.tail != Tail::Must;
        let is_tail = !self.has_landings.contains(&place.body)
            && !keeps_frame
            && !traits.returns_twice
            && is_in_tail_position(place.function, inst);
        let unseen = self.unseen(place, inst, &target, traits);
        if target == Target::Inline && unseen.is_none() {
            return Some(at);
        }
        if let Some((external, called)) = &unseen
            && !(external.ends || external.leaves)
            && external.returns
            && called.is_empty()
            && callees.is_empty()
            && !traits.returns_twice
            && !self.is_turn(place, &target)
        {
            return Some(at);
        }
        if unseen.is_none() && is_tail {
            for body in callees {
                self.builder.way(at, WayKind::Tail(routine_of(body)));
            }
            return None;
        }
        let behind = self.node(place.routine, Role::Piece, Begin::After(inst));
        if traits.returns_twice {
            self.builder.landing(behind);
        } else if self.is_turn(place, &target) {
            self.turns.push(behind);
        }
        self.join(place, at, inst, &mut callees, unseen, behind);
        Some(behind)
    }

    /// The functions that are called, as far as they are seen.
    fn callees(&self, target: &Target) -> BTreeSet<Body> {
        match *target {
            Target::Body(body) => BTreeSet::from([body]),
            Target::Taken { arguments } => self.targets.taken_with(arguments).collect(),
            Target::Inline | Target::Unseen(_) | Target::Native(_) => BTreeSet::new(),
        }
    }

    /// Whether a call forks, or returns only if another program could not be executed.
    fn is_turn(&self, place: &FunctionPlace<'_>, target: &Target) -> bool {
        let row = self.row(place.object, target);
        row.is_some_and(|row| (row.forks && !row.vforks) || row.execs)
    }

    /// What the unseen code of a call may do, if there may be any, and whom it
    /// may call.
    fn unseen(
        &self,
        place: &FunctionPlace<'_>,
        inst: Inst,
        target: &Target,
        traits: Traits,
    ) -> Option<(External, BTreeSet<Body>)> {
        let externals = self.externals;
        let mut external = externals.of_call(place.object, place.function, inst, target, traits)?;
        // What ends a child that has its parent's memory goes on in the parent.
        let ends_child = |row: &outside::Function| {
            let just_ends = row.calls == Whom::Nobody && row.runs.is_empty();
            row.execs || (row.never_returns() && row.ends && just_ends)
        };
        if self.has_vfork && self.row(place.object, target).is_some_and(ends_child) {
            external.leaves = true;
        }
        // Nothing to leave for; `no_unwind` alone does not exclude longjmp. If it leaves for
        // code that is not seen, the trace ends here.
        if self.has_landings.is_empty() {
            external.ends |= std::mem::take(&mut external.leaves);
        }
        let called = externals.called(&external.calls);
        Some((external, called))
    }

    /// The ways of a call that comes back to `behind`.
    fn join(
        &mut self,
        place: &FunctionPlace<'_>,
        at: Node,
        inst: Inst,
        callees: &mut BTreeSet<Body>,
        mut unseen: Option<(External, BTreeSet<Body>)>,
        behind: Node,
    ) {
        // Whether a pointer leads to a function or to unseen code that calls it
        // makes no difference to the blocks that are passed.
        if let Some((_, called)) = &mut unseen
            && !called.is_empty()
        {
            called.append(callees);
        }
        for &body in callees.iter() {
            self.builder.way(at, WayKind::Call { callee: routine_of(body), back: behind });
        }
        let gives_up = is_in_tail_position(place.function, inst);
        self.given_up.extend(gives_up.then_some(at));
        let Some((external, called)) = unseen else { return };
        let does_more = external.ends || external.leaves || !external.returns;
        if !does_more && called.is_empty() {
            return self.builder.way(at, WayKind::Step(behind));
        }
        let hub = self.node(place.routine, Role::Hub, Begin::Unseen(Some(inst)));
        self.builder.way(at, WayKind::Step(hub));
        self.given_up.extend(gives_up.then_some(hub));
        if external.returns {
            self.builder.way(hub, WayKind::Step(behind));
        }
        for body in called {
            self.builder.way(hub, WayKind::Call { callee: routine_of(body), back: hub });
        }
        if external.leaves {
            self.builder.way(hub, WayKind::Leave);
        }
        if external.ends {
            self.builder.way(hub, WayKind::End);
        }
    }

    fn add_terminator(
        &mut self,
        place: &FunctionPlace<'_>,
        at: Node,
        inst: Inst,
        op: &Op,
        successors: &[Block],
    ) {
        match op {
            Op::Return => self.builder.way(at, WayKind::Return),
            Op::Resume => self.builder.way(at, WayKind::Leave),
            // Assembly that does not return ends the process, by a system call.
            Op::Unreachable if is_behind_assembly(place.function, inst) => {
                self.builder.way(at, WayKind::End);
            }
            Op::Unreachable => {}
            Op::Invoke(call) => {
                let behind = self.node(place.routine, Role::Piece, Begin::After(inst));
                let next = place.firsts[successors[0].position()];
                self.builder.way(behind, WayKind::Step(next));
                let unit = self.program.unit(place.object).expect("bodies are of units");
                let traits = traits_of(unit, call);
                let target = self.targets.target(place.object, place.function, inst, call);
                let mut callees = self.callees(&target);
                if target == Target::Inline {
                    return self.builder.way(at, WayKind::Step(behind));
                }
                let unseen = self.unseen(place, inst, &target, traits);
                if self.is_turn(place, &target) {
                    self.turns.push(behind);
                }
                self.join(place, at, inst, &mut callees, unseen, behind);
            }
            _ => {
                for &to in successors {
                    self.builder.way(at, WayKind::Step(place.firsts[to.position()]));
                }
            }
        }
    }
}

/// Whether the instruction before this one, which is in the same block or ends another one,
/// is assembly.
fn is_behind_assembly(function: &Function, inst: Inst) -> bool {
    let Some(before) = inst.position().checked_sub(1) else { return false };
    let call = function.insts[Inst::new(before)].op.call();
    call.is_some_and(|call| call.callee == Callee::Asm)
}

struct FunctionPlace<'a> {
    object: Object,
    routine: Routine,
    function: &'a Function,
    body: Body,
    firsts: &'a [Node],
}
