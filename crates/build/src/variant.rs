//! Variants: the same program with something inserted.
//!
//! Each unit goes through a worker of its own, back to its own compiler, and
//! into the cache; then the real linker links the new objects by the original
//! recipe.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use backtrail_interruption::Folder;
use backtrail_ir::Unit;
use backtrail_ir::program::Surroundings;
use backtrail_machine::dynamic_names;
use backtrail_machine::edit::{self, Edit, NewSection};
use backtrail_machine::elf::Kind;
use backtrail_plan::counters::Layout;
use backtrail_plan::frames::FrameTable;
use backtrail_plan::{Action, UnitPlan, block_log};
use rayon::prelude::*;

use crate::cache::Cache;
use crate::carry::frame;
use crate::carry::recipe::{InputKind, Recipe};
use crate::carry::unit::{Damaged, UnitRecord};
use crate::carry::variant::{DerivedLibrary, VariantMark};
use crate::carry::{Carried, file::hex};
use crate::frame_table::{self, PlannedRecords};
use crate::libraries::{expand_origin, is_path_of_one, looks_beside_itself, own_libraries};
use crate::output::{self, Mode};
use crate::relink::{Objects, Relink};
use crate::stripping::Stripping;
use crate::trust::{self, Admitted, Trust};
use crate::{
    Error, counter_area, coverage_area, runtime, space, surroundings, tuning, unit_object,
    variant_object,
};

/// What to insert.
#[derive(Clone, Copy)]
pub enum Scheme<'a> {
    /// Nothing: the program rebuilt from its IR.
    Empty,
    /// Every executed block is logged.
    Log,
    /// Chosen places are logged, as somebody else plans it.
    Logging(&'a dyn LoggingScheme),
    /// What counts, as somebody else plans it.
    Counting(&'a dyn CountingScheme),
    /// What keeps records in frames, as somebody else plans it.
    Tracing(&'a dyn TracingScheme),
}

/// A scheme whose probes keep records in frames.
pub trait TracingScheme: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// A plan for each of the module's units, in order.
    fn plan(&self, module: &ModuleToPlan) -> Vec<TracedUnit>;
}

/// A unit whose functions keep records in frames.
pub struct TracedUnit {
    /// What is inserted.
    pub plan: UnitPlan,
    /// What the records of its functions mean, for whoever reads them.
    pub meaning: Vec<u8>,
    /// The same of each of the variants ([`backtrail_plan::Switched::variants`]).
    pub variants: Vec<Vec<u8>>,
}

/// A scheme whose probes log where they are.
pub trait LoggingScheme: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// A plan for a unit.
    fn plan(&self, id: [u8; 16], unit: &Unit) -> UnitPlan;
}

/// A scheme whose probes count.
pub trait CountingScheme: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// A plan for each of the module's units, in order, and what the unit's
    /// counters mean, for whoever reads them.
    fn plan(&self, module: &ModuleToPlan) -> Vec<(UnitPlan, Vec<u8>)>;
}

/// An executable or shared library that is to be planned.
pub struct ModuleToPlan {
    /// Its units, with their ids.
    pub units: Vec<([u8; 16], Unit)>,
    /// What else was linked into it.
    pub surroundings: Surroundings,
}

impl ModuleToPlan {
    fn new(carried: &Carried, units: &[&UnitRecord], home: Home) -> Result<Self, Error> {
        let with_id = |unit: &&UnitRecord| Ok((unit.meta.id, model(carried, unit)?));
        let (surroundings, _) = match home {
            Home::Programs => surroundings::of_run(carried),
            Home::Own => surroundings::current(carried),
        };
        let units = units.par_iter().map(with_id).collect::<Result<_, Error>>()?;
        Ok(Self { units, surroundings })
    }
}

/// The modules that [`derive()`] asks a scheme for plans of, in that order: the
/// program's own libraries, then the program; for a run here.
pub fn modules_to_plan(carried: &Carried) -> Result<Vec<ModuleToPlan>, Error> {
    let libraries = match carried.kind {
        Kind::SharedLibrary => BTreeMap::new(),
        _ => own_libraries(carried)?,
    };
    let module = |file: &Carried| {
        let recipe = recipe_of(file)?;
        ModuleToPlan::new(file, &linked_units(file, recipe), Home::Programs)
    };
    libraries.values().chain([carried]).map(module).collect()
}

