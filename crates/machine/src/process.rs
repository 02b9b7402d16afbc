//! A process that died, or that was stopped: its threads, memory and files.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::core_file::CoreFile;
use crate::core_file::notes::{Notes, SignalInfo, Thread};
use crate::debug_file::DebugFolders;
use crate::live::{self, Stopped};
use crate::memory::Memory;
use crate::modules::{Module, Modules, Options};
use crate::signal::only_stops;
use crate::symbolise::Place;

/// A process that died, or that was stopped.
pub struct Process {
    /// What is known of its threads, its signal and its files.
    pub notes: Notes,
    /// Its memory.
    pub memory: Memory,
    /// The files that were mapped.
    pub modules: Modules,
    /// What is wrong with the core, in sentences.
    pub remarks: Vec<String>,
    pub(crate) folders: DebugFolders,
    /// A live process goes on when this is dropped.
    stopped: Option<Stopped>,
}

impl Process {
    /// The process that left a core.
    pub fn of_core(path: &Path, options: &Options) -> Result<Self, Error> {
        let mut options = options.clone();
        if options.core_folder.is_none() {
            options.core_folder = path.parent().map(Path::to_owned);
        }
        Self::new(CoreFile::open(path)?, &options)
    }

    /// A process that lives, stopped until this is dropped.
    pub fn of_pid(pid: u32, options: &Options) -> Result<Self, Error> {
        let (core, stopped) = live::stop(pid)?;
        let mut options = options.clone();
        // One that was deleted or replaced is still there under this name.
        if options.executable.is_none() {
            let executable = PathBuf::from(format!("/proc/{pid}/exe"));
            let gone = std::fs::read_link(&executable).is_ok_and(|path| !path.exists());
            options.executable = gone.then_some(executable);
        }
        let mut process = Self::new(core, &options)?;
        process.stopped = Some(stopped);
        Ok(process)
    }

    /// A process that its caller traces and has stopped; its threads are not looked
    /// at.
    pub(crate) fn of_tracee(pid: u32, options: &Options) -> Result<Self, Error> {
        Self::new(live::of_stopped(pid)?, options)
    }

    /// Whether it lives, and goes on when this is dropped.
    pub fn is_live(&self) -> bool {
        self.stopped.is_some()
    }

    /// From a core that was opened.
    pub fn new(core: CoreFile, options: &Options) -> Result<Self, Error> {
        let CoreFile { notes, segments, remarks, complete, file, length, .. } = core;
        let folders = DebugFolders::new(&options.debug_folders);
        let mut memory = Memory::new(file, length, segments);
        memory.complete = complete;
        let modules = Modules::find(&notes, &mut memory, options, &folders)?;
        Ok(Self { notes, memory, modules, remarks, folders, stopped: None })
    }

    /// The thread that died, if the process did: the first.
    pub fn crashed(&self) -> Option<&Thread> {
        let signal = |thread: &&Thread| {
            let signal = thread.info.map_or(thread.signal, |info| info.signal);
            signal != 0 && !only_stops(signal)
        };
        self.notes.threads.first().filter(signal)
    }

    /// The signal that ended the process.
    pub fn signal(&self) -> Option<i32> {
        let thread = self.crashed()?;
        Some(thread.info.map_or(thread.signal, |info| info.signal))
    }

    /// More about that signal.
    pub fn signal_info(&self) -> Option<SignalInfo> {
        self.crashed()?.info
    }

    /// The executable.
    pub fn main(&self) -> Option<&Module> {
        self.modules.list.get(self.modules.main?)
    }

    /// The functions and lines at an address, inlined ones first: the last is
    /// the function whose code it is.
    pub fn places(&self, address: u64) -> Vec<Place> {
        let module = self.modules.of(address);
        let info = module.and_then(|module| Some((module, module.info(&self.folders)?)));
        info.map_or_else(Vec::new, |(module, info)| info.places(address.wrapping_sub(module.bias)))
    }
}
