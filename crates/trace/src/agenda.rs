//! What is still to be looked at, by rank, in rounds.
//!
//! Sets that depend on each other are computed fastest if what others depend on comes
//! first. So everything has a rank, and whatever is woken is taken in that order; what
//! is woken behind the place where a round is, waits for the next one. (To go back at
//! once is much slower where all depend on all: functions that pointers lead to.)

/// Ranks that are waiting.
#[derive(Debug, Clone)]
pub(crate) struct Agenda {
    words: Vec<u64>,
    /// The next rank of this round.
    next: usize,
    waiting: usize,
}

impl Agenda {
    /// The first `count` ranks, all waiting.
    pub fn full(count: usize) -> Self {
        let mut agenda = Self { words: vec![0; count.div_ceil(64)], next: 0, waiting: 0 };
        (0..count).for_each(|rank| agenda.wake(rank));
        agenda
    }

    /// Has `rank` taken again.
    pub fn wake(&mut self, rank: usize) {
        let (word, bit) = (&mut self.words[rank / 64], 1 << (rank % 64));
        self.waiting += usize::from(*word & bit == 0);
        *word |= bit;
    }

    /// Takes the next of the round, or the first of another.
    pub fn take(&mut self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        loop {
            let at = self.next / 64;
            let Some(word) = self.words.get_mut(at) else {
                self.next = 0;
                continue;
            };
            let rest = *word & (u64::MAX << (self.next % 64));
            if rest == 0 {
                self.next = (at + 1) * 64;
                continue;
            }
            let bit = rest.trailing_zeros() as usize;
            *word &= !(1 << bit);
            self.waiting -= 1;
            self.next = at * 64 + bit + 1;
            return Some(at * 64 + bit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_woken_behind_waits_for_the_next_round() {
        let mut agenda = Agenda::full(130);
        assert!((0..100).all(|rank| agenda.take() == Some(rank)));
        [5, 127, 64, 5].into_iter().for_each(|rank| agenda.wake(rank));
        assert!((100..130).all(|rank| agenda.take() == Some(rank)));
        assert_eq!([(); 3].map(|()| agenda.take()), [Some(5), Some(64), None]);
        agenda.wake(0);
        assert_eq!((agenda.take(), agenda.take()), (Some(0), None));
        assert_eq!(Agenda::full(0).take(), None);
    }
}
