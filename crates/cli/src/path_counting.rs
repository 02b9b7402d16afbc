//! The scheme that counts paths, as it is asked for on the command line.

use backtrail_build::variant::{CountingScheme, ModuleToPlan};
use backtrail_plan::UnitPlan;
use backtrail_profile::unit_plan::{Choice, DEFAULT_LIMIT, plan_module};
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::args;
use crate::style::demangle;

/// Counts the paths of chosen functions.
pub struct PathCounting {
    only: Option<GlobSet>,
    skip: GlobSet,
    limit: u64,
}

impl PathCounting {
    /// The scheme that the arguments ask for.
    pub fn new(args: &args::Counting) -> anyhow::Result<Self> {
        let only = (!args.only.is_empty()).then(|| glob_set(&args.only)).transpose()?;
        let limit = args.limit.unwrap_or(DEFAULT_LIMIT).max(1);
        Ok(Self { only, skip: glob_set(&args.skip)?, limit })
    }

    fn wants(&self, name: &str) -> bool {
        let plain = demangle(name);
        let matches = |set: &GlobSet| set.is_match(name) || set.is_match(&plain);
        self.only.as_ref().is_none_or(matches) && !matches(&self.skip)
    }
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
        let units: Vec<_> = module.units.iter().map(|(id, unit)| (*id, unit)).collect();
        let choice = Choice {
            wants: &|name| self.wants(name),
            limit: self.limit,
            is_executable: module.is_executable,
            referred_to: Some(&module.referred_to),
        };
        let planned = plan_module(&units, &choice);
        planned.into_iter().map(|(plan, meaning)| (plan, meaning.to_bytes())).collect()
    }
}
