//! Running LLVM's own passes.

use std::cell::OnceCell;
use std::ffi::{CStr, CString};

use crate::context::check_errors;
use crate::error::one_line;
use crate::{Error, Function, Module, Opcode, TargetMachine};

impl Module<'_> {
    /// Runs `passes`, named as `opt -passes=` takes them. Passes leave alone
    /// what is marked `optnone`.
    pub fn run_passes(&mut self, passes: &'static str) -> Result<(), Error> {
        self.run_passes_for(passes, None)
    }

    /// As [`Self::run_passes`], for a target.
    fn run_passes_for(
        &mut self,
        passes: &'static str,
        machine: Option<&TargetMachine<'_>>,
    ) -> Result<(), Error> {
        let functions = self.functions_table();
        let name = CString::new(passes).expect("names of passes hold no zero");
        let failed = |why: String| Error::Passes { passes, why };
        let machine = machine.map(|it| it.raw);
        // SAFETY: the module is alive, and handles of it borrow it and cannot
        // be there; without a target machine the passes run for any target. The
        // options are ours, and so is the message, which is freed once.
        unsafe {
            let options = (functions.LLVMCreatePassBuilderOptions)();
            let error = (functions.LLVMRunPasses)(self.raw, name.as_ptr(), machine, options);
            (functions.LLVMDisposePassBuilderOptions)(options);
            if let Some(error) = error {
                let message = (functions.LLVMGetErrorMessage)(error);
                let why = one_line(&CStr::from_ptr(message).to_string_lossy());
                (functions.LLVMDisposeErrorMessage)(message);
                return Err(failed(why));
            }
        }
        check_errors(self.context, failed)
    }

    /// The functions, by position among all, that code generation for `machine`
    /// would protect from overflowing buffers of their frames.
    pub fn protected_functions(&self, machine: &TargetMachine<'_>) -> Result<Vec<usize>, Error> {
        // SAFETY: the module is alive; the copy is ours, and dropped once.
        let raw = unsafe { (self.functions_table().LLVMCloneModule)(self.raw) };
        let mut copy = Module { raw, context: self.context, comdat_names: OnceCell::new() };
        // Passes leave those alone; code generation protects them as well.
        let unoptimised = self.context.attribute("optnone");
        for function in copy.functions() {
            unoptimised.into_iter().for_each(|it| function.remove(it));
        }
        copy.run_passes_for("function(stack-protector)", Some(machine))?;
        // The pass has the frame's guard set up by this.
        let sets_guard = |function: Function<'_>| {
            let instructions = function.blocks().flat_map(|block| block.instructions());
            let mut calls = instructions.filter(|it| it.opcode() == Opcode::CALL);
            calls.any(|it| {
                let callee = it.as_call().and_then(|call| call.callee().as_global());
                callee.is_some_and(|callee| callee.name().starts_with("llvm.stackprotector"))
            })
        };
        let all = copy.functions().enumerate();
        Ok(all.filter(|(_, it)| sets_guard(*it)).map(|(position, _)| position).collect())
    }
}
