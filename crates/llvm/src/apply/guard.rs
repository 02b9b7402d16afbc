//! Stack protection as it was.
//!
//! `-fstack-protector-strong` guards a frame by what is in it, and a record, an
//! array that assembly knows the address of, would have every frame guarded. So
//! it is decided before there are records: a function that is guarded will be,
//! whatever is in its frame, and one that is not, not.

use backtrail_llvm_ffi::{CodeModel, Module, OptLevel, RelocModel, TargetMachine, TargetOptions};

use crate::Error;

/// Fixes which of the functions at the positions `functions` are guarded.
pub fn decide(module: &Module<'_>, functions: &[usize]) -> Result<(), Error> {
    let [some, strong, all] =
        ["ssp", "sspstrong", "sspreq"].map(|name| module.context().attribute(name));
    let all_functions: Vec<_> = module.functions().collect();
    let depends = |position: &usize| {
        let function = all_functions[*position];
        [some, strong].into_iter().flatten().any(|it| function.has(it))
    };
    let open: Vec<usize> = functions.iter().copied().filter(depends).collect();
    if open.is_empty() {
        return Ok(());
    }
    let options = TargetOptions {
        cpu: String::new(),
        features: String::new(),
        opt_level: OptLevel::Default,
        reloc_model: RelocModel::Default,
        code_model: CodeModel::Default,
    };
    let machine = TargetMachine::new(module.context(), &module.triple(), &options)?;
    let guarded = module.protected_functions(&machine)?;
    for position in open {
        let function = all_functions[position];
        [some, strong].into_iter().flatten().for_each(|it| function.remove(it));
        if guarded.binary_search(&position).is_ok() {
            all.into_iter().for_each(|it| function.add(it));
        }
    }
    Ok(())
}
