//! The text form of a unit: for people, tests and bug reports.
//!
//! [`print()`] is deterministic and lossless: [`parse`] of it gives the same unit,
//! for every unit that verifies. [`parse`] verifies what it reads.
//!
//! ```
//! let text = r#"
//! unit "demo.c"
//! file0 = "demo.c"
//! c0 = comdat "twice"
//! s0 = function f0 "main" external
//! s1 = declare "printf" external variadic
//! s2 = data "format" internal constant size 4
//! s3 = alias "start" weak hidden to s0
//! loc0 = file0:3:5 in "main"
//! loc1 = file0:9:12 in "twice" at loc0
//!
//! function f0 s0 parameters 2 no_unwind at loc0 {
//! b0:
//!   i0 = compare (p0, 1) @loc0
//!   i1 branch (i0) -> b1, b2
//! b1:
//!   i2 = compute add (p0, p0) @loc1
//!   i3 = call s1 (s2, i2) @loc0
//!   i4 jump -> b2
//! b2:
//!   i5 = phi (b0: 0, b1: i2)
//!   i6 return (i5)
//! }
//! "#;
//! let unit = backtrail_ir::text::parse(text)?;
//! assert_eq!(backtrail_ir::text::parse(&backtrail_ir::text::print(&unit))?, unit);
//! assert_eq!(unit.functions.values().next().unwrap().acyclic_paths().to_string(), "2");
//! # Ok::<(), backtrail_ir::Error>(())
//! ```
//!
//! Entities are numbered in order, from 0, without gaps. What follows `;` up to
//! the end of the line is a comment; [`print()`] puts names and source positions
//! there. Line breaks mean nothing else.
//!
//! ```text
//! unit      = "unit" STRING ["asm" STRING] file* comdat* symbol* location* function*
//! file      = fileN "=" STRING
//! comdat    = cN "=" "comdat" STRING
//! symbol    = sN "=" kind STRING linkage attribute*
//! kind      = "function" fN | "declare" | "data" | "declare_data" | "alias" | "ifunc"
//! linkage   = "external" | "weak" | "weak_odr" | "extern_weak" | "common" | "internal"
//!           | "available_externally" | "appending"
//! attribute = "hidden" | "protected" | "comdat" cN | "thread_local"
//!           | "constant" | "size" NUMBER | "section" STRING | "refers" "[" sN* "]"  (data)
//!           | trait                                                 (declare)
//!           | "to" sN                                               (alias)
//!           | "by" sN                                               (ifunc)
//! trait     = "no_return" | "no_unwind" | "returns_twice" | "naked" | "opt_none" | "variadic"
//! location  = locN "=" fileN ":" LINE ":" COLUMN "in" STRING ["from" LINE] ["at" locN]
//! function  = "function" fN sN "parameters" NUMBER trait* ["at" locN] "{" block* "}"
//! block     = bN ["landing_pad"] ":" inst*
//! inst      = iN ["="] op ["(" [value ("," value)*] ")"] ["->" bN ("," bN)*] ["@" locN]
//! op        = "alloca" NUMBER
//!           | ("load" | "store" | "atomic_update") NUMBER ["volatile"] ["atomic"]
//!           | "fence" | "address" ["offset" NUMBER] | "phi" | "select" | "compare"
//!           | ("compute" | "other_terminator") (NUMBER | NAME)
//!           | ("call" | "invoke" | "asm_goto") callee (trait | "may_tail" | "must_tail")*
//!           | "landing_pad" | "return" | "jump" | "branch" | "switch" | "indirect_jump"
//!           | "resume" | "unreachable"
//! callee    = sN | "intrinsic" sN | "indirect" | "asm"
//! value     = iN | pN | NUMBER | sN [("+" | "-") NUMBER] | "expr" "[" sN* "]"
//!           | "block_address" sN bN | "opaque"
//! ```
//!
//! The values of a `phi` are written `bN: value`, and all successors of a
//! `switch` but the first `CASE: bN`. A NAME is that of LLVM's instruction for
//! an opcode number.

mod lexer;
mod opcode;
mod parse;
mod parse_function;
mod print;

pub use parse::parse;
pub use print::print;

use crate::{Linkage, Traits};

const LINKAGES: [(&str, Linkage); 8] = [
    ("external", Linkage::External),
    ("weak", Linkage::Weak),
    ("weak_odr", Linkage::WeakOdr),
    ("extern_weak", Linkage::ExternWeak),
    ("common", Linkage::Common),
    ("internal", Linkage::Internal),
    ("available_externally", Linkage::AvailableExternally),
    ("appending", Linkage::Appending),
];

/// Each trait's word, and where it is kept.
type TraitField = fn(&mut Traits) -> &mut bool;

const TRAITS: [(&str, TraitField); 6] = [
    ("no_return", |traits| &mut traits.no_return),
    ("no_unwind", |traits| &mut traits.no_unwind),
    ("returns_twice", |traits| &mut traits.returns_twice),
    ("naked", |traits| &mut traits.naked),
    ("opt_none", |traits| &mut traits.opt_none),
    ("variadic", |traits| &mut traits.variadic),
];
