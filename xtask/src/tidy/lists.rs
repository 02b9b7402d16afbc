//! Lists in documents that repeat what the code has: each says all of it, and nothing else.
//!
//! | document | list | what it repeats |
//! | --- | --- | --- |
//! | `docs/cli.md` | the table of exit codes, the schemas | the constants of `cli/src/exit.rs`, the schemas that sources write and the files in `docs/schema` |
//! | `backtrail --help` | the exit codes | the same constants |
//! | `docs/README.md` | the pages | the files in `docs` |
//! | `CONTRIBUTING.md` | the heavy runs | what `cargo xtask` can do |
//!
//! In every document, a command `cargo xtask fuzz …` or `bench …` is one that there is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

const CODES: &str = "crates/cli/src/exit.rs";
const HELP: &str = "crates/cli/src/args.rs";
const CLI: &str = "docs/cli.md";
const PAGES: &str = "docs/README.md";
const CONTRIBUTING: &str = "CONTRIBUTING.md";

/// Verbs whose second word says what is run.
const GROUPS: [&str; 2] = ["fuzz", "bench"];

/// Compares the lists below `root` with the code. `heavy` are the commands that are run by
/// hand (`fuzz crash`, `corpus`).
pub fn check(root: &Path, heavy: &[String], findings: &mut Vec<String>) -> Result<()> {
    let read = |name: &str| {
        std::fs::read_to_string(root.join(name)).with_context(|| format!("cannot read {name}"))
    };
    let cli = read(CLI)?;
    let codes = exit_codes(&read(CODES)?);
    compare(&format!("{CLI}: exit code"), &first_column(&cli, "## Exit codes"), &codes, findings);
    compare(&format!("{HELP}: exit code"), &codes_of_help(&read(HELP)?), &codes, findings);

    let sources = sources(&root.join("crates"))?;
    let mut schemas = BTreeSet::new();
    for source in &sources {
        let text = std::fs::read_to_string(source)
            .with_context(|| format!("cannot read {}", source.display()))?;
        schemas.extend(quoted_schemas(&text));
    }
    let files = names(&root.join("docs/schema"), "json")?;
    compare("docs/schema: file", &files, &schemas.iter().map(|it| file_of(it)).collect(), findings);
    compare(&format!("{CLI}: schema"), &linked(&cli, "schema/"), &files, findings);

    let pages = names(&root.join("docs"), "md")?;
    let others = pages.into_iter().filter(|name| name != "README.md").collect();
    compare(&format!("{PAGES}: page"), &pages_of(&read(PAGES)?), &others, findings);

    let heavy: BTreeSet<String> = heavy.iter().cloned().collect();
    let said = commands(&read(CONTRIBUTING)?);
    compare(&format!("{CONTRIBUTING}: heavy run"), &said, &heavy, findings);
    Ok(())
}

/// Commands in a document that do not exist.
pub fn check_commands(shown: &str, text: &str, heavy: &[String], findings: &mut Vec<String>) {
    for command in commands(text).into_iter().filter(|it| !heavy.contains(it)) {
        findings.push(format!("{shown}: there is no `cargo xtask {command}`"));
    }
}

/// One finding for each thing that only one of the two has.
fn compare(what: &str, said: &BTreeSet<String>, is: &BTreeSet<String>, findings: &mut Vec<String>) {
    findings.extend(is.difference(said).map(|it| format!("{what} {it} is missing")));
    findings.extend(said.difference(is).map(|it| format!("{what} {it} is not in the code")));
}

/// The values of the constants of exit codes, and success.
fn exit_codes(text: &str) -> BTreeSet<String> {
    let value = |line: &str| {
        let (_, value) = line.strip_prefix("pub const ")?.split_once(": u8 = ")?;
        Some(value.trim_end_matches(';').to_owned())
    };
    text.lines().filter_map(value).chain(["0".to_owned()]).collect()
}

