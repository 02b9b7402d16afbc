//! `cargo xtask story`: a real bug, from the build to the line that caused it.
//!
//! Debian's sqlite3 is fetched, the patch that fixes a stack overflow is taken out
//! again, the program is built with Backtrail, crashes, and is examined. What the
//! commands print goes into `docs/crash-story.md`, whose text is `story/page.md`.
//! That the autopsy tells what the text says is checked here, too: the line of the
//! patched condition must be on the recovered path.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::corpus::fetch::Archive;
use crate::packages::Need;
use crate::workspace::{self, Profile};
use crate::{command, setup, terminal};

/// What `cargo xtask story` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    /// Use the tool in this folder instead of building it
    #[arg(long, value_name = "FOLDER")]
    tool: Option<PathBuf>,
    /// Only examine the core that the last run left, and write the page
    #[arg(long)]
    only_page: bool,
}

const PAGE: &str = "docs/crash-story.md";
const TEXT: &str = include_str!("story/page.md");
const REPORT: &str = include_str!("story/report.c");
const PATCH: &str = "0002-Avoid-a-stack-overflow-that-could-be-caused-by-a-rec.patch";

/// Where the version of the package and what `instrument` warned of are kept.
const VERSION: &str = "story-version";
const WARNINGS: &str = "story-warnings";

/// The condition without the fix, and the function that it is in.
const GUARD: &str = "if( pWin ){";
const FUNCTION: &str = "resolveExprStep";

/// What tells of an error, and must have been able to run.
const TELLS: &str = "sqlite3ErrorMsg";

const GOOD: &str = "SELECT score(x) FROM sales";
const BAD: &str = "SELECT min(x) OVER w1 FROM sales WINDOW w1 AS (PARTITION BY score(x) OVER w1)";

/// What builds it, below the folder of the source.
const BUILD: [&[&str]; 3] = [
    &["cc", "-g", "-O1", "-c", "sqlite3.c"],
    &["cc", "-g", "-O1", "report.c", "sqlite3.o", "-o", "report", "-lm", "-lpthread", "-ldl"],
    &["instrument", "--scheme", "full", "-o", "report.ship", "report"],
];

/// Does it all and writes the page.
pub fn run(options: &Options) -> Result<()> {
    setup::run(Need::Corpus, &options.installing)?;
    let tool = match &options.tool {
        Some(folder) => folder.clone(),
        None => workspace::build_tool(Profile::Release)?,
    };
    let target = workspace::target()?;
    let story = Story { tool, folder: target.join("story").join("sqlite3") };
    if !options.only_page {
        terminal::heading("Source");
        story.fetch(&target.join("corpus").join("apt"))?;
        terminal::heading("Build");
        story.build()?;
        terminal::heading("Crash");
        story.crash()?;
    }
    let good = story.works()?;
    terminal::heading("Autopsy");
    let told = story.backtrail(&["autopsy", "core"])?.0;
    let document = story.backtrail(&["autopsy", "--json", "core"])?.0;
    let document: serde_json::Value = serde_json::from_str(&document)?;
    let impossible = document["impossible"]["functions"].as_array().context("nothing is told")?;
    ensure!(!impossible.iter().any(|it| it == TELLS), "{TELLS} did not run");
    let page = story.page(&good, &told)?;
    std::fs::write(workspace::root().join(PAGE), page).context("cannot write the page")?;
    println!("{PAGE}");
    Ok(())
}

struct Story {
    /// The folder with the tool.
    tool: PathBuf,
    /// The folder of the source.
    folder: PathBuf,
}

impl Story {
    /// Fetches the source and takes the fix out of it.
    fn fetch(&self, apt: &Path) -> Result<()> {
        if self.folder.exists() {
            std::fs::remove_dir_all(&self.folder)?;
        }
        std::fs::create_dir_all(self.folder.parent().context("a folder above")?)?;
        let version = Archive::new(apt)?.unpack("sqlite3", &self.folder)?;
        let patch = format!("patch -R -p1 < debian/patches/{PATCH}");
        for script in [&patch, "./configure --quiet --disable-tcl", "make sqlite3.c"] {
            println!("{script}");
            let mut shell = Command::new("sh");
            command::output(shell.args(["-c", script]).current_dir(&self.folder))?;
        }
        std::fs::write(self.folder.join("report.c"), REPORT)?;
        Ok(std::fs::write(self.folder.join(VERSION), version)?)
    }

