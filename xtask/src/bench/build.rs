//! `cargo xtask bench build`: what it costs that executables carry their IR.
//!
//! Each program is built twice, by clang and by Backtrail, and the compiler's
//! command lines of both builds are recorded. Then each command line of the one
//! and of the other are run in turns; the least CPU time of each counts, and
//! the times of a program are the sums. Backtrail remembers what clang answered
//! to earlier command lines of a build; every round begins without memory, so
//! that the cost of learning is in the sums as it is in a user's first build.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::anatomy::{self, Anatomy};
use super::commands::{self, Call, Makes, Recorded};
use super::cost::{self, Least};
use super::report;
use crate::corpus::program::Program;
use crate::corpus::tree::{Compiler, Workshop};
use crate::packages::Need;
use crate::{command, corpus, setup, terminal, workspace};

/// What `cargo xtask bench build` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    /// Only these programs
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// How often everything is run
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
}

/// A program of the corpus that is measured.
struct Subject {
    name: &'static str,
    /// How it is built, if not as in the corpus.
    recipe: Option<&'static str>,
}

/// Small units, large ones, one very large, C++.
const SUBJECTS: [Subject; 5] = [
    Subject { name: "bzip2", recipe: None },
    Subject { name: "gzip", recipe: None },
    Subject {
        name: "lua5.4",
        // Once each: the package's own build compiles every unit four times, for
        // a static and a shared library, as C and as C++.
        recipe: Some(
            r##"
            echo '#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"' > src/lua5.4-deb-multiarch.h
            cd src
            for unit in l*.c; do
                $CC $CFLAGS -std=gnu99 -DLUA_COMPAT_5_3 -DLUA_USE_LINUX -c $unit
            done
            ar rc liblua.a $(ls l*.o | grep -v '^luac*.o$')
            $CC -o lua5.4 lua.o liblua.a -Wl,-E -lm -ldl
            $CC -o luac5.4 luac.o liblua.a -lm -ldl
            "##,
        ),
    },
    Subject { name: "sqlite3", recipe: None },
    Subject {
        name: "ninja-build",
        // Without its tests, which are as much again.
        recipe: Some(
            "cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF
             ninja -C build -j$JOBS ninja",
        ),
    },
];

/// The program whose variant is derived.
const DERIVED: &str = "sqlite3";

/// The unit that is taken apart. It is compiled without `-g`, as most are.
const TAKEN_APART: (&str, &str) = ("lua5.4", "lstrlib.c");

/// CPU seconds of the same work, done by clang and by Backtrail.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Pair {
    /// By clang.
    pub plain: f64,
    /// By Backtrail.
    pub ours: f64,
}

impl Pair {
    /// How many times as long Backtrail takes.
    pub fn ratio(self) -> f64 {
        self.ours / self.plain
    }

    /// Both.
    pub fn plus(self, other: Pair) -> Pair {
        Pair { plain: self.plain + other.plain, ours: self.ours + other.ours }
    }
}

/// What was measured of one program.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    /// The program.
    pub name: String,
    /// Which version.
    pub version: String,
    /// How many units are compiled.
    pub units: usize,
    /// How many executables and libraries are linked.
    pub links: usize,
    /// Compiling.
    pub compile: Pair,
    /// Linking.
    pub link: Pair,
    /// The bytes of what is linked, by clang.
    pub plain_bytes: u64,
    /// The bytes of what is linked, by Backtrail.
    pub carrying_bytes: u64,
    /// The bitcode in it, compressed.
    pub bitcode_bytes: u64,
    /// The program model in it, compressed.
    pub model_bytes: u64,
    /// Deriving a variant.
    pub derived: Option<Derived>,
    /// One of its units, taken apart.
    pub anatomy: Option<Anatomy>,
}

/// What it takes to derive a block-log variant.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Derived {
    /// CPU seconds of the first time.
    pub cpu: f64,
    /// Seconds by the clock of the second time.
    pub again: f64,
}

/// Measures and reports.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    let chosen = choose(&options.only)?;
    setup::run(Need::Corpus, &options.installing)?;
    // One job: the order of the command lines is theirs in every build.
    let workshop = corpus::workshop(Some(1), "bench-")?;
    let mut rows = Vec::new();
    for subject in chosen {
        let program =
            corpus::find(subject.name).with_context(|| format!("no program {}", subject.name))?;
        let row = measure(&workshop, program, subject, options.rounds)?;
        keep(&workshop, program, &row)?;
        rows.push(row);
    }
    report::print(&rows);
    write_page(&workshop)
}

