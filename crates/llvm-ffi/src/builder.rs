//! Inserting instructions.

use crate::table::{BuilderRef, ValueRef};
use crate::{Call, Function, Instruction, Module, Type, TypeKind, Value};

/// Inserts instructions into a module.
pub struct Builder<'m> {
    pub(crate) raw: BuilderRef,
    pub(crate) module: &'m Module<'m>,
}

impl<'m> Builder<'m> {
    /// A builder for `module`.
    pub fn new(module: &'m Module<'m>) -> Self {
        let functions = module.functions_table();
        // SAFETY: the context is alive.
        let raw = unsafe { (functions.LLVMCreateBuilderInContext)(module.context.raw) };
        Self { raw, module }
    }

    /// Inserts a call of `callee`, of type `signature`, before `place`. It has
    /// the source position of `place`.
    pub fn call_before(
        &self,
        place: Instruction<'m>,
        callee: Function<'m>,
        signature: Type<'m>,
        arguments: &[Value<'m>],
    ) -> Call<'m> {
        place.check(self.module);
        callee.check(self.module);
        signature.check(self.module);
        assert!(signature.is_function(), "a function is called with a function's type");
        let functions = self.module.functions_table();
        let mut raw: Vec<_> = arguments
            .iter()
            .map(|it| {
                it.check(self.module);
                it.raw
            })
            .collect();
        // SAFETY: everything is of the builder's module, the signature is a
        // function's. That the arguments fit it is for the verifier; LLVM only
        // asserts it.
        let raw = unsafe {
            (functions.LLVMPositionBuilderBefore)(self.raw, place.raw);
            (functions.LLVMBuildCall2)(
                self.raw,
                signature.raw,
                callee.raw,
                raw.as_mut_ptr(),
                raw.len() as u32,
                c"".as_ptr(),
            )
        };
        Instruction::new(raw, self.module).as_call().expect("a call was built")
    }

    /// Where the following methods insert: before `place`, with its source
    /// position.
    pub fn go_before(&self, place: Instruction<'m>) {
        place.check(self.module);
        // SAFETY: the instruction is alive and in a block.
        unsafe { (self.module.functions_table().LLVMPositionBuilderBefore)(self.raw, place.raw) }
    }

    /// Inserts memory in the frame for one value.
    pub fn alloca(&self, content: Type<'m>) -> Value<'m> {
        content.check(self.module);
        assert!(content.is_sized(), "memory has a size");
        let build = self.module.functions_table().LLVMBuildAlloca;
        // SAFETY: the builder has a place; the type is sized.
        self.value(unsafe { build(self.raw, content.raw, c"".as_ptr()) })
    }

    /// Inserts memory in the frame for one value, aligned to so many bytes.
    pub fn aligned_alloca(&self, content: Type<'m>, bytes: u32) -> Value<'m> {
        assert!(bytes.is_power_of_two(), "alignments are powers of two");
        let place = self.alloca(content);
        // SAFETY: the value is an `alloca`.
        unsafe { (self.module.functions_table().LLVMSetAlignment)(place.raw, bytes) };
        place
    }

    /// Inserts a load of a value of type `content` from `address`.
    pub fn load(&self, content: Type<'m>, address: Value<'m>) -> Value<'m> {
        content.check(self.module);
        self.check_address(address);
        let build = self.module.functions_table().LLVMBuildLoad2;
        // SAFETY: the builder has a place; the address is a pointer.
        self.value(unsafe { build(self.raw, content.raw, address.raw, c"".as_ptr()) })
    }

    /// Inserts a store of `value` to `address`.
    pub fn store(&self, value: Value<'m>, address: Value<'m>) -> Value<'m> {
        value.check(self.module);
        self.check_address(address);
        let build = self.module.functions_table().LLVMBuildStore;
        // SAFETY: the builder has a place; the address is a pointer.
        self.value(unsafe { build(self.raw, value.raw, address.raw) })
    }

