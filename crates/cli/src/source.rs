//! Lines of source files, where the files are still there.

use std::collections::BTreeMap;
use std::path::Path;

use backtrail_foreign::file;

/// Source files read so far.
#[derive(Default)]
pub struct Sources {
    files: BTreeMap<String, Vec<String>>,
}

impl Sources {
    /// Line `line` of `file`, counted from 1.
    pub fn line(&mut self, file: &str, line: u32) -> Option<&str> {
        if !self.files.contains_key(file) {
            self.files.insert(file.to_owned(), read(file).unwrap_or_default());
        }
        self.files[file].get(line.checked_sub(1)? as usize).map(String::as_str)
    }
}

/// The lines of a file, if it is still there.
pub fn read(file: &str) -> Option<Vec<String>> {
    let bytes = file::read(Path::new(file)).ok()?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}
