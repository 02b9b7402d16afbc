//! `backtrail cargo` as a command of cargo: `cargo backtrail build`.

fn main() -> std::process::ExitCode {
    backtrail_cli::launcher::become_verb("cargo", Some("backtrail"))
}
