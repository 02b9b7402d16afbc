//! The results as a table on the terminal and as a page.

use std::fmt::Write as _;

use super::{Limited, Row, Several, Single};

/// The strategies that are compared.
const STRATEGIES: [&str; 3] = ["fine", "function", "grouped"];

fn average(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn time(single: &Single) -> f64 {
    single.seconds.1 / single.seconds.0
}

fn instructions(single: &Single) -> f64 {
    single.instructions.1 as f64 / single.instructions.0 as f64
}

/// Bits per block of so many bytes.
fn bits(single: &Single, bytes: u64) -> f64 {
    8.0 * bytes as f64 / single.blocks.max(1) as f64
}

fn singles(rows: &[Row]) -> impl Iterator<Item = (&Row, &Single)> + Clone {
    rows.iter().filter_map(|row| Some((row, row.single.as_ref()?)))
}

fn several(rows: &[Row]) -> impl Iterator<Item = (&Row, &Several)> {
    rows.iter().filter_map(|row| Some((row, row.several.as_ref()?)))
}

/// How far the best plan is from the bound.
fn over_bound(several: &Several, runs: u64) -> Option<f64> {
    let (trained, _, bound) = several.best(runs)?;
    (bound > 0.0).then_some(trained / bound)
}

/// For the terminal.
pub fn terminal(rows: &[Row]) -> String {
    let mut out = String::from("one run: time of the original's, instructions, bits per block\n");
    for (row, single) in singles(rows) {
        let bar = "█".repeat((10.0 * (time(single) - 1.0)).clamp(0.0, 40.0).round() as usize);
        let _ = writeln!(
            out,
            "{:10} {:6.2} {:6.2} {:6.2}  {bar}",
            row.name,
            time(single),
            instructions(single),
            bits(single, single.bytes)
        );
    }
    out.push_str("several runs: hits of the worst, of the bound\n");
    for (row, several) in several(rows) {
        let _ = write!(out, "{:10}", row.name);
        for runs in 2..=6 {
            let _ = write!(out, "{:7.2}", over_bound(several, runs).unwrap_or(f64::NAN));
        }
        out.push('\n');
    }
    out
}

/// The page.
pub fn page(rows: &[Row], missing: &[String]) -> String {
    let mut out = String::from(
        "# What a trace by probes costs\n\nThis page is written by\n\n```\ncargo xtask bench trace\n```\n\n\
         See [tracing.md](tracing.md) for what is measured here.\n\n",
    );
    if !missing.is_empty() {
        let _ = writeln!(out, "Not measured with this tool: {}.\n", missing.join(", "));
    }
    out.push_str(
        "![time and plans per program](bench-trace.svg)\n\n## One run\n\n\
         Processor time (user and kernel; runs of 1 to 3 seconds, the least of several in turns) and \
         instructions by callgrind of the run with probes, against the original; \
         wanted is 1.6 times the time on average. *Hits*: witnesses passed; *words*: what was logged \
         for them, four bytes each. Bits per executed block: of the trace file, for which 1 is wanted; \
         of telling each block's successor with the least bits, knowing how often each follows \
         (entropy, without tables); of a log of every block compressed by `zstd -3`. Blocks were as \
         many in the trace as in the log.\n\n\
         | program | version | blocks | hits | words | time | in the kernel | instructions | bits per block | entropy | zstd |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (Row { name, version, .. }, single) in singles(rows) {
        let _ = writeln!(
            out,
            "| {name} | {version} | {} | {} | {} | {:.2} | {:.2} s of {:.2} s | {:.2} | {:.2} | {:.2} | {:.2} |",
            single.blocks,
            single.hits,
            single.words,
            time(single),
            single.kernel,
            single.seconds.1,
            instructions(single),
            bits(single, single.bytes),
            single.entropy,
            bits(single, single.zstd),
        );
    }
    let of = |value: fn(&Single) -> f64| average(singles(rows).map(|(_, single)| value(single)));
    let _ = writeln!(
        out,
        "| average | | | | | {:.2} | | {:.2} | {:.2} | {:.2} | {:.2} |",
        of(time),
        of(instructions),
        of(|it| bits(it, it.bytes)),
        of(|it| it.entropy),
        of(|it| bits(it, it.zstd)),
    );
    out.push_str(
        "\n## Several runs\n\nHits of the worst run, as a share of the hits of the best plan for one run \
         under the same weights: those of the run itself (trained), or guessed. No plan is below the \
         bound. Wanted is 1.15 times the bound on average.\n",
    );
    for runs in 2..=6 {
        let _ = writeln!(
            out,
            "\n### {runs} runs\n\n| program | fine | function | grouped | best guessed | bound | best of the bound |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        );
        for (row, several) in several(rows) {
            let _ = write!(out, "| {} ", row.name);
            for strategy in STRATEGIES {
                let mut shares = several.shares.iter();
                let share = shares.find(|it| it.runs == runs && it.strategy == strategy);
                let share = share.map_or("?".to_owned(), |it| format!("{:.2}", it.trained));
                let _ = write!(out, "| {share} ");
            }
            let _ = match (several.best(runs), over_bound(several, runs)) {
                (Some((_, guessed, bound)), Some(over)) => {
                    writeln!(out, "| {guessed:.2} | {bound:.2} | {over:.2} |")
                }
                _ => writeln!(out, "| ? | ? | ? |"),
            };
        }
        let mean = average(several(rows).filter_map(|(_, it)| over_bound(it, runs)));
        let _ = writeln!(out, "| average | | | | | | {mean:.2} |");
    }
    out.push_str(
        "\n## With a limit\n\nAt most so many witnesses in an execution: how many executions it takes, and \
         the hits of the worst as a share of those of one run without a limit. More than 2,000 are not planned, nor are limits where more than sixteen million pairs of ways have to be told apart.\n\n\
         | program | 5 | 10 | 20 | 30 | 50 |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (row, several) in several(rows) {
        let _ = write!(out, "| {} ", row.name);
        for limit in [5, 10, 20, 30, 50] {
            let _ = match several.limits.iter().find(|it| it.0 == limit) {
                Some((_, Limited::Fits(executions, share))) => {
                    write!(out, "| {executions}: {share:.2} ")
                }
                Some((_, Limited::MoreThan(most))) => write!(out, "| over {most} "),
                Some((_, Limited::DoesNotFit)) => write!(out, "| does not fit "),
                Some((_, Limited::NotPlanned)) => write!(out, "| not planned "),
                None => write!(out, "| ? "),
            };
        }
        out.push_str("|\n");
    }
    let late: Vec<&str> =
        several(rows).filter(|(_, it)| it.is_cut).map(|(row, _)| &row.name[..]).collect();
    if !late.is_empty() {
        let _ = writeln!(
            out,
            "\n`?`: took too long to compute (`--patience`), of {}.",
            late.join(", ")
        );
    }
    out
}
