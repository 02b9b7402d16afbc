//! Variants: the same program with something inserted.
//!
//! Each unit goes through a worker of its own, back to its own compiler, and
//! into the cache; then the real linker links the new objects by the original
//! recipe.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use backtrail_ir::Unit;
use backtrail_machine::edit::{self, Edit, NewSection};
use backtrail_machine::elf::Kind;
use backtrail_plan::counters::Layout;
use backtrail_plan::frames::FrameTable;
use backtrail_plan::{UnitPlan, block_log};
use rayon::prelude::*;

use crate::cache::Cache;
use crate::carry::frame;
use crate::carry::recipe::{InputKind, Recipe};
use crate::carry::unit::{Damaged, UnitRecord};
use crate::carry::{Carried, file::hex};
use crate::frame_table::{self, PlannedRecords};
use crate::libraries::own_libraries;
use crate::output::{self, Mode};
use crate::relink::{Objects, Relink};
use crate::stripping::Stripping;
use crate::{Error, counter_area, coverage_area, references, runtime, tuning, unit_object};

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
    /// Whether it is an executable.
    pub is_executable: bool,
    /// The symbols that it exports or that code without IR refers to.
    pub referred_to: BTreeSet<String>,
}

impl ModuleToPlan {
    fn new(carried: &Carried, recipe: &Recipe, units: &[&UnitRecord]) -> Result<Self, Error> {
        let with_id = |unit: &&UnitRecord| Ok((unit.meta.id, model(carried, unit)?));
        Ok(Self {
            units: units.par_iter().map(with_id).collect::<Result<_, Error>>()?,
            is_executable: carried.kind != Kind::SharedLibrary,
            referred_to: references::from_outside(carried, recipe)?,
        })
    }
}

