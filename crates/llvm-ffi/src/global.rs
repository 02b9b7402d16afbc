//! Globals: what has a symbol.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::CStr;
use std::ops::Deref;

use crate::message::{c_string, text_at};
use crate::table::{ComdatRef, ValueRef};
use crate::{Error, Module, Type, Value, ValueKind};

/// How the linker treats a global.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage {
    /// Visible outside.
    External,
    /// A body for the optimiser only.
    AvailableExternally,
    /// Weak, dropped when unused.
    LinkOnceAny,
    /// Weak, dropped when unused, all copies equal.
    LinkOnceOdr,
    /// Weak.
    WeakAny,
    /// Weak, all copies equal.
    WeakOdr,
    /// Arrays that are concatenated.
    Appending,
    /// Of this module.
    Internal,
    /// Of this module, without a symbol.
    Private,
    /// A reference that may stay unresolved.
    ExternalWeak,
    /// A tentative definition.
    Common,
}

/// Who can see a global.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// Everyone.
    Default,
    /// The executable or shared library.
    Hidden,
    /// Everyone, but it is not overridden.
    Protected,
}

/// A group of globals of which the linker keeps one copy.
#[derive(Clone, Copy)]
pub struct Comdat<'m> {
    raw: ComdatRef,
    module: &'m Module<'m>,
}

/// A function, variable, alias or ifunc.
#[derive(Clone, Copy)]
pub struct Global<'m> {
    value: Value<'m>,
}

impl<'m> Deref for Global<'m> {
    type Target = Value<'m>;
    fn deref(&self) -> &Value<'m> {
        &self.value
    }
}

impl<'m> Global<'m> {
    /// `raw` must be an `llvm::GlobalValue`.
    pub(crate) fn new(raw: ValueRef, module: &'m Module<'m>) -> Self {
        Self { value: Value::new(raw, module) }
    }

    /// Whether it has no definition in this module.
    pub fn is_declaration(self) -> bool {
        // SAFETY: the value is a global.
        unsafe { (self.module.functions_table().LLVMIsDeclaration)(self.raw) != 0 }
    }

    /// How the linker treats it.
    pub fn linkage(self) -> Linkage {
        // SAFETY: the value is a global.
        match unsafe { (self.module.functions_table().LLVMGetLinkage)(self.raw) } {
            1 => Linkage::AvailableExternally,
            2 => Linkage::LinkOnceAny,
            3 | 4 => Linkage::LinkOnceOdr,
            5 => Linkage::WeakAny,
            6 => Linkage::WeakOdr,
            7 => Linkage::Appending,
            8 => Linkage::Internal,
            9 | 15 | 16 => Linkage::Private,
            12 => Linkage::ExternalWeak,
            14 => Linkage::Common,
            _ => Linkage::External,
        }
    }

    /// Makes it known to this module only.
    pub fn set_internal(self) {
        const INTERNAL: u32 = 8;
        // SAFETY: the value is a global.
        unsafe { (self.module.functions_table().LLVMSetLinkage)(self.raw, INTERNAL) }
    }

    /// Who can see it.
    pub fn visibility(self) -> Visibility {
        // SAFETY: the value is a global.
        match unsafe { (self.module.functions_table().LLVMGetVisibility)(self.raw) } {
            1 => Visibility::Hidden,
            2 => Visibility::Protected,
            _ => Visibility::Default,
        }
    }

    /// Whether only its content matters, not its address (`unnamed_addr`).
    pub fn has_insignificant_address(self) -> bool {
        const GLOBAL_UNNAMED: u32 = 2;
        // SAFETY: the value is a global.
        let unnamed = unsafe { (self.module.functions_table().LLVMGetUnnamedAddress)(self.raw) };
        unnamed == GLOBAL_UNNAMED
    }

