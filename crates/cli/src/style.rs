//! How things look on a terminal.

use std::io::IsTerminal as _;

pub use backtrail_report::terminal::{Style, number, size, table};

/// Whether standard output takes colours: a terminal, and `NO_COLOR` not set.
pub fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        && std::io::stdout().is_terminal()
}

/// `text` in bold, where colours are wanted.
pub fn bold(text: &str) -> String {
    if colours() { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

/// `text` dimmed, where colours are wanted.
pub fn dim(text: &str) -> String {
    if colours() { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
}

/// What standard output takes: colours, and the width of the terminal.
pub fn terminal() -> Style {
    let width = terminal_size::terminal_size_of(std::io::stdout());
    let width = width.map_or(Style::PLAIN.width, |(width, _)| usize::from(width.0).max(40));
    Style { colours: colours(), width }
}

/// A linkage name as people write it.
pub fn demangle(name: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(name) {
        return format!("{name:#}");
    }
    if name.starts_with("_Z") {
        let options = cpp_demangle::DemangleOptions::default();
        let symbol = cpp_demangle::Symbol::new(name).ok();
        if let Some(name) = symbol.and_then(|symbol| symbol.demangle_with_options(&options).ok()) {
            return name;
        }
    }
    name.to_owned()
}
