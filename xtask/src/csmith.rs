//! `cargo xtask fuzz csmith`: random C programs, by seed.
//!
//! csmith writes closed, deterministic programs that print a checksum of their
//! variables, and with an argument one after each variable. What such a program
//! prints must not depend on who compiled it: clang alone, Backtrail, Backtrail
//! again from the IR without probes, with every block logged, and with paths
//! counted. And what was counted must be what walking over the log gives, the
//! whole document of it, and what several copies count together; and what is traced
//! (`traced`) must be what the log has. A program that takes too long is no answer;
//! another seed takes its place.

mod traced;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;

use crate::corpus::code::{self, Code};
use crate::packages::Need;
use crate::workspace::{self, Profile};
use crate::{command, jobs, setup, terminal};

/// Where Debian's libcsmith-dev has the header that the programs include.
const HEADERS: &str = "/usr/include/csmith";

/// Seconds that a program itself may take. Its log may grow by gigabytes in a
/// second, so more patience would fill the disk.
const PATIENCE: u32 = 1;

/// Seconds that it may take when every block is logged.
const PATIENCE_LOGGED: u32 = 60;

/// Seconds that walking over its log may take.
const PATIENCE_WALKING: u32 = 60;

/// How many programs are compared if nothing else is said.
const COUNT: u64 = 300;

/// How many copies count together, and how the work is divided among them.
const COPIES: [usize; 5] = [1, 2, 3, 4, 8];
const STRATEGIES: [&str; 3] = ["adaptive", "p3", "pbl"];

/// The variants, by the names they get.
const EMPTY: &str = "original.empty";
const LOG: &str = "original.log";
const COUNTED: &str = "original.profile";

/// What `cargo xtask fuzz csmith` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    /// How many programs to compare
    #[arg(long, default_value_t = COUNT)]
    count: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many at a time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// How programs are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// `-O0`
    Zero,
    /// `-O2`
    Two,
}

impl Level {
    /// Both.
    pub const ALL: [Level; 2] = [Level::Zero, Level::Two];

    fn option(self) -> &'static str {
        match self {
            Level::Zero => "-O0",
            Level::Two => "-O2",
        }
    }
}

/// What came out for one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All printed the same, and the profile is the log's.
    Equal,
    /// It took too long, as itself, with the log, or to walk over that.
    TimedOut,
    /// They did not.
    Different(String),
    /// Backtrail could not make one of them, although clang could.
    NotMade(String),
}

#[derive(Debug, Default)]
struct Tally {
    generated: u64,
    compiled: u64,
    timed_out: u64,
    equal: u64,
    different: Vec<String>,
}

impl Tally {
    fn compared(&self) -> u64 {
        self.equal + self.different.len() as u64
    }

    fn note(&mut self, seed: u64, verdict: Verdict) {
        self.generated += 1;
        self.compiled += u64::from(!matches!(verdict, Verdict::NotMade(_)));
        match verdict {
            Verdict::Equal => self.equal += 1,
            Verdict::TimedOut => self.timed_out += 1,
            Verdict::Different(what) | Verdict::NotMade(what) => {
                println!("{} seed {seed}: {what}", terminal::red("DIFFERENT"));
                self.different.push(format!("seed {seed}: {what}"));
            }
        }
        if self.generated.is_multiple_of(25) {
            println!("{self}");
        }
    }
}

/// A document without what only a log knows: how far unfinished paths got.
fn without_partial(document: &[u8]) -> Result<serde_json::Value> {
    let mut value: serde_json::Value =
        serde_json::from_slice(document).context("paths --json printed no JSON")?;
    for function in value["functions"].as_array_mut().into_iter().flatten() {
        function["partial"].take();
    }
    Ok(value)
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { generated, compiled, timed_out, equal, different } = self;
        let different = different.len();
        write!(
            f,
            "{generated} generated, {compiled} compiled, {timed_out} timed out, {equal} equal, \
             {different} different"
        )
    }
}

/// Runs seeds until `count` programs have been compared.
pub fn run(options: &Options) -> Result<()> {
    setup::run(Need::Test, &options.installing)?;
    let tool = workspace::build_tool(Profile::Release)?;
    let folder = workspace::target()?.join("csmith");
    let jobs =
        options.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut tally = Tally::default();
    let mut next = options.seed;
    // As many seeds as are still wanted, again and again: which ones are taken
    // does not depend on how many run at a time.
    while tally.compared() < options.count {
        let end = next + options.count - tally.compared();
        run_batch(&tool, &folder, next..end, jobs, &mut tally)?;
        next = end;
    }
    println!("{tally}");
    ensure!(tally.different.is_empty(), "different: {}", tally.different.join("; "));
    write_page(options, &tally)
}