/// How an executable or library was linked, if it is one that variants can be
/// derived from.
fn recipe_of(carried: &Carried) -> Result<&Recipe, Error> {
    let path = || carried.path.clone();
    let recipe = carried.recipe.as_ref().ok_or_else(|| Error::NoRecipe { path: path() })?;
    match &recipe.variant {
        Some(scheme) => Err(Error::IsVariant { path: path(), scheme: scheme.clone() }),
        None => Ok(recipe),
    }
}

/// The program model of a unit that `carried` carries.
fn model(carried: &Carried, unit: &UnitRecord) -> Result<Unit, Error> {
    let damaged = |Damaged(what)| Error::Damaged {
        path: carried.path.clone(),
        what: format!("{}: {what}", unit.meta.name),
    };
    let model = unit.model().map_err(damaged)?;
    model.ok_or_else(|| damaged(Damaged("it has no program model".into())))
}

impl Scheme<'_> {
    /// The name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Log => "log",
            Self::Logging(scheme) => scheme.name(),
            Self::Counting(scheme) => scheme.name(),
            Self::Tracing(scheme) => scheme.name(),
        }
    }

    /// A plan for each unit, where something is inserted, and what it means.
    fn plan(
        &self,
        carried: &Carried,
        units: &[&UnitRecord],
        home: Home,
    ) -> Result<(Vec<Option<UnitPlan>>, Meaning), Error> {
        match self {
            Self::Empty => Ok((units.iter().map(|_| None).collect(), Meaning::Plain)),
            Self::Log => {
                let plan = |unit: &&UnitRecord| {
                    Ok(Some(block_log::plan(&model(carried, unit)?, unit.meta.id)))
                };
                let plans = units.par_iter().map(plan).collect::<Result<_, Error>>()?;
                Ok((plans, Meaning::Plain))
            }
            Self::Logging(scheme) => {
                let plan = |unit: &&UnitRecord| {
                    Ok(Some(scheme.plan(unit.meta.id, &model(carried, unit)?)))
                };
                let plans =
                    units.par_iter().map(plan).collect::<Result<Vec<Option<UnitPlan>>, Error>>()?;
                let planned = || plans.iter().flatten();
                let mut probes = planned().flat_map(|it| &it.functions).flat_map(|it| &it.probes);
                // It is in the area, and there are no counters.
                let meaning = match probes.any(|it| matches!(it.action, Action::Order(_))) {
                    true => {
                        Meaning::Counters(Layout::new(planned().map(|it| (it.unit, 0, vec![]))))
                    }
                    false => Meaning::Plain,
                };
                Ok((plans, meaning))
            }
            Self::Counting(scheme) => {
                let module = ModuleToPlan::new(carried, units, home)?;
                let (mut plans, mut counters) = (Vec::new(), Vec::new());
                for (plan, meaning) in scheme.plan(&module) {
                    counters.push((plan.unit, plan.counters, meaning));
                    plans.push(Some(plan));
                }
                Ok((plans, Meaning::Counters(Layout::new(counters))))
            }
            Self::Tracing(scheme) => {
                let module = ModuleToPlan::new(carried, units, home)?;
                let (mut plans, mut records) = (Vec::new(), Vec::new());
                for (planned, unit) in scheme.plan(&module).into_iter().zip(units) {
                    let meanings = std::iter::once(planned.meaning).chain(planned.variants);
                    for (plan, meaning) in planned.plan.with_variants().zip(meanings) {
                        records.push(PlannedRecords {
                            unit: plan.unit,
                            variant: plan.variant,
                            meaning,
                            switched: plan.switched.functions.clone(),
                            name: unit.meta.name.clone(),
                        });
                    }
                    plans.push(Some(planned.plan));
                }
                Ok((plans, Meaning::Records(records)))
            }
        }
    }
}

/// What somebody must know to read what the probes of a module record.
enum Meaning {
    /// Nothing but the model.
    Plain,
    /// Where counters are, and the order of entries.
    Counters(Layout),
    /// What the records of each unit mean.
    Records(Vec<PlannedRecords>),
}

/// How a derivation went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Units made anew or taken from the cache.
    pub units: usize,
    /// Units taken from the cache.
    pub cached: usize,
    /// Inputs linked as they are.
    pub native: usize,
    /// Shared libraries derived along with the program.
    pub libraries: usize,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.units += other.units;
        self.cached += other.cached;
        self.native += other.native;
        self.libraries += other.libraries;
    }
}

