//! Rebuilding: from partial traces to the trace, as a stream.
//!
//! A walk over the traced graph with a call stack of its own and one cursor per
//! partial trace. Where a node has several ways, the heads of the partial traces
//! say which one was taken ([`crate::realizability`] says why exactly one
//! remains). The place of each way and node that is passed is consumed from each
//! partial trace whose profile holds it. Nothing but the stack grows, and it is
//! as deep as the program's.
//!
//! **Never a guess.** Where no way remains, or a witness is passed that is not
//! the head of its trace, the runs diverged: an [`Error::Diverged`] that names
//! the place. At a predicate the profile that decides it is asked, not all of
//! them; every witness of every profile is compared when it is passed, so a trace
//! that comes out whole agrees with all of them.
//!
//! **What was cut.** The partial trace of a run that was killed ends somewhere
//! ([`Ending::Cut`]). From there on it excludes nothing. The walk goes on as long
//! as the others decide, and where they do not it ends as [`Outcome::Unknown`].
//!
//! **Handlers of signals** can run at any time. Their beginning is an event of its
//! own ([`Event::interrupt`]), which no way agrees with: as soon as all traces have it
//! next, the handler runs, and behind it the walk goes on where it was. So a handler stands
//! behind the witness before it, and what was executed between the witnesses around it
//! stands behind the handler. If it does not return but jumps, nothing tells what the
//! activation that it interrupted had done since its last witness, and none of that is in
//! the trace: [`Rebuild::left_untold`] counts these. That a handler returns is a
//! witness in every profile, or an event of its own ([`Event::resume`]), which every way
//! agrees with on which a root may return unseen; where there are such events, each
//! handler that returns has one ([`Rebuild::with_resumes`]).
//!
//! **What has to be connected.** A partial trace is an iterator of [`Event`]s:
//! the position of a witness in its profile, with the frame's depth where the
//! witness is a landing ([`crate::icfg`] says what that is). Probes write these
//! numbers, or whatever they can be decoded from; for breakpoints, the address
//! of each stop stands for a node's witness. A decoder that fails midway ends its
//! iterator, as a cut trace, and keeps its error for its owner. Nodes come out;
//! those that begin blocks say so ([`crate::icfg::Role`]).
//!
//! Cost per node: a few array lookups and, at a predicate, one probe of a small
//! table ([`tables`]).

pub mod tables;

use std::collections::BTreeSet;
use std::fmt;

use backtrail_graph::Index;

pub use tables::Tables;

use crate::Error;
use crate::distribution::Witness;
use crate::icfg::{Node, Routine};
use tables::{Action, CUT, END, INTERRUPT, INTERRUPTED, NO_NODE, RESUME};

/// A witness that was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Its number in the profile of the run.
    pub witness: Witness,
    /// At a landing, the depth of the frame that resumes; otherwise 0.
    pub depth: u32,
}

impl Event {
    /// The handler that was called last returned.
    pub fn resume() -> Self {
        Self { witness: Witness::new(RESUME as usize), depth: 0 }
    }

    /// The kernel called this routine, as the handler of a signal.
    pub fn interrupt(handler: Routine) -> Self {
        Self { witness: Witness::new(INTERRUPT as usize), depth: handler.position() as u32 }
    }

    /// The handler that was called, if this is not a witness.
    pub fn interrupted_by(&self) -> Option<Routine> {
        let is_call = self.witness.position() as u32 == INTERRUPT;
        is_call.then(|| Routine::new(self.depth as usize))
    }
}

/// How a partial trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With the run.
    Whole,
    /// Somewhere: the run was stopped or its record was cut.
    Cut,
}

/// How a trace ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With the run.
    Whole,
    /// Behind this node, what followed is not known.
    Unknown(Node),
}

/// Where partial traces stopped being of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divergence {
    /// How many nodes were rebuilt before.
    pub position: u64,
    /// The last of them.
    pub node: Node,
    /// Its routine.
    pub routine: Routine,
    /// The partial trace that does not agree, if it is one.
    pub profile: Option<u32>,
    /// What it has next, unless it is at its end.
    pub found: Option<Witness>,
    /// What is wrong.
    pub why: Why,
}

