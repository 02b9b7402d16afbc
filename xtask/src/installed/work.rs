//! `cargo xtask fuzz work`: installed programs that do something, traced by breakpoints.
//!
//! Interpreters run scripts, compilers compile, a version control system looks at its
//! history. Each has to print the same and end in the same way as alone. It becomes
//! `docs/breakpoints-at-work.md`.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use super::{Row, difference, on_page};
use crate::packages::Need;
use crate::workspace::Profile;
use crate::{command, setup, workspace};

const PAGE: &str = "docs/breakpoints-at-work.md";

/// A file that is on every Debian system.
const TEXT: &str = "/usr/share/common-licenses/GPL-3";

const PERL: &str = r#"
my @words = split ' ', "the quick brown fox jumps over the lazy dog";
my %by; push @{ $by{length $_} }, $_ for @words;
print join(" ", sort @{ $by{$_} }), "\n" for sort keys %by;
my $text = join " ", @words; $text =~ s/(\w+)/ucfirst $1/ge; print "$text\n";
eval { die "an error\n" }; print "got $@";
printf "%s %5.2f %x\n", "x", 3.14159, 255;
print join(",", map { $_->[0] } sort { $a->[1] <=> $b->[1] } map { [$_, sin $_] } 1..20), "\n";
local $SIG{USR1} = sub { print "handled\n" }; kill USR1 => $$;
print pack("A3 n C", "abcd", 16706, 65), "\n";
"#;

const PYTHON: &str = r#"
import json, re, signal, sys
def squares(count):
    for number in range(count):
        yield number * number
class Word:
    def __init__(self, text): self.text = text
    def __lt__(self, other): return len(self.text) < len(other.text)
words = "the quick brown fox jumps over the lazy dog".split()
print([word.text for word in sorted(map(Word, words))], list(squares(8)), 2 ** 200)
print(json.dumps({"a": [1, 2.5, None, True], "b": "x"}), re.sub(r"(\w+)", "<\\1>", "a bc"))
try:
    1 / 0
except ZeroDivisionError as error:
    print(error)
signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
signal.raise_signal(signal.SIGUSR1)
sys.exit(3)
"#;

const BASH: &str = r#"
fibonacci() { (($1 < 2)) && echo $1 || echo $(($(fibonacci $(($1 - 1))) + $(fibonacci $(($1 - 2))))); }
fibonacci 6
declare -A many; for word in a b a c b a; do ((many[$word]++)); done
for word in "${!many[@]}"; do echo $word ${many[$word]}; done | sort
[[ foo123 =~ ([a-z]+)([0-9]+) ]] && echo ${BASH_REMATCH[2]}
text=hello; echo ${text^^} ${text//l/L} ${text:1:3}; trap 'echo handled' USR1; kill -USR1 $$
case $text in h*) echo h ;; esac; trap 'echo bye' EXIT; exit 4
"#;

/// Files that commands find where they run.
const INPUTS: [(&str, &str); 6] = [
    (
        "input.c",
        "int pick(int which) { switch (which & 7) { case 0: return 1; case 1: return 5; case 2: \
         return which * 3; case 3: return which - 1; case 5: return which / 3; default: return 0; \
         } }\nint main(int count, char **words) { int sum = 0; for (int at = 0; at < count * 10; \
         at++) sum += pick(at); return sum > 3; }\n",
    ),
    ("input.json", "{\"a\": [1, 2, 3]}\n"),
    ("input.m4", "define(`twice', `$1-$1')twice(3) eval(2 ** 10) len(abc)\n"),
    ("input.bc", "scale = 20\n4 * a(1)\nfor (i = 0; i < 5; i++) i ^ i\nquit\n"),
    (
        "input.cmake",
        "set(x 3)\nforeach(i RANGE 5)\n math(EXPR x \"${x} * 2 + ${i}\")\nendforeach()\nstring(\
         REGEX REPLACE \"a+\" \"b\" y \"caat\")\nexecute_process(COMMAND echo ${x} ${y})\n",
    ),
    ("Makefile", "all: one two\n\t@echo done $(words x y)\none two:\n\t@echo $@\n"),
];

/// A program, and its words. `ROOT` stands for the folder of this project.
const WORK: [&[&str]; 33] = [
    &["perl", "-e", PERL],
    &["python3", "-c", PYTHON],
    &["bash", "-c", BASH],
    &["dash", "-c", "n=0; while [ $n -lt 50 ]; do n=$((n+1)); done; echo $n | tr 0-9 a-j; exit 5"],
    &["mawk", "{n[length($0) % 5]++; gsub(/o/, \"0\")} END {for (i in n) print n[i], $0}", TEXT],
    &["sed", "-E", "-n", "s/([a-z]+) ([a-z]+)/\\2 \\1/p; $=", TEXT],
    &["grep", "-E", "-n", "(fre+|soft?)[a-z]+", TEXT],
    &["sort", "-k2", "-r", TEXT],
    &["diff", "-u", TEXT, "/usr/share/common-licenses/LGPL-3"],
    &["gzip", "-9", "-c", TEXT],
    &["bzip2", "-c", TEXT],
    &["xz", "-c", TEXT],
    &["zstd", "-c", TEXT],
    &["tar", "-c", "-f", "-", "/etc/apt"],
    &["find", "/etc", "-name", "*.conf", "-size", "+1k", "-printf", "%p %s\\n"],
    &["git", "-C", "ROOT", "log", "--oneline", "--stat", "-3"],
    &["git", "-C", "ROOT", "grep", "-n", "ptrace", "HEAD", "--", "docs"],
    &["openssl", "dgst", "-sha256", TEXT],
    &["openssl", "prime", "1000003"],
    &[
        "sqlite3",
        ":memory:",
        "with recursive c(x) as (select 1 union all select x + 1 from c \
      where x < 100) select x % 7, count(*), sum(x * x) from c group by 1 order by 2, 3;",
    ],
    &["jq", "-c", ".a | map(select(. > 1)) | add", "input.json"],
    &["m4", "input.m4"],
    &["bc", "-l", "-q", "input.bc"],
    &["make", "-f", "Makefile"],
    &["cmake", "-P", "input.cmake"],
    &["gcc", "-O1", "-S", "-o", "-", "input.c"],
    &["cc1", "-quiet", "-O1", "input.c", "-o", "-"],
    &["objdump", "-d", "/usr/bin/true"],
    &["readelf", "-a", "/usr/bin/true"],
    &["gdb", "-batch", "-nx", "-ex", "info functions main", "-ex", "print 1 + 2", "/usr/bin/true"],
    &["file", "/usr/bin/true", TEXT],
    &["curl", "-s", "file:///etc/passwd"],
    &["vim", "-es", "-u", "NONE", "-c", "%s/free/FREE/g | 1,5p | q!", TEXT],
];

