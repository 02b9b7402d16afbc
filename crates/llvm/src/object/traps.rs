//! A trap where control must not come.
//!
//! rustc asks LLVM to compile `unreachable` to a trap instruction, except right
//! behind a call that does not return (`TrapUnreachable` and
//! `NoTrapAfterNoreturn` of LLVM's target options). A program that comes there
//! all the same is to end as the original does.
//!
//! The default of a `switch` gets none if it is nothing but `unreachable`: LLVM
//! takes that as a promise and looks a case up in a table without checking its
//! bounds first, trap or no trap.

use std::collections::BTreeSet;

use backtrail_llvm_ffi::{Attribute, Builder, Function, Instruction, Module, Opcode, Value};

use crate::Error;

/// Inserts a trap before each `unreachable` that rustc would compile to one.
pub fn insert(module: &Module<'_>) -> Result<(), Error> {
    let no_return = module.context().attribute("noreturn");
    let places: Vec<_> = module
        .functions()
        .flat_map(|function| {
            let promised = only_defaults(function);
            function.blocks().map(move |block| (block, promised.contains(&block.id())))
        })
        .filter_map(|(block, promised)| {
            let (mut last, mut before) = (None, None);
            for instruction in block.instructions() {
                before = last.replace(instruction);
            }
            let is_bare = match before {
                Some(before) => !never_returns(before, no_return),
                None => !promised,
            };
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

/// The blocks, by id, that are reached as the default of a `switch` and in no
/// other way.
fn only_defaults(function: Function<'_>) -> BTreeSet<usize> {
    let (mut defaults, mut others) = (BTreeSet::new(), BTreeSet::new());
    for block in function.blocks() {
        let Some(last) = block.instructions().last() else { continue };
        let mut successors = last.successors().map(|it| it.id());
        if last.opcode() == Opcode::SWITCH {
            defaults.extend(successors.next());
        }
        others.extend(successors);
    }
    defaults.difference(&others).copied().collect()
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
