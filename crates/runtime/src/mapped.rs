//! Which file is mapped at an address, as the kernel says in `/proc/self/maps`.
//!
//! Read as a stream, through a small buffer; no C library is asked, which may not know
//! the module yet.

use crate::name::Text;
use crate::sys::{self, Descriptor, Path};

const MAPS: &[u8] = b"/proc/self/maps\0";

/// Fields between the addresses of a mapping and its path: rights, offset, device, inode.
const FIELDS: u32 = 4;

/// Where in a line the next byte is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Start,
    End,
    /// Behind so many spaces.
    Fields(u32),
    /// Of the path, or the spaces before it.
    Path,
}

/// Looks for an address in lines `START-END RIGHTS OFFSET DEVICE INODE  PATH`.
struct Search<'b> {
    address: usize,
    place: Place,
    number: usize,
    is_behind_start: bool,
    is_here: bool,
    is_done: bool,
    path: Text<'b>,
}

impl<'b> Search<'b> {
    fn new(address: usize, path: &'b mut [u8]) -> Self {
        Self {
            address,
            place: Place::Start,
            number: 0,
            is_behind_start: false,
            is_here: false,
            is_done: false,
            path: Text::after(path, 0),
        }
    }

    fn feed(&mut self, byte: u8) {
        if self.is_done {
            return;
        }
        if byte == b'\n' {
            self.is_done = self.is_here;
            (self.place, self.number, self.is_here) = (Place::Start, 0, false);
            return;
        }
        self.place = match (self.place, byte) {
            (Place::Start, b'-') => {
                self.is_behind_start = self.number <= self.address;
                self.number = 0;
                Place::End
            }
            (Place::End, b' ') => {
                self.is_here = self.is_behind_start && self.address < self.number;
                Place::Fields(1)
            }
            (Place::Start | Place::End, _) => {
                self.number = self.number << 4 | digit(byte);
                self.place
            }
            (Place::Fields(FIELDS), b' ') => Place::Path,
            (Place::Fields(count), b' ') => Place::Fields(count + 1),
            (Place::Path, b' ') if self.path.length() == Some(0) => Place::Path,
            (Place::Path, _) if self.is_here => {
                self.path.push_byte(byte);
                Place::Path
            }
            (place, _) => place,
        };
    }
}

fn digit(byte: u8) -> usize {
    let value =
        if byte.is_ascii_digit() { byte - b'0' } else { (byte | 32).wrapping_sub(b'a' - 10) };
    usize::from(value & 15)
}

/// Copies the path of the file that is mapped at `address` into `path`, reading through
/// `piece`; gives its length, 0 if there is none or it cannot be found out.
pub(crate) fn path_at(address: usize, piece: &mut [u8], path: &mut [u8]) -> usize {
    let mut length = None;
    let mut look = || {
        let name = Path::new(MAPS).ok_or(sys::ENOENT);
        let open = |name| sys::open(Descriptor(sys::AT_FDCWD), name, sys::O_RDONLY, 0);
        if let Ok(file) = name.and_then(open) {
            length = Some(path_in(|piece| sys::read(file, piece), address, piece, path));
            sys::close(file);
            return true;
        }
        false
    };
    if !look() {
        // The program may have used all its descriptors up.
        let _ = sys::with_free_descriptors(&mut || _ = look());
    }
    length.unwrap_or(0)
}

fn path_in(
    mut source: impl FnMut(&mut [u8]) -> Result<usize, sys::Error>,
    address: usize,
    piece: &mut [u8],
    path: &mut [u8],
) -> usize {
    let mut search = Search::new(address, path);
    while !search.is_done {
        match source(piece) {
            Ok(0) => break,
            Ok(length) => piece.iter().take(length).for_each(|&byte| search.feed(byte)),
            Err(sys::EINTR) => {}
            Err(_) => break,
        }
    }
    let length = if search.is_done { search.path.length().unwrap_or(0) } else { 0 };
    // What is no file has a name in brackets, or none.
    if path.first() == Some(&b'/') { length } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const LINES: &[u8] = b"\
        55aa00-55bb00 r--p 00000000 08:01 1234        /usr/bin/a b\n\
        55bb00-55cc00 rw-p 00000000 00:00 0 \n\
        7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0                  [stack]\n\
        7ffe00000000-7ffe00001000 r-xp 00001000 08:01 77                 /lib/x.so\n";

    fn find(address: usize, piece: usize) -> Vec<u8> {
        let (mut path, mut lines) = ([0; 16], LINES);
        let source = |piece: &mut [u8]| Ok(lines.read(piece).unwrap());
        let length = path_in(source, address, &mut vec![0; piece], &mut path);
        path[..length].to_vec()
    }

    #[test]
    fn a_path_is_found_whatever_the_pieces() {
        for piece in 1..80 {
            assert_eq!(find(0x55aa00, piece), b"/usr/bin/a b");
            assert_eq!(find(0x55baff, piece), b"/usr/bin/a b");
            assert_eq!(find(0x7ffe00000fff, piece), b"/lib/x.so");
            for nothing in [0, 0x55bb00, 0x55cc00, 0x7ffd00000000, 0x7ffe00001000] {
                assert_eq!(find(nothing, piece), b"");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_no_path() {
        let mut path = [0; 4];
        let mut lines = LINES;
        let source = |piece: &mut [u8]| Ok(lines.read(piece).unwrap());
        assert_eq!(path_in(source, 0x55aa00, &mut [0; 64], &mut path), 0);
    }

    #[test]
    fn this_program_is_mapped_where_its_code_is() {
        let (mut piece, mut path) = ([0; 1024], [0; 4096]);
        let length = path_at(find as *const () as usize, &mut piece, &mut path);
        let own = std::env::current_exe().unwrap();
        assert_eq!(&path[..length], own.as_os_str().as_encoded_bytes());
    }
}
