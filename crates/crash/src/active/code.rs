//! A program as the analysis of active code sees it: blocks, edges, and what may
//! happen at each call.
//!
//! Built once from units; everything that depends on a core comes later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backtrail_analysis::{Behaviour, Body, CallTargets, CallsBack, Target};
use backtrail_graph::{Digraph, Index as _, IndexMap};
use backtrail_ir::program::{Object, Program};
use backtrail_ir::{
    Block, CallData, Callee, Function, Inst, Linkage, Op, SymbolKind, Tail, Traits, Unit, Value,
};
use backtrail_plan::frames::Outside;

use crate::evidence::FunctionId;

/// A program.
#[derive(Debug, Clone)]
pub struct Code {
    pub(super) bodies: IndexMap<Body, BodyCode>,
    numbers: BTreeMap<FunctionId, Body>,
    /// Functions that unseen code may call if it calls any.
    pub(super) called_by_anyone: Vec<Body>,
    /// Functions that unseen code calls whatever the program does.
    pub(super) called_in_any_case: Vec<Body>,
    pub(super) main: Option<Body>,
    /// Whether the program itself may call `main`.
    pub(super) is_main_called: bool,
    /// Whether an activation may end anywhere, not only at calls: a signal handler
    /// may leave for a landing, or a thread be cancelled.
    pub(super) may_end_anywhere: bool,
}

/// A function whose code is in the program.
#[derive(Debug, Clone)]
pub(super) struct BodyCode {
    pub id: FunctionId,
    pub flow: Digraph<Block>,
    /// Its calls, in order.
    pub calls: Vec<CallSite>,
    /// The calls of each block: a range of `calls`.
    pub calls_of: Vec<(u32, u32)>,
    /// How each block ends.
    pub exits: Vec<Exit>,
    /// Whether it calls something that returns twice.
    pub twice: Vec<Block>,
}

/// How a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// It goes on to other blocks.
    Flow,
    /// With its last call: to the first block if that returns, to the second if
    /// it unwinds.
    Invoke(Block, Block),
    /// It returns.
    Return,
    /// It goes on unwinding, or does something that is not modelled.
    Leave,
    /// It cannot end.
    Never,
}

/// A call that is neither to an intrinsic nor assembly.
#[derive(Debug, Clone)]
pub(super) struct CallSite {
    pub inst: Inst,
    pub block: Block,
    /// Who of the functions of the program may be called.
    pub callees: Arc<[Body]>,
    /// What unseen code may do that is called here, if such code may be called.
    pub unseen: Option<Unseen>,
    /// Whether the call may come back.
    pub returns: bool,
    /// Whether it may reuse the frame: then the activation is over once the call
    /// begins.
    pub tail: bool,
}

impl CallSite {
    /// Whether it calls one function that is known.
    pub fn is_direct(&self) -> bool {
        self.callees.len() == 1 && self.unseen.is_none()
    }
}

/// What unseen code may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unseen {
    pub calls: UnseenCalls,
    /// Whether it may leave frames.
    pub leaves: bool,
}

/// Whom unseen code may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnseenCalls {
    Nobody,
    These(Vec<Body>),
    Anyone,
}

