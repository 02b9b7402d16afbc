//! Lines of source files, where the files are still there.

use std::collections::BTreeMap;

/// Source files read so far.
#[derive(Default)]
pub struct Sources {
    files: BTreeMap<String, Vec<String>>,
}

impl Sources {
    /// Line `line` of `file`, counted from 1.
    pub fn line(&mut self, file: &str, line: u32) -> Option<&str> {
        if !self.files.contains_key(file) {
            let bytes = std::fs::read(file).unwrap_or_default();
            let lines = String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect();
            self.files.insert(file.to_owned(), lines);
        }
        self.files[file].get(line.checked_sub(1)? as usize).map(String::as_str)
    }
}
