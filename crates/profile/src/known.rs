//! What is known of blocks, edges and lines where counts are not exact.
//!
//! A count that is not exact is a lower bound, and one of 0 says nothing. What is known
//! beside it ([`Inexact`]): what was executed, so that its count is at least 1, and what
//! may have been. The latter must not be shown as 0.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::Index;
use backtrail_ir::Block;

use crate::derived::{Counts, Line, blocks_of_lines, compute_function_lines, edge_number};
use crate::model::{Begun, Function, Inexact, PartialPath, Profile};
use crate::skeleton::Source;

/// How often the parts of a function were executed, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCounts {
    /// At least so often.
    pub counts: Counts,
    /// By block: no execution of it is known, and there may have been some.
    pub unknown_blocks: Vec<bool>,
    /// The same by edge.
    pub unknown_edges: Vec<bool>,
    /// What no path counts.
    counted: Counts,
    begun: Vec<Begun>,
}

impl KnownCounts {
    /// Those of the function at a place in the profile.
    pub fn of(profile: &Profile, function: usize) -> Self {
        let known = profile.inexact(function);
        let function = &profile.functions[function];
        let counted = Counts::of(function);
        let mut counts = counted.clone();
        let part = |counts: &mut [u64], lists: Option<(Vec<u32>, &[u32])>| -> Vec<bool> {
            let Some((ran, unknown)) = lists else {
                return counts.iter().map(|&it| it == 0 && !function.edges_exact).collect();
            };
            for it in ran {
                counts[it as usize] = counts[it as usize].max(1);
            }
            let mut is_unknown = vec![false; counts.len()];
            for &it in unknown {
                is_unknown[it as usize] = counts[it as usize] == 0;
            }
            is_unknown
        };
        let begun = known.map_or(Vec::new(), |it| it.ran.clone());
        let blocks =
            known.map(|it| (begun.iter().map(|it| it.block).collect(), it.unknown.as_slice()));
        let edges = known.map(|it| (it.ran_edges.clone(), it.unknown_edges.as_slice()));
        let unknown_blocks = part(&mut counts.blocks, blocks);
        let unknown_edges = part(&mut counts.edges, edges);
        Self { counts, unknown_blocks, unknown_edges, counted, begun }
    }

    /// How often each line of the function was executed in it, at least; nothing where it
    /// is not known whether it was.
    pub fn lines(&self, profile: &Profile, function: &Function) -> BTreeMap<Line, Option<u64>> {
        let counts = compute_function_lines(profile, function, &self.counted);
        let mut lines: BTreeMap<Line, Option<u64>> =
            counts.into_iter().map(|(line, count)| (line, Some(count))).collect();
        let mut uncounted = vec![false; function.blocks.len()];
        let begun = self.begun.iter().filter(|it| self.counted.blocks[it.block as usize] == 0);
        let mut come_to: BTreeSet<Line> = BTreeSet::new();
        for &Begun { block, positions } in begun {
            uncounted[block as usize] = true;
            let own = function.location.filter(|_| block == 0);
            let positions = &function.blocks[block as usize].locations[..positions as usize];
            for &position in positions.iter().chain(&own) {
                come_to.extend(profile.lines_of(position));
            }
        }
        for (line, blocks) in blocks_of_lines(profile, function) {
            let is_open = |it: &u32| uncounted[*it as usize] || self.unknown_blocks[*it as usize];
            if lines[&line] != Some(0) {
                continue;
            }
            if come_to.contains(&line) {
                lines.insert(line, Some(1));
            } else if blocks.iter().any(is_open) {
                lines.insert(line, None);
            }
        }
        lines
    }
}

/// Whether the code of a function ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ran {
    /// It did not: neither was it entered nor code of it where that was inlined.
    No,
    /// It is not known: it is not instrumented, or was not entered but may have been
    /// inherited by a fork's child, or have run where it was inlined.
    Unknown,
    /// It was not entered, but code of it ran where that was inlined into other functions.
    Inlined,
    /// It was entered.
    Itself,
}

