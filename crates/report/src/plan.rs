//! What it would cost to count paths with several copies; text and JSON.

use serde::Serialize;

use crate::terminal::{Style, counted, number, table};

/// The plans for a program on a run.
#[derive(Debug, Clone, Serialize)]
pub struct Document {
    /// `backtrail.plan/1`.
    pub schema: &'static str,
    /// The program's file name.
    pub program: String,
    /// Its build id, empty if it has none.
    pub build_id: String,
    /// How many functions are counted.
    pub functions: usize,
    /// Whether costs are exact: no path of the run was left unfinished.
    pub exact: bool,
    /// Where weights come from: `profile` or `guessed`.
    pub weights: &'static str,
    /// The plans.
    pub plans: Vec<Plan>,
    /// Who counts what of some functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explained: Vec<Explained>,
}

/// One plan.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// How the work is divided.
    pub strategy: &'static str,
    /// Among how many.
    pub copies: usize,
    /// How many probes add a label, by copy.
    pub probes: Vec<u64>,
    /// How often these are executed, by copy.
    pub hits: Vec<u64>,
    /// The most of them.
    pub hits_worst: u64,
    /// The most, with updates of counters included.
    pub hits_with_counts_worst: u64,
    /// The share of the hits of one copy that no partition can exceed in saving.
    pub bound: f64,
    /// The share of the hits of one copy that is saved.
    pub vs_sbl: f64,
    /// The same with updates of counters included, on both sides.
    pub vs_sbl_with_counts: f64,
    /// The share that is saved if labels that are part of an initial value or of a
    /// count were probes of their own, on both sides.
    pub vs_sbl_unfolded: f64,
    /// The share of the worst hits that spreading whole functions has.
    pub vs_pbl: f64,
    /// How many labels the parts of split functions have.
    pub labels: u64,
    /// How many of these were moved to other edges.
    pub moved: u64,
    /// Functions of which more than one copy counts a part.
    pub split: usize,
    /// Functions counted whole because their parts could not be proved to be all.
    pub made_whole: usize,
    /// How long planning took.
    pub seconds: f64,
}

/// Who counts what of a function.
#[derive(Debug, Clone, Serialize)]
pub struct Explained {
    /// How the work is divided.
    pub strategy: &'static str,
    /// Among how many copies.
    pub copies: usize,
    /// The function's linkage name.
    pub name: String,
    /// Its name as people write it.
    pub demangled: String,
    /// Its unit.
    pub unit: String,
    /// How many paths have a number.
    pub paths: String,
    /// How many places call it.
    pub call_sites: u32,
    /// What the copies count that have a part.
    pub parts: Vec<Part>,
}

/// What a copy counts of a function.
#[derive(Debug, Clone, Serialize)]
pub struct Part {
    /// The copy, from 1.
    pub copy: usize,
    /// How many paths.
    pub paths: String,
    /// How many probes add a label.
    pub probes: u64,
    /// How often they are executed.
    pub hits: u64,
    /// How often paths are counted.
    pub updates: u64,
}

/// The document as text.
pub fn text(document: &Document, style: Style) -> String {
    let mut out = format!(
        "{}  {} whose paths are counted, weights {}\n",
        style.bold(&document.program),
        counted(document.functions as u64, "function"),
        match document.weights {
            "guessed" => "guessed",
            _ => "from a profile",
        },
    );
    if !document.exact {
        let why = "some paths of the run were left unfinished: costs are lower bounds";
        out.push_str(&format!("{}\n", style.warning(why)));
    }
    out.push('\n');
    let mut rows = vec![
        [
            "copies",
            "strategy",
            "hits, worst copy",
            "with counts",
            "saved",
            "",
            "bound",
            "vs pbl",
            "split",
            "labels moved",
            "plan",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for plan in &document.plans {
        rows.push(vec![
            plan.copies.to_string(),
            plan.strategy.to_owned(),
            number(plan.hits_worst),
            number(plan.hits_with_counts_worst),
            share(plan.vs_sbl),
            bar(plan.vs_sbl, plan.bound),
            share(plan.bound),
            share(plan.vs_pbl),
            plan.split.to_string(),
            match plan.labels {
                0 => String::new(),
                labels => format!("{} of {}", number(plan.moved), number(labels)),
            },
            format!("{:.2} s", plan.seconds),
        ]);
    }
    out.push_str(&table(&rows, &[0, 2, 3, 4, 6, 7, 8, 9, 10]));
    out.push_str(
        "\nhits: executed probes that add a label. saved: against one copy that counts everything, \
         under the same weights; the bar goes to 100 %, and | is the bound, which no partition passes.\n",
    );
    for explained in &document.explained {
        out.push_str(&format!(
            "\n{}  {}, {}: {}, {}\n",
            style.bold(&explained.demangled),
            explained.strategy,
            counted(explained.copies as u64, "copy"),
            paths(&explained.paths),
            counted(explained.call_sites.into(), "call site"),
        ));
        let mut rows = Vec::new();
        for part in &explained.parts {
            rows.push(vec![
                format!("  copy {}", part.copy),
                paths(&part.paths),
                counted(part.probes, "probe"),
                counted(part.hits, "hit"),
                counted(part.updates, "count"),
            ]);
        }
        out.push_str(&table(&rows, &[1, 2, 3, 4]));
    }
    out
}

/// Paths, of which there can be any number.
fn paths(count: &str) -> String {
    format!("{count} path{}", if count == "1" { "" } else { "s" })
}

fn share(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

/// A bar of twenty characters, and where the bound is.
fn bar(value: f64, bound: f64) -> String {
    const WIDTH: usize = 20;
    let at = |value: f64| (value.clamp(0.0, 1.0) * WIDTH as f64).round() as usize;
    let (filled, mark) = (at(value), at(bound));
    let cell = |place: usize| match place {
        _ if place == mark => '|',
        _ if place < filled => '█',
        _ => '·',
    };
    (0..=WIDTH).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_ends_where_its_value_does() {
        assert_eq!(bar(0.5, 1.0), "██████████··········|");
        assert_eq!(bar(0.0, 0.0), "|····················");
        assert_eq!(bar(1.0, 1.0), "████████████████████|");
    }
}
