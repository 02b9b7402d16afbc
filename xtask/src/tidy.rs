//! `cargo xtask tidy`: what neither the compiler nor clippy looks at.
//!
//! - a Rust file is one idea: at most [`LONGEST`] lines;
//! - nothing unfinished is checked in: no placeholder macros, no ignored tests;
//! - links between the documents lead to files that exist;
//! - lists in documents say what the code has (`lists`).

mod lists;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The most lines a Rust file may have.
pub const LONGEST: usize = 700;

/// What does not belong in a source that is checked in. Spelled in two parts,
/// so that this list is not its own finding.
const UNFINISHED: &[&str] =
    &[concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[", "ignore")];

/// Prints what was found; an error if that is anything. `heavy` are the commands that are
/// run by hand.
pub fn run(root: &Path, heavy: &[String]) -> Result<()> {
    let mut findings = check(root, heavy)?;
    lists::check(root, heavy, &mut findings)?;
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    println!("tidy");
    Ok(())
}

/// What is found in each file by itself.
fn check(root: &Path, heavy: &[String]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in files(root)? {
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        let read =
            || std::fs::read_to_string(&file).with_context(|| format!("cannot read {shown}"));
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => check_source(&shown, &read()?, &mut findings),
            Some("md") => {
                let text = read()?;
                check_links(&file, &shown, &text, &mut findings);
                lists::check_commands(&shown, &text, heavy, &mut findings);
            }
            _ => {}
        }
    }
    Ok(findings)
}

/// The files of the project, in order: no build output, nothing hidden.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let kind = entry.file_type()?;
            if kind.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn check_source(shown: &str, text: &str, findings: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LONGEST {
        findings
            .push(format!("{shown}: {lines} lines, more than {LONGEST}: which two ideas is it?"));
    }
    for (number, line) in text.lines().enumerate() {
        for word in UNFINISHED.iter().filter(|word| line.contains(**word)) {
            findings.push(format!("{shown}:{}: `{word}` is checked in", number + 1));
        }
    }
}

fn check_links(file: &Path, shown: &str, text: &str, findings: &mut Vec<String>) {
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        for target in link_targets(line) {
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = path.is_empty() || path.contains("://") || path.starts_with("mailto:");
            if !elsewhere && !folder.join(path).exists() {
                findings.push(format!("{shown}:{}: {path} does not exist", number + 1));
            }
        }
    }
}

/// The targets of `[text](target)` in a line.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_finding_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        std::fs::create_dir(root.join("target")).unwrap();
        write("target/made.rs", &format!("{}\n", UNFINISHED[0]));
        write("good.rs", "fn main() {}\n");
        write("long.rs", &"\n".repeat(LONGEST + 1));
        write("half.rs", &format!("fn f() {{\n    {})\n}}\n", UNFINISHED[0]));
        write("a.md", "[x](good.rs#L1) [y](gone.md) [z](https://example.org)\n```\n[c](no)\n```\n");
        assert_eq!(
            check(root, &[]).unwrap(),
            [
                "a.md:1: gone.md does not exist".to_owned(),
                format!("half.rs:2: `{}` is checked in", UNFINISHED[0]),
                "long.rs: 701 lines, more than 700: which two ideas is it?".to_owned(),
            ]
        );
    }
}
