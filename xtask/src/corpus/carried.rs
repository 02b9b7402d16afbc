//! What `backtrail info --json` says of an executable.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::tree::Workshop;
use crate::command;

/// What executables carry, taken together: a unit that is in two of them counts
/// once.
#[derive(Debug, Default)]
pub struct Carried {
    /// The units, with what is carried of each: `yes` or `no: why`.
    pub units: BTreeMap<String, Unit>,
    /// Inputs of the link that are no units, with the reason.
    pub native: BTreeMap<String, String>,
    /// Functions that would not be instrumented, with the reason.
    pub left_out: BTreeMap<String, String>,
    /// The names of all functions, as the linker knows them.
    pub functions: BTreeSet<String>,
    /// The bytes of the executables, without what they carry.
    pub program_bytes: u64,
    /// The bytes carried.
    pub carried_bytes: u64,
}

/// One unit.
#[derive(Debug)]
pub struct Unit {
    /// Its name.
    pub name: String,
    /// `yes` or `no: why`.
    pub carried: String,
    /// How many functions it has.
    pub functions: usize,
}

impl Carried {
    /// Adds what an executable carries.
    pub fn add(&mut self, workshop: &Workshop, executable: &Path) -> Result<()> {
        let mut info = workshop.backtrail();
        let text = command::output(info.args(["info", "--json"]).arg(executable))?;
        self.add_document(&text)
            .with_context(|| format!("cannot read what info says of {}", executable.display()))
    }

    fn add_document(&mut self, text: &str) -> Result<()> {
        let document: Value = serde_json::from_str(text)?;
        anyhow::ensure!(document["schema"] == "backtrail.info/1", "another schema than expected");
        let rows = |name: &str| document[name].as_array().context("a list is missing");
        let word = |row: &Value, name: &str| row[name].as_str().map(str::to_owned);
        for row in rows("units")? {
            let unit = Unit {
                name: word(row, "name").context("a unit without a name")?,
                carried: word(row, "carried").context("a unit that is neither carried nor not")?,
                functions: row["functions"].as_u64().unwrap_or(0) as usize,
            };
            self.units.insert(word(row, "id").context("a unit without an id")?, unit);
        }
        for row in rows("functions")? {
            let name = word(row, "name").context("a function without a name")?;
            let how = word(row, "instrumented").unwrap_or_default();
            if how.starts_with("no") {
                let id = word(row, "id").unwrap_or_else(|| name.clone());
                self.left_out.insert(id, how);
            }
            self.functions.insert(name);
        }
        for row in rows("native")? {
            let path = word(row, "path").context("a native input without a path")?;
            self.native.insert(path, word(row, "why").unwrap_or_default());
        }
        let carried = document["carried_bytes"].as_u64().context("no carried_bytes")?;
        let file = document["file_bytes"].as_u64().context("no file_bytes")?;
        self.carried_bytes += carried;
        self.program_bytes += file.saturating_sub(carried);
        Ok(())
    }

    /// How many functions all units have.
    pub fn function_count(&self) -> usize {
        self.units.values().map(|unit| unit.functions).sum()
    }

    /// Units that are not carried, each with its reason.
    pub fn missing_units(&self) -> Vec<String> {
        let missing = self.units.values().filter(|unit| unit.carried != "yes");
        missing.map(|unit| format!("{}: {}", unit.name, unit.carried)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{ "schema": "backtrail.info/1", "file_bytes": 100, "carried_bytes": 60,
        "units": [ {"id": "1", "name": "a.c", "carried": "yes", "functions": 2},
                   {"id": "2", "name": "b.c", "carried": "no: assembly in it", "functions": 0} ],
        "functions": [ {"id": "a.c#f", "name": "f", "instrumented": "whole"},
                       {"id": "a.c#g", "name": "g", "instrumented": "no: naked"} ],
        "native": [ {"path": "c.o", "why": "made by another compiler"} ] }"#;

    #[test]
    fn a_unit_in_two_executables_counts_once() {
        let mut carried = Carried::default();
        carried.add_document(DOCUMENT).unwrap();
        carried.add_document(DOCUMENT).unwrap();
        assert_eq!((carried.units.len(), carried.function_count()), (2, 2));
        assert_eq!(carried.missing_units(), ["b.c: no: assembly in it"]);
        assert_eq!(carried.left_out["a.c#g"], "no: naked");
        assert_eq!((carried.program_bytes, carried.carried_bytes), (80, 120));
        assert!(carried.add_document("{}").is_err());
    }
}
