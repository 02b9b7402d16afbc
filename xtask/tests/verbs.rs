//! Every verb that the documents mention is one that the tool has.

use std::collections::BTreeSet;
use std::process::Command;

use xtask::command;
use xtask::workspace::{self, Profile};

/// The words that follow `backtrail ` in a text, where that is the command: not
/// part of a longer name, not cargo's subcommand, and followed by a small word.
fn mentioned(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, word) in text.match_indices("backtrail ") {
        let before = text[..at].chars().next_back().unwrap_or(' ');
        let part_of_name = before.is_alphanumeric() || "-./_".contains(before);
        if part_of_name || text[..at].ends_with("cargo ") {
            continue;
        }
        let verb: String = text[at + word.len()..]
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '+' || *c == '-')
            .collect();
        if verb.starts_with(|first: char| first.is_ascii_lowercase()) {
            found.insert(verb);
        }
    }
    found
}

/// The verbs that `--help` lists.
fn listed(help: &str) -> BTreeSet<String> {
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.trim().is_empty());
    let verb = |line: &str| line.strip_prefix("  ")?.split_whitespace().next().map(str::to_owned);
    commands.filter(|line| !line.starts_with("   ")).filter_map(verb).collect()
}

#[test]
fn documents_mention_only_verbs_that_exist() {
    let tool = workspace::build_tool(Profile::Dev).unwrap().join("backtrail");
    let verbs = listed(&command::output(Command::new(tool).arg("--help")).unwrap());
    assert!(verbs.contains("cc") && verbs.contains("info"), "{verbs:?}");
    let root = workspace::root();
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for entry in std::fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "md") {
            pages.push(path);
        }
    }
    let mut unknown = Vec::new();
    let mut seen = BTreeSet::new();
    for page in pages {
        for verb in mentioned(&std::fs::read_to_string(&page).unwrap()) {
            if !verbs.contains(&verb) {
                unknown.push(format!("{}: backtrail {verb}", workspace::shown(&page)));
            }
            seen.insert(verb);
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert!(
        seen.contains("cc") && seen.contains("instrument"),
        "hardly any verb is found: {seen:?}"
    );
}

#[test]
fn mentions_are_told_from_other_uses() {
    let text = "`backtrail cc`, CXX=\"backtrail c++\", cargo backtrail build, our-backtrail x, \
                backtrail VERB, (backtrail show DIR)";
    let found: Vec<_> = mentioned(text).into_iter().collect();
    assert_eq!(found, ["c++", "cc", "show"]);
}
