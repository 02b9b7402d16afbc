//! An autopsy on a terminal.

use std::fmt::Write as _;

use super::{Autopsy, Conclusion, Counted, FoundBy, Frame, Gap, Step, Thread, Way};
use crate::name::compact;
use crate::terminal::{Style, counted, file_name, harmless, number, short_path, shorten};

/// Names are lined up as far as this.
const WIDEST_NAME: usize = 44;
/// Frames that are repeated are shown so often.
const SHOWN: usize = 2;
/// The longest cycle of frames that is folded.
const LONGEST_CYCLE: usize = 8;

/// The whole text.
pub fn render(autopsy: &Autopsy, style: Style) -> String {
    let last = autopsy.threads.iter().filter_map(|thread| thread.frames.last());
    let widest = last.map(|frame| frame.number.to_string().len()).max().unwrap_or(1);
    let mut text = Text { style, digits: widest, out: String::new() };
    text.head(autopsy);
    for thread in &autopsy.threads {
        text.thread(thread);
    }
    if let Some(conclusion) = &autopsy.conclusion {
        text.conclusion(conclusion, "What can have run");
    }
    if let Some(hint) = &autopsy.hint {
        text.line("");
        text.line(&style.dim(hint));
    }
    text.out
}

/// What can have run, under this title.
pub(super) fn render_conclusion(found: &Conclusion, style: Style, title: &str) -> String {
    let mut text = Text { style, digits: 1, out: String::new() };
    text.conclusion(found, title);
    text.out
}

struct Text {
    style: Style,
    /// How many digits the highest number of a frame has.
    digits: usize,
    out: String,
}

impl Text {
    fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// A line below the name of a frame.
    fn below(&mut self, line: &str) {
        let indent = " ".repeat(self.digits + 5);
        self.line(&format!("{indent}{line}"));
    }

    fn head(&mut self, autopsy: &Autopsy) {
        let mut title = self.style.bold(&harmless(&autopsy.program));
        match &autopsy.signal {
            Some(signal) => write!(title, "  {signal}").unwrap_or_default(),
            None => title.push_str("  no signal: it was running"),
        }
        if let Some(address) = autopsy.fault_address {
            let _ = write!(title, " at {address:#x}");
        }
        if let Some(reason) = &autopsy.reason {
            let _ = write!(title, ": {}", harmless(reason));
        }
        self.line(&title);
        let build = if autopsy.build_id.is_empty() { "not known" } else { &autopsy.build_id };
        self.line(&format!("  of        {}", harmless(&autopsy.core)));
        self.line(&format!("  build id  {}", harmless(build)));
        if !autopsy.command.is_empty() {
            self.line(&format!("  command   {}", harmless(&autopsy.command)));
        }
        for remark in &autopsy.remarks {
            self.line(&format!("  {}", self.style.warning(&harmless(remark))));
        }
    }

    fn thread(&mut self, thread: &Thread) {
        self.line("");
        let crashed = if thread.crashed { ", which crashed" } else { "" };
        self.line(&self.style.bold(&format!("Thread {}{crashed}", thread.id)));
        let widest = thread.frames.iter().map(|frame| name(frame).chars().count()).max();
        let widest = widest.unwrap_or(0).min(WIDEST_NAME);
        let split = thread.gap.map_or(thread.frames.len(), |gap| gap.behind);
        let (newest, oldest) = thread.frames.split_at(split.min(thread.frames.len()));
        self.frames(newest, widest, thread.crashed);
        if let Some(gap) = &thread.gap {
            self.gap(gap);
        }
        self.frames(oldest, widest, thread.crashed);
        if let Some(lost) = &thread.lost {
            self.below(&self.style.warning(&format!("no further: {}", harmless(lost))));
        }
    }

    fn gap(&mut self, gap: &Gap) {
        let frames = counted(gap.count, "frame");
        let what = match gap.cycle {
            Some(1) => format!("{frames} more of the same"),
            Some(cycle) => format!("{frames} more: the {cycle} above, again and again"),
            None => format!("{frames} are left out"),
        };
        self.below(&format!("… {what} …"));
    }

    /// Frames, those that repeat folded.
    fn frames(&mut self, frames: &[Frame], widest: usize, sources: bool) {
        let mut at = 0;
        while at < frames.len() {
            let (cycle, times) = repetition(&frames[at..]);
            if times > SHOWN + 1 {
                for frame in &frames[at..at + cycle * SHOWN] {
                    self.frame(frame, widest, sources);
                }
                let left = (cycle * (times - SHOWN)) as u64;
                let what = if cycle == 1 {
                    format!("{} more of the same", counted(left, "frame"))
                } else {
                    let again = number((times - SHOWN) as u64);
                    format!("the {cycle} above, {again} times more")
                };
                self.below(&format!("… {what} …"));
                at += cycle * times;
            } else {
                self.frame(&frames[at], widest, sources);
                at += 1;
            }
        }
    }

