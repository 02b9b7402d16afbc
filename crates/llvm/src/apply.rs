//! Applying a plan to a module.
//!
//! Everything the plan says is checked against the module first, and every
//! place is found, before anything changes. A module that is refused is as it
//! was.
//!
//! # The block log
//! A unit gets one [`Descriptor`](backtrail_abi::log::Descriptor), and each
//! logged block a call of [`LOG_FUNCTION`] with it, as early as LLVM allows:
//! behind phis and landing pads and, in the entry block, behind the allocas that
//! stand at its start, which thereby stay at the start of the frame.
//!
//! The call cannot unwind (so it needs no landing pad), has the source position
//! of the instruction it precedes, and is marked `nosanitize`. A probed function
//! is no longer what some attributes claim: `memory(…)` and `speculatable` are
//! taken from it and from calls that may reach it, so that code generation does
//! not drop or move such a call. Calls of functions defined elsewhere keep them:
//! code generation expands some library functions by them, and moves no calls.

use backtrail_abi::log::LOG_FUNCTION;
use backtrail_ir::{Func, Index};
use backtrail_llvm_ffi::{
    Attribute, Block, Builder, Function, Global, Instruction, Module, Opcode, ValueKind,
};
use backtrail_plan::{Action, FunctionPlan, Place, UnitPlan};

use crate::Error;
use crate::identity::Ids;
use crate::lower::linkage_name;

/// The name of a unit's descriptor.
const DESCRIPTOR: &str = "__backtrail_descriptor";

/// Applies `plan` to `module`. The result should be verified.
pub fn apply(module: &Module<'_>, plan: &UnitPlan) -> Result<(), Error> {
    let probes = collect(module, plan)?;
    if probes.is_empty() {
        return Ok(());
    }
    check_names(module)?;
    let log = LogCalls::new(module, plan)?;
    for probe in &probes {
        log.insert(probe);
    }
    forget_purity(module, &probes);
    Ok(())
}

/// A probe and its place in the module.
struct Located<'m> {
    function: Function<'m>,
    before: Instruction<'m>,
    number: u32,
}

/// Finds the places of all probes.
fn collect<'m>(module: &'m Module<'m>, plan: &UnitPlan) -> Result<Vec<Located<'m>>, Error> {
    let bodies: Vec<_> = module.functions().filter(|it| !it.is_declaration()).collect();
    let total = bodies.iter().map(|it| it.block_count()).sum();
    if plan.blocks != total {
        return Err(Error::OtherTotal { expected: plan.blocks, found: total });
    }
    let naked = module.context().attribute("naked");
    let mut located = Vec::new();
    for wanted in &plan.functions {
        let function = *bodies
            .get(wanted.function.position())
            .ok_or(Error::NoSuchFunction { function: wanted.function, count: bodies.len() })?;
        check(function, wanted)?;
        if !wanted.probes.is_empty() && naked.is_some_and(|it| function.has(it)) {
            return Err(Error::Naked(wanted.name.clone()));
        }
        let blocks: Vec<_> = function.blocks().collect();
        for probe in &wanted.probes {
            let Place::Block(block) = probe.at;
            let Action::Log { number } = probe.action;
            let Some(data) = blocks.get(block.position()) else {
                return Err(Error::NoSuchBlock { name: wanted.name.clone(), block });
            };
            let is_entry = block.position() == 0;
            let before = first_place(*data, is_entry)
                .ok_or_else(|| Error::NoPlace { name: wanted.name.clone(), block })?;
            located.push(Located { function, before, number });
        }
    }
    Ok(located)
}

/// Checks that a function is the one the plan was made for.
fn check(function: Function<'_>, wanted: &FunctionPlan) -> Result<(), Error> {
    let found = linkage_name(*function);
    if found != wanted.name {
        let (function, expected): (Func, _) = (wanted.function, wanted.name.clone());
        return Err(Error::OtherName { function, expected, found });
    }
    let count = function.block_count();
    if count != wanted.blocks {
        return Err(Error::OtherBlocks { name: found, expected: wanted.blocks, found: count });
    }
    Ok(())
}

