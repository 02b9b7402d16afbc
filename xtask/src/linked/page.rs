//! The page of what was found.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::draw::MANNERS;
use super::scenes::{self, Role};
use super::trial::{self, Found};
use super::verdict::{COLUMNS, Column, Verdict};

/// Everything that was tried.
pub struct Page<'a> {
    /// The tool of which commit.
    pub commit: String,
    /// How many random programs there are to be.
    pub count: u64,
    /// From what they are drawn.
    pub seed: u64,
    /// What came out.
    pub found: &'a [Found],
    /// Parts that were not made.
    pub missing: &'a [String],
}

/// How often each column was seen.
#[derive(Default)]
struct Counts {
    programs: u64,
    of: BTreeMap<Column, u64>,
}

impl Counts {
    fn add<'v>(&mut self, verdicts: impl Iterator<Item = &'v Verdict>) {
        self.programs += 1;
        verdicts.for_each(|it| *self.of.entry(it.column()).or_default() += 1);
    }

    fn cells(&self) -> String {
        let count = |it: &Column| self.of.get(it).copied().unwrap_or_default().to_string();
        let counts: Vec<String> = COLUMNS.iter().map(count).collect();
        format!("{} | {}", self.programs, counts.join(" | "))
    }
}

const HEADING: &str = "programs | equal | labelled | exit 4 | refused | wrong |";
const RULE: &str = "| ---: | ---: | ---: | ---: | ---: | ---: |";

impl Page<'_> {
    /// As text.
    pub fn text(&self) -> String {
        let blocks: u64 = self.found.iter().map(|it| it.blocks).sum();
        let mut page = format!(
            "# Programs as they are linked, against logs\n\n\
             ```sh\ncargo xtask fuzz linked --count {} --seed {}\n```\n\n\
             makes this page, with the tool of commit {}. A run that was ended goes on where it \
             was.\n\n\
             {} programs, whose logs have {blocks} blocks: a few that are written by hand, each scene \
             alone (from number 1000000 on), and programs that are put together at random from \
             scenes that go over the borders of units, compiled and linked in different manners. Each \
             is built by clang alone and by `backtrail cc`, and does the same. What is true is what \
             `trace --strategy log` tells.\n\n\
             - *trace*: every block, with its thread and the depth of its frame, is the log's.\n\
             - *profile*: the paths of all functions are those that walking over a log gives; \
             *entries*: functions are entered as often as the log has their first blocks.\n\
             - *copies*: the profile is that of one run.\n\
             - *autopsy*: of a crash, nothing that the log of the same crash has is said not to have \
             run.\n\n\
             What is *labelled* agrees with the log as far as it goes, and says why it goes no \
             further. *Exit 4*: nothing was written, and a message says that the program does what \
             its graph does not have. Of copies that is *refused*, which is wrong: every run of these \
             programs does the same.\n\n",
            self.count,
            self.seed,
            self.commit,
            self.found.len(),
        );
        self.ways(&mut page);
        self.features(&mut page);
        self.kinds(&mut page);
        self.findings(&mut page);
        self.unfit(&mut page);
        if !self.missing.is_empty() {
            let _ = writeln!(page, "\nNot made yet: {}.", self.missing.join(", "));
        }
        page
    }

    fn ways(&self, page: &mut String) {
        let _ = write!(page, "## By way\n\n| way | {HEADING}\n| --- {RULE}\n");
        let others = self.found.iter().flat_map(|it| it.verdicts.keys());
        let mut ways: Vec<&str> = trial::ways();
        for way in others {
            if !ways.contains(&&way[..]) {
                ways.push(way);
            }
        }
        for way in ways {
            let mut counts = Counts::default();
            for verdict in self.found.iter().filter_map(|it| it.verdicts.get(way)) {
                counts.add(std::iter::once(verdict));
            }
            let _ = writeln!(page, "| {way} | {} |", counts.cells());
        }
    }

    fn features(&self, page: &mut String) {
        let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
        for found in self.found.iter().filter(|it| it.unfit.is_none()) {
            for feature in &found.features {
                counts.entry(feature).or_default().add(found.verdicts.values());
            }
        }
        let scenes = scenes::all();
        let of = |role: Role| scenes.iter().filter(move |it| it.role == role);
        let rows: Vec<(&str, &str)> = counts
            .keys()
            .filter_map(|it| Some((it.strip_prefix("row-").map(|_| *it)?, "written by hand")))
            .collect();
        let tables = [
            ("Written by hand", rows),
            ("By scene", of(Role::Ordinary).map(|it| (it.name, it.what)).collect()),
            ("By ending", of(Role::Ending).map(|it| (it.name, it.what)).collect()),
            ("By crash", of(Role::Crash).map(|it| (it.name, it.what)).collect()),
            ("By manner", MANNERS.iter().map(|it| (it.name, it.what)).collect()),
        ];
        page.push_str(
            "\nIn the next tables, a program is counted with each of its features, and what came out \
             in each way.\n",
        );
        for (title, rows) in tables {
            let _ =
                write!(page, "\n## {title}\n\n| feature | what | {HEADING}\n| --- | --- {RULE}\n");
            for (name, what) in rows {
                if let Some(counts) = counts.get(name) {
                    let _ = writeln!(page, "| {name} | {} | {} |", cell(what), counts.cells());
                }
            }
        }
    }

    fn kinds(&self, page: &mut String) {
        for (title, column) in [
            ("Labels", Column::Labelled),
            ("Exit code 4", Column::Diverged),
            ("Refused", Column::Refused),
        ] {
            let mut kinds: BTreeMap<(&str, String), u64> = BTreeMap::new();
            for found in self.found {
                for (way, verdict) in found.verdicts.iter().filter(|it| it.1.column() == column) {
                    *kinds.entry((way, verdict.kind())).or_default() += 1;
                }
            }
            if kinds.is_empty() {
                continue;
            }
            let _ = write!(
                page,
                "\n## {title}\n\n| way | what is said | times |\n| --- | --- | ---: |\n"
            );
            for ((way, said), times) in kinds {
                let _ = writeln!(page, "| {way} | {} | {times} |", cell(&said));
            }
        }
    }

    /// What is wrong: each kind once, with how often it was found and where.
    fn findings(&self, page: &mut String) {
        const LISTED: usize = 8;
        let mut kinds: BTreeMap<(&str, String), Vec<(String, &Verdict)>> = BTreeMap::new();
        for found in self.found {
            for (way, verdict) in found.wrong() {
                let name = match found.features.first().filter(|it| it.starts_with("row-")) {
                    Some(row) => row.clone(),
                    None => found.number.to_string(),
                };
                kinds.entry((way, verdict.kind())).or_default().push((name, verdict));
            }
        }
        if kinds.is_empty() {
            page.push_str("\nNothing is wrong.\n");
            return;
        }
        page.push_str(
            "\n## What is wrong\n\nThe program of a number is made again by `cargo xtask fuzz linked \
             --program NUMBER`; `--shrink` says which of its features are needed for what is \
             wrong.\n\n| way | what | times | programs | the first |\n| --- | --- | ---: | --- | --- |\n",
        );
        for ((way, what), of_kind) in kinds {
            let mut names: Vec<&str> = of_kind.iter().take(LISTED).map(|it| &it.0[..]).collect();
            if of_kind.len() > LISTED {
                names.push("…");
            }
            let first: String = of_kind[0].1.detail().chars().take(200).collect();
            let _ = writeln!(
                page,
                "| {way} | {} | {} | {} | {} |",
                cell(&what),
                of_kind.len(),
                names.join(", "),
                cell(&first)
            );
        }
    }

    fn unfit(&self, page: &mut String) {
        let unfit: Vec<&Found> = self.found.iter().filter(|it| it.unfit.is_some()).collect();
        if unfit.is_empty() {
            return;
        }
        page.push_str("\n## No programs\n\nWhat clang alone does not build, or what does not do the same each time:\n\n");
        for found in unfit {
            let why = found.unfit.as_deref().unwrap_or_default();
            let _ =
                writeln!(page, "- {} ({}): {}", found.number, found.features.join(" "), cell(why));
        }
    }
}

