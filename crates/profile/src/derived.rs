//! Counts that follow from those of paths: of blocks, of edges, of lines.
//!
//! A path counts its blocks and the edges between them, and the edge it ends
//! with. A path that starts within a block does not count that block: the one
//! before did. They are exact up to unfinished paths, whose blocks are missing;
//! `exact` says whether there were any.
//!
//! # Lines
//! A line is executed once each time control comes to it from elsewhere, and
//! once more for each round of a loop that stays on it. This is what gcov
//! shows, and it is computed in the same way: the executions of the line's
//! blocks, less those that came from another of its blocks, and then cycles
//! among its blocks are taken out of the flow between them until none is left.
//! Where code was inlined, the line of the call was executed as well. The line
//! of the definition belongs to the entry block.
//!
//! Blocks and edges are linear in the paths' lengths, times the logarithm of
//! the edges; a line costs at most the square of the edges between its blocks.

use std::collections::BTreeMap;

use crate::model::{End, Function, Path, Profile};

/// How often the parts of a function were executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Each block, by number.
    pub blocks: Vec<u64>,
    /// Each edge, by its place in [`Function::edges`].
    pub edges: Vec<u64>,
    /// Whether nothing is missing.
    pub exact: bool,
}

impl Counts {
    /// Those of `function`.
    pub fn of(function: &Function) -> Self {
        let mut counts = Self {
            blocks: vec![0; function.blocks.len()],
            edges: vec![0; function.edges.len()],
            exact: function.edges_exact,
        };
        for path in &function.paths {
            for &block in counted_blocks(path) {
                counts.blocks[block as usize] += path.count;
            }
            for step in steps(path) {
                let edge = edge_number(function, step).expect("a verified path takes edges");
                counts.edges[edge] += path.count;
            }
        }
        counts
    }
}

/// The blocks whose executions a path counts.
pub fn counted_blocks(path: &Path) -> &[u32] {
    &path.blocks[usize::from(path.starts.is_within_block())..]
}

/// The edges a path takes, the one it ends with included.
pub fn steps(path: &Path) -> impl Iterator<Item = (u32, u32)> {
    let last = match path.ends {
        End::Loop(to) | End::Cut(to) => path.blocks.last().map(|&from| (from, to)),
        End::Exit | End::CutWithin | End::Call => None,
    };
    path.blocks.windows(2).map(|pair| (pair[0], pair[1])).chain(last)
}

/// The place of an edge in the function's list.
pub fn edge_number(function: &Function, (from, to): (u32, u32)) -> Option<usize> {
    function.edges.binary_search_by_key(&(from, to), |edge| (edge.from, edge.to)).ok()
}

/// A line of a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// The file's number.
    pub file: u32,
    /// The line, from 1.
    pub line: u32,
}

/// How often a line was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineCount {
    /// How often.
    pub count: u64,
    /// Whether nothing is missing.
    pub exact: bool,
}

/// The executions of every line that has code in an instrumented function; the
/// copies that inlining and templates make of it are added up.
pub fn compute_line_counts(profile: &Profile) -> BTreeMap<Line, LineCount> {
    let mut lines = BTreeMap::new();
    for function in profile.functions.iter().filter(|function| function.is_instrumented()) {
        for (line, count) in compute_function_lines(profile, function, &Counts::of(function)) {
            let sum = lines.entry(line).or_insert(LineCount { count: 0, exact: true });
            sum.count += count;
            sum.exact &= function.edges_exact;
        }
    }
    lines
}

/// The executions of the lines of one function.
pub fn compute_function_lines(
    profile: &Profile,
    function: &Function,
    counts: &Counts,
) -> BTreeMap<Line, u64> {
    blocks_of_lines(profile, function)
        .into_iter()
        .map(|(line, blocks)| (line, line_count(function, counts, &blocks)))
        .collect()
}

