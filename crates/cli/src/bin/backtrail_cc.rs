//! `backtrail cc` under a name without a space.

fn main() -> std::process::ExitCode {
    backtrail_cli::launcher::become_verb("cc", None)
}
