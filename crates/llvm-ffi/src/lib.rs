//! The LLVM C API, loaded at run time, behind owned wrappers.
//!
//! Nothing here is linked against LLVM. [`Llvm::load`] opens one libLLVM, whose
//! version must be between 19 and 22, and resolves every function this crate
//! uses up front, so that a library that does not fit is one readable error and
//! not a crash later.
//!
//! | type | stands for | owned |
//! | --- | --- | --- |
//! | [`Llvm`] | the opened library | yes, and never closed |
//! | [`Context`] | `LLVMContext`, with the diagnostics it was given | yes |
//! | [`Module`] | one unit of bitcode | yes |
//! | [`Builder`] | where new instructions go | yes |
//! | [`TargetMachine`] | a code generator | yes |
//! | [`Value`], [`Global`], [`Function`], [`Block`], [`Instruction`], [`Call`], [`Type`], [`Metadata`] | things inside a module | no, `Copy` |
//!
//! # Why this is sound
//! This is the only crate that holds LLVM's pointers, and none of them is in a
//! public signature. Owned wrappers free what they own when they are dropped
//! and borrow what they depend on (a module its context, a context its
//! library). Handles of things inside a module borrow the module; whatever can
//! delete such a thing takes the module by `&mut` and so ends all handles
//! first. Adding and changing never invalidates a handle and takes `&`. A
//! handle's kind (instruction, function, call) is established when it is made,
//! so that LLVM's unchecked casts succeed. Handles of two modules must not be
//! mixed; operations that take several of them check that and panic.
//! None of the types can leave its thread.

mod bitcode;
mod builder;
mod context;
mod debug_builder;
mod edges;
mod error;
mod function;
mod global;
mod instruction;
mod joining;
mod library;
mod message;
mod metadata;
mod module;
mod passes;
mod table;
mod target;
mod types;
mod value;

pub use bitcode::Bitcode;
pub use builder::Builder;
pub use context::{Attribute, Context, Diagnostic, Severity};
pub use debug_builder::DebugBuilder;
pub use edges::BlockEdge;
pub use error::Error;
pub use function::{Block, Function};
pub use global::{Comdat, Global, Linkage, Visibility};
pub use instruction::{Call, Instruction, Opcode};
pub use library::{Llvm, Version, exit_at_once};
pub use metadata::{Metadata, MetadataKind};
pub use module::Module;
pub use target::{CodeModel, OptLevel, RelocModel, TargetMachine, TargetOptions};
pub use types::{Type, TypeKind};
pub use value::{Value, ValueKind};
