//! A module: one unit of bitcode in memory.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::ptr;

use crate::context::{check_errors, said};
use crate::message::{MemoryBuffer, Message, c_string, text_at};
use crate::table::{Functions, ModuleRef, ValueRef};
use crate::{Context, Error, Function, Global, Type};

/// One unit of bitcode in memory.
pub struct Module<'c> {
    pub(crate) raw: ModuleRef,
    pub(crate) context: &'c Context<'c>,
    /// Names of groups, where only the module's text tells them.
    pub(crate) comdat_names: OnceCell<HashMap<usize, String>>,
}

impl<'c> Module<'c> {
    /// Reads bitcode, all of it; the order of uses it holds is restored.
    pub fn parse(context: &'c Context<'c>, bitcode: &[u8], name: &str) -> Result<Self, Error> {
        let functions = context.functions();
        let name = c_string(name)?;
        let failed = |why: String| Error::Bitcode { version: context.llvm().version(), why };
        if bitcode.len() < 4 {
            return Err(failed("the file is empty or cut off".to_owned()));
        }
        let mut module = None;
        // SAFETY: the buffer borrows `bitcode`, and is gone before `bitcode`
        // is: `parseBitcodeFile`, which this calls, materialises the whole
        // module and keeps nothing of the buffer.
        let broken = unsafe {
            let raw = (functions.LLVMCreateMemoryBufferWithMemoryRange)(
                bitcode.as_ptr().cast(),
                bitcode.len(),
                name.as_ptr(),
                0,
            );
            let buffer = MemoryBuffer { raw, functions };
            (functions.LLVMParseBitcodeInContext2)(context.raw, buffer.raw, &mut module)
        };
        match module {
            Some(raw) if broken == 0 => {
                let module = Self { raw, context, comdat_names: OnceCell::new() };
                check_errors(context, failed)?;
                Ok(module)
            }
            _ => Err(failed(context.take_errors("LLVM gives no reason"))),
        }
    }

    /// Its context.
    pub fn context(&self) -> &'c Context<'c> {
        self.context
    }

