//! How things look on a terminal.

use std::io::IsTerminal as _;

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

/// A number with its thousands set apart.
pub fn number(value: impl Into<u128>) -> String {
    let digits = value.into().to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size in bytes, in the unit people read best.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// Lines up the cells of each column; the columns named in `right` to the right.
pub fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[column] - cell.chars().count());
            let (before, after) =
                if right.contains(&column) { (&padding[..], "") } else { ("", &padding[..]) };
            line.push_str(&format!("  {before}{cell}{after}"));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
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
