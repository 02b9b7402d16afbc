//! The traced graph of a program whose units are known.
//!
//! Each function whose code is in the program is a routine. A block is one node,
//! or several: behind a call that matters a piece begins. Calls that matter are
//! those to functions that are seen, indirect ones, and those into unseen code
//! that may do more than return ([`super::unseen`]); `printf` does not split its
//! block. A call in tail position gives up its frame, so that a program that
//! loops by such calls needs no deeper stack here than there. But functions whose
//! return is the end of a run or a thread keep theirs, unless they loop in that way:
//! so there is a place where it is seen that they return.
//!
//! Landings are landing pads and the pieces behind calls that return twice.
//! Without any, nothing leaves frames. Not modelled: unseen code that catches what
//! a callback of it throws.
//!
//! The root is a routine that stands for what runs before and behind `main`: it
//! calls constructors, `main`, destructors, and what is passed to `atexit` and its
//! like, which destructors of a thread's own data are, too. A thread's trace begins at the routine it was started with, which has to
//! be a root, too: what is passed to `pthread_create` by name, or every function
//! whose address is taken. So are handlers of signals, which can run at any time:
//! what is passed to `signal` by name, or every function whose address is taken and
//! that could be one.
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
//! An indirect call can lead to unseen code if the address of an unseen function
//! is taken somewhere, if `dlsym` is called, or if the program uses tables of
//! virtual functions of classes that are elsewhere.
//!
//! Assumptions, beside those of [`backtrail_analysis::call_targets`] and
//! [`super::unseen`]: assembly does not leave its block but by the ways it names.

use std::collections::BTreeSet;

use backtrail_analysis::{Body, CallTargets, Target};
use backtrail_graph::{Index, IndexMap};
use backtrail_ir::program::{Object, Program, Resolution};
use backtrail_ir::{
    Block, CallData, Callee, Func, Function, Inst, InstData, Op, Sym, SymbolKind, Tail, Traits,
    Unit, Value,
};

use super::unseen::{Behaviour, CallsBack};
use super::{Builder, Icfg, Node, Role, Routine, WayKind};
use crate::Error;

/// `std::thread`, which starts whatever was put into an object of it.
const STD_THREAD: &str =
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE";

/// How the names of members of such objects begin. The library deletes them when their
/// threads are done.
const STD_THREAD_STATE: &str = "_ZNSt6thread11_State_impl";

/// What forks and returns in the child, too.
const FORKS: [&str; 6] = ["fork", "__fork", "__libc_fork", "_Fork", "daemon", "forkpty"];

/// How the names begin of what goes on as another program.
const EXECS: [&str; 2] = ["exec", "fexec"];

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
}

impl ProgramGraph {
    /// The graph of a program, with what is known of unseen functions by name.
    pub fn new(
        program: &Program<'_>,
        behaviour: impl Fn(&str, Traits) -> Behaviour,
    ) -> Result<Self, Error> {
        let targets = CallTargets::new(program);
        let mut maker = Maker {
            program,
            targets: &targets,
            behaviour: &behaviour,
            builder: Builder::new(),
            blocks: Vec::new(),
            begins: IndexMap::new(),
            has_landings: has_landings(program, &targets),
            pointers: None,
            has_vfork: false,
            keepers: BTreeSet::new(),
            turns: Vec::new(),
        };
        maker.keepers = maker.find_keepers();
        maker.has_vfork = maker.calls_any(&["vfork", "__vfork"]);
        maker.pointers = maker.find_pointers();
        let start = maker.builder.routine();
        for _ in targets.bodies().indices() {
            maker.builder.routine();
        }
        maker.add_start(start)?;
        let handlers: Vec<Routine> = maker.handlers().into_iter().map(routine_of).collect();
        handlers.iter().for_each(|&handler| maker.builder.root(handler));
        for body in targets.bodies().indices() {
            maker.add_function(body);
        }
        let functions = targets.bodies().values().map(|&function| Some(function));
        let functions = std::iter::once(None).chain(functions).collect();
        let Maker { builder, blocks, begins, turns, .. } = maker;
        Ok(Self { icfg: builder.build()?, blocks, begins, functions, handlers, turns })
    }
}

