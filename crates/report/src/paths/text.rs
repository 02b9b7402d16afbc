//! A path profile on a terminal: what was counted, the hottest paths with their
//! lines, the functions.

use std::fmt::Write as _;

use super::chain::{self, Item};
use super::{Function, Measure, Path, Program, Totals};
use crate::name::compact;
use crate::terminal::{
    Style, counted, file_name, harmless, number, percent, short_number, short_path, shorten, table,
};

/// What is shown.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// At most so many paths, and twice as many functions.
    pub top: usize,
    /// What paths are sorted by.
    pub measure: Measure,
    /// Whether long paths are shown from beginning to end.
    pub full: bool,
    /// How it looks.
    pub style: Style,
}

/// Lines of source that are shown of a path, unless all are.
const LISTED: usize = 12;

/// What stands before everything that is said about a path.
const INDENT: &str = "               ";

/// Rows of a chain, unless all are.
const ROWS: usize = 3;

const LEGEND: [&str; 2] = [
    "  ▶ entry  ■ exit  ↻ loop's head  ↩ back to it  ✂ cut  ✕ call that does not return",
    "  T F  the compiled condition holds or not (it may be the opposite of the written one)",
];

/// The whole text.
pub fn render(program: &Program, options: &Options, wanted: impl Fn(&Function) -> bool) -> String {
    let mut text = Text { program, options, totals: program.totals(), out: String::new() };
    text.head();
    let hottest = program.hottest(options.measure, &wanted);
    text.paths(&hottest);
    let functions: Vec<&Function> =
        program.functions.iter().filter(|function| wanted(function)).collect();
    text.functions(functions);
    text.out
}

struct Text<'a> {
    program: &'a Program,
    options: &'a Options,
    totals: Totals,
    out: String,
}

