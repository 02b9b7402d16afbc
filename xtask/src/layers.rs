//! The crate table of ARCHITECTURE.md, against what cargo says.
//!
//! The table is the rule: a crate may depend on the workspace crates of its
//! "may use" column and on no other, in normal and in build dependencies
//! (dev-dependencies are free, tests may look at anything). A crate without a
//! row, and a row without a crate that is not marked as planned, are findings
//! too: so the document can neither lag behind nor run ahead.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// What the table says of one crate.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Not there yet.
    pub planned: bool,
    /// What it may use.
    pub may_use: MayUse,
}

/// The last column.
#[derive(Debug, PartialEq, Eq)]
pub enum MayUse {
    /// These.
    Only(BTreeSet<String>),
    /// Any but these.
    AllBut(BTreeSet<String>),
}

impl MayUse {
    fn parse(cell: &str) -> MayUse {
        let names = |list: &str| {
            let names = list.split(',').map(|name| name.trim().trim_matches('`').to_owned());
            names.filter(|name| !name.is_empty()).collect()
        };
        match cell.strip_prefix("all but ") {
            Some(list) => MayUse::AllBut(names(list)),
            None if cell == "any" => MayUse::AllBut(BTreeSet::new()),
            None if matches!(cell, "–" | "-" | "") => MayUse::Only(BTreeSet::new()),
            None => MayUse::Only(names(cell)),
        }
    }

    fn allows(&self, name: &str) -> bool {
        match self {
            MayUse::Only(names) => names.contains(name),
            MayUse::AllBut(names) => !names.contains(name),
        }
    }

    fn mentioned(&self) -> &BTreeSet<String> {
        match self {
            MayUse::Only(names) | MayUse::AllBut(names) => names,
        }
    }
}

/// Reads the table whose heading is `| crate | … | state | may use |`.
pub fn read_table(document: &str) -> Result<BTreeMap<String, Row>> {
    let mut lines = document.lines();
    lines
        .find(|line| line.starts_with("| crate |") && line.ends_with("| state | may use |"))
        .context("no table with the heading `| crate | … | state | may use |`")?;
    let mut rows = BTreeMap::new();
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, _purpose, state, may_use] = cells[..] else {
            bail!("a row of the crate table has {} cells, not 4: {line}", cells.len());
        };
        let planned = match state {
            "here" => false,
            "planned" => true,
            other => bail!("the state of {name} is `{other}`, not `here` or `planned`"),
        };
        let name = name.trim_matches('`').to_owned();
        let row = Row { planned, may_use: MayUse::parse(may_use) };
        if rows.insert(name.clone(), row).is_some() {
            bail!("{name} has two rows in the crate table");
        }
    }
    Ok(rows)
}

/// The workspace crates, each with the workspace crates it depends on.
pub fn read_metadata(metadata: &Value) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let short = |name: &str| name.strip_prefix("backtrail-").unwrap_or(name).to_owned();
    let packages = metadata["packages"].as_array().context("no packages in cargo metadata")?;
    let mut crates = BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().context("a package without a name")?;
        let uses = package["dependencies"].as_array().context("a package without dependencies")?;
        let uses = uses
            .iter()
            .filter(|used| used["path"].is_string() && used["kind"] != "dev")
            .filter_map(|used| used["name"].as_str().map(short))
            .collect();
        crates.insert(short(name), uses);
    }
    Ok(crates)
}

/// What does not agree, a sentence each.
pub fn compare(
    table: &BTreeMap<String, Row>,
    crates: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, uses) in crates {
        let Some(row) = table.get(name) else {
            findings.push(format!("{name} is in the workspace and not in the table"));
            continue;
        };
        if row.planned {
            findings.push(format!("{name} is in the workspace and the table calls it planned"));
        }
        for used in uses.iter().filter(|used| !row.may_use.allows(used)) {
            findings.push(format!("{name} depends on {used}, which the table does not allow"));
        }
    }
    for (name, row) in table {
        if !row.planned && !crates.contains_key(name) {
            findings.push(format!("{name} is in the table as here and not in the workspace"));
        }
        for used in row.may_use.mentioned().iter().filter(|used| !table.contains_key(*used)) {
            findings.push(format!("{name} may use {used}, which has no row"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
text
| crate | purpose | state | may use |
| --- | --- | --- | --- |
| `abi` | the contract | here | – |
| `graph` | algorithms | here | – |
| `ir` | the model | here | graph |
| `trace` | later | planned | graph, `ir` |
| `cli` | the command | here | all but abi |

| `not` | this | one | here |
";

    fn crates(list: &[(&str, &[&str])]) -> BTreeMap<String, BTreeSet<String>> {
        let set = |uses: &[&str]| uses.iter().map(|name| (*name).to_owned()).collect();
        list.iter().map(|(name, uses)| ((*name).to_owned(), set(uses))).collect()
    }

    #[test]
    fn agreement_is_silent() {
        let table = read_table(TABLE).unwrap();
        assert_eq!(table.len(), 5);
        let here =
            [("abi", &[][..]), ("graph", &[]), ("ir", &["graph"]), ("cli", &["graph", "ir"])];
        assert_eq!(compare(&table, &crates(&here)), Vec::<String>::new());
    }

    #[test]
    fn each_disagreement_is_named() {
        let table = read_table(TABLE).unwrap();
        let here = [
            ("abi", &["graph"][..]),
            ("cli", &["abi"]),
            ("graph", &[]),
            ("trace", &[]),
            ("x", &[]),
        ];
        assert_eq!(
            compare(&table, &crates(&here)),
            [
                "abi depends on graph, which the table does not allow",
                "cli depends on abi, which the table does not allow",
                "trace is in the workspace and the table calls it planned",
                "x is in the workspace and not in the table",
                "ir is in the table as here and not in the workspace",
            ]
        );
    }

    #[test]
    fn a_malformed_table_is_an_error() {
        assert!(read_table("no table").is_err());
        let heading = "| crate | purpose | state | may use |\n| --- | --- | --- | --- |\n";
        assert!(read_table(&format!("{heading}| a | b | here |")).is_err());
        assert!(read_table(&format!("{heading}| a | b | soon | – |")).is_err());
    }
}
