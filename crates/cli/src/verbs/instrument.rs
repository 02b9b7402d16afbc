//! `backtrail instrument`: derives a variant.

mod function_list;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use backtrail_build::carry::Carried;
use backtrail_build::variant::{self, ModuleToPlan, Outcome, Scheme, TracedUnit, TracingScheme};
use backtrail_crash::leaving::LeavingCalls;
use backtrail_crash::tunable::Tunable;
use backtrail_crash::unit_plan::Planning;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args;
use crate::exit::Usage;
use crate::path_counting::PathCounting;
use crate::style::demangle;

/// Runs the verb.
pub fn run(args: &args::Instrument, quiet: bool) -> anyhow::Result<u8> {
    let carried = Carried::read(&args.program)?;
    let counting = PathCounting::new(&args.counting, &carried)?;
    let tracing = match &args.scheme {
        args::Scheme::Tracing(text) => Some(Tracing::new(text, args)?),
        _ if args.tunable.is_empty() => None,
        _ => {
            let why = "--tunable is for what crashes are to tell: pt, fc, cc, bc, none";
            anyhow::bail!(Usage(why.to_owned()))
        }
    };
    let scheme = match (&args.scheme, &tracing) {
        (args::Scheme::Log, _) => Scheme::Log,
        (args::Scheme::Profile, _) => Scheme::Counting(&counting),
        (args::Scheme::Tracing(_), Some(tracing)) => Scheme::Tracing(tracing),
        (args::Scheme::Empty | args::Scheme::Tracing(_), _) => Scheme::Empty,
    };
    let default = || {
        let mut name = args.program.clone().into_os_string();
        name.push(format!(".{}", scheme.name()));
        PathBuf::from(name)
    };
    let output = args.output.clone().unwrap_or_else(default);
    let outcome = derive(&carried, scheme, &output, quiet)?;
    if !quiet {
        let native = match outcome.native {
            0 => String::new(),
            count => format!(", {count} inputs linked as they are (see 'backtrail info')"),
        };
        let libraries = match outcome.libraries {
            0 => String::new(),
            count => format!(", {count} shared libraries of its own in {}.libs", output.display()),
        };
        eprintln!(
            "{}: {} units ({} from the cache){libraries}{native}",
            output.display(),
            outcome.units,
            outcome.cached
        );
    }
    Ok(0)
}

/// Derives a variant, with a bar on a terminal.
pub fn derive(
    carried: &Carried,
    scheme: Scheme<'_>,
    output: &Path,
    quiet: bool,
) -> Result<Outcome, backtrail_build::Error> {
    let bar = if quiet || !std::io::stderr().is_terminal() {
        ProgressBar::hidden()
    } else {
        let style = ProgressStyle::with_template("deriving {bar:30} {pos}/{len} units")
            .expect("the template is a constant");
        ProgressBar::new(carried.units.len() as u64).with_style(style)
    };
    let outcome = variant::derive(carried, scheme, output, &|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    outcome
}

/// What crashes are to tell, as it is asked for on the command line.
struct Tracing {
    scheme: backtrail_crash::scheme::Scheme,
    tunable: Tunable,
}

impl Tracing {
    fn new(text: &str, args: &args::Instrument) -> anyhow::Result<Self> {
        let mut listed = Vec::new();
        for list in &args.pt_list {
            listed.extend(function_list::read(list)?);
        }
        let scheme = backtrail_crash::scheme::Scheme::parse(text, args.ring, &listed)?;
        let tunable =
            Tunable::parse(&args.tunable).map_err(|why| Usage(format!("--tunable: {why}")))?;
        Ok(Self { scheme, tunable })
    }
}

impl TracingScheme for Tracing {
    fn name(&self) -> &'static str {
        "traced"
    }

    fn plan(&self, module: &ModuleToPlan) -> Vec<TracedUnit> {
        let units: Vec<_> = module.units.iter().map(|(_, unit)| unit).collect();
        let leaving = LeavingCalls::new(&units, module.is_executable);
        let planning = Planning { scheme: &self.scheme, leaving: &leaving, demangle: &demangle };
        let plan = |(place, (id, unit)): (usize, &([u8; 16], backtrail_ir::Unit))| {
            let planned = planning.plan_tunable(&self.tunable, *id, unit, place);
            TracedUnit {
                plan: planned.plan,
                meaning: planned.meaning.to_bytes(),
                variants: planned.variants.iter().map(|it| it.to_bytes()).collect(),
            }
        };
        module.units.iter().enumerate().map(plan).collect()
    }
}