impl Ran {
    /// That of each function.
    pub fn of_all(profile: &Profile) -> Vec<Self> {
        let (mut ran, mut unknown) = (BTreeSet::new(), BTreeSet::new());
        // The positions of calls that code came by, each looked at once.
        let mut seen = [BTreeSet::new(), BTreeSet::new()];
        for (number, function) in profile.functions.iter().enumerate() {
            if !function.is_instrumented() {
                continue;
            }
            let known = KnownCounts::of(profile, number);
            for (place, block) in function.blocks.iter().enumerate() {
                let is_unknown = known.unknown_blocks[place];
                if known.counts.blocks[place] == 0 && !is_unknown {
                    continue;
                }
                let scopes = if is_unknown { &mut unknown } else { &mut ran };
                let seen = &mut seen[usize::from(is_unknown)];
                for &location in &block.locations {
                    let mut next = Some(location);
                    while let Some(number) = next.filter(|it| seen.insert(*it)) {
                        let location = &profile.locations[number as usize];
                        if location.inlined_at.is_some() {
                            scopes.insert((&*location.scope, location.file, location.scope_line));
                        }
                        next = location.inlined_at;
                    }
                }
            }
        }
        let of = |(number, function): (usize, &Function)| {
            let may_inherit = profile.inexact(number).is_some_and(|it| !it.activations_exact);
            let place = function.location.map(|it| &profile.locations[it as usize]);
            let scope = place.map(|place| (&*function.name, place.file, place.line));
            let is_in = |scopes: &BTreeSet<_>| scope.is_some_and(|scope| scopes.contains(&scope));
            if function.entries > 0 || function.inherited > 0 || !function.paths.is_empty() {
                Self::Itself
            } else if is_in(&ran) {
                Self::Inlined
            } else if is_in(&unknown) || may_inherit || !function.is_instrumented() {
                Self::Unknown
            } else {
                Self::No
            }
        };
        profile.functions.iter().enumerate().map(of).collect()
    }
}

/// What is known of the functions of the sum of two profiles, before they are added.
pub(crate) fn add_inexact(sum: &Profile, other: &Profile) -> Vec<Inexact> {
    let mut inexact = Vec::new();
    for (number, (ours, theirs)) in sum.functions.iter().zip(&other.functions).enumerate() {
        let parts = [(sum, ours), (other, theirs)];
        let parts = parts.into_iter().filter(|(_, function)| !function.edges_exact);
        let known: Option<Vec<&Inexact>> =
            parts.map(|(profile, _)| profile.inexact(number)).collect();
        // Of what is known of one, nothing follows if nothing is known of the other.
        let Some(known) = known.filter(|it| !it.is_empty()) else { continue };
        let union = |list: fn(&Inexact) -> &[u32]| -> BTreeSet<u32> {
            known.iter().flat_map(|it| list(it).iter().copied()).collect()
        };
        let ran_edges = union(|it| &it.ran_edges);
        let ran = most_begun(known.iter().flat_map(|it| &it.ran));
        let unknown = &union(|it| &it.unknown) - &ran.iter().map(|it| it.block).collect();
        let unknown_edges = &union(|it| &it.unknown_edges) - &ran_edges;
        inexact.push(Inexact {
            function: number as u32,
            activations_exact: known.iter().all(|it| it.activations_exact),
            ran,
            ran_edges: ran_edges.into_iter().collect(),
            unknown: unknown.into_iter().collect(),
            unknown_edges: unknown_edges.into_iter().collect(),
        });
    }
    inexact
}

