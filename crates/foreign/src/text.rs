//! Text that others wrote, on its way to a terminal.
//!
//! Names of functions, units and files, source lines, arguments, what a linker
//! said: whoever made the input chose them. A terminal obeys some characters
//! (a title, a colour, the cursor moved up, a line over another), and a reader is
//! fooled by others (text that runs from right to left, letters that take no
//! room). They are shown as `\u{1b}`, as Rust writes them, and not sent.
//!
//! Four places do it, so that no verb has to think of it: `Style` and `table` of
//! `report::terminal` for what is painted or lined up, [`say`] for standard error,
//! and [`Lines`] for all text on standard output, which lets through line ends
//! and our own [`COLOURS`] only. What [`Lines`] cannot know
//! is whether a line end is part of a name: a name that stands in a line of its
//! own accord goes through [`shown`] first. To do it twice changes nothing; for
//! that, a backslash is left alone.
//!
//! Which characters: controls (C0, DEL, C1), line and paragraph separators, marks
//! and isolates of direction, and what Unicode says is not seen by itself
//! (`Default_Ignorable_Code_Point`) and interlinear marks: with zero-width letters
//! two names look alike that are not. Variation selectors stay, of all that is not
//! seen: they choose how the letter before them looks, as for many an emoji in a
//! source line.

use std::fmt;
use std::io::{self, Write};

/// Whether a terminal obeys `letter`, or a reader does not see it.
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e00ff}'
                | '\u{e01f0}'..='\u{e0fff}'
        )
}

fn push_shown(out: &mut String, text: &str) {
    for letter in text.chars() {
        match is_hidden(letter) {
            true => out.extend(letter.escape_unicode()),
            false => out.push(letter),
        }
    }
}

/// `text` with what a terminal would obey or a reader not see shown as `\u{…}`.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_shown(&mut out, text);
    out
}

/// A line of source, with four columns for a tab and without the indentation.
pub fn source(line: &str) -> String {
    shown(&line.trim().replace('\t', "    "))
}

/// Says a line on standard error. If nobody hears it, nothing else can be done.
pub fn say(line: fmt::Arguments<'_>) {
    let line = line.to_string();
    // In one piece: other processes may say something, too.
    let _ = io::stderr().write_all(format!("{}\n", shown(&line)).as_bytes());
}

/// Says a line on standard error, which is given as for `format!`.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => { $crate::text::say(::core::format_args!($($words)*)) };
}

/// What ends a colour and what begins one, behind the escape character.
pub const COLOURS: [&str; 5] = ["[0m", "[1m", "[2m", "[33m", "[36m"];

/// Lines on their way to a terminal: nothing passes but text, line ends and, where
/// they are wanted, our own [`COLOURS`].
pub struct Lines<W> {
    inner: W,
    colours: bool,
    /// A line that has no end yet.
    begun: Vec<u8>,
}

impl<W: Write> Lines<W> {
    /// Lines into `inner`.
    pub fn new(inner: W, colours: bool) -> Self {
        Self { inner, colours, begun: Vec::new() }
    }

    /// Lets what is complete through, up to `end`.
    fn pass(&mut self, end: usize) -> io::Result<()> {
        let lines: Vec<u8> = self.begun.drain(..end).collect();
        if lines.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
            return self.inner.write_all(&lines);
        }
        let text = String::from_utf8_lossy(&lines);
        let mut out = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            let mut parts = line.split('\x1b');
            push_shown(&mut out, parts.next().unwrap_or_default());
            for part in parts {
                let is_ours = self.colours && COLOURS.iter().any(|it| part.starts_with(it));
                out.push_str(if is_ours { "\x1b" } else { "\\u{1b}" });
                push_shown(&mut out, part);
            }
            out.push_str(end);
        }
        self.inner.write_all(out.as_bytes())
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        if bytes.contains(&b'\n') {
            let end = self.begun.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            self.pass(end)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(self.begun.len())?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_hides_is_shown() {
        assert_eq!(shown("a\x1b[31m\n\t\u{9b}"), r"a\u{1b}[31m\u{a}\u{9}\u{9b}");
        assert_eq!(shown("\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}"), {
            r"\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}"
        });
        assert_eq!(shown("a\u{200b}b\u{feff}c\u{ad}d"), r"a\u{200b}b\u{feff}c\u{ad}d");
        // What is read as it is, stays; also what was shown already.
        for text in ["f<…>::größe", "نام", "नमस्ते", "✔\u{fe0f}", "e\u{301}", r"\u{1b}"]
        {
            assert_eq!(shown(text), text);
        }
        assert_eq!(source("\tif (x)\treturn;\r"), "if (x)    return;");
    }

    /// What [`Lines`] makes of `text`, given in pieces.
    fn pass(text: &[u8], colours: bool, piece: usize) -> String {
        let mut lines = Lines::new(Vec::new(), colours);
        text.chunks(piece).for_each(|piece| lines.write_all(piece).unwrap());
        lines.flush().unwrap();
        String::from_utf8(lines.inner).unwrap()
    }

    #[test]
    fn lines_let_nothing_through_but_text_and_our_colours() {
        let painted = format!("{}  é\x1b]0;x\x07\x1b[31m\x1b\nb\u{202e}\n", "\x1b[2ma\x1b[0m");
        for piece in 1..painted.len() {
            assert_eq!(
                pass(painted.as_bytes(), true, piece),
                "\x1b[2ma\x1b[0m  é\\u{1b}]0;x\\u{7}\\u{1b}[31m\\u{1b}\nb\\u{202e}\n"
            );
        }
        assert_eq!(pass(b"\x1b[1ma\x1b[0m", false, 1), r"\u{1b}[1ma\u{1b}[0m");
        assert_eq!(pass(b"plain\nwithout an end", false, 4), "plain\nwithout an end");
        assert_eq!(pass(b"\xff\xfe", false, 1), "\u{fffd}\u{fffd}");
    }
}
