//! One of the names of the one program; it looks at the name it was started by.

fn main() -> std::process::ExitCode {
    backtrail_cli::main()
}