/// Where a variant goes.
#[derive(Debug, Clone, Copy)]
pub struct Destination<'a> {
    /// The file.
    pub output: &'a Path,
    /// From where it is run.
    pub home: Home,
}

impl<'a> Destination<'a> {
    /// A file that is run here in place of the program.
    pub fn in_place(output: &'a Path) -> Self {
        Self { output, home: Home::Programs }
    }
}

/// From where a variant is run, and so what it finds that it looks for beside itself
/// (`$ORIGIN`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// It runs here in place of the program, and finds what that one does.
    Programs,
    /// It is taken anywhere, as the program could be.
    Own,
}

impl Home {
    /// Options for the linker that add what `original` finds beside itself.
    fn options(self, original: &Carried) -> Vec<String> {
        if self == Home::Own {
            return Vec::new();
        }
        let folders = original.run_path.iter().filter(|it| looks_beside_itself(it));
        let path = std::path::absolute(&original.path).unwrap_or_else(|_| original.path.clone());
        let origin = path.parent().unwrap_or(Path::new("/"));
        folders.map(|it| format!("-rpath={}", expand_origin(it, origin).display())).collect()
    }
}

/// Derives `scheme` from `carried`. `progress` is told how many of how many units of a
/// file are done.
///
/// The program's own shared libraries are derived as well, into the folder
/// `OUTPUT.libs`, and the variant looks there first: it asks for them by file name, also
/// where the program does by a path.
///
/// `trust` says what is done with recipes that this user did not make.
pub fn derive(
    carried: &Carried,
    scheme: Scheme<'_>,
    trust: Trust,
    destination: Destination<'_>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Outcome, Error> {
    let Destination { output, home } = destination;
    let libraries = match carried.kind {
        Kind::SharedLibrary => BTreeMap::new(),
        _ => own_libraries(carried)?,
    };
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let folder = output.with_file_name(format!("{name}.libs"));
    // All before the first is touched.
    let admit = |file| admit(trust, file);
    let admitted = libraries.values().map(admit).collect::<Result<Vec<_>, _>>()?;
    let own = admit(carried)?;
    let mut total = Outcome::default();
    if !libraries.is_empty() {
        std::fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
    }
    let mut derived = Vec::new();
    for ((name, library), admitted) in libraries.iter().zip(admitted) {
        // The old kind of run path: it comes first, and counts for libraries
        // of libraries.
        let mut options = vec!["--disable-new-dtags".to_owned(), "-rpath=$ORIGIN".to_owned()];
        options.extend(home.options(library));
        let output = folder.join(Path::new(name).file_name().unwrap_or_default());
        let linking = Linking { options, home, libraries: &libraries, derived: Vec::new() };
        let work = Work { carried: library, admitted, scheme, output, linking };
        let (outcome, id) = work.derive(progress)?;
        derived.extend(id.map(|id| DerivedLibrary { name: name.clone(), id }));
        total.add(outcome);
        total.libraries += 1;
    }
    let mut options = match libraries.is_empty() {
        true => Vec::new(),
        false => vec!["--disable-new-dtags".to_owned(), format!("-rpath=$ORIGIN/{name}.libs")],
    };
    options.extend(home.options(carried));
    let output = output.to_owned();
    let linking = Linking { options, home, libraries: &libraries, derived };
    let work = Work { carried, admitted: own, scheme, output, linking };
    total.add(work.derive(progress)?.0);
    Ok(total)
}

/// How `carried` may be derived.
fn admit(trust: Trust, carried: &Carried) -> Result<Admitted<'_>, Error> {
    let recipe = recipe_of(carried)?;
    trust::admit(trust, carried, recipe, &linked_units(carried, recipe))
}

/// A file that is to be derived.
struct Work<'a> {
    carried: &'a Carried,
    admitted: Admitted<'a>,
    scheme: Scheme<'a>,
    output: PathBuf,
    linking: Linking<'a>,
}

/// How a file of a variant is linked.
struct Linking<'a> {
    /// For the linker, besides the recipe's.
    options: Vec<String>,
    /// From where it is run.
    home: Home,
    /// The libraries that are derived with it, by file name.
    libraries: &'a BTreeMap<String, Carried>,
    /// Those that were derived before, for this one.
    derived: Vec<DerivedLibrary>,
}

/// How a derivation went, and which variant was made, if it is one that records.
type Derived = (Outcome, Option<[u8; 16]>);

