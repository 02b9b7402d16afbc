//! Binary arithmetic coding with probabilities that are learnt.
//!
//! The carry-less variant of Martin's range coder that LZMA made common: 32 bits
//! of range, bytes come out as soon as they cannot change any more. A [`Model`]
//! is what is thought of one kind of bit: a probability and how often it was
//! corrected, so that the first bits teach much and later ones little.
//!
//! Decoding never fails: behind the end of the bytes there are zeros, and what
//! comes out of bytes that nobody encoded is bits.

/// What is thought of one kind of bit: in the upper 22 bits the probability that
/// it is set, in the lower 10 how often that was corrected.
#[derive(Debug, Clone, Copy)]
pub struct Model(u32);

/// Corrections that are counted; more make no difference.
const MOST: u32 = 126;

impl Model {
    /// Nothing is known.
    pub const NEW: Self = Self(1 << 31);

    /// The probability of a set bit, of 2^16, never 0 and never 2^16.
    #[inline]
    pub fn probability(self) -> u32 {
        ((self.0 >> 16) & 0xffff).clamp(32, 65536 - 32)
    }

    /// How often it was corrected.
    #[inline]
    pub fn corrections(self) -> u32 {
        self.0 & 0x3ff
    }

    /// Learns that the bit was `bit`.
    #[inline]
    pub fn learn(&mut self, bit: bool) {
        let count = self.corrections();
        let p = i64::from(self.0 >> 10);
        let target = if bit { (1 << 22) - 1 } else { 0 };
        let p = p + (target - p) * 2 / (2 * i64::from(count) + 3);
        self.0 = (p as u32) << 10 | (count + 1).min(MOST);
    }
}

/// Writes bits.
#[derive(Debug)]
pub struct Encoder {
    low: u64,
    range: u32,
    /// The last byte that may still change, and how many 0xff follow it.
    pending: u8,
    run: u64,
    out: Vec<u8>,
}

impl Encoder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { low: 0, range: u32::MAX, pending: 0, run: 1, out: Vec::new() }
    }

    /// Writes a bit that is thought to be set with this probability, of 2^16.
    #[inline]
    pub fn encode(&mut self, bit: bool, probability: u32) {
        let bound = (self.range >> 16) * probability;
        if bit {
            self.range = bound;
        } else {
            self.low += u64::from(bound);
            self.range -= bound;
        }
        while self.range < 1 << 24 {
            self.range <<= 8;
            self.shift();
        }
    }

    fn shift(&mut self) {
        if (self.low as u32) < 0xff00_0000 || self.low >> 32 != 0 {
            let carry = (self.low >> 32) as u8;
            let mut byte = self.pending;
            while self.run > 0 {
                self.out.push(byte.wrapping_add(carry));
                byte = 0xff;
                self.run -= 1;
            }
            self.pending = (self.low >> 24) as u8;
        }
        self.run += 1;
        self.low = (self.low & 0x00ff_ffff) << 8;
    }

    /// The bytes.
    pub fn finish(mut self) -> Vec<u8> {
        for _ in 0..5 {
            self.shift();
        }
        // Zeros need not be written: they are read behind the end.
        while self.out.last() == Some(&0) {
            self.out.pop();
        }
        self.out
    }
}

/// Reads bits.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: std::slice::Iter<'a, u8>,
    range: u32,
    code: u32,
}

impl<'a> Decoder<'a> {
    /// Reads what an [`Encoder`] wrote.
    pub fn new(bytes: &'a [u8]) -> Self {
        let mut decoder = Self { bytes: bytes.iter(), range: u32::MAX, code: 0 };
        for _ in 0..5 {
            decoder.code = decoder.code << 8 | decoder.byte();
        }
        decoder
    }

    fn byte(&mut self) -> u32 {
        u32::from(self.bytes.next().copied().unwrap_or(0))
    }

    /// The next bit, which was written with this probability.
    #[inline]
    pub fn decode(&mut self, probability: u32) -> bool {
        let bound = (self.range >> 16) * probability;
        let bit = self.code < bound;
        if bit {
            self.range = bound;
        } else {
            self.code -= bound;
            self.range -= bound;
        }
        while self.range < 1 << 24 {
            self.range <<= 8;
            self.code = self.code << 8 | self.byte();
        }
        bit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_back() {
        let mut random = fastrand::Rng::with_seed(5);
        for skew in [1, 2, 50, 1000] {
            let bits: Vec<bool> = (0..20_000).map(|_| random.u32(0..skew) == 0).collect();
            let mut model = Model::NEW;
            let mut encoder = Encoder::new();
            for &bit in &bits {
                encoder.encode(bit, model.probability());
                model.learn(bit);
            }
            let bytes = encoder.finish();
            let p = bits.iter().filter(|&&bit| bit).count() as f64 / bits.len() as f64;
            let entropy = match p {
                1.0 => 0.0,
                _ => -(p * p.log2() + (1.0 - p) * (1.0 - p).log2()) * bits.len() as f64,
            };
            assert!(bytes.len() as f64 * 8.0 <= entropy * 1.05 + 200.0, "{skew}: {}", bytes.len());
            let mut decoder = Decoder::new(&bytes);
            let mut model = Model::NEW;
            for (number, &bit) in bits.iter().enumerate() {
                assert_eq!(decoder.decode(model.probability()), bit, "bit {number}");
                model.learn(bit);
            }
        }
    }
}
