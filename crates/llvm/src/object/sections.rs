//! A section of its own for each function and datum, so that the linker can
//! leave out what is not used (`-ffunction-sections`, `-fdata-sections`).
//!
//! Names follow LLVM's own: `.text.NAME` (`.text.unlikely.NAME` for cold
//! functions), `.rodata.NAME`, `.data.rel.ro.NAME` for constants that hold
//! addresses, `.data.NAME`, `.bss.NAME`, `.tdata.NAME`, `.tbss.NAME`. LLVM
//! derives a section's type and flags from such a name and from the content, so
//! name and content must agree.
//!
//! Left alone: what names its section; what is in a COMDAT group, which has a
//! section of its own anyway; strings and small constants without an address,
//! which the linker merges.

use backtrail_llvm_ffi::{Function, Global, Linkage, Module};

use crate::Error;
use crate::identity::Ids;

/// Gives each function and datum a section of its own.
pub fn separate(module: &Module<'_>) -> Result<(), Error> {
    let (hot, cold) = (module.context().attribute("hot"), module.context().attribute("cold"));
    for function in module.functions().filter(|it| is_free(**it)) {
        let has = |attribute: Option<_>| attribute.is_some_and(|it| Function::has(function, it));
        let section = match (has(hot), has(cold)) {
            (true, _) => ".text.hot",
            (_, true) => ".text.unlikely",
            _ => ".text",
        };
        function.set_section(&format!("{section}.{}", name(*function)))?;
    }
    for variable in module.variables().filter(|it| is_free(*it)) {
        if let Some(section) = section_of(variable) {
            variable.set_section(&format!("{section}.{}", name(variable)))?;
        }
    }
    Ok(())
}

fn name(global: Global<'_>) -> String {
    let name = crate::lower::linkage_name(global);
    // The assembler's name of a private symbol.
    if global.linkage() == Linkage::Private { format!(".L{name}") } else { name }
}

/// Whether a section of its own can be chosen for it.
fn is_free(global: Global<'_>) -> bool {
    let name = global.name();
    !global.is_declaration()
        && !name.is_empty()
        && !name.starts_with("llvm.")
        && global.section().is_none()
        && global.comdat().is_none()
        && !matches!(
            global.linkage(),
            Linkage::AvailableExternally | Linkage::Appending | Linkage::Common
        )
}

/// The kind of section for a variable; none if the linker may merge it.
fn section_of(variable: Global<'_>) -> Option<&'static str> {
    let content = variable.initializer()?;
    let is_zero = content.is_zero();
    if variable.is_thread_local() {
        return Some(if is_zero { ".tbss" } else { ".tdata" });
    }
    if !variable.is_constant() {
        return Some(if is_zero { ".bss" } else { ".data" });
    }
    if holds_addresses(content) {
        return Some(".data.rel.ro");
    }
    let is_mergeable = matches!(variable.content().stride(), Some(4 | 8 | 16 | 32))
        || content.bytes().is_some_and(is_c_string);
    let is_merged = is_mergeable && variable.has_insignificant_address();
    (!is_merged).then_some(".rodata")
}

/// Whether there is a zero at the end and nowhere else.
fn is_c_string(bytes: &[u8]) -> bool {
    bytes.iter().position(|byte| *byte == 0).is_some_and(|it| it + 1 == bytes.len())
}

/// Whether a constant mentions a symbol or a block.
fn holds_addresses(content: backtrail_llvm_ffi::Value<'_>) -> bool {
    let (mut seen, mut left) = (Ids::default(), vec![content]);
    while let Some(value) = left.pop() {
        if value.as_global().is_some() || value.block_address().is_some() {
            return true;
        }
        if seen.insert(value.id()) {
            left.extend(value.constant_operands());
        }
    }
    false
}
