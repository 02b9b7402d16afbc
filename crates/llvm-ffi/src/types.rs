//! Types and their layout.

use crate::Module;
use crate::table::TypeRef;

/// What sort of type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeKind {
    /// No value.
    Void,
    /// A floating-point number of any format.
    Float,
    /// An integer.
    Int,
    /// A function.
    Function,
    /// A structure.
    Struct,
    /// An array.
    Array,
    /// A pointer.
    Pointer,
    /// A vector of fixed length.
    Vector,
    /// A vector whose length the machine decides.
    ScalableVector,
    /// Labels, tokens, metadata, types of a target.
    Other,
}

/// A type.
#[derive(Clone, Copy)]
pub struct Type<'m> {
    pub(crate) raw: TypeRef,
    pub(crate) module: &'m Module<'m>,
}

impl<'m> Type<'m> {
    pub(crate) fn new(raw: TypeRef, module: &'m Module<'m>) -> Self {
        Self { raw, module }
    }

    /// Panics unless the type belongs to `module`.
    pub(crate) fn check(self, module: &Module<'_>) {
        assert!(self.module.is_same(module), "types of two modules must not be mixed");
    }

    /// A number that is the same for the same type of one module.
    pub fn id(self) -> usize {
        self.raw.as_ptr() as usize
    }

    /// What sort of type it is.
    pub fn kind(self) -> TypeKind {
        // SAFETY: the type is alive as long as its context.
        match unsafe { (self.module.functions_table().LLVMGetTypeKind)(self.raw) } {
            0 => TypeKind::Void,
            1..=6 | 18 => TypeKind::Float,
            8 => TypeKind::Int,
            9 => TypeKind::Function,
            10 => TypeKind::Struct,
            11 => TypeKind::Array,
            12 => TypeKind::Pointer,
            13 => TypeKind::Vector,
            17 => TypeKind::ScalableVector,
            _ => TypeKind::Other,
        }
    }

    /// Whether it is a function's type.
    pub fn is_function(self) -> bool {
        self.kind() == TypeKind::Function
    }

    /// Whether it is a type of functions that take a variable number of arguments.
    pub fn is_variadic(self) -> bool {
        // SAFETY: asked of functions' types only.
        self.is_function()
            && unsafe { (self.module.functions_table().LLVMIsFunctionVarArg)(self.raw) != 0 }
    }

    /// Whether values of it have a size.
    pub fn is_sized(self) -> bool {
        // SAFETY: the type is alive.
        unsafe { (self.module.functions_table().LLVMTypeIsSized)(self.raw) != 0 }
    }

    /// How many bits an integer has.
    pub fn int_bits(self) -> Option<u32> {
        (self.kind() == TypeKind::Int).then(|| {
            // SAFETY: the type is an integer's.
            unsafe { (self.module.functions_table().LLVMGetIntTypeWidth)(self.raw) }
        })
    }

    /// The type of an array's or vector's elements.
    pub fn element(self) -> Option<Self> {
        matches!(self.kind(), TypeKind::Array | TypeKind::Vector | TypeKind::ScalableVector).then(
            || {
                // SAFETY: the type is an array's or a vector's.
                let raw = unsafe { (self.module.functions_table().LLVMGetElementType)(self.raw) };
                Self::new(raw, self.module)
            },
        )
    }

    /// The types of a structure's fields.
    pub fn fields(self) -> impl Iterator<Item = Self> {
        let functions = self.module.functions_table();
        let count = if self.kind() == TypeKind::Struct {
            // SAFETY: the type is a structure's.
            unsafe { (functions.LLVMCountStructElementTypes)(self.raw) }
        } else {
            0
        };
        (0..count).map(move |index| {
            // SAFETY: the type is a structure's and has this field.
            let raw = unsafe { (functions.LLVMStructGetTypeAtIndex)(self.raw, index) };
            Self::new(raw, self.module)
        })
    }

