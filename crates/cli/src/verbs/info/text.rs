//! What an executable carries, as text.
//!
//! Of functions the few are listed unasked that are not instrumented whole and have the
//! most paths; `--functions` lists every one. Lists end with the screen, if there is one.

use std::cmp::Reverse;
use std::io::{self, Write};

use backtrail_foreign::text::shown;
use backtrail_profile::unit_plan::DEFAULT_LIMIT;
use backtrail_report::name::{Names, shortened};
use backtrail_report::terminal::{short_path, width};

use super::unlisted::{Unlisted, UnlistedRow};
use super::{Document, FunctionRow};
use crate::args::Info;
use crate::style::{
    Detail, Style, bold, counted, demangle, detail, dim, extent, number, size, table, terminal,
};

/// How many functions are shown unasked.
const MOST: usize = 10;

/// Prints all of it.
pub fn print(out: &mut impl Write, document: &Document, args: &Info) -> io::Result<()> {
    head(out, document)?;
    let mut text = Text { out, args, style: terminal() };
    let head = ["unit", "language", "functions", "blocks", "edges", "bitcode", "model", "carried"];
    let rows = document.units.iter().map(|unit| {
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
    });
    text.list("Units", Some(&head), rows.collect(), &[2, 3, 4, 5, 6])?;
    let rows = document.libraries.iter().map(|library| {
        let what = match library.carried.as_str() {
            "yes" => format!(
                "{}, {}",
                counted(library.units as u64, "unit"),
                counted(library.functions as u64, "function")
            ),
            why => why.trim_start_matches("no: ").to_owned(),
        };
        vec![library.name.clone(), what, library.path.clone().unwrap_or_default()]
    });
    text.list("Libraries that are not the system's", None, rows.collect(), &[])?;
    let of_libraries = document.libraries.iter().flat_map(|library| {
        library
            .native
            .iter()
            .map(|row| vec![row.path.clone(), format!("{}, into {}", row.why, library.name)])
    });
    let rows = document.native.iter().map(|row| vec![row.path.clone(), row.why.clone()]);
    text.list("Linked as they are", None, rows.chain(of_libraries).collect(), &[])?;
    text.unlisted(&document.unlisted)?;
    text.functions(document)
}

fn head(out: &mut impl Write, document: &Document) -> io::Result<()> {
    let share = 100.0 * document.carried_bytes as f64 / document.file_bytes.max(1) as f64;
    writeln!(out, "{}  {}", bold(&document.program), document.kind)?;
    writeln!(out, "  build id   {}", document.build_id)?;
    if let (Some(scheme), Some(from)) = (&document.variant, &document.derived_from) {
        let id = document.variant_id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
        writeln!(out, "  variant    {}{id}, derived from build id {from}", shown(scheme))?;
    }
    if let Some(side) = &document.side_file {
        writeln!(out, "  side file  {}", shown(side))?;
    }
    writeln!(
        out,
        "  carries    {} in {}, {share:.0} % of the file's {}",
        size(document.carried_bytes),
        counted(document.units.len() as u64, "unit"),
        size(document.file_bytes),
    )?;
    let linked = || document.functions.iter().filter(|row| row.linked);
    let total = |count: fn(&FunctionRow) -> usize| linked().map(count).sum::<usize>() as u64;
    let ways = |way: &str| {
        let rows = linked().filter(|row| row.instrumented.starts_with(way));
        number(rows.count() as u64)
    };
    let copies = match document.functions.len() - linked().count() {
        0 => String::new(),
        1 => "; 1 of another unit's was not linked".to_owned(),
        count => format!("; {} of other units' were not linked", number(count as u64)),
    };
    writeln!(
        out,
        "  program    {}, {}, {}{copies}",
        counted(linked().count() as u64, "function"),
        counted(total(|row| row.blocks), "block"),
        counted(total(|row| row.edges), "edge"),
    )?;
    writeln!(
        out,
        "  functions  {} whole, {} cut (to {} paths at most), {} not instrumented",
        ways("whole"),
        ways("cut"),
        number(DEFAULT_LIMIT),
        ways("no"),
    )?;
    if !document.relinkable && document.variant.is_none() {
        writeln!(out, "  link       no recipe: variants cannot be derived from this file")?;
    }
    for remark in &document.remarks {
        writeln!(out, "  remark     {}", shown(remark))?;
    }
    Ok(())
}

fn is_notable(row: &FunctionRow) -> bool {
    row.linked && row.instrumented != "whole"
}

struct Text<'a, W> {
    out: &'a mut W,
    args: &'a Info,
    style: Style,
}

