//! Making debug information.
//!
//! As much of it as says where code comes from: a compile unit, functions, the
//! positions of instructions, and variables in memory of the frame. A module
//! should have no other when this begins.

use std::ffi::c_uint;
use std::ptr;

use crate::table::{DebugBuilderRef, MetadataRef};
use crate::{Function, Instruction, Metadata, Module, Value};

/// Makes the debug information of a module.
pub struct DebugBuilder<'m> {
    raw: DebugBuilderRef,
    module: &'m Module<'m>,
    file: MetadataRef,
    unit: MetadataRef,
    /// The type of functions, of which nothing is said.
    signature: MetadataRef,
}

impl<'m> DebugBuilder<'m> {
    /// Begins with a compile unit of this name. The version of DWARF is the
    /// module's, or else 4.
    pub fn new(module: &'m Module<'m>, name: &str) -> Self {
        const C99: c_uint = 11;
        const FULL: c_uint = 1;
        let functions = module.functions_table();
        let empty = c"".as_ptr();
        // SAFETY: the module is alive; each length is that of its string, and
        // the numbers are those of `llvm-c/DebugInfo.h`.
        let (raw, file, unit, signature) = unsafe {
            let raw = (functions.LLVMCreateDIBuilder)(module.raw);
            let (start, length) = (name.as_ptr().cast(), name.len());
            let file = (functions.LLVMDIBuilderCreateFile)(raw, start, length, empty, 0);
            let unit = (functions.LLVMDIBuilderCreateCompileUnit)(
                raw, C99, file, empty, 0, 1, empty, 0, 0, empty, 0, FULL, 0, 0, 0, empty, 0, empty,
                0,
            );
            let signature =
                (functions.LLVMDIBuilderCreateSubroutineType)(raw, file, ptr::null_mut(), 0, 0);
            (raw, file, unit, signature)
        };
        // SAFETY: asking for a number has no precondition.
        let version = unsafe { (functions.LLVMDebugMetadataVersion)() };
        module.add_flag_if_missing("Debug Info Version", version);
        module.add_flag_if_missing("Dwarf Version", 4);
        Self { raw, module, file, unit, signature }
    }

    /// Describes `function` by a name, which need not be its own, and the line
    /// of the code that makes its frame.
    pub fn describe(&self, function: Function<'m>, name: &str, line: u32) -> Metadata<'m> {
        function.check(self.module);
        let functions = self.module.functions_table();
        // SAFETY: the function is of this module; the length is the name's.
        let raw = unsafe {
            let (start, length) = (name.as_ptr().cast(), name.len());
            let raw = (functions.LLVMDIBuilderCreateFunction)(
                self.raw,
                self.unit,
                start,
                length,
                c"".as_ptr(),
                0,
                self.file,
                line,
                self.signature,
                1,
                1,
                line,
                0,
                1,
            );
            (functions.LLVMSetSubprogram)(function.raw, raw);
            raw
        };
        Metadata::new(raw, self.module)
    }

    /// Gives an instruction a position in a function that was described.
    pub fn place(&self, instruction: Instruction<'m>, function: Metadata<'m>, at: (u32, u32)) {
        instruction.check(self.module);
        let functions = self.module.functions_table();
        let location = self.location(function, at);
        // SAFETY: the value is an instruction of this module.
        unsafe { (functions.LLVMInstructionSetDebugLoc)(instruction.raw, Some(location)) }
    }

    /// Declares that memory of the frame, an `alloca`, is the variable `name`
    /// of so many bytes. `before` is where that is said.
    pub fn declare(
        &self,
        memory: Value<'m>,
        function: Metadata<'m>,
        name: &str,
        bytes: u64,
        before: Instruction<'m>,
    ) {
        const UNSIGNED: c_uint = 7;
        memory.check(self.module);
        before.check(self.module);
        let functions = self.module.functions_table();
        let location = self.location(function, (1, 1));
        // SAFETY: everything is of this module; lengths are the strings'. Since
        // LLVM 19 modules are read with debug records, which this inserts.
        unsafe {
            let (start, length) = (name.as_ptr().cast(), name.len());
            let content = (functions.LLVMDIBuilderCreateBasicType)(
                self.raw,
                start,
                length,
                bytes * 8,
                UNSIGNED,
                0,
            );
            let scope = function.raw();
            let variable = (functions.LLVMDIBuilderCreateAutoVariable)(
                self.raw, scope, start, length, self.file, 1, content, 1, 0, 0,
            );
            let whole = (functions.LLVMDIBuilderCreateExpression)(self.raw, ptr::null_mut(), 0);
            let insert = functions.LLVMDIBuilderInsertDeclareRecordBefore;
            insert(self.raw, memory.raw, variable, whole, location, before.raw);
        }
    }

    fn location(&self, function: Metadata<'m>, (line, column): (u32, u32)) -> MetadataRef {
        let functions = self.module.functions_table();
        // SAFETY: the scope is a subprogram of this module's context.
        unsafe {
            (functions.LLVMDIBuilderCreateDebugLocation)(
                self.module.context.raw,
                line,
                column,
                function.raw(),
                None,
            )
        }
    }
}

impl Drop for DebugBuilder<'_> {
    fn drop(&mut self) {
        let functions = self.module.functions_table();
        // SAFETY: the builder is ours; what it made is completed, and it is
        // freed once.
        unsafe {
            (functions.LLVMDIBuilderFinalize)(self.raw);
            (functions.LLVMDisposeDIBuilder)(self.raw);
        }
    }
}

impl Module<'_> {
    /// Adds a flag that is a number of 32 bits, unless there is one of its name.
    fn add_flag_if_missing(&self, name: &str, value: u32) {
        const WARNING: c_uint = 1;
        let functions = self.functions_table();
        let number = self.const_int(32, value.into());
        let (start, length) = (name.as_ptr().cast(), name.len());
        // SAFETY: pointer and length are the name's; the value is a constant.
        unsafe {
            if (functions.LLVMGetModuleFlag)(self.raw, start, length).is_none() {
                let number = (functions.LLVMValueAsMetadata)(number.raw);
                (functions.LLVMAddModuleFlag)(self.raw, WARNING, start, length, number);
            }
        }
    }
}
