//! Taking functions out of one copy of a unit and adding them to another.
//!
//! LLVM's C API cannot copy a function. What it can do is link one module into
//! another, so a copy of a function is made by reading its unit a second time:
//! there, its body gets another name ([`Function::set_aside`]), everything else is
//! made a mere reference ([`Global::set_linkage`]), and the rest is linked
//! ([`Module::link`]).

use std::cell::OnceCell;
use std::mem::ManuallyDrop;

use crate::context::check_errors;
use crate::{Block, Builder, Call, Error, Function, Global, Linkage, Module, Value, ValueKind};

impl<'c> Module<'c> {
    /// Adds what `other`, of the same context, defines, by the rules of linkers.
    pub fn link(&mut self, other: Module<'c>) -> Result<(), Error> {
        let functions = self.functions_table();
        assert!(self.context.raw == other.context.raw, "modules of two contexts must not be mixed");
        let other = ManuallyDrop::new(other);
        // SAFETY: both modules are alive and of one context. The second one is
        // LLVM's now, which frees it whatever happens (`LLVMLinkModules2`).
        let broken = unsafe { (functions.LLVMLinkModules2)(self.raw, other.raw) };
        // Groups may have been added.
        self.comdat_names = OnceCell::new();
        let failed = |why: String| Error::Link(why);
        check_errors(self.context, failed)?;
        match broken {
            0 => Ok(()),
            _ => Err(failed(self.context.take_errors("LLVM gives no reason"))),
        }
    }

    /// Takes away the assembly at module level.
    pub fn clear_inline_asm(&mut self) {
        // SAFETY: the module is alive; nothing is read of an empty text.
        unsafe {
            (self.functions_table().LLVMSetModuleInlineAsm2)(self.raw, c"".as_ptr(), 0);
        }
    }

    /// Deletes the body of the function `name` but for an empty block, which is to be
    /// filled; whether there was one. Addresses of its blocks become meaningless.
    pub fn clear_body(&mut self, name: &str) -> bool {
        let functions = self.functions_table();
        let Some(function) = self.function(name).filter(|it| !it.is_declaration()) else {
            return false;
        };
        let blocks: Vec<Block<'_>> = function.blocks().collect();
        let left = function.append_block();
        // SAFETY: all of them are alive. First nothing refers to an instruction, then
        // nothing to a block but its address, which LLVM replaces when the block goes.
        // (Instructions must go with their block: debug records of one that goes alone
        // stay, and LLVM keeps those of an empty block by its address.) Handles of
        // them end here: the module is ours alone.
        unsafe {
            for instruction in blocks.iter().flat_map(|block| block.instructions()) {
                if instruction.is_used() {
                    let none = (functions.LLVMGetPoison)((functions.LLVMTypeOf)(instruction.raw));
                    (functions.LLVMReplaceAllUsesWith)(instruction.raw, none);
                }
            }
            for end in blocks.iter().filter_map(|block| block.terminator()) {
                for number in 0..(functions.LLVMGetNumSuccessors)(end.raw) {
                    (functions.LLVMSetSuccessor)(end.raw, number, left.raw);
                }
            }
            for block in &blocks {
                (functions.LLVMDeleteBasicBlock)(block.raw);
            }
            if (functions.LLVMHasPersonalityFn)(function.raw) != 0 {
                (functions.LLVMSetPersonalityFn)(function.raw, None);
            }
        }
        true
    }
}

