//! Constructors and destructors as arrays that the C library runs.
//!
//! `llvm.global_ctors` and `llvm.global_dtors` are arrays of
//! `{ i32 priority, ptr function, ptr data }`. Each entry becomes a pointer in
//! `.init_array.PRIORITY` or `.fini_array.PRIORITY`, without the number for the
//! default priority, as LLVM's own ELF lowering names them; where `data` is in a
//! COMDAT group, the pointer joins it, so that it goes when `data` goes.

use backtrail_llvm_ffi::{Module, Value};

use crate::Error;

const DEFAULT_PRIORITY: i64 = 65535;

/// Replaces both lists, where they are.
pub fn place(module: &mut Module<'_>) -> Result<(), Error> {
    for (list, section) in
        [("llvm.global_ctors", ".init_array"), ("llvm.global_dtors", ".fini_array")]
    {
        if place_list(module, list, section)? && !module.delete_variable(list) {
            return Err(Error::Constructors(list.to_owned()));
        }
    }
    Ok(())
}

/// Places the entries of one list; whether it is there.
fn place_list(module: &Module<'_>, list: &str, section: &str) -> Result<bool, Error> {
    let malformed = || Error::Constructors(list.to_owned());
    let Some(variable) = module.variable(list) else { return Ok(false) };
    let Some(content) = variable.initializer() else { return Ok(true) };
    // LLVM runs entries of one priority in the order of the list.
    for entry in content.constant_operands() {
        let fields: Vec<Value<'_>> = entry.constant_operands().collect();
        let [priority, function, data] = fields.as_slice() else {
            // An entry of zeros has no fields that could be seen.
            if entry.is_zero() {
                continue;
            }
            return Err(malformed());
        };
        if function.is_zero() {
            continue;
        }
        let priority = priority.int().ok_or_else(malformed)?;
        let pointer = module.add_variable(&format!("{list}.entry"), function.ty())?;
        pointer.set_initializer(*function);
        pointer.set_internal();
        pointer.set_alignment(8);
        if priority == DEFAULT_PRIORITY {
            pointer.set_section(section)?;
        } else {
            pointer.set_section(&format!("{section}.{priority}"))?;
        }
        let group = data.as_global().and_then(|it| it.comdat());
        group.into_iter().for_each(|it| pointer.set_comdat(it));
    }
    Ok(true)
}