    /// The type of what its address points to.
    pub fn content(self) -> Type<'m> {
        // SAFETY: the value is a global.
        let raw = unsafe { (self.module.functions_table().LLVMGlobalGetValueType)(self.raw) };
        Type::new(raw, self.module)
    }

    /// The section it is put in, if it says so.
    pub fn section(self) -> Option<Cow<'m, str>> {
        // SAFETY: the value is a global; the string, if any, ends with a zero
        // and lives as long as the context.
        let section = unsafe {
            let section = (self.module.functions_table().LLVMGetSection)(self.raw);
            if section.is_null() {
                return None;
            }
            CStr::from_ptr(section)
        };
        Some(section.to_string_lossy()).filter(|it| !it.is_empty())
    }

    /// Puts it in a section. Only for functions and variables.
    pub fn set_section(self, section: &str) -> Result<(), Error> {
        self.check_object();
        let section = c_string(section)?;
        // SAFETY: the value is a function or a variable.
        unsafe { (self.module.functions_table().LLVMSetSection)(self.raw, section.as_ptr()) };
        Ok(())
    }

    /// Aligns it to `bytes`, a power of two. Only for functions and variables.
    pub fn set_alignment(self, bytes: u32) {
        self.check_object();
        assert!(bytes.is_power_of_two(), "an alignment is a power of two");
        // SAFETY: the value is a function or a variable.
        unsafe { (self.module.functions_table().LLVMSetAlignment)(self.raw, bytes) }
    }

    /// Its group, if it has one.
    pub fn comdat(self) -> Option<Comdat<'m>> {
        // SAFETY: the value is a global; LLVM returns null for those that
        // cannot have a group.
        unsafe {
            if !matches!(self.kind(), ValueKind::Function | ValueKind::Variable) {
                return None;
            }
            (self.module.functions_table().LLVMGetComdat)(self.raw)
        }
        .map(|raw| Comdat { raw, module: self.module })
    }

    /// Puts it in a group. Only for functions and variables.
    pub fn set_comdat(self, comdat: Comdat<'_>) {
        self.check_object();
        assert!(self.module.is_same(comdat.module), "groups of two modules must not be mixed");
        // SAFETY: the value is a function or a variable of the group's module.
        unsafe { (self.module.functions_table().LLVMSetComdat)(self.raw, Some(comdat.raw)) }
    }

    /// What a variable holds at first, if this module says so.
    pub fn initializer(self) -> Option<Value<'m>> {
        if self.kind() != ValueKind::Variable {
            return None;
        }
        // SAFETY: the value is a variable.
        unsafe { (self.module.functions_table().LLVMGetInitializer)(self.raw) }
            .map(|raw| Value::new(raw, self.module))
    }

    /// Defines what a variable holds at first: a constant of its type.
    pub fn set_initializer(self, value: Value<'_>) {
        value.check(self.module);
        assert!(self.kind() == ValueKind::Variable, "only variables hold something at first");
        assert!(value.ty().id() == self.content().id(), "a variable holds a value of its type");
        let functions = self.module.functions_table();
        // SAFETY: the value is a variable; the other one a constant, checked
        // here, of its type.
        unsafe {
            assert!(
                (functions.LLVMIsConstant)(value.raw) != 0,
                "a variable holds a constant first"
            );
            (functions.LLVMSetInitializer)(self.raw, value.raw);
        }
    }

    /// Whether a variable is thread-local.
    pub fn is_thread_local(self) -> bool {
        // SAFETY: asked of variables only.
        self.kind() == ValueKind::Variable
            && unsafe { (self.module.functions_table().LLVMIsThreadLocal)(self.raw) != 0 }
    }

    /// Whether a variable cannot be written.
    pub fn is_constant(self) -> bool {
        // SAFETY: asked of variables only.
        self.kind() == ValueKind::Variable
            && unsafe { (self.module.functions_table().LLVMIsGlobalConstant)(self.raw) != 0 }
    }

    /// What an alias names, or who resolves an ifunc.
    pub fn target(self) -> Option<Value<'m>> {
        let functions = self.module.functions_table();
        // SAFETY: the kind fits the function.
        let raw = unsafe {
            match self.kind() {
                ValueKind::Alias => (functions.LLVMAliasGetAliasee)(self.raw),
                ValueKind::IFunc => (functions.LLVMGetGlobalIFuncResolver)(self.raw),
                _ => None,
            }
        };
        raw.map(|raw| Value::new(raw, self.module))
    }

    fn check_object(self) {
        assert!(
            matches!(self.kind(), ValueKind::Function | ValueKind::Variable),
            "only functions and variables have sections, alignments and groups"
        );
    }
}