fn traits_of(unit: &Unit, call: &CallData) -> Traits {
    let declared = match call.callee {
        Callee::Direct(symbol) | Callee::Intrinsic(symbol) => match &unit.symbols[symbol].kind {
            SymbolKind::Function(function) => unit.functions[*function].traits,
            SymbolKind::ExternalFunction(traits) => *traits,
            _ => Traits::default(),
        },
        Callee::Indirect | Callee::Asm => Traits::default(),
    };
    Traits {
        no_return: call.traits.no_return || declared.no_return,
        no_unwind: call.traits.no_unwind || declared.no_unwind,
        returns_twice: call.traits.returns_twice || declared.returns_twice,
        ..call.traits
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

struct Maker<'a, 'u, F> {
    program: &'a Program<'u>,
    targets: &'a CallTargets<'a, 'u>,
    behaviour: &'a F,
    builder: Builder,
    blocks: Vec<(Object, Func, Block)>,
    begins: IndexMap<Node, Begin>,
    has_landings: BTreeSet<Body>,
    /// What unseen code that a pointer leads to may do, if there is any.
    pointers: Option<Behaviour>,
    has_vfork: bool,
    /// Those that keep their frames.
    keepers: BTreeSet<Body>,
    turns: Vec<Node>,
}

/// The routine of a body: the first routine is the start.
fn routine_of(body: Body) -> Routine {
    Routine::new(body.position() + 1)
}

impl<F: Fn(&str, Traits) -> Behaviour> Maker<'_, '_, F> {
    fn node(&mut self, routine: Routine, role: Role, begin: Begin) -> Node {
        self.begins.push(begin);
        self.builder.node(routine, role)
    }

    fn add_start(&mut self, start: Routine) -> Result<(), Error> {
        let before = self.node(start, Role::Hub, Begin::Unseen(None));
        let behind = self.node(start, Role::Hub, Begin::Unseen(None));
        let main = self.body_named("main").ok_or_else(|| Error::Graph("it has no main".into()))?;
        self.builder.way(before, WayKind::Call { callee: routine_of(main), back: behind });
        for body in self.listed_in("llvm.global_ctors") {
            self.builder.way(before, WayKind::Call { callee: routine_of(body), back: before });
        }
        for body in self.late() {
            self.builder.way(behind, WayKind::Call { callee: routine_of(body), back: behind });
        }
        self.builder.way(behind, WayKind::End);
        self.builder.root(start);
        for body in self.threads() {
            self.builder.root(routine_of(body));
        }
        Ok(())
    }

    /// What runs behind `main` and behind what threads begin with.
    fn late(&self) -> BTreeSet<Body> {
        let mut late = self.listed_in("llvm.global_dtors");
        late.extend(self.registered());
        let is_deleted = |body: &Body| {
            let is_one = |it: &str| it.starts_with(STD_THREAD_STATE) && it.ends_with("D0Ev");
            self.name(*body).is_some_and(is_one)
        };
        // Rust's library drops what it was given, in vtables, and what is a thread's own.
        let drops = self.starts_rust_threads();
        let is_dropped = |body: &Body| drops && self.targets.function(*body).parameters == 1;
        let is_late = |body: &Body| is_deleted(body) || is_dropped(body);
        late.extend(self.targets.taken().iter().copied().filter(is_late));
        late
    }

    /// Those whose return is to be seen, and that do not loop by calls in tail position.
    fn find_keepers(&self) -> BTreeSet<Body> {
        let mut keepers: BTreeSet<Body> = self.body_named("main").into_iter().collect();
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
            if !is_in_tail_position(function, inst, call) {
                continue;
            }
            match self.targets.target(object, function, inst, call) {
                Target::Body(callee) => callees.extend([callee]),
                Target::Taken { arguments } => callees.extend(self.targets.taken_with(arguments)),
                Target::Inline | Target::Unseen(_) => {}
            }
        }
        callees
    }

    /// Where threads may begin.
    fn threads(&self) -> BTreeSet<Body> {
        let calls = self.calls_to(&["pthread_create", "thrd_create"]);
        let mut begin: BTreeSet<Body> = calls
            .flat_map(|(object, function, inst)| self.passed(object, function, inst))
            .collect();
        if self.calls_any(&[STD_THREAD]) || self.starts_rust_threads() {
            begin.extend(self.targets.taken());
        }
        begin
    }

    /// Whether Rust's library is asked for threads, which run what is in a box.
    fn starts_rust_threads(&self) -> bool {
        let is_start = |name: &str| name.contains("3std3sys") && name.contains("6Thread3new");
        self.calls_where(is_start).next().is_some()
    }

    /// What may handle signals.
    fn handlers(&self) -> BTreeSet<Body> {
        let is_one = |&body: &Body| {
            let function = self.targets.function(body);
            let mut insts = function.insts.values();
            let returns_nothing = |inst: &InstData| {
                !matches!(inst.op, Op::Return) || function.operands_of(inst).is_empty()
            };
            matches!(function.parameters, 1 | 3) && insts.all(returns_nothing)
        };
        let named = self.calls_to(&["signal", "bsd_signal", "sysv_signal", "ssignal", "sigset"]);
        let mut found: BTreeSet<Body> = named
            .flat_map(|(object, function, inst)| self.passed(object, function, inst))
            .collect();
        if self.calls_any(&["sigaction", "sigvec"]) {
            found.extend(self.targets.taken());
        }
        found.retain(is_one);
        found
    }

    /// What unseen functions whose address is taken may do, taken together.
    fn find_pointers(&self) -> Option<Behaviour> {
        let unknown = || (self.behaviour)("", Traits::default());
        // Addresses that come from elsewhere: named at run time, or in tables of
        // virtual functions of classes that are elsewhere.
        if self.calls_any(&["dlsym", "dlvsym"]) {
            return Some(unknown());
        }
        let mut found: Option<Behaviour> = None;
        for (object, unit) in self.program.units() {
            let mut mentioned = BTreeSet::new();
            for symbol in unit.symbols.values() {
                match &symbol.kind {
                    SymbolKind::Data { refers_to, .. } => mentioned.extend(refers_to),
                    SymbolKind::Alias { target } => mentioned.extend(target),
                    _ => {}
                }
            }
            for value in unit.functions.values().flat_map(|function| &function.operands) {
                match value {
                    Value::Symbol(symbol, _) => mentioned.extend([symbol]),
                    Value::Expr(symbols) => mentioned.extend(symbols),
                    _ => {}
                }
            }
            for &symbol in mentioned {
                let data = &unit.symbols[symbol];
                let is_seen = self.targets.body_of_symbol(object, symbol).is_some();
                let more = match &data.kind {
                    SymbolKind::ExternalFunction(traits) if !is_seen => {
                        (self.behaviour)(&data.name, *traits)
                    }
                    SymbolKind::Data { .. } if data.name.starts_with("_ZTVN10__cxxabiv1") => {
                        continue;
                    }
                    SymbolKind::Data { .. }
                        if data.name.starts_with("_ZTV") && self.is_elsewhere(object, symbol) =>
                    {
                        unknown()
                    }
                    _ => continue,
                };
                found = Some(match found {
                    None => more,
                    Some(found) => Behaviour {
                        calls_back: found.calls_back.max(more.calls_back),
                        ends: found.ends || more.ends,
                        leaves: found.leaves || more.leaves,
                        returns: found.returns || more.returns,
                    },
                });
            }
        }
        // Whom it was given is not known here.
        if let Some(found) = &mut found
            && found.calls_back == CallsBack::Arguments
        {
            found.calls_back = CallsBack::Anyone;
        }
        found
    }

    fn is_elsewhere(&self, object: Object, symbol: Sym) -> bool {
        matches!(self.program.resolve(object, symbol), Resolution::Elsewhere | Resolution::Null)
    }

    fn body_named(&self, name: &str) -> Option<Body> {
        self.targets.bodies().indices().find(|&body| self.name(body) == Some(name))
    }

    fn name(&self, body: Body) -> Option<&str> {
        let (object, function) = self.targets.bodies()[body];
        let unit = self.program.unit(object)?;
        Some(&unit.symbols[unit.functions[function].symbol].name)
    }

    /// The functions that data of this name mentions, in any unit.
    fn listed_in(&self, name: &str) -> BTreeSet<Body> {
        let mut listed = BTreeSet::new();
        for (object, unit) in self.program.units() {
            for symbol in unit.symbols.values().filter(|symbol| symbol.name == name) {
                if let SymbolKind::Data { refers_to, .. } = &symbol.kind {
                    let bodies = refers_to.iter();
                    listed.extend(bodies.filter_map(|&it| self.targets.body_of_symbol(object, it)));
                }
            }
        }
        listed
    }

    /// All calls by name.
    fn calls_to<'s>(
        &'s self,
        names: &'s [&str],
    ) -> impl Iterator<Item = (Object, &'s Function, Inst)> + 's {
        self.calls_where(|name| names.contains(&name))
    }

    /// Calls by name, of names like this.
    fn calls_where<'s>(
        &'s self,
        is_wanted: impl Fn(&str) -> bool + Copy + 's,
    ) -> impl Iterator<Item = (Object, &'s Function, Inst)> + 's {
        self.targets.bodies().iter().flat_map(move |(body, &(object, _))| {
            let function = self.targets.function(body);
            let unit = self.program.unit(object).expect("bodies are of units");
            let is_named = move |op: &Op| match op.call().map(|call| &call.callee) {
                Some(Callee::Direct(symbol)) => is_wanted(&unit.symbols[*symbol].name),
                _ => false,
            };
            let insts = function.insts.iter().filter(move |(_, data)| is_named(&data.op));
            insts.map(move |(inst, _)| (object, function, inst))
        })
    }

    fn calls_any(&self, names: &[&str]) -> bool {
        self.calls_to(names).next().is_some()
    }

    /// What runs when the program or a thread ends because it asked for that.
    fn registered(&self) -> BTreeSet<Body> {
        let at_exit = ["atexit", "on_exit", "at_quick_exit", "__cxa_atexit"];
        let of_threads =
            ["pthread_key_create", "tss_create", "__cxa_thread_atexit", "__cxa_thread_atexit_impl"];
        let names = [at_exit, of_threads].concat();
        let calls = self.calls_to(&names);
        let found: Vec<(Object, &Function, Inst)> = calls.collect();
        found
            .into_iter()
            .flat_map(|(object, function, inst)| self.passed(object, function, inst))
            .collect()
    }

    /// The functions passed to a call, or all that may be.
    fn passed(&self, object: Object, function: &Function, inst: Inst) -> BTreeSet<Body> {
        let mut named = BTreeSet::new();
        for value in function.operands_of(&function.insts[inst]) {
            if let Value::Symbol(symbol, _) = value {
                named.extend(self.targets.body_of_symbol(object, *symbol));
            }
        }
        if named.is_empty() { self.targets.taken().iter().copied().collect() } else { named }
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
                    _ => Some(at),
                };
            }
        }
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
        let mut callees: BTreeSet<Body> = match target {
            Target::Inline => return Some(at),
            Target::Body(body) => BTreeSet::from([body]),
            Target::Taken { arguments } => self.targets.taken_with(arguments).collect(),
            Target::Unseen(_) => BTreeSet::new(),
        };
        let keeps_frame = self.keepers.contains(&place.body) && call.tail != Tail::Must;
        let is_tail = !self.has_landings.contains(&place.body)
            && !keeps_frame
            && !traits.returns_twice
            && is_in_tail_position(place.function, inst, call);
        let unseen = self.unseen(place, inst, &target, traits);
        if let Some((behaviour, called)) = &unseen
            && *behaviour == Behaviour::PLAIN
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

    /// Whether a call forks, or returns only if another program could not be executed.
    fn is_turn(&self, place: &FunctionPlace<'_>, target: &Target) -> bool {
        let Target::Unseen(symbol) = *target else { return false };
        let unit = self.program.unit(place.object).expect("bodies are of units");
        let name = unit.symbols[symbol].name.as_str();
        FORKS.contains(&name) || EXECS.iter().any(|begin| name.starts_with(begin))
    }

    /// What the unseen code of a call may do, if there may be any, and whom it
    /// may call.
    fn unseen(
        &self,
        place: &FunctionPlace<'_>,
        inst: Inst,
        target: &Target,
        traits: Traits,
    ) -> Option<(Behaviour, BTreeSet<Body>)> {
        let unit = self.program.unit(place.object).expect("bodies are of units");
        let name = |symbol: Sym| unit.symbols[symbol].name.as_str();
        let mut behaviour = match *target {
            Target::Unseen(symbol) => (self.behaviour)(name(symbol), traits),
            // What remembers where it was called does nothing else.
            Target::Taken { .. } if traits.returns_twice => (self.behaviour)("", traits),
            Target::Taken { arguments } => match self.pointers {
                Some(pointers) => Behaviour { returns: !traits.no_return, ..pointers },
                None if self.targets.taken_with(arguments).next().is_some() => return None,
                None => (self.behaviour)("", traits),
            },
            Target::Body(_) | Target::Inline => return None,
        };
        let ends_child =
            |name: &str| name.starts_with("exec") || ["_exit", "_Exit"].contains(&name);
        if let Target::Unseen(symbol) = *target
            && self.has_vfork
            && ends_child(name(symbol))
        {
            behaviour.leaves = true;
        }
        // Nothing to leave for; `no_unwind` alone does not exclude longjmp.
        behaviour.leaves &= !self.has_landings.is_empty();
        let called = match behaviour.calls_back {
            CallsBack::Nobody => BTreeSet::new(),
            CallsBack::Arguments => self.passed(place.object, place.function, inst),
            CallsBack::Anyone => self.targets.taken().iter().copied().collect(),
        };
        if called.is_empty() {
            behaviour.calls_back = CallsBack::Nobody;
        }
        Some((behaviour, called))
    }

    /// The ways of a call that comes back to `behind`.
    fn join(
        &mut self,
        place: &FunctionPlace<'_>,
        at: Node,
        inst: Inst,
        callees: &mut BTreeSet<Body>,
        mut unseen: Option<(Behaviour, BTreeSet<Body>)>,
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
        let Some((behaviour, called)) = unseen else { return };
        if behaviour == Behaviour::PLAIN && called.is_empty() {
            return self.builder.way(at, WayKind::Step(behind));
        }
        let hub = self.node(place.routine, Role::Hub, Begin::Unseen(Some(inst)));
        self.builder.way(at, WayKind::Step(hub));
        if behaviour.returns {
            self.builder.way(hub, WayKind::Step(behind));
        }
        for body in called {
            self.builder.way(hub, WayKind::Call { callee: routine_of(body), back: hub });
        }
        if behaviour.leaves {
            self.builder.way(hub, WayKind::Leave);
        }
        if behaviour.ends {
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
            Op::Unreachable => {}
            Op::Invoke(call) => {
                let behind = self.node(place.routine, Role::Piece, Begin::After(inst));
                let next = place.firsts[successors[0].position()];
                self.builder.way(behind, WayKind::Step(next));
                let unit = self.program.unit(place.object).expect("bodies are of units");
                let traits = traits_of(unit, call);
                let target = self.targets.target(place.object, place.function, inst, call);
                let mut callees: BTreeSet<Body> = match target {
                    Target::Inline => return self.builder.way(at, WayKind::Step(behind)),
                    Target::Body(body) => BTreeSet::from([body]),
                    Target::Taken { arguments } => self.targets.taken_with(arguments).collect(),
                    Target::Unseen(_) => BTreeSet::new(),
                };
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

struct FunctionPlace<'a> {
    object: Object,
    routine: Routine,
    function: &'a Function,
    body: Body,
    firsts: &'a [Node],
}

/// Whether a call may reuse the frame and nothing but a return follows.
fn is_in_tail_position(function: &Function, inst: Inst, call: &CallData) -> bool {
    let next = Inst::new(inst.position() + 1);
    let returns = function.insts.get(next).is_some_and(|next| {
        let result = |value: &Value| *value == Value::Inst(inst);
        matches!(next.op, Op::Return) && function.operands_of(next).iter().all(result)
    });
    match call.tail {
        Tail::No => false,
        Tail::May | Tail::Must => returns,
    }
}
