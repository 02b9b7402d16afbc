//! Core dumps: what a process was when it died.
//!
//! A core is an ELF file of type `ET_CORE`: a note segment, in which the kernel
//! (or gdb's gcore) tells of registers, signal and mapped files, and one
//! segment for each mapping, of which all, some or none is in the file. Only
//! x86-64 cores are read. One that was compressed with zstd or lz4, as
//! systemd-coredump does, is expanded into a file that has no name.
//!
//! A core that ends early (a full disk, `ulimit -c`) is a core: headers and
//! notes come first, and whatever is still there can be told. What is missing
//! is in [`CoreFile::remarks`], and reading from there says so.
//!
//! Layouts: `fs/binfmt_elf.c` of Linux, `include/uapi/linux/elf.h`.

mod expand;
pub mod notes;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use object::elf;

use crate::Error;
use crate::bytes::Bytes;
use notes::Notes;

/// A core dump, opened.
#[derive(Debug)]
pub struct CoreFile {
    /// Where it is.
    pub path: PathBuf,
    /// What the notes tell.
    pub notes: Notes,
    /// The mappings of the process, by address; none overlaps another.
    pub segments: Vec<Segment>,
    /// What is wrong with the file, in sentences.
    pub remarks: Vec<String>,
    /// Whether all of the mappings are known.
    pub(crate) complete: bool,
    /// The bytes, expanded.
    pub(crate) file: File,
    /// How many there are.
    pub(crate) length: u64,
}

/// One mapping of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its first address.
    pub start: u64,
    /// How long it is.
    pub size: u64,
    /// Where its contents begin in the file.
    pub offset: u64,
    /// How much of it was written to the file.
    pub dumped: u64,
    /// Whether it could be written to.
    pub writable: bool,
    /// Whether it could be executed.
    pub executable: bool,
}

impl Segment {
    /// The address behind its last one.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }

    /// Whether it holds an address.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end()).contains(&address)
    }
}

const HEADER: usize = 64;
const PROGRAM_HEADER: u64 = 56;
const SECTION_HEADER: u64 = 64;

/// No process has more mappings (the kernel's limit is 65530 unless raised).
const MOST_SEGMENTS: u64 = 4 << 20;
/// Notes are some kilobytes for each thread.
const MOST_NOTES: u64 = 1 << 30;

impl CoreFile {
    /// Opens a core dump and reads its headers and notes.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Core { path: path.to_owned(), what: what.to_owned() };
        let mut remarks = Vec::new();
        let file = expand::open(path, &mut remarks)?;
        let length = file.metadata().map_err(Error::read(path))?.len();
        let mut header = [0; HEADER];
        let got = read_up_to(&file, &mut header, 0).map_err(Error::read(path))?;
        check_header(&header[..got]).map_err(|what| wrong(&what))?;
        let mut core = Self {
            path: path.to_owned(),
            notes: Notes::default(),
            segments: Vec::new(),
            remarks,
            complete: true,
            file,
            length,
        };
        core.read_program_headers(&header).map_err(|error| match error {
            Problem::Io(source) => Error::Read { path: path.to_owned(), source },
            Problem::Damaged(what) => wrong(&what),
        })?;
        if core.notes.threads.is_empty() {
            let why = match core.remarks.first() {
                Some(remark) => format!("no thread's registers are in it: {remark}"),
                None => "no thread's registers are in it".to_owned(),
            };
            return Err(wrong(&why));
        }
        Ok(core)
    }

    fn read_program_headers(&mut self, header: &[u8]) -> Result<(), Problem> {
        let header = Bytes(header);
        let (offset, size) = (header.word(32), u64::from(header.half(54)));
        let mut count = u64::from(header.half(56));
        if size != PROGRAM_HEADER {
            return Err(Problem::Damaged(format!(
                "damaged core dump: program headers of {size} bytes, not {PROGRAM_HEADER}"
            )));
        }
        if count == u64::from(elf::PN_XNUM) {
            // More than fit: the number is in the first section header.
            let mut section = [0; SECTION_HEADER as usize];
            let got = read_up_to(&self.file, &mut section, header.word(40))?;
            if got < section.len() {
                return Err(Problem::Damaged(
                    "truncated core dump: it ends before the number of its segments".to_owned(),
                ));
            }
            count = u64::from(Bytes(&section).quarter(44)).min(MOST_SEGMENTS);
        }
        let there = self.length.saturating_sub(offset) / PROGRAM_HEADER;
        if there < count {
            self.complete = false;
            self.remarks.push(format!(
                "the core is truncated: it ends within its headers, after {there} of {count} \
                 segments"
            ));
        }
        let mut table = vec![0; (there.min(count) * PROGRAM_HEADER) as usize];
        let got = read_up_to(&self.file, &mut table, offset)?;
        table.truncate(got);
        let mut expected = 0;
        for entry in table.chunks_exact(PROGRAM_HEADER as usize).map(Bytes) {
            let kind = elf::ProgramType(entry.quarter(0));
            let flags = entry.quarter(4);
            let (start, dumped) = (entry.word(16), entry.word(32));
            let offset = entry.word(8);
            if kind == elf::PT_NOTE {
                self.read_notes(offset, dumped)?;
            }
            if kind == elf::PT_LOAD {
                expected = expected.max(offset.saturating_add(dumped));
                self.segments.push(Segment {
                    start,
                    size: entry.word(40).max(dumped).min(u64::MAX - start),
                    offset,
                    dumped,
                    writable: flags & elf::PF_W.0 != 0,
                    executable: flags & elf::PF_X.0 != 0,
                });
            }
        }
        if expected > self.length {
            let missing = expected - self.length;
            self.remarks.push(format!(
                "the core is truncated: {missing} of its {expected} bytes are missing, and what was in \
                 them is not known"
            ));
        }
        self.segments.sort_by_key(|segment| segment.start);
        let before = self.segments.len();
        let mut end = 0;
        self.segments.retain(|segment| {
            let apart = segment.start >= end && segment.size > 0;
            end = if apart { segment.end() } else { end };
            apart
        });
        let overlapping = before - self.segments.len();
        if overlapping > 0 {
            self.remarks.push(format!("{overlapping} segments overlap others and are ignored"));
        }
        Ok(())
    }

    fn read_notes(&mut self, offset: u64, size: u64) -> Result<(), Problem> {
        let there = size.min(self.length.saturating_sub(offset)).min(MOST_NOTES);
        let mut bytes = vec![0; there as usize];
        let got = read_up_to(&self.file, &mut bytes, offset)?;
        bytes.truncate(got);
        self.notes.read(&bytes);
        if (got as u64) < size {
            self.remarks.push(format!(
                "the core is truncated: only {got} of {size} bytes of its notes are there, threads \
                 may be missing"
            ));
        }
        Ok(())
    }

    /// The mapping that holds an address.
    pub fn segment(&self, address: u64) -> Option<&Segment> {
        find_segment(&self.segments, address)
    }
}

