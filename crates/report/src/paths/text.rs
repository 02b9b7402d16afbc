//! A path profile on a terminal: what was counted, the hottest paths with their
//! lines, the functions.

use super::chain::{self, Item};
use super::{Function, Measure, Path, Program, Ran, Totals};
use crate::name::{Names, compact, shortened};
use crate::terminal::{
    self, Detail, Style, counted, file_name, number, padded, percent, short_number, short_path,
    shorten, table, width,
};
use backtrail_foreign::text::shown;

/// What is shown.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// At most so many paths, and twice as many functions.
    pub top: usize,
    /// What paths are sorted by.
    pub measure: Measure,
    /// How much is shown of each; long paths are shown from beginning to end if all.
    pub detail: Detail,
    /// How it looks.
    pub style: Style,
}

/// Lines of source that are shown of a path, unless all are.
const LISTED: usize = 12;

/// Decisions that are shown before a line of source, in columns.
const SIGNS: usize = 10;

/// What stands before everything that is said about a path.
const INDENT: &str = "               ";

/// Rows of a chain, unless all are.
const ROWS: usize = 3;

const LEGEND: [&str; 2] = [
    "  ▶ entry  ■ exit  ↻ loop's head  ↩ back to it  ✂ cut  ✕ call that does not return",
    "  T F  the compiled condition holds or not (it may be the opposite of the written one)",
];

const FOLDED: &str =
    "  decisions of library code stand on the line it was inlined into (--full: on its own)";

/// The whole text.
pub fn render(program: &Program, options: &Options, wanted: impl Fn(&Function) -> bool) -> String {
    let functions: Vec<&Function> =
        program.functions.iter().filter(|function| wanted(function)).collect();
    let ran = functions.iter().filter(|function| function.ran());
    let names = ran.map(|function| (&*function.name, &*function.demangled));
    let names = Names::new(names, options.detail);
    let totals = program.totals();
    let mut text = Text { program, options, names, totals, out: String::new() };
    text.head();
    let hottest = program.hottest(options.measure, &wanted);
    text.paths(&hottest);
    text.functions(functions);
    text.out
}