/// The instruction before which a probe of a block goes. There is none where
/// exceptions are handled in funclets: a call would have to name its funclet.
fn first_place(block: Block<'_>, is_entry: bool) -> Option<Instruction<'_>> {
    let mut at_start = is_entry;
    for instruction in block.instructions() {
        match instruction.opcode() {
            Opcode::PHI | Opcode::LANDING_PAD => {}
            Opcode::ALLOCA if at_start => {}
            Opcode::CATCH_PAD | Opcode::CLEANUP_PAD | Opcode::CATCH_SWITCH => return None,
            _ => return Some(instruction),
        }
        at_start &= instruction.opcode() == Opcode::ALLOCA;
    }
    None
}

/// A unit that defines our function would call its own.
fn check_names(module: &Module<'_>) -> Result<(), Error> {
    let is_taken = match module.function(LOG_FUNCTION) {
        Some(function) => !function.is_declaration(),
        None => {
            let mut others = module.variables().chain(module.aliases()).chain(module.ifuncs());
            others.any(|it| linkage_name(it) == LOG_FUNCTION)
        }
    };
    if is_taken { Err(Error::NameTaken(LOG_FUNCTION.to_owned())) } else { Ok(()) }
}

/// What calls of the log function have in common.
struct LogCalls<'m> {
    module: &'m Module<'m>,
    builder: Builder<'m>,
    function: Function<'m>,
    descriptor: Global<'m>,
    no_unwind: Option<Attribute>,
    strict_floats: Option<Attribute>,
}

impl<'m> LogCalls<'m> {
    fn new(module: &'m Module<'m>, plan: &UnitPlan) -> Result<Self, Error> {
        let signature = signature(module);
        let function = match module.function(LOG_FUNCTION) {
            Some(function) => function,
            None => module.add_function(LOG_FUNCTION, signature)?,
        };
        let no_unwind = module.context().attribute("nounwind");
        no_unwind.into_iter().for_each(|it| function.add(it));
        // Laid out as `backtrail_abi::log::Descriptor`.
        let content = module.const_struct(&[
            module.const_bytes(&plan.unit),
            module.const_int(32, plan.blocks.into()),
            module.const_int(32, 0),
        ]);
        let descriptor = module.add_variable(DESCRIPTOR, content.ty())?;
        descriptor.set_initializer(content);
        descriptor.set_internal();
        descriptor.set_alignment(align_of::<backtrail_abi::log::Descriptor>() as u32);
        Ok(Self {
            module,
            builder: Builder::new(module),
            function,
            descriptor,
            no_unwind,
            strict_floats: module.context().attribute("strictfp"),
        })
    }

    fn insert(&self, probe: &Located<'m>) {
        let arguments = [*self.descriptor, self.module.const_int(32, probe.number.into())];
        let signature = signature(self.module);
        let call = self.builder.call_before(probe.before, self.function, signature, &arguments);
        self.no_unwind.into_iter().for_each(|it| call.add(it));
        // Every call in a `strictfp` function has to be `strictfp`.
        let strict = self.strict_floats.filter(|it| probe.function.has(*it));
        strict.into_iter().for_each(|it| call.add(it));
        call.mark("nosanitize");
    }
}

fn signature<'m>(module: &'m Module<'m>) -> backtrail_llvm_ffi::Type<'m> {
    module.function_type(module.void_type(), &[module.pointer_type(), module.int_type(32)])
}

/// Takes the attributes that probes make untrue from probed functions and from
/// calls that may reach them.
fn forget_purity(module: &Module<'_>, probes: &[Located<'_>]) {
    let untrue: Vec<_> = ["memory", "speculatable"]
        .into_iter()
        .filter_map(|name| module.context().attribute(name))
        .collect();
    let probed: Ids = probes.iter().map(|it| it.function.id()).collect();
    for function in module.functions() {
        for attribute in &untrue {
            if probed.contains(&function.id()) && function.has(*attribute) {
                function.remove(*attribute);
            }
        }
        let instructions = function.blocks().flat_map(|block| block.instructions());
        for call in instructions.filter_map(|it| it.as_call()) {
            for attribute in &untrue {
                if call.has(*attribute) && may_reach(call.callee(), &probed) {
                    call.remove(*attribute);
                }
            }
        }
    }
}

/// Whether a call may reach a probed function of this unit.
fn may_reach(callee: backtrail_llvm_ffi::Value<'_>, probed: &Ids) -> bool {
    match callee.kind() {
        ValueKind::Function => probed.contains(&callee.id()),
        ValueKind::Asm => false,
        _ => true,
    }
}
