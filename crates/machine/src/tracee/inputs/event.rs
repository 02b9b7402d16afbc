//! What is written down of a run: one event after another, each of a thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crate::Error;

/// What came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A system call of this number returned, or was made and does not return.
    Call(u16),
    /// A signal that has a handler.
    Signal(u16),
    /// The thread became another program.
    Started,
    /// It read the processor's clock.
    Clock,
    /// It ended.
    Ended,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What came in.
    pub what: What,
    /// What was returned; how the thread ended.
    pub value: i64,
    /// How many bytes came, of which `must` is made.
    pub length: u32,
    /// Made of what has to be the same.
    pub must: u64,
    /// Made of what may differ.
    pub may: u64,
}

/// A number made of bytes; others give another but by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub u64);

impl Digest {
    pub const NEW: Self = Self(0x6a09_e667_f3bc_c908);

    pub fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last));
        self.mix(bytes.len() as u64);
    }

    /// A step that can be undone of the finalizer of splitmix64.
    fn mix(&mut self, word: u64) {
        let number = (self.0 ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.0 = (number ^ (number >> 29)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
}

/// A thread: who it is, and what came into it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thread {
    /// In their order.
    pub events: Vec<Event>,
    /// Whether it ended by itself, and not with its process or the run.
    pub is_whole: bool,
}

/// A run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// By who started whom: its threads.
    pub threads: BTreeMap<Vec<u32>, Thread>,
    /// What came in that could not be written down.
    pub notes: BTreeSet<String>,
}

const MAGIC: &[u8; 8] = b"btinput1";

/// Writes a run down.
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self { out })
    }

    /// A thread of a number begins: the `nth` that another started.
    pub fn begins(&mut self, thread: u32, starter: Option<u32>, nth: u32) -> io::Result<()> {
        self.numbers(b'T', &[thread, starter.unwrap_or(u32::MAX), nth])
    }

    /// What came into it.
    pub fn event(&mut self, thread: u32, event: &Event) -> io::Result<()> {
        let (kind, number) = match event.what {
            What::Call(number) => (b'c', number),
            What::Signal(number) => (b's', number),
            What::Started => (b'x', 0),
            What::Clock => (b't', 0),
            What::Ended => (b'e', 0),
        };
        self.numbers(kind, &[thread, u32::from(number), event.length])?;
        for word in [event.value.cast_unsigned(), event.must, event.may] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        Ok(())
    }

    /// It ended by itself.
    pub fn is_whole(&mut self, thread: u32) -> io::Result<()> {
        self.numbers(b'W', &[thread])
    }

    /// What is to be said of the run; that is its end.
    pub fn finish(mut self, notes: &BTreeSet<String>) -> io::Result<()> {
        for note in notes {
            self.numbers(b'N', &[note.len() as u32])?;
            self.out.write_all(note.as_bytes())?;
        }
        self.numbers(b'.', &[])?;
        self.out.flush()
    }

    fn numbers(&mut self, kind: u8, numbers: &[u32]) -> io::Result<()> {
        self.out.write_all(&[kind])?;
        numbers.iter().try_for_each(|it| self.out.write_all(&it.to_le_bytes()))
    }
}

impl Recorded {
    /// Reads what was written.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        read(bytes).ok_or_else(|| Error::Corrupt("what came into a run was cut or changed".into()))
    }
}

fn read(bytes: &[u8]) -> Option<Recorded> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut found = Recorded::default();
    let mut names: Vec<Vec<u32>> = Vec::new();
    let mut threads: Vec<Thread> = Vec::new();
    loop {
        let (&kind, behind) = rest.split_first()?;
        rest = behind;
        match kind {
            b'T' => {
                let [thread, starter, nth] = take(&mut rest)?;
                if thread as usize != threads.len() {
                    return None;
                }
                let mut name = match starter {
                    u32::MAX => Vec::new(),
                    starter => names.get(starter as usize)?.clone(),
                };
                name.push(nth);
                names.push(name);
                threads.push(Thread::default());
            }
            b'W' => {
                let [thread] = take(&mut rest)?;
                threads.get_mut(thread as usize)?.is_whole = true;
            }
            b'N' => {
                let [length] = take(&mut rest)?;
                let (note, behind) = rest.split_at_checked(length as usize)?;
                rest = behind;
                found.notes.insert(String::from_utf8(note.to_vec()).ok()?);
            }
            b'.' if rest.is_empty() => break,
            b'c' | b's' | b'x' | b't' | b'e' => {
                let [thread, number, length] = take(&mut rest)?;
                let number = u16::try_from(number).ok()?;
                let [value, must, may] = [word(&mut rest)?, word(&mut rest)?, word(&mut rest)?];
                let what = match kind {
                    b'c' => What::Call(number),
                    b's' => What::Signal(number),
                    b'x' => What::Started,
                    b't' => What::Clock,
                    _ => What::Ended,
                };
                let event = Event { what, value: value.cast_signed(), length, must, may };
                threads.get_mut(thread as usize)?.events.push(event);
            }
            _ => return None,
        }
    }
    let count = names.len();
    found.threads = names.into_iter().zip(threads).collect();
    (found.threads.len() == count).then_some(found)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u32; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        let (bytes, behind) = rest.split_first_chunk::<4>()?;
        (*number, *rest) = (u32::from_le_bytes(*bytes), behind);
    }
    Some(numbers)
}

fn word(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, behind) = rest.split_first_chunk::<8>()?;
    *rest = behind;
    Some(u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_an_error() {
        let event = |what| Event { what, value: -4, length: 9, must: u64::MAX - 1, may: 7 };
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes).unwrap();
        writer.begins(0, None, 1).unwrap();
        writer.event(0, &event(What::Started)).unwrap();
        writer.begins(1, Some(0), 1).unwrap();
        writer.event(1, &event(What::Signal(10))).unwrap();
        writer.event(0, &event(What::Call(318))).unwrap();
        writer.event(1, &event(What::Clock)).unwrap();
        writer.event(1, &event(What::Ended)).unwrap();
        writer.is_whole(1).unwrap();
        let notes = BTreeSet::from(["more".to_owned()]);
        writer.finish(&notes).unwrap();
        let first = vec![event(What::Started), event(What::Call(318))];
        let second = vec![event(What::Signal(10)), event(What::Clock), event(What::Ended)];
        let threads = BTreeMap::from([
            (vec![1], Thread { events: first, is_whole: false }),
            (vec![1, 1], Thread { events: second, is_whole: true }),
        ]);
        assert_eq!(Recorded::read(&bytes).unwrap(), Recorded { threads, notes });
        for end in 0..bytes.len() {
            assert!(Recorded::read(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x55;
            // It is an error, or something else; never a panic.
            let _ = Recorded::read(&changed);
        }
    }

    #[test]
    fn other_bytes_have_another_digest() {
        let of = |parts: &[&[u8]]| {
            let mut digest = Digest::NEW;
            parts.iter().for_each(|part| digest.add(part));
            digest
        };
        let bytes: Vec<u8> = (0..40).collect();
        let mut seen = BTreeSet::new();
        for end in 0..=40 {
            assert!(seen.insert(of(&[&bytes[..end]]).0));
            assert!(seen.insert(of(&[&bytes[..end], &[0]]).0));
            for bit in 0..end * 8 {
                let mut other = bytes[..end].to_vec();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(of(&[&other]).0) || bit / 8 + 1 == end);
            }
        }
    }
}