/// What is wrong with partial traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// No way agrees with the next witnesses.
    NoWay,
    /// More than one does: the plan does not tell executions apart.
    SeveralWays,
    /// A witness was passed that is not the next one of its trace.
    NotNext,
    /// A landing in a frame that is not there.
    NoFrame,
    /// The run ended and the trace goes on.
    Rest,
    /// The walk goes round and meets no witness.
    Endless,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoWay => "no way agrees with what comes next",
            Self::SeveralWays => "several ways agree with what comes next",
            Self::NotNext => "a witness was passed that is not next",
            Self::NoFrame => "a frame resumes that is not there",
            Self::Endless => "a loop is not left and meets no witness",
            Self::Rest => "the run ended and a partial trace goes on",
        })
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, node, routine, profile, found, why } = self;
        write!(f, "at {node} of {routine}, {position} nodes from the start, {why}")?;
        match (profile, found) {
            (Some(profile), Some(found)) => write!(f, " (partial trace {profile} has {found})"),
            (Some(profile), None) => write!(f, " (partial trace {profile} is at its end)"),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct LandingFrame {
    /// How many frames there are when it is the topmost.
    height: u32,
    routine: Routine,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// This node comes first.
    Start(Node),
    /// This one came last.
    After(Node),
    Ended(Outcome),
}

/// The nodes of an execution, from its partial traces. After the last one,
/// [`Self::outcome`] says how it ended; an error is the last item.
pub struct Rebuild<'t, I> {
    tables: &'t Tables,
    traces: Vec<(I, Ending)>,
    heads: Vec<Event>,
    /// Where each activation returns to; the root's nowhere.
    stack: Vec<u32>,
    /// The activations of routines with landings.
    landing_frames: Vec<LandingFrame>,
    /// What handlers interrupted, and how many frames there were.
    interrupted: Vec<(usize, State)>,
    /// How many of these were left by a jump.
    left_untold: u64,
    /// Where the walk goes on behind a handler.
    resumes: Option<State>,
    /// Whether traces tell where handlers return.
    has_resumes: bool,
    /// Whether a trace may have a handler next.
    is_handler_near: bool,
    state: State,
    error: Option<Error>,
    position: u64,
    /// How many traces are not at a cut end.
    live: usize,
    /// Nodes since a witness was last consumed.
    quiet: u64,
    watch: Watch,
    /// By height: the nodes that only follow from what was recorded, where all traces
    /// are cut.
    forced: Vec<(usize, BTreeSet<Node>)>,
}

/// Notices that the walk goes round without meeting a witness, which no run that
/// ends can do: between two witnesses the walk depends on the node and the stack
/// alone, so it will not stop if it is at the same node again and has not gone
/// below the frame it was in. Brent's way of remembering one node at a time, and
/// another one whenever the walk goes below.
#[derive(Debug, Clone, Copy)]
struct Watch {
    node: Node,
    height: usize,
    until: u64,
}

/// How many nodes may follow each other without a witness before that is watched.
const QUIET: u64 = 1 << 12;

impl<'t, I: Iterator<Item = Event>> Rebuild<'t, I> {
    /// Begins at the entry of `root`, with one partial trace per profile.
    ///
    /// # Panics
    /// If there is not one trace for each profile.
    pub fn new(
        tables: &'t Tables,
        root: Routine,
        traces: impl IntoIterator<Item = (I, Ending)>,
    ) -> Self {
        let traces: Vec<(I, Ending)> = traces.into_iter().collect();
        assert_eq!(traces.len(), tables.profile_count(), "one partial trace for each profile");
        let none = Event { witness: Witness::new(END as usize), depth: 0 };
        let mut rebuild = Self {
            tables,
            heads: vec![none; traces.len()],
            live: traces.len(),
            quiet: 0,
            watch: Watch { node: tables.first_node(), height: 0, until: QUIET },
            forced: Vec::new(),
            traces,
            stack: Vec::new(),
            landing_frames: Vec::new(),
            interrupted: Vec::new(),
            left_untold: 0,
            resumes: None,
            has_resumes: false,
            is_handler_near: false,
            state: State::Start(tables.entry(root)),
            error: None,
            position: 0,
        };
        for profile in 0..rebuild.heads.len() {
            rebuild.advance(profile);
        }
        rebuild.push(root, NO_NODE);
        rebuild
    }