fn choose(names: &[String]) -> Result<Vec<&'static Subject>> {
    if names.is_empty() {
        return Ok(SUBJECTS.iter().collect());
    }
    let find = |name: &String| {
        SUBJECTS.iter().find(|subject| subject.name == name).with_context(|| {
            let all = SUBJECTS.each_ref().map(|subject| subject.name);
            format!("{name} is not measured; these are: {}", all.join(", "))
        })
    };
    names.iter().map(find).collect()
}

fn measure(
    workshop: &Workshop,
    program: &Program,
    subject: &Subject,
    rounds: usize,
) -> Result<Row> {
    terminal::heading(program.name);
    let version = workshop.fetch(program)?;
    let recipe = subject.recipe.unwrap_or(program.build);
    println!("build with clang, and note the command lines");
    let plain = commands::record(workshop, program, recipe, Compiler::Plain)?;
    println!("build with backtrail");
    let ours = commands::record(workshop, program, recipe, Compiler::Carrying)?;
    check_same(program, &plain, &ours)?;
    let mut row = Row {
        name: program.name.to_owned(),
        version,
        units: count(&plain, Makes::Object),
        links: count(&plain, Makes::Image),
        compile: Pair::default(),
        link: Pair::default(),
        plain_bytes: 0,
        carrying_bytes: 0,
        bitcode_bytes: 0,
        model_bytes: 0,
        derived: None,
        anatomy: None,
    };
    measure_sizes(workshop, program, &plain, &ours, &mut row)?;
    println!("{} units, {} links, {rounds} rounds", row.units, row.links);
    let cache = workshop.of(program).join("bench-cache");
    let executable = (program.name == DERIVED).then(|| ours.folder.join(program.replaced[0]));
    let mut least = vec![(Least::default(), Least::default()); plain.calls.len()];
    let mut derived = (Least::default(), Least::default());
    let bar = progress((plain.calls.len() * rounds) as u64);
    for round in 0..rounds {
        clear(&cache)?;
        for (index, (left, right)) in plain.calls.iter().zip(&ours.calls).enumerate() {
            let mut run_plain = || -> Result<()> {
                least[index].0.add(cost::measure(&mut left.1.command())?);
                Ok(())
            };
            // Whoever is first finds the sources less often in the caches.
            if round % 2 == 0 {
                run_plain()?;
            }
            let mut carrying = right.1.command();
            let carrying = cost::measure(carrying.env("BACKTRAIL_CACHE", &cache))?;
            if round % 2 != 0 {
                run_plain()?;
            }
            least[index].1.add(carrying);
            bar.inc(1);
        }
        if let Some(executable) = &executable {
            derive(workshop, executable, &cache, &mut derived)?;
        }
    }
    bar.finish_and_clear();
    for ((makes, _), (plain, ours)) in plain.calls.iter().zip(&least) {
        let sum = match makes {
            Makes::Object => &mut row.compile,
            Makes::Image => &mut row.link,
        };
        *sum = sum.plus(Pair { plain: plain.cpu(), ours: ours.cpu() });
    }
    if executable.is_some() {
        row.derived = Some(Derived { cpu: derived.0.cpu(), again: derived.1.wall() });
    }
    if program.name == TAKEN_APART.0 {
        let call = find_unit(&ours, TAKEN_APART.1)?;
        // Short commands: more rounds take little time and give a steadier least.
        row.anatomy = Some(anatomy::measure(workshop, call, TAKEN_APART.1, rounds.max(3) * 4)?);
    }
    Ok(row)
}

/// The two builds must be one, or there is nothing to compare.
fn check_same(program: &Program, plain: &Recorded, ours: &Recorded) -> Result<()> {
    ensure!(count(plain, Makes::Object) > 0, "no unit of {} was compiled", program.name);
    ensure!(
        plain.calls.len() == ours.calls.len(),
        "the builds of {} differ: {} command lines and {}",
        program.name,
        plain.calls.len(),
        ours.calls.len()
    );
    let neutral = |recorded: &Recorded, call: &Call| -> Vec<String> {
        let folder = recorded.folder.display().to_string();
        call.words.iter().map(|word| word.replace(&folder, "")).collect()
    };
    for ((_, left), (_, right)) in plain.calls.iter().zip(&ours.calls) {
        let (left, right) = (neutral(plain, left), neutral(ours, right));
        ensure!(
            left == right,
            "the builds of {} differ: {} and {}",
            program.name,
            left.join(" "),
            right.join(" ")
        );
    }
    Ok(())
}

