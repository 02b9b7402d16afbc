//! Headings, marks and colours on the terminal.
//!
//! Colour is decided once: standard output is a terminal and `NO_COLOR` is not
//! set (or empty), as <https://no-color.org> has it.

use std::io::IsTerminal;
use std::sync::LazyLock;

static COLOUR: LazyLock<bool> = LazyLock::new(|| {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && std::io::stdout().is_terminal()
});

fn painted(code: &str, text: &str) -> String {
    if *COLOUR { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Text that stands out.
pub fn bold(text: &str) -> String {
    painted("1", text)
}

/// Text that stands back.
pub fn dim(text: &str) -> String {
    painted("2", text)
}

/// Text for what is well.
pub fn green(text: &str) -> String {
    painted("32", text)
}

/// Text for what is not.
pub fn red(text: &str) -> String {
    painted("31", text)
}

/// Text for what wants attention.
pub fn yellow(text: &str) -> String {
    painted("33", text)
}

/// Prints a heading with an empty line before it.
pub fn heading(text: &str) {
    println!("\n{}", bold(&format!("== {text}")));
}

/// Prints an error with its causes on one line.
pub fn error(error: &anyhow::Error) {
    eprintln!("{} {error:#}", red("error:"));
}

/// Whether a question can be put to somebody.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Rows of text as columns: the first row is the heading, columns whose cells
/// are all numbers are aligned to the right.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let mut lines = vec![String::new(); rows.len()];
    for column in 0..columns {
        let width = rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0);
        let numbers = rows.iter().skip(1).all(|row| is_number(&cell(row, column)));
        for (line, row) in lines.iter_mut().zip(rows) {
            if column > 0 {
                line.push_str("  ");
            }
            let text = cell(row, column);
            let padding = " ".repeat(width - text.chars().count());
            if numbers {
                line.push_str(&padding);
                line.push_str(&text);
            } else {
                line.push_str(&text);
                line.push_str(&padding);
            }
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '%' | 'x' | ' '))
}

/// A number with commas.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["name", "seconds"], ["build", "12.5"], ["run", "3.0"]];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        assert_eq!(table(&rows), "name   seconds\nbuild     12.5\nrun        3.0\n");
    }
}
