//! The notes of a core: threads, signal, program, auxiliary vector, mapped
//! files.
//!
//! Each note is a name, a kind and a description, padded to four bytes. Those
//! of a thread follow its `NT_PRSTATUS`. A note that is shorter than its kind
//! says is skipped, and so is one of a kind that is not known.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::bytes::Bytes;
use crate::registers::Registers;

const NT_PRSTATUS: u32 = 1;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_SIGINFO: u32 = 0x5349_4749;
const NT_FILE: u32 = 0x4649_4c45;

/// `AT_PHDR`: where the executable's program headers are.
pub const AT_PHDR: u64 = 3;
/// `AT_PHNUM`: how many these are.
pub const AT_PHNUM: u64 = 5;
/// `AT_ENTRY`: where the executable begins.
pub const AT_ENTRY: u64 = 9;
/// `AT_SYSINFO_EHDR`: where the vDSO is.
pub const AT_SYSINFO_EHDR: u64 = 33;

/// What the notes of a core tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// The threads. The kernel writes the one that died first, and so does
    /// gcore with the one that it stopped at.
    pub threads: Vec<Thread>,
    /// The program, as `ps` would show it.
    pub program: Option<Program>,
    /// The auxiliary vector, as far as its end.
    pub auxiliary: Vec<(u64, u64)>,
    /// The mapped files.
    pub files: Vec<MappedFile>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's number for it.
    pub id: u32,
    /// The signal it had got; 0 if none.
    pub signal: i32,
    /// Its registers.
    pub registers: Registers,
    /// More about the signal, if there was one.
    pub info: Option<SignalInfo>,
}

/// More about a signal (`siginfo_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalInfo {
    /// Its number.
    pub signal: i32,
    /// Why it was sent.
    pub code: i32,
    /// For a fault, the address.
    pub address: u64,
    /// For a signal that a process sent, which one.
    pub sender: u32,
}

/// The program, as `ps` would show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// The process.
    pub pid: u32,
    /// The first fifteen characters of its name.
    pub name: String,
    /// The first eighty characters of its command line.
    pub command: String,
}

/// A part of a file that was mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    /// The first address.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file, as the process saw it.
    pub path: PathBuf,
}

impl Notes {
    /// Adds what a note segment tells.
    pub fn read(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while rest.len() >= 12 {
            let header = Bytes(rest);
            let (name, size) = (header.quarter(0) as usize, header.quarter(4) as usize);
            let kind = header.quarter(8);
            let padded = |length: usize| length.saturating_add(3) & !3;
            let start = 12usize.saturating_add(padded(name));
            let end = start.saturating_add(size);
            let Some(description) = rest.get(start..end) else {
                // The last one may have lost its end: mapped files are a list.
                if kind == NT_FILE && is_core(rest, name) {
                    self.read_files(rest.get(start..).unwrap_or_default());
                }
                return;
            };
            if is_core(rest, name) {
                self.read_note(kind, description);
            }
            rest = rest.get(start.saturating_add(padded(size))..).unwrap_or_default();
        }
    }

    fn read_note(&mut self, kind: u32, description: &[u8]) {
        let field = Bytes(description);
        match kind {
            NT_PRSTATUS if description.len() >= 112 + 27 * 8 => {
                let words = std::array::from_fn(|place| field.word(112 + 8 * place));
                self.threads.push(Thread {
                    id: field.quarter(32),
                    signal: i32::from(field.half(12)),
                    registers: Registers::from_user(&words),
                    info: None,
                });
            }
            NT_PRPSINFO if description.len() >= 136 => {
                self.program = Some(Program {
                    pid: field.quarter(24),
                    name: field.text(40, 16),
                    command: field.text(56, 80).trim_end().to_owned(),
                });
            }
            NT_SIGINFO if description.len() >= 24 => {
                let info = SignalInfo {
                    signal: field.signed(0),
                    code: field.signed(8),
                    address: field.word(16),
                    sender: field.quarter(16),
                };
                if let Some(thread) = self.threads.last_mut() {
                    thread.info = Some(info);
                }
            }
            NT_AUXV => {
                let pairs = description.chunks_exact(16).map(Bytes);
                let pairs = pairs.map(|pair| (pair.word(0), pair.word(8)));
                self.auxiliary = pairs.take_while(|&(kind, _)| kind != 0).collect();
            }
            NT_FILE => self.read_files(description),
            _ => {}
        }
    }

