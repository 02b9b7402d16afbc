//! Where the functions of a module are, what their code is, and where their
//! frames hold records.
//!
//! Written into a variant ([`backtrail_abi::record::FRAMES_SECTION`]) by whoever
//! links it, read by whoever has a core dump of it. Addresses are those of the
//! file. What a unit's records mean is the business of the scheme that planned
//! them: here it is bytes.

use backtrail_ir::program::Surroundings;
use serde::{Deserialize, Serialize};

/// The functions of a module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameTable {
    /// The units, in the order in which they were linked.
    pub units: Vec<UnitFrames>,
    /// The code, by address.
    pub code: Vec<FunctionCode>,
    /// What else was linked into the module.
    pub surroundings: Surroundings,
    /// The functions that can be switched.
    pub tuned: Vec<TunedFunction>,
}

/// A function of which there are several variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunedFunction {
    /// Its unit, by place in [`FrameTable::units`].
    pub unit: u32,
    /// Its number in it.
    pub function: u32,
    /// Where the byte is that says which variant is on.
    pub state: u64,
    /// Its variants, by place in [`FrameTable::units`].
    pub variants: Vec<u32>,
}

/// A unit, or a variant of functions of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitFrames {
    /// Its id.
    pub unit: [u8; 16],
    /// Which variant ([`crate::UnitPlan::variant`]); 0 comes before the others.
    pub variant: u32,
    /// What its records mean, in the terms of the scheme.
    pub meaning: Vec<u8>,
    /// Where its bytes of coverage are ([`backtrail_abi::cover`]), if it has some.
    pub covered: Option<u64>,
}

/// A stretch of code that is one function's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCode {
    /// The unit, by place in [`FrameTable::units`].
    pub unit: u32,
    /// The function's number in it.
    pub function: u32,
    /// Where it begins.
    pub start: u64,
    /// Where its frames have their record, if they have one.
    pub record: Option<RecordPlace>,
    /// What is there, without gaps.
    pub runs: Vec<CodeRun>,
}

impl FunctionCode {
    /// Bytes of it.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.bytes)).sum()
    }

    /// What is at this address, if it is in here.
    pub fn at(&self, address: u64) -> Option<CodeKind> {
        let mut left = address.checked_sub(self.start)?;
        for run in &self.runs {
            let bytes = u64::from(run.bytes);
            if left < bytes {
                return Some(run.kind);
            }
            left -= bytes;
        }
        None
    }
}

/// Instructions of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRun {
    /// Bytes of them.
    pub bytes: u32,
    /// What they are.
    pub kind: CodeKind,
}

/// What an instruction is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CodeKind {
    /// Several blocks, or none.
    Unknown,
    /// What comes before the record is begun.
    Frame,
    /// This piece.
    Piece(u32),
    /// A probe behind this piece.
    Probe(u32),
}

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordPlace {
    /// So far from the canonical frame address: what the stack pointer was
    /// before the call.
    FrameAddress(i64),
    /// So far from a register, by DWARF number, as it is in this frame.
    Register(u16, i64),
}

impl FrameTable {
    /// The table as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("serialising into memory does not fail")
    }

    /// The inverse of [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }

    /// The code that an address is in.
    pub fn find(&self, address: u64) -> Option<&FunctionCode> {
        let behind = self.code.partition_point(|code| code.start <= address);
        let code = self.code.get(behind.checked_sub(1)?)?;
        (address - code.start < code.bytes()).then_some(code)
    }
}
