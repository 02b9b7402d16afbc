//! How things look on a terminal.
//!
//! What is too wide for a screen is shortened, and lists end with the screen.
//! Files and pipes, which are searched and compared by programs, have all of it:
//! there only what loses nothing by it is broken into rows.
//!
//! Widths are columns of a terminal, of which a letter can take two or none.

pub use backtrail_foreign::count::{counted, number};
use backtrail_foreign::text::shown;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// What output goes to, and what that takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether it takes colours.
    pub colours: bool,
    /// How large it is, if it is a terminal.
    pub screen: Option<Screen>,
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// How wide it is.
    pub columns: usize,
    /// How high it is.
    pub rows: usize,
}

/// How much of each thing is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Names as short as tells them apart; lines of libraries that were inlined are told
    /// by the lines they were inlined into.
    Short,
    /// Names and lines as they are.
    Full,
}

/// How much of a list is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A screenful, if there is a screen.
    Screenful,
    /// All of it.
    All,
}

/// Where what is broken into rows is broken in files and pipes.
const PAGE: usize = 100;

/// Rows of a screen that are not for a list: its title, what follows it.
const AROUND_A_LIST: usize = 6;

/// A list is not cut to less.
const SHORTEST_LIST: usize = 5;

impl Style {
    /// A file or a pipe.
    pub const PLAIN: Self = Self { colours: false, screen: None };

    /// Where what can be broken into rows is broken.
    pub fn page(self) -> usize {
        self.screen.map_or(PAGE, |screen| screen.columns)
    }

    /// How wide something may be beside `taken` columns, but not less than `least`;
    /// without a bound if there is no screen.
    pub fn room(self, taken: usize, least: usize) -> usize {
        self.screen.map_or(usize::MAX, |screen| screen.columns.saturating_sub(taken).max(least))
    }

    /// How many of the `count` rows of a list are shown.
    pub fn listed(self, count: usize, extent: Extent) -> usize {
        match (self.screen, extent) {
            (Some(screen), Extent::Screenful) => {
                let most = screen.rows.saturating_sub(AROUND_A_LIST).max(SHORTEST_LIST);
                // A row that says that one is left out takes its place.
                if count <= most { count } else { most - 1 }
            }
            _ => count,
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        let text = shown(text);
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text }
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

/// A number with its thousands set apart, or with an exponent if it is huge.
pub fn short_number(value: u128) -> String {
    if value < 1_000_000_000 { number(value) } else { format!("{:.1e}", value as f64) }
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
/// Cells are text alone, without colours.
pub fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let cells = |row: &Vec<String>| row.iter().map(|cell| shown(cell)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[column] - width(cell));
            let (before, after) =
                if right.contains(&column) { (&padding[..], "") } else { ("", &padding[..]) };
            line.push_str(&format!("  {before}{cell}{after}"));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// How many columns `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` in at most `room` columns, the last an ellipsis if some is left out.
pub fn shorten(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    format!("{}…", head(text, room.saturating_sub(1)))
}

/// `text` in at most `room` columns, an ellipsis in the middle for what is left
/// out: names begin with where they belong and end with what they are.
pub fn shorten_middle(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    let front = head(text, kept * 2 / 5);
    format!("{front}…{}", tail(text, kept - front.width()))
}

/// The first letters, as many as fit.
fn head(text: &str, room: usize) -> &str {
    let mut taken = 0;
    let end = text.char_indices().find(|(_, letter)| {
        taken += letter.width().unwrap_or(0);
        taken > room
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

/// The last letters, as many as fit.
fn tail(text: &str, room: usize) -> &str {
    let mut taken = 0;
    let start = text.char_indices().rev().find(|(_, letter)| {
        taken += letter.width().unwrap_or(0);
        taken > room
    });
    &text[start.map_or(0, |(at, letter)| at + letter.len_utf8())..]
}

/// `text`, filled up to `columns` with blanks.
pub fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// Words in rows of at most `room` columns, the words of a row `between` apart.
pub fn rows(words: &[String], between: &str, room: usize) -> Vec<String> {
    broken(words, between, room).iter().map(|row| row.join(between)).collect()
}

/// The words of each row.
pub fn broken<'a>(words: &'a [String], between: &str, room: usize) -> Vec<&'a [String]> {
    let mut rows = Vec::new();
    let (mut begin, mut taken) = (0, 0);
    for (place, word) in words.iter().enumerate() {
        let more = between.width() + word.width();
        if place > begin && taken + more > room {
            rows.push(&words[begin..place]);
            (begin, taken) = (place, word.width());
        } else {
            taken += if place > begin { more } else { word.width() };
        }
    }
    rows.extend((begin < words.len()).then(|| &words[begin..]));
    rows
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
    use backtrail_foreign::text::COLOURS;

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
    fn colours_are_those_that_lines_let_through() {
        let style = Style { colours: true, ..Style::PLAIN };
        for paint in [Style::bold, Style::dim, Style::warning, Style::decision] {
            let painted = paint(style, "a");
            let mut parts = painted.split('\x1b').skip(1);
            assert!(parts.clone().count() == 2);
            assert!(parts.all(|part| COLOURS.iter().any(|colour| part.starts_with(colour))));
        }
        assert_eq!(style.bold("\x1b[31m"), "\x1b[1m\\u{1b}[31m\x1b[0m");
    }

    #[test]
    fn what_is_long_is_cut() {
        assert_eq!(shorten("abcdef", 4), "abc…");
        assert_eq!(shorten_middle("abcdefghijklmn", 11), "abcd…ijklmn");
        assert_eq!(shorten_middle("abcdef", 6), "abcdef");
        assert_eq!(short_path("/a/b/c.c"), "b/c.c");
    }

    #[test]
    fn columns_are_counted_and_not_letters() {
        // Two columns each; the accent is a letter of none.
        let names = ["名前名前名前", "e\u{301}e\u{301}e\u{301}", "plain::name", "✔\u{fe0f}"];
        for name in names {
            for room in 1..20 {
                for short in [shorten(name, room), shorten_middle(name, room)] {
                    assert!(width(&short) <= room, "{short} in {room}");
                    assert!(width(name) > room || short == name, "{short} in {room}");
                }
            }
        }
        let row = |cell: &str| vec![cell.to_owned(), "|".to_owned()];
        let lined_up = table(&names.map(row), &[]);
        let ends: Vec<usize> = lined_up.lines().map(width).collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "{lined_up}");
    }

    #[test]
    fn only_a_screen_bounds_anything() {
        let screen = Some(Screen { columns: 80, rows: 24 });
        let terminal = Style { colours: false, screen };
        assert_eq!(terminal.listed(18, Extent::Screenful), 18);
        assert_eq!(terminal.listed(19, Extent::Screenful), 17);
        assert_eq!(terminal.listed(19, Extent::All), 19);
        assert_eq!(terminal.room(70, 20), 20);
        assert_eq!(Style::PLAIN.listed(5_000, Extent::Screenful), 5_000);
        assert_eq!(Style::PLAIN.room(70, 20), usize::MAX);
    }

    #[test]
    fn words_fill_rows() {
        let words = ["ab", "cd", "a long one", "e"].map(str::to_owned);
        assert_eq!(rows(&words, "  ", 6), ["ab  cd", "a long one", "e"]);
        assert_eq!(rows(&[], "  ", 6), Vec::<String>::new());
    }
}
