//! `cargo xtask test`: everything that is checked before a change goes in.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::packages::Need;
use crate::stages::Stages;
use crate::workspace::{self, Profile};
use crate::{command, setup, terminal};

/// What `cargo xtask test` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    /// Leave these out, and say so
    #[arg(long, value_delimiter = ',', value_name = "WHAT")]
    without: Vec<Part>,
}

/// Parts of the suite that need more than a plain machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What runs on a Slurm cluster.
    Slurm,
    /// What looks at HTML in a browser.
    Browser,
}

impl Part {
    fn left_out(self) -> &'static str {
        match self {
            Part::Slurm => "slurm: tests that start a Slurm cluster on this machine",
            Part::Browser => "browser: tests that open HTML in a browser",
        }
    }

    /// What the names of its tests contain.
    fn tests(self) -> &'static str {
        match self {
            Part::Slurm => "on_slurm_",
            Part::Browser => "in_a_browser_",
        }
    }
}

/// Runs the suite.
pub fn run(options: &Options) -> Result<()> {
    let mut stages = Stages::default();
    if !stages.run("packages", || setup::run(Need::Test, &options.installing)) {
        return stages.finish();
    }
    let nextest = command::exists("cargo-nextest");
    let built = stages.run("build the tool", || workspace::build_tool(Profile::Dev).map(drop));
    let built = stages.run("build the tests", || {
        let mut cargo = workspace::cargo();
        if nextest {
            cargo.args(["nextest", "run", "--workspace", "--no-run"]);
        } else {
            cargo.args(["test", "--workspace", "--no-run"]);
        }
        command::run(&mut cargo)
    }) && built;
    let state = workspace::target()?.join("state");
    if built {
        let runner = if nextest { "tests (cargo-nextest)" } else { "tests (cargo test)" };
        stages.run(runner, || {
            let mut cargo = workspace::cargo();
            // What tests link is not what whoever runs them has linked.
            cargo.env("XDG_STATE_HOME", &state);
            if nextest {
                cargo.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
            } else {
                cargo.args(["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"]);
            }
            if !options.without.is_empty() {
                cargo.arg("--");
                for part in &options.without {
                    cargo.args(["--skip", part.tests()]);
                }
            }
            // Tests send signals, and some look at what becomes of them.
            command::run(&mut command::behind(&command::HEEDING_SIGNALS, &cargo))
        });
        stages.run("examples in the documentation", || {
            command::run(workspace::cargo().args(["test", "--workspace", "--doc"]))
        });
    }
    // Functions are inlined across crates only here: what links for the tests
    // need not link for people.
    stages.run("build the tool as it is installed", || {
        workspace::build_tool(Profile::Release).map(drop)
    });
    let finished = stages.finish();
    for part in &options.without {
        println!("{} {}", terminal::yellow("NOT RUN:"), part.left_out());
    }
    finished
}