impl<W: Write> Text<'_, W> {
    /// A list, as much of it as is shown; nothing, if it is empty.
    fn list(
        &mut self,
        title: &str,
        head: Option<&[&str]>,
        mut rows: Vec<Vec<String>>,
        right: &[usize],
    ) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "\n{}", bold(title))?;
        let listed = self.style.listed(rows.len(), extent(self.args.all));
        let more = rows.len() - listed;
        rows.truncate(listed);
        if let Some(head) = head {
            rows.insert(0, head.iter().map(|cell| (*cell).to_owned()).collect());
        }
        write!(self.out, "{}", table(&rows, right))?;
        self.more(more, "--all")
    }

    fn more(&mut self, more: usize, option: &str) -> io::Result<()> {
        if more > 0 {
            let more = format!("  … {} more ({option})", number(more as u64));
            writeln!(self.out, "{}", dim(&more))?;
        }
        Ok(())
    }

    fn unlisted(&mut self, unlisted: &Unlisted) -> io::Result<()> {
        if unlisted.functions.is_empty() {
            return Ok(());
        }
        let plain: Vec<String> = unlisted.functions.iter().map(|it| demangle(&it.name)).collect();
        let functions = || unlisted.functions.iter().zip(&plain);
        let names = functions().map(|(row, plain)| (&*row.name, &**plain));
        let names = Names::new(names, detail(self.args.full));
        let room = match detail(self.args.full) {
            Detail::Short => self.style.room(9, 24),
            Detail::Full => usize::MAX,
        };
        let row = |(row, plain): (&UnlistedRow, &String)| {
            let name = shortened(&shown(&names.of(&row.name, plain)), room);
            vec![number(row.calls as u64), name]
        };
        let mut rows: Vec<_> = functions().map(row).collect();
        let excerpt = if self.args.functions { rows.len() } else { MOST.min(rows.len()) };
        let more = rows.len() - excerpt;
        rows.truncate(excerpt);
        let title = "Library functions of which nothing is known";
        self.list(title, Some(&["calls", "function"]), rows, &[0])?;
        self.more(more, "--functions lists all")?;
        let reach = counted(unlisted.reach as u64, "function");
        let why =
            format!("  (for traces and autopsies, each may call {reach}, jump, and end it all)");
        writeln!(self.out, "{}", dim(&why))
    }

    /// All functions, or those that are not instrumented whole and have the most paths.
    fn functions(&mut self, document: &Document) -> io::Result<()> {
        let all = self.args.functions;
        let mut listed: Vec<&FunctionRow> =
            document.functions.iter().filter(|row| all || is_notable(row)).collect();
        let paths = |row: &FunctionRow| row.acyclic_paths.parse().unwrap_or(u128::MAX);
        let mut more = 0;
        if !all {
            listed.sort_by_key(|row| Reverse(paths(row)));
            more = listed.len().saturating_sub(MOST);
            listed.truncate(MOST);
        }
        let names = listed.iter().map(|row| (&*row.name, &*row.demangled));
        let names = Names::new(names, detail(self.args.full));
        let head = ["blocks", "edges", "acyclic paths", "instrumented", "where", "function"];
        let mut rows: Vec<Vec<String>> = Vec::new();
        for row in &listed {
            let place = match (&row.file, row.line) {
                (Some(file), Some(line)) => format!("{}:{line}", short_path(file)),
                _ => row.unit.clone(),
            };
            let paths = match paths(row) {
                paths if paths >= 1_000_000_000 => format!("{:.1e}", paths as f64),
                paths => number(paths),
            };
            let (blocks, edges) = (number(row.blocks as u64), number(row.edges as u64));
            let instrumented =
                if row.linked { row.instrumented.clone() } else { "not linked".to_owned() };
            rows.push(vec![blocks, edges, paths, instrumented, place, String::new()]);
        }
        // Names have what the rest leaves.
        let mut without = rows.clone();
        without.push(head.map(str::to_owned).to_vec());
        let taken = table(&without, &[]).lines().map(width).max().unwrap_or(0);
        let room = match detail(self.args.full) {
            Detail::Short => self.style.room(taken - width("function"), 12),
            Detail::Full => usize::MAX,
        };
        for (cells, row) in rows.iter_mut().zip(&listed) {
            let name = shown(&names.of(&row.name, &row.demangled));
            cells[5] = shortened(&name, room);
        }
        let title = if all { "Functions" } else { "Functions not instrumented whole" };
        let is_empty = rows.is_empty();
        self.list(title, Some(&head), rows, &[0, 1, 2])?;
        match more {
            0 if !all && !is_empty => writeln!(self.out, "{}", dim("  (--functions lists all)")),
            _ => self.more(more, "--functions lists all"),
        }
    }
}
