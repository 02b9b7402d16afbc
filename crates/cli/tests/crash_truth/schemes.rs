//! How much each scheme leaves of a program: which nodes and edges can have run, by
//! crashes at random moments.
//!
//! A program is ended by a timer, wherever it is then; no code of its own is changed
//! for that, since what is covered, such as every call, would be other than in what
//! people ship. So crashes of different schemes are not the same ones; they are at
//! the same fractions of the time that the program takes.

use std::time::{Duration, Instant};

use fastrand::Rng;
use serde::Serialize;

use super::program::Program;

/// The schemes that are compared.
pub const SCHEMES: [&str; 6] = ["fc", "cc", "bc", "pt", "realistic", "full"];

/// What can have run, as sums over crashes of shares.
#[derive(Debug, Default, Clone, Copy)]
pub struct Left {
    /// Crashes.
    pub crashes: u32,
    /// Nodes and edges by the stack alone.
    pub stack: [f64; 2],
    /// The same by all that is known.
    pub now: [f64; 2],
}

impl Left {
    /// Adds what an autopsy said.
    fn add(&mut self, told: &serde_json::Value) {
        let active = &told["active"];
        for (place, what) in ["nodes", "edges"].into_iter().enumerate() {
            let count = |name: &str| active[what][name].as_u64().expect("counted") as f64;
            let total = count("total");
            assert!(
                count("now") <= count("stack_only") && count("stack_only") <= total,
                "{active}"
            );
            self.stack[place] += count("stack_only") / total;
            self.now[place] += count("now") / total;
        }
        self.crashes += 1;
    }

    fn percent(&self, sums: [f64; 2]) -> [f64; 2] {
        sums.map(|sum| 100.0 * sum / f64::from(self.crashes.max(1)))
    }

    /// Percent of nodes and edges that are left.
    pub fn left(&self) -> [f64; 2] {
        self.percent(self.now)
    }
}

/// What is left of one program, by scheme.
pub struct ProgramLeft {
    pub name: String,
    pub of: Vec<Left>,
}

/// Lets a program die `count` times with each scheme; `functions` are traced by the
/// scheme `realistic`.
pub fn measure(
    name: &str,
    program: &Program,
    functions: &[String],
    count: usize,
    rng: &mut Rng,
) -> ProgramLeft {
    let fractions: Vec<f64> = (0..count).map(|_| rng.f64()).collect();
    let mut of = Vec::new();
    for scheme in SCHEMES {
        let list = program.path("functions");
        std::fs::write(&list, functions.join("\n")).unwrap();
        let mut words = vec!["instrument", "-q", "--scheme", scheme, "-o", "traced", "program"];
        if scheme == "realistic" {
            words.extend(["--pt-list", "functions"]);
        }
        program.backtrail(&words);
        let time = duration(program);
        let mut left = Left::default();
        // Now and then it is over before it is ended.
        for attempt in 0..3 * count {
            let fraction = fractions[attempt % count];
            let after = time.mul_f64(fraction).max(Duration::from_micros(50));
            let Some(core) = program.die_after("traced", after) else { continue };
            let told = program.backtrail(&["autopsy", "--json", core.to_str().unwrap()]).stdout;
            std::fs::remove_file(&core).unwrap();
            left.add(&serde_json::from_slice(&told).unwrap());
            if left.crashes as usize == count {
                break;
            }
        }
        of.push(left);
    }
    ProgramLeft { name: name.to_owned(), of }
}

/// How long a run takes, at least.
fn duration(program: &Program) -> Duration {
    let run = |_| {
        let start = Instant::now();
        program.run("traced");
        start.elapsed()
    };
    (0..3).map(run).min().unwrap_or_default()
}

/// What is written for `xtask`, which makes the page of it.
#[derive(Serialize)]
struct Written<'a> {
    name: &'a str,
    /// Of each scheme, at least.
    crashes: u32,
    /// Percent of nodes and edges, by the stack alone and by scheme.
    percent: Vec<(&'static str, [f64; 2])>,
}

/// Writes what is left of a program.
pub fn write(program: &ProgramLeft) {
    let Some(path) = std::env::var_os("BACKTRAIL_ROWS") else { return };
    let mut all = Left::default();
    for left in &program.of {
        all.crashes += left.crashes;
        (0..2).for_each(|place| all.stack[place] += left.stack[place]);
    }
    let schemes = SCHEMES.iter().zip(&program.of).map(|(name, left)| (*name, left.left()));
    let stack = [("stack alone", all.percent(all.stack))];
    let written = Written {
        name: &program.name,
        crashes: program.of.iter().map(|it| it.crashes).min().unwrap_or(0),
        percent: stack.into_iter().chain(schemes).collect(),
    };
    std::fs::write(path, serde_json::to_vec(&written).unwrap()).unwrap();
}
