//! Sets of witnesses in which much is one number.
//!
//! A call through a pointer can see what each of a thousand routines begins with, and
//! the return of any of these what follows any of a thousand calls. Kept for every node
//! from which one can get there, that is more than memory holds. So such a call is a
//! *turnstile*: what is inside and what is behind it is put into other sets by one
//! number each, larger than those of the witnesses; it is looked into when sets are
//! compared. Turnstiles are fans (`icfg/fans.rs`), and routines that begin with calls of
//! many. So are all landings one number: whatever may throw sees them.

use backtrail_graph::Index;

use crate::bit_rows::{self, FixedRows, Word};
use crate::icfg::{Fan, Icfg, Routine, WayKind};

/// Routines that begin with fewer calls are looked at by themselves.
const FEWEST: usize = 2;

/// Which turnstiles there are.
#[derive(Debug)]
pub(super) struct Turnstiles {
    fans: usize,
    /// In order.
    routines: Vec<Routine>,
}

impl Turnstiles {
    pub fn new(icfg: &Icfg) -> Self {
        let is_wide = |&routine: &Routine| {
            let ways = icfg.ways_of(icfg.routines()[routine].entry);
            let kinds = ways.map(|way| icfg.ways()[way].kind);
            kinds.filter(|it| matches!(it, WayKind::Call { .. } | WayKind::Tail(_))).count()
                >= FEWEST
        };
        let routines = icfg.routines().indices().filter(is_wide).collect();
        Self { fans: icfg.fans().len(), routines }
    }

    fn len(&self) -> usize {
        self.fans + self.routines.len()
    }

    pub fn of_fan(&self, fan: Fan) -> usize {
        fan.position()
    }

    pub fn of_routine(&self, routine: Routine) -> Option<usize> {
        self.routines.binary_search(&routine).ok().map(|it| self.fans + it)
    }

    pub fn routines(&self) -> impl Iterator<Item = (usize, Routine)> {
        self.routines.iter().enumerate().map(|(number, &routine)| (self.fans + number, routine))
    }
}

/// What the numbers in folded sets mean: witnesses, the end of the run, and from the
/// next multiple of 64 on that the activation can return without a witness (PASS), all
/// landings, what is inside turnstiles, what is behind them, and what follows at the
/// return of routines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits {
    witnesses: usize,
    turnstiles: usize,
}

/// What a number stands for.
enum Folded {
    Pass,
    Landings,
    Inside(usize),
    Behind(usize),
    After(usize),
}

impl Bits {
    pub fn new(witnesses: usize, turnstiles: &Turnstiles) -> Self {
        Self { witnesses, turnstiles: turnstiles.len() }
    }

    pub fn end(self) -> usize {
        self.witnesses
    }

    pub fn pass(self) -> usize {
        (self.witnesses + 1).next_multiple_of(64)
    }

    pub fn landings(self) -> usize {
        self.pass() + 1
    }

    pub fn inside(self, turnstile: usize) -> usize {
        self.pass() + 2 + turnstile
    }

    pub fn behind(self, turnstile: usize) -> usize {
        self.inside(self.turnstiles) + turnstile
    }

    pub fn after(self, routine: Routine) -> usize {
        self.behind(self.turnstiles) + routine.position()
    }

    fn meaning(self, bit: usize) -> Folded {
        match bit {
            it if it == self.pass() => Folded::Pass,
            it if it == self.landings() => Folded::Landings,
            it if it < self.behind(0) => Folded::Inside(it - self.inside(0)),
            it if it < self.behind(self.turnstiles) => Folded::Behind(it - self.behind(0)),
            it => Folded::After(it - self.behind(self.turnstiles)),
        }
    }

    /// What is not folded of a set, and what is.
    fn split(self, row: &[Word]) -> (&[Word], &[Word]) {
        let folded = (self.pass() / 64) as u32;
        let is_plain = |word: &Word| word.0 < folded;
        match row.last() {
            Some(last) if !is_plain(last) => row.split_at(row.partition_point(is_plain)),
            _ => (row, &[]),
        }
    }
}