/// The mapping, of some that are sorted, that holds an address.
pub(crate) fn find_segment(segments: &[Segment], address: u64) -> Option<&Segment> {
    let behind = segments.partition_point(|segment| segment.start <= address);
    segments[..behind].last().filter(|segment| segment.contains(address))
}

enum Problem {
    Io(io::Error),
    Damaged(String),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What a file is instead of an x86-64 core, in a sentence.
fn check_header(header: &[u8]) -> Result<(), String> {
    let hint = "a core dump is what the kernel or gcore wrote of a process";
    if header.is_empty() {
        return Err("an empty file, not a core dump".to_owned());
    }
    if !header.starts_with(&elf::ELFMAG) {
        return Err(format!("not a core dump: not even an ELF file ({hint})"));
    }
    let bytes = Bytes(header);
    if header.len() < HEADER {
        return Err("truncated core dump: nothing but a part of its header is there".to_owned());
    }
    let machine = elf::Machine(bytes.half(18));
    let name = machine_name(machine);
    if header[4] != elf::ELFCLASS64.0 {
        return Err(format!(
            "a 32-bit file ({name}): only cores of 64-bit x86-64 programs can be read; gdb can \
             still show its stack"
        ));
    }
    if header[5] != elf::ELFDATA2LSB.0 || machine != elf::EM_X86_64 {
        return Err(format!(
            "of another architecture ({name}): only cores of x86-64 programs can be read; \
             gdb-multiarch can still show its stack"
        ));
    }
    match elf::FileType(bytes.half(16)) {
        elf::ET_CORE => Ok(()),
        elf::ET_EXEC | elf::ET_DYN => Err(format!(
            "not a core dump but an executable or a shared library ({hint}; give an executable \
             with --exe)"
        )),
        elf::ET_REL => Err(format!("not a core dump but an object file ({hint})")),
        _ => Err(format!("not a core dump ({hint})")),
    }
}

fn machine_name(machine: elf::Machine) -> String {
    match machine {
        elf::EM_386 => "i386".to_owned(),
        elf::EM_X86_64 => "x86-64".to_owned(),
        elf::EM_ARM => "ARM".to_owned(),
        elf::EM_AARCH64 => "AArch64".to_owned(),
        elf::EM_RISCV => "RISC-V".to_owned(),
        elf::EM_PPC64 => "PowerPC64".to_owned(),
        elf::EM_S390 => "S/390".to_owned(),
        elf::EM_MIPS => "MIPS".to_owned(),
        other => format!("machine {}", other.0),
    }
}

/// Reads as much as there is, up to a full buffer.
pub(crate) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        let Some(place) = offset.checked_add(filled as u64).filter(|&at| at <= i64::MAX as u64)
        else {
            break;
        };
        match file.read_at(&mut buffer[filled..], place) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