impl Work<'_> {
    fn derive(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Derived, Error> {
        let scratch = Folder::new("variant");
        let scratch = scratch.map_err(Error::write(&std::env::temp_dir()))?;
        // A variant is not smaller than what it is made from, and is there once more as
        // objects.
        self.derive_within(scratch.path(), progress).map_err(|error| {
            let explained = space::explain(error, scratch.path(), 2 * self.carried.file_size);
            match explained {
                Error::NoSpace { .. } => Error::NoSpace { folder: std::env::temp_dir() },
                error => error,
            }
        })
    }

    /// What tells this variant from all others that record something else: what its units
    /// became, how it is linked, and what its counters mean.
    fn identify(&self, objects: &Objects, layout: Option<&[u8]>) -> [u8; 16] {
        let recipe = postcard::to_stdvec(&*self.admitted.recipe);
        let recipe = recipe.expect("serialising into memory does not fail");
        let mut parts: Vec<&[u8]> = vec![self.scheme.name().as_bytes(), &recipe];
        parts.extend(layout);
        for (unit, object) in objects {
            parts.extend([&unit[..], object]);
        }
        for library in &self.linking.derived {
            parts.extend([library.name.as_bytes(), &library.id]);
        }
        frame::hash(&parts)
    }

    fn derive_within(
        &self,
        scratch: &Path,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Derived, Error> {
        let Self { carried, ref admitted, scheme, .. } = *self;
        let program = &carried.path;
        let recipe = &*admitted.recipe;
        let cache = Cache::open();
        cache.check_writable()?;

        let wanted: Vec<&UnitRecord> = linked_units(carried, recipe);
        let (done, cached) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let fingerprint = tool_fingerprint();
        let (plans, meaning) = scheme.plan(carried, &wanted, self.linking.home)?;
        let all: Vec<&UnitPlan> = plans.iter().flatten().collect();
        let (covered, states) = (coverage_area::object(&all), coverage_area::state_object(&all));
        let derive_one = |((index, unit), plan): ((usize, &&UnitRecord), Option<UnitPlan>)| {
            let inserted =
                postcard::to_stdvec(&plan).expect("serialising into memory does not fail");
            let maker = admitted.maker(unit);
            let made_by =
                postcard::to_stdvec(&maker).expect("serialising into memory does not fail");
            let name = scheme.name().as_bytes();
            let key = frame::hash(&[&unit.meta.id, name, &inserted, &fingerprint, &made_by]);
            let object = match cache.get(&key) {
                Some(object) => {
                    cached.fetch_add(1, Ordering::Relaxed);
                    object
                }
                None => {
                    let folder = scratch.join(format!("unit-{index}"));
                    std::fs::create_dir(&folder).map_err(Error::write(&folder))?;
                    let object =
                        unit_object::derive(program, unit, &maker, scheme.name(), plan, &folder)?;
                    cache.put(&key, &object)?;
                    object
                }
            };
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, wanted.len());
            Ok((unit.meta.id, object))
        };
        let objects: Objects = wanted
            .par_iter()
            .enumerate()
            .zip(plans)
            .map(derive_one)
            .collect::<Result<_, Error>>()?;
        let cached = cached.into_inner();
        if cached < wanted.len() {
            cache.trim();
        }

        let linked = scratch.join("linked");
        let layout = match &meaning {
            Meaning::Counters(layout) => Some(layout),
            Meaning::Plain | Meaning::Records(_) => None,
        };
        let layout_bytes = layout
            .map(|it| postcard::to_stdvec(it).expect("serialising into memory does not fail"));
        let area = layout
            .zip(layout_bytes.as_ref())
            .map(|(layout, bytes)| counter_area::object(layout, layout_id(bytes)));
        let mut added = Vec::new();
        match scheme {
            Scheme::Empty | Scheme::Tracing(_) => {}
            Scheme::Log | Scheme::Logging(_) => added.push(("backtrail-runtime.o", runtime::LOG)),
            Scheme::Counting(_) => added.push(("backtrail-runtime.o", runtime::COUNTS)),
        }
        let records = matches!(scheme, Scheme::Log | Scheme::Logging(_) | Scheme::Counting(_));
        let id = records.then(|| self.identify(&objects, layout_bytes.as_deref()));
        let is_executable = carried.kind != Kind::SharedLibrary;
        let named = id.map(|id| variant_object::object(id, is_executable));
        added.extend(named.as_deref().map(|object| ("backtrail-variant.o", object)));
        added.extend(states.as_deref().map(|object| ("backtrail-tuned.o", object)));
        added.extend(covered.as_deref().map(|object| ("backtrail-coverage.o", object)));
        added.extend(area.as_deref().map(|object| ("backtrail-counters.o", object)));
        let (kept, stripping) = match meaning {
            Meaning::Records(_) => Stripping::take_from(recipe),
            _ => (Cow::Borrowed(recipe), Stripping::default()),
        };
        Relink {
            program,
            recipe: &kept,
            objects: &objects,
            added: &added,
            options: &self.linking.options,
            scratch,
        }
        .run(&linked)?;
        let mut bytes = std::fs::read(&linked).map_err(Error::read(&linked))?;
        let is_own = |name: &str| is_path_of_one(self.linking.libraries, carried, name);
        dynamic_names::shorten(&mut bytes, is_own).map_err(Error::machine(&linked))?;
        let (mut frames, mut tunable) = (None, None);
        if let Meaning::Records(records) = meaning {
            let tables = frame_table::read(&bytes, records).map_err(Error::machine(&linked))?;
            let (table, switches) = tables;
            tunable = (!switches.functions.is_empty()).then(|| tuning::section(&switches));
            let table = FrameTable { surroundings: surroundings::current(carried).0, ..table };
            frames = Some(table.to_bytes());
            bytes = stripping.apply(&bytes).map_err(Error::machine(&linked))?;
        }
        let mark = Recipe {
            variant: Some(scheme.name().to_owned()),
            derived_from: carried.build_id.clone(),
            surroundings: recipe.surroundings.clone(),
            libraries: recipe.libraries.clone(),
            ..Recipe::default()
        };
        let mark = mark.to_bytes();
        let which =
            id.map(|id| VariantMark { id, libraries: self.linking.derived.clone() }.to_bytes());
        let mut sections = vec![NewSection { name: backtrail_abi::LINK_SECTION, data: &mark }];
        let name = backtrail_abi::VARIANT_SECTION;
        sections.extend(which.as_deref().map(|data| NewSection { name, data }));
        let name = backtrail_abi::counts::LAYOUT_SECTION;
        sections.extend(layout_bytes.as_deref().map(|data| NewSection { name, data }));
        let name = backtrail_abi::record::FRAMES_SECTION;
        sections.extend(frames.as_deref().map(|data| NewSection { name, data }));
        let name = backtrail_abi::tune::SECTION;
        sections.extend(tunable.as_deref().map(|data| NewSection { name, data }));
        let bytes = edit::edit(&bytes, &Edit { add: &sections, ..Edit::default() })
            .map_err(Error::machine(&linked))?;
        output::write_whole(&self.output, &bytes, Mode::Program)?;
        let native = recipe.natives().count();
        Ok((Outcome { units: objects.len(), cached, native, libraries: 0 }, id))
    }
}

