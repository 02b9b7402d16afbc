//! Plans: which probe goes where, as plain data.
//!
//! Every system of Backtrail is a plan, a record format and a decoder. A plan
//! names places of the program model and what to do there; the LLVM layer only
//! applies it. It can be printed, tested and costed without LLVM.

#![forbid(unsafe_code)]

pub mod block_lines;
pub mod block_log;
pub mod counters;
pub mod frames;
pub mod merged;
pub mod order;
pub mod tuning;
pub mod worker;

use backtrail_ir::{Block, Func, Inst};
use serde::{Deserialize, Serialize};

/// What to insert into one unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitPlan {
    /// The unit's id ([`backtrail_abi::UnitId`]), which injected descriptors name.
    pub unit: [u8; 16],
    /// Blocks of all functions of the unit.
    pub blocks: u32,
    /// How many numbers the unit's log has, if that is not one for each block.
    pub events: Option<u32>,
    /// The event of the log's number 0, if that is given before the program runs
    /// and all probes are in one module.
    pub first_event: Option<u32>,
    /// How many counters the unit has; their symbol is
    /// [`backtrail_abi::counts::UNIT_SYMBOL_PREFIX`] and the unit's id.
    pub counters: u32,
    /// How many bytes of coverage the unit has; their symbol is
    /// [`backtrail_abi::cover::UNIT_SYMBOL_PREFIX`] and the unit's id.
    pub covered: u32,
    /// The functions to change; those not listed stay as they are.
    pub functions: Vec<FunctionPlan>,
    /// The functions that cannot be probed, and why.
    pub left_out: Vec<(Func, LeftOut)>,
    /// The records that functions keep in their frames.
    pub records: Vec<(Func, FrameRecord)>,
    /// Whether calls in the functions listed must stay apart, so that the address
    /// of a call tells which it is.
    pub distinct_calls: bool,
    /// If debug information that tells blocks takes the place of the program's
    /// own ([`block_lines`]): where blocks are told apart in pieces, by function.
    pub block_lines: Option<Vec<(Func, Vec<Inst>)>>,
    /// Which of several plans for the same unit this is: 0, or that of a variant.
    pub variant: u32,
    /// The functions of which there are to be several variants.
    pub switched: Switched,
}

/// Functions that are to be springboards, and what their variants have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switched {
    /// The functions, none of which has probes itself.
    pub functions: Vec<SwitchedFunction>,
    /// The plans of variants, numbered from 1 ([`UnitPlan::variant`]).
    pub variants: Vec<UnitPlan>,
}

/// A function that is to be a springboard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchedFunction {
    /// The function.
    pub function: Func,
    /// Its linkage name, checked before anything is done.
    pub name: String,
    /// Its variants, the first of which is on, by number, each with what it
    /// records as people write it.
    pub variants: Vec<(u32, String)>,
}

impl UnitPlan {
    /// The same without debug information that tells blocks.
    pub fn without_block_lines(self) -> Self {
        let variants = self.switched.variants.into_iter().map(Self::without_block_lines).collect();
        let switched = Switched { variants, ..self.switched };
        Self { block_lines: None, switched, ..self }
    }

    /// This plan and those of its variants.
    pub fn with_variants(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.switched.variants)
    }

    /// What the symbols of a unit's own data and its debug information end with,
    /// so that those of its variants are told apart.
    pub fn suffix(unit: [u8; 16], variant: u32) -> String {
        let unit = backtrail_abi::UnitId(unit);
        match variant {
            0 => unit.to_string(),
            variant => format!("{unit}.{variant}"),
        }
    }
}

/// What a function keeps in its frame while an activation of it lives: the sum
/// of the path under way and the last paths that ended, as
/// [`backtrail_abi::record`] lays them out, and behind that marks of what the
/// activation did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameRecord {
    /// How many words the paths have.
    pub words: u32,
    /// How many words the marks have. Together they are at least one.
    pub mark_words: u32,
}

impl FrameRecord {
    /// Words of it.
    pub fn all_words(self) -> u32 {
        self.words + self.mark_words
    }

    /// Bytes of it.
    pub fn bytes(self) -> u64 {
        u64::from(self.all_words()) * backtrail_abi::record::WORD_BYTES
    }
}

/// What to insert into one function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionPlan {
    /// The function.
    pub function: Func,
    /// Its linkage name, checked before anything is inserted.
    pub name: String,
    /// How many blocks it has, checked as well.
    pub blocks: u32,
    /// The probes. Those of one place are carried out in this order.
    pub probes: Vec<Probe>,
}

/// One probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Where.
    pub at: Place,
    /// What.
    pub action: Action,
}

