//! `backtrail instrument`: derives a variant.

mod function_list;

use std::path::{Path, PathBuf};

use backtrail_build::Error;
use backtrail_build::cache::Cache;
use backtrail_build::carry::{Carried, kept};
use backtrail_build::libraries::own_libraries;
use backtrail_build::trust::Trust;
use backtrail_build::variant::{
    self, Destination, Home, ModuleToPlan, Outcome, Scheme, TracedUnit, TracingScheme,
};
use backtrail_crash::tunable::Tunable;
use backtrail_crash::unit_plan::Planning;
use backtrail_foreign::say;
use backtrail_ir::program::Program;
use backtrail_report::terminal::size;
use globset::Glob;

use crate::args;
use crate::args::files::check_output_of;
use crate::exit::Usage;
use crate::named::{self, Named};
use crate::path_counting::PathCounting;
use crate::progress::Phase;
use crate::recorded;
use crate::style::{counted, demangle};

/// Counters that take so many bytes are told of.
const LARGE: u64 = 1 << 20;

/// Runs the verb.
pub fn run(args: &args::Instrument, quiet: bool) -> anyhow::Result<u8> {
    let carried = Carried::read(&args.program)?;
    if !matches!(args.scheme, args::Scheme::Profile) {
        check_nothing_counts(&args.counting)?;
    }
    let counting = PathCounting::new(&args.counting, &carried)?;
    let tracing = match &args.scheme {
        args::Scheme::Tracing(text) => Some(Tracing::new(text, args, &carried)?),
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
    let output = output(args);
    check_output_of(&output, &carried)?;
    let destination = Destination { output: &output, home: Home::Own };
    let outcome = derive(&carried, scheme, Trust::given(args.trust), destination, quiet)?;
    keep(&output)?;
    if !quiet {
        tell_of_origin(&carried, &output);
        let native = match outcome.native {
            0 => String::new(),
            count => {
                let inputs = counted(count as u64, "input");
                let how = if count == 1 { "as it is" } else { "as they are" };
                format!(", {inputs} linked {how} (see 'backtrail info')")
            }
        };
        let libraries = match outcome.libraries {
            0 => String::new(),
            count => {
                let libraries = counted(count as u64, "shared library");
                format!(", {libraries} of its own in {}.libs", output.display())
            }
        };
        say!(
            "{}: {} ({} from the cache){libraries}{native}",
            output.display(),
            counted(outcome.units as u64, "unit"),
            outcome.cached
        );
        if matches!(scheme, Scheme::Counting(_)) {
            tell_space(&output)?;
        }
    }
    Ok(0)
}

/// Fails if something is said of counting, where nothing counts.
fn check_nothing_counts(counting: &args::Counting) -> Result<(), Usage> {
    let args::Counting { weights, only, skip, limit: _ } = counting;
    if weights.is_none() && only.is_empty() && skip.is_empty() {
        return Ok(());
    }
    Err(Usage("--weights, --only and --skip are for --scheme profile".to_owned()))
}

/// Keeps what is needed to read records of a variant and of its libraries: something else
/// may be in their places by then.
fn keep(variant: &Path) -> Result<(), Error> {
    let carried = match Carried::read(variant) {
        // Nothing of it is from IR, so it records nothing.
        Err(Error::NotCarried { .. }) => return Ok(()),
        read => read?,
    };
    let cache = Cache::open();
    let libraries = own_libraries(&carried)?;
    for file in [&carried].into_iter().chain(libraries.values()) {
        kept::keep(&file.path, &cache)?;
    }
    Ok(())
}

/// Says what the counters of a process take, if that is much: whoever runs the variant
/// may have thousands of processes.
fn tell_space(variant: &Path) -> anyhow::Result<()> {
    let carried = Carried::read(variant)?;
    let bytes = recorded::counter_bytes(&carried)?;
    if bytes >= LARGE {
        say!(
            "each process of it takes {} on disk for its counters; 'backtrail run {}' packs them \
             as processes end",
            size(bytes),
            variant.display()
        );
    }
    Ok(())
}

/// Says so if a variant looks for libraries beside itself that are beside the program.
fn tell_of_origin(carried: &Carried, output: &Path) {
    let folder = |path: &Path| std::path::absolute(path).ok()?.parent()?.canonicalize().ok();
    let beside: Vec<&str> = (carried.run_path.iter().map(|it| &**it))
        .filter(|it| backtrail_build::libraries::looks_beside_itself(it))
        .collect();
    if !beside.is_empty() && folder(&carried.path) != folder(output) {
        say!(
            "{} looks for libraries in {}, as {} does: there it is another folder",
            output.display(),
            beside.join(":"),
            carried.path.display()
        );
    }
}

/// Where the variant goes.
pub fn output(args: &args::Instrument) -> PathBuf {
    let default = || {
        let mut name = args.program.clone().into_os_string();
        name.push(format!(".{}", args.scheme.suffix()));
        PathBuf::from(name)
    };
    args.output.clone().unwrap_or_else(default)
}

/// Derives a variant.
pub fn derive(
    carried: &Carried,
    scheme: Scheme<'_>,
    trust: Trust,
    destination: Destination<'_>,
    quiet: bool,
) -> Result<Outcome, Error> {
    let phase = Phase::counted("deriving", carried.units.len(), "units", quiet);
    variant::derive(carried, scheme, trust, destination, &|done, total| phase.at(done, total))
}

/// What crashes are to tell, as it is asked for on the command line.
struct Tracing {
    scheme: backtrail_crash::scheme::Scheme,
    tunable: Tunable,
}

impl Tracing {
    fn new(text: &str, args: &args::Instrument, program: &Carried) -> anyhow::Result<Self> {
        let mut listed = Vec::new();
        for list in &args.pt_list {
            listed.extend(function_list::read(list)?);
        }
        let scheme = backtrail_crash::scheme::Scheme::parse(text, args.ring, &listed)?;
        let tunable =
            Tunable::parse(&args.tunable).map_err(|why| Usage(format!("--tunable: {why}")))?;
        let globs: Vec<&Glob> = scheme.globs().chain(tunable.globs()).collect();
        // Reading models takes time, and everything matches this.
        if globs.iter().any(|glob| glob.glob() != "*") {
            let units = named::models(program)?;
            for glob in globs {
                Named::by(glob).check(program.path.display(), named::names(&units))?;
            }
        }
        Ok(Self { scheme, tunable })
    }
}

impl TracingScheme for Tracing {
    fn name(&self) -> &'static str {
        "traced"
    }

    fn plan(&self, module: &ModuleToPlan) -> Vec<TracedUnit> {
        let units: Vec<_> = module.units.iter().map(|(_, unit)| unit).collect();
        let surroundings = &module.surroundings;
        let program = Program::linked([(units, surroundings)]);
        let ids: Vec<[u8; 16]> = module.units.iter().map(|(id, _)| *id).collect();
        let preemptible = &surroundings.loaded.preemptible;
        let planning = Planning::new(&self.scheme, &program, &ids, preemptible, &demangle);
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
