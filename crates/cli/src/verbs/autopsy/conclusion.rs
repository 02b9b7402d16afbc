//! What can have run of a program, and where that is in its sources.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use backtrail_build::surroundings::load_first;
use backtrail_crash::Frames;
use backtrail_crash::active::{Active, Code, Size};
use backtrail_crash::evidence::{Evidence, StackFrame};
use backtrail_graph::Index as _;
use backtrail_ir::program::{Program, Surroundings};
use backtrail_ir::{Block, Func, Unit};
use backtrail_machine::image::Image;
use backtrail_machine::modules::Module;
use backtrail_machine::process::Process;
use backtrail_report::autopsy::{Conclusion, Counted, FunctionCode, LineState, SourceFile};

use super::evidence::gather;
use super::records::{Records, Walk};
use super::way::{lines, told_lines};
use crate::style::demangle;

/// What was concluded from a core: of the executable and of the libraries that record
/// something, each by itself. What calls between modules do is what unseen code may do.
pub struct Concluded {
    modules: Vec<OfModule>,
}

struct OfModule {
    path: String,
    build_id: Option<Vec<u8>>,
    code: Code,
    /// What can have run.
    active: Active,
    /// What can have run if only stacks are known.
    least: Active,
    evidence: Evidence,
    /// The unit of each function, by place in the table's list.
    units: BTreeMap<[u8; 16], usize>,
}

/// The tables of modules, by path.
pub type Tables = BTreeMap<String, Frames>;

type Line = (String, u32);

impl Concluded {
    /// Asks what can have run of `process`, if its executable records something.
    pub fn new(process: &Process, records: &mut Records<'_>, walks: &[Walk<'_>]) -> Option<Self> {
        let main = process.main()?;
        records.table(&main.path)?.models()?;
        let (mut codes, mut unread) = (Vec::new(), Vec::new());
        for module in &process.modules.list {
            let Some(frames) = records.table(&module.path) else { continue };
            // A library of which a unit is missing is unseen.
            let Some(models) = frames.models() else { continue };
            let ids: Vec<[u8; 16]> = models.iter().map(|(id, _)| *id).collect();
            let surroundings = match of_process(process, module, frames.surroundings()) {
                Ok(surroundings) => surroundings,
                Err(first) => {
                    unread.push(format!(
                        "{} was loaded before the libraries of {} and cannot be read: what can \
                         have run of it is not told",
                        first.path, module.path
                    ));
                    continue;
                }
            };
            let units = models.iter().map(|(_, unit)| *unit).collect();
            let program = Program::linked([(units, &*surroundings)]);
            let code = Code::new(&program, &ids, &surroundings.loaded.preemptible);
            codes.push((module, code, ids));
        }
        records.remarks.append(&mut unread);
        // A handler that leaves for a landing leaves whatever is on the stack.
        if codes.iter().any(|(_, code, _)| code.may_end_anywhere()) {
            codes.iter_mut().for_each(|(_, code, _)| code.set_may_end_anywhere());
        }
        let mut modules = Vec::new();
        for (module, code, ids) in codes {
            let evidence = gather(process, module, records, walks);
            let active = Active::compute(&code, &evidence);
            let wrong = active.contradictions(&code, &evidence);
            if let Some(&(unit, function)) = wrong.first() {
                let name = records.table(&module.path).and_then(|frames| {
                    let unit = frames.model(unit)?;
                    Some(demangle(&unit.symbols[unit.functions[function].symbol].name))
                });
                let others = match wrong.len() - 1 {
                    0 => String::new(),
                    1 => ", and so did another function".to_owned(),
                    more => format!(", and so did {more} others"),
                };
                records.remarks.push(format!(
                    "{} did what the model of the program holds impossible{others}: what can have \
                     run of {} is not told",
                    name.unwrap_or_else(|| "a function".to_owned()),
                    module.path
                ));
                continue;
            }
            modules.push(OfModule {
                path: module.path.clone(),
                build_id: module.build_id.clone(),
                active,
                least: Active::compute(&code, &evidence.stacks_only()),
                code,
                evidence,
                units: ids.iter().enumerate().map(|(place, id)| (*id, place)).collect(),
            });
        }
        Some(Self { modules })
    }

    /// What can have run in all of these, which are of one executable, of the modules
    /// that all of them have; nothing, if that is none.
    pub fn common(&self, others: &[&Concluded], tables: &Tables) -> Option<Conclusion> {
        let mut found = Description::default();
        for module in &self.modules {
            let is_same = |it: &&OfModule| it.path == module.path && it.build_id == module.build_id;
            let (mut active, mut least) = (module.active.clone(), module.least.clone());
            let in_all = others.iter().all(|other| {
                let other = other.modules.iter().find(is_same);
                other.is_some_and(|other| {
                    active = other.active.intersect(&active);
                    least = other.least.intersect(&least);
                    true
                })
            });
            if let Some(frames) = tables.get(&module.path).filter(|_| in_all) {
                found.add(module, (&active, &least), frames, &Stops::default());
            }
        }
        found.finish()
    }

    /// The lines that an activation of a function of a module never came to, by the
    /// places of its thread and frame.
    pub fn never(&self, path: &str, frames: &Frames, thread: usize, frame: usize) -> Never {
        let module = self.modules.iter().find(|it| it.path == path);
        module.map_or_else(Never::default, |module| module.never(frames, thread, frame))
    }

    /// All of it, as it is shown. `stops` are the lines at which live frames are,
    /// by function and block: what comes behind has not run because of them. Nothing, if
    /// of no module anything can be told.
    pub fn report(&self, tables: &mut Records<'_>, stops: &Stops) -> Option<Conclusion> {
        let mut found = Description::default();
        for module in &self.modules {
            if let Some(frames) = tables.table(&module.path) {
                found.add(module, (&module.active, &module.least), frames, stops);
            }
        }
        found.finish()
    }

    /// The modules that were looked at.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.modules.iter().map(|it| &*it.path)
    }

    /// The blocks that a live frame is in, without having passed them before.
    pub fn last_blocks(&self) -> BTreeSet<([u8; 16], u32, Block)> {
        let mut found = BTreeSet::new();
        for activation in self.modules.iter().flat_map(|it| it.evidence.activations()) {
            let passed = activation.suffix.iter().rev().skip(1);
            if let Some(at) = activation.at
                && !passed.clone().any(|&block| block == at)
            {
                let (unit, function) = activation.function;
                found.insert((unit, function.position() as u32, at));
            }
        }
        found
    }
}