/// The modules that [`derive()`] asks a scheme for plans of, in that order: the
/// program's own libraries, then the program.
pub fn modules_to_plan(carried: &Carried) -> Result<Vec<ModuleToPlan>, Error> {
    let libraries = match carried.kind {
        Kind::SharedLibrary => BTreeMap::new(),
        _ => own_libraries(carried)?,
    };
    let module = |file: &Carried| {
        let recipe = recipe_of(file)?;
        ModuleToPlan::new(file, recipe, &linked_units(file, recipe))
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
        recipe: &Recipe,
        units: &[&UnitRecord],
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
                let plans = units.par_iter().map(plan).collect::<Result<_, Error>>()?;
                Ok((plans, Meaning::Plain))
            }
            Self::Counting(scheme) => {
                let module = ModuleToPlan::new(carried, recipe, units)?;
                let (mut plans, mut counters) = (Vec::new(), Vec::new());
                for (plan, meaning) in scheme.plan(&module) {
                    counters.push((plan.unit, plan.counters, meaning));
                    plans.push(Some(plan));
                }
                Ok((plans, Meaning::Counters(Layout::new(counters))))
            }
            Self::Tracing(scheme) => {
                let module = ModuleToPlan::new(carried, recipe, units)?;
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
    /// Where counters are.
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

/// Derives `scheme` from `carried`, to `output`. `progress` is told how many of
/// how many units of a file are done.
///
/// The program's own shared libraries are derived as well, into the folder
/// `OUTPUT.libs`, and the variant looks there first.
pub fn derive(
    carried: &Carried,
    scheme: Scheme<'_>,
    output: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Outcome, Error> {
    let libraries = match carried.kind {
        Kind::SharedLibrary => BTreeMap::new(),
        _ => own_libraries(carried)?,
    };
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let folder = output.with_file_name(format!("{name}.libs"));
    let mut total = Outcome::default();
    if !libraries.is_empty() {
        std::fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
    }
    for (name, library) in &libraries {
        let path = folder.join(Path::new(name).file_name().unwrap_or_default());
        // The old kind of run path: it comes first, and counts for libraries
        // of libraries.
        let options = ["--disable-new-dtags".to_owned(), "-rpath=$ORIGIN".to_owned()];
        total.add(derive_file(library, scheme, &path, &options, progress)?);
        total.libraries += 1;
    }
    let options = match libraries.is_empty() {
        true => Vec::new(),
        false => vec!["--disable-new-dtags".to_owned(), format!("-rpath=$ORIGIN/{name}.libs")],
    };
    total.add(derive_file(carried, scheme, output, &options, progress)?);
    Ok(total)
}

fn derive_file(
    carried: &Carried,
    scheme: Scheme<'_>,
    output: &Path,
    options: &[String],
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Outcome, Error> {
    let program = &carried.path;
    let recipe = recipe_of(carried)?;
    let cache = Cache::open();
    cache.check_writable()?;
    let scratch = tempfile::Builder::new().prefix("backtrail-variant-").tempdir();
    let scratch = scratch.map_err(Error::write(&std::env::temp_dir()))?;

    let wanted: Vec<&UnitRecord> = linked_units(carried, recipe);
    let (done, cached) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let fingerprint = tool_fingerprint();
    let (plans, meaning) = scheme.plan(carried, recipe, &wanted)?;
    let all: Vec<&UnitPlan> = plans.iter().flatten().collect();
    let (covered, states) = (coverage_area::object(&all), coverage_area::state_object(&all));
    let derive_one = |((index, unit), plan): ((usize, &&UnitRecord), Option<UnitPlan>)| {
        let inserted = postcard::to_stdvec(&plan).expect("serialising into memory does not fail");
        let key = frame::hash(&[&unit.meta.id, scheme.name().as_bytes(), &inserted, &fingerprint]);
        let object = match cache.get(&key) {
            Some(object) => {
                cached.fetch_add(1, Ordering::Relaxed);
                object
            }
            None => {
                let folder = scratch.path().join(format!("unit-{index}"));
                std::fs::create_dir(&folder).map_err(Error::write(&folder))?;
                let object = unit_object::derive(program, unit, scheme.name(), plan, &folder)?;
                cache.put(&key, &object)?;
                object
            }
        };
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, wanted.len());
        Ok((unit.meta.id, object))
    };
    let objects: Objects =
        wanted.par_iter().enumerate().zip(plans).map(derive_one).collect::<Result<_, Error>>()?;
    let cached = cached.into_inner();
    if cached < wanted.len() {
        cache.trim();
    }

    let linked = scratch.path().join("linked");
    let layout = match &meaning {
        Meaning::Counters(layout) => Some(layout),
        Meaning::Plain | Meaning::Records(_) => None,
    };
    let layout_bytes =
        layout.map(|it| postcard::to_stdvec(it).expect("serialising into memory does not fail"));
    let area = layout.zip(layout_bytes.as_ref()).map(|(layout, bytes)| {
        counter_area::object(layout, layout_id(bytes), carried.kind != Kind::SharedLibrary)
    });
    let mut added = Vec::new();
    match scheme {
        Scheme::Empty | Scheme::Tracing(_) => {}
        Scheme::Log | Scheme::Logging(_) => added.push(("backtrail-runtime.o", runtime::LOG)),
        Scheme::Counting(_) => added.push(("backtrail-runtime.o", runtime::COUNTS)),
    }
    added.extend(states.as_deref().map(|object| ("backtrail-tuned.o", object)));
    added.extend(covered.as_deref().map(|object| ("backtrail-coverage.o", object)));
    added.extend(area.as_deref().map(|object| ("backtrail-counters.o", object)));
    let is_library = carried.kind == Kind::SharedLibrary;
    let is_static = carried.needed.is_empty();
    let mut options = options.to_vec();
    let has_runtime = matches!(scheme, Scheme::Log | Scheme::Logging(_) | Scheme::Counting(_));
    if has_runtime && !is_library && !is_static {
        options.push("--export-dynamic-symbol=__backtrail_*".to_owned());
    }
    let (kept, stripping) = match meaning {
        Meaning::Records(_) => Stripping::take_from(recipe),
        _ => (Cow::Borrowed(recipe), Stripping::default()),
    };
    Relink {
        program,
        recipe: &kept,
        objects: &objects,
        added: &added,
        options: &options,
        scratch: scratch.path(),
    }
    .run(&linked)?;
    let mut bytes = std::fs::read(&linked).map_err(Error::read(&linked))?;
    let (mut frames, mut tunable) = (None, None);
    if let Meaning::Records(records) = meaning {
        let tables = frame_table::read(&bytes, records).map_err(Error::machine(&linked))?;
        let (table, switches) = tables;
        tunable = (!switches.functions.is_empty()).then(|| tuning::section(&switches));
        let table = FrameTable { outside: references::outside(carried, recipe, &wanted)?, ..table };
        frames = Some(table.to_bytes());
        bytes = stripping.apply(&bytes).map_err(Error::machine(&linked))?;
    }
    let mark = Recipe {
        variant: Some(scheme.name().to_owned()),
        derived_from: carried.build_id.clone(),
        ..Recipe::default()
    };
    let mark = mark.to_bytes();
    let mut sections = vec![NewSection { name: backtrail_abi::LINK_SECTION, data: &mark }];
    let name = backtrail_abi::counts::LAYOUT_SECTION;
    sections.extend(layout_bytes.as_deref().map(|data| NewSection { name, data }));
    let name = backtrail_abi::record::FRAMES_SECTION;
    sections.extend(frames.as_deref().map(|data| NewSection { name, data }));
    let name = backtrail_abi::tune::SECTION;
    sections.extend(tunable.as_deref().map(|data| NewSection { name, data }));
    let bytes = edit::edit(&bytes, &Edit { add: &sections, ..Edit::default() })
        .map_err(Error::machine(&linked))?;
    output::write_whole(output, &bytes, Mode::Program)?;
    let native =
        recipe.inputs.iter().filter(|input| matches!(input.kind, InputKind::Native { .. })).count();
    Ok(Outcome { units: objects.len(), cached, native, libraries: 0 })
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