    pub(crate) fn functions_table(&self) -> &'c Functions {
        self.context.functions()
    }

    /// Checks that the module is well-formed, debug information included.
    pub fn verify(&self) -> Result<(), Error> {
        const RETURN_STATUS: u32 = 2;
        let functions = self.functions_table();
        let mut message = Message::empty(functions);
        // SAFETY: the module is alive and the place is for one pointer.
        let broken =
            unsafe { (functions.LLVMVerifyModule)(self.raw, RETURN_STATUS, message.place()) };
        if broken == 0 { Ok(()) } else { Err(Error::Invalid(said(message, self.context))) }
    }

    /// Takes all debug information away; whether there was some.
    pub fn strip_debug_info(&mut self) -> bool {
        // SAFETY: the module is alive. Handles of debug information borrow the
        // module and cannot be there.
        unsafe { (self.functions_table().LLVMStripModuleDebugInfo)(self.raw) != 0 }
    }

    /// The target triple.
    pub fn triple(&self) -> String {
        // SAFETY: the string ends with a zero and lives as long as the module.
        let triple = unsafe { CStr::from_ptr((self.functions_table().LLVMGetTarget)(self.raw)) };
        triple.to_string_lossy().into_owned()
    }

    /// Assembly at module level.
    pub fn inline_asm(&self) -> Cow<'_, str> {
        let mut length = 0;
        // SAFETY: pointer and length describe a string of the module's.
        let text = unsafe {
            let start = (self.functions_table().LLVMGetModuleInlineAsm)(self.raw, &mut length);
            text_at(start, length)
        };
        String::from_utf8_lossy(text)
    }

    /// The module in LLVM's text form.
    pub fn to_text(&self) -> String {
        let functions = self.functions_table();
        // SAFETY: the module is alive; the message is passed on to us.
        unsafe {
            Message::from_raw((functions.LLVMPrintModuleToString)(self.raw), functions).text()
        }
    }

    /// All functions, declarations included, in order.
    pub fn functions(&self) -> impl Iterator<Item = Function<'_>> {
        let functions = self.functions_table();
        self.list(functions.LLVMGetFirstFunction, functions.LLVMGetNextFunction)
            .map(|raw| Function::new(raw, self))
    }

    /// All global variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = Global<'_>> {
        let functions = self.functions_table();
        self.list(functions.LLVMGetFirstGlobal, functions.LLVMGetNextGlobal)
            .map(|raw| Global::new(raw, self))
    }

    /// All aliases, in order.
    pub fn aliases(&self) -> impl Iterator<Item = Global<'_>> {
        let functions = self.functions_table();
        self.list(functions.LLVMGetFirstGlobalAlias, functions.LLVMGetNextGlobalAlias)
            .map(|raw| Global::new(raw, self))
    }

    /// All functions chosen at load time, in order.
    pub fn ifuncs(&self) -> impl Iterator<Item = Global<'_>> {
        let functions = self.functions_table();
        self.list(functions.LLVMGetFirstGlobalIFunc, functions.LLVMGetNextGlobalIFunc)
            .map(|raw| Global::new(raw, self))
    }

    fn list(
        &self,
        first: unsafe extern "C" fn(ModuleRef) -> Option<ValueRef>,
        next: unsafe extern "C" fn(ValueRef) -> Option<ValueRef>,
    ) -> impl Iterator<Item = ValueRef> + use<> {
        // SAFETY: the module is alive.
        let first = unsafe { first(self.raw) };
        // SAFETY: `next` belongs to the list `first` began; the mapped handles
        // borrow the module, so nothing is deleted meanwhile.
        std::iter::successors(first, move |raw| unsafe { next(*raw) })
    }

    /// The function of this name, if there is one.
    pub fn function(&self, name: &str) -> Option<Function<'_>> {
        let name = c_string(name).ok()?;
        // SAFETY: the module is alive, the name ends with a zero.
        unsafe { (self.functions_table().LLVMGetNamedFunction)(self.raw, name.as_ptr()) }
            .map(|raw| Function::new(raw, self))
    }

    /// The variable of this name, if there is one.
    pub fn variable(&self, name: &str) -> Option<Global<'_>> {
        let name = c_string(name).ok()?;
        // SAFETY: the module is alive, the name ends with a zero.
        unsafe { (self.functions_table().LLVMGetNamedGlobal)(self.raw, name.as_ptr()) }
            .map(|raw| Global::new(raw, self))
    }

    /// Declares a function. LLVM changes the name if it is taken.
    pub fn add_function(&self, name: &str, signature: Type<'_>) -> Result<Function<'_>, Error> {
        signature.check(self);
        assert!(signature.is_function(), "a function has a function's type");
        let name = c_string(name)?;
        // SAFETY: the type is a function's, of this module's context.
        let raw = unsafe {
            (self.functions_table().LLVMAddFunction)(self.raw, name.as_ptr(), signature.raw)
        };
        Ok(Function::new(raw, self))
    }

    /// Adds a variable. LLVM changes the name if it is taken.
    pub fn add_variable(&self, name: &str, content: Type<'_>) -> Result<Global<'_>, Error> {
        content.check(self);
        assert!(content.is_sized(), "a variable has a size");
        let name = c_string(name)?;
        // SAFETY: the type is sized and of this module's context.
        let raw =
            unsafe { (self.functions_table().LLVMAddGlobal)(self.raw, content.raw, name.as_ptr()) };
        Ok(Global::new(raw, self))
    }

    /// Declares a hidden variable that is defined elsewhere in the same
    /// executable or library, in an address space. LLVM changes the name if it
    /// is taken.
    pub fn declare_hidden(
        &self,
        name: &str,
        content: Type<'_>,
        space: u32,
    ) -> Result<Global<'_>, Error> {
        const HIDDEN: u32 = 1;
        content.check(self);
        assert!(content.is_sized(), "a variable has a size");
        let name = c_string(name)?;
        let functions = self.functions_table();
        // SAFETY: the type is sized and of this module's context.
        let raw = unsafe {
            let raw = (functions.LLVMAddGlobalInAddressSpace)(
                self.raw,
                content.raw,
                name.as_ptr(),
                space,
            );
            (functions.LLVMSetVisibility)(raw, HIDDEN);
            raw
        };
        Ok(Global::new(raw, self))
    }

    /// Deletes the variable `name` unless something refers to it; whether it
    /// is gone.
    pub fn delete_variable(&mut self, name: &str) -> bool {
        let Some(raw) = self.variable(name).filter(|it| !it.is_used()).map(|it| it.raw) else {
            return false;
        };
        // SAFETY: the variable is alive and unused; handles borrow the module
        // and cannot be there.
        unsafe { (self.functions_table().LLVMDeleteGlobal)(raw) };
        true
    }

    pub(crate) fn is_same(&self, other: &Module<'_>) -> bool {
        ptr::eq(self.raw.as_ptr(), other.raw.as_ptr())
    }
}

impl Drop for Module<'_> {
    fn drop(&mut self) {
        // SAFETY: the module is ours; handles borrow it and are gone.
        unsafe { (self.functions_table().LLVMDisposeModule)(self.raw) }
    }
}
