//! A trap where control must not come.
//!
//! rustc asks LLVM to compile `unreachable` to a trap instruction, except right
//! behind a call that does not return (`TrapUnreachable` and
//! `NoTrapAfterNoreturn` of LLVM's target options). A program that comes there
//! all the same is to end as the original does.

use backtrail_llvm_ffi::{Attribute, Builder, Function, Instruction, Module, Opcode, Value};

use crate::Error;

/// Inserts a trap before each `unreachable` that rustc would compile to one.
pub fn insert(module: &Module<'_>) -> Result<(), Error> {
    let no_return = module.context().attribute("noreturn");
    let places: Vec<_> = module
        .functions()
        .flat_map(|function| function.blocks())
        .filter_map(|block| {
            let (mut last, mut before) = (None, None);
            for instruction in block.instructions() {
                before = last.replace(instruction);
            }
            let is_bare = !before.is_some_and(|it| never_returns(it, no_return));
            last.filter(|it| it.opcode() == Opcode::UNREACHABLE && is_bare)
        })
        .collect();
    if places.is_empty() {
        return Ok(());
    }
    let signature = module.function_type(module.void_type(), &[]);
    let trap = match module.function("llvm.trap") {
        Some(trap) => trap,
        None => module.add_function("llvm.trap", signature)?,
    };
    for attribute in ["cold", "noreturn", "nounwind"] {
        module.context().attribute(attribute).into_iter().for_each(|it| trap.add(it));
    }
    let builder = Builder::new(module);
    for place in places {
        builder.call_before(place, trap, signature, &[]);
    }
    Ok(())
}

/// Whether a `call` has the attribute itself or by the function it calls.
fn never_returns(instruction: Instruction<'_>, no_return: Option<Attribute>) -> bool {
    let (Opcode::CALL, Some(call), Some(no_return)) =
        (instruction.opcode(), instruction.as_call(), no_return)
    else {
        return false;
    };
    let callee = Value::as_global(call.callee()).and_then(Function::from_global);
    call.has(no_return) || callee.is_some_and(|it| it.has(no_return))
}
