//! One variable of the environment the process was started with.
//!
//! Read from `/proc/self/environ`, which works before libc has set anything up
//! and whatever the program does to its `environ` afterwards.

use crate::name::Text;
use crate::sys::{self, Descriptor, Path};

/// Finds `NAME=` at the start of an entry in a stream of entries that end with
/// zeros, and copies what follows.
struct Search<'a, 'b> {
    prefix: &'a [u8],
    matched: usize,
    state: Progress,
    value: Text<'b>,
}

#[derive(Clone, Copy, PartialEq)]
enum Progress {
    Matching,
    Skipping,
    Copying,
    Done,
}

impl Search<'_, '_> {
    fn feed(&mut self, byte: u8) {
        self.state = match self.state {
            Progress::Matching if self.prefix.get(self.matched) == Some(&byte) => {
                self.matched += 1;
                if self.matched == self.prefix.len() {
                    Progress::Copying
                } else {
                    Progress::Matching
                }
            }
            Progress::Matching | Progress::Skipping => {
                self.matched = 0;
                if byte == 0 { Progress::Matching } else { Progress::Skipping }
            }
            Progress::Copying if byte != 0 => {
                self.value.push_byte(byte);
                Progress::Copying
            }
            Progress::Copying | Progress::Done => Progress::Done,
        };
    }
}

/// What was found of a variable.
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Variable {
    /// It is not set.
    Unset,
    /// It has this many bytes, now in the buffer.
    Value(usize),
    /// It is longer than the buffer.
    TooLong,
    /// The program has used all its descriptors up.
    NoDescriptor,
}

/// Copies the value of the variable named by `prefix` (with its `=`) into
/// `value`, reading piece by piece through `piece`.
pub(crate) fn read(prefix: &[u8], piece: &mut [u8], value: &mut [u8]) -> Variable {
    match open(b"/proc/self/environ\0") {
        Ok(file) => {
            let variable = read_from(|piece| sys::read(file, piece), prefix, piece, value);
            sys::close(file);
            variable
        }
        Err(sys::EMFILE) => Variable::NoDescriptor,
        // A process that changed its user may not open the file, but its
        // memory is still its own.
        Err(sys::EACCES) => match memory_range(piece) {
            Some((mut from, to)) => {
                let read_memory = |piece: &mut [u8]| {
                    let length = piece.len().min(to.saturating_sub(from));
                    let read = sys::read_memory(from, piece.get_mut(..length).unwrap_or_default());
                    from += read.unwrap_or(0);
                    read
                };
                read_from(read_memory, prefix, piece, value)
            }
            None => Variable::Unset,
        },
        Err(_) => Variable::Unset,
    }
}

fn open(path: &[u8]) -> Result<Descriptor, sys::Error> {
    let path = Path::new(path).ok_or(sys::ENOENT)?;
    sys::open(Descriptor(sys::AT_FDCWD), path, sys::O_RDONLY, 0)
}

/// Where the environment is in memory: fields 50 and 51 of `/proc/self/stat`,
/// which has the program's name in parentheses as field 2.
fn memory_range(piece: &mut [u8]) -> Option<(usize, usize)> {
    let file = open(b"/proc/self/stat\0").ok()?;
    let length = sys::read(file, piece);
    sys::close(file);
    stat_range(piece.get(..length.ok()?)?)
}

fn stat_range(stat: &[u8]) -> Option<(usize, usize)> {
    let mut fields = stat.rsplit(|&byte| byte == b')').next()?.split(|&byte| byte == b' ').skip(48);
    let mut number = || {
        let digits = fields.next()?;
        digits.iter().try_fold(0usize, |number, digit| {
            let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
            number.checked_mul(10)?.checked_add(digit.into())
        })
    };
    Some((number()?, number()?))
}

fn read_from(
    mut source: impl FnMut(&mut [u8]) -> Result<usize, sys::Error>,
    prefix: &[u8],
    piece: &mut [u8],
    value: &mut [u8],
) -> Variable {
    let mut search =
        Search { prefix, matched: 0, state: Progress::Matching, value: Text::after(value, 0) };
    loop {
        match source(piece) {
            Ok(0) => break,
            Ok(length) => piece.iter().take(length).for_each(|&byte| search.feed(byte)),
            Err(sys::EINTR) => {}
            Err(_) => break,
        }
        if search.state == Progress::Done {
            break;
        }
    }
    match search.state {
        Progress::Copying | Progress::Done => match search.value.length() {
            Some(length) => Variable::Value(length),
            None => Variable::TooLong,
        },
        Progress::Matching | Progress::Skipping => Variable::Unset,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn find(mut environment: &[u8], piece: usize) -> Option<Vec<u8>> {
        let mut value = [0; 16];
        let source = |piece: &mut [u8]| Ok(environment.read(piece).unwrap());
        match read_from(source, b"DIR=", &mut vec![0; piece], &mut value) {
            Variable::Unset => None,
            Variable::Value(length) => Some(value[..length].to_vec()),
            Variable::TooLong => Some(b"too long".to_vec()),
            Variable::NoDescriptor => unreachable!(),
        }
    }

    #[test]
    fn the_environment_is_found_in_memory() {
        let mut piece = [0; 1024];
        let (from, to) = memory_range(&mut piece).unwrap();
        let mut memory = vec![0; to - from];
        assert_eq!(sys::read_memory(from, &mut memory), Ok(memory.len()));
        assert_eq!(memory, std::fs::read("/proc/self/environ").unwrap());
        assert_eq!(stat_range(b"12 (a) b 1) 2 (c)) S 1"), None);
        let fields: Vec<_> = (3..60).map(|field| field.to_string()).collect();
        let stat = format!("12 (a) 3 4) {}\n", fields.join(" "));
        assert_eq!(stat_range(stat.as_bytes()), Some((50, 51)));
    }

    #[test]
    fn a_variable_is_found_whatever_the_pieces() {
        for piece in 1..40 {
            assert_eq!(find(b"A=1\0DIR=/x/y\0B=2\0", piece), Some(b"/x/y".to_vec()));
            assert_eq!(find(b"XDIR=no\0DIRT=no\0ADIR=DIR=no\0", piece), None);
            assert_eq!(find(b"DI\0DIR=\0", piece), Some(Vec::new()));
            assert_eq!(find(b"DDIR=no\0DIDIR=no\0DIR=last", piece), Some(b"last".to_vec()));
            assert_eq!(find(b"DIR=0123456789abcdef\0", piece).unwrap(), b"0123456789abcdef");
            assert_eq!(find(b"DIR=0123456789abcdefg\0", piece).unwrap(), b"too long");
            assert_eq!(find(b"", piece), None);
        }
    }
}
