//! The block log.
//!
//! A unit gets one [`Descriptor`](backtrail_abi::log::Descriptor), and each
//! logged block a call of [`LOG_FUNCTION`] with it, as early as LLVM allows:
//! behind phis and landing pads and, in the entry block, behind the allocas that
//! stand at its start, which thereby stay at the start of the frame.

use backtrail_abi::log::{DEPTH_VARIABLE, LAND_FUNCTION, LOG_FUNCTION};
use backtrail_llvm_ffi::{Builder, Function, Global, Instruction, Module, Type, Value};
use backtrail_plan::{Action, UnitPlan};

use super::{check_name, mark};
use crate::Error;

/// The name of a unit's descriptor.
const DESCRIPTOR: &str = "__backtrail_descriptor";

/// What calls of the log function have in common, if there are any.
pub struct LogCalls<'m>(Option<Calls<'m>>);

struct Calls<'m> {
    module: &'m Module<'m>,
    builder: Builder<'m>,
    function: Function<'m>,
    land: Option<Function<'m>>,
    descriptor: Global<'m>,
}

impl<'m> LogCalls<'m> {
    /// Adds what the calls need, if `plan` has such probes.
    pub fn new(module: &'m Module<'m>, plan: &UnitPlan) -> Result<Self, Error> {
        let mut probes = plan.functions.iter().flat_map(|it| &it.probes);
        if !probes.any(|it| matches!(it.action, Action::Log { .. } | Action::Land { .. })) {
            return Ok(Self(None));
        }
        let declare = |name: &str, signature: Type<'m>| -> Result<Function<'m>, Error> {
            check_name(module, name)?;
            let function = match module.function(name) {
                Some(function) => function,
                None => module.add_function(name, signature)?,
            };
            module.context().attribute("nounwind").into_iter().for_each(|it| function.add(it));
            Ok(function)
        };
        let function = declare(LOG_FUNCTION, signature(module))?;
        let mut probes = plan.functions.iter().flat_map(|it| &it.probes);
        let land = match probes.any(|it| matches!(it.action, Action::Land { .. })) {
            true => Some(declare(LAND_FUNCTION, land_signature(module))?),
            false => None,
        };
        // Laid out as `backtrail_abi::log::Descriptor`.
        let content = module.const_struct(&[
            module.const_bytes(&plan.unit),
            module.const_int(32, plan.events.unwrap_or(plan.blocks).into()),
            module.const_int(32, 0),
        ]);
        let descriptor = module.add_variable(DESCRIPTOR, content.ty())?;
        descriptor.set_initializer(content);
        descriptor.set_internal();
        descriptor.set_alignment(align_of::<backtrail_abi::log::Descriptor>() as u32);
        Ok(Self(Some(Calls { module, builder: Builder::new(module), function, land, descriptor })))
    }

    /// Inserts a call that logs block `number`.
    pub fn insert(&self, function: Function<'m>, before: Instruction<'m>, number: u32) {
        let calls = self.0.as_ref().expect("the plan was searched for such probes");
        let arguments = [*calls.descriptor, calls.module.const_int(32, number.into())];
        let signature = signature(calls.module);
        let call = calls.builder.call_before(before, calls.function, signature, &arguments);
        mark(function, call);
    }

    /// Inserts a call that logs where a frame resumes, which remembers its depth
    /// at `depth`.
    pub fn land(
        &self,
        function: Function<'m>,
        before: Instruction<'m>,
        (number, depths): (u32, u32),
        depth: Value<'m>,
    ) {
        let calls = self.0.as_ref().expect("the plan was searched for such probes");
        let land = calls.land.expect("the plan was searched for such probes");
        let module = calls.module;
        calls.builder.go_before(before);
        let depth = calls.builder.load(module.int_type(64), depth);
        let numbers = [number, depths].map(|it| module.const_int(32, it.into()));
        let arguments = [*calls.descriptor, numbers[0], numbers[1], depth];
        let call = calls.builder.call_before(before, land, land_signature(module), &arguments);
        mark(function, call);
    }
}

/// The count of frames that may be come back to: see [`backtrail_plan::Action`].
/// It is changed by assembly, which needs no declaration of the variable.
pub struct Depths<'m> {
    module: &'m Module<'m>,
    builder: Builder<'m>,
}

impl<'m> Depths<'m> {
    /// For functions of `module`.
    pub fn new(module: &'m Module<'m>) -> Self {
        Self { module, builder: Builder::new(module) }
    }

    /// Where a function's frame remembers its depth.
    pub fn place(&self, function: Function<'m>) -> Value<'m> {
        let entry = function.blocks().next().expect("a probed function has a body");
        let first = entry.instructions().next().expect("a block is not empty");
        self.builder.go_before(first);
        self.builder.aligned_alloca(self.word(), 8)
    }

    /// One more frame, which remembers at `place` how many there are.
    pub fn deepen(&self, function: Function<'m>, before: Instruction<'m>, place: Value<'m>) {
        self.builder.go_before(before);
        let text = format!(
            "movq {DEPTH_VARIABLE}@gottpoff(%rip), $0\n\t\
             incq %fs:($0)\n\t\
             movq %fs:($0), $0\n\t\
             movq $0, $1"
        );
        let memory = [(place, self.word())];
        mark(function, self.builder.assembly_on(&memory, Some(self.word()), &text));
    }

    /// One frame less.
    pub fn surface(&self, function: Function<'m>, before: Instruction<'m>) {
        self.builder.go_before(before);
        let text = format!("movq {DEPTH_VARIABLE}@gottpoff(%rip), $0\n\tdecq %fs:($0)");
        mark(function, self.builder.assembly_on(&[], Some(self.word()), &text));
    }

    fn word(&self) -> Type<'m> {
        self.module.int_type(64)
    }
}

fn land_signature<'m>(module: &'m Module<'m>) -> Type<'m> {
    let number = module.int_type(32);
    let arguments = [module.pointer_type(), number, number, module.int_type(64)];
    module.function_type(module.void_type(), &arguments)
}

fn signature<'m>(module: &'m Module<'m>) -> Type<'m> {
    module.function_type(module.void_type(), &[module.pointer_type(), module.int_type(32)])
}
