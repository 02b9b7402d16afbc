//! `backtrail info`: what an executable carries, and how each function would be
//! instrumented.

mod text;
mod unlisted;

use std::io::Write as _;

use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::carry::file::hex;
use backtrail_build::carry::recipe::Recipe;
use backtrail_build::carry::unit::{Damaged, IrState, UnitRecord};
use backtrail_build::libraries::{Library, libraries_of};
use backtrail_build::variant::build_id_text;
use backtrail_ir::program::{Program, Surroundings};
use backtrail_ir::{Func, Unit};
use backtrail_machine::elf::Kind;
use serde::Serialize;

use crate::args;
use crate::json::write_document;
use crate::path_counting::plan_paths;
use crate::progress::Phase;
use crate::stdout;
use crate::style::demangle;
use crate::verbs::show::read_models;
use unlisted::Unlisted;

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    program: String,
    build_id: String,
    kind: &'static str,
    /// The scheme, if this is a variant.
    variant: Option<String>,
    /// Which variant it is, by which its records name it.
    variant_id: Option<String>,
    /// The build id of the executable a variant was derived from.
    derived_from: Option<String>,
    side_file: Option<String>,
    file_bytes: u64,
    carried_bytes: u64,
    relinkable: bool,
    units: Vec<UnitRow>,
    functions: Vec<FunctionRow>,
    /// Linked as they are, and why.
    native: Vec<NativeRow>,
    /// Shared libraries that it asks for, directly or through others, and that are not the
    /// system's.
    libraries: Vec<LibraryRow>,
    /// Functions of libraries of which nothing is known.
    unlisted: Unlisted,
    remarks: Vec<String>,
}

#[derive(Serialize)]
struct UnitRow {
    id: String,
    name: String,
    language: String,
    compiler: String,
    /// `yes`, `model only` (a variant), or `no: why`.
    carried: String,
    functions: usize,
    blocks: usize,
    edges: usize,
    bitcode_bytes: usize,
    model_bytes: usize,
}

#[derive(Serialize)]
struct FunctionRow {
    id: String,
    name: String,
    demangled: String,
    unit: String,
    /// Whether it is this code of it that is in the program: of a function that several
    /// units define alike, one is.
    linked: bool,
    file: Option<String>,
    line: Option<u32>,
    blocks: usize,
    edges: usize,
    /// A decimal number; the number of a huge function is a lower bound.
    acyclic_paths: String,
    instrumented: String,
}

#[derive(Serialize)]
struct NativeRow {
    path: String,
    why: String,
}

#[derive(Serialize)]
struct LibraryRow {
    name: String,
    path: Option<String>,
    build_id: Option<String>,
    /// `yes`, or `no: why`.
    carried: String,
    units: usize,
    /// As many as are linked into it.
    functions: usize,
    native: Vec<NativeRow>,
}

/// Runs the verb.
pub fn run(args: &args::Info, quiet: bool) -> anyhow::Result<u8> {
    let reading = Phase::begin("reading what is carried", quiet);
    let carried = Carried::read_with_side(&args.program, args.side.as_deref())?;
    let document = describe(&carried)?;
    drop(reading);
    let mut out = stdout::open(stdout::form(args.json));
    if args.json {
        write_document(&mut out, &document)?;
    } else {
        text::print(&mut out, &document, args)?;
    }
    out.flush()?;
    Ok(0)
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Relocatable => "object",
        Kind::Executable => "executable",
        Kind::PositionIndependentExecutable => "position-independent executable",
        Kind::SharedLibrary => "shared library",
        Kind::Core => "core dump",
    }
}

fn describe(carried: &Carried) -> Result<Document, Error> {
    let recipe = carried.recipe.as_ref();
    let variant = recipe.and_then(|recipe| recipe.variant.clone());
    let mut document = Document {
        schema: "backtrail.info/1",
        program: carried.path.display().to_string(),
        build_id: build_id_text(&carried.build_id),
        kind: kind_name(carried.kind),
        derived_from: recipe
            .filter(|_| variant.is_some())
            .map(|recipe| build_id_text(&recipe.derived_from)),
        relinkable: variant.is_none() && recipe.is_some(),
        variant,
        variant_id: carried.variant.as_ref().map(|mark| hex(&mark.id)),
        side_file: carried.side.as_ref().map(|side| side.display().to_string()),
        file_bytes: carried.file_size,
        carried_bytes: 0,
        units: Vec::new(),
        functions: Vec::new(),
        native: recipe.map(natives).unwrap_or_default(),
        libraries: Vec::new(),
        unlisted: Unlisted { functions: Vec::new(), reach: 0 },
        remarks: recipe.map(|recipe| recipe.remarks.clone()).unwrap_or_default(),
    };
    let mut models = Vec::new();
    for record in &carried.units {
        let damaged = |Damaged(what)| Error::Damaged {
            path: carried.path.clone(),
            what: format!("{}: {what}", record.meta.name),
        };
        let model = record.model().map_err(damaged)?;
        let rows = model.as_ref().map(|model| function_rows(record, model)).unwrap_or_default();
        let row = unit_row(record, &rows);
        document.carried_bytes += (row.bitcode_bytes + row.model_bytes) as u64;
        document.units.push(row);
        document.functions.extend(rows);
        models.extend(model);
    }
    let surroundings = recipe.map(|recipe| recipe.surroundings.clone()).unwrap_or_default();
    let linked = linked(&models, &surroundings);
    document.functions.iter_mut().zip(linked).for_each(|(row, linked)| row.linked = linked);
    let mut modules = vec![(models, surroundings)];
    let libraries = libraries_of(carried)?;
    for library in libraries.iter().filter(|it| !it.is_system || it.carried.is_some()) {
        let module = library.carried.as_ref().map(module).transpose()?;
        document.libraries.push(library_row(library, module.as_ref()));
        modules.extend(module);
    }
    let modules: Vec<_> = modules.iter().map(|(units, around)| (&units[..], around)).collect();
    document.unlisted = unlisted::find(&modules);
    Ok(document)
}

