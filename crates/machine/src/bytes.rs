//! Little-endian numbers in bytes that may end early.
//!
//! What lies beyond the end reads as zero: for readers that have checked the
//! length of a whole record, and would otherwise have an error for each field
//! of it that cannot happen.

/// Some bytes.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    fn take<const N: usize>(self, at: usize) -> [u8; N] {
        let bytes = at.checked_add(N).and_then(|end| self.0.get(at..end));
        bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }

    /// 16 bits.
    pub fn half(self, at: usize) -> u16 {
        u16::from_le_bytes(self.take(at))
    }

    /// 32 bits.
    pub fn quarter(self, at: usize) -> u32 {
        u32::from_le_bytes(self.take(at))
    }

    /// 32 bits with a sign.
    pub fn signed(self, at: usize) -> i32 {
        i32::from_le_bytes(self.take(at))
    }

    /// 64 bits.
    pub fn word(self, at: usize) -> u64 {
        u64::from_le_bytes(self.take(at))
    }

    /// Text that ends with a zero, or with the field.
    pub fn text(self, at: usize, size: usize) -> String {
        let end = at.saturating_add(size).min(self.0.len());
        let field = self.0.get(at..end).unwrap_or_default();
        let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end]).into_owned()
    }
}
