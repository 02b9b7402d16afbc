//! Values: whatever an instruction can have as an operand.

use std::borrow::Cow;

use crate::message::text_at;
use crate::table::ValueRef;
use crate::{Block, Function, Global, Module, Opcode, Type};

/// What sort of value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// A parameter of a function.
    Argument,
    /// A block.
    Block,
    /// A function.
    Function,
    /// Another name for a global.
    Alias,
    /// A function chosen at load time.
    IFunc,
    /// A global variable.
    Variable,
    /// The address of a block.
    BlockAddress,
    /// An operation on constants.
    Expression,
    /// A constant made of constants.
    Aggregate,
    /// A constant integer.
    Int,
    /// A constant that refers to nothing.
    Plain,
    /// Metadata.
    Metadata,
    /// Inline assembly.
    Asm,
    /// An instruction.
    Instruction,
    /// A constant that LLVM's C API has no name for, made of constants.
    OtherConstant,
    /// Anything else.
    Other,
}

/// A value.
#[derive(Clone, Copy)]
pub struct Value<'m> {
    pub(crate) raw: ValueRef,
    pub(crate) module: &'m Module<'m>,
}

impl<'m> Value<'m> {
    pub(crate) fn new(raw: ValueRef, module: &'m Module<'m>) -> Self {
        Self { raw, module }
    }

    /// Panics unless the value belongs to `module`.
    pub(crate) fn check(self, module: &Module<'_>) {
        assert!(self.module.is_same(module), "values of two modules must not be mixed");
    }

    /// The module it is in.
    pub fn module(self) -> &'m Module<'m> {
        self.module
    }

    /// A number that is the same for the same value of one module.
    pub fn id(self) -> usize {
        self.raw.as_ptr() as usize
    }

    /// What sort of value it is.
    pub fn kind(self) -> ValueKind {
        let functions = self.module.functions_table();
        // SAFETY: the value is alive.
        match unsafe { (functions.LLVMGetValueKind)(self.raw) } {
            0 => ValueKind::Argument,
            1 => ValueKind::Block,
            5 => ValueKind::Function,
            6 => ValueKind::Alias,
            7 => ValueKind::IFunc,
            8 => ValueKind::Variable,
            9 => ValueKind::BlockAddress,
            10 => ValueKind::Expression,
            11..=13 | 27 => ValueKind::Aggregate,
            18 => ValueKind::Int,
            14..=17 | 19..=21 | 25 | 26 => ValueKind::Plain,
            22 => ValueKind::Metadata,
            23 => ValueKind::Asm,
            // Also what LLVM says of constants its C API has no name for
            // (`dso_local_equivalent`, `no_cfi`): see LLVMGetValueKind.
            // SAFETY: the value is alive.
            24 if unsafe { (functions.LLVMIsConstant)(self.raw) } != 0 => ValueKind::OtherConstant,
            24 => ValueKind::Instruction,
            _ => ValueKind::Other,
        }
    }

