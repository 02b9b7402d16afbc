//! Names and sources that would command the terminal or fool its reader: nothing
//! that is printed, by any verb, has a control character but the line end, a mark
//! of direction or a line that a name made up.

mod cc_project;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use backtrail_testkit::cores::core_beside;
use cc_project::{Project, Ran};

/// A title, a colour, a line of its own, text from right to left, what takes no room.
const LABEL: &str = r"f\033]0;TITLE\007\033[31m\nFORGED\r\u202e\u2066\u200b";

/// The program, without the line ends of other systems.
fn source() -> String {
    let program = r#"#include <stdio.h>
__attribute__((noinline)) int f(int x) __asm__("LABEL");
__attribute__((noinline)) int f(int x) { /* ESC[31m BEL RLO */
	if (x & 1)	/* ESC]0;TITLE BEL RLO */
		return 3 * x; /* ESC[2J RLO */
	return x > 1000 ? *(volatile int *)0 : x / 2; /* ESC[2J RLO */
}
int main(int argc, char **argv) {
	int n = argc > 1 ? 4000 : 7; /* ESC[8m PDF */
	for (int i = 0; i < 4; i++) n += f(n); /* ESC[8m LRI */
	return n == 12;
}
"#;
    let controls = [
        ("LABEL", LABEL),
        ("ESC", "\x1b"),
        ("BEL", "\x07\u{9b}"),
        ("RLO", "\u{202e}\u{2028}"),
        ("PDF", "\u{202c}\u{200f}"),
        ("LRI", "\u{2066}\u{61c}"),
    ];
    controls.iter().fold(program.to_owned(), |text, (name, what)| text.replace(name, what))
}

/// `$N` is part of every file's name.
const NAME: &str = "N=$(printf 'n\\033[31m\\007\\342\\200\\256x\\nFORGED'); ";

/// A project in which everything has such names.
fn project() -> Project {
    let project = Project::new(&[("p.c", &source())]);
    let script = format!(
        "{NAME} cp p.c \"$N.c\" && $CC -O1 -g \"$N.c\" -o \"$N\" && mkdir \"$N.d\" && \
         cp \"$N\" copy && cp \"$N\" \"$N.detach\" && \
         backtrail -q instrument --scheme full --tunable '*' -o \"$N.tune\" \"$N\" && \
         backtrail -q instrument --scheme full -o full \"$N\" && \
         backtrail -q instrument --scheme log -o \"$N.log\" \"$N\" && \
         backtrail -q instrument --scheme profile -o \"$N.counts\" \"$N\" && \
         BACKTRAIL_DIR=\"$N.rec\" \"./$N.log\" && BACKTRAIL_DIR=\"$N.recp\" \"./$N.counts\"; \
         backtrail profile -o \"$N.prof\" \"./$N\"; backtrail trace -o \"$N.trace\" \"./$N\"; \
         test -f \"$N.trace\" && test -f \"$N.prof\""
    );
    project.run_ours(&script).succeeded();
    let core = core_beside(&project.ours("full"), &["crash"], "hostile");
    fs::rename(core, project.ours("core")).unwrap();
    project
}

