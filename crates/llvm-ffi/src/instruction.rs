//! Instructions.

use std::ops::Deref;

use crate::table::{FUNCTION_INDEX, ValueRef};
use crate::{Attribute, Block, Metadata, Module, Type, Value};

/// What an instruction does, by LLVM's C API number, which is the same in all
/// supported versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opcode(pub(crate) u16);

macro_rules! opcodes {
    ($($name:ident = $number:literal $text:literal)*) => {
        impl Opcode {
            $(
                #[doc = concat!("`", $text, "`")]
                pub const $name: Self = Self($number);
            )*
        }
    };
}

opcodes! {
    RET = 1 "ret"
    BR = 2 "br"
    SWITCH = 3 "switch"
    INDIRECT_BR = 4 "indirectbr"
    INVOKE = 5 "invoke"
    UNREACHABLE = 7 "unreachable"
    ALLOCA = 26 "alloca"
    LOAD = 27 "load"
    STORE = 28 "store"
    GET_ELEMENT_PTR = 29 "getelementptr"
    PTR_TO_INT = 39 "ptrtoint"
    INT_TO_PTR = 40 "inttoptr"
    BIT_CAST = 41 "bitcast"
    ICMP = 42 "icmp"
    FCMP = 43 "fcmp"
    PHI = 44 "phi"
    CALL = 45 "call"
    SELECT = 46 "select"
    VA_ARG = 49 "va_arg"
    FENCE = 55 "fence"
    ATOMIC_CMPXCHG = 56 "cmpxchg"
    ATOMIC_RMW = 57 "atomicrmw"
    RESUME = 58 "resume"
    LANDING_PAD = 59 "landingpad"
    ADDR_SPACE_CAST = 60 "addrspacecast"
    CLEANUP_RET = 61 "cleanupret"
    CATCH_RET = 62 "catchret"
    CATCH_PAD = 63 "catchpad"
    CLEANUP_PAD = 64 "cleanuppad"
    CATCH_SWITCH = 65 "catchswitch"
    CALL_BR = 67 "callbr"
}

impl Opcode {
    /// LLVM's C API number.
    pub fn number(self) -> u16 {
        self.0
    }

    /// Whether it ends a block.
    pub fn is_terminator(self) -> bool {
        matches!(
            self,
            Self::RET
                | Self::BR
                | Self::SWITCH
                | Self::INDIRECT_BR
                | Self::INVOKE
                | Self::UNREACHABLE
                | Self::RESUME
                | Self::CLEANUP_RET
                | Self::CATCH_RET
                | Self::CATCH_SWITCH
                | Self::CALL_BR
        )
    }

    /// Whether unwinding arrives at it.
    pub fn is_exception_pad(self) -> bool {
        matches!(self, Self::LANDING_PAD | Self::CATCH_PAD | Self::CLEANUP_PAD | Self::CATCH_SWITCH)
    }

    fn accesses_memory(self) -> bool {
        matches!(self, Self::LOAD | Self::STORE | Self::ATOMIC_CMPXCHG | Self::ATOMIC_RMW)
    }
}

/// An instruction.
#[derive(Clone, Copy)]
pub struct Instruction<'m> {
    value: Value<'m>,
    opcode: Opcode,
}

impl<'m> Deref for Instruction<'m> {
    type Target = Value<'m>;
    fn deref(&self) -> &Value<'m> {
        &self.value
    }
}

impl<'m> Instruction<'m> {
    /// `raw` must be an `llvm::Instruction`.
    pub(crate) fn new(raw: ValueRef, module: &'m Module<'m>) -> Self {
        // SAFETY: the value is an instruction.
        let opcode = unsafe { (module.functions_table().LLVMGetInstructionOpcode)(raw) };
        Self { value: Value::new(raw, module), opcode: Opcode(opcode as u16) }
    }

    /// What it does.
    pub fn opcode(self) -> Opcode {
        self.opcode
    }