    /// Its type.
    pub fn ty(self) -> Type<'m> {
        // SAFETY: the value is alive.
        let raw = unsafe { (self.module.functions_table().LLVMTypeOf)(self.raw) };
        Type::new(raw, self.module)
    }

    /// Its name, empty if it has none.
    pub fn name(self) -> Cow<'m, str> {
        let mut length = 0;
        // SAFETY: pointer and length describe a string that lives as long as
        // the value keeps its name; nothing here renames.
        let text = unsafe {
            let functions = self.module.functions_table();
            text_at((functions.LLVMGetValueName2)(self.raw, &mut length), length)
        };
        String::from_utf8_lossy(text)
    }

    /// The text of inline assembly, if that is what it is.
    pub fn assembly(self) -> Option<Cow<'m, str>> {
        if self.kind() != ValueKind::Asm {
            return None;
        }
        let mut length = 0;
        // SAFETY: the value is inline assembly; pointer and length describe a string that
        // lives as long as the context.
        let text = unsafe {
            let functions = self.module.functions_table();
            text_at((functions.LLVMGetInlineAsmAsmString)(self.raw, &mut length), length)
        };
        Some(String::from_utf8_lossy(text))
    }

    /// The value of a constant integer: all of it up to 64 bits, `None` when
    /// it is wider.
    pub fn int(self) -> Option<i64> {
        let is_narrow =
            self.kind() == ValueKind::Int && self.ty().int_bits().is_some_and(|bits| bits <= 64);
        // SAFETY: the value is a constant integer that fits.
        is_narrow
            .then(|| unsafe { (self.module.functions_table().LLVMConstIntGetSExtValue)(self.raw) })
    }

    /// The low 64 bits of a constant integer of any width.
    pub fn int_low(self) -> Option<i64> {
        // SAFETY: the value is a constant integer; of a wider one LLVM returns
        // the lowest word.
        (self.kind() == ValueKind::Int)
            .then(|| unsafe { (self.module.functions_table().LLVMConstIntGetSExtValue)(self.raw) })
    }

    /// Whether it is a constant whose bytes are zero.
    pub fn is_zero(self) -> bool {
        // SAFETY: the value is alive; of what is no constant LLVM says no.
        unsafe { (self.module.functions_table().LLVMIsNull)(self.raw) != 0 }
    }

    /// The bytes of a constant array of bytes, if it lists them.
    pub fn bytes(self) -> Option<&'m [u8]> {
        let functions = self.module.functions_table();
        // Arrays of data, not all zero: see `ValueKind::Plain`.
        const DATA_ARRAY: u32 = 16;
        let mut length = 0;
        // SAFETY: the value is an array of data whose elements are bytes; they
        // live as long as the context.
        unsafe {
            if (functions.LLVMGetValueKind)(self.raw) != DATA_ARRAY
                || (functions.LLVMIsConstantString)(self.raw) == 0
            {
                return None;
            }
            let start = (functions.LLVMGetAsString)(self.raw, &mut length);
            Some(text_at(start, length))
        }
    }

    /// Whether anything has it as an operand.
    pub fn is_used(self) -> bool {
        // SAFETY: the value is alive.
        unsafe { (self.module.functions_table().LLVMGetFirstUse)(self.raw).is_some() }
    }

    /// Its operands, if it is a constant that has some.
    pub fn constant_operands(self) -> impl Iterator<Item = Value<'m>> {
        let has_operands = matches!(
            self.kind(),
            ValueKind::Expression | ValueKind::Aggregate | ValueKind::OtherConstant
        );
        // SAFETY: such constants are `llvm::User`s.
        let count = if has_operands { unsafe { self.operand_count() } } else { 0 };
        // SAFETY: the value is a `llvm::User` with this operand.
        (0..count).filter_map(move |index| unsafe { self.operand_at(index) })
    }

    /// # Safety
    /// The value is a `llvm::User`: a constant or an instruction.
    pub(crate) unsafe fn operand_count(self) -> u32 {
        // SAFETY: passed on. LLVM's number is not negative.
        unsafe { (self.module.functions_table().LLVMGetNumOperands)(self.raw) as u32 }
    }

    /// # Safety
    /// The value is a `llvm::User` and `index` is below its number of operands.
    pub(crate) unsafe fn operand_at(self, index: u32) -> Option<Value<'m>> {
        // SAFETY: passed on.
        unsafe { (self.module.functions_table().LLVMGetOperand)(self.raw, index) }
            .map(|raw| Self::new(raw, self.module))
    }

    /// What an expression on constants does.
    pub fn expression_opcode(self) -> Option<Opcode> {
        (self.kind() == ValueKind::Expression).then(|| {
            // SAFETY: the value is a constant expression.
            Opcode(unsafe { (self.module.functions_table().LLVMGetConstOpcode)(self.raw) } as u16)
        })
    }

    /// The type that an address expression on constants steps through.
    pub fn expression_element(self) -> Option<Type<'m>> {
        (self.expression_opcode() == Some(Opcode::GET_ELEMENT_PTR)).then(|| {
            // SAFETY: the value is a `getelementptr` expression.
            let raw =
                unsafe { (self.module.functions_table().LLVMGetGEPSourceElementType)(self.raw) };
            Type::new(raw, self.module)
        })
    }

    /// The function and block whose address it is.
    pub fn block_address(self) -> Option<(Function<'m>, Block<'m>)> {
        (self.kind() == ValueKind::BlockAddress).then(|| {
            let functions = self.module.functions_table();
            // SAFETY: the value is a block's address.
            unsafe {
                let function = (functions.LLVMGetBlockAddressFunction)(self.raw);
                let block = (functions.LLVMGetBlockAddressBasicBlock)(self.raw);
                (Function::new(function, self.module), Block::new(block, self.module))
            }
        })
    }

    /// The value as a function, variable, alias or ifunc.
    pub fn as_global(self) -> Option<Global<'m>> {
        matches!(
            self.kind(),
            ValueKind::Function | ValueKind::Alias | ValueKind::IFunc | ValueKind::Variable
        )
        .then(|| Global::new(self.raw, self.module))
    }
}

