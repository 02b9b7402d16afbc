//! Recursive descent: from where code is known to begin to whatever it leads to.
//!
//! From each *leader*, a place where a block begins, instructions are decoded up to
//! one that ends the block, or to where another *run* of instructions went already.
//! Then, as long as there is something new:
//!
//! - a call goes on behind it once its callee is known to return: functions return
//!   that have a `ret`, or end in a jump that may return, on a way whose calls
//!   return or throw what is caught there. Assumed of no function without reason, so
//!   code behind a call of one that never returns, which may be data or another
//!   function, is not decoded; nor is what is behind a call that ends its function,
//!   as those of library functions do that nobody knows not to return;
//! - computed jumps are looked up in tables ([`super::jump_table`]), and those that
//!   have none are thought to return, but where the stack is exchanged before: so
//!   the unwinder goes to a landing pad, and nothing follows a call of it.
//!
//! Cost: linear in the code, but for tables, which take as many passes as tables
//! are nested.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::constants::named_memory;
use super::decoded::{Flow, Goto, decode, flow, leaves_frames, stub};
use super::frames::FrameRange;
use super::instructions::{Decoded, Instructions};
use super::jump_table;
use super::loaded::Loaded;

/// Instructions from a leader on.
#[derive(Debug)]
struct Run {
    /// Where its last instruction is, and where that ends.
    last: u64,
    end: u64,
    /// What the last instruction does; [`Flow::Next`] if another run goes on.
    flow: Flow,
    /// Whether it ends in a jump that gives up the frames above another.
    leaves: bool,
    returns: bool,
    /// Runs that return if this one does.
    before: Vec<usize>,
    /// Runs that call this one.
    callers: Vec<usize>,
}

/// A stretch of instructions that is entered at its start only and left at its
/// end only.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    /// Where its last instruction is.
    pub last: u64,
    pub end: u64,
    /// What its last instruction does; [`Flow::Next`] if another begins behind.
    pub flow: Flow,
}

/// Where tables end at the latest.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableEnds {
    /// Where tables begin.
    pub tables: BTreeSet<u64>,
    /// Addresses that code mentions, where something else begins.
    pub mentioned: BTreeSet<u64>,
    /// By table: its first entry that was found to be none.
    pub wrong: BTreeMap<u64, u64>,
}

impl TableEnds {
    /// Where a table ends at the latest; what is compared tells its size better than
    /// what code mentions.
    fn of_table(&self, start: u64, is_compared: bool) -> Option<u64> {
        let next = |set: &BTreeSet<u64>| set.range(start.saturating_add(1)..).next().copied();
        let mentioned = if is_compared { None } else { next(&self.mentioned) };
        let wrong = self.wrong.get(&start).copied();
        [next(&self.tables), mentioned, wrong].into_iter().flatten().min()
    }
}

/// An entry of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Where its table begins.
    pub table: u64,
    pub place: u64,
    pub target: u64,
    /// Whether a comparison tells how many there are.
    pub is_compared: bool,
}

/// Of each table the first of some entries.
fn first_by_table<'a>(entries: impl Iterator<Item = &'a Entry>) -> BTreeMap<u64, u64> {
    let mut found: BTreeMap<u64, u64> = BTreeMap::new();
    for entry in entries {
        let first = found.entry(entry.table).or_insert(entry.place);
        *first = entry.place.min(*first);
    }
    found
}

/// What was found.
pub(crate) struct Descent<'a> {
    pub loaded: &'a Loaded,
    pub frames: &'a [FrameRange],
    pub decoded: Instructions<'a>,
    /// Those whose stretches are not found yet.
    new_leaders: Vec<u64>,
    /// Where computed jumps go to, by their address, as far as it is known.
    pub tables: BTreeMap<u64, Vec<u64>>,
    /// Those of them that go to labels, and whether they may be calls in tail position.
    labelled: BTreeMap<u64, bool>,
    /// Code whose address code computes, and where it does.
    pub mentioned: BTreeMap<u64, Vec<u64>>,
    /// What a computed jump goes to as far as is known, though perhaps not always.
    pub aims: BTreeSet<u64>,
    /// What code names to read or write there.
    pub accessed: BTreeSet<u64>,
    /// What is called.
    pub called: BTreeSet<u64>,
    /// Targets of jumps and branches, and these; in order, but for the latest.
    jumps: Vec<(u64, u64)>,
    pub stretches: BTreeMap<u64, Stretch>,
    waiting: Vec<u64>,
    runs: Vec<Run>,
    /// How many runs are linked to others.
    linked: usize,
    /// Runs, and addresses that they lead to.
    leads: Vec<(usize, u64)>,
    ends: TableEnds,
    /// What was known of that when all began anew: some of it may come from what is no
    /// code.
    earlier: TableEnds,
    /// The entries of all tables.
    pub entries: Vec<Entry>,
    /// By function: how many stretches it had when tables were looked for.
    pub looked_at: BTreeMap<u64, usize>,
}