/// Compares the programs of some seeds, several at a time.
fn run_batch(
    tool: &Path,
    folder: &Path,
    seeds: Range<u64>,
    jobs: usize,
    tally: &mut Tally,
) -> Result<()> {
    let (seeds, tally) = (Mutex::new(seeds), Mutex::new(tally));
    let work = || -> Result<()> {
        loop {
            let seed = seeds.lock().expect("no thread panics with it").next();
            let Some(seed) = seed else { return Ok(()) };
            let place = folder.join(seed.to_string());
            let mut verdict = Verdict::Equal;
            for level in Level::ALL {
                verdict = compare(tool, &place, seed, level, PATIENCE)?;
                if verdict != Verdict::Equal {
                    break;
                }
            }
            tally.lock().expect("no thread panics with it").note(seed, verdict);
        }
    };
    jobs::run(jobs, work)
}

/// Writes what came out to `docs/csmith.md`, if it is the run that page is about.
fn write_page(options: &Options, tally: &Tally) -> Result<()> {
    if (options.count, options.seed) != (COUNT, 1) {
        return Ok(());
    }
    let page = format!(
        "# Random programs\n\n\
         [csmith](https://github.com/csmith-project/csmith) writes closed, deterministic C programs \
         that print a checksum of each of their variables. Each is compiled by clang alone and by \
         `backtrail cc`, at -O0 and at -O2, rebuilt with the empty plan, with the block log, and \
         with its paths counted. All five must print the same and end the same; the code of the \
         empty plan must be the original's, function by function; and the profile must be the one \
         that walking over the log gives: `backtrail paths --json` prints the same document for \
         both, with every path of every function, its number and its count, entries, unfinished \
         activations and edges. Then several copies count together, 1, 2, 3, 4 and 8 of them and \
         the strategies in turns, so that fifteen seeds have had all, and their profile must be \
         that of one run, count for count, and called checked. Where the log is not too long, the program is traced with \
         the witnesses of one run, and in another way, with strategies, kinds of witnesses, runs \
         and limits in turns: each trace must be what is logged. A program that runs for more \
         than {PATIENCE} s at one of the levels, whose log takes more than {PATIENCE_LOGGED} s, or walking over it more than \
         {PATIENCE_WALKING} s, is replaced by the next seed.\n\n\
         ```\n$ cargo xtask fuzz csmith\n{tally}\n```\n\n\
         The first seed is 1. How many time out depends on the machine; a handful of seeds that do \
         not are in the test suite, at both levels.\n"
    );
    let path = workspace::root().join("docs/csmith.md");
    std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote docs/csmith.md");
    Ok(())
}

/// Generates, compiles and runs the program of a seed, which may take `patience`
/// seconds, in a folder that is made for it and removed unless there is something
/// to look at.
pub fn compare(
    tool: &Path,
    folder: &Path,
    seed: u64,
    level: Level,
    patience: u32,
) -> Result<Verdict> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let verdict = Trial { tool, folder, seed, level, patience }.compare()?;
    if matches!(verdict, Verdict::Equal | Verdict::TimedOut) {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(verdict)
}

struct Trial<'a> {
    tool: &'a Path,
    folder: &'a Path,
    seed: u64,
    level: Level,
    patience: u32,
}

