//! Running LLVM's own passes.

use std::ffi::{CStr, CString};

use crate::context::check_errors;
use crate::error::one_line;
use crate::{Error, Module};

impl Module<'_> {
    /// Runs `passes`, named as `opt -passes=` takes them. Passes leave alone
    /// what is marked `optnone`.
    pub fn run_passes(&mut self, passes: &'static str) -> Result<(), Error> {
        let functions = self.functions_table();
        let name = CString::new(passes).expect("names of passes hold no zero");
        let failed = |why: String| Error::Passes { passes, why };
        // SAFETY: the module is alive, and handles of it borrow it and cannot
        // be there; without a target machine the passes run for any target. The
        // options are ours, and so is the message, which is freed once.
        unsafe {
            let options = (functions.LLVMCreatePassBuilderOptions)();
            let error = (functions.LLVMRunPasses)(self.raw, name.as_ptr(), None, options);
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
}
