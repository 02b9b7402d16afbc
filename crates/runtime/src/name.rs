//! Text built in a buffer of fixed size: names and paths.

/// Appends to a buffer; what does not fit is remembered as missing.
pub(crate) struct Text<'a> {
    buffer: &'a mut [u8],
    length: usize,
    fits: bool,
}

impl<'a> Text<'a> {
    /// Starts behind the first `length` bytes of `buffer`.
    pub(crate) fn after(buffer: &'a mut [u8], length: usize) -> Self {
        Self { buffer, length, fits: true }
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> &mut Self {
        for &byte in bytes {
            self.push_byte(byte);
        }
        self
    }

    /// Appends one byte.
    pub(crate) fn push_byte(&mut self, byte: u8) -> &mut Self {
        match self.buffer.get_mut(self.length) {
            Some(place) => {
                *place = byte;
                self.length += 1;
            }
            None => self.fits = false,
        }
        self
    }

    /// Appends a number in decimal digits.
    pub(crate) fn push_decimal(&mut self, number: u32) -> &mut Self {
        let mut divisor = 1_000_000_000;
        while divisor > 1 && number / divisor == 0 {
            divisor /= 10;
        }
        while divisor > 0 {
            self.push_byte(b'0' + (number / divisor % 10) as u8);
            divisor /= 10;
        }
        self
    }

    /// Appends a number in sixteen hexadecimal digits.
    pub(crate) fn push_hexadecimal(&mut self, number: u64) -> &mut Self {
        for shift in (0..64).step_by(4).rev() {
            let digit = (number >> shift & 15) as u8;
            self.push_byte(digit + if digit < 10 { b'0' } else { b'a' - 10 });
        }
        self
    }

    /// The length so far, if everything fitted.
    pub(crate) fn length(&self) -> Option<usize> {
        self.fits.then_some(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_rust_prints_them() {
        for number in [0, 1, 9, 10, 999, 1000, 4_294_967_295] {
            let mut buffer = [0; 32];
            let length = Text::after(&mut buffer, 0).push_decimal(number).length().unwrap();
            assert_eq!(buffer[..length], *number.to_string().as_bytes());
        }
        for number in [0, 0xabc, u64::MAX, 0x0123_4567_89ab_cdef] {
            let mut buffer = [0; 32];
            let length = Text::after(&mut buffer, 0).push_hexadecimal(number).length().unwrap();
            assert_eq!(buffer[..length], *format!("{number:016x}").as_bytes());
        }
    }

    #[test]
    fn what_does_not_fit_is_noticed() {
        let mut buffer = [0; 5];
        assert_eq!(Text::after(&mut buffer, 2).push(b"abc").length(), Some(5));
        assert_eq!(Text::after(&mut buffer, 2).push(b"abcd").length(), None);
        assert_eq!(Text::after(&mut buffer, 9).push(b"a").length(), None);
    }
}