/// The first words of the rows of a table below a heading.
fn first_column(text: &str, heading: &str) -> BTreeSet<String> {
    let below = text.lines().skip_while(|line| *line != heading).skip(1);
    let section = below.take_while(|line| !line.starts_with("## "));
    let rows = section.filter_map(|line| line.strip_prefix("| ")).skip(1);
    let first = |row: &str| row.split(' ').next().map(str::to_owned);
    rows.filter_map(first).filter(|word| word != "---").collect()
}

/// The numbers that the help text explains.
fn codes_of_help(text: &str) -> BTreeSet<String> {
    let Some((_, list)) = text.split_once("\"Exit codes: ") else { return BTreeSet::new() };
    let list = list.split('"').next().unwrap_or_default().replace("\\\n", " ");
    let number = |entry: &str| entry.split_whitespace().next().map(str::to_owned);
    list.split(';').filter_map(number).collect()
}

/// The schemas that a source writes: `backtrail.KIND/NUMBER` between quotation marks.
fn quoted_schemas(text: &str) -> BTreeSet<String> {
    let quoted = text.split('"').filter_map(|it| it.strip_prefix("backtrail."));
    let is_schema = |it: &&str| {
        it.split_once('/').is_some_and(|(kind, number)| {
            !kind.is_empty()
                && kind.chars().all(|c| c.is_ascii_lowercase() || c == '-')
                && number.parse::<u32>().is_ok()
        })
    };
    quoted.filter(is_schema).map(str::to_owned).collect()
}

/// The file of a schema `KIND/NUMBER`.
fn file_of(schema: &str) -> String {
    format!("{}.json", schema.replace('/', "-"))
}

