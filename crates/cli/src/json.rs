//! Documents for programs, on standard output or in files.

use std::io::{self, Write};

use serde::Serialize;

/// Writes a document that people may read, too.
pub fn write_document(out: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

/// Writes a value in a line of its own.
pub fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}