impl Text<'_> {
    fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn head(&mut self) {
        let style = self.options.style;
        let program = self.program;
        let build = if program.build_id.is_empty() { "none" } else { &program.build_id };
        let title = format!(
            "{}  build id {build}, {}",
            style.bold(&harmless(&program.program)),
            counted_plural(program.processes, "process", "processes"),
        );
        self.line(&title);
        if program.incomplete.is_empty() {
            self.line("  incomplete  no");
        }
        for why in &program.incomplete {
            let why = style.warning(&format!("yes: {}", harmless(why)));
            self.line(&format!("  incomplete  {why}"));
        }
        let functions = &program.functions;
        let of = |test: &dyn Fn(&Function) -> bool| {
            functions.iter().filter(|function| test(function)).count() as u64
        };
        let paths: usize = functions.iter().map(|function| function.paths.len()).sum();
        self.line(&format!(
            "  executed    {}, in {} of {}",
            counted(self.totals.weight, "block"),
            counted(self.totals.executions, "execution"),
            counted(paths as u64, "path"),
        ));
        self.line(&format!(
            "  functions   {} of {} ran; {} whole, {} cut, {} not instrumented",
            number(of(&Function::ran)),
            number(functions.len() as u64),
            number(of(&|function| function.instrumented == "whole")),
            number(of(&|function| function.instrumented == "cut")),
            number(of(&|function| function.instrumented.starts_with("no"))),
        ));
        let unfinished: u64 =
            functions.iter().fold(0, |sum, function| sum.saturating_add(function.unfinished));
        let inexact = of(&|function| !function.edges_exact);
        let unfinished = if unfinished == 0 {
            "no activation".to_owned()
        } else {
            style.warning(&counted(unfinished, "activation"))
        };
        let exact = if inexact == 0 {
            "counts of edges and lines are exact".to_owned()
        } else {
            format!("in {}, edges and lines are lower bounds", counted(inexact, "function"))
        };
        self.line(&format!("  unfinished  {unfinished}; {exact}"));
    }

    fn paths(&mut self, hottest: &[(usize, usize)]) {
        let style = self.options.style;
        let by = match self.options.measure {
            Measure::Blocks => "executed blocks",
            Measure::Executions => "executions",
        };
        self.line("");
        if hottest.is_empty() {
            self.line("No path was taken.");
            return;
        }
        self.line(&style.bold(&format!("Hottest paths, by {by}")));
        for (rank, &(function, path)) in hottest.iter().take(self.options.top).enumerate() {
            let function = &self.program.functions[function];
            self.path(rank + 1, function, &function.paths[path]);
        }
        let rest = hottest.len().saturating_sub(self.options.top);
        if rest > 0 {
            let rest = format!("{} more (--top N)", number(rest as u64));
            self.line(&format!("  {}", style.dim(&rest)));
        }
        for line in LEGEND {
            self.line(&style.dim(line));
        }
    }

    fn path(&mut self, rank: usize, function: &Function, path: &Path) {
        let style = self.options.style;
        let share = match self.options.measure {
            Measure::Blocks => percent(path.weight(), self.totals.weight),
            Measure::Executions => percent(path.count, self.totals.executions),
        };
        let width = self.options.style.width;
        let name =
            shorten(&harmless(&compact(&function.demangled)), width.saturating_sub(40).max(20));
        let place = self.place(function);
        self.line(&format!("{rank:>4}. {share:>7}  {}  {}", style.bold(&name), style.dim(&place)));
        let other = match self.options.measure {
            Measure::Blocks => percent(path.count, self.totals.executions) + " of executions",
            Measure::Executions => percent(path.weight(), self.totals.weight) + " of blocks",
        };
        let facts = [
            format!(
                "{} × {},",
                counted(path.count, "time"),
                counted(path.blocks.len() as u64, "block")
            ),
            format!("{other},"),
            format!("{} of the function's", percent(path.count, function.executions())),
        ];
        for row in self.rows(&facts) {
            self.line(&format!("{INDENT}{row}"));
        }
        self.chain(function, path);
        self.listing(function, path);
    }

    fn place(&self, function: &Function) -> String {
        match function.place {
            Some(place) => {
                let file = &self.program.files[place.file as usize].path;
                harmless(&format!("{}:{}", short_path(file), place.line))
            }
            None => harmless(short_path(&function.unit)),
        }
    }

    /// Words, in as many rows as the terminal makes necessary.
    fn rows(&self, words: &[String]) -> Vec<String> {
        let width = self.options.style.width.max(40) - INDENT.len();
        let mut rows: Vec<String> = vec![String::new()];
        for word in words {
            let row = rows.last_mut().expect("there is always a row");
            if row.chars().count() + 1 + word.chars().count() > width && !row.is_empty() {
                rows.push(format!("  {word}"));
            } else {
                let space = if row.is_empty() { "" } else { " " };
                let _ = write!(row, "{space}{word}");
            }
        }
        rows
    }

    /// The chain, broken into rows.
    fn chain(&mut self, function: &Function, path: &Path) {
        let words = chain::words(self.program, function, path);
        let mut rows = self.rows(&words.iter().map(|word| harmless(word)).collect::<Vec<_>>());
        let left_out = if self.options.full { 0 } else { rows.len().saturating_sub(ROWS + 1) };
        if left_out > 0 {
            let gap = format!("  … {} more rows (--full) …", left_out);
            rows.splice(ROWS - 1..ROWS - 1 + left_out, [gap]);
        }
        for row in rows {
            self.line(&format!("{INDENT}{row}"));
        }
    }

    /// The lines with their text, where it is known.
    fn listing(&mut self, function: &Function, path: &Path) {
        let items: Vec<Item> = chain::compute_items(function, path)
            .into_iter()
            .filter(|item| item.place.is_some_and(|place| self.program.source(place).is_some()))
            .collect();
        let style = self.options.style;
        let indices: Vec<usize> = (0..items.len()).collect();
        let (head, tail) = if self.options.full || items.len() <= LISTED + 1 {
            (&indices[..], &indices[..0])
        } else {
            (&indices[..LISTED / 2 + 2], &indices[items.len() - (LISTED / 2 - 2)..])
        };
        let left_out = items.len() - head.len() - tail.len();
        let own = function.place.map(|place| place.file);
        let label = |item: &Item| {
            let place = item.place.expect("those without were left out");
            let file = &self.program.files[place.file as usize].path;
            let file = if own == Some(place.file) { "" } else { file_name(file) };
            let colon = if file.is_empty() { "" } else { ":" };
            format!("{}{colon}{}", harmless(file), place.line)
        };
        let shown = || head.iter().chain(tail).map(|&index| &items[index]);
        let labels = shown().map(|item| label(item).chars().count()).max().unwrap_or(0);
        let marks = shown().map(|item| chain::decisions(item).chars().count().min(10)).max();
        let marks = marks.unwrap_or(0);
        let mut rows = Vec::new();
        for (number, &index) in head.iter().chain(tail).enumerate() {
            if number == head.len() && left_out > 0 {
                rows.push(style.dim(&format!("{:>labels$} {left_out} more lines (--full)", "…")));
            }
            let item = &items[index];
            let place = item.place.expect("those without were left out");
            let text = self.program.source(place).unwrap_or_default();
            let inlined = self.inlined(place.scope);
            let room = style.width.saturating_sub(20 + labels + marks + inlined.chars().count());
            let text = shorten(&harmless(&text.replace('\t', "    ")), room.max(10));
            let decisions = shorten(&harmless(&chain::decisions(item)), 10);
            let padding = " ".repeat(marks - decisions.chars().count());
            rows.push(format!(
                "{:>labels$} {}{padding}  {}{}",
                label(item),
                style.decision(&decisions),
                text.trim_end(),
                style.dim(&inlined),
            ));
        }
        for row in rows {
            self.line(&format!("                 {row}"));
        }
    }

    /// The function a line was inlined from, as it is written behind the line.
    fn inlined(&self, scope: Option<u32>) -> String {
        let Some(scope) = scope else { return String::new() };
        let name = compact(&self.program.scopes[scope as usize]);
        format!("  ← {}", shorten(&harmless(&name), (self.options.style.width / 3).max(12)))
    }

    fn functions(&mut self, mut functions: Vec<&Function>) {
        let style = self.options.style;
        let measure = |function: &Function| match self.options.measure {
            Measure::Blocks => function.weight(),
            Measure::Executions => function.executions(),
        };
        functions.sort_by_key(|function| std::cmp::Reverse((measure(function), function.entries)));
        let ran = functions.iter().filter(|function| function.ran()).count();
        let shown = ran.min(2 * self.options.top);
        self.line("");
        self.line(&style.bold("Functions"));
        let head = [
            "blocks",
            "executions",
            "entries",
            "unfinished",
            "paths",
            "of",
            "instrumented",
            "edges",
            "function",
            "where",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        // What the numbers beside it leave.
        let names = style.width.saturating_sub(60).clamp(24, 60);
        let inherits = functions.iter().any(|function| function.inherited > 0);
        if inherits {
            rows[0].insert(3, "inherited".to_owned());
        }
        for function in &functions[..shown] {
            let at_least = if function.acyclic_paths_exact { "" } else { "≥" };
            let mut row = vec![
                percent(function.weight(), self.totals.weight),
                number(function.executions()),
                number(function.entries),
                number(function.unfinished),
                number(function.paths.len() as u64),
                format!("{at_least}{}", short_number(function.acyclic_paths)),
                harmless(&function.instrumented),
                if function.edges_exact { "exact" } else { "inexact" }.to_owned(),
                shorten(&harmless(&compact(&function.demangled)), names),
                self.place(function),
            ];
            if inherits {
                row.insert(3, number(function.inherited));
            }
            rows.push(row);
        }
        let right: Vec<usize> = (0..if inherits { 7 } else { 6 }).collect();
        let rows = table(&rows, &right);
        self.out.push_str(&rows);
        let not_run = functions.len() - ran;
        let mut more = Vec::new();
        if ran > shown {
            more.push(format!("{} more that ran (--top N)", number((ran - shown) as u64)));
        }
        if not_run > 0 {
            more.push(format!("{} that did not run", number(not_run as u64)));
        }
        if !more.is_empty() {
            self.line(&format!("  {}", style.dim(&more.join(", "))));
        }
    }
}

fn counted_plural(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(value), if value == 1 { one } else { many })
}
