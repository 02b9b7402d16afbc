//! A program that is to run, as it is named.

use std::ffi::{OsStr, OsString};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use backtrail_build::clang::find_program;
use clap::builder::{OsStringValueParser, TypedValueParser as _, ValueParser, ValueParserFactory};

/// A file, or a name that is looked for where shells look for commands.
#[derive(Debug, Clone)]
pub struct Program {
    typed: OsString,
    path: PathBuf,
}

impl Program {
    /// A file of that name comes first: it is what `PROG` means to all other verbs. A folder does
    /// not: nothing in it could be meant.
    fn find(typed: OsString) -> Self {
        let file = Path::new(&typed);
        let command = if file.is_file() { None } else { typed.to_str().and_then(find_program) };
        Self { path: command.unwrap_or_else(|| file.to_owned()), typed }
    }

    /// What the program is told its name is: what was typed.
    pub fn name(&self) -> &OsStr {
        &self.typed
    }
}

impl Deref for Program {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl ValueParserFactory for Program {
    type Parser = ValueParser;

    fn value_parser() -> ValueParser {
        ValueParser::new(OsStringValueParser::new().map(Self::find))
    }
}
