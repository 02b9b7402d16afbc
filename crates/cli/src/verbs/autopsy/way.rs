//! The way a frame came, out of what its activation recorded.

use std::collections::BTreeMap;

use backtrail_build::carry::Carried;
use backtrail_build::carry::file::side_file;
use backtrail_crash::{self as crash, Frames, Known, Unread};
use backtrail_graph::Index as _;
use backtrail_ir::{Block, Func, Op, Unit};
use backtrail_machine::process::Process;
use backtrail_machine::unwind;
use backtrail_report::autopsy::{Older, Step, Way};

/// Reads records, by the tables that executables and libraries carry.
pub struct Ways<'a> {
    process: &'a Process,
    /// By path of the module; `None` where nothing is recorded.
    tables: BTreeMap<String, Option<Frames>>,
    /// Why some could not be read.
    pub remarks: Vec<String>,
}

impl<'a> Ways<'a> {
    /// Of the frames of `process`.
    pub fn new(process: &'a Process) -> Self {
        Self { process, tables: BTreeMap::new(), remarks: Vec::new() }
    }

    /// What the activation of `frame` recorded, if it is of a function that does.
    pub fn of(&mut self, frame: &unwind::Frame) -> Option<Way> {
        let process = self.process;
        let address = frame.instruction();
        let module = process.modules.of(address)?;
        let end = frame.end?;
        let table = self.table(&module.path)?;
        let asked = crash::Frame {
            address: address.wrapping_sub(module.bias),
            is_call: !frame.interrupted,
            frame_address: end,
            register: &|number| frame.registers.get(number),
            memory: &|at, bytes| process.memory.read(at, bytes).is_ok(),
        };
        match table.recover(&asked) {
            Ok(found) => {
                let unit = table.model(found.unit)?;
                found.traced.then(|| way(unit, &found))
            }
            Err(Unread::NotOurs) => None,
            Err(why) => Some(Way { scheme: "pt", note: Some(why.to_string()), ..Way::default() }),
        }
    }

    fn table(&mut self, path: &str) -> Option<&Frames> {
        if !self.tables.contains_key(path) {
            let table = self.read(path);
            self.tables.insert(path.to_owned(), table);
        }
        self.tables[path].as_ref()
    }

    fn read(&mut self, path: &str) -> Option<Frames> {
        let module = self.process.modules.list.iter().find(|module| module.path == path)?;
        let image = module.image.as_ref()?;
        let file = image.path()?;
        let detached = side_file(file, module.build_id.as_deref().unwrap_or_default());
        if !image.has_section(backtrail_abi::record::FRAMES_SECTION) && detached.is_none() {
            return None;
        }
        let read = || -> Result<Option<Frames>, String> {
            let carried = Carried::read(file).map_err(|error| error.to_string())?;
            let Some(section) = carried.frames.as_deref() else { return Ok(None) };
            let model = |id: [u8; 16]| {
                carried.units.iter().find(|it| it.meta.id == id)?.model().ok().flatten()
            };
            Frames::new(section, &model).map(Some).map_err(|error| error.to_string())
        };
        read().unwrap_or_else(|why| {
            self.remarks.push(format!("{path}: what its functions recorded cannot be read: {why}"));
            None
        })
    }
}

/// Leaves out the lines of the last block behind `line`, which is where the frame
/// is: they are yet to come.
pub fn stop_at(way: &mut Way, line: u32) {
    let Some(last) = way.path.last_mut() else { return };
    if let Some(at) = last.lines.iter().rposition(|(_, it)| *it == line) {
        last.lines.truncate(at + 1);
    }
}

/// What was recovered, with lines.
fn way(unit: &Unit, found: &crash::Recovered) -> Way {
    let known = match found.known {
        Known::Exact => "exact",
        Known::Inferred | Known::No => "inferred",
    };
    let mut older: Vec<Older> = Vec::new();
    for path in &found.older {
        let steps = steps(unit, found.function, &path.blocks);
        match older.last_mut() {
            Some(last) if last.steps == steps => last.times += 1,
            _ => older.push(Older { steps, times: 1 }),
        }
    }
    Way {
        scheme: "pt",
        known,
        path: steps(unit, found.function, &found.path),
        older,
        truncated: found.truncated,
        note: found.note.map(str::to_owned),
    }
}

/// Blocks as steps: their lines, and what was decided at their end.
fn steps(unit: &Unit, function: Func, blocks: &[Block]) -> Vec<Step> {
    let body = &unit.functions[function];
    let mut steps = Vec::new();
    for (place, &block) in blocks.iter().enumerate() {
        let data = &body.blocks[block];
        let mut lines: Vec<(String, u32)> = Vec::new();
        for inst in data.insts() {
            let Some(location) = body.insts[inst].location else { continue };
            let location = &unit.locations[location];
            let line = (unit.files[location.file].clone(), location.line);
            if location.line > 0 && lines.last() != Some(&line) {
                lines.push(line);
            }
        }
        let next = blocks.get(place + 1);
        let decision = match (&body.insts[data.terminator()].op, next) {
            (Op::Branch, Some(next)) if data.successors[..] != [*next, *next] => {
                Some(data.successors.first() == Some(next))
            }
            _ => None,
        };
        steps.push(Step { block: format!("b{}", block.position()), lines, decision });
    }
    steps
}