    /// What `backtrail WORDS` prints, and what it says beside that.
    fn backtrail(&self, words: &[&str]) -> Result<(String, String)> {
        println!("backtrail {}", words.join(" "));
        let mut backtrail = Command::new(self.tool.join("backtrail"));
        backtrail.args(words).current_dir(&self.folder).env("LC_ALL", "C");
        let output = command::capture(&mut backtrail)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{} failed: {said}", command::shown(&backtrail));
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), said))
    }

    /// Builds what is shipped.
    fn build(&self) -> Result<()> {
        let mut warnings = String::new();
        for words in BUILD {
            let (_, said) = self.backtrail(words)?;
            said.lines().filter_map(|line| line.strip_prefix("backtrail: warning: ")).for_each(
                |line| {
                    warnings.push_str(line);
                    warnings.push('\n');
                },
            );
        }
        Ok(std::fs::write(self.folder.join(WARNINGS), warnings)?)
    }

    /// What it prints of a query that does no harm.
    fn works(&self) -> Result<String> {
        let mut report = Command::new(self.folder.join("report.ship"));
        command::output(report.arg(GOOD).current_dir(&self.folder))
    }

    /// Lets it crash; its core is `core`.
    fn crash(&self) -> Result<()> {
        println!("./report.ship '{BAD}'");
        let is_core = |name: &str| name == "core" || name.starts_with("core.");
        let cores = || -> Result<Vec<PathBuf>> {
            let files = std::fs::read_dir(&self.folder)?.flatten();
            let named = files.filter(|it| it.file_name().to_str().is_some_and(is_core));
            Ok(named.map(|it| it.path()).collect())
        };
        for old in cores()? {
            std::fs::remove_file(old)?;
        }
        let script = "ulimit -c unlimited; ulimit -s 8192; exec ./report.ship \"$0\"";
        let mut shell = Command::new("sh");
        let output = command::capture(shell.args(["-c", script, BAD]).current_dir(&self.folder))?;
        ensure!(!output.status.success(), "it did not crash");
        match &cores()?[..] {
            [core] => Ok(std::fs::rename(core, self.folder.join("core"))?),
            _ => bail!(
                "it left no core beside it; kernel.core_pattern must be a name without a folder or a \
                 pipe, and `ulimit -H -c` must not be 0"
            ),
        }
    }

    /// The page of what the autopsy told.
    fn page(&self, good: &str, told: &str) -> Result<String> {
        let kept = |name: &str| {
            let text = std::fs::read_to_string(self.folder.join(name));
            text.with_context(|| format!("nothing was built in {}", self.folder.display()))
        };
        let (version, warning) = (kept(VERSION)?, kept(WARNINGS)?);
        let frames = Frames::new(told)?;
        let round = frames.round()?;
        let source = std::fs::read(self.folder.join("sqlite3.c"))?;
        let source = String::from_utf8_lossy(&source);
        let source: Vec<&str> = source.lines().collect();
        let path = path_lines(&round[0])?;
        let at = |line: &u32| source.get(*line as usize - 1).copied().unwrap_or_default();
        let guard = path.iter().find(|line| at(line).trim() == GUARD);
        let guard =
            *guard.with_context(|| format!("`{GUARD}` is not on the path: {}", round[0]))?;
        let shown = |line: &u32| format!("{line}  {}", at(line));
        let conclusion = told.split_once("What can have run\n").context("nothing can have run")?.1;
        let conclusion: Vec<&str> = conclusion.lines().take(4).collect();
        let build: Vec<String> =
            BUILD.iter().map(|words| format!("backtrail {}", words.join(" "))).collect();
        let warned = match warning.trim() {
            "" => String::new(),
            said => format!(" `instrument` warns: `{said}`."),
        };
        let values = [
            ("PATCH", PATCH.to_owned()),
            ("VERSION", version),
            ("REPORT", REPORT.to_owned()),
            ("BUILD", build.join("\n")),
            ("WARNING", warned),
            ("GOOD_OUTPUT", good.trim_end().to_owned()),
            ("GOOD", GOOD.to_owned()),
            ("BAD", BAD.to_owned()),
            ("FRAMES", frames.count()?),
            ("INNERMOST", frames.all[..3].join("\n")),
            ("ROUND", round.join("\n")),
            ("SOURCE", path.iter().map(shown).collect::<Vec<_>>().join("\n")),
            ("GUARD", guard.to_string()),
            ("FIX", self.fix()?),
            ("CONCLUSION", format!("What can have run\n{}", conclusion.join("\n"))),
        ];
        let mut page = TEXT.to_owned();
        for (name, value) in values {
            page = page.replace(&format!("{{{{{name}}}}}"), &value);
        }
        let shown = self.folder.display().to_string();
        ensure!(!page.contains("{{") && !page.contains(&shown), "something is left in the page");
        Ok(page)
    }

    /// The lines that the patch changes.
    fn fix(&self) -> Result<String> {
        let patch = std::fs::read_to_string(self.folder.join("debian/patches").join(PATCH))?;
        let hunk = patch.split_once("+++ b/src/resolve.c").context("another patch")?.1;
        let is_change = |line: &&str| line.starts_with(['+', '-']) && !line.starts_with("---");
        let hunk = hunk.split("diff ").next().unwrap_or_default();
        let lines: Vec<&str> = hunk.lines().skip(1).filter(is_change).take(2).collect();
        ensure!(lines.iter().any(|line| line.contains("nErr")), "another fix: {lines:?}");
        Ok(lines.join("\n"))
    }
}