/// What a document links to below a folder.
fn linked(text: &str, folder: &str) -> BTreeSet<String> {
    let targets = text.lines().flat_map(super::link_targets);
    let below = targets.filter_map(|target| target.strip_prefix(folder));
    below.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The pages in the first column of a table.
fn pages_of(text: &str) -> BTreeSet<String> {
    let cells = text
        .lines()
        .filter_map(|line| line.strip_prefix("| [")?.split_once("](")?.1.split_once(')'));
    cells.map(|(page, _)| page.to_owned()).filter(|page| page.ends_with(".md")).collect()
}

/// The commands `cargo xtask …` that are heavy runs, by their words; also without the
/// first two words, where they are in a list: `` `bench profile` ``.
fn commands(text: &str) -> BTreeSet<String> {
    let spans = text.split('`').skip(1).step_by(2);
    // Fences give lines of their own.
    let lines = spans.flat_map(str::lines).map(|line| line.split('#').next().unwrap_or_default());
    let command = |line: &str| {
        let whole = line.trim().trim_start_matches("cargo xtask ").to_owned();
        let is_whole = line.trim().starts_with("cargo xtask ");
        let mut words = whole.split_whitespace();
        let verb = words.next()?;
        match words.next() {
            Some(what) if GROUPS.contains(&verb) => Some(format!("{verb} {what}")),
            _ if is_whole && ["corpus", "story"].contains(&verb) => Some(verb.to_owned()),
            _ => None,
        }
    };
    let is_general = |command: &String| command.contains(['…', '[', '|']);
    lines.filter_map(command).filter(|it| !is_general(it)).collect()
}

/// The sources of all crates, without their tests.
fn sources(crates: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(crates).context("cannot list the crates")?;
    for entry in entries {
        let folder = entry?.path().join("src");
        if folder.is_dir() {
            found.extend(super::files(&folder)?);
        }
    }
    found.retain(|file| file.extension().is_some_and(|it| it == "rs"));
    found.sort();
    Ok(found)
}

/// The names of the files of a kind in a folder.
fn names(folder: &Path, extension: &str) -> Result<BTreeSet<String>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut found = BTreeSet::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == extension) {
            found.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 9] = [
        (CODES, "pub const USAGE: u8 = 2;\npub const BUG: u8 = 70;\nconst ELSE: u8 = 9;\n"),
        (HELP, "    after_help = \"Exit codes: 0 done; 2 wrong \\\n    usage; 70 a bug.\"\n"),
        (
            CLI,
            "| verb |\n| --- |\n| 7 |\n\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n\
             | 0 | done |\n| 2 | usage |\n| 70 | a bug |\n\n## JSON\n\n[a](schema/info-1.json)\n",
        ),
        ("crates/a/src/lib.rs", "schema: \"backtrail.info/1\", \"backtrail.d/x\"\n"),
        ("docs/schema/info-1.json", "{}"),
        (PAGES, "| [cli.md](cli.md) | verbs |\n\nThe [map](../ARCHITECTURE.md).\n"),
        (CONTRIBUTING, "`cargo xtask fuzz a` (x), `bench b`, `cargo xtask corpus`, `fuzz/src`\n"),
        ("crates/a/tests/t.rs", "\"backtrail.other/1\"\n"),
        ("crates/b/README", ""),
    ];

    fn heavy() -> Vec<String> {
        ["fuzz a", "bench b", "corpus"].map(str::to_owned).to_vec()
    }

    /// What is found when `file` has other text.
    fn found(file: &str, text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        FILES.iter().for_each(|(name, text)| write(name, text));
        write(file, text);
        let mut findings = Vec::new();
        check(folder.path(), &heavy(), &mut findings).unwrap();
        findings
    }

    fn with(file: &str, from: &str, to: &str) -> Vec<String> {
        let (_, text) = FILES.iter().find(|(name, _)| *name == file).unwrap();
        assert!(text.contains(from), "{from}");
        found(file, &text.replace(from, to))
    }

    #[test]
    fn lists_that_say_what_is_there_are_fine() {
        assert_eq!(found("else", ""), [""; 0]);
    }

    #[test]
    fn what_is_missing_or_too_much_is_found() {
        for (file, from, to, finding) in [
            (CODES, "= 2", "= 3", &["docs/cli.md: exit code 3 is missing"][..]),
            (CLI, "| 70 | a bug |\n", "", &["docs/cli.md: exit code 70 is missing"]),
            (CLI, "| 0 |", "| 5 |", &["docs/cli.md: exit code 5 is not in the code"]),
            (HELP, "70 a bug", "71 a bug", &["crates/cli/src/args.rs: exit code 70 is missing"]),
            (CLI, "schema/info-1.json", "x", &["docs/cli.md: schema info-1.json is missing"]),
            (
                "crates/a/src/lib.rs",
                "info/1",
                "info/2",
                &["docs/schema: file info-2.json is missing"],
            ),
            (PAGES, "[cli.md](cli.md)", "cli", &["docs/README.md: page cli.md is missing"]),
            (PAGES, "(cli.md)", "(old.md)", &["docs/README.md: page old.md is not in the code"]),
            (CONTRIBUTING, "fuzz a", "fuzz c", &["CONTRIBUTING.md: heavy run fuzz a is missing"]),
            (CONTRIBUTING, ", `bench b`", "", &["CONTRIBUTING.md: heavy run bench b is missing"]),
            (
                CONTRIBUTING,
                "xtask corpus",
                "xtask c",
                &["CONTRIBUTING.md: heavy run corpus is missing"],
            ),
        ] {
            let findings = with(file, from, to);
            for line in finding {
                assert!(findings.iter().any(|it| it == line), "{file}: {line}: {findings:?}");
            }
        }
        assert_eq!(
            found("docs/schema/old-1.json", "{}"),
            [
                "docs/schema: file old-1.json is not in the code",
                "docs/cli.md: schema old-1.json is missing"
            ]
        );
        assert_eq!(found("docs/new.md", ""), ["docs/README.md: page new.md is missing"]);
    }

    #[test]
    fn commands_that_do_not_exist_are_found_in_any_document() {
        let text = "Run `cargo xtask fuzz a --count 3`.\n```sh\ncargo xtask bench old   # slow\n\
                    cargo xtask test\n```\n`cargo xtask bench …` and `cargo xtask fuzz [NAME]`\n";
        let mut findings = Vec::new();
        check_commands("a.md", text, &heavy(), &mut findings);
        assert_eq!(findings, ["a.md: there is no `cargo xtask bench old`"]);
    }
}