fn natives(recipe: &Recipe) -> Vec<NativeRow> {
    let row = |(path, why): (String, &str)| NativeRow { path, why: why.to_owned() };
    recipe.natives().map(row).collect()
}

fn module(carried: &Carried) -> Result<(Vec<Unit>, Surroundings), Error> {
    let units = read_models(carried)?.into_iter().map(|(_, unit)| unit).collect();
    let recipe = carried.recipe.as_ref();
    Ok((units, recipe.map(|recipe| recipe.surroundings.clone()).unwrap_or_default()))
}

fn library_row(library: &Library, module: Option<&(Vec<Unit>, Surroundings)>) -> LibraryRow {
    let mut row = LibraryRow {
        name: library.name.clone(),
        path: library.path.as_ref().map(|path| path.display().to_string()),
        build_id: None,
        carried: match &library.path {
            Some(_) => "no: it was not built by Backtrail".to_owned(),
            None => "no: it is not found".to_owned(),
        },
        units: 0,
        functions: 0,
        native: Vec::new(),
    };
    let (Some(carried), Some((units, surroundings))) = (&library.carried, module) else {
        return row;
    };
    row.build_id = Some(build_id_text(&carried.build_id));
    row.carried = "yes".to_owned();
    row.units = carried.units.len();
    row.functions = linked(units, surroundings).into_iter().filter(|kept| *kept).count();
    row.native = carried.recipe.as_ref().map(natives).unwrap_or_default();
    row
}

/// Says of the functions of these units, in order, which the linker kept: those are
/// counted by all verbs.
fn linked(units: &[Unit], surroundings: &Surroundings) -> Vec<bool> {
    let program = Program::linked([(units.iter().collect(), surroundings)]);
    let functions = program.units().flat_map(|(object, unit)| {
        unit.functions.indices().map(move |function| (object, function))
    });
    functions.map(|(object, function)| program.kept(object, function)).collect()
}

fn unit_row(record: &UnitRecord, functions: &[FunctionRow]) -> UnitRow {
    let meta = &record.meta;
    UnitRow {
        id: hex(&meta.id),
        name: meta.name.clone(),
        language: meta.language.clone(),
        compiler: meta.compiler.clone(),
        carried: match &meta.state {
            IrState::Carried => "yes".to_owned(),
            IrState::Variant { .. } => "model only".to_owned(),
            IrState::Missing { why } => format!("no: {why}"),
        },
        functions: functions.len(),
        blocks: functions.iter().map(|row| row.blocks).sum(),
        edges: functions.iter().map(|row| row.edges).sum(),
        bitcode_bytes: record.bitcode_size(),
        model_bytes: record.model_size(),
    }
}

fn function_rows(record: &UnitRecord, model: &Unit) -> Vec<FunctionRow> {
    model.functions.indices().map(|function| function_row(record, model, function)).collect()
}

fn function_row(record: &UnitRecord, model: &Unit, function: Func) -> FunctionRow {
    let data = &model.functions[function];
    let name = &model.symbols[data.symbol].name;
    let location = data.location.map(|location| &model.locations[location]);
    let paths = data.acyclic_paths();
    let instrumented = match plan_paths(model, function) {
        Err(why) => format!("no: {why}"),
        Ok(plan) if plan.is_cut() => "cut".to_owned(),
        Ok(_) => "whole".to_owned(),
    };
    FunctionRow {
        id: format!("{}#{name}", record.meta.name),
        name: name.clone(),
        demangled: demangle(name),
        unit: record.meta.name.clone(),
        linked: true,
        file: location.map(|location| model.files[location.file].clone()),
        line: location.map(|location| location.line),
        blocks: data.blocks.len(),
        edges: data.control_flow().edge_count(),
        acyclic_paths: paths.lower_bound().to_string(),
        instrumented,
    }
}
