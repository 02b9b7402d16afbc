//! The worker by itself, as the tests of this crate start it.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    backtrail_llvm::worker::main()
}
