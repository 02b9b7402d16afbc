//! Functions and blocks.

use std::ops::Deref;

use crate::table::{BlockRef, FUNCTION_INDEX, ValueRef};
use crate::{Attribute, Global, Instruction, Metadata, Module, Value, ValueKind};

/// A function.
#[derive(Clone, Copy)]
pub struct Function<'m> {
    global: Global<'m>,
}

impl<'m> Deref for Function<'m> {
    type Target = Global<'m>;
    fn deref(&self) -> &Global<'m> {
        &self.global
    }
}

impl<'m> Function<'m> {
    /// `raw` must be an `llvm::Function`.
    pub(crate) fn new(raw: ValueRef, module: &'m Module<'m>) -> Self {
        Self { global: Global::new(raw, module) }
    }

    /// The global as a function, if it is one.
    pub fn from_global(global: Global<'m>) -> Option<Self> {
        (global.kind() == ValueKind::Function).then_some(Self { global })
    }

    /// Whether it is one of LLVM's intrinsics.
    pub fn is_intrinsic(self) -> bool {
        // SAFETY: the value is a function.
        unsafe { (self.module.functions_table().LLVMGetIntrinsicID)(self.raw) != 0 }
    }

    /// Its parameters.
    pub fn parameters(self) -> impl ExactSizeIterator<Item = Value<'m>> {
        let functions = self.module.functions_table();
        // SAFETY: the value is a function.
        let count = unsafe { (functions.LLVMCountParams)(self.raw) } as usize;
        (0..count).map(move |index| {
            // SAFETY: the function has this parameter.
            let raw = unsafe { (functions.LLVMGetParam)(self.raw, index as u32) };
            Value::new(raw, self.module)
        })
    }

    /// How many blocks it has.
    pub fn block_count(self) -> u32 {
        // SAFETY: the value is a function.
        unsafe { (self.module.functions_table().LLVMCountBasicBlocks)(self.raw) }
    }

    /// Its blocks, the entry first.
    pub fn blocks(self) -> impl Iterator<Item = Block<'m>> {
        let functions = self.module.functions_table();
        // SAFETY: the value is a function.
        let first = unsafe { (functions.LLVMGetFirstBasicBlock)(self.raw) };
        // SAFETY: the block is alive and in a function.
        std::iter::successors(first, move |raw| unsafe { (functions.LLVMGetNextBasicBlock)(*raw) })
            .map(move |raw| Block::new(raw, self.module))
    }

    /// Whether it has the attribute.
    pub fn has(self, attribute: Attribute) -> bool {
        let functions = self.module.functions_table();
        // SAFETY: the value is a function, the number an attribute's.
        unsafe {
            (functions.LLVMGetEnumAttributeAtIndex)(self.raw, FUNCTION_INDEX, attribute.0).is_some()
        }
    }

    /// Gives it an attribute that is there or not.
    pub fn add(self, attribute: Attribute) {
        let functions = self.module.functions_table();
        // SAFETY: the value is a function, the number an attribute's.
        unsafe {
            let it = (functions.LLVMCreateEnumAttribute)(self.module.context.raw, attribute.0, 0);
            (functions.LLVMAddAttributeAtIndex)(self.raw, FUNCTION_INDEX, it);
        }
    }

    /// Takes an attribute from it.
    pub fn remove(self, attribute: Attribute) {
        let functions = self.module.functions_table();
        // SAFETY: the value is a function, the number an attribute's.
        unsafe { (functions.LLVMRemoveEnumAttributeAtIndex)(self.raw, FUNCTION_INDEX, attribute.0) }
    }

    /// Its debug information, a subprogram, if it has some.
    pub fn subprogram(self) -> Option<Metadata<'m>> {
        // SAFETY: the value is a function.
        unsafe { (self.module.functions_table().LLVMGetSubprogram)(self.raw) }
            .map(|raw| Metadata::new(raw, self.module))
    }
}

/// A block of a function.
#[derive(Clone, Copy)]
pub struct Block<'m> {
    pub(crate) raw: BlockRef,
    module: &'m Module<'m>,
}

impl<'m> Block<'m> {
    pub(crate) fn new(raw: BlockRef, module: &'m Module<'m>) -> Self {
        Self { raw, module }
    }

    /// A number that is the same for the same block of one module.
    pub fn id(self) -> usize {
        self.raw.as_ptr() as usize
    }

    /// Its instructions.
    pub fn instructions(self) -> impl Iterator<Item = Instruction<'m>> {
        let functions = self.module.functions_table();
        // SAFETY: the block is alive.
        let first = unsafe { (functions.LLVMGetFirstInstruction)(self.raw) };
        // SAFETY: the instruction is alive and in a block.
        std::iter::successors(first, move |raw| unsafe { (functions.LLVMGetNextInstruction)(*raw) })
            .map(move |raw| Instruction::new(raw, self.module))
    }

    /// Its last instruction, if it is complete.
    pub fn terminator(self) -> Option<Instruction<'m>> {
        // SAFETY: the block is alive.
        unsafe { (self.module.functions_table().LLVMGetBasicBlockTerminator)(self.raw) }
            .map(|raw| Instruction::new(raw, self.module))
    }
}
