//! The program itself; it also looks at the name it was started by.

fn main() -> std::process::ExitCode {
    backtrail_cli::main()
}
