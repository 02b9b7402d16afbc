//! The data types of a unit. See [`crate::verify`] for what must hold of them.

use backtrail_graph::define_index;
pub use backtrail_graph::{Index, IndexMap};
use serde::{Deserialize, Serialize};

define_index!(
    /// A function that has a body in this unit.
    Func, "f"
);
define_index!(
    /// A block of a function.
    Block, "b"
);
define_index!(
    /// An instruction of a function; also the value it computes.
    Inst, "i"
);
define_index!(
    /// A symbol the unit defines or refers to.
    Sym, "s"
);
define_index!(
    /// A source file of the unit.
    File, "file"
);
define_index!(
    /// A source position, shared by the instructions that have it.
    Loc, "loc"
);
define_index!(
    /// A group of symbols of which the linker keeps one copy.
    Comdat, "c"
);

/// What one compilation produced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The main source file, as it was given to the compiler.
    pub name: String,
    /// Every symbol defined or referred to.
    pub symbols: IndexMap<Sym, Symbol>,
    /// The functions with bodies, in the order of the bitcode.
    pub functions: IndexMap<Func, Function>,
    /// COMDAT groups by name.
    pub comdats: IndexMap<Comdat, String>,
    /// Source files.
    pub files: IndexMap<File, String>,
    /// Source positions.
    pub locations: IndexMap<Loc, Location>,
    /// Assembly at module level, verbatim: symbols it defines are not listed.
    pub module_asm: String,
}

/// A symbol defined or referred to by a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    /// The linkage name. Private symbols without a name get an empty one.
    pub name: String,
    /// What it stands for.
    pub kind: SymbolKind,
    /// How the linker treats it.
    pub linkage: Linkage,
    /// Who can see it.
    pub visibility: Visibility,
    /// The COMDAT group it belongs to.
    pub comdat: Option<Comdat>,
    /// Whether it is thread-local.
    pub thread_local: bool,
}

/// What a symbol stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SymbolKind {
    /// A function with a body in this unit.
    Function(Func),
    /// A function defined elsewhere, with what its declaration says.
    ExternalFunction(Traits),
    /// Data, here or elsewhere.
    Data {
        /// Whether this unit defines it.
        defined: bool,
        /// Whether it cannot be written.
        constant: bool,
        /// Its size in bytes, 0 if unknown.
        size: u64,
        /// The symbols its initial value mentions, in order, each once.
        refers_to: Vec<Sym>,
        /// The section that the source puts it in.
        section: Option<String>,
    },
    /// Another name for `target`.
    Alias {
        /// What it names, if that is a symbol of this unit.
        target: Option<Sym>,
    },
    /// A function chosen when the program is loaded.
    IFunc {
        /// The function that chooses.
        resolver: Option<Sym>,
    },
}

/// How the linker treats a symbol; the names of LLVM, fewer where the
/// difference does not reach the linker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Linkage {
    /// Visible outside, defined once.
    External,
    /// Visible outside, may be overridden; kept if alone. `weak`, `linkonce`.
    Weak,
    /// As `Weak`, and every definition means the same. `weak_odr`, `linkonce_odr`.
    WeakOdr,
    /// A reference that may stay unresolved.
    ExternWeak,
    /// A tentative definition.
    Common,
    /// Of this unit alone.
    Internal,
    /// A body for the optimiser's eyes only: no code is made from it.
    AvailableExternally,
    /// Arrays that the linker concatenates (`llvm.used`, constructors).
    Appending,
}

/// Who can see a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Visibility {
    /// Everyone.
    Default,
    /// This executable or shared library.
    Hidden,
    /// Everyone, but references from within are bound within.
    Protected,
}

/// What is known of a function or of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traits {
    /// It never returns.
    pub no_return: bool,
    /// It never unwinds.
    pub no_unwind: bool,
    /// It may return twice, as `setjmp` does.
    pub returns_twice: bool,
    /// It has no prologue of the compiler's: nothing can be inserted.
    pub naked: bool,
    /// It is not optimised (clang's -O0).
    pub opt_none: bool,
    /// It takes a variable number of arguments.
    pub variadic: bool,
}

/// A function with a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its symbol.
    pub symbol: Sym,
    /// How many parameters it declares.
    pub parameters: u32,
    /// What is known of it.
    pub traits: Traits,
    /// Where it is defined, if known. The scope is the function itself.
    pub location: Option<Loc>,
    /// Its blocks; the first is the entry.
    pub blocks: IndexMap<Block, BlockData>,
    /// Its instructions, those of a block next to each other.
    pub insts: IndexMap<Inst, InstData>,
    /// The operands of all instructions, one after another.
    pub operands: Vec<Value>,
}