/// The units that the recipe's objects and archives are made of.
fn linked_units<'a>(carried: &'a Carried, recipe: &Recipe) -> Vec<&'a UnitRecord> {
    let mut ids = BTreeSet::new();
    let mut note = |kind: &InputKind| {
        if let InputKind::Units(units) = kind {
            ids.extend(units.iter().copied());
        }
    };
    for input in &recipe.inputs {
        note(&input.kind);
        if let InputKind::Archive(members) = &input.kind {
            members.iter().for_each(|member| note(&member.kind));
        }
    }
    let mut seen = BTreeSet::new();
    carried
        .units
        .iter()
        .filter(|unit| ids.contains(&unit.meta.id) && seen.insert(unit.meta.id))
        .collect()
}

/// Changes with this executable, so that nothing made by another version of
/// Backtrail is taken from the cache.
pub(crate) fn tool_fingerprint() -> Vec<u8> {
    let own = std::env::current_exe().and_then(std::fs::metadata);
    let stamp = own.ok().and_then(|data| {
        let time = data.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some((data.len(), time.as_nanos()))
    });
    format!("{} {stamp:?}", env!("CARGO_PKG_VERSION")).into_bytes()
}

/// What identifies a layout of counters, given as bytes.
pub fn layout_id(layout: &[u8]) -> [u8; 16] {
    frame::hash(&[layout])
}

/// The build id as people write it.
pub fn build_id_text(build_id: &[u8]) -> String {
    if build_id.is_empty() { "none".to_owned() } else { hex(build_id) }
}