/// What a log knows of functions whose counts are not exact: their partial paths, which are
/// all that is in no count.
pub(crate) fn known_from_partial(
    sources: &[Source<'_>],
    functions: &[Function],
    partial: &[PartialPath],
) -> Vec<Inexact> {
    let of_function = |(number, function): (usize, &Function)| {
        let counts = Counts::of(function);
        let mut ran: BTreeMap<u32, u32> = BTreeMap::new();
        let mut ran_edges = BTreeSet::new();
        for path in partial.iter().filter(|it| it.function as usize == number) {
            for (place, &block) in path.blocks.iter().enumerate() {
                if counts.blocks[block as usize] > 0 {
                    continue;
                }
                let positions = match place + 1 == path.blocks.len() {
                    true => sources[number].positions_begun(Block::new(block as usize)),
                    false => function.blocks[block as usize].locations.len() as u32,
                };
                let most = ran.entry(block).or_default();
                *most = positions.max(*most);
            }
            let steps = path.blocks.windows(2).map(|pair| (pair[0], pair[1]));
            let edges = steps.filter_map(|step| edge_number(function, step));
            ran_edges.extend(edges.filter(|it| counts.edges[*it] == 0).map(|it| it as u32));
        }
        Inexact {
            function: number as u32,
            activations_exact: true,
            ran: begun(ran),
            ran_edges: ran_edges.into_iter().collect(),
            ..Inexact::default()
        }
    };
    let inexact = functions.iter().enumerate().filter(|(_, function)| !function.edges_exact);
    inexact.map(of_function).collect()
}

/// What a log knows of functions, with what also follows from its counts: that something
/// ran. Nothing else may have.
pub(crate) fn join_known(mut log: Vec<Inexact>, counts: Vec<Inexact>) -> Vec<Inexact> {
    for more in counts {
        let Ok(place) = log.binary_search_by_key(&more.function, |it| it.function) else {
            continue;
        };
        let known = &mut log[place];
        known.ran = most_begun(known.ran.iter().chain(&more.ran));
        let edges = known.ran_edges.iter().chain(&more.ran_edges);
        let edges: BTreeSet<u32> = edges.copied().collect();
        known.ran_edges = edges.into_iter().collect();
    }
    log
}

/// Each block once, with the most of its positions.
fn most_begun<'a>(all: impl IntoIterator<Item = &'a Begun>) -> Vec<Begun> {
    let mut most: BTreeMap<u32, u32> = BTreeMap::new();
    for &Begun { block, positions } in all {
        let known = most.entry(block).or_default();
        *known = positions.max(*known);
    }
    begun(most)
}

/// Blocks with how many of their positions were come to.
fn begun(blocks: BTreeMap<u32, u32>) -> Vec<Begun> {
    blocks.into_iter().map(|(block, positions)| Begun { block, positions }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Decision, Edge, End, Instrumented, Path, PathTotal, Start};

    /// A function of three blocks, one after the other, of which a path counts some.
    fn profile(counted: Option<&[u32]>, known: Option<Inexact>) -> Profile {
        let edge = |from: u32| Edge { from, to: from + 1, decision: Decision::Always };
        let path = |blocks: &[u32]| {
            let (starts, ends, blocks) = (Start::Entry, End::Call, blocks.to_vec());
            Path { id: 0, count: 5, starts, ends, blocks }
        };
        let function = Function {
            name: "f".to_owned(),
            unit: "a.c".to_owned(),
            location: None,
            acyclic_paths: PathTotal { count: 1, exact: true },
            instrumented: Instrumented::Whole,
            entries: counted.map_or(1, |_| 5),
            inherited: 0,
            unfinished: counted.map_or(1, |_| 0),
            edges_exact: counted.is_some(),
            blocks: vec![Default::default(); 3],
            edges: vec![edge(0), edge(1)],
            paths: counted.map(path).into_iter().collect(),
        };
        Profile { functions: vec![function], inexact: Vec::from_iter(known), ..Profile::default() }
    }

    fn unknown_of(profile: &Profile) -> (Vec<u64>, Vec<bool>) {
        let known = KnownCounts::of(profile, 0);
        (known.counts.blocks, known.unknown_blocks)
    }

    #[test]
    fn what_is_known_of_sums() {
        let begun = |block: u32| Begun { block, positions: 0 };
        let knows = |ran: &[u32], unknown: &[u32]| Inexact {
            activations_exact: true,
            ran: ran.iter().copied().map(begun).collect(),
            unknown: unknown.to_vec(),
            ..Inexact::default()
        };
        let exact = profile(Some(&[0]), None);
        let one = profile(None, Some(knows(&[0], &[1])));
        let other = profile(None, Some(knows(&[0, 1], &[2])));
        let nothing = profile(None, None);
        let sum = |parts: &[&Profile]| {
            let parts = parts.iter().map(|it| (*it).clone());
            crate::merge::merge_all(parts).unwrap().unwrap()
        };
        assert_eq!(unknown_of(&exact), (vec![5, 0, 0], vec![false; 3]));
        assert_eq!(unknown_of(&sum(&[&exact, &one])), (vec![5, 0, 0], vec![false, true, false]));
        for parts in [[&one, &other], [&other, &one]] {
            let sum = sum(&parts);
            assert_eq!(unknown_of(&sum), (vec![1, 1, 0], vec![false, false, true]));
        }
        let all = sum(&[&other, &nothing, &exact]);
        assert_eq!(unknown_of(&all), (vec![5, 0, 0], vec![false, true, true]));
    }
}