/// What is folded in sets.
#[derive(Debug, Clone)]
pub(super) struct Unfolded {
    pub bits: Bits,
    pub landings: Vec<Word>,
    /// By turnstile, unfolded: what its callees see within their activations.
    pub inside: Vec<Vec<Word>>,
    /// By turnstile, unfolded: what follows where they return.
    pub behind: Vec<Vec<Word>>,
    /// By routine, folded: what follows at its return.
    pub after: FixedRows,
}

impl Unfolded {
    /// The sets that one consists of, unfolded.
    pub fn parts<'a>(&'a self, row: &'a [Word]) -> Vec<&'a [Word]> {
        let mut parts = Vec::new();
        self.add_parts(row, &mut parts);
        parts
    }

    fn add_parts<'a>(&'a self, row: &'a [Word], parts: &mut Vec<&'a [Word]>) {
        let (plain, folded) = self.bits.split(row);
        parts.push(plain);
        for bit in bit_rows::ones(folded) {
            match self.bits.meaning(bit) {
                Folded::Pass => {}
                Folded::Landings => parts.push(&self.landings),
                Folded::Inside(it) => parts.push(&self.inside[it]),
                Folded::Behind(it) => parts.push(&self.behind[it]),
                Folded::After(routine) => self.add_parts(self.after.row(routine), parts),
            }
        }
    }

    /// Whether a witness, or the end, is in a set.
    pub fn contains(&self, row: &[Word], bit: usize) -> bool {
        let (plain, folded) = self.bits.split(row);
        bit_rows::contains(plain, bit)
            || bit_rows::ones(folded).any(|it| match self.bits.meaning(it) {
                Folded::Pass => false,
                Folded::Landings => bit_rows::contains(&self.landings, bit),
                Folded::Inside(it) => bit_rows::contains(&self.inside[it], bit),
                Folded::Behind(it) => bit_rows::contains(&self.behind[it], bit),
                Folded::After(routine) => self.contains(self.after.row(routine), bit),
            })
    }

    /// Whether something holds for each part of one set and each of another.
    pub fn all_parts(
        &self,
        one: &[Word],
        other: &[Word],
        holds: impl Fn(&[Word], &[Word]) -> bool,
    ) -> bool {
        let ((one, folded), (other, others)) = (self.bits.split(one), self.bits.split(other));
        if !holds(one, other) {
            return false;
        }
        if folded.is_empty() && others.is_empty() {
            return true;
        }
        let rest = |folded| {
            let mut parts = self.parts(folded);
            parts.retain(|part| !part.is_empty());
            parts
        };
        let (mut ones, mut others) = (rest(folded), rest(others));
        // Few are shared by many, so that it is seen at once that they are.
        ones.extend((!one.is_empty()).then_some(one));
        others.extend((!other.is_empty()).then_some(other));
        ones.iter().all(|one| others.iter().all(|other| holds(one, other)))
    }
}

/// Sets by turnstile without what is folded in them: each other, or what is inside.
pub(super) fn unfold(
    bits: Bits,
    folded: &[&[Word]],
    landings: &[Word],
    inside: Option<&[Vec<Word>]>,
) -> Vec<Vec<Word>> {
    let mut found: Vec<Vec<Word>> = folded.iter().map(|row| bits.split(row).0.to_vec()).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for number in 0..found.len() {
            let mut row = std::mem::take(&mut found[number]);
            for bit in bit_rows::ones(bits.split(folded[number]).1) {
                let other = match (bits.meaning(bit), inside) {
                    (Folded::Landings, _) => landings,
                    (Folded::Inside(it), Some(inside)) => &inside[it],
                    (Folded::Inside(it) | Folded::Behind(it), _) => &found[it],
                    (Folded::Pass | Folded::After(_), _) => continue,
                };
                changed |= bit_rows::unite(&mut row, other);
            }
            found[number] = row;
        }
    }
    found
}
