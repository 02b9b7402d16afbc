//! What plans would cost on the run that a profile describes, computed, not run.

use std::io::Write;

use backtrail_trace::distribution::Costs;
use backtrail_trace::icfg::Icfg;
use backtrail_trace::lower_bound::LowerBound;
use backtrail_trace::planning::{Kind, Options, Strategy, distribute, is_large, plan_single_run};

use crate::stdout::{self, Form};
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
    let mut out = stdout::open(Form::Text);
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
        let [mut by_real, mut by_guess] = [real, guessed].map(|costs| WorstRun::new(icfg, costs));
        for (strategy, name) in [
            (Strategy::Fine, "fine"),
            (Strategy::Function, "function"),
            (Strategy::Grouped, "grouped"),
        ] {
            let options = Options { runs, strategy, limit: None, trials };
            let trained = by_real.of(options, real)?;
            let guess = by_guess.of(options, real)?;
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
    out.flush()?;
    Ok(())
}

/// What the worst run of plans made with some costs has in hits.
struct WorstRun<'a> {
    icfg: &'a Icfg,
    costs: &'a Costs,
    /// Of the last plan, if it is that of every strategy.
    of_all: Option<u64>,
}

impl<'a> WorstRun<'a> {
    fn new(icfg: &'a Icfg, costs: &'a Costs) -> Self {
        Self { icfg, costs, of_all: None }
    }

    fn of(&mut self, options: Options, real: &Costs) -> anyhow::Result<u64> {
        if let Some(known) = self.of_all {
            return Ok(known);
        }
        let cost = distribute(self.icfg, self.costs, options)?.cost(real);
        self.of_all = is_large(self.icfg, self.costs).then_some(cost);
        Ok(cost)
    }
}
