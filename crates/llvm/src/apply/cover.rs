//! Coverage: see [`backtrail_abi::cover`].
//!
//! A byte is set by one instruction. It is assembly that declares to touch memory
//! for the reason given in [`super::record`]: whether it was carried out must
//! agree with how far the program came.

use backtrail_abi::cover::UNIT_SYMBOL_PREFIX;
use backtrail_llvm_ffi::{Builder, Function, Global, Instruction, Module};
use backtrail_plan::UnitPlan;

use super::{check_name, mark};
use crate::Error;

/// The bytes of a unit.
pub struct Covered<'m> {
    module: &'m Module<'m>,
    builder: Builder<'m>,
    bytes: Option<Global<'m>>,
}

impl<'m> Covered<'m> {
    /// Declares the bytes, if `plan` has some.
    pub fn new(module: &'m Module<'m>, plan: &UnitPlan) -> Result<Self, Error> {
        let mut bytes = None;
        if plan.covered > 0 {
            let name = format!("{UNIT_SYMBOL_PREFIX}{}", UnitPlan::suffix(plan.unit, plan.variant));
            check_name(module, &name)?;
            let content = module.array_type(module.int_type(8), plan.covered.into());
            bytes = Some(module.declare_hidden(&name, content, 0)?);
        }
        Ok(Self { module, builder: Builder::new(module), bytes })
    }

    /// Sets a byte before an instruction of `function`.
    pub fn insert(&self, function: Function<'m>, before: Instruction<'m>, byte: u32) {
        let bytes = self.bytes.expect("it was checked that the plan has this byte");
        self.builder.go_before(before);
        let (content, number) = (self.module.int_type(8), self.module.const_int(64, byte.into()));
        let place = self.builder.element(content, *bytes, number);
        mark(function, self.builder.assembly_on(&[(place, content)], None, "movb $$1, $0"));
    }
}
