//! The scheme that counts paths, as it is asked for on the command line.

use std::path::Path;

use backtrail_build::carry::Carried;
use backtrail_build::variant::{CountingScheme, ModuleToPlan, build_id_text};
use backtrail_ir::program::Surroundings;
use backtrail_ir::{Func, Unit};
use backtrail_plan::{LeftOut, UnitPlan, block_log};
use backtrail_profile::model::Profile;
use backtrail_profile::partition::program::ModuleUnits;
use backtrail_profile::partition::{Partition, ProgramPaths, plan_copy};
use backtrail_profile::path_plan::PathPlan;
use backtrail_profile::unit_plan::{Choice, DEFAULT_LIMIT, UnitMeaning, Weights, plan_module};
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::args;
use crate::exit::{Unreadable, Usage};
use crate::named::{self, Named};
use crate::style::demangle;

/// Counts the paths of chosen functions.
pub struct PathCounting {
    only: Option<GlobSet>,
    skip: GlobSet,
    limit: u64,
    weights: Option<Weights>,
}

impl PathCounting {
    /// The scheme that the arguments ask for, for this program.
    pub fn new(args: &args::Counting, program: &Carried) -> anyhow::Result<Self> {
        let only = (!args.only.is_empty()).then(|| glob_set(&args.only)).transpose()?;
        let limit = args.limit.unwrap_or(DEFAULT_LIMIT).max(1);
        let skip = glob_set(&args.skip)?;
        let weights =
            args.weights.as_deref().map(|path| read_profile_of(path, program)).transpose()?;
        let weights = weights.as_ref().map(Weights::of);
        let counting = Self { only, skip, limit, weights };
        if !args.only.is_empty() || !args.skip.is_empty() {
            counting.check(args, program)?;
        }
        Ok(counting)
    }

    /// Fails if a glob names nothing, or nothing that counts is left.
    fn check(&self, args: &args::Counting, program: &Carried) -> anyhow::Result<()> {
        let units = named::models(program)?;
        for glob in args.only.iter().chain(&args.skip) {
            Named::by(glob).check(program.path.display(), named::names(&units))?;
        }
        let functions = units.iter().flat_map(|unit| {
            let name = |function: Func| &*unit.symbols[unit.functions[function].symbol].name;
            unit.functions.indices().map(move |function| (unit, function, name(function)))
        });
        let wanted = functions.filter(|(.., name)| self.wants(name));
        let mut why = None;
        for (unit, function, name) in wanted {
            match plan_paths(unit, function) {
                Ok(_) => return Ok(()),
                Err(left_out) => why = Some(format!("{}: {left_out}", demangle(name))),
            }
        }
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        let what = "--only and --skip leave no function that can be counted";
        Err(Usage(format!("{what}{why}")).into())
    }

    /// Everything, with the weights of `profile` or with guessed ones.
    pub fn of_profile(profile: Option<&Profile>) -> Self {
        let weights = profile.map(Weights::of);
        Self { only: None, skip: GlobSet::empty(), limit: DEFAULT_LIMIT, weights }
    }

    /// What is asked for of a module.
    fn choose<'c>(
        &'c self,
        module: &'c ModuleToPlan,
        wants: &'c dyn Fn(&str) -> bool,
    ) -> Choice<'c> {
        Choice {
            wants,
            limit: self.limit,
            weights: self.weights.as_ref(),
            surroundings: Some(&module.surroundings),
        }
    }

    /// The paths of a program's modules that are to be counted.
    pub fn program<'m>(&self, modules: &'m [ModuleToPlan]) -> ProgramPaths<'m> {
        let units: Vec<(ModuleUnits<'m>, &Surroundings)> =
            modules.iter().map(|module| (units(module), &module.surroundings)).collect();
        let choice = Choice {
            wants: &|name| self.wants(name),
            limit: self.limit,
            weights: self.weights.as_ref(),
            surroundings: None,
        };
        ProgramPaths::new(&units, &choice)
    }

    fn wants(&self, name: &str) -> bool {
        let plain = demangle(name);
        let matches = |set: &GlobSet| set.is_match(name) || set.is_match(&plain);
        self.only.as_ref().is_none_or(matches) && !matches(&self.skip)
    }
}

/// How the paths of a function would be counted.
pub fn plan_paths(model: &Unit, function: Func) -> Result<PathPlan, LeftOut> {
    if let Some(why) = block_log::left_out(model, function) {
        return Err(why);
    }
    let plan = PathPlan::new(model, function, DEFAULT_LIMIT, None)?;
    plan.probes(&plan.weights(model, function, None), 0)?;
    Ok(plan)
}

/// The profile in a file, which must be one of `program`.
pub fn read_profile_of(path: &Path, program: &Carried) -> anyhow::Result<Profile> {
    let profile = crate::verbs::paths::load(path)?;
    let build_id = match &program.build_id[..] {
        [] => String::new(),
        bytes => build_id_text(bytes),
    };
    if profile.build_id != build_id {
        anyhow::bail!(Unreadable(format!(
            "{} is a profile of {} (build id {}), not of {} (build id {}); profile this build first",
            path.display(),
            profile.program,
            profile.build_id,
            program.path.display(),
            build_id
        )));
    }
    Ok(profile)
}

fn glob_set(globs: &[Glob]) -> anyhow::Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(glob.clone());
    }
    Ok(set.build()?)
}

impl CountingScheme for PathCounting {
    fn name(&self) -> &'static str {
        "profile"
    }

    fn plan(&self, module: &ModuleToPlan) -> Vec<(UnitPlan, Vec<u8>)> {
        let wants = |name: &str| self.wants(name);
        to_bytes(plan_module(&units(module), &self.choose(module, &wants)))
    }
}

/// Counts what one copy of a program does.
pub struct CopyCounting<'a> {
    /// What is counted by all together.
    pub counting: &'a PathCounting,
    /// Who counts what.
    pub partition: &'a Partition,
    /// Which copy this is.
    pub copy: usize,
}

impl CountingScheme for CopyCounting<'_> {
    fn name(&self) -> &'static str {
        self.counting.name()
    }

    fn plan(&self, module: &ModuleToPlan) -> Vec<(UnitPlan, Vec<u8>)> {
        let wants = |name: &str| self.counting.wants(name);
        let choice = self.counting.choose(module, &wants);
        to_bytes(plan_copy(&units(module), &choice, self.partition, self.copy))
    }
}

fn units(module: &ModuleToPlan) -> ModuleUnits<'_> {
    module.units.iter().map(|(id, unit)| (*id, unit)).collect()
}

fn to_bytes(planned: Vec<(UnitPlan, UnitMeaning)>) -> Vec<(UnitPlan, Vec<u8>)> {
    planned.into_iter().map(|(plan, meaning)| (plan, meaning.to_bytes())).collect()
}
