//! What a system call wrote into the memory of whoever called.
//!
//! Its bytes go into two numbers: of what has to be the same in all runs, and of what may
//! differ. Layouts are those of Linux on x86-64 (`include/uapi`).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{IoSliceMut, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use nix::libc;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::calls::{Call, Length, Output};
use super::event::Digest;

/// Memory of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Memory(pub Pid);

impl Memory {
    /// As many bytes as there are, of so many.
    pub fn read(self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length.min(LARGEST)];
        let remote = [RemoteIoVec { base: address as usize, len: bytes.len() }];
        let read = process_vm_readv(self.0, &mut [IoSliceMut::new(&mut bytes)], &remote);
        bytes.truncate(read.unwrap_or(0));
        bytes
    }

    /// A word of eight bytes; 0 if there is none.
    pub fn word(self, address: u64) -> u64 {
        self.read(address, 8).try_into().map_or(0, u64::from_le_bytes)
    }

    /// A word of four bytes; 0 if there is none.
    pub fn half(self, address: u64) -> u32 {
        self.read(address, 4).try_into().map_or(0, u32::from_le_bytes)
    }

    /// The file that a descriptor is, under the name the kernel has for it.
    pub fn file(self, descriptor: u64) -> Option<PathBuf> {
        std::fs::read_link(self.descriptor(descriptor)).ok()
    }

    fn descriptor(self, descriptor: u64) -> PathBuf {
        format!("/proc/{}/fd/{}", self.0, descriptor as i32).into()
    }
}

/// More is not read at once.
const LARGEST: usize = 1 << 30;

/// A call that returned.
pub struct Returned<'a> {
    /// Which.
    pub call: &'static Call,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// What it returned; not an error.
    pub value: u64,
    /// What was at the pointers that say how long a buffer is, before.
    pub lengths: [u64; 6],
    /// Files are of the run alone if they changed later than this: seconds, nanoseconds.
    pub since: (i64, i64),
    /// Where it was made.
    pub memory: Memory,
    /// What came in that cannot be compared.
    pub notes: &'a mut BTreeSet<String>,
}

/// What came.
#[derive(Debug, Clone, Copy)]
pub struct Given {
    /// How many bytes.
    pub length: u64,
    /// Made of what has to be the same.
    pub must: Digest,
    /// Made of what may differ.
    pub may: Digest,
}

impl Given {
    pub const NOTHING: Self = Self { length: 0, must: Digest::NEW, may: Digest::NEW };

    /// Bytes that have to be the same.
    pub fn must(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.must.add(bytes);
    }

    fn either(&mut self, is_loose: bool, bytes: &[u8]) {
        if is_loose { self.may.add(bytes) } else { self.must(bytes) }
    }
}

