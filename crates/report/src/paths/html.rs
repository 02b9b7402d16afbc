//! A path profile as one page that needs nothing else.
//!
//! Without scripts it is two tables: the functions that ran, and the hottest
//! paths. A script adds what needs choosing: the paths of one function, and the
//! source with the lines of one path. Its data is in the page, as JSON; so are
//! the sources, as far as they were found, and only around functions that ran.
//!
//! Sources, names and messages come from elsewhere: whatever gets into the page
//! is escaped, as text or as JSON in which no `<` is left.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::chain::{self, compute_items};
use super::{End, Function, Measure, Path, Program, Ran, Start, Totals};
use crate::html::{escape, escape_json};
use crate::name::Names;
use crate::terminal::{Detail, counted, number, percent, short_number, short_path};

/// What is in the page.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// At most so many paths.
    pub top: usize,
    /// What paths are sorted by.
    pub measure: Measure,
    /// How much is shown of each path.
    pub detail: Detail,
}

const CSS: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Paths in the table that is there without scripts.
const STATIC_PATHS: usize = 200;

/// Lines around a line that is not in a function's own range.
const CONTEXT: u32 = 3;

/// Numbers up to here are exact in a script.
const EXACT: u64 = 1 << 53;

/// The whole page.
pub fn render(program: &Program, options: &Options, wanted: impl Fn(&Function) -> bool) -> String {
    let wanted = |function: &Function| function.ran() && wanted(function);
    let mut functions: Vec<usize> =
        (0..program.functions.len()).filter(|&f| wanted(&program.functions[f])).collect();
    let measure = |function: &Function| match options.measure {
        Measure::Blocks => function.weight(),
        Measure::Executions => function.executions(),
    };
    functions.sort_by_key(|&f| std::cmp::Reverse(measure(&program.functions[f])));
    let mut paths = program.hottest(options.measure, wanted);
    paths.truncate(options.top);
    let shown = functions.iter().map(|&f| &program.functions[f]);
    let names = shown.map(|function| (&*function.name, &*function.demangled));
    let names = Names::new(names, Detail::Short);
    let page = Page { program, options, names, totals: program.totals(), functions, paths };
    page.render()
}

struct Page<'a> {
    program: &'a Program,
    options: &'a Options,
    names: Names,
    totals: Totals,
    /// By their numbers in the program, the hottest first.
    functions: Vec<usize>,
    /// Functions and paths by number, the hottest first.
    paths: Vec<(usize, usize)>,
}

