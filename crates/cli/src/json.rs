//! Documents for programs, on standard output or in files.
//!
//! People look at them, too, on terminals: what these obey, or readers do not see, is
//! written as `\u001b`, which is the same text to whoever reads JSON.

use std::io::{self, Write};

use backtrail_foreign::text::is_hidden;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

/// Writes a document that people may read, too.
pub fn write_document(out: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    write(out, Plain(PrettyFormatter::new()), document)?;
    writeln!(out)
}

/// Writes a value in a line of its own.
pub fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    write(out, Plain(CompactFormatter), value)?;
    writeln!(out)
}

/// A text as it stands in a document.
pub fn text(text: &str) -> String {
    let mut out = Vec::new();
    // A text can be written, and into memory.
    let _ = write(&mut out, Plain(CompactFormatter), &text);
    String::from_utf8_lossy(&out).into_owned()
}

fn write(out: &mut impl Write, form: impl Formatter, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, form))?;
    Ok(())
}

/// A form whose texts have nothing in them that a terminal would obey.
struct Plain<F>(F);

/// What is the form's own.
macro_rules! as_before {
    ($($name:ident($($flag:ident)?)),* $(,)?) => {$(
        fn $name<W: Write + ?Sized>(&mut self, out: &mut W $(, $flag: bool)?) -> io::Result<()> {
            self.0.$name(out $(, $flag)?)
        }
    )*};
}

impl<F: Formatter> Formatter for Plain<F> {
    as_before! {
        begin_array(), end_array(), begin_array_value(first), end_array_value(),
        begin_object(), end_object(), begin_object_key(first), end_object_key(),
        begin_object_value(), end_object_value(),
    }

    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, letter)) = rest.char_indices().find(|it| is_hidden(it.1)) {
            out.write_all(&rest.as_bytes()[..at])?;
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &rest[at + letter.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_obey_is_escaped_and_means_the_same() {
        let names = ["a\u{7f}b\u{9b}\u{202e}", "\x1b[31m\"\\", "\u{e0041}größe", "✔\u{fe0f}"];
        let mut out = Vec::new();
        write_document(&mut out, &names).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert_eq!(written.lines().nth(1), Some(r#"  "a\u007fb\u009b\u202e","#));
        assert!(written.chars().all(|letter| letter == '\n' || !is_hidden(letter)));
        assert_eq!(serde_json::from_str::<Vec<String>>(&written).unwrap(), names);
        assert_eq!(text(names[2]), r#""\udb40\udc41größe""#);
        // Nothing else is written in another way.
        let plain = serde_json::json!({"a": [1, {}, []], "b": {"c": null, "d": "e\n"}});
        let mut out = Vec::new();
        write_document(&mut out, &plain).unwrap();
        assert_eq!(out, format!("{plain:#}\n").into_bytes());
        let mut out = Vec::new();
        write_line(&mut out, &plain).unwrap();
        assert_eq!(out, format!("{plain}\n").into_bytes());
    }
}
