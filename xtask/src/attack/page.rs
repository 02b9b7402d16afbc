//! The page of what was found.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::torture::rows::{NAMED, ROWS};
use super::torture::{AS_ALONE, AS_NAMED, WRONG};
use super::{Found, damage, interrupt};

/// Everything that was tried.
#[derive(Default)]
pub struct Page {
    /// What was tried, by the tool of which commit.
    pub commit: String,
    /// How many damaged inputs there are to be.
    pub damaged: u64,
    /// How many interruptions.
    pub interrupted: u64,
    /// What came out.
    pub damage: Found,
    pub interruptions: Found,
    pub torture: Found,
    /// Parts that were not made.
    pub missing: Vec<String>,
}

impl Page {
    /// As text.
    pub fn text(&self) -> String {
        let mut page = format!(
            "# The tool under attack\n\n\
             `cargo xtask fuzz attack` gives every verb damaged inputs, interrupts what takes \
             time, and runs programs that do what is rarely done. This page is what came of it, \
             with the tool of commit {}.\n\n",
            self.commit
        );
        self.damage(&mut page);
        self.interruptions(&mut page);
        self.torture(&mut page);
        findings(&mut page, "Damaged inputs", &self.damage);
        findings(&mut page, "Interruptions", &self.interruptions);
        findings(&mut page, "Programs", &self.torture);
        if !self.missing.is_empty() {
            let _ = writeln!(page, "\nNot made yet: {}.", self.missing.join(", "));
        }
        page
    }

    fn damage(&self, page: &mut String) {
        let _ = write!(
            page,
            "## Damaged inputs\n\n\
             One valid input of each kind is made with the tool: executables and a shared \
             library, variants, a side file, profiles, traces from probes, from a log and from \
             breakpoints, folders of records with several processes and threads, core dumps, \
             lists of functions. {} commands take {} damaged ones in turns. Damages are flipped, \
             cut, moved and inserted bytes, and lengths and counts at which something turns \
             over. Three quarters are put into one of the parts of a file that are compressed or \
             have a sum: the part is compressed again and gets the sum that it should have, so \
             that the damage reaches the code behind it. Each has to end by itself with a \
             documented code, within {}, with one line for an error, without anything left \
             behind, without characters that a terminal obeys, and without changing what it only \
             reads.\n\n",
            damage::commands(),
            self.damaged,
            damage::limits(),
        );
        table(page, "damaged", &self.damage.counts);
    }

    fn interruptions(&self, page: &mut String) {
        let _ = write!(
            page,
            "\n## Interruptions\n\n\
             {} signals at random moments of {} commands: `instrument`, `tune` in place, `detach`, \
             `profile` and `trace` in all their ways, of a program that handles the signal, one \
             that dies of it and one that ignores it, sent to the process group or to `backtrail` \
             alone. Nothing may run on or be left; what is written is whole or not there; and of \
             one run of a program that had begun, the profile or trace is written, and the status \
             is the program's. After `SIGKILL` the same command runs once more, and has to clean \
             up.\n\n",
            self.interrupted,
            interrupt::ways(),
        );
        table(page, "signal", &self.interruptions.counts);
    }

    fn torture(&self, page: &mut String) {
        page.push_str(
            "\n## Programs\n\n\
             Each prints something and ends in a known way. It runs as the variants `log`, \
             `profile`, `pt`, `full`, `fc`, `cc`, `bc` and a tunable one, is profiled, and traced \
             from probes, from a log and by breakpoints: all have to print the same and to end \
             in the same way, and what is counted has to be what is logged, where every run \
             executes the same.\n\n\
             | program | what it does | ends with | as alone | named | wrong |\n\
             | --- | --- | --- | ---: | ---: | ---: |\n",
        );
        for row in &ROWS {
            let Some(counts) = self.torture.counts.get(row.name) else { continue };
            let count = |told: &str| counts.get(told).copied().unwrap_or_default();
            let cells = [AS_ALONE, AS_NAMED, WRONG].map(count);
            let cells = cells.map(|it| it.to_string()).join(" | ");
            let _ =
                writeln!(page, "| {} | {} | {} | {cells} |", row.name, row.what, row.ends.shown());
        }
        page.push_str(
            "\nWhat is known not to be as it is alone. It has to end so here, always or, where that \
             depends on the moment, sometimes:\n\n\
             | program | as | ends with | | why |\n| --- | --- | --- | --- | --- |\n",
        );
        for named in NAMED {
            let ends = named.ends.shown();
            let when = if named.by_chance { "sometimes" } else { "always" };
            let _ = writeln!(
                page,
                "| {} | {} | {ends} | {when} | {} |",
                named.row, named.way, named.why
            );
        }
    }
}

/// A row for each kind and a column for each end.
fn table(page: &mut String, kind: &str, counts: &BTreeMap<String, BTreeMap<String, u64>>) {
    let mut ends: Vec<&String> = counts.values().flat_map(BTreeMap::keys).collect();
    ends.sort();
    ends.dedup();
    let mut line = |cells: &[String]| {
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    };
    let heading = ends.iter().map(|it| it.to_string());
    line(&[kind.to_owned()].into_iter().chain(heading).chain(["all".into()]).collect::<Vec<_>>());
    let rule = ends.iter().map(|_| "---:".to_owned());
    line(&["---".to_owned()].into_iter().chain(rule).chain(["---:".into()]).collect::<Vec<_>>());
    let mut sums: BTreeMap<&String, u64> = BTreeMap::new();
    for (kind, of_kind) in counts {
        let mut cells = vec![kind.clone()];
        for end in &ends {
            let count = of_kind.get(*end).copied().unwrap_or_default();
            *sums.entry(end).or_default() += count;
            cells.push(count.to_string());
        }
        cells.push(of_kind.values().sum::<u64>().to_string());
        line(&cells);
    }
    let mut cells = vec!["all".to_owned()];
    cells.extend(ends.iter().map(|end| sums.get(end).copied().unwrap_or_default().to_string()));
    cells.push(sums.values().sum::<u64>().to_string());
    line(&cells);
}

/// What is wrong: each thing once, with how often it was found and where first.
fn findings(page: &mut String, title: &str, found: &Found) {
    if found.findings.is_empty() {
        return;
    }
    let mut kinds: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for finding in &found.findings {
        let kind = kinds.entry((&finding.command, &finding.what)).or_insert((0, finding.number));
        kind.0 += 1;
    }
    let _ = write!(
        page,
        "\n## {title}: what is wrong\n\n| command | what | times | first |\n| --- | --- | ---: | ---: |\n"
    );
    for ((command, what), (times, first)) in kinds {
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let _ = writeln!(page, "| `{}` | {} | {times} | {first} |", cell(command), cell(what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::Finding;

    #[test]
    fn ends_are_counted_and_findings_stand_on_the_page_once() {
        let mut damage = Found::default();
        for (kind, end) in [("profile", "0"), ("profile", "3"), ("core", "3"), ("core", "70")] {
            damage.count(kind, end);
        }
        for number in [7, 9] {
            let (what, command) = ("leaves with 70".into(), "show IN | x".into());
            damage.findings.push(Finding { what, command, number });
        }
        let page = Page { damage, missing: vec!["damage 3".into()], ..Page::default() }.text();
        assert!(page.contains("| damaged | 0 | 3 | 70 | all |"), "{page}");
        assert!(page.contains("| all | 1 | 2 | 1 | 4 |"), "{page}");
        assert!(page.contains("| `show IN \\| x` | leaves with 70 | 2 | 7 |"), "{page}");
        assert!(page.contains("Not made yet: damage 3."), "{page}");
    }
}
