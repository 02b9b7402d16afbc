//! `cargo xtask VERB`.

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};
use xtask::{
    attack, bench, corpus, crashes, csmith, demo, differing, fresh, installed, linked,
    packages::Need, partitions, readers, setup, stepped, story, suite, terminal, tidy, traces,
    workspace,
};

/// Set-up, demo, tests, the corpus and benchmarks of Backtrail.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show the Debian packages the project relies on and install the missing ones
    Setup {
        #[command(flatten)]
        installing: setup::Installing,
        /// Also what only the corpus and the benchmarks need
        #[arg(long)]
        corpus: bool,
    },
    /// Build a small C program and show what can be told about it
    Demo(demo::Options),
    /// Install what is missing, build, and run the whole test suite
    Test(suite::Options),
    /// Fetch, build and check real programs, and write docs/corpus.md
    Corpus(corpus::Options),
    /// Random programs, and random inputs of readers
    #[command(subcommand)]
    Fuzz(Fuzz),
    /// Measure what Backtrail costs
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Crash SQLite by a bug that Debian has fixed, find it, and write docs/crash-story.md
    Story(story::Options),
    /// Run demo and test on a Debian 12 that has nothing but a Rust toolchain
    Fresh(fresh::Options),
    /// Check what compilers do not: file sizes, unfinished code, links and lists in documents
    Tidy,
    /// Run a command with limits and write how it ended; `fuzz attack` starts it
    #[command(hide = true)]
    Bounded(attack::bounded::Options),
}

#[derive(Subcommand)]
enum Fuzz {
    /// Damaged inputs, interruptions and programs that do what is rarely done
    Attack(attack::Options),
    /// Installed programs, traced by breakpoints and step by step
    Breakpoints(stepped::Options),
    /// Crashes, forced and real, against logs of the same crashes
    Crash(crashes::Options),
    /// C programs that csmith writes, by seed
    Csmith(csmith::Options),
    /// Programs that do not do the same twice, in several runs
    Differing(differing::Options),
    /// Whatever is installed, alone and traced by breakpoints
    Installed(installed::Options),
    /// Random programs as they are linked in the world, against logs of every block
    Linked(linked::Options),
    /// Installed programs that do something, alone and traced by breakpoints
    Work(installed::work::Options),
    /// Labels that tell paths of interest from all others, on random graphs
    Partition(partitions::Options),
    /// Inputs of everything that reads files, chosen by coverage
    Readers(readers::Options),
    /// Executions of random programs, rebuilt from partial traces
    Trace(traces::Options),
}

fn main() -> std::process::ExitCode {
    match run(Arguments::parse().verb) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            terminal::error(&error);
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<()> {
    match verb {
        Verb::Setup { installing, corpus } => {
            setup::run(if corpus { Need::Corpus } else { Need::Test }, &installing)
        }
        Verb::Demo(options) => demo::run(&options),
        Verb::Test(options) => suite::run(&options),
        Verb::Corpus(options) => corpus::run(&options),
        Verb::Fuzz(Fuzz::Attack(options)) => attack::run(&options),
        Verb::Fuzz(Fuzz::Breakpoints(options)) => stepped::run(&options),
        Verb::Fuzz(Fuzz::Crash(options)) => crashes::run(&options),
        Verb::Fuzz(Fuzz::Csmith(options)) => csmith::run(&options),
        Verb::Fuzz(Fuzz::Differing(options)) => differing::run(&options),
        Verb::Fuzz(Fuzz::Installed(options)) => installed::run(&options),
        Verb::Fuzz(Fuzz::Linked(options)) => linked::run(&options),
        Verb::Fuzz(Fuzz::Work(options)) => installed::work::run(&options),
        Verb::Fuzz(Fuzz::Partition(options)) => partitions::run(&options),
        Verb::Fuzz(Fuzz::Readers(options)) => readers::run(&options),
        Verb::Fuzz(Fuzz::Trace(options)) => traces::run(&options),
        Verb::Bench(bench) => bench::run(&bench),
        Verb::Story(options) => story::run(&options),
        Verb::Fresh(options) => fresh::run(&options),
        Verb::Tidy => tidy::run(&workspace::root(), &heavy()),
        Verb::Bounded(options) => attack::bounded::run(&options),
    }
}

/// The commands that are run by hand: all that fuzzes or measures, and these.
fn heavy() -> Vec<String> {
    let whole = Arguments::command();
    let groups = whole.get_subcommands().filter(|it| it.has_subcommands());
    let name = |group: &str, it: &clap::Command| format!("{group} {}", it.get_name());
    let of = |group: &clap::Command| -> Vec<String> {
        group.get_subcommands().map(|it| name(group.get_name(), it)).collect()
    };
    groups.flat_map(of).chain(["corpus", "story"].map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_every_verb_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_cannot_be_left_out_is_refused() {
        let parse = |what: &str| Arguments::try_parse_from(["xtask", "test", "--without", what]);
        assert!(parse("slurm,browser").is_ok());
        assert!(parse("slurm,everything").is_err());
    }
}
