//! The function table: every C function we use, with its type.
//!
//! Types follow the headers `llvm-c/*.h` of LLVM 19 to 22. A pointer that the
//! API never leaves null is a [`NonNull`], one that may be null an
//! `Option<NonNull>`; both have the layout of a C pointer. Enumerations are
//! passed as C `unsigned`, so that a value unknown to us is a number and not
//! undefined behaviour.

#![allow(non_snake_case)]

use std::ffi::{c_char, c_int, c_longlong, c_uint, c_ulonglong, c_void};
use std::ptr::NonNull;

use libloading::os::unix::Library;

macro_rules! opaque {
    ($($name:ident $reference:ident)*) => {$(
        #[repr(C)]
        pub struct $name {
            private: [u8; 0],
        }
        pub type $reference = NonNull<$name>;
    )*};
}

opaque! {
    OpaqueContext ContextRef
    OpaqueModule ModuleRef
    OpaqueValue ValueRef
    OpaqueBlock BlockRef
    OpaqueType TypeRef
    OpaqueMetadata MetadataRef
    OpaqueAttribute AttributeRef
    OpaqueBuilder BuilderRef
    OpaqueBuffer BufferRef
    OpaqueDiagnostic DiagnosticRef
    OpaqueComdat ComdatRef
    OpaqueTargetData TargetDataRef
    OpaqueTarget TargetRef
    OpaqueTargetMachine TargetMachineRef
    OpaqueStream StreamRef
    OpaqueUse UseRef
    OpaquePassOptions PassOptionsRef
    OpaqueError ErrorRef
    OpaqueDebugBuilder DebugBuilderRef
    OpaqueDebugRecord DebugRecordRef
}

/// `LLVMBool`.
pub type Bool = c_int;
/// `LLVMDiagnosticHandler`.
pub type DiagnosticHandler = extern "C" fn(DiagnosticRef, *mut c_void);
/// `LLVMFatalErrorHandler`.
pub type FatalHandler = extern "C" fn(*const c_char);
/// `LLVMAttributeFunctionIndex`.
pub const FUNCTION_INDEX: c_uint = c_uint::MAX;

/// `llvm::StringRef`, which C++ returns in two registers as C would this.
#[repr(C)]
pub struct StringRef {
    pub data: *const u8,
    pub length: usize,
}

