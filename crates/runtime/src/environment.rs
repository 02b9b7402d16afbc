//! One variable of the environment the process was started with.
//!
//! Read from `/proc/self/environ`, which works before libc has set anything up
//! and whatever the program does to its `environ` afterwards.

use crate::name::Text;
use crate::sys::{self, Descriptor};

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
}

/// Copies the value of the variable named by `prefix` (with its `=`) into
/// `value`, reading `file` piece by piece through `piece`.
pub(crate) fn read(
    file: Descriptor,
    prefix: &[u8],
    piece: &mut [u8],
    value: &mut [u8],
) -> Variable {
    let mut search =
        Search { prefix, matched: 0, state: Progress::Matching, value: Text::after(value, 0) };
    loop {
        match sys::read(file, piece) {
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
    use std::io::{Seek, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    fn find(environment: &[u8], piece: usize) -> Option<Vec<u8>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(environment).unwrap();
        file.rewind().unwrap();
        let mut value = [0; 16];
        let file = Descriptor(file.as_raw_fd());
        match read(file, b"DIR=", &mut vec![0; piece], &mut value) {
            Variable::Unset => None,
            Variable::Value(length) => Some(value[..length].to_vec()),
            Variable::TooLong => Some(b"too long".to_vec()),
        }
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