    fn read_files(&mut self, description: &[u8]) {
        let field = Bytes(description);
        let (count, page) = (field.word(0), field.word(8));
        let most = description.len() as u64 / 24;
        let count = count.min(most) as usize;
        let names = description.get(16 + 24 * count..).unwrap_or_default();
        let names = names.split(|&byte| byte == 0).map(|name| Path::new(OsStr::from_bytes(name)));
        self.files = (0..count)
            .zip(names)
            .map(|(place, path)| MappedFile {
                start: field.word(16 + 24 * place),
                end: field.word(24 + 24 * place),
                offset: field.word(32 + 24 * place).saturating_mul(page),
                path: path.to_owned(),
            })
            .filter(|file| file.start < file.end && !file.path.as_os_str().is_empty())
            .collect();
        self.files.sort_by_key(|file| file.start);
    }

    /// An entry of the auxiliary vector.
    pub fn auxiliary(&self, kind: u64) -> Option<u64> {
        self.auxiliary.iter().find(|&&(entry, _)| entry == kind).map(|&(_, value)| value)
    }
}

fn is_core(note: &[u8], name: usize) -> bool {
    name >= 4 && note.get(12..16) == Some(b"CORE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, description: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(5u32.to_le_bytes());
        bytes.extend((description.len() as u32).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(b"CORE\0\0\0\0");
        bytes.extend(description);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn sample() -> Vec<u8> {
        let mut status = vec![0; 336];
        status[12] = 11;
        status[32] = 7;
        status[112 + 16 * 8] = 0x42;
        let mut signal = vec![0; 128];
        (signal[0], signal[8], signal[16]) = (11, 1, 0x10);
        let mut files = Vec::new();
        for word in [2u64, 4096, 0x1000, 0x2000, 0, 0x2000, 0x3000, 1] {
            files.extend(word.to_le_bytes());
        }
        files.extend(b"/a/b\0/a/b\0");
        let auxiliary: Vec<u8> =
            [9u64, 0x1234, 0, 0, 3, 3].iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut bytes = note(NT_PRSTATUS, &status);
        bytes.extend(note(NT_SIGINFO, &signal));
        bytes.extend(note(0x9999, b"abc"));
        bytes.extend(note(NT_AUXV, &auxiliary));
        bytes.extend(note(NT_FILE, &files));
        bytes
    }

    #[test]
    fn each_note_is_read() {
        let mut notes = Notes::default();
        notes.read(&sample());
        let [thread] = &notes.threads[..] else { panic!("{notes:?}") };
        assert_eq!((thread.id, thread.signal), (7, 11));
        assert_eq!(thread.registers.program_counter(), Some(0x42));
        assert_eq!(thread.info.map(|info| (info.code, info.address)), Some((1, 0x10)));
        assert_eq!(notes.auxiliary(AT_ENTRY), Some(0x1234));
        assert_eq!(notes.auxiliary(AT_PHDR), None);
        assert_eq!(notes.files.len(), 2);
        assert_eq!((notes.files[1].offset, &*notes.files[1].path), (4096, Path::new("/a/b")));
    }

    #[test]
    fn notes_that_end_early_tell_what_came_before() {
        let bytes = sample();
        for length in 0..bytes.len() {
            let mut notes = Notes::default();
            notes.read(&bytes[..length]);
            assert_eq!(notes.threads.len(), usize::from(length >= 20 + 336), "{length}");
        }
        let mut notes = Notes::default();
        notes.read(&[0xff; 64]);
        assert_eq!(notes, Notes::default());
    }
}