impl Code {
    /// Looks through `program`, whose units have these `ids`, in order. It is what one
    /// module consists of: an executable, or else a shared library, whose exported
    /// functions may be others' than its own when it calls them.
    pub fn new(
        program: &Program<'_>,
        ids: &[[u8; 16]],
        outside: &Outside,
        is_executable: bool,
    ) -> Self {
        let targets = CallTargets::new(program);
        let by_object: BTreeMap<Object, [u8; 16]> =
            program.units().zip(ids).map(|((object, _), &id)| (object, id)).collect();
        let mut maker = Maker {
            program,
            targets: &targets,
            has_native: outside.has_native,
            replaceable: match is_executable {
                true => BTreeSet::new(),
                false => outside.refers_to.iter().map(String::as_str).collect(),
            },
            vforks: false,
            classes: BTreeMap::new(),
            taken: Vec::new(),
        };
        let exported = maker.named(&outside.refers_to.iter().map(String::as_str).collect());
        let taken: BTreeSet<Body> = targets.taken().iter().chain(&exported).copied().collect();
        maker.taken = taken.into_iter().collect();
        let called: BTreeSet<&str> = maker.names_of_callees();
        maker.vforks = called.contains("vfork") || called.contains("__vfork");
        let forks = ["fork", "_Fork", "__fork"].iter().any(|it| called.contains(it));
        let threads = ["pthread_create", "thrd_create"].iter().any(|it| called.contains(it));
        let may_end_anywhere = called.contains("pthread_cancel")
            || called.contains("llvm.eh.sjlj.longjmp")
            // A child has none of its parent's other threads.
            || (forks && threads)
            || (called.iter().any(|name| INSTALLS_HANDLERS.contains(name))
                && called.iter().any(|name| name.contains("longjmp")));
        let mut early = maker.early();
        early.extend(exported);
        let main = maker.named(&BTreeSet::from(["main"])).into_iter().next();
        // The start of the program is told by its stack.
        early.retain(|body| Some(*body) != main);
        let bodies: IndexMap<Body, BodyCode> =
            targets.bodies().indices().map(|body| maker.body(body, &by_object)).collect();
        let numbers = bodies.iter().map(|(body, data)| (data.id, body)).collect();
        let called_by_anyone = maker.taken.iter().copied().chain(maker.listed(&LATE)).collect();
        let mut callees = bodies.values().flat_map(|body| &body.calls);
        let is_main_called = main.is_some_and(|main| {
            callees.any(|site| site.callees.contains(&main)) || targets.taken().contains(&main)
        });
        Self {
            numbers,
            is_main_called,
            called_by_anyone,
            called_in_any_case: early.into_iter().collect(),
            main,
            may_end_anywhere,
            bodies,
        }
    }

    /// The body of a function, if its code is in the program.
    pub fn body(&self, id: FunctionId) -> Option<Body> {
        self.numbers.get(&id).copied()
    }

    /// Whether an activation may end anywhere, not only at calls.
    pub fn may_end_anywhere(&self) -> bool {
        self.may_end_anywhere
    }

    /// Says that activations may end anywhere: another module may see to that.
    pub fn set_may_end_anywhere(&mut self) {
        self.may_end_anywhere = true;
    }

    /// The functions whose code is in the program.
    pub fn functions(&self) -> impl Iterator<Item = (Body, FunctionId)> + '_ {
        self.bodies.iter().map(|(body, data)| (body, data.id))
    }

    /// How many calls are to one function that is known.
    pub fn direct_calls(&self) -> u64 {
        let calls = self.bodies.values().flat_map(|body| &body.calls);
        calls.filter(|site| site.is_direct()).count() as u64
    }

    /// The control-flow graph of a function.
    pub fn flow(&self, body: Body) -> &Digraph<Block> {
        &self.bodies[body].flow
    }
}

/// Data whose functions run before `main`, or that the linker gathers for such
/// purposes (`.init_array`).
const EARLY: [&str; 3] = ["llvm.global_ctors", "llvm.used", "llvm.compiler.used"];

/// Data whose functions run behind it.
const LATE: [&str; 1] = ["llvm.global_dtors"];

/// What makes functions run at any time.
const INSTALLS_HANDLERS: [&str; 9] = [
    "signal",
    "sigaction",
    "bsd_signal",
    "sysv_signal",
    "__sysv_signal",
    "sigset",
    "sigvec",
    "ssignal",
    "timer_create",
];

/// Functions that take one to call, at once or later, and which of their
/// arguments that is; whether they themselves may leave frames with what they
/// call. They call nobody else.
const TAKES_FUNCTION: [(&str, u32, bool); 18] = [
    ("atexit", 0, false),
    ("at_quick_exit", 0, false),
    ("on_exit", 0, false),
    ("__cxa_atexit", 0, false),
    ("__cxa_thread_atexit", 0, false),
    ("signal", 1, false),
    ("bsd_signal", 1, false),
    ("sysv_signal", 1, false),
    ("__sysv_signal", 1, false),
    ("ssignal", 1, false),
    ("pthread_create", 2, false),
    ("thrd_create", 1, false),
    ("pthread_key_create", 1, false),
    ("pthread_once", 1, true),
    ("call_once", 1, true),
    ("qsort", 3, true),
    ("qsort_r", 3, true),
    ("bsearch", 4, true),
];