/// What surrounds the units of a module of a process: what it was linked with, and around
/// an executable what was loaded before that. What may replace the functions of a library
/// is not known anyway.
///
/// # Errors
///
/// What was loaded, and is not there any more.
fn of_process<'a, 'p>(
    process: &'p Process,
    module: &Module,
    linked: &'a Surroundings,
) -> Result<Cow<'a, Surroundings>, &'p Module> {
    let is_main = process.main().is_some_and(|main| std::ptr::eq(main, module));
    let first = if is_main { process.loaded_first() } else { Vec::new() };
    if first.is_empty() {
        return Ok(Cow::Borrowed(linked));
    }
    let file = |it: &'p Module| it.image.as_ref().and_then(Image::path).ok_or(it);
    let files = first.into_iter().map(|it| file(it).map(Path::to_owned));
    let files = files.collect::<Result<Vec<PathBuf>, _>>()?;
    let mut surroundings = linked.clone();
    load_first(&mut surroundings, &files);
    Ok(Cow::Owned(surroundings))
}

/// The lines that an activation never came to.
#[derive(Default)]
pub struct Never {
    /// As they are.
    pub lines: Vec<Line>,
    /// Those of libraries told by what they were inlined into, of which nothing ran.
    pub told: Vec<Line>,
}

impl OfModule {
    fn never(&self, frames: &Frames, thread: usize, frame: usize) -> Never {
        let found = self.evidence.threads.get(thread).and_then(|it| it.frames.get(frame));
        let Some(StackFrame::Known(activation)) = found else { return Never::default() };
        let (unit, function) = activation.function;
        let Some(unit) = frames.model(unit) else { return Never::default() };
        let (mut came, mut other) = (Vec::new(), Vec::new());
        for block in unit.functions[function].blocks.indices() {
            match self.active.by_activation(thread, frame, block) {
                None => return Never::default(),
                Some(true) => came.push(block),
                Some(false) => other.push(block),
            }
        }
        let only_other = |lines: fn(&Unit, Func, Block) -> Vec<Line>| {
            let of = |blocks: &[Block]| -> BTreeSet<Line> {
                blocks.iter().flat_map(|&block| lines(unit, function, block)).collect()
            };
            of(&other).difference(&of(&came)).cloned().collect()
        };
        Never { lines: only_other(lines), told: only_other(told_lines) }
    }
}