macro_rules! functions {
    ($(fn $name:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The functions every supported libLLVM has.
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Resolves all functions, or names the first that is missing.
            pub fn resolve(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the symbol has the type that LLVM's headers
                        // give it, and the library is never closed.
                        match unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) } {
                            Ok(symbol) => *symbol,
                            Err(_) => return Err(stringify!($name)),
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    // Contexts, diagnostics, messages.
    fn LLVMContextCreate() -> ContextRef;
    fn LLVMContextDispose(ContextRef);
    fn LLVMContextSetDiagnosticHandler(ContextRef, Option<DiagnosticHandler>, *mut c_void);
    fn LLVMGetDiagInfoDescription(DiagnosticRef) -> *mut c_char;
    fn LLVMGetDiagInfoSeverity(DiagnosticRef) -> c_uint;
    fn LLVMDisposeMessage(*mut c_char);
    fn LLVMInstallFatalErrorHandler(FatalHandler);
    fn LLVMGetMDKindIDInContext(ContextRef, *const c_char, c_uint) -> c_uint;

    // Buffers, bitcode, verification.
    fn LLVMCreateMemoryBufferWithMemoryRange(*const c_char, usize, *const c_char, Bool) -> BufferRef;
    fn LLVMGetBufferStart(BufferRef) -> *const c_char;
    fn LLVMGetBufferSize(BufferRef) -> usize;
    fn LLVMDisposeMemoryBuffer(BufferRef);
    fn LLVMParseBitcodeInContext2(ContextRef, BufferRef, *mut Option<ModuleRef>) -> Bool;
    fn LLVMWriteBitcodeToMemoryBuffer(ModuleRef) -> BufferRef;
    fn LLVMVerifyModule(ModuleRef, c_uint, *mut *mut c_char) -> Bool;
    fn LLVMStripModuleDebugInfo(ModuleRef) -> Bool;
    fn LLVMCloneModule(ModuleRef) -> ModuleRef;
    fn LLVMAddModuleFlag(ModuleRef, c_uint, *const c_char, usize, MetadataRef);
    fn LLVMGetModuleFlag(ModuleRef, *const c_char, usize) -> Option<MetadataRef>;

    // Modules.
    fn LLVMDisposeModule(ModuleRef);
    fn LLVMGetModuleInlineAsm(ModuleRef, *mut usize) -> *const c_char;
    fn LLVMSetModuleInlineAsm2(ModuleRef, *const c_char, usize);
    fn LLVMLinkModules2(ModuleRef, ModuleRef) -> Bool;
    fn LLVMGetTarget(ModuleRef) -> *const c_char;
    fn LLVMGetModuleDataLayout(ModuleRef) -> TargetDataRef;
    fn LLVMPrintModuleToString(ModuleRef) -> *mut c_char;
    fn LLVMGetFirstFunction(ModuleRef) -> Option<ValueRef>;
    fn LLVMGetNextFunction(ValueRef) -> Option<ValueRef>;
    fn LLVMGetFirstGlobal(ModuleRef) -> Option<ValueRef>;
    fn LLVMGetNextGlobal(ValueRef) -> Option<ValueRef>;
    fn LLVMGetFirstGlobalAlias(ModuleRef) -> Option<ValueRef>;
    fn LLVMGetNextGlobalAlias(ValueRef) -> Option<ValueRef>;
    fn LLVMGetFirstGlobalIFunc(ModuleRef) -> Option<ValueRef>;
    fn LLVMGetNextGlobalIFunc(ValueRef) -> Option<ValueRef>;
    fn LLVMGetNamedFunction(ModuleRef, *const c_char) -> Option<ValueRef>;
    fn LLVMGetNamedGlobal(ModuleRef, *const c_char) -> Option<ValueRef>;
    fn LLVMAddFunction(ModuleRef, *const c_char, TypeRef) -> ValueRef;
    fn LLVMAddGlobal(ModuleRef, TypeRef, *const c_char) -> ValueRef;
    fn LLVMAddGlobalInAddressSpace(ModuleRef, TypeRef, *const c_char, c_uint) -> ValueRef;
    fn LLVMDeleteGlobal(ValueRef);

    // Types.
    fn LLVMGetTypeKind(TypeRef) -> c_uint;
    fn LLVMTypeIsSized(TypeRef) -> Bool;
    fn LLVMGetIntTypeWidth(TypeRef) -> c_uint;
    fn LLVMIntTypeInContext(ContextRef, c_uint) -> TypeRef;
    fn LLVMVoidTypeInContext(ContextRef) -> TypeRef;
    fn LLVMPointerTypeInContext(ContextRef, c_uint) -> TypeRef;
    fn LLVMArrayType2(TypeRef, u64) -> TypeRef;
    fn LLVMFunctionType(TypeRef, *mut TypeRef, c_uint, Bool) -> TypeRef;
    fn LLVMIsFunctionVarArg(TypeRef) -> Bool;
    fn LLVMGetElementType(TypeRef) -> TypeRef;
    fn LLVMCountStructElementTypes(TypeRef) -> c_uint;
    fn LLVMStructGetTypeAtIndex(TypeRef, c_uint) -> TypeRef;
    fn LLVMStoreSizeOfType(TargetDataRef, TypeRef) -> c_ulonglong;
    fn LLVMABISizeOfType(TargetDataRef, TypeRef) -> c_ulonglong;
    fn LLVMOffsetOfElement(TargetDataRef, TypeRef, c_uint) -> c_ulonglong;

    // Values and constants.
    fn LLVMTypeOf(ValueRef) -> TypeRef;
    fn LLVMGetValueKind(ValueRef) -> c_uint;
    fn LLVMGetValueName2(ValueRef, *mut usize) -> *const c_char;
    fn LLVMSetValueName2(ValueRef, *const c_char, usize);
    fn LLVMIsConstant(ValueRef) -> Bool;
    fn LLVMIsNull(ValueRef) -> Bool;
    fn LLVMIsConstantString(ValueRef) -> Bool;
    fn LLVMGetAsString(ValueRef, *mut usize) -> *const c_char;
    fn LLVMGetFirstUse(ValueRef) -> Option<UseRef>;
    fn LLVMGetNextUse(UseRef) -> Option<UseRef>;
    fn LLVMGetUser(UseRef) -> ValueRef;
    fn LLVMSetOperand(ValueRef, c_uint, ValueRef);
    fn LLVMGetPoison(TypeRef) -> ValueRef;
    fn LLVMBlockAddress(ValueRef, BlockRef) -> ValueRef;
    fn LLVMGetNumOperands(ValueRef) -> c_int;
    fn LLVMGetOperand(ValueRef, c_uint) -> Option<ValueRef>;
    fn LLVMConstIntGetSExtValue(ValueRef) -> c_longlong;
    fn LLVMGetConstOpcode(ValueRef) -> c_uint;
    fn LLVMGetGEPSourceElementType(ValueRef) -> TypeRef;
    fn LLVMGetBlockAddressFunction(ValueRef) -> ValueRef;
    fn LLVMGetBlockAddressBasicBlock(ValueRef) -> BlockRef;
    fn LLVMConstInt(TypeRef, c_ulonglong, Bool) -> ValueRef;
    fn LLVMConstNull(TypeRef) -> ValueRef;
    fn LLVMConstStringInContext2(ContextRef, *const c_char, usize, Bool) -> ValueRef;
    fn LLVMConstStructInContext(ContextRef, *mut ValueRef, c_uint, Bool) -> ValueRef;
    fn LLVMConstArray2(TypeRef, *mut ValueRef, u64) -> ValueRef;

    // Globals.
    fn LLVMIsDeclaration(ValueRef) -> Bool;
    fn LLVMGetLinkage(ValueRef) -> c_uint;
    fn LLVMSetLinkage(ValueRef, c_uint);
    fn LLVMGetVisibility(ValueRef) -> c_uint;
    fn LLVMSetVisibility(ValueRef, c_uint);
    fn LLVMGetUnnamedAddress(ValueRef) -> c_uint;
    fn LLVMSetUnnamedAddress(ValueRef, c_uint);
    fn LLVMGetSection(ValueRef) -> *const c_char;
    fn LLVMSetSection(ValueRef, *const c_char);
    fn LLVMSetAlignment(ValueRef, c_uint);
    fn LLVMGlobalGetValueType(ValueRef) -> TypeRef;
    fn LLVMGetInitializer(ValueRef) -> Option<ValueRef>;
    fn LLVMSetInitializer(ValueRef, ValueRef);
    fn LLVMIsThreadLocal(ValueRef) -> Bool;
    fn LLVMIsGlobalConstant(ValueRef) -> Bool;
    fn LLVMAliasGetAliasee(ValueRef) -> Option<ValueRef>;
    fn LLVMGetGlobalIFuncResolver(ValueRef) -> Option<ValueRef>;
    fn LLVMGetComdat(ValueRef) -> Option<ComdatRef>;
    fn LLVMGetComdatSelectionKind(ComdatRef) -> c_uint;
    fn LLVMSetComdat(ValueRef, Option<ComdatRef>);
    fn LLVMGetOrInsertComdat(ModuleRef, *const c_char) -> ComdatRef;

    // Functions, blocks, attributes.
    fn LLVMGetIntrinsicID(ValueRef) -> c_uint;
    fn LLVMCountParams(ValueRef) -> c_uint;
    fn LLVMGetParam(ValueRef, c_uint) -> ValueRef;
    fn LLVMCountBasicBlocks(ValueRef) -> c_uint;
    fn LLVMGetFirstBasicBlock(ValueRef) -> Option<BlockRef>;
    fn LLVMGetNextBasicBlock(BlockRef) -> Option<BlockRef>;
    fn LLVMGetFirstInstruction(BlockRef) -> Option<ValueRef>;
    fn LLVMGetNextInstruction(ValueRef) -> Option<ValueRef>;
    fn LLVMGetEnumAttributeKindForName(*const c_char, usize) -> c_uint;
    fn LLVMCreateEnumAttribute(ContextRef, c_uint, u64) -> AttributeRef;
    fn LLVMCreateTypeAttribute(ContextRef, c_uint, TypeRef) -> AttributeRef;
    fn LLVMGetEnumAttributeAtIndex(ValueRef, c_uint, c_uint) -> Option<AttributeRef>;
    fn LLVMAddAttributeAtIndex(ValueRef, c_uint, AttributeRef);
    fn LLVMRemoveEnumAttributeAtIndex(ValueRef, c_uint, c_uint);
    fn LLVMGetSubprogram(ValueRef) -> Option<MetadataRef>;
    fn LLVMSetSubprogram(ValueRef, MetadataRef);
    fn LLVMHasPersonalityFn(ValueRef) -> Bool;
    fn LLVMSetPersonalityFn(ValueRef, Option<ValueRef>);

    // Instructions.
    fn LLVMGetInstructionOpcode(ValueRef) -> c_uint;
    fn LLVMGetNumSuccessors(ValueRef) -> c_uint;
    fn LLVMGetSuccessor(ValueRef, c_uint) -> BlockRef;
    fn LLVMIsConditional(ValueRef) -> Bool;
    fn LLVMGetCondition(ValueRef) -> ValueRef;
    fn LLVMGetIncomingBlock(ValueRef, c_uint) -> BlockRef;
    fn LLVMGetAllocatedType(ValueRef) -> TypeRef;
    fn LLVMGetVolatile(ValueRef) -> Bool;
    fn LLVMGetOrdering(ValueRef) -> c_uint;
    fn LLVMGetCalledValue(ValueRef) -> ValueRef;
    fn LLVMGetCalledFunctionType(ValueRef) -> TypeRef;
    fn LLVMGetNumArgOperands(ValueRef) -> c_uint;
    fn LLVMGetTailCallKind(ValueRef) -> c_uint;
    fn LLVMGetCallSiteEnumAttribute(ValueRef, c_uint, c_uint) -> Option<AttributeRef>;
    fn LLVMAddCallSiteAttribute(ValueRef, c_uint, AttributeRef);
    fn LLVMRemoveCallSiteEnumAttribute(ValueRef, c_uint, c_uint);
    fn LLVMInstructionGetDebugLoc(ValueRef) -> Option<MetadataRef>;
    fn LLVMGetMetadata(ValueRef, c_uint) -> Option<ValueRef>;
    fn LLVMSetMetadata(ValueRef, c_uint, Option<ValueRef>);

    // Metadata.
    fn LLVMGetMetadataKind(MetadataRef) -> c_uint;
    fn LLVMMetadataAsValue(ContextRef, MetadataRef) -> ValueRef;
    fn LLVMValueAsMetadata(ValueRef) -> MetadataRef;
    fn LLVMMDNodeInContext2(ContextRef, *mut MetadataRef, usize) -> MetadataRef;
    fn LLVMGetMDNodeNumOperands(ValueRef) -> c_uint;
    fn LLVMGetMDNodeOperands(ValueRef, *mut Option<ValueRef>);
    fn LLVMGetMDString(ValueRef, *mut c_uint) -> *const c_char;
    fn LLVMDILocationGetLine(MetadataRef) -> c_uint;
    fn LLVMDILocationGetColumn(MetadataRef) -> c_uint;
    fn LLVMDILocationGetScope(MetadataRef) -> Option<MetadataRef>;
    fn LLVMDILocationGetInlinedAt(MetadataRef) -> Option<MetadataRef>;
    fn LLVMDISubprogramGetLine(MetadataRef) -> c_uint;
    fn LLVMDIScopeGetFile(MetadataRef) -> Option<MetadataRef>;
    fn LLVMDIFileGetDirectory(MetadataRef, *mut c_uint) -> *const c_char;
    fn LLVMDIFileGetFilename(MetadataRef, *mut c_uint) -> *const c_char;

    // Making debug information.
    fn LLVMDebugMetadataVersion() -> c_uint;
    fn LLVMCreateDIBuilder(ModuleRef) -> DebugBuilderRef;
    fn LLVMDisposeDIBuilder(DebugBuilderRef);
    fn LLVMDIBuilderFinalize(DebugBuilderRef);
    fn LLVMDIBuilderCreateFile(
        DebugBuilderRef, *const c_char, usize, *const c_char, usize,
    ) -> MetadataRef;
    fn LLVMDIBuilderCreateCompileUnit(
        DebugBuilderRef, c_uint, MetadataRef, *const c_char, usize, Bool, *const c_char, usize,
        c_uint, *const c_char, usize, c_uint, c_uint, Bool, Bool, *const c_char, usize,
        *const c_char, usize,
    ) -> MetadataRef;
    fn LLVMDIBuilderCreateFunction(
        DebugBuilderRef, MetadataRef, *const c_char, usize, *const c_char, usize, MetadataRef,
        c_uint, MetadataRef, Bool, Bool, c_uint, c_uint, Bool,
    ) -> MetadataRef;
    fn LLVMDIBuilderCreateSubroutineType(
        DebugBuilderRef, MetadataRef, *mut MetadataRef, c_uint, c_uint,
    ) -> MetadataRef;
    fn LLVMDIBuilderCreateBasicType(
        DebugBuilderRef, *const c_char, usize, u64, c_uint, c_uint,
    ) -> MetadataRef;
    fn LLVMDIBuilderCreateAutoVariable(
        DebugBuilderRef, MetadataRef, *const c_char, usize, MetadataRef, c_uint, MetadataRef,
        Bool, c_uint, u32,
    ) -> MetadataRef;
    fn LLVMDIBuilderCreateExpression(DebugBuilderRef, *mut u64, usize) -> MetadataRef;
    fn LLVMDIBuilderCreateDebugLocation(
        ContextRef, c_uint, c_uint, MetadataRef, Option<MetadataRef>,
    ) -> MetadataRef;
    fn LLVMDIBuilderInsertDeclareRecordBefore(
        DebugBuilderRef, ValueRef, MetadataRef, MetadataRef, MetadataRef, ValueRef,
    ) -> DebugRecordRef;

    // Building.
    fn LLVMCreateBuilderInContext(ContextRef) -> BuilderRef;
    fn LLVMDisposeBuilder(BuilderRef);
    fn LLVMPositionBuilderBefore(BuilderRef, ValueRef);
    fn LLVMPositionBuilderAtEnd(BuilderRef, BlockRef);
    fn LLVMBuildAlloca(BuilderRef, TypeRef, *const c_char) -> ValueRef;
    fn LLVMBuildLoad2(BuilderRef, TypeRef, ValueRef, *const c_char) -> ValueRef;
    fn LLVMBuildStore(BuilderRef, ValueRef, ValueRef) -> ValueRef;
    fn LLVMBuildAdd(BuilderRef, ValueRef, ValueRef, *const c_char) -> ValueRef;
    fn LLVMBuildGEP2(BuilderRef, TypeRef, ValueRef, *mut ValueRef, c_uint, *const c_char) -> ValueRef;
    fn LLVMBuildBr(BuilderRef, BlockRef) -> ValueRef;
    fn LLVMBuildUnreachable(BuilderRef) -> ValueRef;
    fn LLVMBuildPhi(BuilderRef, TypeRef, *const c_char) -> ValueRef;
    fn LLVMAddIncoming(ValueRef, *mut ValueRef, *mut BlockRef, c_uint);
    fn LLVMInsertIntoBuilder(BuilderRef, ValueRef);
    fn LLVMGetInlineAsmAsmString(ValueRef, *mut usize) -> *const c_char;
    fn LLVMGetInlineAsm(
        TypeRef, *const c_char, usize, *const c_char, usize, Bool, Bool, c_uint, Bool,
    ) -> ValueRef;

    // Changing what is there.
    fn LLVMAppendBasicBlockInContext(ContextRef, ValueRef, *const c_char) -> BlockRef;
    fn LLVMGetBasicBlockTerminator(BlockRef) -> Option<ValueRef>;
    fn LLVMSetSuccessor(ValueRef, c_uint, BlockRef);
    fn LLVMInstructionClone(ValueRef) -> ValueRef;
    fn LLVMInstructionSetDebugLoc(ValueRef, Option<MetadataRef>);
    fn LLVMInstructionEraseFromParent(ValueRef);
    fn LLVMDeleteBasicBlock(BlockRef);
    fn LLVMReplaceAllUsesWith(ValueRef, ValueRef);
    fn LLVMCanValueUseFastMathFlags(ValueRef) -> Bool;
    fn LLVMGetFastMathFlags(ValueRef) -> c_uint;
    fn LLVMSetFastMathFlags(ValueRef, c_uint);

    // Passes.
    fn LLVMCreatePassBuilderOptions() -> PassOptionsRef;
    fn LLVMDisposePassBuilderOptions(PassOptionsRef);
    fn LLVMRunPasses(
        ModuleRef, *const c_char, Option<TargetMachineRef>, PassOptionsRef,
    ) -> Option<ErrorRef>;
    fn LLVMGetErrorMessage(ErrorRef) -> *mut c_char;
    fn LLVMDisposeErrorMessage(*mut c_char);
    fn LLVMBuildCall2(BuilderRef, TypeRef, ValueRef, *mut ValueRef, c_uint, *const c_char) -> ValueRef;

    // Code generation.
    fn LLVMInitializeX86TargetInfo();
    fn LLVMInitializeX86Target();
    fn LLVMInitializeX86TargetMC();
    fn LLVMInitializeX86AsmPrinter();
    fn LLVMInitializeX86AsmParser();
    fn LLVMGetTargetFromTriple(*const c_char, *mut Option<TargetRef>, *mut *mut c_char) -> Bool;
    fn LLVMCreateTargetMachine(
        TargetRef, *const c_char, *const c_char, *const c_char, c_uint, c_uint, c_uint,
    ) -> Option<TargetMachineRef>;
    fn LLVMDisposeTargetMachine(TargetMachineRef);
    fn LLVMTargetMachineEmitToMemoryBuffer(
        TargetMachineRef, ModuleRef, c_uint, *mut *mut c_char, *mut Option<BufferRef>,
    ) -> Bool;
}

/// `unsigned Major, Minor, Patch` by reference.
pub type GetVersion = unsafe extern "C" fn(*mut c_uint, *mut c_uint, *mut c_uint);

/// Functions that some libraries lack; there is a way without each of them.
#[derive(Default)]
pub struct Extras {
    /// `LLVMGetSwitchCaseValue`, since LLVM 22, where case values are no
    /// longer operands.
    pub switch_case_value: Option<unsafe extern "C" fn(ValueRef, c_uint) -> ValueRef>,
    /// `llvm::Comdat::getName() const`; the C API has no such function.
    pub comdat_name: Option<unsafe extern "C" fn(ComdatRef) -> StringRef>,
    /// What is needed to write bitcode with the order of uses.
    pub ordered_writer: Option<OrderedWriter>,
}

/// The C++ functions that write bitcode with the order of uses.
#[derive(Clone, Copy)]
pub struct OrderedWriter {
    /// `llvm::raw_fd_ostream::raw_fd_ostream(int, bool, bool, OStreamKind)`.
    pub open: unsafe extern "C" fn(StreamRef, c_int, bool, bool, c_uint),
    /// `llvm::WriteBitcodeToFile(Module const &, raw_ostream &, bool,
    /// ModuleSummaryIndex const *, bool, std::array<uint32_t, 5> *)`.
    pub write: unsafe extern "C" fn(ModuleRef, StreamRef, bool, *const c_void, bool, *mut [u32; 5]),
    /// `llvm::raw_fd_ostream::~raw_fd_ostream()`.
    pub close: unsafe extern "C" fn(StreamRef),
}

impl Extras {
    /// Resolves what is there.
    pub fn resolve(library: &Library) -> Self {
        // SAFETY: each symbol's mangled name spells its parameter types, which
        // are those of the fields; on x86-64 the C++ calling convention of
        // these parameters is C's. The library is never closed.
        unsafe {
            Self {
                switch_case_value: library.get(b"LLVMGetSwitchCaseValue\0").ok().map(|f| *f),
                comdat_name: library.get(b"_ZNK4llvm6Comdat7getNameEv\0").ok().map(|f| *f),
                ordered_writer: OrderedWriter::resolve(library),
            }
        }
    }
}

impl OrderedWriter {
    const OPEN: &[u8] = b"_ZN4llvm14raw_fd_ostreamC1EibbNS_11raw_ostream11OStreamKindE\0";
    const WRITE: &[u8] = b"_ZN4llvm18WriteBitcodeToFileERKNS_6ModuleERNS_11raw_ostreamEbPKNS_18ModuleSummaryIndexEbPSt5arrayIjLm5EE\0";
    const CLOSE: &[u8] = b"_ZN4llvm14raw_fd_ostreamD1Ev\0";

    /// # Safety
    /// The library is a libLLVM and is never closed.
    unsafe fn resolve(library: &Library) -> Option<Self> {
        // SAFETY: as in `Extras::resolve`.
        unsafe {
            Some(Self {
                open: *library.get(Self::OPEN).ok()?,
                write: *library.get(Self::WRITE).ok()?,
                close: *library.get(Self::CLOSE).ok()?,
            })
        }
    }
}