    /// Its operands, blocks it goes to included.
    pub fn operands(self) -> impl Iterator<Item = Value<'m>> {
        // SAFETY: instructions are `llvm::User`s.
        let count = unsafe { self.value.operand_count() };
        // SAFETY: the instruction has this operand.
        (0..count).filter_map(move |index| unsafe { self.value.operand_at(index) })
    }

    /// Operand `index`, if there is one.
    pub fn operand(self, index: u32) -> Option<Value<'m>> {
        // SAFETY: instructions are `llvm::User`s; the index is in range.
        unsafe {
            if index < self.value.operand_count() { self.value.operand_at(index) } else { None }
        }
    }

    /// Where it goes, if it ends a block.
    pub fn successors(self) -> impl Iterator<Item = Block<'m>> {
        let functions = self.module.functions_table();
        let count = if self.opcode.is_terminator() {
            // SAFETY: the instruction is a terminator.
            unsafe { (functions.LLVMGetNumSuccessors)(self.raw) }
        } else {
            0
        };
        (0..count).map(move |index| {
            // SAFETY: the terminator has this successor.
            let raw = unsafe { (functions.LLVMGetSuccessor)(self.raw, index) };
            Block::new(raw, self.module)
        })
    }

    /// The condition of a `br` that has one.
    pub fn condition(self) -> Option<Value<'m>> {
        let functions = self.module.functions_table();
        // SAFETY: the instruction is a `br`, and conditional.
        unsafe {
            (self.opcode == Opcode::BR && (functions.LLVMIsConditional)(self.raw) != 0)
                .then(|| Value::new((functions.LLVMGetCondition)(self.raw), self.module))
        }
    }

    /// The values of a `switch`'s cases, for successor 1 and the following.
    pub fn cases(self) -> impl Iterator<Item = Value<'m>> {
        let is_switch = self.opcode == Opcode::SWITCH;
        let cases = if is_switch { self.successors().count().saturating_sub(1) as u32 } else { 0 };
        let by_function = self.module.context.llvm().extras.switch_case_value;
        (1..=cases).filter_map(move |successor| match by_function {
            // SAFETY: the switch has this successor, and it is not the default.
            Some(value) => unsafe { Some(Value::new(value(self.raw, successor), self.module)) },
            // Operands are the condition, the default, then value and block of
            // each case.
            None => self.operand(2 * successor),
        })
    }

    /// The blocks a `phi`'s values come with.
    pub fn incoming_blocks(self) -> impl Iterator<Item = Block<'m>> {
        let functions = self.module.functions_table();
        let count = if self.opcode == Opcode::PHI {
            // SAFETY: the operands of a `phi` are its values.
            unsafe { self.value.operand_count() }
        } else {
            0
        };
        (0..count).map(move |index| {
            // SAFETY: the `phi` has this value.
            let raw = unsafe { (functions.LLVMGetIncomingBlock)(self.raw, index) };
            Block::new(raw, self.module)
        })
    }

    /// The type of what an `alloca` allocates.
    pub fn allocated(self) -> Option<Type<'m>> {
        (self.opcode == Opcode::ALLOCA).then(|| {
            // SAFETY: the instruction is an `alloca`.
            let raw = unsafe { (self.module.functions_table().LLVMGetAllocatedType)(self.raw) };
            Type::new(raw, self.module)
        })
    }

    /// The type a `getelementptr` steps through.
    pub fn element(self) -> Option<Type<'m>> {
        (self.opcode == Opcode::GET_ELEMENT_PTR).then(|| {
            // SAFETY: the instruction is a `getelementptr`.
            let raw =
                unsafe { (self.module.functions_table().LLVMGetGEPSourceElementType)(self.raw) };
            Type::new(raw, self.module)
        })
    }

    /// Whether a memory access is volatile.
    pub fn is_volatile(self) -> bool {
        // SAFETY: the instruction is one of those that can be.
        self.opcode.accesses_memory()
            && unsafe { (self.module.functions_table().LLVMGetVolatile)(self.raw) != 0 }
    }

    /// Whether a memory access is atomic.
    pub fn is_atomic(self) -> bool {
        match self.opcode {
            Opcode::ATOMIC_CMPXCHG | Opcode::ATOMIC_RMW => true,
            // SAFETY: the instruction is a load or a store.
            Opcode::LOAD | Opcode::STORE => unsafe {
                (self.module.functions_table().LLVMGetOrdering)(self.raw) != 0
            },
            _ => false,
        }
    }

    /// Its source position, if it has one.
    pub fn debug_location(self) -> Option<Metadata<'m>> {
        // SAFETY: the value is an instruction.
        unsafe { (self.module.functions_table().LLVMInstructionGetDebugLoc)(self.raw) }
            .map(|raw| Metadata::new(raw, self.module))
    }

    /// The metadata of this kind attached to it, if there is some.
    pub fn metadata(self, kind: &str) -> Option<Metadata<'m>> {
        let functions = self.module.functions_table();
        // SAFETY: the value is an instruction; what is attached to one is a
        // node, wrapped as a value.
        unsafe {
            let node = (functions.LLVMGetMetadata)(self.raw, self.kind_number(kind))?;
            Some(Metadata::new((functions.LLVMValueAsMetadata)(node), self.module))
        }
    }

    /// Marks it with metadata of this kind that holds nothing, as sanitizers
    /// and passes ask for (`nosanitize`).
    pub fn mark(self, kind: &str) {
        let functions = self.module.functions_table();
        let context = self.module.context.raw;
        // SAFETY: an empty list of operands may be null; the value is an
        // instruction.
        unsafe {
            let node = (functions.LLVMMDNodeInContext2)(context, std::ptr::null_mut(), 0);
            let node = (functions.LLVMMetadataAsValue)(context, node);
            (functions.LLVMSetMetadata)(self.raw, self.kind_number(kind), Some(node));
        }
    }

    /// Takes the metadata of this kind from it.
    pub fn unmark(self, kind: &str) {
        let functions = self.module.functions_table();
        // SAFETY: the value is an instruction; null stands for none.
        unsafe { (functions.LLVMSetMetadata)(self.raw, self.kind_number(kind), None) }
    }

    /// This context's number of a kind of metadata.
    fn kind_number(self, kind: &str) -> u32 {
        let (start, length) = (kind.as_ptr().cast(), kind.len() as u32);
        let functions = self.module.functions_table();
        // SAFETY: pointer and length are those of `kind`.
        unsafe { (functions.LLVMGetMDKindIDInContext)(self.module.context.raw, start, length) }
    }

    /// The instruction as a call, if it is `call`, `invoke` or `callbr`.
    pub fn as_call(self) -> Option<Call<'m>> {
        matches!(self.opcode, Opcode::CALL | Opcode::INVOKE | Opcode::CALL_BR)
            .then_some(Call { instruction: self })
    }
}