impl Returned<'_> {
    /// Reads what it wrote.
    pub fn given(&mut self) -> Given {
        let mut given = Given::NOTHING;
        for output in &self.call.outputs {
            match output {
                Output::Bytes { argument, length, is_loose } => {
                    self.bytes(&mut given, *argument, *length, *is_loose);
                }
                Output::Rule(rule, arguments) => self.rule(&mut given, rule, arguments),
            }
        }
        given
    }

    fn bytes(&self, given: &mut Given, argument: usize, length: Length, is_loose: bool) {
        let address = self.arguments[argument];
        if address == 0 {
            return;
        }
        let length = match length {
            Length::Bytes(bytes) => bytes,
            Length::Returned(times, more) => self.value.saturating_mul(times).saturating_add(more),
            Length::Argument(argument, times) => self.arguments[argument].saturating_mul(times),
            Length::Bits(argument) => (self.arguments[argument] as u32).div_ceil(64) as u64 * 8,
            Length::Pages(argument) => self.arguments[argument].div_ceil(4096),
            Length::Pointed(argument) => {
                let now = u64::from(self.memory.half(self.arguments[argument]));
                now.min(self.lengths[argument])
            }
        };
        given.either(is_loose, &self.memory.read(address, length as usize));
    }

    fn rule(&mut self, given: &mut Given, rule: &str, arguments: &[usize]) {
        let (all, memory) = (self.arguments, self.memory);
        let at = |number: usize| arguments.get(number).map_or(0, |&it| all[it]);
        match rule {
            "stat" => stat(given, &memory.read(at(0), 144), self.since),
            "statx" => statx(given, &memory.read(at(0), 256), self.since),
            "dents" => entries(given, &memory.read(at(0), self.value as usize)),
            "epoll" => {
                let bytes = memory.read(at(0), self.value as usize * 12);
                for event in bytes.chunks_exact(12) {
                    given.must(&event[..4]);
                    // Programs keep addresses there.
                    given.may.add(&event[4..]);
                }
            }
            "iov" => vectors(given, memory, at(0), at(1), self.value),
            "msg" => message(given, memory, at(0), self.value),
            "mmsg" => {
                for number in 0..self.value.min(1024) {
                    let header = at(0) + number * 64;
                    let length = memory.half(header + 56);
                    given.must(&length.to_le_bytes());
                    message(given, memory, header, length.into());
                }
            }
            "ioctl" => self.ioctl(given),
            "fcntl" => {
                let length = match all[1] as i32 {
                    libc::F_GETLK | libc::F_OFD_GETLK => 32,
                    // F_GETOWN_EX; F_GET_RW_HINT, F_GET_FILE_RW_HINT.
                    16 | 1035 | 1037 => 8,
                    _ => return,
                };
                given.must(&memory.read(all[2], length));
            }
            "prctl" => match all[0] as i32 {
                libc::PR_GET_NAME => given.must(&memory.read(all[1], 16)),
                libc::PR_GET_PDEATHSIG | libc::PR_GET_CHILD_SUBREAPER | libc::PR_GET_TSC => {
                    given.must(&memory.read(all[1], 4));
                }
                libc::PR_GET_TID_ADDRESS => given.may.add(&memory.read(all[1], 8)),
                libc::PR_SET_TSC => self.note("rdtsc, which the program allows itself"),
                _ => {}
            },
            // ARCH_GET_FS and ARCH_GET_GS.
            "arch_prctl" if [0x1003, 0x1004].contains(&all[0]) => {
                given.may.add(&memory.read(all[1], 8));
            }
            "mmap" => self.mapping(given),
            "?" => self.note(&format!("what {} gives", self.call.name)),
            _ => {}
        }
    }

    fn note(&mut self, what: &str) {
        self.notes.insert(what.to_owned());
    }

    /// Newer requests say how much they write (`_IOC` in <asm-generic/ioctl.h>), older ones
    /// do not.
    fn ioctl(&mut self, given: &mut Given) {
        let request = self.arguments[1] as u32;
        let length = match request {
            0x5401 => 36,
            0x5405 => 18,
            0x5413 => 8,
            0x540f | 0x5411 | 0x5415 | 0x541b | 0x5424 | 0x5429 => 4,
            // Of terminals and descriptors, without a result.
            0x5400..=0x542f | 0x5450..=0x545f => return,
            _ if request >> 30 & 2 != 0 => request as usize >> 16 & 0x3fff,
            _ if request >> 30 == 1 => return,
            _ => return self.note(&format!("what ioctl {request:#x} gives")),
        };
        given.must(&self.memory.read(self.arguments[2], length));
    }

    /// What a mapped file holds now.
    fn mapping(&mut self, given: &mut Given) {
        let [_, length, protection, flags, descriptor, offset] = self.arguments;
        let is_shared = flags & 3 != libc::MAP_PRIVATE as u64;
        if is_shared && protection & libc::PROT_WRITE as u64 != 0 {
            self.note(super::TURNS);
        }
        if flags & libc::MAP_ANONYMOUS as u64 != 0 {
            return;
        }
        let path = self.memory.descriptor(descriptor);
        let name = self.memory.file(descriptor).unwrap_or_default();
        if !std::fs::metadata(&path).is_ok_and(|it| it.is_file()) {
            return self.note(&format!("what is mapped of {}", name.display()));
        }
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(offset))?;
            let mut bytes = Vec::new();
            file.take(length).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => given.must(&bytes),
            Err(_) => self.note(&format!("what is mapped of {}", name.display())),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> i64 {
    let bytes = bytes.get(at..at + 8).and_then(|it| it.try_into().ok());
    bytes.map_or(0, i64::from_le_bytes)
}

