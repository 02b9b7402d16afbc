//! Streams of numbers, one per kind of fact.
//!
//! Numbers of one kind resemble each other and little else, so keeping them
//! together makes the general compressor that follows do better, and faster,
//! than on records. Each number is in LEB128: seven bits per byte, least first.

use crate::Error;

/// A stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// Lengths of lists.
    Length,
    /// Lengths of strings, in bytes.
    StringLength,
    /// The bytes of the strings.
    StringBytes,
    /// Names, as numbers of strings.
    Name,
    /// Kind, linkage, visibility and flags of symbols.
    Symbol,
    /// What symbols refer to.
    Reference,
    /// Sizes of data.
    DataSize,
    /// COMDAT groups of symbols.
    SymbolComdat,
    /// Sections of data, as numbers of strings.
    DataSection,
    /// Files of locations.
    LocationFile,
    /// Lines of locations.
    LocationLine,
    /// Columns, within the text, of locations.
    LocationText,
    /// Scopes of locations, as numbers of strings.
    LocationScope,
    /// The lines on which these functions are defined.
    LocationScopeLine,
    /// What locations are inlined at.
    LocationOuter,
    /// Symbols, parameters and locations of functions.
    Function,
    /// Traits of functions and calls.
    Traits,
    /// Instructions of blocks, and whether they are landing pads.
    Block,
    /// Where blocks lead.
    Successor,
    /// What instructions do.
    Op,
    /// Sizes of allocas and memory accesses.
    Size,
    /// Constant distances of addresses.
    Distance,
    /// Blocks that the values of phis come from.
    PhiFrom,
    /// Values of switches.
    Case,
    /// Symbols called.
    Callee,
    /// Source positions of instructions.
    Location,
    /// Numbers of operands, where the operation leaves it open.
    OperandCount,
    /// Operands: instructions, or what else they are.
    Operand,
    /// Numbers of parameters and constants.
    Constant,
    /// Symbols among the operands.
    OperandSymbol,
}

/// How many streams there are.
const COLUMNS: usize = Column::OperandSymbol as usize + 1;

/// Writes streams.
pub(super) struct Writer {
    columns: [Vec<u8>; COLUMNS],
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { columns: std::array::from_fn(|_| Vec::new()) }
    }

    pub(super) fn put(&mut self, column: Column, number: u64) {
        put(&mut self.columns[column as usize], number);
    }

    /// Puts a number that may be negative; small ones either way are short.
    pub(super) fn put_signed(&mut self, column: Column, number: i64) {
        self.put(column, (number.wrapping_shl(1) ^ (number >> 63)) as u64);
    }

    /// Puts how far `to` is from `from`.
    pub(super) fn put_step(&mut self, column: Column, from: usize, to: usize) {
        self.put_signed(column, to as i64 - from as i64);
    }

    pub(super) fn put_bytes(&mut self, column: Column, bytes: &[u8]) {
        self.columns[column as usize].extend_from_slice(bytes);
    }

    /// All streams one after another, each behind its length.
    pub(super) fn finish(self, out: &mut Vec<u8>) {
        for column in &self.columns {
            put(out, column.len() as u64);
        }
        for column in &self.columns {
            out.extend_from_slice(column);
        }
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads streams; nothing is believed.
pub(super) struct Reader<'a> {
    columns: [&'a [u8]; COLUMNS],
}

impl<'a> Reader<'a> {
    /// Divides `bytes` into streams.
    pub(super) fn new(mut bytes: &'a [u8]) -> Result<Self, Error> {
        let mut lengths = [0; COLUMNS];
        for length in &mut lengths {
            *length = take(&mut bytes)?.ok_or(Error::Truncated)?;
        }
        let mut columns = [&[][..]; COLUMNS];
        for (column, length) in columns.iter_mut().zip(lengths) {
            let length = usize::try_from(length).map_err(|_| Error::Truncated)?;
            (*column, bytes) = bytes.split_at_checked(length).ok_or(Error::Truncated)?;
        }
        if !bytes.is_empty() {
            return Err(Error::Corrupt { what: "bytes follow its end" });
        }
        Ok(Self { columns })
    }

    pub(super) fn take(&mut self, column: Column) -> Result<u64, Error> {
        let number = take(&mut self.columns[column as usize])?;
        number.ok_or(Error::Corrupt { what: "a column is too short" })
    }

    pub(super) fn take_u32(&mut self, column: Column) -> Result<u32, Error> {
        let number = self.take(column)?;
        u32::try_from(number).map_err(|_| Error::Corrupt { what: "a number is too large" })
    }

    pub(super) fn take_signed(&mut self, column: Column) -> Result<i64, Error> {
        let number = self.take(column)?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// The position so far from `from` as the next number says, as an index.
    pub(super) fn take_step(&mut self, column: Column, from: usize) -> Result<u32, Error> {
        let to = (from as i64).checked_add(self.take_signed(column)?);
        let to = to.and_then(|to| u32::try_from(to).ok());
        to.ok_or(Error::Corrupt { what: "an index is out of range" })
    }

    pub(super) fn take_bytes(&mut self, column: Column, length: u64) -> Result<&'a [u8], Error> {
        let short = Error::Corrupt { what: "a column is too short" };
        let length = usize::try_from(length).map_err(|_| short.clone())?;
        let (taken, rest) = self.columns[column as usize].split_at_checked(length).ok_or(short)?;
        self.columns[column as usize] = rest;
        Ok(taken)
    }

    /// How many numbers a stream still has at most.
    pub(super) fn left(&self, column: Column) -> usize {
        self.columns[column as usize].len()
    }

    /// An error unless everything was read.
    pub(super) fn finish(self) -> Result<(), Error> {
        match self.columns.iter().all(|column| column.is_empty()) {
            true => Ok(()),
            false => Err(Error::Corrupt { what: "a column is too long" }),
        }
    }
}

/// The next number, or none if the bytes end before it does.
fn take(bytes: &mut &[u8]) -> Result<Option<u64>, Error> {
    let mut number = 0u64;
    for (at, &byte) in bytes.iter().enumerate() {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte holds the last bit; nothing may follow.
        if at == 9 && byte > 1 {
            return Err(Error::Corrupt { what: "a number is too large" });
        }
        number |= bits << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Ok(Some(number));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let signed = [0, -1, 1, 63, -64, 64, i64::MAX, i64::MIN];
        let mut writer = Writer::new();
        numbers.iter().for_each(|&number| writer.put(Column::Length, number));
        signed.iter().for_each(|&number| writer.put_signed(Column::Case, number));
        let mut bytes = Vec::new();
        writer.finish(&mut bytes);
        let mut reader = Reader::new(&bytes).unwrap();
        for number in numbers {
            assert_eq!(reader.take(Column::Length), Ok(number));
        }
        for number in signed {
            assert_eq!(reader.take_signed(Column::Case), Ok(number));
        }
        assert_eq!(
            reader.take(Column::Case),
            Err(Error::Corrupt { what: "a column is too short" })
        );
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn numbers_past_64_bits_are_refused() {
        let read = |bytes: &[u8]| take(&mut &*bytes);
        assert_eq!(read(&[0xff; 9]), Ok(None));
        assert_eq!(read(&[0xff; 10]), Err(Error::Corrupt { what: "a number is too large" }));
        let largest = [&[0xff; 9][..], &[1]].concat();
        assert_eq!(read(&largest), Ok(Some(u64::MAX)));
        assert_eq!(read(&[]), Ok(None));
    }
}
