//! `cargo xtask bench partition`: what counting with several copies saves.
//!
//! The programs, builds and inputs are those of [`super::profile`]. Plans are
//! made with the profile of the training run; what they cost is computed by
//! `backtrail plan` on two other runs and averaged over them, then over the
//! programs. That the copies give the same profile is seen by running them, and
//! what a copy takes by callgrind.

mod chart;
mod report;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::profile::run::Bench;
use super::profile::subject::{Input, SUBJECTS, Subject, Work};
use super::profile::variant;
use crate::choice::Choice;
use crate::corpus::tree::Workshop;
use crate::packages::Need;
use crate::{command, corpus, setup, terminal, workspace};

/// What `cargo xtask bench partition` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    #[command(flatten)]
    choice: Choice,
    /// Compare every number of copies with every strategy to one run, instead of
    /// some: takes several times as long
    #[arg(long)]
    every: bool,
}

/// The numbers of copies that are planned for.
pub const COPIES: [usize; 3] = [2, 4, 8];

/// The strategies that are compared.
pub const STRATEGIES: [&str; 3] = ["pbl", "p3", "adaptive"];

/// The copies that are run, and whose profile must be that of one run.
const TOGETHER: [(usize, &str); 6] =
    [(1, "adaptive"), TIMED, (3, "p3"), (4, "adaptive"), (8, "pbl"), (8, "adaptive")];

/// The same if every number is to be run with every strategy.
fn every() -> Vec<(usize, &'static str)> {
    let with_each = |copies| STRATEGIES.map(|strategy| (copies, strategy));
    [1, 2, 3, 4, 8].into_iter().flat_map(with_each).collect()
}

/// Those that are timed.
const TIMED: (usize, &str) = (2, "adaptive");

/// What was measured of one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The program.
    pub name: String,
    /// Which version of the package.
    pub version: String,
    /// How many functions are counted.
    pub functions: u64,
    /// The costs, averaged over the inputs.
    pub costs: Vec<Cost>,
    /// Instructions without probes, with all paths counted, and of each of two
    /// copies, on the small input; all with the weights of the training run.
    pub instructions: (u64, u64, Vec<u64>),
    /// Seconds of the large run by the clock, the least of several in turns, of
    /// the same.
    pub seconds: (f64, f64, Vec<f64>),
    /// Whether copies gave the profile of one run: copies, strategy, same.
    pub same: Vec<(usize, String, bool)>,
}

/// What a strategy saves with some copies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Which.
    pub strategy: String,
    /// How many.
    pub copies: usize,
    /// Of the hits of one copy.
    pub saved: f64,
    /// With updates of counters included.
    pub saved_with_counts: f64,
    /// Of the hits if nothing were folded into initial values and counts.
    pub saved_unfolded: f64,
    /// Against whole functions spread.
    pub against_pbl: f64,
    /// What no partition can exceed.
    pub bound: f64,
    /// Saved, and the bound, if the weights are those of the run itself: what is
    /// missing here is not an error of the estimate.
    pub foreseen: (f64, f64),
    /// Seconds of planning.
    pub seconds: f64,
}

impl Row {
    /// The cost of a strategy.
    pub fn cost(&self, strategy: &str, copies: usize) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.strategy == strategy && cost.copies == copies)
    }
}

/// A program of many functions: how long planning takes.
const LARGE: Subject = Subject {
    name: "git",
    package: "git",
    prepare: "",
    build: r#"
        make -j$JOBS CC="$CC" CFLAGS="$CFLAGS" NO_OPENSSL=1 NO_CURL=1 NO_EXPAT=1 NO_GETTEXT=1 \
            NO_TCLTK=1 NO_PERL=1 NO_PYTHON=1 NO_REGEX=1 git
    "#,
    executable: "git",
    does: "looks for a word (`grep --no-index`)",
    timed: Work { arguments: SEARCH, input: Input::Text(1, 24_000_000) },
    counted: Work { arguments: SEARCH, input: Input::Text(2, 400_000) },
    training: Work { arguments: SEARCH, input: Input::Text(3, 1_000_000) },
};

const SEARCH: &[&str] =
    &["grep", "--no-index", "--threads=1", "-c", "-E", "-e", "(a|o)[k-z]+e", "INPUT"];

/// The programs that are measured.
fn subjects() -> impl Iterator<Item = &'static Subject> {
    SUBJECTS.iter().chain([&LARGE])
}