    /// Whether the size is known now: it is not for scalable vectors, types of
    /// a target, and what contains them.
    pub fn has_fixed_size(self) -> bool {
        let mut left = vec![self];
        while let Some(it) = left.pop() {
            match it.kind() {
                TypeKind::Array | TypeKind::Vector => left.extend(it.element()),
                TypeKind::Struct => left.extend(it.fields()),
                TypeKind::ScalableVector | TypeKind::Other => return false,
                _ => {}
            }
        }
        self.is_sized()
    }

    /// Bytes a store of it may write, if that is fixed.
    pub fn store_size(self) -> Option<u64> {
        self.has_fixed_size().then(|| {
            let functions = self.module.functions_table();
            // SAFETY: the type has a fixed size; the layout is the module's.
            unsafe {
                let layout = (functions.LLVMGetModuleDataLayout)(self.module.raw);
                (functions.LLVMStoreSizeOfType)(layout, self.raw)
            }
        })
    }

    /// Bytes from one element of an array of it to the next, if that is fixed.
    pub fn stride(self) -> Option<u64> {
        self.has_fixed_size().then(|| {
            let functions = self.module.functions_table();
            // SAFETY: the type has a fixed size; the layout is the module's.
            unsafe {
                let layout = (functions.LLVMGetModuleDataLayout)(self.module.raw);
                (functions.LLVMABISizeOfType)(layout, self.raw)
            }
        })
    }

    /// Bytes from a structure's start to field `index`, if it has that.
    pub fn field_offset(self, index: u32) -> Option<u64> {
        if self.kind() != TypeKind::Struct || !self.has_fixed_size() {
            return None;
        }
        let functions = self.module.functions_table();
        // SAFETY: the type is a structure's of fixed size with this field.
        unsafe {
            if index >= (functions.LLVMCountStructElementTypes)(self.raw) {
                return None;
            }
            let layout = (functions.LLVMGetModuleDataLayout)(self.module.raw);
            Some((functions.LLVMOffsetOfElement)(layout, self.raw, index))
        }
    }
}

impl Module<'_> {
    /// Arrays of `count` elements.
    pub fn array_type<'m>(&'m self, element: Type<'m>, count: u64) -> Type<'m> {
        element.check(self);
        assert!(element.is_sized(), "elements have a size");
        // SAFETY: the type is sized and of this module's context.
        let raw = unsafe { (self.functions_table().LLVMArrayType2)(element.raw, count) };
        Type::new(raw, self)
    }

    /// Pointers into an address space.
    pub fn pointer_type_in(&self, space: u32) -> Type<'_> {
        // SAFETY: the context is alive.
        let raw =
            unsafe { (self.functions_table().LLVMPointerTypeInContext)(self.context.raw, space) };
        Type::new(raw, self)
    }

    /// The type without values.
    pub fn void_type(&self) -> Type<'_> {
        // SAFETY: the context is alive.
        let raw = unsafe { (self.functions_table().LLVMVoidTypeInContext)(self.context.raw) };
        Type::new(raw, self)
    }

    /// Integers of `bits` bits.
    pub fn int_type(&self, bits: u32) -> Type<'_> {
        assert!((1..=128).contains(&bits), "integers of {bits} bits are not used here");
        // SAFETY: the context is alive, the width within LLVM's limits.
        let raw = unsafe { (self.functions_table().LLVMIntTypeInContext)(self.context.raw, bits) };
        Type::new(raw, self)
    }

    /// Pointers.
    pub fn pointer_type(&self) -> Type<'_> {
        // SAFETY: the context is alive.
        let raw = unsafe { (self.functions_table().LLVMPointerTypeInContext)(self.context.raw, 0) };
        Type::new(raw, self)
    }

    /// Functions from `parameters` to `result`.
    pub fn function_type(&self, result: Type<'_>, parameters: &[Type<'_>]) -> Type<'_> {
        result.check(self);
        let mut raw: Vec<_> = parameters
            .iter()
            .map(|it| {
                it.check(self);
                assert!(it.is_sized(), "a parameter has a size");
                it.raw
            })
            .collect();
        // SAFETY: the types are of this module's context; the list has the
        // length that is given.
        let raw = unsafe {
            let count = raw.len() as u32;
            (self.functions_table().LLVMFunctionType)(result.raw, raw.as_mut_ptr(), count, 0)
        };
        Type::new(raw, self)
    }
}
