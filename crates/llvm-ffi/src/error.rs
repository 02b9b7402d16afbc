//! What can go wrong between us and a libLLVM.

use std::path::PathBuf;

use crate::Version;

/// What can go wrong between us and a libLLVM.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The library is not there or cannot be loaded.
    #[error("cannot load libLLVM {}: {why}", path.display())]
    Load {
        /// The library.
        path: PathBuf,
        /// What the dynamic loader said.
        why: String,
    },
    /// The library does not say which version it is.
    #[error(
        "{} is not a libLLVM of version 19 to 22: it does not tell its version (LLVMGetVersion is missing)",
        path.display()
    )]
    NoVersion {
        /// The library.
        path: PathBuf,
    },
    /// The library's version is not among those supported.
    #[error("libLLVM {} is version {version}; versions 19 to 22 are supported", path.display())]
    Unsupported {
        /// The library.
        path: PathBuf,
        /// Its version.
        version: Version,
    },
    /// A function is missing.
    #[error(
        "libLLVM {} (version {version}) lacks the function {name}; use the libLLVM that belongs to the compiler",
        path.display()
    )]
    MissingFunction {
        /// The library.
        path: PathBuf,
        /// Its version.
        version: Version,
        /// The first function that is missing.
        name: &'static str,
    },
    /// The bitcode cannot be read.
    #[error("not readable as LLVM {version} bitcode: {why}")]
    Bitcode {
        /// The version of the library that tried.
        version: Version,
        /// What LLVM said.
        why: String,
    },
    /// The module is not well-formed.
    #[error("the module does not pass LLVM's verifier: {0}")]
    Invalid(String),
    /// There is no code generator for the module.
    #[error("no code generator for target `{triple}`: {why}")]
    Target {
        /// The target triple.
        triple: String,
        /// What LLVM said.
        why: String,
    },
    /// A pass could not be run.
    #[error("LLVM cannot run `{passes}`: {why}")]
    Passes {
        /// The passes.
        passes: &'static str,
        /// What LLVM said.
        why: String,
    },
    /// Modules could not be linked.
    #[error("LLVM cannot add one copy of the unit to another: {0}")]
    Link(String),
    /// Code generation failed.
    #[error("code generation failed: {0}")]
    CodeGeneration(String),
    /// Writing failed between LLVM and us.
    #[error("cannot take the bitcode from LLVM: {0}")]
    Write(#[from] std::io::Error),
    /// A string for LLVM holds a zero byte.
    #[error("`{}` holds a zero byte", .0.escape_debug())]
    ZeroByte(String),
}

/// LLVM's messages may have several lines; ours have one.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}
