//! The results as a table on the terminal and as a page.

use std::fmt::Write as _;

use super::{COPIES, Cost, Row, STRATEGIES};

/// The published averages, by copies: less than one copy that counts everything,
/// and less than whole functions spread (Afraz, Saha and Kanade, 2015).
const PUBLISHED: [(usize, f64, f64); 3] = [(2, 0.23, 0.05), (4, 0.43, 0.18), (8, 0.56, 0.25)];

/// What is wanted of `adaptive`.
const WANTED: [(usize, f64); 3] = [(2, 0.45), (4, 0.70), (8, 0.84)];

fn average(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn percent(value: f64) -> String {
    format!("{:.1}", 100.0 * value)
}

/// The average of something that a strategy has.
fn mean(rows: &[Row], strategy: &str, copies: usize, of: impl Fn(&Cost) -> f64) -> f64 {
    average(rows.iter().filter_map(|row| row.cost(strategy, copies)).map(of))
}

/// What share of the bound a strategy reaches.
fn of_bound(cost: &Cost) -> f64 {
    if cost.bound > 0.0 { cost.saved / cost.bound } else { 1.0 }
}

/// The same if the run itself gave the weights.
fn foreseen_of_bound(cost: &Cost) -> f64 {
    let (saved, bound) = cost.foreseen;
    if bound > 0.0 { saved / bound } else { 1.0 }
}

/// For the terminal.
pub fn terminal(rows: &[Row]) -> String {
    let mut out = String::from("hits of the worst copy saved against one copy, in percent\n");
    for copies in COPIES {
        let _ = writeln!(out, "\n{copies} copies      pbl    p3    adaptive  bound");
        for row in rows {
            let _ = write!(out, "{:12}", row.name);
            for strategy in STRATEGIES {
                let saved = row.cost(strategy, copies).map_or(0.0, |cost| cost.saved);
                let _ = write!(out, "{:>7}", percent(saved));
            }
            let cost = row.cost("adaptive", copies);
            let (saved, bound) = cost.map_or((0.0, 0.0), |cost| (cost.saved, cost.bound));
            let filled = (saved.max(0.0) * 30.0).round() as usize;
            let mark = (bound.max(0.0) * 30.0).round() as usize;
            let bar: String = (0..=30)
                .map(|at| match at {
                    _ if at == mark => '|',
                    _ if at < filled => '█',
                    _ => '·',
                })
                .collect();
            let _ = writeln!(out, "{:>7}  {bar}", percent(bound));
        }
    }
    out
}

/// The page.
pub fn page(rows: &[Row], missing: &[&str]) -> String {
    let mut out = String::from(
        "# What counting with several copies saves\n\nThis page is written by\n\n```\ncargo xtask bench partition\n```\n\n\
         Each program is profiled on a training run, which gives the weights, and on two other runs. \
         `backtrail plan` computes what each strategy's plan, made with the weights of the training \
         run, costs on the others. *Saved*: the share of the hits (executed probes that add a label) \
         of one copy that counts everything under the same weights, by which the worst copy has \
         fewer; averaged over the two runs. *Foreseen*: the same with plans that have the \
         weights of the run itself, so that what is missing to the bound there is not due to a wrong \
         estimate but to paths that cannot be divided or are counted twice. See [copies.md](copies.md) for the strategies.\n\n",
    );
    if !missing.is_empty() {
        let _ = writeln!(out, "Not measured with this tool: {}.\n", missing.join(", "));
    }
    out.push_str("![savings per program](bench-partition.svg)\n\n## On average\n\n");
    out.push_str(
        "| copies | adaptive | wanted | bound | adaptive of the bound | of the bound, foreseen | adaptive with counts | pbl | p3 | p3, nothing folded | p3, published | p3 against pbl | published |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for ((copies, published, published_pbl), (_, wanted)) in PUBLISHED.into_iter().zip(WANTED) {
        let adaptive = |of: fn(&Cost) -> f64| mean(rows, "adaptive", copies, of);
        let p3 = |of: fn(&Cost) -> f64| percent(mean(rows, "p3", copies, of));
        let _ = writeln!(
            out,
            "| {copies} | {} % | {} % | {} % | {:.2} | {:.2} | {} % | {} % | {} % | {} % | {} % | {} % | {} % |",
            percent(adaptive(|cost| cost.saved)),
            percent(wanted),
            percent(adaptive(|cost| cost.bound)),
            adaptive(of_bound),
            adaptive(foreseen_of_bound),
            percent(adaptive(|cost| cost.saved_with_counts)),
            percent(mean(rows, "pbl", copies, |cost| cost.saved)),
            p3(|cost| cost.saved),
            p3(|cost| cost.saved_unfolded),
            percent(published),
            p3(|cost| cost.against_pbl),
            percent(published_pbl),
        );
    }
    out.push_str(
        "\n*p3* loses where one copy has the weights of the training run: its labels stay where the \
         numbering of paths puts them, and those of one copy that counts everything are moved to \
         edges that the training run hardly took, or are part of an initial value or of a count, \
         where they cost nothing. *Nothing folded*: the same with these counted as hits on both \
         sides, as in an implementation that has a probe for each label.\n",
    );
    for copies in COPIES {
        let _ = writeln!(
            out,
            "\n## {copies} copies\n\n| program | pbl | p3 | p3, nothing folded | adaptive | bound | adaptive of the bound | foreseen | its bound | of that | pbl, with counts | p3, with counts | adaptive, with counts |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        );
        for row in rows {
            let saved = |strategy: &str| row.cost(strategy, copies).map_or(0.0, |it| it.saved);
            let counts =
                |strategy: &str| row.cost(strategy, copies).map_or(0.0, |it| it.saved_with_counts);
            let bound = row.cost("adaptive", copies).map_or(0.0, |it| it.bound);
            let share = row.cost("adaptive", copies).map_or(1.0, of_bound);
            let foreseen = row.cost("adaptive", copies).map_or((0.0, 0.0), |it| it.foreseen);
            let foreseen_share = row.cost("adaptive", copies).map_or(1.0, foreseen_of_bound);
            let unfolded = row.cost("p3", copies).map_or(0.0, |it| it.saved_unfolded);
            let _ = writeln!(
                out,
                "| {} | {} % | {} % | {} % | {} % | {} % | {share:.2} | {} % | {} % | {foreseen_share:.2} | {} % | {} % | {} % |",
                row.name,
                percent(saved("pbl")),
                percent(saved("p3")),
                percent(unfolded),
                percent(saved("adaptive")),
                percent(bound),
                percent(foreseen.0),
                percent(foreseen.1),
                percent(counts("pbl")),
                percent(counts("p3")),
                percent(counts("adaptive")),
            );
        }
    }
    out.push_str(
        "\n## What copies take\n\nInstructions of the small run by callgrind, against the same code \
         without probes, all with the weights of the training run; the same in seconds by the clock \
         of the large run, the least of several in turns; and whether the profile of \
         several copies was that of one run, count for count. Copies have mounts of their own and \
         print into pipes, and some programs ask: ninja reads its table of mounts, git looks \
         whether its output is a file. These take other paths in copies, as they do if one run is \
         started so.\n\n\
         | program | version | functions | one copy | first of two | second of two | without probes | one copy | slower of two | planning for 8 copies | same profile |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let (empty, all, copies) = &row.instructions;
        let over = |count: u64| percent(count as f64 / *empty as f64 - 1.0);
        let same: Vec<String> = row
            .same
            .iter()
            .map(|(copies, strategy, same)| {
                format!("{copies} {strategy}: {}", if *same { "yes" } else { "NO" })
            })
            .collect();
        let seconds = row.cost("adaptive", 8).map_or(0.0, |cost| cost.seconds);
        let _ = writeln!(
            out,
            "| {} | {} | {} | +{} % | +{} % | +{} % | {:.2} s | {:.2} | {:.2} | {seconds:.2} s | {} |",
            row.name,
            row.version,
            row.functions,
            over(*all),
            over(copies.first().copied().unwrap_or(0)),
            over(copies.get(1).copied().unwrap_or(0)),
            row.seconds.0,
            row.seconds.1 / row.seconds.0,
            row.seconds.2.iter().copied().fold(0.0, f64::max) / row.seconds.0,
            same.join(", "),
        );
    }
    out
}
