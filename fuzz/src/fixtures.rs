//! The files that inputs are made from.
//!
//! `cargo xtask fuzz readers` makes a folder of them anew: a program, its
//! variants, what they recorded and a profile. Started with two variables in
//! its environment, a target writes its first inputs and ends.

use std::path::{Path, PathBuf};

/// Names the folder of fixtures.
const FROM: &str = "BACKTRAIL_FUZZ_FIXTURES";

/// Names the folder that inputs are written to.
const TO: &str = "BACKTRAIL_FUZZ_INPUTS";

/// The folder.
pub struct Fixtures(PathBuf);

impl Fixtures {
    /// The file of this name, which must be there.
    pub fn read(&self, name: &str) -> Vec<u8> {
        let path = self.0.join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// All files under the folder `name` whose names begin with `prefix`.
    pub fn all(&self, name: &str, prefix: &str) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let mut folders = vec![self.0.join(name)];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder)
                .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            for entry in entries {
                let path = entry.expect("the folder can be read").path();
                if path.is_dir() {
                    folders.push(path);
                } else if has_prefix(&path, prefix) {
                    found.push(path);
                }
            }
        }
        found.sort();
        assert!(!found.is_empty(), "no {prefix}* in {name}");
        found.iter().map(|path| std::fs::read(path).expect("the file can be read")).collect()
    }
}

fn has_prefix(path: &Path, prefix: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}

/// If first inputs are asked for, writes those that `make` makes and ends the
/// process.
pub fn write_if_asked(make: impl FnOnce(&Fixtures) -> Vec<Vec<u8>>) {
    let (Some(from), Some(to)) = (std::env::var_os(FROM), std::env::var_os(TO)) else { return };
    let inputs = make(&Fixtures(from.into()));
    for (number, input) in inputs.iter().enumerate() {
        let path = Path::new(&to).join(format!("first-{number:03}"));
        std::fs::write(&path, input).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    std::process::exit(0);
}
