//! Inserting instructions.

use crate::table::BuilderRef;
use crate::{Call, Function, Instruction, Module, Type, Value};

/// Inserts instructions into a module.
pub struct Builder<'m> {
    raw: BuilderRef,
    module: &'m Module<'m>,
}

impl<'m> Builder<'m> {
    /// A builder for `module`.
    pub fn new(module: &'m Module<'m>) -> Self {
        let functions = module.functions_table();
        // SAFETY: the context is alive.
        let raw = unsafe { (functions.LLVMCreateBuilderInContext)(module.context.raw) };
        Self { raw, module }
    }

    /// Inserts a call of `callee`, of type `signature`, before `place`. It has
    /// the source position of `place`.
    pub fn call_before(
        &self,
        place: Instruction<'m>,
        callee: Function<'m>,
        signature: Type<'m>,
        arguments: &[Value<'m>],
    ) -> Call<'m> {
        place.check(self.module);
        callee.check(self.module);
        signature.check(self.module);
        assert!(signature.is_function(), "a function is called with a function's type");
        let functions = self.module.functions_table();
        let mut raw: Vec<_> = arguments
            .iter()
            .map(|it| {
                it.check(self.module);
                it.raw
            })
            .collect();
        // SAFETY: everything is of the builder's module, the signature is a
        // function's. That the arguments fit it is for the verifier; LLVM only
        // asserts it.
        let raw = unsafe {
            (functions.LLVMPositionBuilderBefore)(self.raw, place.raw);
            (functions.LLVMBuildCall2)(
                self.raw,
                signature.raw,
                callee.raw,
                raw.as_mut_ptr(),
                raw.len() as u32,
                c"".as_ptr(),
            )
        };
        Instruction::new(raw, self.module).as_call().expect("a call was built")
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        // SAFETY: the builder is ours and is freed once.
        unsafe { (self.module.functions_table().LLVMDisposeBuilder)(self.raw) }
    }
}