    fn frame(&mut self, frame: &Frame, widest: usize, sources: bool) {
        let name = shorten(&name(frame), self.style.width.max(WIDEST_NAME));
        let padding = " ".repeat(widest.saturating_sub(name.chars().count()));
        let number = format!("#{:<width$}", frame.number, width = self.digits);
        let mut line = format!("  {number}  {}{padding}  {}", self.style.bold(&name), place(frame));
        let mut labels = Vec::new();
        if frame.inlined {
            labels.push("inlined");
        }
        match frame.found_by {
            FoundBy::Tables if frame.uncertain => labels.push("rests on a guess"),
            FoundBy::Tables => {}
            FoundBy::FramePointer => labels.push("found by frame pointer"),
            FoundBy::Scan => labels.push("found by scan"),
        }
        if !labels.is_empty() {
            let _ = write!(line, "  {}", self.style.dim(&format!("({})", labels.join(", "))));
        }
        self.line(&line);
        if let Some(source) = frame.source.as_ref().filter(|_| sources) {
            let source = shorten(&harmless(source.trim()), self.style.width.saturating_sub(9));
            self.below(&self.style.dim(&source));
        }
        if let Some(remark) = &frame.remark {
            self.below(&self.style.warning(&harmless(remark)));
        }
        if let Some(way) = &frame.way {
            self.way(way, frame);
        }
        if !frame.never.is_empty() {
            let room = self.style.width.saturating_sub(self.digits + 5 + 12).max(20);
            let never = never_words(&frame.never, frame.file.as_deref().unwrap_or_default());
            let never = first_words(&never, room);
            self.below(&format!("never      {}", self.style.dim(&harmless(&never))));
        }
    }

    /// What can have run of the whole program.
    fn conclusion(&mut self, found: &Conclusion, title: &str) {
        self.line("");
        self.line(&self.style.bold(title));
        let mut row = |what: &str, now: u64, total: u64, stack_only: Option<u64>| {
            let (now, total) = (number(now), number(total));
            let by_stack = stack_only.map_or_else(String::new, |it| {
                format!("  {}", self.style.dim(&format!("({} by the stack alone)", number(it))))
            });
            let line = format!("  {what:<10} {now:>9} of {total:>9}{by_stack}");
            self.out.push_str(line.trim_end());
            self.out.push('\n');
        };
        let all = |it: Counted| (it.now, it.total, Some(it.stack_only));
        for (what, counted) in
            [("functions", found.functions), ("blocks", found.nodes), ("edges", found.edges)]
        {
            let (now, total, stack_only) = all(counted);
            row(what, now, total, stack_only);
        }
        let lines = found.all_lines - found.impossible_lines.len() as u64;
        row("lines", lines, found.all_lines, None);
        let names: Vec<String> =
            found.impossible_functions.iter().map(|name| harmless(&compact(name))).collect();
        if !names.is_empty() {
            let room = self.style.width.saturating_sub(19).max(40);
            self.line(&format!("  did not run  {}", first_words(&names, room)));
        }
    }

    /// The way a frame came: the path in progress, then those before it.
    fn way(&mut self, way: &Way, frame: &Frame) {
        let room = self.style.width.saturating_sub(self.digits + 5 + 12).max(20);
        let here = frame.file.as_deref().unwrap_or_default();
        let label = if way.known == "exact" { "" } else { " (inferred)" };
        if !way.path.is_empty() {
            let steps = last_words(&written(&way.path, here), room);
            self.below(&format!("came by    {}{label}", self.style.decision(&harmless(&steps))));
        }
        for older in way.older.iter().take(OLDER) {
            let times = match older.times {
                1 => String::new(),
                times => format!("  {} times", number(times)),
            };
            let steps = last_words(&written(&older.steps, here), room);
            self.below(&format!("  before   {}{times}", harmless(&steps)));
        }
        let more = way.older.len().saturating_sub(OLDER);
        if more > 0 {
            self.below(
                &self.style.dim(&format!("  before   {} more (--json)", number(more as u64))),
            );
        } else if way.truncated {
            self.below(&self.style.dim("  before   there was more, of which nothing is left"));
        }
        if let Some(note) = &way.note {
            self.below(&self.style.warning(&harmless(note)));
        }
    }
}

/// Older paths that are shown.
const OLDER: usize = 6;

/// The lines of a path; those of another file than `here` with its name. What
/// was decided follows the line: `T` or `F`.
pub(super) fn written(steps: &[Step], here: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for step in steps {
        for (file, line) in &step.lines {
            let word = if same_file(file, here) {
                line.to_string()
            } else {
                format!("{}:{line}", file_name(file))
            };
            if words.last() != Some(&word) {
                words.push(word);
            }
        }
        if let (Some(decision), Some(last)) = (step.decision, words.last_mut()) {
            last.push(if decision { 'T' } else { 'F' });
        }
    }
    words
}

fn same_file(file: &str, here: &str) -> bool {
    file == here || file.ends_with(&format!("/{here}")) || here.ends_with(&format!("/{file}"))
}