/// Parts of a structure: those of the ranges that may differ, and the others.
fn split(given: &mut Given, bytes: &[u8], loose: &[(usize, usize)]) {
    let mut kept = bytes.to_vec();
    for &(start, end) in loose {
        let Some(part) = kept.get_mut(start..end) else { continue };
        given.may.add(part);
        part.fill(0);
    }
    given.must(&kept);
}

/// `struct stat`. When a file was read last differs; its number and device differ if the
/// device is one without a number of its own, as overlays and pipes have; these and its
/// times differ if it changed in this run.
fn stat(given: &mut Given, bytes: &[u8], since: (i64, i64)) {
    let changed = (word(bytes, 104), word(bytes, 112)) >= since;
    let is_nameless = word(bytes, 0) >> 8 & 0xfff == 0;
    let mut loose = vec![(72, 88)];
    if changed || is_nameless {
        loose.push((0, 16));
    }
    if changed {
        // Blocks; when it was written, and changed.
        loose.extend([(64, 72), (88, 120)]);
    }
    split(given, bytes, &loose);
}

/// `struct statx`, in the same way.
fn statx(given: &mut Given, bytes: &[u8], since: (i64, i64)) {
    let changed = (word(bytes, 96), word(bytes, 104) & 0xffff_ffff) >= since;
    let is_nameless = word(bytes, 136) & 0xffff_ffff == 0;
    // When it was read last; the number of the mount.
    let mut loose = vec![(64, 80), (144, 152)];
    if changed || is_nameless {
        loose.extend([(32, 40), (136, 144)]);
    }
    if changed {
        loose.extend([(48, 56), (80, 128)]);
    }
    split(given, bytes, &loose);
}

/// `struct linux_dirent64`, one after another: numbers and positions may differ.
fn entries(given: &mut Given, mut bytes: &[u8]) {
    while bytes.len() > 19 {
        let length = usize::from(u16::from_le_bytes([bytes[16], bytes[17]])).max(19);
        let Some((entry, rest)) = bytes.split_at_checked(length) else { return };
        let name = entry[19..].split(|&byte| byte == 0).next().unwrap_or_default();
        given.may.add(&entry[..16]);
        given.must(&entry[16..19]);
        given.must(name);
        bytes = rest;
    }
}

/// As many bytes as came, of `count` buffers (`struct iovec`).
fn vectors(given: &mut Given, memory: Memory, at: u64, count: u64, mut left: u64) {
    for number in 0..count.min(1024) {
        let (base, length) = (memory.word(at + number * 16), memory.word(at + number * 16 + 8));
        let length = length.min(left);
        given.must(&memory.read(base, length as usize));
        left -= length;
    }
}

/// `struct msghdr`, by which so many bytes came.
fn message(given: &mut Given, memory: Memory, at: u64, length: u64) {
    let header = memory.read(at, 56);
    if header.len() < 56 {
        return;
    }
    let field = |at: usize| word(&header, at).cast_unsigned();
    let (name, vector, control) = (field(0), field(16), field(32));
    if name != 0 {
        let length = field(8) as u32;
        given.must(&memory.read(name, length.min(128) as usize));
    }
    vectors(given, memory, vector, field(24), length);
    if control != 0 {
        given.must(&memory.read(control, field(40) as usize));
    }
    // Flags.
    given.must(&header[48..52]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_a_file_of_the_run_alone_may_differ() {
        let of = |bytes: &[u8]| {
            let mut given = Given::NOTHING;
            stat(&mut given, bytes, (100, 5));
            (given.must.0, given.may.0)
        };
        let mut old = vec![0; 144];
        // A device with a number of its own, and a file that was changed long ago.
        old[1] = 8;
        old[104] = 99;
        let mut new = old.clone();
        (new[104], new[112]) = (100, 5);
        for byte in 0..144 {
            // Another time makes another kind of file.
            if (104..120).contains(&byte) {
                continue;
            }
            let differs = |of_file: &[u8]| {
                let mut other = of_file.to_vec();
                other[byte] ^= if byte == 1 { 4 } else { 0x20 };
                (of(of_file).0 != of(&other).0, of(of_file).1 != of(&other).1)
            };
            let is_read = (72..88).contains(&byte);
            assert_eq!(differs(&old), (!is_read, is_read), "{byte}");
            let may = byte < 16 || (64..104).contains(&byte);
            assert_eq!(differs(&new), (!may, may), "{byte}");
        }
    }
}