    /// The root does not end the trace when it returns: what follows is this node, of a
    /// routine without a frame. That the root returns has to be a witness in every
    /// profile, for first witnesses end there.
    #[must_use]
    pub fn going_on_at(mut self, behind: Node) -> Self {
        self.stack[0] = behind.position() as u32;
        self
    }

    /// In these traces each handler that returns has an [`Event::resume`].
    #[must_use]
    pub fn with_resumes(mut self) -> Self {
        self.has_resumes = true;
        self
    }

    /// How the trace ended, once it has.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            State::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// How many activations were interrupted by a handler and left by a jump: what
    /// they did last is not in the trace.
    pub fn left_untold(&self) -> u64 {
        self.left_untold
    }

    /// Of a trace that ended where all partial traces were cut: how many nodes it tried
    /// to leave since a witness was last passed. 1 at a node to which a witness led: that
    /// the execution came there is recorded, and does not just follow if it went on.
    pub fn nodes_since_witness(&self) -> Option<u64> {
        (self.live == 0).then_some(self.quiet)
    }

    /// How many activations there are, the root's included.
    #[inline]
    pub fn depth(&self) -> usize {
        self.stack.len()
    }

    #[cold]
    fn goes_round(&mut self, node: Node) -> bool {
        let height = self.stack.len();
        let is_due = self.quiet == QUIET + 1 || self.quiet >= self.watch.until;
        if is_due || height < self.watch.height {
            self.watch = Watch { node, height, until: 2 * self.quiet };
            return false;
        }
        node == self.watch.node
    }

    #[inline]
    fn advance(&mut self, profile: usize) {
        self.quiet = 0;
        let (events, ending) = &mut self.traces[profile];
        self.heads[profile] = match events.next() {
            Some(event) => {
                self.is_handler_near |= event.witness.position() as u32 == INTERRUPT;
                event
            }
            None => {
                let end = if *ending == Ending::Cut { CUT } else { END };
                self.live -= usize::from(end == CUT);
                Event { witness: Witness::new(end as usize), depth: 0 }
            }
        };
    }

    /// Ends with an error.
    #[cold]
    fn diverge(&mut self, node: Node, profile: Option<usize>, why: Why) {
        let found = profile.map(|profile| self.heads[profile].witness);
        self.error = Some(Error::Diverged(Divergence {
            position: self.position,
            node,
            routine: self.tables.routine(node),
            profile: profile.map(|profile| profile as u32),
            found: found.filter(|&found| (found.position() as u32) < RESUME),
            why,
        }));
        self.state = State::Ended(Outcome::Unknown(node));
    }

    /// Ends where the others do not decide either, or with an error if all
    /// traces are whole.
    #[cold]
    fn lose(&mut self, node: Node, profile: Option<usize>, why: Why) {
        if self.live < self.heads.len() {
            self.state = State::Ended(Outcome::Unknown(node));
        } else {
            self.diverge(node, profile, why);
        }
    }

    #[inline]
    fn push(&mut self, routine: Routine, back: u32) {
        self.stack.push(back);
        if self.tables.has_landings(routine) {
            self.landing_frames.push(LandingFrame { height: self.stack.len() as u32, routine });
        }
    }

    /// Takes the witnesses of a place from the traces that hold it; whether the
    /// execution is known to have come by.
    #[inline]
    fn consume(&mut self, near: Node, hits: (u32, u32)) -> bool {
        for hit in hits.0..hits.1 {
            let (profile, witness) = self.tables.hit(hit);
            if self.heads[profile].witness == witness {
                self.advance(profile);
            } else if !self.is_cut_at(near, profile) {
                return false;
            }
        }
        true
    }

    /// Whether a trace that has something else next may be passed over, because
    /// it was cut and others go on.
    #[cold]
    fn is_cut_at(&mut self, near: Node, profile: usize) -> bool {
        let is_cut = self.heads[profile].witness.position() as u32 == CUT;
        if !is_cut {
            self.diverge(near, Some(profile), Why::NotNext);
        } else if self.live == 0 {
            self.state = State::Ended(Outcome::Unknown(near));
            return false;
        }
        is_cut
    }

    /// Comes to a node; whether the execution is known to have come there.
    #[inline]
    fn arrive(&mut self, near: Node, node: Node) -> bool {
        let row = self.tables.node(node);
        let hits = row.hits;
        if row.landing && !self.is_depth_right(near) {
            return false;
        }
        hits.0 == hits.1 || self.consume(near, hits)
    }