impl Module<'_> {
    /// The constant `value` of `bits` bits.
    pub fn const_int(&self, bits: u32, value: u64) -> Value<'_> {
        let ty = self.int_type(bits);
        // SAFETY: the type is an integer's.
        let raw = unsafe { (self.functions_table().LLVMConstInt)(ty.raw, value, 0) };
        Value::new(raw, self)
    }

    /// The constant whose bytes are zero.
    pub fn const_zero(&self, ty: Type<'_>) -> Value<'_> {
        ty.check(self);
        assert!(ty.is_sized(), "a constant has a size");
        // SAFETY: the type is sized and of this module's context.
        let raw = unsafe { (self.functions_table().LLVMConstNull)(ty.raw) };
        Value::new(raw, self)
    }

    /// The bytes as an array.
    pub fn const_bytes(&self, bytes: &[u8]) -> Value<'_> {
        // SAFETY: pointer and length are those of `bytes`.
        let raw = unsafe {
            (self.functions_table().LLVMConstStringInContext2)(
                self.context.raw,
                bytes.as_ptr().cast(),
                bytes.len(),
                1,
            )
        };
        Value::new(raw, self)
    }

    /// The constants as fields of a structure.
    pub fn const_struct(&self, fields: &[Value<'_>]) -> Value<'_> {
        let mut raw = self.constants(fields);
        // SAFETY: the fields are constants of this module's context.
        let raw = unsafe {
            let count = raw.len() as u32;
            let functions = self.functions_table();
            (functions.LLVMConstStructInContext)(self.context.raw, raw.as_mut_ptr(), count, 0)
        };
        Value::new(raw, self)
    }

    /// The pointer constants as an array.
    pub fn const_pointers(&self, pointers: &[Value<'_>]) -> Value<'_> {
        let pointer = self.pointer_type();
        assert!(
            pointers.iter().all(|it| it.ty().id() == pointer.id()),
            "the elements of an array are of one type"
        );
        let mut raw = self.constants(pointers);
        // SAFETY: the elements are constants of the array's element type.
        let raw = unsafe {
            let count = raw.len() as u64;
            (self.functions_table().LLVMConstArray2)(pointer.raw, raw.as_mut_ptr(), count)
        };
        Value::new(raw, self)
    }

    fn constants(&self, values: &[Value<'_>]) -> Vec<ValueRef> {
        let functions = self.functions_table();
        let raw = |it: &Value<'_>| {
            it.check(self);
            // SAFETY: the value is alive.
            assert!(unsafe { (functions.LLVMIsConstant)(it.raw) } != 0, "constants hold constants");
            it.raw
        };
        values.iter().map(raw).collect()
    }
}