/// What is run of each verb. Behind `backtrail` of `cc`, `c++` and `cargo` it is the
/// compiler that speaks, in its own words: only what we say ourselves is looked at.
const RUNS: [(&str, &[&str]); 19] = [
    ("cc", &["BACKTRAIL_CLANG=\"$N/no\" backtrail cc -c p.c"]),
    ("c++", &["BACKTRAIL_CLANG=\"$N/no\" backtrail c++ -c p.c"]),
    ("cargo", &["CARGO=\"$N/no\" PATH=/none $BACKTRAIL cargo \"$N\""]),
    ("info", &["backtrail info --functions \"$N\"", "backtrail info \"$N.log\""]),
    (
        "instrument",
        &[
            "backtrail instrument --scheme log -o \"$N.1\" \"$N\"",
            "backtrail instrument --scheme realistic --pt-list \"$N.none\" -o \"$N.1\" \"$N\"",
            "backtrail instrument --scheme \"$N\" \"$N\"",
        ],
    ),
    (
        "trace",
        &[
            "backtrail trace -o \"$N.2\" \"./$N\"",
            "backtrail trace --runs 2 --explain -o \"$N.2\" \"./$N\"",
            "backtrail trace --witness breakpoint -o \"$N.2\" \"./$N\"",
            "backtrail trace --strategy log -o \"$N.2\" \"./$N\"",
        ],
    ),
    ("run", &["backtrail run \"./$N.log\"", "backtrail run \"./$N.none\""]),
    (
        "show",
        &[
            "backtrail show \"$N.trace\"",
            "backtrail show --tree \"$N.trace\"",
            "backtrail show --html \"$N.html\" \"$N.trace\"",
            "backtrail show \"$N.rec\"",
            "backtrail show --function \"[$N\" \"$N.trace\"",
        ],
    ),
    (
        "profile",
        &[
            "backtrail profile -o \"$N.3\" \"./$N\"",
            "backtrail profile --copies 2 -o \"$N.3\" \"./$N\"",
            "backtrail profile --only \"$N\" -o \"$N.3\" \"./$N\"",
        ],
    ),
    (
        "plan",
        &[
            "backtrail plan \"$N\" --weights \"$N.prof\" --explain '*'",
            "backtrail plan \"$N\" --weights \"$N.prof\" --explain \"$N\"",
        ],
    ),
    (
        "paths",
        &[
            "backtrail paths --full \"$N.prof\"",
            "backtrail paths -o \"$N.sum\" \"$N.recp\"",
            "backtrail paths --html \"$N.html\" \"$N.rec\"",
            "backtrail paths --compare \"$N.prof\" \"$N.prof\"",
        ],
    ),
    ("export", &["backtrail export --to autofdo -o \"$N.4\" \"$N.prof\""]),
    (
        "autopsy",
        &[
            "backtrail autopsy core",
            "backtrail autopsy core core --exe copy",
            "backtrail autopsy --html \"$N.html\" core",
        ],
    ),
    (
        "tune",
        &[
            "backtrail tune \"$N.tune\" --list",
            "backtrail tune \"$N.tune\" --set '*=none'",
            "backtrail tune \"$N.tune\" --set 'f*=pt'",
            "backtrail tune \"$N.tune\" --set \"$N=none\"",
        ],
    ),
    ("detach", &["backtrail detach \"$N.detach\" -o \"$N.side\""]),
    ("extract", &["backtrail extract \"$N\" -o \"$N.out\""]),
    ("cache", &["BACKTRAIL_CACHE=\"$N\" backtrail cache"]),
    ("completions", &["backtrail completions bash >/dev/full", "backtrail completions \"$N\""]),
    ("manual", &["backtrail manual \"$N.man\"", "backtrail manual /dev/null/\"$N\""]),
];

fn is_hidden(letter: char) -> bool {
    (letter.is_control() && letter != '\n')
        || "\u{61c}\u{200b}\u{200e}\u{200f}\u{feff}".contains(letter)
        || ('\u{2028}'..='\u{202e}').contains(&letter)
        || ('\u{2066}'..='\u{2069}').contains(&letter)
}

#[track_caller]
fn check(ran: &Ran, script: &str) {
    for said in [&ran.text(), &ran.stderr] {
        let odd = said.chars().find(|&letter| is_hidden(letter));
        assert_eq!(odd, None, "{script}: {}", said.escape_debug());
        let forged = said.lines().find(|line| line.trim_start().starts_with("FORGED"));
        assert_eq!(forged, None, "{script}: {said}");
    }
}

#[test]
fn nothing_that_a_terminal_obeys_is_printed() {
    let project = project();
    let mut seen = BTreeMap::new();
    for (verb, scripts) in RUNS {
        for script in scripts {
            let ran = project.run_ours(&format!("{NAME} BACKTRAIL=$(which backtrail); {script}"));
            check(&ran, script);
            assert!(![70, 101].contains(&ran.status), "{script}: {}", ran.stderr);
            // Something is shown, and not left out.
            let shown = ran.text().contains(r"\u{1b}") || ran.stderr.contains(r"\u{1b}");
            *seen.entry(verb).or_insert(false) |= shown;
        }
        // A file that is not there, and a word that is not known.
        if !["cc", "c++", "cargo"].contains(&verb) {
            for words in ["\"$N.none\"", "\"--$N\"", "\"$N.d\" \"$N\""] {
                let script = format!("{NAME} backtrail {verb} {words}");
                let ran = project.run_ours(&script);
                check(&ran, &script);
                let is_clap = ran.status == 2;
                let shown = ran.stderr.contains(r"\u{1b}");
                *seen.entry(verb).or_insert(false) |= shown;
                assert!(is_clap || ran.stderr.lines().count() <= 1, "{script}: {}", ran.stderr);
            }
        }
    }
    let silent: Vec<_> = seen.iter().filter(|(_, shown)| !**shown).collect();
    assert!(silent.is_empty(), "the names are not seen in what these print: {silent:?}");
}

#[test]
fn all_verbs_are_tried() {
    let project = Project::new(&[]);
    // There is a page for each, also for those that help texts do not name.
    project.run_ours("backtrail manual pages").succeeded();
    let pages = fs::read_dir(project.ours("pages")).unwrap().flatten();
    let names = pages.map(|page| page.file_name().into_string().unwrap());
    let verbs: BTreeSet<String> = names
        .filter_map(|name| Some(name.strip_suffix(".1")?.strip_prefix("backtrail-")?.to_owned()))
        .collect();
    let tried: BTreeSet<String> = RUNS.iter().map(|(verb, _)| (*verb).to_owned()).collect();
    assert_eq!(verbs, tried);
}