struct Maker<'a, 'u> {
    program: &'a Program<'u>,
    targets: &'a CallTargets<'a, 'u>,
    has_native: bool,
    /// The names that another module may define as well, and be asked first.
    replaceable: BTreeSet<&'a str>,
    /// Whether a process may go on behind a call that ends its child.
    vforks: bool,
    /// Who indirect calls with so many arguments may reach.
    classes: BTreeMap<Option<u32>, Arc<[Body]>>,
    taken: Vec<Body>,
}

/// A function that is being looked through.
struct Within<'a> {
    object: Object,
    unit: &'a Unit,
    function: &'a Function,
}

impl<'u> Maker<'_, 'u> {
    fn unit(&self, object: Object) -> &'u Unit {
        self.program.unit(object).expect("bodies are of units")
    }

    /// The functions that are seen by others under one of these names.
    fn named(&self, names: &BTreeSet<&str>) -> BTreeSet<Body> {
        let mut found = BTreeSet::new();
        for (object, unit) in self.program.units() {
            for (symbol, data) in unit.symbols.iter() {
                let is_seen = data.linkage != Linkage::Internal && names.contains(&*data.name);
                if is_seen {
                    found.extend(self.targets.body_of_symbol(object, symbol));
                }
            }
        }
        found
    }

    /// The functions that data of these names mentions, or that is mentioned by
    /// it; and what chooses functions while the program is loaded.
    fn listed(&self, names: &[&str]) -> BTreeSet<Body> {
        let mut found = BTreeSet::new();
        for (object, unit) in self.program.units() {
            let lists = unit.symbols.values().filter(|data| names.contains(&&*data.name));
            for list in lists {
                let SymbolKind::Data { refers_to, .. } = &list.kind else { continue };
                for &symbol in refers_to {
                    match &unit.symbols[symbol].kind {
                        SymbolKind::Data { refers_to, .. } => found.extend(
                            refers_to
                                .iter()
                                .filter_map(|&it| self.targets.body_of_symbol(object, it)),
                        ),
                        _ => found.extend(self.targets.body_of_symbol(object, symbol)),
                    }
                }
            }
        }
        found
    }

    fn early(&self) -> BTreeSet<Body> {
        let mut found = self.listed(&EARLY);
        for (object, unit) in self.program.units() {
            for data in unit.symbols.values() {
                if let SymbolKind::IFunc { resolver: Some(resolver) } = data.kind {
                    found.extend(self.targets.body_of_symbol(object, resolver));
                }
            }
        }
        found
    }

    /// The names of what is called or mentioned and not seen.
    fn names_of_callees(&self) -> BTreeSet<&'u str> {
        let mut names = BTreeSet::new();
        for (_, unit) in self.program.units() {
            let external = unit.symbols.values();
            let external =
                external.filter(|data| matches!(data.kind, SymbolKind::ExternalFunction(_)));
            names.extend(external.map(|data| &*data.name));
        }
        names
    }

    fn body(&mut self, body: Body, ids: &BTreeMap<Object, [u8; 16]>) -> BodyCode {
        let (object, func) = self.targets.bodies()[body];
        let function = self.targets.function(body);
        let within = Within { object, unit: self.unit(object), function };
        let mut calls = Vec::new();
        let mut calls_of = Vec::new();
        let mut exits = Vec::new();
        let mut twice = Vec::new();
        for (block, data) in function.blocks.iter() {
            let first = calls.len() as u32;
            for inst in data.insts() {
                let op = &function.insts[inst].op;
                let Some(call) = op.call() else { continue };
                let traits = traits_of(within.unit, call);
                if traits.returns_twice && twice.last() != Some(&block) {
                    twice.push(block);
                }
                calls.extend(self.call(&within, block, inst, call, traits));
            }
            calls_of.push((first, calls.len() as u32));
            exits.push(match &function.insts[data.terminator()].op {
                Op::Return => Exit::Return,
                Op::Unreachable => Exit::Never,
                // Of assembly and intrinsics nothing is known but this.
                Op::Invoke(call) if !matches!(call.callee, Callee::Asm | Callee::Intrinsic(_)) => {
                    Exit::Invoke(data.successors[0], data.successors[1])
                }
                _ if data.successors.is_empty() => Exit::Leave,
                _ => Exit::Flow,
            });
        }
        let id = (ids.get(&object).copied().unwrap_or_default(), func);
        BodyCode { id, flow: function.control_flow(), calls, calls_of, exits, twice }
    }

    fn call(
        &mut self,
        within: &Within<'_>,
        block: Block,
        inst: Inst,
        call: &CallData,
        traits: Traits,
    ) -> Option<CallSite> {
        let target = self.targets.target(within.object, within.function, inst, call);
        let (callees, unseen): (Arc<[Body]>, _) = match target {
            Target::Inline => return None,
            Target::Body(body) => {
                let (object, func) = self.targets.bodies()[body];
                let unit = self.unit(object);
                let symbol = &unit.symbols[unit.functions[func].symbol];
                let is_weak = matches!(symbol.linkage, Linkage::Weak | Linkage::WeakOdr);
                let is_shared =
                    symbol.linkage != Linkage::Internal && self.replaceable.contains(&*symbol.name);
                let overridden = (self.has_native && is_weak) || is_shared;
                (Arc::new([body]), overridden.then(|| self.unknown()))
            }
            Target::Taken { arguments } => (self.class(arguments), Some(self.unknown())),
            Target::Unseen(symbol) => {
                let name = &within.unit.symbols[symbol].name;
                (Arc::new([]), Some(self.unseen(within, inst, name, traits)))
            }
        };
        let by_name = match (&*callees, &call.callee) {
            ([], Callee::Direct(symbol)) => {
                Behaviour::of(&within.unit.symbols[*symbol].name, traits).returns
            }
            _ => true,
        };
        Some(CallSite {
            inst,
            block,
            callees,
            unseen,
            returns: by_name && !traits.no_return,
            tail: call.tail != Tail::No && is_before_return(within.function, inst),
        })
    }

    fn unknown(&self) -> Unseen {
        Unseen { calls: UnseenCalls::Anyone, leaves: true }
    }

    fn class(&mut self, arguments: Option<u32>) -> Arc<[Body]> {
        let (targets, taken) = (self.targets, &self.taken);
        let fits = |&body: &Body| {
            let function = targets.function(body);
            let same = |arguments| function.parameters == arguments || function.traits.variadic;
            arguments.is_none_or(same)
        };
        let find = || taken.iter().copied().filter(fits).collect();
        self.classes.entry(arguments).or_insert_with(find).clone()
    }

    fn unseen(&self, within: &Within<'_>, inst: Inst, name: &str, traits: Traits) -> Unseen {
        if let Some(&(_, place, leaves)) = TAKES_FUNCTION.iter().find(|(it, ..)| *it == name) {
            return Unseen { calls: self.passed(within, inst, place), leaves };
        }
        if INSTALLS_HANDLERS.contains(&name) {
            return Unseen { calls: UnseenCalls::Anyone, leaves: false };
        }
        let behaviour = Behaviour::of(name, traits);
        let calls = match behaviour.calls_back {
            CallsBack::Nobody => UnseenCalls::Nobody,
            CallsBack::Arguments | CallsBack::Anyone => UnseenCalls::Anyone,
        };
        // What ends the process ends no activation: all of them are live then.
        Unseen { calls, leaves: behaviour.leaves || (behaviour.ends && self.vforks) }
    }

    /// The function that a call passes as this argument.
    fn passed(&self, within: &Within<'_>, inst: Inst, place: u32) -> UnseenCalls {
        let operands = within.function.operands_of(&within.function.insts[inst]);
        match operands.get(place as usize) {
            Some(Value::Symbol(symbol, 0)) => {
                match self.targets.body_of_symbol(within.object, *symbol) {
                    Some(body) => UnseenCalls::These(vec![body]),
                    // Another unseen function, of which nothing is known.
                    None => UnseenCalls::Anyone,
                }
            }
            Some(Value::Int(_) | Value::Opaque) => UnseenCalls::Nobody,
            _ => UnseenCalls::Anyone,
        }
    }
}

/// Whether nothing but a return follows an instruction.
fn is_before_return(function: &Function, inst: Inst) -> bool {
    let next = function.insts.get(Inst::new(inst.position() + 1));
    next.is_some_and(|next| matches!(next.op, Op::Return))
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
