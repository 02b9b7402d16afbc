//! Standard output: text for people, documents for programs.
//!
//! Everything that a verb prints goes through here, so that text passes
//! [`Lines`] and an output that cannot be written (a full disk) is an error that
//! says so, in every verb. What is not flushed is not written: verbs use
//! [`print`], or end with `flush`.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write};

use backtrail_foreign::text::{Lines, shown};

use crate::style::colours;

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Text,
    /// A document in a format that programs read; it says itself how it writes
    /// what is odd in names.
    Document,
}

/// Standard output, for what has this form.
pub fn open(form: Form) -> Box<dyn Write> {
    let out = BufWriter::new(Stdout(io::stdout().lock()));
    match form {
        Form::Text => Box::new(Lines::new(out, colours())),
        Form::Document => Box::new(out),
    }
}

/// The form of what `--json` asks for, or not.
pub fn form(json: bool) -> Form {
    if json { Form::Document } else { Form::Text }
}

/// Whether it is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Prints a line of text that has no line end in itself, for example a path.
pub fn line(text: impl Display) -> io::Result<()> {
    let mut out = open(Form::Text);
    writeln!(out, "{}", shown(&text.to_string()))?;
    out.flush()
}

/// Prints a whole document.
pub fn document(bytes: &[u8]) -> io::Result<()> {
    let mut out = open(Form::Document);
    out.write_all(bytes)?;
    out.flush()
}

/// Prints a help text, in colours on a terminal.
pub fn help(help: &clap::Error) -> io::Result<()> {
    match colours() {
        true => help.print().map_err(named),
        false => document(help.render().to_string().as_bytes()),
    }
}

/// Standard output, whose errors say what could not be written.
struct Stdout(StdoutLock<'static>);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}

fn named(error: io::Error) -> io::Error {
    match error.kind() {
        // Whoever writes tries again.
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, format!("cannot write to standard output: {error}")),
    }
}
