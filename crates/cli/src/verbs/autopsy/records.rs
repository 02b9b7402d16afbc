//! What the frames of a process recorded, by the tables that executables and
//! libraries carry.

use std::collections::BTreeMap;

use backtrail_build::carry::Carried;
use backtrail_build::carry::file::side_file;
use backtrail_crash::{self as crash, Frames, Recovered, Unread};
use backtrail_ir::Unit;
use backtrail_machine::backtrace::Backtrace;
use backtrail_machine::core_file::notes::Thread;
use backtrail_machine::process::Process;
use backtrail_machine::unwind;

/// The records of a process.
pub struct Records<'a> {
    process: &'a Process,
    /// By path of the module; `None` where nothing is recorded.
    tables: BTreeMap<String, Option<Frames>>,
    /// Why some could not be read.
    pub remarks: Vec<String>,
}

/// What is known of a frame whose function was compiled by Backtrail.
pub struct Recovery {
    /// The path of the module it is of.
    pub module: String,
    /// What was recovered.
    pub found: Result<Recovered, Unread>,
}

/// The frames of a thread, and what each recorded.
pub struct Walk<'a> {
    /// The thread.
    pub thread: &'a Thread,
    /// Its frames.
    pub backtrace: Backtrace,
    /// By frame; `None` where nothing is recorded.
    pub recoveries: Vec<Option<Recovery>>,
}

impl<'a> Walk<'a> {
    /// Walks the stack of a thread.
    pub fn new(process: &Process, thread: &'a Thread, records: &mut Records<'_>) -> Self {
        let backtrace = Backtrace::compute(process, &thread.registers);
        let recoveries = backtrace.frames.iter().map(|frame| records.of(frame)).collect();
        Self { thread, backtrace, recoveries }
    }
}

impl<'a> Records<'a> {
    /// Of the frames of `process`.
    pub fn new(process: &'a Process) -> Self {
        Self { process, tables: BTreeMap::new(), remarks: Vec::new() }
    }

    /// What the activation of `frame` recorded, if its module records anything.
    pub fn of(&mut self, frame: &unwind::Frame) -> Option<Recovery> {
        let process = self.process;
        let address = frame.instruction();
        let module = process.modules.of(address)?;
        let table = self.table(&module.path)?;
        let asked = crash::Frame {
            address: address.wrapping_sub(module.bias),
            is_call: !frame.interrupted,
            frame_address: frame.end.unwrap_or_default(),
            register: &|number| frame.registers.get(number),
            memory: &|at, bytes| frame.end.is_some() && process.memory.read(at, bytes).is_ok(),
        };
        Some(Recovery { module: module.path.clone(), found: table.recover(&asked) })
    }

    /// What is known of a frame of which only the address of its call is.
    pub fn at(&mut self, address: u64) -> Option<Recovery> {
        let module = self.process.modules.of(address)?;
        let table = self.table(&module.path)?;
        let asked = crash::Frame {
            address: address.wrapping_sub(module.bias),
            is_call: true,
            frame_address: 0,
            register: &|_| None,
            memory: &|_, _| false,
        };
        Some(Recovery { module: module.path.clone(), found: table.recover(&asked) })
    }

    /// The model of the unit that a recovered function is of.
    pub fn model(&self, module: &str, unit: [u8; 16]) -> Option<&Unit> {
        self.tables.get(module)?.as_ref()?.model(unit)
    }

    /// The table of a module, if it has one.
    pub fn table(&mut self, path: &str) -> Option<&Frames> {
        if !self.tables.contains_key(path) {
            let table = self.read(path);
            self.tables.insert(path.to_owned(), table);
        }
        self.tables[path].as_ref()
    }

    /// Gives the table of a module away.
    pub fn take(&mut self, path: &str) -> Option<Frames> {
        self.tables.remove(path).flatten()
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