    /// Whether the event of a landing, in every profile, has the depth of the
    /// frame at hand.
    #[cold]
    fn is_depth_right(&mut self, near: Node) -> bool {
        let depth = self.landing_frames.len() as u32 - 1;
        let is_other = |head: &Event| (head.witness.position() as u32) < CUT && head.depth != depth;
        let wrong = self.heads.iter().position(is_other);
        if let Some(profile) = wrong {
            self.diverge(near, Some(profile), Why::NoFrame);
        }
        wrong.is_none()
    }

    /// The node behind `node`, where the walk has not come yet; nothing if the run
    /// ended, is unknown from here, or diverged, or if a handler returned.
    #[inline]
    fn follow(&mut self, node: Node) -> Option<Node> {
        let row = self.tables.node(node);
        let height = self.stack.len();
        self.quiet += 1;
        if self.quiet > QUIET && self.goes_round(node) {
            self.lose(node, None, Why::Endless);
            return None;
        }
        let way = if row.is_predicate {
            self.choose(node)?
        } else if row.way == u32::MAX {
            // Nothing can follow: no run ends here, but one may be stopped.
            self.lose(node, None, Why::NoWay);
            return None;
        } else {
            row.way
        };
        let row = self.tables.way(way);
        if row.hits.0 != row.hits.1 && !self.consume(node, row.hits) {
            return None;
        }
        let next = match row.action {
            Action::Step => Node::new(row.target as usize),
            Action::Call => {
                self.push(row.callee, row.back);
                Node::new(row.target as usize)
            }
            Action::Tail => {
                if row.pops_landing {
                    self.landing_frames.pop();
                }
                let back = self.stack.pop().expect("a routine that runs has a frame");
                self.push(row.callee, back);
                Node::new(row.target as usize)
            }
            Action::Return => {
                let back = self.stack.last().copied().unwrap_or(NO_NODE);
                if back >= INTERRUPTED {
                    self.return_to_nobody(node, row.pops_landing);
                    return None;
                }
                if row.pops_landing {
                    self.landing_frames.pop();
                }
                self.stack.pop();
                Node::new(back as usize)
            }
            Action::Leave => self.leave(node)?,
            Action::End => {
                self.end(node);
                return None;
            }
        };
        if self.live == 0 && self.is_forced_again((node, height), next) {
            self.lose(node, None, Why::Endless);
            return None;
        }
        Some(next)
    }

    /// The root returns at `node`, or a handler, which goes on where it interrupted.
    #[cold]
    fn return_to_nobody(&mut self, node: Node, pops_landing: bool) {
        if self.stack.last() != Some(&INTERRUPTED) {
            return self.end(node);
        }
        let is_told = |profile: usize| self.heads[profile].witness.position() as u32 == RESUME;
        if self.has_resumes {
            let others: Vec<usize> = (0..self.heads.len()).filter(|&it| !is_told(it)).collect();
            if others.into_iter().any(|profile| !self.is_cut_at(node, profile)) {
                return;
            }
            for profile in 0..self.heads.len() {
                if self.heads[profile].witness.position() as u32 == RESUME {
                    self.advance(profile);
                }
            }
        }
        if pops_landing {
            self.landing_frames.pop();
        }
        self.stack.pop();
        self.resumes = self.interrupted.pop().map(|(_, state)| state);
    }

    /// Whether the walk is at a node of the same activation again, where all traces are
    /// cut: how often it went round is not known.
    #[cold]
    fn is_forced_again(&mut self, (node, height): (Node, usize), next: Node) -> bool {
        if self.forced.is_empty() {
            self.forced.push((height, BTreeSet::from([node])));
        }
        let height = self.stack.len();
        while self.forced.last().is_some_and(|(it, _)| *it > height) {
            self.forced.pop();
        }
        if self.forced.last().is_none_or(|(it, _)| *it < height) {
            self.forced.push((height, BTreeSet::new()));
        }
        self.forced.last_mut().is_some_and(|(_, nodes)| !nodes.insert(next))
    }

    /// Whether the walk goes on where it seemed to have ended: behind a handler that
    /// returned, or in one that interrupted it before `state`.
    #[cold]
    fn goes_on(&mut self, state: State) -> bool {
        if let Some(state) = self.resumes.take() {
            self.state = state;
            return true;
        }
        if self.error.is_none() || !self.is_interrupted(state) {
            return false;
        }
        self.error = None;
        true
    }

