//! `backtrail info`: what an executable carries, and how each function would be
//! instrumented.

use std::io::{self, Write};

use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::carry::file::hex;
use backtrail_build::carry::recipe::InputKind;
use backtrail_build::carry::unit::{Damaged, IrState, UnitRecord};
use backtrail_build::variant::build_id_text;
use backtrail_ir::{Func, Unit};
use backtrail_machine::elf::Kind;
use backtrail_plan::{LeftOut, block_log};
use backtrail_profile::path_plan::PathPlan;
use backtrail_profile::unit_plan::DEFAULT_LIMIT;
use serde::Serialize;

use crate::args;
use crate::json::write_document;
use crate::style::{bold, demangle, dim, number, size, table};

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    program: String,
    build_id: String,
    kind: &'static str,
    /// The scheme, if this is a variant.
    variant: Option<String>,
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

/// Runs the verb.
pub fn run(args: &args::Info) -> anyhow::Result<u8> {
    let carried = Carried::read_with_side(&args.program, args.side.as_deref())?;
    let document = describe(&carried)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.json {
        write_document(&mut out, &document)?;
    } else {
        print(&mut out, &document, args.functions)?;
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
        side_file: carried.side.as_ref().map(|side| side.display().to_string()),
        file_bytes: carried.file_size,
        carried_bytes: 0,
        units: Vec::new(),
        functions: Vec::new(),
        native: Vec::new(),
        remarks: recipe.map(|recipe| recipe.remarks.clone()).unwrap_or_default(),
    };
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
    }
    for input in recipe.into_iter().flat_map(|recipe| &recipe.inputs) {
        let mut note = |path: String, kind: &InputKind| {
            if let InputKind::Native { why, .. } = kind {
                document.native.push(NativeRow { path, why: why.clone() });
            }
        };
        let path = input.path.display().to_string();
        if let InputKind::Archive(members) = &input.kind {
            members
                .iter()
                .for_each(|member| note(format!("{path}({})", member.name), &member.kind));
        } else {
            note(path, &input.kind);
        }
    }
    Ok(document)
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
        file: location.map(|location| model.files[location.file].clone()),
        line: location.map(|location| location.line),
        blocks: data.blocks.len(),
        edges: data.control_flow().edge_count(),
        acyclic_paths: paths.lower_bound().to_string(),
        instrumented,
    }
}

/// How the paths of a function would be counted.
fn plan_paths(model: &Unit, function: Func) -> Result<PathPlan, LeftOut> {
    if let Some(why) = block_log::left_out(model, function) {
        return Err(why);
    }
    let plan = PathPlan::new(model, function, DEFAULT_LIMIT, None)?;
    plan.probes(&plan.weights(model, function, None), 0)?;
    Ok(plan)
}

fn print(out: &mut impl Write, document: &Document, functions: bool) -> io::Result<()> {
    let share = 100.0 * document.carried_bytes as f64 / document.file_bytes.max(1) as f64;
    writeln!(out, "{}  {}", bold(&document.program), document.kind)?;
    writeln!(out, "  build id   {}", document.build_id)?;
    if let (Some(scheme), Some(from)) = (&document.variant, &document.derived_from) {
        writeln!(out, "  variant    {scheme}, derived from build id {from}")?;
    }
    if let Some(side) = &document.side_file {
        writeln!(out, "  side file  {side}")?;
    }
    writeln!(
        out,
        "  carries    {} in {} units, {share:.0} % of the file's {}",
        size(document.carried_bytes),
        document.units.len(),
        size(document.file_bytes),
    )?;
    let total =
        |count: fn(&FunctionRow) -> usize| document.functions.iter().map(count).sum::<usize>();
    let ways = |way: &str| {
        document.functions.iter().filter(|row| row.instrumented.starts_with(way)).count()
    };
    writeln!(
        out,
        "  program    {} functions, {} blocks, {} edges",
        number(document.functions.len() as u64),
        number(total(|row| row.blocks) as u64),
        number(total(|row| row.edges) as u64),
    )?;
    writeln!(
        out,
        "  functions  {} whole, {} cut (over {} acyclic paths), {} not instrumented",
        ways("whole"),
        ways("cut"),
        number(DEFAULT_LIMIT),
        ways("no"),
    )?;
    if !document.relinkable && document.variant.is_none() {
        writeln!(out, "  link       no recipe: variants cannot be derived from this file")?;
    }
    for remark in &document.remarks {
        writeln!(out, "  remark     {remark}")?;
    }

    writeln!(out, "\n{}", bold("Units"))?;
    let head = ["unit", "language", "functions", "blocks", "edges", "bitcode", "model", "carried"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(document.units.iter().map(|unit| {
        vec![
            unit.name.clone(),
            unit.language.clone(),
            number(unit.functions as u64),
            number(unit.blocks as u64),
            number(unit.edges as u64),
            size(unit.bitcode_bytes as u64),
            size(unit.model_bytes as u64),
            unit.carried.clone(),
        ]
    }));
    write!(out, "{}", table(&rows, &[2, 3, 4, 5, 6]))?;

    if !document.native.is_empty() {
        writeln!(out, "\n{}", bold("Linked as they are"))?;
        let rows: Vec<_> =
            document.native.iter().map(|row| vec![row.path.clone(), row.why.clone()]).collect();
        write!(out, "{}", table(&rows, &[]))?;
    }
    print_functions(out, document, functions)
}

/// All functions, or those that are not instrumented whole.
fn print_functions(out: &mut impl Write, document: &Document, all: bool) -> io::Result<()> {
    let listed: Vec<_> =
        document.functions.iter().filter(|row| all || row.instrumented != "whole").collect();
    if listed.is_empty() {
        return Ok(());
    }
    let title = if all { "Functions" } else { "Functions not instrumented whole" };
    writeln!(out, "\n{}", bold(title))?;
    let head = ["function", "where", "blocks", "edges", "acyclic paths", "instrumented"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(listed.iter().map(|row| {
        let place = match (&row.file, row.line) {
            (Some(file), Some(line)) => format!("{}:{line}", short_path(file)),
            _ => row.unit.clone(),
        };
        let paths = row.acyclic_paths.parse::<u128>().unwrap_or(u128::MAX);
        let paths =
            if paths >= 1_000_000_000 { format!("{:.1e}", paths as f64) } else { number(paths) };
        vec![
            row.demangled.clone(),
            place,
            number(row.blocks as u64),
            number(row.edges as u64),
            paths,
            row.instrumented.clone(),
        ]
    }));
    write!(out, "{}", table(&rows, &[2, 3, 4]))?;
    if !all {
        writeln!(out, "{}", dim("  (--functions lists all)"))?;
    }
    Ok(())
}

/// The last parts of a path, enough to recognise it.
fn short_path(path: &str) -> &str {
    let cut = path.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    &path[cut..]
}
