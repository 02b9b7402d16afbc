//! What plans would cost on the run that a profile describes, computed, not run.

use std::io::Write;

use backtrail_trace::distribution::Costs;
use backtrail_trace::icfg::Icfg;
use backtrail_trace::lower_bound::LowerBound;
use backtrail_trace::planning::{Kind, Options, Strategy, distribute, plan_single_run};

use crate::style::number;

/// How many runs are thought of.
const RUNS: std::ops::RangeInclusive<usize> = 1..=6;

/// Limits that are thought of, of a single run.
const LIMITS: [usize; 5] = [5, 10, 20, 30, 50];

/// Prints the hits of the worst run under `real` weights, of plans made with
/// these, and of plans made with `guessed` ones.
pub fn print(icfg: &Icfg, real: &Costs, guessed: &Costs, kind: Kind) -> anyhow::Result<()> {
    let trials = if icfg.nodes().len() <= super::witnesses::SMALL { 200 } else { 0 };
    let single = plan_single_run(icfg, real, kind, trials)?.cost(real);
    let blind = plan_single_run(icfg, guessed, kind, trials)?.cost(real);
    let mut out = std::io::stdout().lock();
    let share = |cost: u64| cost as f64 / single.max(1) as f64;
    writeln!(
        out,
        "single run: {} hits, planned without weights {}",
        number(single),
        number(blind)
    )?;
    writeln!(
        out,
        "runs  strategy    trained          of single   guessed          of single   bound"
    )?;
    let bounds = LowerBound::new(icfg, real);
    for runs in RUNS {
        let bound = bounds.of_runs(runs);
        for (strategy, name) in [
            (Strategy::Fine, "fine"),
            (Strategy::Function, "function"),
            (Strategy::Grouped, "grouped"),
        ] {
            let options = Options { runs, strategy, limit: None, trials };
            let trained = distribute(icfg, real, options)?.cost(real);
            let guess = distribute(icfg, guessed, options)?.cost(real);
            writeln!(
                out,
                "{runs:<5} {name:<11} {:<16} {:<11.3} {:<16} {:<11.3} {:.3}",
                number(trained),
                share(trained),
                number(guess),
                share(guess),
                share(bound)
            )?;
        }
    }
    for limit in LIMITS {
        let options = Options { runs: 1, strategy: Strategy::Fine, limit: Some(limit), trials: 0 };
        match distribute(icfg, real, options) {
            Ok(plan) => {
                let worst = plan.profiles.iter().map(|it| it.cost(real)).max().unwrap_or(0);
                writeln!(
                    out,
                    "limit {limit}: {} executions, the worst with {} hits ({:.3} of single)",
                    number(plan.profiles.len() as u64),
                    number(worst),
                    share(worst)
                )?;
            }
            Err(error) => writeln!(out, "limit {limit}: {error}")?,
        }
    }
    Ok(())
}
