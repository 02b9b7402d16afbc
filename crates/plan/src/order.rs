//! The order in which functions are entered, as one number for each thread and module.
//!
//! Runs that are put together must have done the same, and what each of them counts or
//! logs is a part only. So each function changes one number as it is entered, in all
//! runs alike: where they entered other functions, another number of times or in
//! another order, the numbers differ.
//!
//! What a function does to the number is two instructions: it flips bits, and adds. Both
//! can be undone, so that nothing is forgotten, and they do not commute, since carries run
//! on. (To rotate and to add would not do: that is nearly linear, and comes back to where it
//! was behind 64 entries.) Functions
//! that call nothing are entered most often, and for most of them one is enough: to add, or
//! to flip bits. Of those that one function calls, one adds and one flips.
//!
//! Two runs in which a single pair of entries has changed places agree by chance in less
//! than one of a thousand cases, which were tried; runs that differ as programs do, next to
//! never.

use std::collections::BTreeMap;

use backtrail_analysis::calls::direct_callees;
use backtrail_analysis::{Body, CallTargets};
use backtrail_graph::Index as _;
use backtrail_ir::program::{Object, Program};
use backtrail_ir::{Callee, Func, Unit};
use serde::{Deserialize, Serialize};

/// What the entry of a function does to the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Turn {
    /// Adds.
    Add(i32),
    /// Flips bits.
    Flip(i32),
    /// Flips bits, and then adds.
    FlipAdd(i32, i32),
}

/// What the functions of a program, or of a part of it, do to the number.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    /// Those that only add or flip.
    simple: BTreeMap<(Object, Func), Simple>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Simple {
    Add,
    Flip,
}

impl Turns {
    /// Chooses them by who calls whom: what calls nothing and is called by known functions
    /// alone may do with one instruction.
    pub fn new(program: &Program<'_>, targets: &CallTargets<'_, '_>) -> Self {
        let entered = targets.entered_from_outside();
        let mut callers: BTreeMap<Body, Vec<Body>> = BTreeMap::new();
        for (caller, &(object, function)) in targets.bodies().iter() {
            let Some(unit) = program.unit(object) else { continue };
            let callees = direct_callees(unit, function);
            for callee in callees.filter_map(|it| targets.body_of_symbol(object, it)) {
                callers.entry(callee).or_default().push(caller);
            }
        }
        // By caller: which of both are taken.
        let mut taken: BTreeMap<Body, [bool; 2]> = BTreeMap::new();
        let mut simple = BTreeMap::new();
        for (body, &(object, function)) in targets.bodies().iter() {
            let Some(unit) = program.unit(object) else { continue };
            if entered.contains(&body) || calls(unit, function) {
                continue;
            }
            let its = callers.get(&body).map(Vec::as_slice).unwrap_or_default();
            let is_free = |which: usize| {
                !its.iter().any(|caller| taken.get(caller).is_some_and(|taken| taken[which]))
            };
            let Some(which) = (0..2).find(|&which| is_free(which)) else { continue };
            its.iter().for_each(|&caller| taken.entry(caller).or_default()[which] = true);
            simple.insert((object, function), [Simple::Add, Simple::Flip][which]);
        }
        Self { simple }
    }

    /// That of a function, of the unit with this id.
    pub fn of(&self, id: [u8; 16], (object, function): (Object, Func)) -> Turn {
        let number = Turn::number(id, function);
        // Neither 0, nor negative: extended to 64 bits that would change half of them.
        let [flip, add] = [number >> 33, number << 31 >> 33].map(|it| it as i32 | 1);
        match self.simple.get(&(object, function)) {
            Some(Simple::Add) => Turn::Add(add),
            Some(Simple::Flip) => Turn::Flip(flip),
            None => Turn::FlipAdd(flip, add),
        }
    }
}

/// Whether a function calls another.
fn calls(unit: &Unit, function: Func) -> bool {
    unit.functions[function].insts.values().any(|inst| {
        let callee = inst.op.call().map(|call| &call.callee);
        callee.is_some_and(|it| matches!(it, Callee::Direct(_) | Callee::Indirect))
    })
}

impl Turn {
    /// What tells functions apart.
    fn number(id: [u8; 16], function: Func) -> u64 {
        let id = u128::from_le_bytes(id);
        let place = mixed(function.position() as u64);
        mixed(id as u64 ^ mixed((id >> 64) as u64 ^ place))
    }

    /// The number behind it.
    pub fn apply(self, number: u64) -> u64 {
        match self {
            Self::Add(add) => number.wrapping_add(i64::from(add).cast_unsigned()),
            Self::Flip(bits) => number ^ i64::from(bits).cast_unsigned(),
            Self::FlipAdd(bits, add) => Self::Add(add).apply(Self::Flip(bits).apply(number)),
        }
    }
}