/// How many lines of the block that a frame is in were reached, by the frame that
/// came furthest.
pub type Stops = BTreeMap<([u8; 16], u32, Block), usize>;

/// What is shown, as far as modules were added to it.
#[derive(Default)]
struct Description {
    states: BTreeMap<String, BTreeMap<u32, LineState>>,
    total: Size,
    now: Size,
    by_stack: Size,
    code: Vec<FunctionCode>,
}

fn add(sum: &mut Size, more: Size) {
    sum.functions += more.functions;
    sum.nodes += more.nodes;
    sum.edges += more.edges;
}

impl Description {
    fn add(
        &mut self,
        module: &OfModule,
        (active, least): (&Active, &Active),
        frames: &Frames,
        stops: &Stops,
    ) {
        let code = &module.code;
        let models: Vec<&Unit> =
            frames.models().unwrap_or_default().into_iter().map(|(_, unit)| unit).collect();
        for (body, (unit_id, function)) in code.functions() {
            let unit = module.units.get(&unit_id).and_then(|&place| models.get(place));
            let Some(unit) = unit else { continue };
            let flow = code.flow(body);
            let name = &unit.symbols[unit.functions[function].symbol].name;
            let edge = |edge| {
                let (from, to) = (flow.source(edge), flow.target(edge));
                (from.position() as u32, to.position() as u32, active.edge(body, edge))
            };
            self.code.push(FunctionCode {
                function: name.clone(),
                demangled: demangle(name),
                possible: active.function(body),
                unit: unit.name.clone(),
                blocks: flow.nodes().map(|block| active.block(body, block)).collect(),
                edges: flow.edges().map(edge).collect(),
            });
            let (nodes, edges) = (flow.node_count() as u64, flow.edge_count() as u64);
            add(&mut self.total, Size { functions: 1, nodes, edges });
            for block in flow.nodes() {
                let state = match (active.executed(body, block), active.block(body, block)) {
                    (true, true) => LineState::Executed,
                    (_, true) => LineState::Possible,
                    (_, false) => LineState::Impossible,
                };
                let mut lines = lines(unit, function, block);
                let reached = stops.get(&(unit_id, function.position() as u32, block)).copied();
                let later = lines.split_off(reached.unwrap_or(lines.len()).min(lines.len()));
                lines.into_iter().for_each(|line| self.note(line, state));
                let later = later.into_iter();
                later.for_each(|line| self.note(line, state.min(LineState::Possible)));
            }
        }
        self.total.edges += code.direct_calls();
        add(&mut self.now, active.size());
        add(&mut self.by_stack, least.size());
    }

    fn note(&mut self, (file, line): Line, state: LineState) {
        let file = self.states.entry(file).or_default();
        let known = file.entry(line).or_insert(LineState::Impossible);
        *known = (*known).max(state);
    }

    fn finish(self) -> Option<Conclusion> {
        if self.total.functions == 0 {
            return None;
        }
        let (total, now, before) = (self.total, self.now, self.by_stack);
        let counted = |total: u64, stack_only: u64, now: u64| Counted { total, stack_only, now };
        let states = self.states;
        let all_lines = states.values().map(|lines| lines.len() as u64).sum();
        let impossible: Vec<Line> = states
            .iter()
            .flat_map(|(file, lines)| {
                let impossible = lines.iter().filter(|(_, state)| **state == LineState::Impossible);
                impossible.map(move |(line, _)| (file.clone(), *line))
            })
            .collect();
        Some(Conclusion {
            functions: counted(total.functions, before.functions, now.functions),
            nodes: counted(total.nodes, before.nodes, now.nodes),
            edges: counted(total.edges, before.edges, now.edges),
            all_lines,
            impossible_lines: impossible,
            code: self.code,
            files: states.into_iter().map(|(name, states)| SourceFile { name, states }).collect(),
        })
    }
}