impl<'m> Function<'m> {
    /// Calls the function `name`, and gives what it was called, and all uses but
    /// the addresses of its blocks, to a declaration of the same type, which is
    /// returned.
    pub fn set_aside(self, name: &str) -> Function<'m> {
        let functions = self.module().functions_table();
        let mut addresses: Vec<(Value<'m>, Block<'m>)> = Vec::new();
        // SAFETY: the function is alive; users are values of its module.
        unsafe {
            let mut next = (functions.LLVMGetFirstUse)(self.raw);
            while let Some(it) = next {
                let user = Value::new((functions.LLVMGetUser)(it), self.module());
                addresses.extend(user.block_address().map(|(_, block)| (user, block)));
                next = (functions.LLVMGetNextUse)(it);
            }
        }
        // SAFETY: the function is alive. A block's address that is given to the
        // declaration with all other uses is replaced right behind that.
        unsafe {
            let mut length = 0;
            let start = (functions.LLVMGetValueName2)(self.raw, &mut length);
            let old = std::slice::from_raw_parts(start.cast::<u8>(), length).to_vec();
            (functions.LLVMSetValueName2)(self.raw, name.as_ptr().cast(), name.len());
            let signature = (functions.LLVMGlobalGetValueType)(self.raw);
            let raw = (functions.LLVMAddFunction)(self.module().raw, c"".as_ptr(), signature);
            (functions.LLVMSetValueName2)(raw, old.as_ptr().cast(), old.len());
            let unnamed = (functions.LLVMGetUnnamedAddress)(self.raw);
            (functions.LLVMSetUnnamedAddress)(raw, unnamed);
            (functions.LLVMReplaceAllUsesWith)(self.raw, raw);
            for (address, block) in addresses {
                let own = (functions.LLVMBlockAddress)(self.raw, block.raw);
                (functions.LLVMReplaceAllUsesWith)(address.raw, own);
            }
            Function::new(raw, self.module())
        }
    }

    fn append_block(self) -> Block<'m> {
        let module = self.module();
        let functions = module.functions_table();
        // SAFETY: the value is a function of this context.
        let raw = unsafe {
            (functions.LLVMAppendBasicBlockInContext)(module.context.raw, self.raw, c"".as_ptr())
        };
        Block::new(raw, module)
    }
}

impl Global<'_> {
    /// Changes how the linker treats it.
    pub fn set_linkage(self, linkage: Linkage) {
        let number = match linkage {
            Linkage::External => 0,
            Linkage::AvailableExternally => 1,
            Linkage::LinkOnceAny => 2,
            Linkage::LinkOnceOdr => 3,
            Linkage::WeakAny => 5,
            Linkage::WeakOdr => 6,
            Linkage::Appending => 7,
            Linkage::Internal => 8,
            Linkage::Private => 9,
            Linkage::ExternalWeak => 12,
            Linkage::Common => 14,
        };
        // SAFETY: the value is a global.
        unsafe { (self.module().functions_table().LLVMSetLinkage)(self.raw, number) }
    }

    /// Changes its name. LLVM changes it again if it is taken.
    pub fn set_name(self, name: &str) {
        let functions = self.module().functions_table();
        // SAFETY: the value is alive; pointer and length are the name's.
        unsafe { (functions.LLVMSetValueName2)(self.raw, name.as_ptr().cast(), name.len()) }
    }

    /// Takes it out of its group, if it is in one.
    pub fn leave_comdat(self) {
        if matches!(self.kind(), ValueKind::Function | ValueKind::Variable) {
            // SAFETY: the value is a function or a variable.
            unsafe { (self.module().functions_table().LLVMSetComdat)(self.raw, None) }
        }
    }
}

impl<'m> Call<'m> {
    /// Makes it a call of `function`, which has the type of the one it calls.
    pub fn set_callee(self, function: Function<'m>) {
        function.check(self.module());
        assert!(function.content().id() == self.signature().id(), "the types of both agree");
        let functions = self.module().functions_table();
        // SAFETY: the value is a call, whose last operand is what it calls.
        unsafe {
            let last = self.operand_count() - 1;
            (functions.LLVMSetOperand)(self.raw, last, function.raw);
        }
    }
}

impl<'m> Builder<'m> {
    /// What is inserted next comes at the end of `block`.
    pub fn go_to_end(&self, block: Block<'m>) {
        // SAFETY: the block is alive.
        unsafe { (self.module.functions_table().LLVMPositionBuilderAtEnd)(self.raw, block.raw) }
    }

    /// Ends a block that control does not come to the end of.
    pub fn unreachable(&self) {
        // SAFETY: the builder has a place, at the end of a block.
        unsafe { (self.module.functions_table().LLVMBuildUnreachable)(self.raw) };
    }

    /// Inserts assembly (AT&T) with globals that it names: `${0:c}`, `${1:c}`…
    pub fn assembly_naming(&self, globals: &[Global<'m>], text: &str) -> Call<'m> {
        let values: Vec<Value<'m>> = globals.iter().map(|it| **it).collect();
        values.iter().for_each(|it| it.check(self.module));
        let constraints = vec!["i"; values.len()].join(",");
        self.assembly_of(self.module.void_type(), &values, text, &constraints)
    }
}