/// A place for a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// At the start of a block, behind what must come first (phis, landing pads).
    Block(Block),
    /// Where the function begins.
    Entry,
    /// On the edge between two blocks. If the source lists the target more than
    /// once, all of these are meant.
    Edge {
        /// The block it leaves.
        from: Block,
        /// The block it leads to.
        to: Block,
    },
    /// Before an instruction.
    Before(Inst),
    /// Behind an instruction that does not end its block.
    After(Inst),
}

/// What a probe does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Appends a number of the unit to the thread's log.
    Log {
        /// Of a block, blocks of all functions of the unit counted through; or
        /// below [`UnitPlan::events`].
        number: u32,
    },
    /// An activation begins with this block, and has eight bytes in its frame that tell
    /// it from others ([`backtrail_abi::frames`]).
    Begin {
        /// The block, as for [`Self::Log`].
        number: u32,
    },
    /// Says that the activation goes on, if something else was running.
    Resume,
    /// The activation ends.
    End,
    /// Appends a word to the thread's log as it is: one of [`backtrail_abi::frames`].
    Say {
        /// The word.
        word: u32,
    },
    /// Begins a frame that may be come back to from deeper ones: the thread's
    /// count of such frames goes up, and the frame remembers it.
    Deepen,
    /// Ends such a frame by a return.
    Surface,
    /// Where such a frame resumes: the thread's count is what it was, a number is
    /// appended to the log, and behind it another one plus how many such frames
    /// are below ([`backtrail_abi::log::DEPTHS`] at most).
    Land {
        /// The number that is appended.
        number: u32,
        /// What is added to the depth.
        depths: u32,
    },
    /// Appends a number to the log if the function runs as the handler of a signal
    /// that the process did not send itself. Where it begins.
    Interrupt {
        /// The number that is appended.
        number: u32,
    },
    /// Sees to it that the thread has counters of its own.
    Enter,
    /// Changes the number that says in which order the thread entered functions.
    Order(order::Turn),
    /// Adds one to this counter of the unit.
    Count {
        /// The counter.
        counter: u32,
    },
    /// Sets the sum of the path under way, which is a counter of the unit, or an
    /// event of the log, once the path has ended. A function has one such sum.
    SetSum(i64),
    /// Adds to it, modulo 2^64.
    AddSum(i64),
    /// Adds one to the counter that is the sum and this.
    CountSum(i64),
    /// Appends the sum and this to the thread's log, as an event
    /// ([`UnitPlan::first_event`]).
    LogSum(i64),
    /// The same for a sum whose lower [`backtrail_abi::log::PATH_BITS`] alone are
    /// the path: what is above them is appended before, if it is not 0.
    LogCountedSum {
        /// What is added to the sum.
        add: i64,
        /// What is added to the path.
        first: u32,
    },
    /// Sets this byte of the unit's coverage to 1.
    Cover {
        /// The byte.
        byte: u32,
    },
    /// Changes the record in the frame ([`UnitPlan::records`]).
    Record(RecordAction),
}

/// What is done to the record in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordAction {
    /// Begins it with this sum: no path has ended.
    Begin(i32),
    /// Adds to the sum.
    Add(i32),
    /// A path ends: something may be added to the sum, the record is shifted, and
    /// something may be added again.
    End {
        /// What is added before.
        add: i32,
        /// By how many bits the record is shifted, less than 64.
        bits: u32,
        /// What is added behind.
        next: i32,
    },
    /// Takes all marks away.
    ClearMarks,
    /// Sets bits of a byte of the marks.
    Mark {
        /// The byte, counted from the first mark.
        byte: u32,
        /// The bits. If they are all that are ever set in this byte, `alone`.
        bits: u8,
        /// Whether the byte has no other bits, so that it may be stored.
        alone: bool,
    },
}

/// Why a function gets no probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeftOut {
    /// It has no prologue of the compiler's: inserted code would not be safe.
    Naked,
    /// No code is made from this body; the real one is elsewhere.
    AvailableExternally,
    /// It chooses a function while the program is being loaded, before thread
    /// storage exists.
    IFuncResolver,
    /// It was not asked for.
    NotChosen,
    /// An `invoke` of a function that returns twice: the edge it returns by has
    /// no place where both returns can be told apart.
    InvokeReturnsTwice,
    /// Exceptions are handled in funclets, as on Windows.
    Funclets,
    /// It has several computed gotos with different targets.
    ComputedTargets,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Naked => "naked function: it has no prologue, nothing can be inserted safely",
            Self::AvailableExternally => "no code is made from this body",
            Self::IFuncResolver => "ifunc resolver: it runs before thread storage exists",
            Self::NotChosen => "not chosen",
            Self::InvokeReturnsTwice => "a call that returns twice can also unwind",
            Self::Funclets => "exceptions are handled in funclets",
            Self::ComputedTargets => "several computed gotos with different targets",
        })
    }
}