/// Measures and reports.
pub fn run(options: &Options) -> Result<()> {
    options.choice.check(subjects().map(|subject| subject.name))?;
    setup::run(Need::Corpus, &options.installing)?;
    let workshop = corpus::workshop(None, "profile-")?;
    let mut failures = Vec::new();
    for subject in subjects().filter(|subject| options.choice.wants(subject.name)) {
        if kept(&workshop, subject)?.is_some() && !options.choice.again {
            continue;
        }
        terminal::heading(subject.name);
        let together = match options.every {
            true => every(),
            false if subject.name == LARGE.name => vec![TIMED],
            false => TOGETHER.to_vec(),
        };
        match measure(&workshop, subject, &together) {
            Ok(row) => keep(&workshop, subject, &row)?,
            Err(error) => {
                terminal::error(&error);
                failures.push(subject.name);
            }
        }
    }
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    for subject in subjects() {
        match kept(&workshop, subject)? {
            Some(row) => rows.push(row),
            None => missing.push(subject.name),
        }
    }
    println!("{}", report::terminal(&rows));
    let docs = workspace::root().join("docs");
    std::fs::write(docs.join("bench-partition.md"), report::page(&rows, &missing))?;
    std::fs::write(docs.join("bench-partition.svg"), chart::svg(&rows))?;
    println!("wrote docs/bench-partition.md and docs/bench-partition.svg");
    ensure!(failures.is_empty(), "not measured: {}", failures.join(", "));
    Ok(())
}

