//! What can go wrong with one unit.

use std::path::PathBuf;

use backtrail_ir::{Block, Func, Inst};

/// What can go wrong with one unit.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// LLVM could not do it.
    #[error(transparent)]
    Llvm(#[from] backtrail_llvm_ffi::Error),
    /// A file cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// The plan names a function the unit does not have.
    #[error(
        "the plan is not for this unit: it names {function} but there are {count} functions; plan again"
    )]
    NoSuchFunction {
        /// The function.
        function: Func,
        /// How many functions have bodies.
        count: usize,
    },
    /// A function has another name than the plan says.
    #[error("the plan is not for this unit: {function} is `{found}`, not `{expected}`; plan again")]
    OtherName {
        /// The function.
        function: Func,
        /// Its name in the plan.
        expected: String,
        /// Its name in the unit.
        found: String,
    },
    /// A function has another number of blocks than the plan says.
    #[error(
        "the plan is not for this unit: `{name}` has {found} blocks, not {expected}; plan again"
    )]
    OtherBlocks {
        /// The function.
        name: String,
        /// Its number of blocks in the plan.
        expected: u32,
        /// Its number of blocks in the unit.
        found: u32,
    },
    /// The plan names a block the function does not have.
    #[error("the plan is not for this unit: `{name}` has no block {block}; plan again")]
    NoSuchBlock {
        /// The function.
        name: String,
        /// The block.
        block: Block,
    },
    /// The plan names an edge the function does not have, or one that has no
    /// place for code.
    #[error("the plan is not for this unit: `{name}` has no edge from {from} to {to}; plan again")]
    NoSuchEdge {
        /// The function.
        name: String,
        /// The block it should leave.
        from: Block,
        /// The block it should lead to.
        to: Block,
    },
    /// The plan names an instruction the function does not have.
    #[error("the plan is not for this unit: `{name}` has no instruction {inst}; plan again")]
    NoSuchInst {
        /// The function.
        name: String,
        /// The instruction.
        inst: Inst,
    },
    /// The plan has another number of blocks in all than the unit.
    #[error(
        "the plan is not for this unit: it has {found} blocks in all, not {expected}; plan again"
    )]
    OtherTotal {
        /// The number in the plan.
        expected: u32,
        /// The number in the unit.
        found: u32,
    },
    /// Probes write to a record that the frame does not have.
    #[error("the plan contradicts itself: `{0}` has no such record; plan again")]
    NoRecord(String),
    /// Nothing can be inserted into a naked function.
    #[error("`{0}` is a naked function: nothing can be inserted; leave it out of the plan")]
    Naked(String),
    /// There is no place for an instruction in a block.
    #[error(
        "{block} of `{name}` has no place for a probe (funclet exception handling); leave `{name}` out of the plan"
    )]
    NoPlace {
        /// The function.
        name: String,
        /// The block.
        block: Block,
    },
    /// A name that is ours is taken by something else.
    #[error("the unit itself defines `{0}`, a name that belongs to Backtrail's runtime")]
    NameTaken(String),
    /// A code-generation option is not known.
    #[error("unknown {what} `{value}`")]
    UnknownOption {
        /// Which option.
        what: &'static str,
        /// Its value.
        value: String,
    },
    /// Labels of a function that is to have variants are in data that they share.
    #[error(
        "`{0}` holds addresses of labels, and is not a constant of its function's own: what it \
         belongs to cannot be switched; leave it out of what is tunable"
    )]
    Labels(String),
    /// Something is no longer there after variants were added.
    #[error("`{0}` was lost while variants were added")]
    Lost(String),
    /// A constructor table is not in the form LLVM demands.
    #[error("`{0}` does not list constructors in the way LLVM defines")]
    Constructors(String),
}