/// A call: `call`, `invoke` or `callbr`.
#[derive(Clone, Copy)]
pub struct Call<'m> {
    instruction: Instruction<'m>,
}

impl<'m> Deref for Call<'m> {
    type Target = Instruction<'m>;
    fn deref(&self) -> &Instruction<'m> {
        &self.instruction
    }
}

impl<'m> Call<'m> {
    /// What is called.
    pub fn callee(self) -> Value<'m> {
        // SAFETY: the instruction is a call.
        let raw = unsafe { (self.module.functions_table().LLVMGetCalledValue)(self.raw) };
        Value::new(raw, self.module)
    }

    /// The function type it is called with.
    pub fn signature(self) -> Type<'m> {
        // SAFETY: the instruction is a call.
        let raw = unsafe { (self.module.functions_table().LLVMGetCalledFunctionType)(self.raw) };
        Type::new(raw, self.module)
    }

    /// The arguments.
    pub fn arguments(self) -> impl Iterator<Item = Value<'m>> {
        // SAFETY: the instruction is a call.
        let count = unsafe { (self.module.functions_table().LLVMGetNumArgOperands)(self.raw) };
        // SAFETY: a call's first operands are its arguments.
        (0..count).filter_map(move |index| unsafe { self.value.operand_at(index) })
    }

    /// Whether it must be a tail call.
    pub fn is_must_tail(self) -> bool {
        self.tail_kind() == 2
    }

    /// Whether it may be a tail call.
    pub fn may_be_tail(self) -> bool {
        self.tail_kind() == 1
    }

    /// `LLVMTailCallKind`.
    fn tail_kind(self) -> u32 {
        match self.opcode {
            // SAFETY: asked of `call` only, as LLVM demands.
            Opcode::CALL => unsafe {
                (self.module.functions_table().LLVMGetTailCallKind)(self.raw)
            },
            _ => 0,
        }
    }

    /// Whether the call itself, not the callee, has the attribute.
    pub fn has(self, attribute: Attribute) -> bool {
        let functions = self.module.functions_table();
        // SAFETY: the instruction is a call, the number an attribute's.
        unsafe {
            (functions.LLVMGetCallSiteEnumAttribute)(self.raw, FUNCTION_INDEX, attribute.0)
                .is_some()
        }
    }

    /// Gives the call an attribute that is there or not.
    pub fn add(self, attribute: Attribute) {
        let functions = self.module.functions_table();
        // SAFETY: the instruction is a call, the number an attribute's.
        unsafe {
            let it = (functions.LLVMCreateEnumAttribute)(self.module.context.raw, attribute.0, 0);
            (functions.LLVMAddCallSiteAttribute)(self.raw, FUNCTION_INDEX, it);
        }
    }

    /// Takes an attribute from the call.
    pub fn remove(self, attribute: Attribute) {
        let functions = self.module.functions_table();
        // SAFETY: the instruction is a call, the number an attribute's.
        unsafe {
            (functions.LLVMRemoveCallSiteEnumAttribute)(self.raw, FUNCTION_INDEX, attribute.0)
        }
    }
}