impl Trial<'_> {
    fn compare(&self) -> Result<Verdict> {
        let mut csmith = Command::new("csmith");
        csmith.arg("--seed").arg(self.seed.to_string()).args(["--output", "x.c"]);
        command::output(csmith.current_dir(self.folder))
            .context("csmith comes with Debian's package of that name")?;
        self.compile("plain", Command::new("clang-19"))?;
        let Some(plain) = self.execute("plain", self.patience)? else {
            return Ok(Verdict::TimedOut);
        };
        if let Err(error) = self.make() {
            return Ok(Verdict::NotMade(format!("{error:#}")));
        }
        for name in ["original", EMPTY, LOG, COUNTED] {
            let Some(output) = self.execute(name, PATIENCE_LOGGED)? else {
                if name == LOG {
                    return Ok(Verdict::TimedOut);
                }
                return Ok(Verdict::Different(format!("{name} does not end, plain does")));
            };
            if (&output.stdout, output.status) != (&plain.stdout, plain.status) {
                return Ok(Verdict::Different(format!(
                    "{name} at {} ends with {} and other output",
                    self.level.option(),
                    output.status
                )));
            }
        }
        let checks = [Self::check_code, Self::check_paths, Self::check_copies, Self::check_traces];
        for check in checks {
            let verdict = check(self)?;
            if verdict != Verdict::Equal {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Equal)
    }

    /// What several copies count together is what one counts; numbers of copies and
    /// strategies take turns over the seeds, so that fifteen seeds have had all.
    fn check_copies(&self) -> Result<Verdict> {
        let profile = |copies: usize, strategy: &str| -> Result<Value> {
            let mut profile = Command::new(self.tool.join("backtrail"));
            profile.args(["profile", "--quiet", "--copies"]).arg(copies.to_string());
            profile.args(["--strategy", strategy, "-o", "copies.btprof", "original"]);
            profile.env("BACKTRAIL_CACHE", self.folder.join("cache"));
            command::output(profile.current_dir(self.folder))?;
            let mut shown = Command::new(self.tool.join("backtrail"));
            shown.args(["paths", "--json", "copies.btprof"]).current_dir(self.folder);
            Ok(serde_json::from_str(&command::output(&mut shown)?)?)
        };
        let one = profile(1, "sbl")?;
        // Five and three have no divisor in common.
        let turn = self.seed as usize;
        let (copies, strategy) = (COPIES[turn % COPIES.len()], STRATEGIES[turn % STRATEGIES.len()]);
        let several = profile(copies, strategy)
            .with_context(|| format!("{copies} copies, {strategy}, seed {}", self.seed));
        let found = match several {
            Ok(mut several) => {
                let checked = &several["merged"][0]["checked"];
                let is_checked = copies == 1 || *checked == Value::Bool(true);
                several["merged"] = one["merged"].clone();
                match (several == one, is_checked) {
                    (true, true) => return Ok(Verdict::Equal),
                    (true, false) => "are not called checked".to_owned(),
                    (false, _) => "count something else than one".to_owned(),
                }
            }
            Err(error) => format!("{error:#}"),
        };
        let level = self.level.option();
        Ok(Verdict::Different(format!("{copies} copies, {strategy}, at {level}: {found}")))
    }

    /// Compiles with Backtrail and derives the variants.
    fn make(&self) -> Result<()> {
        let backtrail = || Command::new(self.tool.join("backtrail"));
        let mut cc = backtrail();
        cc.arg("cc");
        self.compile("original", cc)?;
        for scheme in ["empty", "log", "profile"] {
            let mut derive = backtrail();
            derive.args(["instrument", "--quiet", "--scheme", scheme, "original"]);
            derive.env("BACKTRAIL_CACHE", self.folder.join("cache"));
            command::output(derive.current_dir(self.folder))?;
        }
        Ok(())
    }

    /// The empty plan gives back the code, and the others have a record each.
    fn check_code(&self) -> Result<Verdict> {
        let code = |name: &str| Code::read(&self.folder.join(name));
        let is_own = |name: &str| name == "main" || name.starts_with("func_");
        let empty = code::compare(&code("original")?, &code(EMPTY)?, is_own);
        if empty.identical == 0 || !empty.different.is_empty() || !empty.unmatched.is_empty() {
            return Ok(Verdict::Different(format!("the empty plan changed code: {empty:?}")));
        }
        for name in [LOG, COUNTED] {
            let records = std::fs::read_dir(self.records(name)).map(Iterator::count);
            match records {
                Ok(1) => {}
                Ok(count) => {
                    return Ok(Verdict::Different(format!("{count} records of {name}")));
                }
                Err(error) => {
                    return Ok(Verdict::Different(format!("no records of {name}: {error}")));
                }
            }
        }
        Ok(Verdict::Equal)
    }

    /// What was counted is what walking over the log gives.
    fn check_paths(&self) -> Result<Verdict> {
        let mut documents = Vec::new();
        for name in [COUNTED, LOG] {
            let mut paths = Command::new("timeout");
            paths.arg(PATIENCE_WALKING.to_string()).arg(self.tool.join("backtrail"));
            paths.args(["paths", "--json"]).arg(self.records(name));
            let output = command::capture(paths.current_dir(self.folder))?;
            match output.status.code() {
                Some(0) => documents.push(output.stdout),
                Some(124) => return Ok(Verdict::TimedOut),
                _ => {
                    let message = String::from_utf8_lossy(&output.stderr);
                    return Ok(Verdict::Different(format!("paths of {name}: {}", message.trim())));
                }
            }
        }
        if without_partial(&documents[0])? == without_partial(&documents[1])? {
            return Ok(Verdict::Equal);
        }
        for (name, document) in ["counted.json", "logged.json"].iter().zip(&documents) {
            std::fs::write(self.folder.join(name), document)?;
        }
        let (level, folder) = (self.level.option(), self.folder.display());
        let what = format!("counted.json and logged.json differ at {level}: see {folder}");
        Ok(Verdict::Different(what))
    }

    /// Where a variant records.
    fn records(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.records"))
    }

    fn compile(&self, name: &str, mut compiler: Command) -> Result<()> {
        compiler.args(["-w", self.level.option(), "-I", HEADERS, "-o", name, "x.c"]);
        command::output(compiler.current_dir(self.folder)).map(drop)
    }

    /// Runs one of the executables; nothing if it takes too long.
    fn execute(&self, name: &str, patience: u32) -> Result<Option<Output>> {
        let mut program = Command::new("timeout");
        program.arg(patience.to_string()).arg(self.folder.join(name)).arg("1");
        program.env("BACKTRAIL_DIR", self.records(name));
        let output = command::capture(program.current_dir(self.folder))?;
        match output.status.code() {
            Some(124) => Ok(None),
            Some(125..=127) => bail!("cannot run {name} of seed {}", self.seed),
            _ => Ok(Some(output)),
        }
    }
}
