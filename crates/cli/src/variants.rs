//! The variants that processes were made of, found by their ids.
//!
//! A record names the executable and the libraries that wrote it, each by its id and by
//! where it was ([`backtrail_abi::modules`]). Where it was, something else may be by now:
//! the original that was put back, another variant. So a file is taken only if it has the
//! id, wherever it is: given with `--exe`, where it was, beside the records, or, of what
//! `instrument` made here, in the cache. Without its program a record cannot be read;
//! without a library, the rest can, and the library is named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use backtrail_build::cache::Cache;
use backtrail_build::carry::file::hex;
use backtrail_build::carry::variant::DerivedLibrary;
use backtrail_build::carry::{Carried, kept};
use backtrail_build::libraries::own_libraries;
use backtrail_build::variant::build_id_text;
use backtrail_collect::records::ProcessRecord;
use backtrail_trace::block_log::{Module, Process};

use crate::exit::Unreadable;

type Id = [u8; 16];

/// Finds variants.
pub struct Variants {
    cache: Cache,
    /// The files of `--exe`, in order, and which of the others are their libraries.
    given: Vec<Rc<Carried>>,
    found: BTreeMap<Id, Rc<Carried>>,
    /// Where variants were looked for.
    tried: BTreeSet<(Id, PathBuf)>,
}

/// What a process was made of.
#[derive(Default)]
pub struct MadeOf {
    /// What was found, the program first.
    pub modules: Vec<Rc<Carried>>,
    /// What was not, and what did not run as it was derived, a line each.
    pub missing: Vec<String>,
}

fn id_of(carried: &Carried) -> Option<Id> {
    Some(carried.variant.as_ref()?.id)
}