struct Text<'a> {
    program: &'a Program,
    options: &'a Options,
    names: Names,
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
            "{}  build id {}, {}",
            style.bold(&program.program),
            shown(build),
            counted(program.processes, "process"),
        );
        self.line(&title);
        if program.incomplete.is_empty() {
            self.line("  incomplete  no");
        }
        for why in &program.incomplete {
            let why = style.warning(&format!("yes: {}", shown(why)));
            self.line(&format!("  incomplete  {why}"));
        }
        if let Some(signals) = program.ended_by() {
            self.line(&format!("  ended by    {signals}"));
        }
        for (what, said) in program.merged.iter().flat_map(|it| it.lines(style)) {
            self.line(&format!("  {what:<10}  {said}"));
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
        let heirs = of(&|function| !function.activations_exact);
        let unfinished = match (unfinished, heirs) {
            (0, 0) => "no activation".to_owned(),
            (0, _) => style.warning("no activation that is known"),
            (count, 0) => style.warning(&counted(count, "activation")),
            (count, _) => style.warning(&format!("{} or more", counted(count, "activation"))),
        };
        let heirs = match heirs {
            0 => String::new(),
            count => format!(" (children of a fork may have left {})", counted(count, "function")),
        };
        let exact = if inexact == 0 {
            "counts of edges and lines are exact".to_owned()
        } else {
            format!("in {}, edges and lines are lower bounds", counted(inexact, "function"))
        };
        self.line(&format!("  unfinished  {unfinished}{heirs}; {exact}"));
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
        let listed = hottest.iter().take(self.options.top);
        let folds = |&(function, path): &(usize, usize)| {
            let function = &self.program.functions[function];
            let blocks = function.paths[path].blocks.iter();
            let mut places = blocks.flat_map(|&block| &function.blocks[block as usize]);
            places.any(|place| place.line != place.told_by)
        };
        if !self.is_full() && listed.into_iter().any(folds) {
            self.line(&style.dim(FOLDED));
        }
    }

    fn path(&mut self, rank: usize, function: &Function, path: &Path) {
        let style = self.options.style;
        let share = match self.options.measure {
            Measure::Blocks => percent(path.weight(), self.totals.weight),
            Measure::Executions => percent(path.count, self.totals.executions),
        };
        let place = self.place(function);
        let name = self.name(function, style.room(18 + width(&place), 20));
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

    /// A function's name in at most `room` columns, unless all is wanted.
    fn name(&self, function: &Function, room: usize) -> String {
        let name = shown(&self.names.of(&function.name, &function.demangled));
        if self.is_full() { name } else { shortened(&name, room) }
    }

    fn is_full(&self) -> bool {
        self.options.detail == Detail::Full
    }

    fn place(&self, function: &Function) -> String {
        match function.place {
            Some(place) => {
                let file = &self.program.files[place.file as usize].path;
                shown(&format!("{}:{}", short_path(file), place.line))
            }
            None => shown(short_path(&function.unit)),
        }
    }

    /// Words, in as many rows as are necessary.
    fn rows(&self, words: &[String]) -> Vec<String> {
        let room = self.options.style.page().max(40) - INDENT.len();
        let mut rows = terminal::rows(words, " ", room - 2);
        rows.iter_mut().skip(1).for_each(|row| row.insert_str(0, "  "));
        rows
    }

    /// The chain, broken into rows.
    fn chain(&mut self, function: &Function, path: &Path) {
        let words = chain::words(self.program, function, path, self.options.detail);
        let mut rows = self.rows(&words.iter().map(|word| shown(word)).collect::<Vec<_>>());
        let left_out = if self.is_full() { 0 } else { rows.len().saturating_sub(ROWS + 1) };
        if left_out > 0 {
            let gap = format!("  … {} (--full) …", counted(left_out as u64, "more row"));
            rows.splice(ROWS - 1..ROWS - 1 + left_out, [gap]);
        }
        for row in rows {
            self.line(&format!("{INDENT}{row}"));
        }
    }

    /// The lines with their text, where it is known.
    fn listing(&mut self, function: &Function, path: &Path) {
        let items: Vec<Item> = chain::compute_items(function, path, self.options.detail)
            .into_iter()
            .filter(|item| item.place.is_some_and(|place| self.program.source(place).is_some()))
            .collect();
        let style = self.options.style;
        let indices: Vec<usize> = (0..items.len()).collect();
        let (head, tail) = if self.is_full() || items.len() <= LISTED + 1 {
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
            format!("{}{colon}{}", shown(file), place.line)
        };
        let items_shown = || head.iter().chain(tail).map(|&index| &items[index]);
        let labels = items_shown().map(|item| width(&label(item))).max().unwrap_or(0);
        let signs = |item: &Item| shorten(&shown(&chain::decisions(item)), SIGNS);
        let marks = items_shown().map(|item| width(&signs(item))).max().unwrap_or(0);
        let mut rows = Vec::new();
        for (number, &index) in head.iter().chain(tail).enumerate() {
            if number == head.len() && left_out > 0 {
                let left_out = counted(left_out as u64, "more line");
                rows.push(style.dim(&format!("{:>labels$} {left_out} (--full)", "…")));
            }
            let item = &items[index];
            let place = item.place.expect("those without were left out");
            let text = self.program.source(place).unwrap_or_default();
            let inlined = self.inlined(place.scope);
            let room = style.room(20 + labels + marks + width(&inlined), 10);
            let text = shorten(&shown(&text.replace('\t', "    ")), room);
            let (label, decisions) = (label(item), signs(item));
            rows.push(format!(
                "{}{label} {}{}  {}{}",
                padded("", labels - width(&label)),
                style.decision(&decisions),
                padded("", marks - width(&decisions)),
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
        let name = &self.program.scopes[scope as usize];
        if self.is_full() {
            return format!("  ← {}", shown(name));
        }
        let room = self.options.style.screen.map_or(usize::MAX, |it| (it.columns / 3).max(12));
        format!("  ← {}", shortened(&shown(&compact(name)), room))
    }

    fn functions(&mut self, mut functions: Vec<&Function>) {
        let style = self.options.style;
        let measure = |function: &Function| match self.options.measure {
            Measure::Blocks => function.weight(),
            Measure::Executions => function.executions(),
        };
        functions.sort_by_key(|function| std::cmp::Reverse((measure(function), function.entries)));
        let ran = functions.iter().filter(|function| function.ran()).count();
        let listed = ran.min(2 * self.options.top);
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
        let inherits = functions.iter().any(|it| it.inherited > 0 || !it.activations_exact);
        if inherits {
            rows[0].insert(3, "inherited".to_owned());
        }
        for function in &functions[..listed] {
            let at_least = if function.acyclic_paths_exact { "" } else { "≥" };
            let activations = |count: u64| {
                let at_least = if function.activations_exact { "" } else { "≥" };
                format!("{at_least}{}", number(count))
            };
            let mut row = vec![
                percent(function.weight(), self.totals.weight),
                number(function.executions()),
                number(function.entries),
                activations(function.unfinished),
                number(function.paths.len() as u64),
                format!("{at_least}{}", short_number(function.acyclic_paths)),
                shown(&function.instrumented),
                if function.edges_exact { "exact" } else { "inexact" }.to_owned(),
                String::new(),
                self.place(function),
            ];
            if inherits {
                row.insert(3, activations(function.inherited));
            }
            rows.push(row);
        }
        // Names have what the rest leaves.
        let name = rows[0].len() - 2;
        let without = table(&rows, &[]).lines().map(width).max().unwrap_or(0);
        let room = style.room(without - width("function"), 24);
        for (row, function) in rows[1..].iter_mut().zip(&functions) {
            row[name] = self.name(function, room);
        }
        let right: Vec<usize> = (0..if inherits { 7 } else { 6 }).collect();
        let rows = table(&rows, &right);
        self.out.push_str(&rows);
        let of = |ran: Ran| functions.iter().filter(|function| function.ran == ran).count() as u64;
        let mut more = Vec::new();
        if ran > listed {
            more.push(format!("{} more that ran (--top N)", number((ran - listed) as u64)));
        }
        for (ran, what) in [
            (Ran::Inlined, "that ran only where it was inlined"),
            (Ran::No, "that did not run"),
            (Ran::Unknown, "of which that is not known"),
        ] {
            if let count @ 1.. = of(ran) {
                more.push(format!("{} {what}", number(count)));
            }
        }
        if !more.is_empty() {
            self.line(&format!("  {}", style.dim(&more.join(", "))));
        }
    }
}
