//! How things look on a terminal.

use std::io::IsTerminal as _;

use backtrail_report::terminal::Screen;
pub use backtrail_report::terminal::{Detail, Extent, Style, counted, number, size, table};

/// Whether standard output takes colours: a terminal, and `NO_COLOR` not set.
pub fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        && std::io::stdout().is_terminal()
}

/// `text` in bold, where colours are wanted.
pub fn bold(text: &str) -> String {
    Style { colours: colours(), ..Style::PLAIN }.bold(text)
}

/// `text` dimmed, where colours are wanted.
pub fn dim(text: &str) -> String {
    Style { colours: colours(), ..Style::PLAIN }.dim(text)
}

/// What standard output takes: colours, and the size of the terminal. One that says that
/// it has no columns does not know.
pub fn terminal() -> Style {
    let size = terminal_size::terminal_size_of(std::io::stdout());
    let size = size.filter(|(columns, rows)| columns.0 > 0 && rows.0 > 0);
    let screen = size.map(|(columns, rows)| Screen {
        columns: usize::from(columns.0).max(40),
        rows: usize::from(rows.0),
    });
    Style { colours: colours(), screen }
}

/// How much is shown of each name and path: all if `--full` asks for it.
pub fn detail(full: bool) -> Detail {
    if full { Detail::Full } else { Detail::Short }
}

/// How much is shown of each list: all if `--all` asks for it.
pub fn extent(all: bool) -> Extent {
    if all { Extent::All } else { Extent::Screenful }
}

/// What was lost, with its verb: `1 block was`, `2 blocks were`.
pub fn lost_blocks(count: u64, noun: &str) -> String {
    format!("{} {}", counted(count, noun), if count == 1 { "was" } else { "were" })
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