/// What a file is, for somebody who looked for a variant in it.
fn what(carried: &Carried) -> String {
    match (id_of(carried), &carried.recipe) {
        (Some(id), _) => format!("variant {}", hex(&id)),
        (None, Some(recipe)) if recipe.variant.is_some() => {
            "a variant that records nothing".to_owned()
        }
        _ => format!("no variant, but a build as it was (id {})", build_id_text(&carried.build_id)),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl Variants {
    /// With these files among those that are looked at.
    pub fn new(given: &[PathBuf]) -> anyhow::Result<Self> {
        let mut variants = Self {
            cache: Cache::open(),
            given: Vec::new(),
            found: BTreeMap::new(),
            tried: BTreeSet::new(),
        };
        for path in given {
            let carried = Carried::read(path)?;
            for library in own_libraries(&carried)?.into_values() {
                if let Some(id) = id_of(&library) {
                    variants.found.insert(id, Rc::new(library));
                }
            }
            let carried = Rc::new(carried);
            if let Some(id) = id_of(&carried) {
                variants.found.insert(id, Rc::clone(&carried));
            }
            variants.given.push(carried);
        }
        Ok(variants)
    }

    /// The ids of the files that were given.
    pub fn given(&self) -> BTreeSet<Id> {
        self.given.iter().filter_map(|it| id_of(it)).collect()
    }

    /// Fails if a file was given of which none of these processes was made.
    pub fn check_given<'a>(
        &self,
        dir: &Path,
        processes: impl Iterator<Item = &'a Process> + Clone,
    ) -> Result<(), Unreadable> {
        let modules = || processes.clone().flat_map(|it| &it.modules);
        for given in &self.given {
            if modules().all(|module| Some(module.id) != id_of(given)) {
                let made: BTreeSet<String> = modules().map(name).collect();
                let made: Vec<String> = made.into_iter().collect();
                return Err(Unreadable(format!(
                    "{} is {}, and made none of the records in {}: {} did; give the one that ran",
                    given.path.display(),
                    what(given),
                    dir.display(),
                    made.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// What a process was made of; an error if its program is not found.
    pub fn made_of(&mut self, record: &ProcessRecord, process: &Process) -> anyhow::Result<MadeOf> {
        let mut made = MadeOf::default();
        let executables = process.modules.iter().filter(|module| module.is_executable);
        let libraries = process.modules.iter().filter(|module| !module.is_executable);
        for module in executables.chain(libraries) {
            match self.find(record, module)? {
                Some(found) => made.modules.push(found),
                None if module.is_executable => {
                    anyhow::bail!(Unreadable(self.refusal(record, module)))
                }
                None => made.missing.push(format!(
                    "{} is not found, so what it recorded is missing: give it with --exe",
                    name(module)
                )),
            }
        }
        let not_derived = made.modules.iter().flat_map(|it| underived(it, process));
        let not_derived: Vec<String> = not_derived.collect();
        made.missing.extend(not_derived);
        Ok(made)
    }

    /// Looks for what a process was made of. What one process cannot find another one may,
    /// which ran elsewhere: so all look before one is refused.
    pub fn look(&mut self, record: &ProcessRecord, process: &Process) -> anyhow::Result<()> {
        for module in &process.modules {
            self.find(record, module)?;
        }
        Ok(())
    }

    fn find(
        &mut self,
        record: &ProcessRecord,
        module: &Module,
    ) -> anyhow::Result<Option<Rc<Carried>>> {
        if let Some(found) = self.found.get(&module.id) {
            return Ok(Some(Rc::clone(found)));
        }
        let is_it = |carried: &Carried| id_of(carried) == Some(module.id);
        let mut found = None;
        for path in candidates(record, module).filter(|path| path.is_file()) {
            if self.tried.insert((module.id, path.clone())) {
                // What cannot be read is not it.
                found = found.or_else(|| Carried::read(&path).ok().filter(is_it));
            }
        }
        if found.is_none() && self.tried.insert((module.id, PathBuf::new())) {
            found = kept::find(&module.id, &self.cache)?.filter(is_it);
            if let (Some(found), Some(path)) = (&mut found, &module.path) {
                found.path.clone_from(path);
            }
        }
        let found = found.map(Rc::new);
        self.found.extend(found.clone().map(|found| (module.id, found)));
        Ok(found)
    }

    /// Why a record cannot be read: what made it, and what is in its place.
    fn refusal(&self, record: &ProcessRecord, module: &Module) -> String {
        let path = &record.executable;
        let instead = match Carried::read(path) {
            Ok(carried) => format!("{} is {}", path.display(), what(&carried)),
            Err(_) if !path.exists() => format!("{} is gone", path.display()),
            Err(error) => error.to_string(),
        };
        format!(
            "{} was made by {}, and {instead}; give the variant that \
             ran with --exe, which 'paths' and 'show' take",
            record.folder.display(),
            name(module)
        )
    }
}

/// A module as people know it.
fn name(module: &Module) -> String {
    let id = hex(&module.id);
    match &module.path {
        Some(path) if module.is_executable => format!("variant {id} of {}", file_name(path)),
        Some(path) => format!("{} (variant {id})", path.display()),
        None => format!("a library (variant {id})"),
    }
}

/// The libraries that were derived with a program and that one of its processes did not
/// have, a line each.
pub fn underived(program: &Carried, process: &Process) -> Vec<String> {
    let is_of = |id: &Id| process.modules.iter().any(|module| module.id == *id);
    let mark = program.variant.iter().filter(|mark| is_of(&mark.id));
    mark.flat_map(|mark| &mark.libraries)
        .filter(|library| !is_of(&library.id))
        .map(|DerivedLibrary { name, id }| {
            format!(
                "{name} did not run as it was derived with the program (variant {}): what ran in its \
                 place, unless the process ended before, is missing",
                hex(id)
            )
        })
        .collect()
}

/// Where a module may be: where it was, in the folder of records, and beside that.
fn candidates<'a>(
    record: &'a ProcessRecord,
    module: &'a Module,
) -> impl Iterator<Item = PathBuf> + 'a {
    let folders = record.folder.ancestors().skip(1).take(2);
    module.path.iter().flat_map(move |path| {
        let beside = path.file_name().map(|name| folders.clone().map(move |it| it.join(name)));
        std::iter::once(path.clone()).chain(beside.into_iter().flatten())
    })
}