impl<'m> Comdat<'m> {
    /// A number that is the same for the same group of one module.
    pub fn id(self) -> usize {
        self.raw.as_ptr() as usize
    }

    /// Whether the linker keeps one of all groups of this name. Otherwise it
    /// keeps all of them, and the group only holds sections together.
    pub fn is_unique(self) -> bool {
        const NO_DEDUPLICATE: u32 = 3; // LLVMNoDeduplicateComdatSelectionKind
        // SAFETY: the group is alive.
        let kind = unsafe { (self.module.functions_table().LLVMGetComdatSelectionKind)(self.raw) };
        kind != NO_DEDUPLICATE
    }

    /// Its name.
    ///
    /// The C API cannot tell it. Where the library does not export the C++
    /// function that can, the names are taken from the module's text.
    pub fn name(self) -> String {
        if let Some(name) = self.module.context.llvm().extras.comdat_name {
            // SAFETY: the group is alive; so is its name, as long as it is.
            let text = unsafe {
                let name = name(self.raw);
                text_at(name.data.cast(), name.length)
            };
            return String::from_utf8_lossy(text).into_owned();
        }
        let names = self.module.comdat_names.get_or_init(|| self.module.comdat_names_in_text());
        names.get(&self.id()).cloned().unwrap_or_default()
    }
}

impl Module<'_> {
    /// The group of this name, made if it is not there.
    pub fn comdat(&self, name: &str) -> Result<Comdat<'_>, Error> {
        let name = c_string(name)?;
        // SAFETY: the module is alive, the name ends with a zero.
        let raw =
            unsafe { (self.functions_table().LLVMGetOrInsertComdat)(self.raw, name.as_ptr()) };
        Ok(Comdat { raw, module: self })
    }

    fn comdat_names_in_text(&self) -> HashMap<usize, String> {
        let text = self.to_text();
        let named = |name: String| self.comdat(&name).ok().map(|it| (it.id(), name));
        text.lines().filter_map(comdat_of_line).filter_map(named).collect()
    }
}

/// The name in a line `$name = comdat any` of LLVM's text form.
fn comdat_of_line(line: &str) -> Option<String> {
    let (name, rest) = line.strip_prefix('$')?.split_once(" = ")?;
    if !rest.starts_with("comdat ") {
        return None;
    }
    let Some(quoted) = name.strip_prefix('"').and_then(|it| it.strip_suffix('"')) else {
        return Some(name.to_owned());
    };
    let mut bytes = Vec::with_capacity(quoted.len());
    let mut rest = quoted.as_bytes();
    while let [first, tail @ ..] = rest {
        let escape = match tail {
            [high, low, ..] if *first == b'\\' => std::str::from_utf8(&[*high, *low])
                .ok()
                .and_then(|it| u8::from_str_radix(it, 16).ok()),
            _ => None,
        };
        bytes.push(escape.unwrap_or(*first));
        rest = if escape.is_some() { &tail[2..] } else { tail };
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::comdat_of_line;

    #[test]
    fn comdat_names_are_read_from_text() {
        assert_eq!(comdat_of_line("$f = comdat any").as_deref(), Some("f"));
        assert_eq!(comdat_of_line("$\"a b\\22\" = comdat largest").as_deref(), Some("a b\""));
        assert_eq!(comdat_of_line("@f = global i32 0, comdat"), None);
        assert_eq!(comdat_of_line("$f = other"), None);
    }
}