    /// Inserts an addition of integers of one type.
    pub fn add(&self, left: Value<'m>, right: Value<'m>) -> Value<'m> {
        left.check(self.module);
        right.check(self.module);
        let same = left.ty().id() == right.ty().id();
        assert!(same && left.ty().int_bits().is_some(), "integers of one type are added");
        let build = self.module.functions_table().LLVMBuildAdd;
        // SAFETY: the builder has a place; both are integers of one type.
        self.value(unsafe { build(self.raw, left.raw, right.raw, c"".as_ptr()) })
    }

    /// Inserts the address of element `index` of the array at `address`, whose
    /// elements have type `element`.
    pub fn element(&self, element: Type<'m>, address: Value<'m>, index: Value<'m>) -> Value<'m> {
        element.check(self.module);
        self.check_address(address);
        index.check(self.module);
        assert!(element.is_sized(), "elements have a size");
        assert!(index.ty().int_bits().is_some(), "an index is an integer");
        let mut indices = [index.raw];
        let build = self.module.functions_table().LLVMBuildGEP2;
        // SAFETY: the builder has a place; the address is a pointer, the one
        // index an integer.
        self.value(unsafe {
            build(self.raw, element.raw, address.raw, indices.as_mut_ptr(), 1, c"".as_ptr())
        })
    }

    /// Inserts assembly (AT&T) that gives a value of type `result`, takes none
    /// and has effects that LLVM cannot see.
    pub fn assembly(&self, result: Type<'m>, text: &str, constraints: &str) -> Call<'m> {
        self.assembly_of(result, &[], text, constraints)
    }

    /// As [`Self::assembly`], with a value that it takes and none that it gives.
    pub fn assembly_with(&self, value: Value<'m>, text: &str, constraints: &str) -> Call<'m> {
        value.check(self.module);
        self.assembly_of(self.module.void_type(), &[value], text, constraints)
    }

    /// As [`Self::assembly`], with a value that it takes.
    pub fn assembly_between(
        &self,
        value: Value<'m>,
        result: Type<'m>,
        text: &str,
        constraints: &str,
    ) -> Call<'m> {
        value.check(self.module);
        self.assembly_of(result, &[value], text, constraints)
    }

    /// As [`Self::assembly`], with memory that it changes: the operands, from
    /// `$1` on, are values of these types at these addresses; `$0` is a register
    /// of type `scratch` that it may use, if there is one, or else the first of
    /// them. No other memory is accessed before it that comes behind it, nor the
    /// other way round.
    pub fn assembly_on(
        &self,
        memory: &[(Value<'m>, Type<'m>)],
        scratch: Option<Type<'m>>,
        text: &str,
    ) -> Call<'m> {
        let register = if scratch.is_some() { "=&r," } else { "" };
        let operands = "*m,".repeat(memory.len());
        let constraints =
            format!("{register}{operands}~{{memory}},~{{dirflag}},~{{fpsr}},~{{flags}}");
        let addresses: Vec<Value<'m>> = memory.iter().map(|(address, _)| *address).collect();
        addresses.iter().for_each(|it| self.check_address(*it));
        let result = scratch.unwrap_or_else(|| self.module.void_type());
        let call = self.assembly_of(result, &addresses, text, &constraints);
        let context = self.module.context();
        let kind = context.attribute("elementtype").expect("LLVM knows the attribute");
        let functions = self.module.functions_table();
        for (position, (_, content)) in memory.iter().enumerate() {
            content.check(self.module);
            // SAFETY: the call has this argument, which attributes count from 1;
            // the attribute is one that has a type.
            unsafe {
                let it = (functions.LLVMCreateTypeAttribute)(context.raw, kind.0, content.raw);
                (functions.LLVMAddCallSiteAttribute)(call.raw, position as u32 + 1, it);
            }
        }
        call
    }

    pub(crate) fn assembly_of(
        &self,
        result: Type<'m>,
        arguments: &[Value<'m>],
        text: &str,
        constraints: &str,
    ) -> Call<'m> {
        result.check(self.module);
        let functions = self.module.functions_table();
        let types: Vec<Type<'m>> = arguments.iter().map(|it| it.ty()).collect();
        let signature = self.module.function_type(result, &types);
        let mut raw_arguments: Vec<ValueRef> = arguments.iter().map(|it| it.raw).collect();
        // SAFETY: the builder has a place; lengths are those of the strings and
        // of the list, whose values are of the signature's types.
        let raw = unsafe {
            let code = (functions.LLVMGetInlineAsm)(
                signature.raw,
                text.as_ptr().cast(),
                text.len(),
                constraints.as_ptr().cast(),
                constraints.len(),
                1,
                0,
                0,
                0,
            );
            let count = raw_arguments.len() as u32;
            let list = raw_arguments.as_mut_ptr();
            (functions.LLVMBuildCall2)(self.raw, signature.raw, code, list, count, c"".as_ptr())
        };
        Instruction::new(raw, self.module).as_call().expect("a call was built")
    }

    fn value(&self, raw: ValueRef) -> Value<'m> {
        Value::new(raw, self.module)
    }

    fn check_address(&self, address: Value<'m>) {
        address.check(self.module);
        assert!(address.ty().kind() == TypeKind::Pointer, "an address is a pointer");
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        // SAFETY: the builder is ours and is freed once.
        unsafe { (self.module.functions_table().LLVMDisposeBuilder)(self.raw) }
    }
}