fn count(recorded: &Recorded, what: Makes) -> usize {
    recorded.calls.iter().filter(|(makes, _)| *makes == what).count()
}

fn find_unit<'a>(recorded: &'a Recorded, name: &str) -> Result<&'a Call> {
    let is_it = |call: &Call| {
        call.source().is_some_and(|source| Path::new(source).file_name() == Some(name.as_ref()))
    };
    let found = recorded.calls.iter().map(|(_, call)| call).find(|call| is_it(call));
    found.with_context(|| format!("{name} was not compiled"))
}

fn measure_sizes(
    workshop: &Workshop,
    program: &Program,
    plain: &Recorded,
    ours: &Recorded,
    row: &mut Row,
) -> Result<()> {
    for name in program.replaced {
        let (left, right) = (plain.folder.join(name), ours.folder.join(name));
        if !left.is_file() {
            // A recipe of our own makes less than the corpus'.
            continue;
        }
        row.plain_bytes += std::fs::metadata(&left)?.len();
        row.carrying_bytes += std::fs::metadata(&right)?.len();
        let text = command::output(workshop.backtrail().args(["info", "--json"]).arg(&right))?;
        let info: Value = serde_json::from_str(&text)
            .with_context(|| format!("cannot read what info says of {}", right.display()))?;
        for unit in info["units"].as_array().context("info lists no units")? {
            let bytes = |name: &str| {
                unit[name].as_u64().with_context(|| format!("info gives no {name} of a unit"))
            };
            row.bitcode_bytes += bytes("bitcode_bytes")?;
            row.model_bytes += bytes("model_bytes")?;
        }
    }
    ensure!(row.plain_bytes > 0, "none of the executables of {} is there", program.name);
    Ok(())
}

fn derive(
    workshop: &Workshop,
    executable: &Path,
    cache: &Path,
    least: &mut (Least, Least),
) -> Result<()> {
    let mut output = PathBuf::from(executable).into_os_string();
    output.push(".log");
    clear(cache)?;
    for least in [&mut least.0, &mut least.1] {
        let mut derive = workshop.backtrail();
        derive.env("BACKTRAIL_CACHE", cache).args(["instrument", "--quiet", "--scheme", "log"]);
        least.add(cost::measure(derive.arg("-o").arg(&output).arg(executable))?);
    }
    Ok(())
}

fn clear(cache: &Path) -> Result<()> {
    if cache.exists() {
        std::fs::remove_dir_all(cache)?;
    }
    Ok(std::fs::create_dir_all(cache)?)
}

/// On a terminal only.
pub(super) fn progress(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len}, {eta} left");
    ProgressBar::new(length).with_style(style.expect("the template is well-formed"))
}

fn keep(workshop: &Workshop, program: &Program, row: &Row) -> Result<()> {
    let text = serde_json::to_string_pretty(&(workshop.tool_stamp()?, row))?;
    Ok(std::fs::write(workshop.of(program).join("bench.json"), text)?)
}

/// Writes the page when everything has been measured with this tool.
fn write_page(workshop: &Workshop) -> Result<()> {
    let mut rows = Vec::new();
    for subject in &SUBJECTS {
        let path = workshop.folder.join(subject.name).join("bench.json");
        let kept = std::fs::read_to_string(path).ok();
        let kept = kept.and_then(|text| serde_json::from_str::<(String, Row)>(&text).ok());
        match kept {
            Some((stamp, row)) if stamp == workshop.tool_stamp()? => rows.push(row),
            _ => {
                println!("docs/bench-build.md is not written: {} is to be measured", subject.name);
                return Ok(());
            }
        }
    }
    let path = workspace::root().join("docs/bench-build.md");
    std::fs::write(&path, report::page(&rows))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote docs/bench-build.md");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_is_in_the_corpus() {
        for subject in &SUBJECTS {
            corpus::find(subject.name).unwrap();
        }
        assert!(choose(&["nothing".to_owned()]).is_err());
        assert_eq!(choose(&[]).unwrap().len(), SUBJECTS.len());
        for name in [DERIVED, TAKEN_APART.0] {
            assert_eq!(choose(&[name.to_owned()]).unwrap().len(), 1);
        }
    }
}