/// Which blocks have code of which line, in order.
pub fn blocks_of_lines(profile: &Profile, function: &Function) -> BTreeMap<Line, Vec<u32>> {
    let mut lines: BTreeMap<Line, Vec<u32>> = BTreeMap::new();
    let mut add = |location: u32, block: u32| {
        for line in profile.lines_of(location) {
            let blocks = lines.entry(line).or_default();
            if blocks.last() != Some(&block) {
                blocks.push(block);
            }
        }
    };
    if !function.blocks.is_empty()
        && let Some(location) = function.location
    {
        add(location, 0);
    }
    for (number, block) in function.blocks.iter().enumerate() {
        for &location in &block.locations {
            add(location, number as u32);
        }
    }
    lines
}

impl Profile {
    /// The line of a position, and those of the calls that it was inlined by.
    pub(crate) fn lines_of(&self, location: u32) -> impl Iterator<Item = Line> {
        let at = |number: u32| &self.locations[number as usize];
        let chain = std::iter::successors(Some(location), move |&it| at(it).inlined_at);
        let lines = chain.map(move |it| Line { file: at(it).file, line: at(it).line });
        lines.filter(|it| it.line > 0)
    }
}

fn line_count(function: &Function, counts: &Counts, blocks: &[u32]) -> u64 {
    let mut flow = Flow::within(function, counts, blocks);
    let arrived = blocks.iter().map(|&block| {
        // A path that was left unfinished can be missing behind an edge.
        counts.blocks[block as usize].saturating_sub(flow.arriving_at(block))
    });
    let arrived: u64 = arrived.sum();
    arrived + flow.take_cycles()
}

/// What flows between the blocks of one line.
struct Flow<'a> {
    blocks: &'a [u32],
    /// By block's place: the places of the blocks that follow, and how often.
    edges: Vec<Vec<(usize, u64)>>,
}

impl<'a> Flow<'a> {
    fn within(function: &Function, counts: &Counts, blocks: &'a [u32]) -> Self {
        let edges = blocks.iter().map(|&block| {
            let first = function.edges.partition_point(|edge| edge.from < block);
            let leaving = function.edges[first..].iter().zip(&counts.edges[first..]);
            leaving
                .take_while(|(edge, _)| edge.from == block)
                .filter_map(|(edge, &count)| {
                    let place = blocks.binary_search(&edge.to).ok()?;
                    (count > 0).then_some((place, count))
                })
                .collect()
        });
        Self { blocks, edges: edges.collect() }
    }

    fn arriving_at(&self, block: u32) -> u64 {
        let leads = |&&(place, _): &&(usize, u64)| self.blocks[place] == block;
        self.edges.iter().flatten().filter(leads).map(|&(_, count)| count).sum()
    }

    /// Takes cycles out until none is left; how often they were gone round.
    fn take_cycles(&mut self) -> u64 {
        let mut rounds = 0;
        while let Some(cycle) = self.cycle() {
            let of = |&(from, edge): &(usize, usize)| self.edges[from][edge].1;
            let times = cycle.iter().map(of).min().expect("a cycle has edges");
            for &(from, edge) in &cycle {
                self.edges[from][edge].1 -= times;
            }
            rounds += times;
        }
        rounds
    }

    /// The edges of some cycle, each as the place of its block and its place
    /// among the edges of that.
    fn cycle(&self) -> Option<Vec<(usize, usize)>> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut states = vec![State::New; self.blocks.len()];
        for root in 0..self.blocks.len() {
            if states[root] != State::New {
                continue;
            }
            // The edge that is being followed out of each open block.
            let mut open = vec![(root, 0)];
            states[root] = State::Open;
            while let Some(&(place, edge)) = open.last() {
                let Some(&(to, count)) = self.edges[place].get(edge) else {
                    states[place] = State::Done;
                    open.pop();
                    if let Some(below) = open.last_mut() {
                        below.1 += 1;
                    }
                    continue;
                };
                match states[to] {
                    State::New if count > 0 => {
                        states[to] = State::Open;
                        open.push((to, 0));
                    }
                    State::Open if count > 0 => {
                        let start = open.iter().position(|&(place, _)| place == to)?;
                        return Some(open.split_off(start));
                    }
                    _ => open.last_mut().expect("it is not empty").1 += 1,
                }
            }
        }
        None
    }
}

impl Function {
    /// Whether it was instrumented, whole or cut.
    pub fn is_instrumented(&self) -> bool {
        !matches!(self.instrumented, crate::model::Instrumented::No(_))
    }
}
