//! What can have run of a program, and where that is in its sources.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_crash::Frames;
use backtrail_crash::active::{Active, Code, Size};
use backtrail_crash::evidence::{Evidence, StackFrame};
use backtrail_graph::Index as _;
use backtrail_ir::program::Program;
use backtrail_ir::{Block, Unit};
use backtrail_machine::process::Process;
use backtrail_report::autopsy::{Conclusion, Counted, FunctionCode, LineState, SourceFile};

use super::evidence::gather;
use super::records::{Records, Walk};
use super::way::lines;
use crate::style::demangle;

/// What was concluded from a core.
pub struct Concluded {
    code: Code,
    /// What can have run.
    pub active: Active,
    /// What can have run if only stacks are known.
    least: Active,
    evidence: Evidence,
    /// The unit of each function, by place in the table's list.
    units: BTreeMap<[u8; 16], usize>,
}

type Line = (String, u32);

impl Concluded {
    /// Asks what can have run of the executable of `process`, if it records
    /// something.
    pub fn new(process: &Process, records: &mut Records<'_>, walks: &[Walk<'_>]) -> Option<Self> {
        let main = process.main()?.path.clone();
        records.table(&main)?;
        let evidence = gather(process, records, walks);
        let frames = records.table(&main)?;
        let models = frames.models()?;
        let ids: Vec<[u8; 16]> = models.iter().map(|(id, _)| *id).collect();
        let program = Program::of_units(models.iter().map(|(_, unit)| *unit));
        let code = Code::new(&program, &ids, frames.outside());
        let active = Active::compute(&code, &evidence);
        let least = Active::compute(&code, &evidence.stacks_only());
        let units = ids.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        Some(Self { code, active, least, evidence, units })
    }

    /// What can have run, and what if only stacks are known.
    pub fn all(&self) -> (Active, Active) {
        (self.active.clone(), self.least.clone())
    }

    /// The same, as far as it is so in others, too, which are of the same
    /// executable.
    pub fn intersect(&self, others: &(Active, Active)) -> (Active, Active) {
        (self.active.intersect(&others.0), self.least.intersect(&others.1))
    }

    /// The lines that an activation never came to, by the places of its thread
    /// and frame.
    pub fn never(&self, frames: &Frames, thread: usize, frame: usize) -> Vec<Line> {
        let found = self.evidence.threads.get(thread).and_then(|it| it.frames.get(frame));
        let Some(StackFrame::Known(activation)) = found else { return Vec::new() };
        let (unit, function) = activation.function;
        let Some(unit) = frames.model(unit) else { return Vec::new() };
        let (mut came, mut other) = (BTreeSet::new(), BTreeSet::new());
        for block in unit.functions[function].blocks.indices() {
            match self.active.by_activation(thread, frame, block) {
                None => return Vec::new(),
                Some(true) => came.extend(lines(unit, function, block)),
                Some(false) => other.extend(lines(unit, function, block)),
            }
        }
        other.difference(&came).cloned().collect()
    }

    /// All of it, as it is shown. `stops` are the lines at which live frames are,
    /// by function and block: what comes behind has not run because of them.
    pub fn report(&self, frames: &Frames, stops: &Stops) -> Conclusion {
        describe(&self.code, &self.active, &self.least, &self.units, frames, stops)
    }

    /// The same of what several cores have in common.
    pub fn report_common(&self, frames: &Frames, both: &(Active, Active)) -> Conclusion {
        describe(&self.code, &both.0, &both.1, &self.units, frames, &Stops::default())
    }

    /// The blocks that a live frame is in, without having passed them before.
    pub fn last_blocks(&self) -> BTreeSet<([u8; 16], u32, Block)> {
        let mut found = BTreeSet::new();
        for activation in self.evidence.activations() {
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

/// How many lines of the block that a frame is in were reached, by the frame that
/// came furthest.
pub type Stops = BTreeMap<([u8; 16], u32, Block), usize>;

fn describe(
    code: &Code,
    active: &Active,
    least: &Active,
    units: &BTreeMap<[u8; 16], usize>,
    frames: &Frames,
    stops: &Stops,
) -> Conclusion {
    let models: Vec<&Unit> =
        frames.models().unwrap_or_default().into_iter().map(|(_, unit)| unit).collect();
    let mut states: BTreeMap<String, BTreeMap<u32, LineState>> = BTreeMap::new();
    let mut functions: Vec<String> = Vec::new();
    let mut total = Size::default();
    let mut by_function = Vec::new();
    for (body, (unit_id, function)) in code.functions() {
        let Some(unit) = units.get(&unit_id).and_then(|&place| models.get(place)) else { continue };
        let flow = code.flow(body);
        let name = &unit.symbols[unit.functions[function].symbol].name;
        let edge = |edge| {
            let ends = (flow.source(edge).position() as u32, flow.target(edge).position() as u32);
            (ends.0, ends.1, active.edge(body, edge))
        };
        by_function.push(FunctionCode {
            function: name.clone(),
            unit: unit.name.clone(),
            blocks: flow.nodes().map(|block| active.block(body, block)).collect(),
            edges: flow.edges().map(edge).collect(),
        });
        total.functions += 1;
        total.nodes += flow.node_count() as u64;
        total.edges += flow.edge_count() as u64;
        if !active.function(body) {
            functions.push(demangle(name));
        }
        for block in flow.nodes() {
            let state = match (active.executed(body, block), active.block(body, block)) {
                (true, true) => LineState::Executed,
                (_, true) => LineState::Possible,
                (_, false) => LineState::Impossible,
            };
            let mut lines = lines(unit, function, block);
            let reached = stops.get(&(unit_id, function.position() as u32, block)).copied();
            let later = lines.split_off(reached.unwrap_or(lines.len()).min(lines.len()));
            let mut note = |(file, line): Line, state: LineState| {
                let file = states.entry(file).or_default();
                let known = file.entry(line).or_insert(LineState::Impossible);
                *known = (*known).max(state);
            };
            lines.into_iter().for_each(|line| note(line, state));
            later.into_iter().for_each(|line| note(line, state.min(LineState::Possible)));
        }
    }
    functions.sort();
    functions.dedup();
    let (now, before) = (active.size(), least.size());
    let counted = |total: u64, stack_only: u64, now: u64| Counted { total, stack_only, now };
    total.edges += code.direct_calls();
    let all_lines = states.values().map(|lines| lines.len() as u64).sum();
    let impossible: Vec<Line> = states
        .iter()
        .flat_map(|(file, lines)| {
            let impossible = lines.iter().filter(|(_, state)| **state == LineState::Impossible);
            impossible.map(move |(line, _)| (file.clone(), *line))
        })
        .collect();
    Conclusion {
        functions: counted(total.functions, before.functions, now.functions),
        nodes: counted(total.nodes, before.nodes, now.nodes),
        edges: counted(total.edges, before.edges, now.edges),
        all_lines,
        impossible_functions: functions,
        impossible_lines: impossible,
        code: by_function,
        files: states.into_iter().map(|(name, states)| SourceFile { name, states }).collect(),
    }
}