/// Text as it can stand in a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_out_stands_on_the_page() {
        let mut one = Found { number: 7, blocks: 12, ..Found::default() };
        one.features = vec!["qsort".into(), "lld".into()];
        one.verdicts.insert("trace".into(), Verdict::Equal);
        let said = "backtrail: the copies did not run alike: s0_f ran | 3 times".to_owned();
        one.verdicts.insert("profile --copies 2".into(), Verdict::Refused { said });
        let mut other = Found { number: 9, features: vec!["lld".into()], ..Found::default() };
        other.verdicts.insert("trace".into(), Verdict::wrong("another way", "block 3 of 9"));
        let none = Found { number: 11, unfit: Some("no\nlinker".into()), ..Found::default() };
        let (found, missing) = ([one, other, none], ["programs 20-40".to_owned()]);
        let commit = "abc".to_owned();
        let page = Page { commit, count: 40, seed: 1, found: &found, missing: &missing }.text();
        for part in [
            "| trace | 2 | 1 | 0 | 0 | 0 | 1 |",
            "| qsort | a comparator for qsort | 1 | 1 | 0 | 0 | 1 | 0 |",
            "| lld | linked by lld | 2 | 1 | 0 | 0 | 1 | 1 |",
            "| trace | another way | 1 | 9 | block 3 of 9 |",
            "the copies did not run alike: … ran \\| … times | 1 |",
            "- 11 (): no linker",
            "Not made yet: programs 20-40.",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }
}
