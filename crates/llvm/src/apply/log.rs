//! The block log.
//!
//! A unit gets one [`Descriptor`](backtrail_abi::log::Descriptor), and each
//! logged block a call of [`LOG_FUNCTION`] with it, as early as LLVM allows:
//! behind phis and landing pads and, in the entry block, behind the allocas that
//! stand at its start, which thereby stay at the start of the frame.

use backtrail_abi::log::LOG_FUNCTION;
use backtrail_llvm_ffi::{Builder, Function, Global, Instruction, Module, Type};
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
    descriptor: Global<'m>,
}

impl<'m> LogCalls<'m> {
    /// Adds what the calls need, if `plan` has such probes.
    pub fn new(module: &'m Module<'m>, plan: &UnitPlan) -> Result<Self, Error> {
        let mut probes = plan.functions.iter().flat_map(|it| &it.probes);
        if !probes.any(|it| matches!(it.action, Action::Log { .. })) {
            return Ok(Self(None));
        }
        check_name(module, LOG_FUNCTION)?;
        let signature = signature(module);
        let function = match module.function(LOG_FUNCTION) {
            Some(function) => function,
            None => module.add_function(LOG_FUNCTION, signature)?,
        };
        module.context().attribute("nounwind").into_iter().for_each(|it| function.add(it));
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
        Ok(Self(Some(Calls { module, builder: Builder::new(module), function, descriptor })))
    }

    /// Inserts a call that logs block `number`.
    pub fn insert(&self, function: Function<'m>, before: Instruction<'m>, number: u32) {
        let calls = self.0.as_ref().expect("the plan was searched for such probes");
        let arguments = [*calls.descriptor, calls.module.const_int(32, number.into())];
        let signature = signature(calls.module);
        let call = calls.builder.call_before(before, calls.function, signature, &arguments);
        mark(function, call);
    }
}

fn signature<'m>(module: &'m Module<'m>) -> Type<'m> {
    module.function_type(module.void_type(), &[module.pointer_type(), module.int_type(32)])
}