/// The frames of an autopsy's text, each with the lines below it.
struct Frames {
    all: Vec<String>,
}

impl Frames {
    fn new(told: &str) -> Result<Self> {
        let mut all: Vec<String> = Vec::new();
        for line in told.lines() {
            if line.trim_start().starts_with('#') {
                all.push(line.to_owned());
            } else if line.is_empty() {
                if !all.is_empty() {
                    break;
                }
            } else if let Some(last) = all.last_mut() {
                let line = shortened(line, last);
                if !line.is_empty() && !last.ends_with(&line) {
                    *last = format!("{last}\n{line}");
                }
            }
        }
        ensure!(all.len() > 10, "the stack has {} frames", all.len());
        Ok(Self { all })
    }

    /// From one activation of the function that recurs to the next, inclusive of the
    /// heading of the next.
    fn round(&self) -> Result<Vec<String>> {
        let is_own = |frame: &String| {
            frame
                .lines()
                .next()
                .is_some_and(|line| line.split_whitespace().nth(1) == Some(FUNCTION))
        };
        // The innermost is where it ends, not how it recurs.
        let own: Vec<usize> =
            (0..self.all.len()).filter(|&it| is_own(&self.all[it])).skip(1).take(2).collect();
        let [from, to] = own[..] else { bail!("{FUNCTION} is not on the stack twice") };
        let mut round = self.all[from..to].to_vec();
        round.extend(self.all[to].lines().next().map(str::to_owned));
        Ok(round)
    }

    /// How many frames there are.
    fn count(&self) -> Result<String> {
        let last = self.all.last().and_then(|it| it.trim_start().strip_prefix('#'));
        let number: u64 = last
            .and_then(|it| it.split_whitespace().next()?.parse().ok())
            .context("the last frame has no number")?;
        let digits = (number + 1).to_string();
        let groups: Vec<&str> = digits
            .as_bytes()
            .rchunks(3)
            .rev()
            .map(|it| std::str::from_utf8(it).unwrap_or_default())
            .collect();
        Ok(groups.join(","))
    }
}

/// What is shown of a line below a frame, of which this much is shown before: of older
/// paths the newest and that there are others, nothing of what never ran.
fn shortened(line: &str, before: &str) -> String {
    let inner = line.trim_start();
    let indent = &line[..line.len() - inner.len()];
    match inner.split_whitespace().next() {
        Some("before") if before.contains("\n            before ") => format!("{indent}…"),
        Some("never") => String::new(),
        _ => line.to_owned(),
    }
}

/// The lines of the last path of a frame and of the one under way, each once.
fn path_lines(frame: &str) -> Result<Vec<u32>> {
    let way = |name: &str| frame.lines().find_map(|line| line.trim_start().strip_prefix(name));
    let under_way = way("came by").context("a frame without a path")?;
    let words = way("before").unwrap_or_default().split_whitespace();
    let number = |word: &str| word.trim_end_matches(['T', 'F']).parse::<u32>().ok();
    let mut lines: Vec<u32> = Vec::new();
    for line in words.chain(under_way.split_whitespace()).filter_map(number) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    ensure!(!lines.is_empty(), "a path without lines: {frame}");
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "\
Thread 1, which crashed
  #0      leaf                a.c:1
          x;
          came by    1F
          never      7
  #1      resolveExprStep     a.c:5
          y;
            before   1 2
            before   3
  #2      other               a.c:3
  #3      resolveExprStep     a.c:9
          came by    9T 9
            before   7F 8
            before   8
            before   9
  #4      other               a.c:3
  #5      resolveExprStep     a.c:9
  #6      e                   a.c:9
  #7      e                   a.c:9
  #8      e                   a.c:9
  #9      e                   a.c:9
  #50879  main                a.c:9

What can have run
";

    #[test]
    fn a_round_of_the_recursion_is_found() {
        let frames = Frames::new(TOLD).unwrap();
        let round = frames.round().unwrap();
        assert_eq!(path_lines(&round[0]).unwrap(), [7, 8, 9]);
        assert_eq!(
            round[1..],
            ["  #4      other               a.c:3", "  #5      resolveExprStep     a.c:9"]
        );
        assert_eq!(frames.count().unwrap(), "50,880");
        assert!(!frames.all[0].contains("never"));
        assert!(frames.all[1].ends_with("before   1 2\n            …"), "{}", frames.all[1]);
    }
}
