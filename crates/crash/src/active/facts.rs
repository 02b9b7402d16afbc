//! What a core says of each function, whichever of its activations is meant: what
//! cannot have been executed, and therefore which functions can return and which
//! can be left otherwise.
//!
//! A function can return if a way leads from its entry to a return on which every
//! call can return: the least solution, so that a recursion without end returns
//! never. Likewise for leaving. Cost: a pass over the program for each level of
//! calls that something new is learned at.

use backtrail_analysis::Body;
use backtrail_graph::{Index as _, IndexMap};
use backtrail_ir::Block;

use super::code::{BodyCode, CallSite, Code};
use super::view::{CallFate, View};
use crate::evidence::{Activation, Coverage, Evidence, Position, Seen};

/// What is known of the functions of a program.
pub(super) struct Facts<'a> {
    code: &'a Code,
    known: IndexMap<Body, Known>,
    /// Functions that are live, that may have given up their frame for one that
    /// is, or for unseen code that may be.
    lasting: IndexMap<Body, bool>,
    ends_anywhere: bool,
}

#[derive(Debug, Clone)]
struct Known {
    /// Whether it can have been entered.
    enters: bool,
    returns: bool,
    leaves: bool,
    /// By block.
    possible: Vec<bool>,
    /// By call, as far as coverage goes.
    begins: Vec<bool>,
}

impl<'a> Facts<'a> {
    /// What `evidence` says of `code`.
    pub fn new(code: &'a Code, evidence: &Evidence, ends_anywhere: bool) -> Self {
        let known = code.bodies.values().map(|body| Known::new(body, evidence)).collect();
        let lasting = find_lasting(code, evidence);
        let mut facts = Self { code, known, lasting, ends_anywhere };
        for activation in evidence.activations() {
            facts.admit(activation);
        }
        facts.solve();
        facts
    }

    /// What a live activation did is possible, whatever coverage says.
    fn admit(&mut self, activation: &Activation) {
        let Some(body) = self.code.body(activation.function) else { return };
        let known = &mut self.known[body];
        known.enters = true;
        if let Some(entry) = known.possible.first_mut() {
            *entry = true;
        }
        for block in activation.at.iter().chain(&activation.suffix) {
            if let Some(possible) = known.possible.get_mut(block.position()) {
                *possible = true;
            }
        }
        if let Position::Call(inst) = activation.position {
            let calls = &self.code.bodies[body].calls;
            if let Some(call) = calls.iter().position(|call| call.inst == inst) {
                known.begins[call] = true;
            }
        }
    }

    fn solve(&mut self) {
        loop {
            let mut changed = false;
            for body in self.code.bodies.indices().rev() {
                let known = &self.known[body];
                if !known.enters || (known.returns && known.leaves) {
                    continue;
                }
                let (returns, leaves) = self.view(body, None).outcomes();
                let known = &mut self.known[body];
                changed |= (returns && !known.returns) || (leaves && !known.leaves);
                known.returns |= returns;
                known.leaves |= leaves;
            }
            if !changed {
                return;
            }
        }
    }

    /// Whether a function can have been entered.
    pub fn enters(&self, body: Body) -> bool {
        self.known[body].enters
    }

    /// A function as far as it is possible, for any activation or for this one.
    pub fn view(&self, body: Body, activation: Option<&Activation>) -> View<'a> {
        let known = &self.known[body];
        let data = &self.code.bodies[body];
        let mut possible = known.possible.clone();
        let none = Coverage::default();
        let own = activation.map_or(&none, |activation| &activation.coverage);
        for (place, possible) in possible.iter_mut().enumerate() {
            *possible &= own.block(Block::new(place)) != Seen::No;
        }
        if let Some(activation) = activation {
            for block in activation.at.iter().chain(&activation.suffix) {
                possible[block.position()] = true;
            }
        }
        let fate = |(call, site): (usize, &CallSite)| {
            let in_progress = activation.is_some_and(|it| it.position == Position::Call(site.inst));
            let covered = known.begins[call] && (in_progress || own.call(site.inst) != Seen::No);
            self.fate(site, covered)
        };
        let fates = data.calls.iter().enumerate().map(fate).collect();
        View::new(data, possible, fates, self.ends_anywhere)
    }

    fn fate(&self, site: &CallSite, covered: bool) -> CallFate {
        let callees = || site.callees.iter().map(|&body| &self.known[body]);
        let begins = covered && (site.unseen.is_some() || callees().any(|it| it.enters));
        let by_unseen = |what: bool| site.unseen.is_some() && what;
        let leaves = site.unseen.as_ref().is_some_and(|unseen| unseen.leaves);
        CallFate {
            begins,
            returns: begins
                && site.returns
                && (by_unseen(true) || callees().any(|it| it.enters && it.returns)),
            leaves: begins && (leaves || callees().any(|it| it.enters && it.leaves)),
            gives_up: begins
                && site.tail
                && (by_unseen(true) || site.callees.iter().any(|&callee| self.lasting[callee])),
        }
    }
}

fn find_lasting(code: &Code, evidence: &Evidence) -> IndexMap<Body, bool> {
    let mut lasting: IndexMap<Body, bool> = code.bodies.values().map(|_| false).collect();
    for activation in evidence.activations() {
        if let Some(body) = code.body(activation.function) {
            lasting[body] = true;
        }
    }
    loop {
        let mut changed = false;
        for (body, data) in
            code.bodies.iter().filter(|(_, data)| data.calls.iter().any(|it| it.tail))
        {
            let leads_there = |site: &CallSite| {
                site.tail && (site.unseen.is_some() || site.callees.iter().any(|&it| lasting[it]))
            };
            if !lasting[body] && data.calls.iter().any(leads_there) {
                lasting[body] = true;
                changed = true;
            }
        }
        if !changed {
            return lasting;
        }
    }
}

impl Known {
    fn new(body: &BodyCode, evidence: &Evidence) -> Self {
        let blocks = body.flow.node_count();
        let found = evidence.functions.get(&body.id);
        let none = Coverage::default();
        let coverage = found.map_or(&none, |found| &found.coverage);
        let possible: Vec<bool> =
            (0..blocks).map(|place| coverage.block(Block::new(place)) != Seen::No).collect();
        let entered = found.map_or(Seen::Unknown, |found| found.entered);
        let begins = body.calls.iter().map(|site| coverage.call(site.inst) != Seen::No).collect();
        let enters = entered != Seen::No && possible.first().copied().unwrap_or(false);
        Self { enters, returns: false, leaves: false, possible, begins }
    }
}
