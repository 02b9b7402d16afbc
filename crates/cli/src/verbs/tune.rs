//! `backtrail tune`: switches what functions of a shipped executable record.

use std::io::Write as _;

use anyhow::Context as _;
use backtrail_build::in_place::InPlace;
use backtrail_build::output;
use backtrail_build::tuning::{Function, Tuned};
use backtrail_foreign::say;
use backtrail_machine::elf::Elf;
use backtrail_machine::image::build_id_text;
use serde::Serialize;

use crate::args::tune::{Setting, Tune};
use crate::exit::Usage;
use crate::json::write_document;
use crate::named::Named;
use crate::stdout::{self, Form};
use crate::style::{counted, demangle, dim, extent, number, table, terminal};

/// How many functions are named in a message.
const MOST_NAMED: usize = 5;

/// Runs the verb.
pub fn run(args: &Tune, quiet: bool) -> anyhow::Result<u8> {
    let changes = args.undo || !args.set.is_empty();
    if args.output.is_some() && !changes {
        anyhow::bail!(Usage("-o is for what --set or --undo changes".to_owned()));
    }
    let in_place = changes && args.output.is_none();
    let in_place = in_place.then(|| InPlace::begin(&args.program)).transpose()?;
    let mut tuned = Tuned::read(&args.program)?;
    if changes {
        let before: Vec<usize> = tuned.functions().iter().map(|it| it.on).collect();
        if args.undo {
            for place in 0..before.len() {
                tuned.switch(place, 0)?;
            }
        }
        let mut notes = set(&mut tuned, args)?;
        let now = tuned.functions().iter().map(|it| it.on);
        let switched = before.iter().zip(now).filter(|(before, now)| *before != now).count();
        if let Some(path) = &args.output {
            output::write_like(path, tuned.bytes(), &args.program)?;
        }
        if let Some(in_place) = in_place.filter(|_| switched > 0) {
            notes.extend(in_place.replace(tuned.bytes())?);
        }
        if !quiet {
            notes.iter().for_each(|note| say!("{note}"));
            let path = args.output.as_ref().unwrap_or(&args.program);
            let all = counted(before.len() as u64, "function");
            say!("{}: {switched} of {all} switched", path.display());
        }
    }
    if args.list || !changes {
        match args.json {
            true => write_json(args, &tuned)?,
            false => write_list(args, &tuned)?,
        }
    }
    Ok(0)
}

/// Switches what `--set` says; gives what there is to say of it.
fn set(tuned: &mut Tuned, args: &Tune) -> anyhow::Result<Vec<String>> {
    let mut notes = Vec::new();
    for Setting { glob, scheme } in &args.set {
        let named = Named::by(glob);
        let (mut found, mut without) = (Vec::new(), Vec::new());
        for (place, function) in tuned.functions().iter().enumerate() {
            let name = &function.tunable.name;
            if !named.has(name) {
                continue;
            }
            match function.tunable.variants.iter().position(|it| it.scheme == *scheme) {
                Some(variant) => found.push((place, variant)),
                None => without.push(format!("{} ({})", demangle(name), carried(function))),
            }
        }
        let glob = glob.glob();
        let count = without.len();
        let some = without.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
        let some = format!("{some}{}", if count > MOST_NAMED { ", …" } else { "" });
        if found.is_empty() && count > 0 {
            anyhow::bail!(Usage(format!("nothing that {glob} matches carries {scheme}: {some}")));
        }
        if found.is_empty() {
            let names = tuned.functions().iter().map(|it| &*it.tunable.name);
            let whole = format!("{} that can be switched", args.program.display());
            named.check(whole, names)?;
            let why = format!("{} has no function that can be switched", args.program.display());
            anyhow::bail!(Usage(why));
        }
        for (place, variant) in found {
            tuned.switch(place, variant)?;
        }
        if count > 0 {
            notes.push(format!("as they were, since they do not carry {scheme}: {some}"));
        }
    }
    Ok(notes)
}

/// The variants of a function, as people write them.
fn carried(function: &Function) -> String {
    let variants = function.tunable.variants.iter().map(|it| it.scheme.as_str());
    variants.collect::<Vec<_>>().join(", ")
}

fn on(function: &Function) -> &str {
    &function.tunable.variants[function.on].scheme
}

fn write_list(args: &Tune, tuned: &Tuned) -> anyhow::Result<()> {
    let listed = terminal().listed(tuned.functions().len(), extent(args.all));
    let heading = ["on", "carries", "unit", "function"].map(str::to_owned).to_vec();
    let mut rows = vec![heading];
    for function in &tuned.functions()[..listed] {
        let mark = if function.on == 0 { "" } else { " *" };
        rows.push(vec![
            format!("{}{mark}", on(function)),
            carried(function),
            function.tunable.unit.clone(),
            demangle(&function.tunable.name),
        ]);
    }
    let mut out = stdout::open(Form::Text);
    write!(out, "{}", table(&rows, &[]))?;
    let more = tuned.functions().len() - listed;
    if more > 0 {
        writeln!(out, "{}", dim(&format!("  … {} more (--all)", number(more as u64))))?;
    }
    let note = "* is not what it was derived with. Where a function was inlined, its code is its \
                caller's and is switched with that.";
    writeln!(out, "{}", dim(note))?;
    out.flush()?;
    Ok(())
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    program: String,
    build_id: String,
    functions: Vec<Listed<'a>>,
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    demangled: String,
    unit: &'a str,
    on: &'a str,
    derived: &'a str,
    carries: Vec<&'a str>,
}

fn write_json(args: &Tune, tuned: &Tuned) -> anyhow::Result<()> {
    let build_id = Elf::parse(tuned.bytes()).and_then(|elf| elf.build_id());
    let build_id = build_id.context("its build id cannot be read")?.unwrap_or_default();
    let functions = tuned.functions().iter().map(|function| {
        let carries: Vec<&str> =
            function.tunable.variants.iter().map(|it| it.scheme.as_str()).collect();
        Listed {
            name: &function.tunable.name,
            demangled: demangle(&function.tunable.name),
            unit: &function.tunable.unit,
            on: on(function),
            derived: carries.first().copied().unwrap_or_default(),
            carries,
        }
    });
    let path = args.output.as_ref().unwrap_or(&args.program);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let document = Document {
        schema: "backtrail.tune/1",
        program: name,
        build_id: build_id_text(&build_id),
        functions: functions.collect(),
    };
    let mut out = stdout::open(Form::Document);
    write_document(&mut out, &document)?;
    out.flush()?;
    Ok(())
}