    /// Whether all traces have a handler next, which then goes on instead.
    #[cold]
    fn is_interrupted(&mut self, state: State) -> bool {
        let is_known = |head: &&Event| head.witness.position() as u32 != CUT;
        let mut known = self.heads.iter().filter(is_known);
        let Some(handler) = known.next().and_then(Event::interrupted_by) else { return false };
        if !known.all(|head| head.interrupted_by() == Some(handler)) {
            return false;
        }
        self.interrupted.push((self.stack.len(), state));
        self.push(handler, INTERRUPTED);
        self.is_handler_near = false;
        for profile in 0..self.heads.len() {
            if self.heads[profile].interrupted_by().is_some() {
                self.advance(profile);
            }
        }
        self.state = State::Start(self.tables.entry(handler));
        true
    }

    #[cold]
    fn end(&mut self, node: Node) {
        let has_more = |head: &Event| (head.witness.position() as u32) < CUT;
        if let Some(profile) = self.heads.iter().position(has_more) {
            return self.diverge(node, Some(profile), Why::Rest);
        }
        let was_cut = self.live < self.heads.len();
        let outcome = if was_cut { Outcome::Unknown(node) } else { Outcome::Whole };
        self.state = State::Ended(outcome);
    }

    /// Drops the frames above the one that resumes.
    fn leave(&mut self, node: Node) -> Option<Node> {
        let known = |head: &Event| head.witness.position() as u32 != CUT;
        let Some(profile) = self.heads.iter().position(known) else {
            self.state = State::Ended(Outcome::Unknown(node));
            return None;
        };
        let head = self.heads[profile];
        let landing = self.tables.landing(profile, head.witness);
        let frame = self.landing_frames.get(head.depth as usize).copied();
        let (Some(landing), Some(frame)) = (landing, frame) else {
            self.diverge(node, Some(profile), Why::NoFrame);
            return None;
        };
        if self.tables.routine(landing) != frame.routine {
            self.diverge(node, Some(profile), Why::NoFrame);
            return None;
        }
        self.stack.truncate(frame.height as usize);
        self.landing_frames.truncate(head.depth as usize + 1);
        // Handlers that were left do not return.
        let height = self.stack.len();
        let before = self.interrupted.len();
        self.interrupted.retain(|&(below, _)| below < height);
        self.left_untold += (before - self.interrupted.len()) as u64;
        Some(landing)
    }

    /// The way that was taken; nothing if that cannot be known.
    #[inline]
    fn choose(&mut self, node: Node) -> Option<u32> {
        let (profile, found) = self.tables.choose(node, &self.heads);
        match found {
            Some(way) => Some(way),
            None => self.choose_slowly(node, profile),
        }
    }

    /// Asks every profile about every way.
    fn choose_slowly(&mut self, node: Node, asked: Option<usize>) -> Option<u32> {
        let found = {
            let mut remaining = self.tables.possible(node, &self.heads);
            (remaining.next(), remaining.next())
        };
        match found {
            (Some(way), None) => return Some(way),
            (None, _) => self.diverge(node, asked, Why::NoWay),
            (Some(_), Some(_)) => self.lose(node, None, Why::SeveralWays),
        }
        None
    }

    /// The next node; nothing at the end, with [`Self::error`] if there is one.
    #[inline]
    fn step(&mut self) -> Option<Node> {
        loop {
            let state = self.state;
            let (near, node) = match state {
                State::After(_) if self.is_handler_near && self.is_interrupted(state) => continue,
                State::After(node) => match self.follow(node) {
                    Some(next) => (node, next),
                    None if self.goes_on(State::After(node)) => continue,
                    None => return None,
                },
                State::Start(node) => (node, node),
                State::Ended(_) => return None,
            };
            if self.arrive(near, node) {
                self.state = State::After(node);
                self.position += 1;
                return Some(node);
            }
            if !self.goes_on(State::Start(node)) {
                return None;
            }
        }
    }
}

impl<I: Iterator<Item = Event>> Iterator for Rebuild<'_, I> {
    type Item = Result<Node, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.step() {
            Some(node) => Some(Ok(node)),
            None => self.error.take().map(Err),
        }
    }
}