/// A number whose bits all depend on all of `number`'s (the finalizer of splitmix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// What a process of a run says of the order of entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessEntries {
    /// Who forked it, by position among the processes of the run; it comes before.
    pub forked_by: Option<usize>,
    /// The numbers of its threads, each with its module.
    pub entered: Vec<(usize, u64)>,
}

/// Whether runs entered functions in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entries {
    /// They did, thread by thread. By run: its processes, such that those at one position
    /// did the same.
    Alike(Vec<Vec<usize>>),
    /// They did not.
    Differ {
        /// The first run, from 0, that did not do what run 0 did.
        run: usize,
    },
}

impl Entries {
    /// Compares runs, given by their processes.
    pub fn of(runs: &[Vec<ProcessEntries>]) -> Self {
        let forests: Vec<Forest> = runs.iter().map(|run| Forest::new(run)).collect();
        let differs = |it: &Forest| it.identity != forests[0].identity;
        match forests.iter().position(differs) {
            Some(run) => Self::Differ { run },
            None => Self::Alike(forests.into_iter().map(|it| it.order).collect()),
        }
    }
}

/// The processes of a run, by who forked whom. Those that one process forked are told apart
/// by what they did, since which of them was first is chance.
struct Forest {
    /// The same for forests that entered functions alike.
    identity: Vec<u64>,
    /// Each process is followed by those that it forked, in the order of their identities.
    order: Vec<usize>,
}

impl Forest {
    fn new(processes: &[ProcessEntries]) -> Self {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); processes.len()];
        let mut roots = Vec::new();
        for (process, entries) in processes.iter().enumerate() {
            match entries.forked_by.filter(|&by| by < process) {
                Some(by) => children[by].push(process),
                None => roots.push(process),
            }
        }
        let mut identities = vec![0; processes.len()];
        for process in (0..processes.len()).rev() {
            children[process].sort_by_key(|&it| identities[it]);
            let mut entered = processes[process].entered.clone();
            entered.sort_unstable();
            let numbers = entered.iter().flat_map(|&(module, number)| [module as u64, number]);
            let end = [entered.len() as u64];
            let forked = children[process].iter().map(|&it| identities[it]);
            let join = |identity, number| mixed(mixed(identity) ^ number);
            identities[process] = numbers.chain(end).chain(forked).fold(0, join);
        }
        roots.sort_by_key(|&it| identities[it]);
        let identity = roots.iter().map(|&it| identities[it]).collect();
        let mut order = Vec::new();
        let mut waiting: Vec<usize> = roots.into_iter().rev().collect();
        while let Some(process) = waiting.pop() {
            order.push(process);
            waiting.extend(children[process].iter().rev());
        }
        Self { identity, order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(forked_by: Option<usize>, numbers: &[u64]) -> ProcessEntries {
        ProcessEntries { forked_by, entered: numbers.iter().map(|&it| (0, it)).collect() }
    }

    #[test]
    fn processes_are_matched_by_what_they_and_their_children_did() {
        let run = vec![
            process(None, &[1]),
            process(Some(0), &[2]),
            process(Some(0), &[3, 4]),
            process(Some(1), &[5]),
            process(Some(2), &[6]),
        ];
        // Others were first, and threads too.
        let same = vec![
            process(None, &[1]),
            process(Some(0), &[4, 3]),
            process(Some(1), &[6]),
            process(Some(0), &[2]),
            process(Some(3), &[5]),
        ];
        let Entries::Alike(order) = Entries::of(&[run.clone(), same.clone()]) else {
            panic!("they are alike")
        };
        for (&left, &right) in order[0].iter().zip(&order[1]) {
            let sorted = |it: &ProcessEntries| {
                let mut entered = it.entered.clone();
                entered.sort_unstable();
                entered
            };
            assert_eq!(sorted(&run[left]), sorted(&same[right]));
        }
        // The grandchildren are the other way round.
        let mut other = run.clone();
        other[3].entered[0].1 = 6;
        other[4].entered[0].1 = 5;
        assert_eq!(Entries::of(&[run.clone(), other]), Entries::Differ { run: 1 });
        let fewer = run[..4].to_vec();
        assert_eq!(Entries::of(&[run.clone(), run, fewer]), Entries::Differ { run: 2 });
    }

    #[test]
    fn the_order_of_entries_matters() {
        let turns = [Turn::Add(5), Turn::Flip(3), Turn::FlipAdd(7, 9), Turn::FlipAdd(11, 5)];
        for left in turns {
            for right in turns.into_iter().filter(|it| *it != left) {
                let number = 0x0123_4567_89ab_cdef;
                assert_ne!(left.apply(right.apply(number)), right.apply(left.apply(number)));
            }
        }
    }
}