/// What `cargo xtask fuzz work` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    /// The most seconds that a trace may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    patience: u32,
}

/// Traces all that are installed, and writes the page.
pub fn run(options: &Options) -> Result<()> {
    setup::run(Need::Corpus, &options.installing)?;
    let tool = workspace::build_tool(Profile::Release)?.join("backtrail");
    let scratch = workspace::target()?.join("breakpoints-at-work");
    std::fs::create_dir_all(&scratch)?;
    for (name, text) in INPUTS {
        std::fs::write(scratch.join(name), text)?;
    }
    let root = workspace::root();
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for words in WORK {
        let Some(program) = find(words[0]) else {
            missing.push(words[0]);
            continue;
        };
        let rest = words[1..].iter().map(|&it| match it {
            "ROOT" => root.as_os_str(),
            it => OsStr::new(it),
        });
        let command: Vec<&OsStr> = std::iter::once(program.as_os_str()).chain(rest).collect();
        let row = Row::new(shown(words), difference(&tool, &command, options.patience, &scratch));
        println!("{} {}", row.name, row.wrong.as_deref().unwrap_or("the same"));
        rows.push(row);
    }
    std::fs::write(root.join(PAGE), page(&rows, &missing)?).context(PAGE)
}

/// The file of a program: a command, or a part of gcc.
fn find(name: &str) -> Option<PathBuf> {
    let installed = Path::new("/usr/bin").join(name);
    let asked = || {
        let name = format!("-print-prog-name={name}");
        let told = command::output(Command::new("gcc").arg(name)).ok()?;
        Some(PathBuf::from(told.trim())).filter(|it| it.is_absolute())
    };
    if installed.exists() { installed.canonicalize().ok() } else { asked() }
}

/// A command for people: scripts are named, not told.
fn shown(words: &[&str]) -> String {
    let word = |word: &&str| match *word {
        PERL | PYTHON | BASH => "SCRIPT".to_owned(),
        it => it.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn page(rows: &[Row], missing: &[&str]) -> Result<String> {
    let same = rows.iter().filter(|row| row.wrong.is_none()).count();
    let mut page = String::from("# Installed programs at work, traced by breakpoints\n\n");
    writeln!(
        page,
        "`cargo xtask fuzz work`: programs as they are installed do something, alone and traced by \
         breakpoints in one run ([`xtask/src/installed/work.rs`](../xtask/src/installed/work.rs) \
         has the scripts and inputs). Of {} commands, {same} print the same, end in the same way \
         and leave a trace. *Unknown jumps* are computed jumps in the file without a table, taken \
         for calls in tail position.\n",
        rows.len()
    )?;
    if !missing.is_empty() {
        writeln!(page, "Not installed there: {}.\n", missing.join(", "))?;
    }
    page.push_str("| command | blocks of the file | unknown jumps | blocks executed | stops | |\n");
    page.push_str("| --- | ---: | ---: | ---: | ---: | --- |\n");
    for row in rows {
        let counts = &row.counts;
        let number = |it: Option<u64>| it.map_or_else(|| "?".to_owned(), |it| it.to_string());
        writeln!(
            page,
            "| `{}` | {} | {} | {} | {} | {} |",
            on_page(&row.name),
            number(counts.in_file),
            number(counts.unknown_jumps),
            number(counts.executed),
            number(counts.stops),
            on_page(row.wrong.as_deref().unwrap_or("the same"))
        )?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::super::Counts;
    use super::*;

    #[test]
    fn what_was_counted_is_on_the_page_and_what_is_missing() {
        let counts = Counts { executed: Some(12), ..Counts::default() };
        let row = |wrong: Option<&str>| Row {
            name: "mawk a|b".to_owned(),
            wrong: wrong.map(str::to_owned),
            counts: counts.clone(),
        };
        let page = page(&[row(None), row(Some("printed something else"))], &["jq"]).unwrap();
        assert!(page.contains("Of 2 commands, 1 print the same"), "{page}");
        assert!(page.contains("Not installed there: jq."), "{page}");
        assert!(page.contains("| `mawk a\\|b` | ? | ? | 12 | ? | the same |"), "{page}");
    }

    #[test]
    fn scripts_are_named_on_the_page() {
        assert_eq!(shown(&["perl", "-e", PERL]), "perl -e SCRIPT");
        assert_eq!(find("true"), Path::new("/usr/bin/true").canonicalize().ok());
    }
}
