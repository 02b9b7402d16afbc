//! Code generation.

use std::ffi::c_uint;

use crate::context::{check_errors, said};
use crate::message::{MemoryBuffer, Message, c_string};
use crate::table::TargetMachineRef;
use crate::{Context, Error, Module};

/// How much code generation optimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OptLevel {
    /// Not.
    None,
    /// A little.
    Less,
    /// As `-O2` does.
    #[default]
    Default,
    /// As `-O3` does.
    Aggressive,
}

/// How addresses are formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RelocModel {
    /// The target's way.
    #[default]
    Default,
    /// Fixed.
    Static,
    /// Independent of where the code is loaded.
    Pic,
    /// Fixed, but external data through the loader.
    DynamicNoPic,
}

/// How far apart code and data may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CodeModel {
    /// The target's way.
    #[default]
    Default,
    /// Within 1 MiB.
    Tiny,
    /// Within 2 GiB.
    Small,
    /// At the top of the address space.
    Kernel,
    /// Code within 2 GiB, data anywhere.
    Medium,
    /// Anywhere.
    Large,
}

/// How code is generated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TargetOptions {
    /// The CPU; empty for the target's own.
    pub cpu: String,
    /// Features, as LLVM spells them.
    pub features: String,
    /// How much to optimise.
    pub opt_level: OptLevel,
    /// How addresses are formed.
    pub reloc_model: RelocModel,
    /// How far apart things may be.
    pub code_model: CodeModel,
}

/// A code generator.
pub struct TargetMachine<'c> {
    pub(crate) raw: TargetMachineRef,
    context: &'c Context<'c>,
}

impl<'c> TargetMachine<'c> {
    /// The code generator for `triple`.
    pub fn new(
        context: &'c Context<'c>,
        triple: &str,
        options: &TargetOptions,
    ) -> Result<Self, Error> {
        let functions = context.functions();
        let failed = |why: String| Error::Target { triple: triple.to_owned(), why };
        let c_triple = c_string(triple)?;
        let (cpu, features) = (c_string(&options.cpu)?, c_string(&options.features)?);
        let (mut target, mut message) = (None, Message::empty(functions));
        // SAFETY: registering targets may be repeated; the strings end with a
        // zero, the places are for one pointer each.
        unsafe {
            (functions.LLVMInitializeX86TargetInfo)();
            (functions.LLVMInitializeX86Target)();
            (functions.LLVMInitializeX86TargetMC)();
            (functions.LLVMInitializeX86AsmPrinter)();
            (functions.LLVMInitializeX86AsmParser)();
            (functions.LLVMGetTargetFromTriple)(c_triple.as_ptr(), &mut target, message.place());
        }
        let Some(target) = target else {
            return Err(failed(said(message, context)));
        };
        // SAFETY: the target is one of LLVM's, the strings end with a zero, the
        // numbers are those of `llvm-c/TargetMachine.h`.
        let raw = unsafe {
            (functions.LLVMCreateTargetMachine)(
                target,
                c_triple.as_ptr(),
                cpu.as_ptr(),
                features.as_ptr(),
                options.opt_level as c_uint,
                options.reloc_model as c_uint,
                code_model_number(options.code_model),
            )
        };
        let raw = raw.ok_or_else(|| failed("LLVM makes none for it".to_owned()))?;
        Ok(Self { raw, context })
    }

    /// The module as an object file. Code generation changes the module.
    pub fn emit_object(&self, module: &mut Module<'_>) -> Result<Vec<u8>, Error> {
        const OBJECT_FILE: c_uint = 1;
        assert!(
            self.context.raw == module.context.raw,
            "a code generator reports to the context of its modules"
        );
        let functions = self.context.functions();
        let (mut buffer, mut message) = (None, Message::empty(functions));
        // SAFETY: generator and module are alive; no handles are, since the
        // module is borrowed mutably; the places are for one pointer each.
        let failed = unsafe {
            (functions.LLVMTargetMachineEmitToMemoryBuffer)(
                self.raw,
                module.raw,
                OBJECT_FILE,
                message.place(),
                &mut buffer,
            )
        };
        let buffer = buffer.map(|raw| MemoryBuffer { raw, functions });
        match buffer {
            Some(buffer) if failed == 0 => {
                check_errors(self.context, Error::CodeGeneration)?;
                Ok(buffer.bytes().to_vec())
            }
            _ => Err(Error::CodeGeneration(said(message, self.context))),
        }
    }
}

/// The number of `llvm-c/TargetMachine.h`, where 1 is for just-in-time use.
fn code_model_number(model: CodeModel) -> c_uint {
    match model {
        CodeModel::Default => 0,
        CodeModel::Tiny => 2,
        CodeModel::Small => 3,
        CodeModel::Kernel => 4,
        CodeModel::Medium => 5,
        CodeModel::Large => 6,
    }
}

impl Drop for TargetMachine<'_> {
    fn drop(&mut self) {
        // SAFETY: the generator is ours and is freed once.
        unsafe { (self.context.functions().LLVMDisposeTargetMachine)(self.raw) }
    }
}
