//! What a program finds on its stack when it begins: arguments, environment, and the
//! auxiliary vector (`getauxval(3)`), in which two things are changed.
//!
//! The sixteen random bytes are others, which are the same in all runs. The vDSO is not
//! named, so that nobody finds it: functions that tell the time are system calls then.

use std::io::IoSlice;

use nix::sys::uio::{RemoteIoVec, process_vm_writev};

use super::outputs::{Given, Memory};

const AT_NULL: u64 = 0;
const AT_IGNORE: u64 = 1;
const AT_PHDR: u64 = 3;
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_PLATFORM: u64 = 15;
const AT_BASE_PLATFORM: u64 = 24;
const AT_RANDOM: u64 = 25;
const AT_EXECFN: u64 = 31;
const AT_SYSINFO_EHDR: u64 = 33;

/// What a program is started with.
pub struct Start {
    /// What it finds.
    pub given: Given,
    /// Where the dynamic linker was loaded; 0 if there is none.
    pub linker: u64,
}

/// Reads it and changes it; `random` becomes what it finds at random. Nothing if the
/// stack is not as a program finds it.
pub fn fix(memory: Memory, stack: u64, random: &[u8; 16]) -> Option<Start> {
    let mut given = Given::NOTHING;
    let mut at = stack;
    let mut next = || {
        let bytes: [u8; 8] = memory.read(at, 8).try_into().ok()?;
        at += 8;
        Some((at - 8, u64::from_le_bytes(bytes)))
    };
    let (_, count) = next()?;
    given.must(&count.to_le_bytes());
    // Arguments, and variables: each ends with nothing.
    for _ in 0..2 {
        loop {
            match next()? {
                (_, 0) => break,
                (_, text) => given.must(&string(memory, text)),
            }
        }
        given.must(&[0]);
    }
    let mut linker = 0;
    loop {
        let ((place, kind), (_, value)) = (next()?, next()?);
        match kind {
            AT_NULL => break,
            AT_SYSINFO_EHDR => write(memory, place, &AT_IGNORE.to_le_bytes())?,
            AT_RANDOM => write(memory, value, random)?,
            AT_PHDR | AT_ENTRY => given.may.add(&value.to_le_bytes()),
            AT_BASE => {
                linker = value;
                given.may.add(&value.to_le_bytes());
            }
            AT_PLATFORM | AT_BASE_PLATFORM | AT_EXECFN => given.must(&string(memory, value)),
            _ => {
                given.must(&kind.to_le_bytes());
                given.must(&value.to_le_bytes());
            }
        }
    }
    given.must(random);
    Some(Start { given, linker })
}

/// A text that ends with a zero.
fn string(memory: Memory, mut at: u64) -> Vec<u8> {
    let mut text = Vec::new();
    loop {
        // Up to the end of a page, behind which there may be nothing.
        let bytes = memory.read(at, 4096 - (at % 4096) as usize);
        match bytes.iter().position(|&byte| byte == 0) {
            Some(end) => text.extend_from_slice(&bytes[..end]),
            None => text.extend_from_slice(&bytes),
        }
        if bytes.is_empty() || bytes.contains(&0) {
            return text;
        }
        at += bytes.len() as u64;
    }
}

/// Writes into memory.
pub fn write(memory: Memory, at: u64, bytes: &[u8]) -> Option<()> {
    let remote = [RemoteIoVec { base: at as usize, len: bytes.len() }];
    let written = process_vm_writev(memory.0, &[IoSlice::new(bytes)], &remote).ok()?;
    (written == bytes.len()).then_some(())
}