/// As many of the last words as there is room for.
fn last_words(words: &[String], room: usize) -> String {
    let mut kept = 0;
    let mut width = 0;
    for word in words.iter().rev() {
        width += word.chars().count() + 1;
        if width > room {
            break;
        }
        kept += 1;
    }
    let shown = words[words.len() - kept..].join(" ");
    if kept < words.len() { format!("… {shown}") } else { shown }
}

/// As many of the first words as there is room for, and how many more there are.
fn first_words(words: &[String], room: usize) -> String {
    let mut width = 0;
    let fits = |word: &&String| {
        width += word.chars().count() + 1;
        width <= room
    };
    let kept = words.iter().take_while(fits).count().max(1).min(words.len());
    let shown = words[..kept].join(" ");
    match words.len() - kept {
        0 => shown,
        more => format!("{shown} … {} more (--json)", number(more as u64)),
    }
}

/// Lines, those next to each other as a range; those of another file than `here`
/// with its name.
fn never_words(lines: &[(String, u32)], here: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let (file, first) = &lines[at];
        let mut end = at + 1;
        while end < lines.len()
            && lines[end].0 == *file
            && lines[end].1 == first + (end - at) as u32
        {
            end += 1;
        }
        let range = match end - at {
            1 => first.to_string(),
            count => format!("{first}-{}", first + count as u32 - 1),
        };
        words.push(if same_file(file, here) {
            range
        } else {
            format!("{}:{range}", file_name(file))
        });
        at = end;
    }
    words
}

fn name(frame: &Frame) -> String {
    match &frame.demangled {
        _ if frame.signal => "<signal handler called>".to_owned(),
        Some(name) => harmless(&compact(name)),
        None => format!("{:#x}", frame.address),
    }
}

fn place(frame: &Frame) -> String {
    let module = frame.module.as_deref().map(|path| format!("in {}", file_name(path)));
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => harmless(&format!("{}:{line}", short_path(file))),
        _ => harmless(&module.unwrap_or_default()),
    }
}

/// The shortest cycle that some frames begin with, and how often it is there.
fn repetition(frames: &[Frame]) -> (usize, usize) {
    let same = |a: &Frame, b: &Frame| {
        a.address == b.address
            && a.function == b.function
            && a.line == b.line
            && a.found_by == b.found_by
            && b.remark.is_none()
    };
    let times = |cycle: usize| {
        let (first, mut rest) = frames.split_at(cycle);
        let mut times = 1;
        while rest.len() >= cycle && first.iter().zip(rest).all(|(a, b)| same(a, b)) {
            rest = &rest[cycle..];
            times += 1;
        }
        times
    };
    let cycles = 1..=LONGEST_CYCLE.min(frames.len() / 2);
    cycles
        .map(|cycle| (cycle, times(cycle)))
        .find(|&(_, times)| times > SHOWN + 1)
        .unwrap_or((1, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u64, name: &str) -> Frame {
        Frame {
            number,
            address: 0x1000 + name.len() as u64,
            function: Some(name.to_owned()),
            demangled: Some(name.to_owned()),
            file: Some("/src/deep/a.c".to_owned()),
            line: Some(3),
            ..Frame::default()
        }
    }

    #[test]
    fn frames_that_repeat_are_folded() {
        let mut frames = vec![frame(0, "leaf")];
        for round in 0..50 {
            frames.push(frame(1 + 2 * round, "even"));
            frames.push(frame(2 + 2 * round, "odd"));
        }
        frames.push(frame(1101, "main"));
        let gap = Gap { behind: 101, count: 1000, cycle: Some(2) };
        let thread = Thread { id: 7, crashed: true, frames, gap: Some(gap), lost: None };
        let autopsy = Autopsy { threads: vec![thread], ..Autopsy::default() };
        let text = render(&autopsy, Style::PLAIN);
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains("#0")).collect();
        assert_eq!(
            lines,
            [
                "  #0     leaf  deep/a.c:3",
                "  #1     even  deep/a.c:3",
                "  #2     odd   deep/a.c:3",
                "  #3     even  deep/a.c:3",
                "  #4     odd   deep/a.c:3",
                "         … the 2 above, 48 times more …",
                "         … 1,000 frames more: the 2 above, again and again …",
                "  #1101  main  deep/a.c:3",
            ]
        );
    }

    #[test]
    fn what_is_guessed_says_so() {
        let mut guessed = frame(1, "f");
        guessed.found_by = FoundBy::Scan;
        guessed.uncertain = true;
        let mut resting = frame(2, "g");
        resting.uncertain = true;
        let mut odd = Frame { number: 0, address: 0x10, ..Frame::default() };
        odd.remark = Some("the program jumped\x1b to 0x10".to_owned());
        let thread = Thread { frames: vec![odd, guessed, resting], ..Thread::default() };
        let thread = Thread { lost: Some("why".to_owned()), ..thread };
        let autopsy = Autopsy { threads: vec![thread], ..Autopsy::default() };
        let text = render(&autopsy, Style::PLAIN);
        for part in [
            "#0  0x10",
            "the program jumped\u{fffd} to 0x10",
            "(found by scan)",
            "(rests on a guess)",
            "no further: why",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
