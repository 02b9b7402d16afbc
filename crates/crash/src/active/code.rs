//! A program as the analysis of active code sees it: blocks, edges, and what may
//! happen at each call.
//!
//! Built once from units; everything that depends on a core comes later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backtrail_analysis::calls::{call_before_shared_return, is_in_tail_position, traits_of};
use backtrail_analysis::{Body, CallTargets, CalledBack, External, Externals, Target};
use backtrail_graph::{Digraph, IndexMap};
use backtrail_ir::program::{Object, Program};
use backtrail_ir::{Block, CallData, Callee, Function, Inst, Op, Traits, Unit};
use backtrail_outside::{Class, Member as _};

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
    These(BTreeSet<Body>),
    Anyone,
}

impl Code {
    /// Looks through `program`, whose units have these `ids`, in order. It is what one
    /// module consists of. Others may call what it exports, and define these names
    /// (`preemptible`) as well, and be asked first.
    pub fn new(program: &Program<'_>, ids: &[[u8; 16]], preemptible: &BTreeSet<String>) -> Self {
        let targets = CallTargets::new(program);
        let externals = Externals::new(program, &targets);
        let by_object: BTreeMap<Object, [u8; 16]> =
            program.units().zip(ids).map(|((object, _), &id)| (object, id)).collect();
        let mut maker = Maker {
            program,
            targets: &targets,
            externals: &externals,
            preemptible,
            vforks: false,
            classes: BTreeMap::new(),
            taken: Vec::new(),
        };
        let exported: BTreeSet<Body> = externals
            .named()
            .chain(targets.bodies().iter().filter_map(|(body, &(object, function))| {
                program.by_name(object, function).exported.then_some(body)
            }))
            .collect();
        let taken: BTreeSet<Body> = targets.taken().iter().chain(&exported).copied().collect();
        maker.taken = taken.into_iter().collect();
        maker.vforks = externals.rows().any(|row| row.vforks);
        let may_end_anywhere = externals.may_end_anywhere();
        let mut early = targets.before_main();
        early.extend(exported);
        early.extend(externals.by_code_generation());
        let main = targets.main();
        // The start of the program is told by its stack.
        early.retain(|body| Some(*body) != main);
        let bodies: IndexMap<Body, BodyCode> =
            targets.bodies().indices().map(|body| maker.body(body, &by_object)).collect();
        let numbers = bodies.iter().map(|(body, data)| (data.id, body)).collect();
        let hooks = Class::ALL.iter().flat_map(|&class| externals.hooks(class));
        let late = targets.after_main().into_iter().chain(hooks);
        let called_by_anyone: BTreeSet<Body> = maker.taken.iter().copied().chain(late).collect();
        let mut callees = bodies.values().flat_map(|body| &body.calls);
        let is_main_called = main.is_some_and(|main| {
            callees.any(|site| site.callees.contains(&main)) || targets.taken().contains(&main)
        });
        Self {
            numbers,
            is_main_called,
            called_by_anyone: called_by_anyone.into_iter().collect(),
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

    /// The functions that no autopsy with whole stacks would say can have run, whatever
    /// calls were made: what enters them by itself is none of the code that is known. If
    /// one of them runs, this is not what the program does.
    pub fn unreachable(&self) -> BTreeSet<FunctionId> {
        let mut reached: IndexMap<Body, bool> = self.bodies.values().map(|_| false).collect();
        let mut pending: Vec<Body> = self.called_in_any_case.clone();
        match self.main {
            Some(main) => pending.push(main),
            None => pending.extend(&self.called_by_anyone),
        }
        while let Some(body) = pending.pop() {
            if std::mem::replace(&mut reached[body], true) {
                continue;
            }
            for site in &self.bodies[body].calls {
                pending.extend(&*site.callees);
                match site.unseen.as_ref().map(|unseen| &unseen.calls) {
                    Some(UnseenCalls::Anyone) => pending.extend(&self.called_by_anyone),
                    Some(UnseenCalls::These(bodies)) => pending.extend(bodies),
                    Some(UnseenCalls::Nobody) | None => {}
                }
            }
        }
        let is_left = |(body, _): &(Body, &BodyCode)| !reached[*body];
        self.bodies.iter().filter(is_left).map(|(_, data)| data.id).collect()
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

struct Maker<'a, 'u> {
    program: &'a Program<'u>,
    targets: &'a CallTargets<'a, 'u>,
    externals: &'a Externals<'a, 'u>,
    /// The names that another module may define as well, and be asked first.
    preemptible: &'a BTreeSet<String>,
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
        let external =
            || self.externals.of_call(within.object, within.function, inst, &target, traits);
        let (callees, unseen): (Arc<[Body]>, _) = match target {
            Target::Inline => (Arc::new([]), Some(external()?)),
            Target::Body(body) => {
                let overridden = self.targets.is_preemptible(body, self.preemptible);
                (Arc::new([body]), overridden.then(|| External::unknown(traits)))
            }
            Target::Taken { arguments } => (self.class(arguments), Some(External::unknown(traits))),
            Target::Unseen(_) | Target::Native(_) => (Arc::new([]), external()),
        };
        let returns = !callees.is_empty() || unseen.as_ref().is_none_or(|it| it.returns);
        let unseen = unseen.map(|external| self.unseen(external));
        Some(CallSite {
            inst,
            block,
            callees,
            unseen,
            returns: returns && !traits.no_return,
            tail: is_in_tail_position(within.function, inst)
                || call_before_shared_return(within.function, block) == Some(inst),
        })
    }

    fn class(&mut self, arguments: Option<u32>) -> Arc<[Body]> {
        let (targets, taken) = (self.targets, &self.taken);
        let find = || taken.iter().copied().filter(|&it| targets.takes(it, arguments)).collect();
        self.classes.entry(arguments).or_insert_with(find).clone()
    }

    /// What may be called at once or at some time counts as called.
    fn unseen(&self, external: External) -> Unseen {
        let calls = match (external.calls, external.installs) {
            (CalledBack::These(now), CalledBack::These(later)) => {
                let all: BTreeSet<Body> = now.union(&later).copied().collect();
                if all.is_empty() { UnseenCalls::Nobody } else { UnseenCalls::These(all) }
            }
            _ => UnseenCalls::Anyone,
        };
        // What is called may leave. What ends the process ends no activation: all of them
        // are live then.
        let calls_back = external.returns && calls != UnseenCalls::Nobody;
        Unseen { calls, leaves: external.leaves || calls_back || (external.ends && self.vforks) }
    }
}