impl Page<'_> {
    fn render(&self) -> String {
        let title = escape(&self.program.program);
        let by = self.by();
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}: paths</title>\n<style>\n{CSS}</style>\n<body>\n"
        );
        self.head(&mut out);
        let _ = write!(
            out,
            "<main>\n<section>\n<h2>Functions <span>{} that ran</span></h2>\n\
             <input id=\"find\" type=\"search\" placeholder=\"find a function\" hidden>\n",
            number(self.functions.len() as u64)
        );
        self.functions(&mut out);
        let _ = write!(
            out,
            "</section>\n<section>\n<h2 id=\"paths-title\">Hottest paths <span>share of all {by}</span></h2>\n\
             <div id=\"list\">\n"
        );
        for &(function, path) in self.paths.iter().take(STATIC_PATHS) {
            self.path(&mut out, &self.program.functions[function], path);
        }
        out.push_str(
            "</div>\n<div class=\"legend\">▶ entry  ■ exit  ↻ loop's head  ↩ back to it  ✂ cut  \
             ✕ call that does not return; T, F: the condition that the \
             compiler tests holds or does not (optimised code may test the opposite of what is \
             written); =value: the case</div>\n\
             </section>\n<section>\n<h2 id=\"source-title\">Source</h2>\n\
             <div id=\"source\" class=\"source\"><div class=\"none\">Sources beside paths need \
             JavaScript; the tables do not.</div></div>\n</section>\n</main>\n",
        );
        let data = escape_json(&self.data());
        let _ = writeln!(
            out,
            "<script id=\"data\" type=\"application/json\">{data}</script>\n\
             <script>\n{SCRIPT}</script>\n</body>\n</html>"
        );
        out
    }

    fn by(&self) -> &'static str {
        match self.options.measure {
            Measure::Blocks => "executed blocks",
            Measure::Executions => "executions",
        }
    }

    fn head(&self, out: &mut String) {
        let program = self.program;
        let build = if program.build_id.is_empty() { "none" } else { &program.build_id };
        let _ = writeln!(
            out,
            "<header>\n<h1>{} <small class=\"mono\">build id {}</small></h1>",
            escape(&program.program),
            escape(build),
        );
        let unfinished =
            program.functions.iter().fold(0u64, |sum, f| sum.saturating_add(f.unfinished));
        let inexact = program.functions.iter().filter(|function| !function.edges_exact).count();
        let has_heirs = program.functions.iter().any(|function| !function.activations_exact);
        let _ = write!(
            out,
            "<p><b>{}</b> executed in <b>{}</b>, {} · unfinished activations: <b>{}{}</b> · ",
            counted(self.totals.weight, "block"),
            counted(self.totals.executions, "path execution"),
            counted(program.processes, "process"),
            number(unfinished),
            if has_heirs { " or more" } else { "" },
        );
        if inexact == 0 {
            out.push_str("line counts are exact");
        } else {
            let _ = write!(
                out,
                "line counts are lower bounds in {}",
                counted(inexact as u64, "function")
            );
        }
        if program.incomplete.is_empty() {
            out.push_str(" · incomplete: <b>no</b></p>\n");
        } else {
            out.push_str("</p>\n");
            for why in &program.incomplete {
                let _ =
                    writeln!(out, "<p><span class=\"warn\">incomplete: {}</span></p>", escape(why));
            }
        }
        if let Some(signals) = program.ended_by() {
            let _ = writeln!(out, "<p>ended by {}</p>", escape(&signals));
        }
        program.merged.iter().for_each(|it| out.push_str(&it.html()));
        let of = |ran: Ran| program.functions.iter().filter(|it| it.ran == ran).count() as u64;
        let all: usize = self.functions.iter().map(|&f| program.functions[f].paths.len()).sum();
        let mut notes = Vec::new();
        for (ran, what) in [
            (Ran::Inlined, "ran only where inlined"),
            (Ran::No, "did not run"),
            (Ran::Unknown, "of which it is not known whether it ran"),
        ] {
            if let count @ 1.. = of(ran) {
                notes.push(format!("{} {what}", counted(count, "function")));
            }
        }
        if all > self.paths.len() {
            let [shown, all] = [self.paths.len(), all].map(|paths| number(paths as u64));
            notes.push(format!("the {shown} hottest of {all} paths are in this page"));
        }
        if !notes.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", notes.join(" · "));
        }
        out.push_str("</header>\n");
    }

    fn name(&self, function: &Function) -> String {
        self.names.of(&function.name, &function.demangled)
    }

    fn place(&self, function: &Function) -> String {
        match function.place {
            Some(place) => {
                let file = &self.program.files[place.file as usize].path;
                format!("{}:{}", short_path(file), place.line)
            }
            None => short_path(&function.unit).to_owned(),
        }
    }

    fn measure(&self, function: &Function) -> u64 {
        match self.options.measure {
            Measure::Blocks => function.weight(),
            Measure::Executions => function.executions(),
        }
    }

    fn total(&self) -> u64 {
        match self.options.measure {
            Measure::Blocks => self.totals.weight,
            Measure::Executions => self.totals.executions,
        }
    }

    fn functions(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "<table id=\"functions\"><thead><tr><th data-kind=\"n\" aria-sort=\"descending\" \
             title=\"share of all {}\">share</th><th>function</th>\
             <th class=\"n\" data-kind=\"n\" title=\"how often it was entered\">entries</th>\
             <th class=\"n\" data-kind=\"n\" title=\"paths taken of acyclic paths\">paths</th>\
             </tr></thead><tbody>",
            self.by()
        );
        for (place, &index) in self.functions.iter().enumerate() {
            let function = &self.program.functions[index];
            let share = 100.0 * self.measure(function) as f64 / self.total().max(1) as f64;
            let how = match function.instrumented.as_str() {
                "whole" => String::new(),
                other => format!(" · {}", escape(other)),
            };
            let inexact = match (function.edges_exact, function.unfinished) {
                (true, _) => String::new(),
                (false, unfinished) => {
                    format!(" · <b>{} unfinished, lines inexact</b>", number(unfinished))
                }
            };
            let cell =
                |value: u64| format!("<td class=\"n\" data-v=\"{value}\">{}</td>", number(value));
            let at_least = if function.acyclic_paths_exact { "" } else { "≥" };
            let _ = writeln!(
                out,
                "<tr data-f=\"{place}\"><td class=\"share\" data-v=\"{share}\">{}<div class=\"meter\" \
                 style=\"width:{share:.2}%\"></div></td><td class=\"name\" title=\"{}\">{}<small>{}{how}{inexact}\
                 </small></td>{}<td class=\"n\" data-v=\"{}\">{}<small>of {at_least}{}</small></td></tr>",
                percent(self.measure(function), self.total()),
                escape(&function.demangled),
                escape(&self.name(function)),
                escape(&self.place(function)),
                cell(function.entries),
                function.paths.len(),
                number(function.paths.len() as u64),
                short_number(function.acyclic_paths),
            );
        }
        out.push_str("</tbody></table>\n");
    }

    fn path(&self, out: &mut String, function: &Function, path: usize) {
        let path = &function.paths[path];
        let measure = self.options.measure.of(path);
        let share = 100.0 * measure as f64 / self.total().max(1) as f64;
        let _ = writeln!(
            out,
            "<div class=\"path\"><div class=\"top\"><b>{}</b><span class=\"who\">{}</span>\
             <span class=\"count\">{} × {}</span></div><div class=\"meter\" \
             style=\"width:{share:.2}%\"></div><div class=\"chain\">{}</div></div>",
            percent(measure, self.total()),
            escape(&self.name(function)),
            number(path.count),
            counted(path.blocks.len() as u64, "block"),
            escape(&chain::words(self.program, function, path, self.options.detail).join(" ")),
        );
    }

    /// What the script works on.
    fn data(&self) -> Value {
        let mut numbers = BTreeMap::new();
        for (place, &function) in self.functions.iter().enumerate() {
            numbers.insert(function, place);
        }
        let functions: Vec<Value> = self
            .functions
            .iter()
            .map(|&number| self.function_data(&self.program.functions[number]))
            .collect();
        let paths: Vec<Value> = self
            .paths
            .iter()
            .map(|&(function, path)| {
                let data = &self.program.functions[function];
                self.path_data(numbers[&function], data, &data.paths[path])
            })
            .collect();
        json!({
            "by": self.by(),
            "total": exact(self.total()),
            "files": self.sources(),
            "functions": functions,
            "paths": paths,
        })
    }

    fn function_data(&self, function: &Function) -> Value {
        let at_least = if function.acyclic_paths_exact { "" } else { "≥" };
        let range = own_range(function).unwrap_or((0, 0, 0));
        json!({
            "name": self.name(function),
            "full": function.demangled,
            "place": self.place(function),
            "file": function.place.map(|place| place.file),
            "range": [range.0, range.1, range.2],
            "entries": exact(function.entries),
            "inherited": exact(function.inherited),
            "unfinished": exact(function.unfinished),
            "exact": function.edges_exact,
            "instrumented": function.instrumented,
            "measure": exact(self.measure(function)),
            "taken": function.paths.len(),
            "possible": format!("{at_least}{}", short_number(function.acyclic_paths)),
            "lines": function
                .lines
                .iter()
                .map(|&(place, count)| json!([place.file, place.line, count.map(exact)]))
                .collect::<Vec<_>>(),
        })
    }

    fn path_data(&self, place: usize, function: &Function, path: &Path) -> Value {
        let items: Vec<Value> = compute_items(function, path, self.options.detail)
            .iter()
            .map(|item| {
                let decisions = chain::decisions(item);
                match item.place {
                    Some(place) => json!([place.file, place.line, decisions, place.scope]),
                    None => json!([-1, 0, decisions]),
                }
            })
            .collect();
        let from = match path.starts {
            Start::Entry => "entry",
            Start::Loop => "loop",
            Start::Cut | Start::CutWithin => "cut",
            Start::ReturnTwice => "second return",
        };
        let to = match path.ends {
            End::Exit => "exit",
            End::Loop(_) => "loop",
            End::Cut(_) | End::CutWithin => "cut",
            End::Call => "no return",
        };
        json!({
            "f": place,
            "count": exact(path.count),
            "measure": exact(self.options.measure.of(path)),
            "blocks": path.blocks.len(),
            "about": format!("{from} → {to}"),
            "start": chain::start_sign(path.starts),
            "end": chain::end_sign(self.program, function, path, self.options.detail),
            "items": items,
        })
    }

    /// The parts of the sources that are shown.
    fn sources(&self) -> Vec<Value> {
        let mut wanted: Vec<Vec<(u32, u32)>> = vec![Vec::new(); self.program.files.len()];
        for &number in &self.functions {
            let function = &self.program.functions[number];
            if let Some((file, first, last)) = own_range(function) {
                wanted[file as usize].push((first, last));
            }
            for &(place, _) in &function.lines {
                let around =
                    (place.line.saturating_sub(CONTEXT).max(1), place.line.saturating_add(CONTEXT));
                wanted[place.file as usize].push(around);
            }
        }
        let file = |(file, mut wanted): (&super::SourceFile, Vec<(u32, u32)>)| {
            let mut parts: Vec<Value> = Vec::new();
            if let Some(lines) = &file.lines {
                wanted.sort_unstable();
                let mut merged: Vec<(u32, u32)> = Vec::new();
                for (first, last) in wanted {
                    match merged.last_mut() {
                        Some(before) if first <= before.1.saturating_add(1) => {
                            before.1 = before.1.max(last);
                        }
                        _ => merged.push((first, last)),
                    }
                }
                for (first, last) in merged {
                    let first = first.max(1);
                    let end = (last as usize).min(lines.len());
                    if let Some(part) = lines.get(first as usize - 1..end) {
                        parts.push(json!([first, part]));
                    }
                }
            }
            json!({ "path": file.path, "source": parts })
        };
        self.program.files.iter().zip(wanted).map(file).collect()
    }
}

/// The file and the lines from a function's definition to the last of its own
/// lines.
fn own_range(function: &Function) -> Option<(u32, u32, u32)> {
    let place = function.place?;
    let own =
        function.blocks.iter().flatten().map(|place| place.line).filter(|line| {
            line.file == place.file && line.scope.is_none() && line.line >= place.line
        });
    let last = own.map(|line| line.line).max().unwrap_or(place.line);
    Some((place.file, place.line.saturating_sub(1).max(1), last.saturating_add(1)))
}

/// A number a script can read without rounding it, or its digits.
fn exact(value: u64) -> Value {
    if value <= EXACT { json!(value) } else { json!(value.to_string()) }
}