fn measure(
    workshop: &Workshop,
    subject: &Subject,
    together: &[(usize, &'static str)],
) -> Result<Row> {
    let bench = Bench::new(workshop, subject.name)?;
    let (carried, version) = variant::carried(workshop, subject)?;
    let profile = |work: &Work, name: &str, words: &[&str]| -> Result<()> {
        let mut command = workshop.backtrail();
        command.args(["profile", "--quiet", "-o"]).arg(bench.file(name)).args(words);
        command.arg(&carried).arg("--");
        let finished = bench.run_as(&command, work)?;
        ensure!(finished.status == 0, "a run of {} fails ({})", subject.name, finished.status);
        Ok(())
    };
    println!("profile the training run and two others");
    profile(&subject.training, "training.btprof", &[])?;
    let training = bench.file("training.btprof");
    let weights = ["--weights", training.to_str().context("an odd path")?];
    let mut costs: Vec<Cost> = Vec::new();
    let mut functions = 0;
    let runs = [&subject.counted, &subject.timed];
    for (number, work) in runs.into_iter().enumerate() {
        let name = format!("test-{number}.btprof");
        profile(work, &name, &weights)?;
        let plan = |weights: &Path| -> Result<Value> {
            let mut plan = workshop.backtrail();
            plan.args(["plan", "--json", "--copies", "2,4,8", "--weights"]).arg(weights);
            plan.arg("--on").arg(bench.file(&name)).arg(&carried);
            Ok(serde_json::from_str(&command::output(&mut plan)?)?)
        };
        let document = plan(&training)?;
        functions = document["functions"].as_u64().unwrap_or(0);
        add_costs(&mut costs, &document, &plan(&bench.file(&name))?, runs.len())?;
    }
    println!("run the copies");
    let mut same = Vec::new();
    for &(copies, strategy) in together {
        let count = copies.to_string();
        let variants = bench.file("variants");
        let _ = std::fs::remove_dir_all(&variants);
        let keep = variants.to_str().context("an odd path")?;
        let mut words = weights.to_vec();
        // An overlay is seen by a program that reads its mounts, as ninja does.
        words.extend(["--isolate", "copy", "--copies", &count, "--strategy", strategy]);
        words.extend(["--keep", keep]);
        profile(&subject.counted, "copies.btprof", &words)?;
        let shown = |name: &str| -> Result<Value> {
            let mut paths = workshop.backtrail();
            paths.args(["paths", "--json"]).arg(bench.file(name));
            Ok(serde_json::from_str(&command::output(&mut paths)?)?)
        };
        let (one, mut several) = (shown("test-0.btprof")?, shown("copies.btprof")?);
        let is_checked = several["merged"][0]["checked"] == Value::Bool(true);
        several["merged"] = one["merged"].clone();
        same.push((copies, strategy.to_owned(), is_checked && one == several));
        if (copies, strategy) == TIMED {
            let kept = bench.file("variants-timed");
            let _ = std::fs::remove_dir_all(&kept);
            std::fs::rename(&variants, &kept)?;
        }
    }
    let variants = derive(workshop, &bench, &carried, &training)?;
    println!("count instructions");
    let mut counts = Vec::new();
    for variant in &variants {
        counts.push(bench.count_instructions(variant, &subject.counted)?.0);
    }
    println!("{ROUNDS} rounds");
    let mut seconds = vec![f64::INFINITY; variants.len()];
    for _ in 0..ROUNDS {
        for (variant, least) in variants.iter().zip(&mut seconds) {
            *least = bench.run(variant, &subject.timed)?.usage.wall.min(*least);
        }
    }
    Ok(Row {
        name: subject.name.to_owned(),
        version,
        functions,
        costs,
        instructions: (counts[0], counts[1], counts.split_off(2)),
        seconds: (seconds[0], seconds[1], seconds.split_off(2)),
        same,
    })
}

/// How often everything is timed.
const ROUNDS: usize = 7;

/// Adds what a plan document says to the averages, and the one of plans that
/// foresaw the run.
fn add_costs(
    costs: &mut Vec<Cost>,
    document: &Value,
    foreseen: &Value,
    inputs: usize,
) -> Result<()> {
    let plans = |document: &Value| document["plans"].as_array().cloned().context("no plans");
    for (plan, foreseen) in plans(document)?.iter().zip(&plans(foreseen)?) {
        let number = |plan: &Value, key: &str| {
            plan[key].as_f64().with_context(|| format!("no {key} in a plan"))
        };
        let field = |key: &str| number(plan, key);
        let strategy = plan["strategy"].as_str().unwrap_or_default();
        let copies = field("copies")? as usize;
        let known = costs.iter().position(|it| it.strategy == strategy && it.copies == copies);
        let place = known.unwrap_or_else(|| {
            costs.push(Cost {
                strategy: strategy.to_owned(),
                copies,
                saved: 0.0,
                saved_with_counts: 0.0,
                saved_unfolded: 0.0,
                against_pbl: 0.0,
                bound: 0.0,
                foreseen: (0.0, 0.0),
                seconds: 0.0,
            });
            costs.len() - 1
        });
        let share = 1.0 / inputs as f64;
        let cost = &mut costs[place];
        cost.saved += share * field("vs_sbl")?;
        cost.saved_with_counts += share * field("vs_sbl_with_counts")?;
        cost.saved_unfolded += share * field("vs_sbl_unfolded")?;
        cost.against_pbl += share * field("vs_pbl")?;
        cost.bound += share * field("bound")?;
        cost.foreseen.0 += share * number(foreseen, "vs_sbl")?;
        cost.foreseen.1 += share * number(foreseen, "bound")?;
        cost.seconds += share * field("seconds")?;
    }
    Ok(())
}

/// The variants that are measured: without probes, counting everything, and each
/// of two copies.
fn derive(
    workshop: &Workshop,
    bench: &Bench,
    carried: &Path,
    training: &Path,
) -> Result<Vec<PathBuf>> {
    let mut variants = Vec::new();
    for scheme in ["empty", "profile"] {
        let output = bench.file(&format!("{scheme}-variant"));
        let mut instrument = workshop.backtrail();
        instrument.args(["instrument", "--quiet", "--scheme", scheme, "-o"]).arg(&output);
        if scheme == "profile" {
            instrument.arg("--weights").arg(training);
        }
        command::output(instrument.arg(carried))?;
        variants.push(output);
    }
    let name = carried.file_name().context("an executable has a name")?;
    for copy in ["copy-1", "copy-2"] {
        let variant = bench.file("variants-timed").join(copy).join(name);
        if !variant.is_file() {
            bail!("no variant of {copy}");
        }
        variants.push(variant);
    }
    Ok(variants)
}

fn keep(workshop: &Workshop, subject: &Subject, row: &Row) -> Result<()> {
    let folder = workshop.folder.join("partition-rows");
    std::fs::create_dir_all(&folder)?;
    let stamp = (workshop.tool_stamp()?, subject.stamp());
    let text = serde_json::to_string_pretty(&(stamp, row))?;
    Ok(std::fs::write(folder.join(format!("{}.json", subject.name)), text)?)
}

fn kept(workshop: &Workshop, subject: &Subject) -> Result<Option<Row>> {
    let path = workshop.folder.join("partition-rows").join(format!("{}.json", subject.name));
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
    let Ok((stamp, row)) = serde_json::from_str::<((String, String), Row)>(&text) else {
        return Ok(None);
    };
    Ok((stamp == (workshop.tool_stamp()?, subject.stamp())).then_some(row))
}