impl<'a> Descent<'a> {
    /// Begins nowhere yet.
    pub fn new(loaded: &'a Loaded, frames: &'a [FrameRange], earlier: TableEnds) -> Self {
        Self {
            loaded,
            frames,
            decoded: Instructions::new(&loaded.spans),
            new_leaders: Vec::new(),
            tables: BTreeMap::new(),
            labelled: BTreeMap::new(),
            mentioned: BTreeMap::new(),
            aims: BTreeSet::new(),
            accessed: BTreeSet::new(),
            called: BTreeSet::new(),
            jumps: Vec::new(),
            stretches: BTreeMap::new(),
            waiting: Vec::new(),
            runs: Vec::new(),
            linked: 0,
            leads: Vec::new(),
            ends: TableEnds { wrong: earlier.wrong.clone(), ..TableEnds::default() },
            earlier,
            entries: Vec::new(),
            looked_at: BTreeMap::new(),
        }
    }

    /// Whether an instruction may begin at an address.
    pub fn may_begin(&self, address: u64) -> bool {
        self.loaded.is_code(address) && !self.is_inside_an_instruction(address)
    }

    /// The stretch of code with unwind information that an address is in.
    pub fn frame_of(&self, address: u64) -> Option<&'a FrameRange> {
        let after = self.frames.partition_point(|range| range.start <= address);
        self.frames[..after].last().filter(|range| address < range.end)
    }

    /// The addresses of that stretch, or none: as far as no other begins within it.
    pub fn framed(&self, address: u64) -> Range<u64> {
        let Some(frame) = self.frame_of(address) else { return 0..0 };
        let after = self.frames.partition_point(|range| range.start <= address);
        let next = self.frames.get(after).map_or(u64::MAX, |range| range.start);
        frame.start..frame.end.min(next)
    }

    /// The range of the function that an address is in, or of all code without unwind
    /// information around it.
    pub fn function_around(&self, address: u64) -> (u64, u64) {
        let after = self.frames.partition_point(|range| range.start <= address);
        let next = self.frames.get(after).map_or(u64::MAX, |range| range.start);
        match self.frames[..after].last() {
            Some(range) if address < range.end => (range.start, range.end),
            Some(range) => (range.end, next),
            None => (0, next),
        }
    }

    /// Whether an address is within an instruction, and not its start.
    pub fn is_inside_an_instruction(&self, address: u64) -> bool {
        self.decoded.is_inside_one(address)
    }

    /// What the instruction at an address does, if it was decoded, and where it ends.
    pub fn flow_at(&self, address: u64) -> Option<(&Flow, u64)> {
        let Decoded { next, run } = self.decoded.get(address)?;
        // Only the last instruction of a run leads elsewhere.
        let run = &self.runs[run];
        Some((if run.last == address { &run.flow } else { &Flow::Next }, next))
    }

    /// A block begins here.
    pub fn lead(&mut self, address: u64) {
        if self.loaded.is_code(address)
            && stub(self.loaded, address).is_none()
            && self.decoded.lead(address)
        {
            self.waiting.push(address);
            self.new_leaders.push(address);
        }
    }

    /// Follows the code until nothing is new.
    pub fn run(&mut self) {
        loop {
            self.follow();
            self.find_stretches();
            let found = jump_table::resolve(self);
            let has_found = !found.is_empty();
            for (jump, targets) in found {
                self.add_table(jump, targets);
            }
            if !has_found {
                self.give_up_tables();
            }
            if !has_found && self.is_done() {
                return;
            }
        }
    }

    /// Something else than what was before begins here.
    pub fn begin_tables(&mut self, starts: impl Iterator<Item = u64>) {
        self.ends.tables.extend(starts);
    }

    /// Where a table ends at the latest.
    pub fn end_of_table(&self, start: u64, is_compared: bool) -> Option<u64> {
        let ends = [&self.ends, &self.earlier].map(|it| it.of_table(start, is_compared));
        ends.into_iter().flatten().min()
    }

    /// What to begin anew with, if tables were read wrongly.
    pub fn better_ends(&self) -> Option<TableEnds> {
        let wrong = self.wrong_entries();
        if !wrong.is_empty() {
            let (mut ends, earlier) = (self.ends.clone(), self.earlier.clone());
            ends.tables.extend(earlier.tables);
            ends.mentioned.extend(earlier.mentioned);
            ends.wrong.extend(wrong);
            return Some(ends);
        }
        // A table that ended where nothing is after all.
        let is_cut = |entry: &Entry| {
            let end = |ends: &TableEnds| ends.of_table(entry.table, entry.is_compared);
            end(&self.earlier).is_some_and(|early| end(&self.ends).is_none_or(|end| early < end))
        };
        self.entries.iter().any(is_cut).then(|| self.ends.clone())
    }

    /// Entries of tables that are none, by table the first: what is where another table
    /// was found to begin that had not been known when this one was read; if there are
    /// none such, what leads into instructions, of each table the last one only, because
    /// what it leads to may be what contradicts the others; or what is where code
    /// mentions something. Sizes that comparisons tell are doubted last, and that a
    /// table has one entry is not.
    fn wrong_entries(&self) -> BTreeMap<u64, u64> {
        let leads_into_one = |entry: &&Entry| self.decoded.is_passed(entry.target);
        let is_behind = |entry: &&Entry, set: &BTreeSet<u64>| {
            set.range(entry.table.saturating_add(1)..).next().is_some_and(|&end| end <= entry.place)
        };
        for is_compared in [false, true] {
            let such = || {
                let entries = self.entries.iter().filter(|it| it.place != it.table);
                entries.filter(move |it| it.is_compared == is_compared)
            };
            let in_tables = first_by_table(such().filter(|it| is_behind(it, &self.ends.tables)));
            if !in_tables.is_empty() {
                return in_tables;
            }
            let mut wrong: BTreeMap<u64, u64> = BTreeMap::new();
            for entry in such().filter(leads_into_one) {
                let last = wrong.entry(entry.table).or_default();
                *last = entry.place.max(*last);
            }
            if wrong.is_empty() && !is_compared {
                let mentioned = such().filter(|it| is_behind(it, &self.ends.mentioned));
                wrong = first_by_table(mentioned);
            }
            if !wrong.is_empty() {
                return wrong;
            }
        }
        BTreeMap::new()
    }

    fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.leads.is_empty() && self.linked == self.runs.len()
    }

    /// Whether a stretch ends in a computed jump for which no table was found.
    pub fn is_open(&self, stretch: &Stretch) -> bool {
        stretch.flow == Flow::Jump(Goto::Computed) && !self.tables.contains_key(&stretch.last)
    }

    /// Whether a stretch ends in a computed jump that may go to any label.
    pub fn needs_labels(&self, stretch: &Stretch) -> bool {
        self.is_open(stretch) || self.labelled.contains_key(&stretch.last)
    }

    /// Whether a jump out of the file, or one that is computed, may be a call in tail
    /// position.
    pub fn may_leave(&self, jump: u64) -> bool {
        match self.labelled.get(&jump) {
            Some(may_leave) => *may_leave,
            None => !self.tables.contains_key(&jump),
        }
    }

    /// Labels that a computed jump may go to, and whether it may be a call instead.
    /// Whether these are others than before.
    pub fn add_labels(&mut self, jump: u64, labels: Vec<u64>, may_leave: bool) -> bool {
        self.labelled.insert(jump, may_leave);
        let are_others = self.tables.get(&jump) != Some(&labels);
        if are_others {
            self.add_table(jump, labels);
        }
        are_others
    }

    /// Where a computed jump goes to.
    pub fn add_table(&mut self, jump: u64, targets: Vec<u64>) {
        let run = self.decoded.get(jump).map(|it| it.run);
        for &target in &targets {
            self.lead(target);
            self.leads.extend(run.map(|run| (run, target)));
        }
        self.tables.insert(jump, targets);
    }

    /// Computed jumps without a table are thought to return.
    fn give_up_tables(&mut self) {
        for run in 0..self.runs.len() {
            let it = &self.runs[run];
            let is_computed = it.flow == Flow::Jump(Goto::Computed);
            if is_computed && self.may_leave(it.last) && !it.leaves {
                self.mark(run);
            }
        }
    }

    fn follow(&mut self) {
        while !self.is_done() {
            while let Some(address) = self.waiting.pop() {
                self.decoded.take(address);
                self.decode_from(address);
            }
            while self.linked < self.runs.len() {
                self.linked += 1;
                self.link(self.linked - 1);
            }
            for (run, target) in std::mem::take(&mut self.leads) {
                let Some(next) = self.decoded.get(target).map(|it| it.run) else {
                    // Not decoded yet, or never.
                    if self.decoded.is_waiting(target) {
                        self.leads.push((run, target));
                    }
                    continue;
                };
                self.runs[next].before.push(run);
                if self.runs[next].returns {
                    self.mark(run);
                }
            }
        }
    }

    fn link(&mut self, run: usize) {
        let end = self.runs[run].end;
        if matches!(self.runs[run].flow, Flow::Call(_)) {
            // Whatever is called may throw, and the function return behind its handler.
            let last = self.runs[run].last;
            let sites = self.frame_of(last).map_or(&[][..], |frame| &frame.sites);
            let covering = sites.iter().filter(|it| (it.start..it.end).contains(&last));
            self.leads.extend(covering.map(|site| (run, site.pad)));
        }
        match self.runs[run].flow.clone() {
            Flow::Next => self.leads.push((run, end)),
            Flow::Return => self.mark(run),
            Flow::Jump(Goto::Code(target)) => {
                if !self.loaded.is_endless_here(target) {
                    self.leads.push((run, target));
                }
            }
            Flow::Jump(Goto::External(name)) => {
                if !self.loaded.is_endless(&name) {
                    self.mark(run);
                }
            }
            Flow::Branch(target) => {
                match target {
                    Goto::Code(target) => self.leads.push((run, target)),
                    Goto::External(name) if self.loaded.is_endless(&name) => {}
                    Goto::External(_) | Goto::Computed => self.mark(run),
                }
                self.leads.push((run, end));
            }
            Flow::Call(Goto::Code(target)) if self.loaded.is_endless_here(target) => {}
            Flow::Call(Goto::Code(target)) => {
                let callee = self.decoded.get(target).map(|it| it.run);
                if let Some(callee) = callee {
                    self.runs[callee].callers.push(run);
                    if self.runs[callee].returns {
                        self.go_on_behind(run);
                    }
                }
            }
            Flow::Call(Goto::External(name)) if self.loaded.is_endless(&name) => {}
            Flow::Call(_) => self.go_on_behind(run),
            Flow::Stop | Flow::Jump(Goto::Computed) => {}
        }
    }

    /// Whether what follows an instruction is no longer of its function: then a call
    /// does not return, since compilers put nothing behind it.
    fn is_last(&self, instruction: u64, end: u64) -> bool {
        self.frame_of(instruction).is_some_and(|frame| frame.end <= end)
    }

    fn go_on_behind(&mut self, run: usize) {
        let Run { last, end, .. } = self.runs[run];
        if self.is_last(last, end) {
            return;
        }
        self.lead(end);
        self.leads.push((run, end));
    }

    /// Notes that a run returns, and what follows from that.
    fn mark(&mut self, run: usize) {
        let mut waiting = vec![run];
        while let Some(run) = waiting.pop() {
            if std::mem::replace(&mut self.runs[run].returns, true) {
                continue;
            }
            waiting.extend(&self.runs[run].before);
            for caller in self.runs[run].callers.clone() {
                self.go_on_behind(caller);
            }
        }
    }

    fn decode_from(&mut self, start: u64) {
        let mut address = start;
        let run = self.runs.len();
        let mut last = None;
        let mut before = [None, None];
        let mut leaves = false;
        while !self.decoded.contains(address) {
            let Some(instruction) = decode(self.loaded, address) else { break };
            let flow = flow(self.loaded, &instruction);
            let next = instruction.next_ip();
            match jump_table::constant(self.loaded, &instruction) {
                Some(target) if self.loaded.is_code(target) => {
                    self.mentioned.entry(target).or_default().push(address);
                }
                Some(data) => {
                    self.ends.mentioned.insert(data);
                }
                None => {}
            }
            self.accessed.extend(named_memory(&instruction).filter(|&it| self.loaded.is_code(it)));
            if let Flow::Call(Goto::Code(target)) = flow {
                self.called.insert(target);
            }
            self.decoded.insert(address, Decoded { next, run });
            if let Flow::Jump(Goto::Code(target))
            | Flow::Branch(Goto::Code(target))
            | Flow::Call(Goto::Code(target)) = flow
            {
                self.lead(target);
            }
            if let Flow::Jump(Goto::Code(target)) | Flow::Branch(Goto::Code(target)) = flow {
                self.jumps.push((target, address));
            }
            if matches!(flow, Flow::Branch(_)) {
                self.lead(next);
            }
            let ends = flow != Flow::Next;
            leaves = leaves_frames(&before, &instruction);
            before = [before[1], Some(instruction)];
            last = Some((address, next, flow));
            address = next;
            if ends {
                break;
            }
        }
        if let Some((last, end, flow)) = last {
            let (before, callers) = (Vec::new(), Vec::new());
            self.runs.push(Run { last, end, flow, leaves, returns: false, before, callers });
        }
    }

    /// Finds the stretches that new leaders begin, and those they end.
    fn find_stretches(&mut self) {
        for leader in std::mem::take(&mut self.new_leaders) {
            // Few overlap.
            let before = self.stretches.range(..leader).rev().take(8);
            let ended = before.filter(|(_, stretch)| leader <= stretch.end);
            let starts: Vec<u64> = ended.map(|(&start, _)| start).chain([leader]).collect();
            for start in starts {
                if let Some(stretch) = self.stretch_from(start) {
                    self.stretches.insert(start, stretch);
                }
            }
        }
    }

    fn stretch_from(&self, leader: u64) -> Option<Stretch> {
        let mut address = leader;
        let mut last = None;
        while let Some((flow, next)) = self.flow_at(address) {
            last = Some((address, flow, next));
            address = next;
            if *flow != Flow::Next || self.decoded.is_leader(next) {
                break;
            }
        }
        let (last, flow, end) = last?;
        // Bytes that are no instruction follow: nothing gets there.
        let is_cut = *flow == Flow::Next && !self.decoded.is_leader(end);
        let flow = if is_cut { Flow::Stop } else { flow.clone() };
        Some(Stretch { last, end, flow })
    }

    /// Where stretches begin that end with an instruction.
    pub fn stretches_to(&self, last: u64) -> Vec<u64> {
        let (mut found, mut waiting) = (Vec::new(), vec![last]);
        while let Some(address) = waiting.pop() {
            if self.decoded.is_leader(address) {
                found.push(address);
                continue;
            }
            let goes_on = |&it: &u64| self.flow_at(it).is_some_and(|(flow, _)| *flow == Flow::Next);
            waiting.extend(self.decoded.ending_at(address).filter(goes_on));
        }
        found
    }

    /// Targets of jumps and branches, and these, in order.
    pub fn jumps(&self) -> &[(u64, u64)] {
        &self.jumps
    }

    /// Puts what was added to these in order.
    pub fn sort_jumps(&mut self) {
        // Most are in order.
        self.jumps.sort();
    }

    /// Where a call goes on, if it does.
    pub fn behind_call(&self, stretch: &Stretch) -> Option<u64> {
        let Flow::Call(callee) = &stretch.flow else { return None };
        let returns = match callee {
            Goto::Code(target) => {
                !self.loaded.is_endless_here(*target)
                    && self.decoded.get(*target).is_some_and(|it| self.runs[it.run].returns)
            }
            Goto::External(name) => !self.loaded.is_endless(name),
            Goto::Computed => true,
        };
        (returns && !self.is_last(stretch.last, stretch.end)).then_some(stretch.end)
    }

    /// What can follow a stretch in the same activation.
    pub fn successors(&self, stretch: &Stretch) -> impl Iterator<Item = u64> {
        let (mut next, mut table) = ([None, None], None);
        match &stretch.flow {
            Flow::Next => next = [Some(stretch.end), None],
            Flow::Jump(Goto::Code(target)) => next = [Some(*target), None],
            Flow::Jump(_) => table = self.tables.get(&stretch.last),
            Flow::Branch(Goto::Code(target)) => next = [Some(*target), Some(stretch.end)],
            Flow::Branch(_) => next = [Some(stretch.end), None],
            Flow::Call(_) => next = [self.behind_call(stretch), None],
            Flow::Return | Flow::Stop => {}
        }
        next.into_iter().flatten().chain(table.into_iter().flatten().copied())
    }
}