/// A block: a range of instructions and where it leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockData {
    /// Position of the first instruction.
    pub first: u32,
    /// One past the position of the last instruction, which is the terminator.
    pub end: u32,
    /// The successors as the terminator lists them; a switch may list a block
    /// more than once.
    pub successors: Vec<Block>,
    /// Whether control comes here by unwinding.
    pub landing_pad: bool,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstData {
    /// What it does.
    pub op: Op,
    /// Position of its first operand in [`Function::operands`].
    pub operands: u32,
    /// How many operands it has.
    pub operand_count: u32,
    /// Where it comes from.
    pub location: Option<Loc>,
}

/// What an instruction does. Operands are listed in the order given here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Memory in the frame. Operand: number of elements.
    Alloca {
        /// Bytes of one element.
        size: u64,
    },
    /// Reads memory. Operand: address.
    Load(Access),
    /// Writes memory. Operands: value, address.
    Store(Access),
    /// Reads and writes memory at once. Operands: address, then values.
    AtomicUpdate(Access),
    /// Orders memory accesses.
    Fence,
    /// Address arithmetic. Operands: base, indices. `offset` when constant.
    Address {
        /// The constant distance from the base, if it is constant.
        offset: Option<i64>,
    },
    /// A value by where control came from. Operands: one value per predecessor.
    Phi {
        /// The blocks the values come with.
        from: Vec<Block>,
    },
    /// One of two values. Operands: condition, then, else.
    Select,
    /// A comparison. Operands: left, right.
    Compare,
    /// Arithmetic, conversion, vectors, aggregates, anything that touches
    /// neither memory nor control. The name is LLVM's opcode number.
    Compute {
        /// LLVM's C API opcode number.
        opcode: u16,
    },
    /// A call. Operands: arguments, then the callee if it is indirect, or, of assembly, the
    /// symbols that it names, if it does.
    Call(CallData),
    /// Unwinding arrives here.
    LandingPad,
    /// Ends the block: return. Operand: the value, if any.
    Return,
    /// Ends the block: goes to the only successor.
    Jump,
    /// Ends the block: successor 0 if the operand is true, else 1.
    Branch,
    /// Ends the block: successor 0 is the default, the others have `cases`.
    /// Operand: the value.
    Switch {
        /// The value of each further successor.
        cases: Vec<i64>,
    },
    /// Ends the block: goes to a computed address among the successors.
    /// Operand: the address.
    IndirectJump,
    /// Ends the block: a call that goes to successor 0 when it returns and to
    /// successor 1 when it unwinds. Operands as for `Call`.
    Invoke(CallData),
    /// Ends the block: assembly with jumps (`asm goto`).
    AsmGoto(CallData),
    /// Ends the block: goes on unwinding. Operand: the exception.
    Resume,
    /// Ends the block: never reached.
    Unreachable,
    /// Ends the block: funclet control flow, named here and not modelled.
    OtherTerminator {
        /// LLVM's C API opcode number.
        opcode: u16,
    },
}

/// A memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Bytes accessed, 0 if the size is not fixed.
    pub size: u64,
    /// Whether it is volatile.
    pub volatile: bool,
    /// Whether it is atomic.
    pub atomic: bool,
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallData {
    /// Who is called.
    pub callee: Callee,
    /// What is known of this call (the callee's traits are in its symbol).
    pub traits: Traits,
    /// Whether it may reuse the caller's frame.
    pub tail: Tail,
}

/// Whether a call that is followed by a return may reuse the caller's frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tail {
    /// It does not.
    #[default]
    No,
    /// It may, if code generation can.
    May,
    /// It must.
    Must,
}

/// Who is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Callee {
    /// A known function.
    Direct(Sym),
    /// The last operand.
    Indirect,
    /// One of LLVM's intrinsics, by name.
    Intrinsic(Sym),
    /// Inline assembly.
    Asm,
}

/// An operand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// The result of an instruction.
    Inst(Inst),
    /// A parameter.
    Param(u32),
    /// An integer constant of at most 64 bits.
    Int(i64),
    /// The address of a symbol, plus a constant.
    Symbol(Sym, i64),
    /// A constant that mentions these symbols in a way not modelled.
    Expr(Vec<Sym>),
    /// A block's address.
    BlockAddress(Sym, Block),
    /// Null, floating point, vectors, undefined, metadata: nothing that refers.
    Opaque,
}

/// A source position and how it got here by inlining.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The file.
    pub file: File,
    /// The line, 0 if the compiler made the instruction up.
    pub line: u32,
    /// The column, 0 if unknown.
    pub column: u32,
    /// The function of the source the position is in (linkage name if it has
    /// one), which after inlining is not the function the instruction is in.
    pub scope: String,
    /// The line on which that function is defined, 0 if unknown.
    pub scope_line: u32,
    /// The position of the call that was inlined.
    pub inlined_at: Option<Loc>,
}
