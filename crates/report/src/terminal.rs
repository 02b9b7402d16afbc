//! How things look on a terminal.

/// What the terminal takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether it takes colours.
    pub colours: bool,
    /// How many characters are in a line.
    pub width: usize,
}

impl Style {
    /// A file or a pipe.
    pub const PLAIN: Self = Self { colours: false, width: 100 };

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// `text` in bold.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// `text` dimmed.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// `text` as something to look at.
    pub fn warning(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// `text` as a decision.
    pub fn decision(self, text: &str) -> String {
        self.paint("36", text)
    }
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

/// A number with its thousands set apart, or with an exponent if it is huge.
pub fn short_number(value: u128) -> String {
    if value < 1_000_000_000 { number(value) } else { format!("{:.1e}", value as f64) }
}

/// A number and its noun, which takes an s for more than one.
pub fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", number(value), if value == 1 { "" } else { "s" })
}

/// A share in percent, one digit behind the point; what is little is not
/// nothing.
pub fn percent(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    let share = 100.0 * part as f64 / whole as f64;
    if share < 0.05 { "<0.1 %".to_owned() } else { format!("{share:.1} %") }
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

/// `text` with at most `width` characters, the last an ellipsis if some are left
/// out.
pub fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(width.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// `text` without anything that a terminal would obey.
pub fn harmless(text: &str) -> String {
    let replace = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    text.chars().map(replace).collect()
}

/// The last parts of a path, enough to recognise it.
pub fn short_path(path: &str) -> &str {
    let cut = path.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    &path[cut..]
}

/// The name of a file without its folders.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_at_a_glance() {
        assert_eq!([0u64, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(short_number(10u128.pow(20)), "1.0e20");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(1, 100_000), "<0.1 %");
        assert_eq!(percent(0, 0), "0 %");
        assert_eq!(counted(1, "path"), "1 path");
    }

    #[test]
    fn nothing_reaches_the_terminal_that_it_would_obey() {
        assert_eq!(harmless("a\x1b[31m\n"), "a\u{fffd}[31m\u{fffd}");
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!(short_path("/a/b/c.c"), "b/c.c");
    }
}
