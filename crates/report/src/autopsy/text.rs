//! An autopsy on a terminal.

mod conclusion;

use std::fmt::Write as _;

use super::{Autopsy, Conclusion, FoundBy, Frame, Gap, Step, Thread, Way};
use crate::name::{Names, compact, shortened};
use crate::terminal::{
    self, Detail, Extent, Style, counted, file_name, number, padded, short_path, shorten, width,
};
use backtrail_foreign::text::{self, shown};

/// Names are lined up as far as this.
const WIDEST_NAME: usize = 44;
/// Frames that are repeated are shown so often.
const SHOWN: usize = 2;
/// The longest cycle of frames that is folded.
const LONGEST_CYCLE: usize = 8;

/// What is shown.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How much of each name and path.
    pub detail: Detail,
    /// How much of each list.
    pub extent: Extent,
    /// How it looks.
    pub style: Style,
}

/// The whole text.
pub fn render(autopsy: &Autopsy, options: &Options) -> String {
    let last = autopsy.threads.iter().filter_map(|thread| thread.frames.last());
    let widest = last.map(|frame| frame.number.to_string().len()).max().unwrap_or(1);
    let mut text = Text::new(options, names(autopsy, options.detail), widest);
    let style = options.style;
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
pub(super) fn render_conclusion(found: &Conclusion, options: &Options, title: &str) -> String {
    let mut text = Text::new(options, Names::new([], options.detail), 1);
    text.conclusion(found, title);
    text.out
}

/// How the functions on stacks are called.
pub(super) fn names(autopsy: &Autopsy, detail: Detail) -> Names {
    let frames = autopsy.threads.iter().flat_map(|thread| &thread.frames);
    Names::new(
        frames.filter_map(|it| Some((it.function.as_deref()?, it.demangled.as_deref()?))),
        detail,
    )
}

/// Whether each frame is told: those of libraries that were inlined into the user's own
/// code are folded, unless all are wanted.
fn is_told(frames: &[Frame], detail: Detail) -> Vec<bool> {
    let mut told = vec![true; frames.len()];
    // Whether a frame of the user's own is to come of those that are one in the machine.
    let mut own = false;
    for (place, frame) in frames.iter().enumerate().rev() {
        own = frame.own || (frame.inlined && own);
        told[place] = frame.own || !frame.inlined || !own || detail == Detail::Full;
    }
    told
}

/// The frames that are told.
pub(super) fn told_frames(frames: &[Frame], detail: Detail) -> Vec<&Frame> {
    let told = is_told(frames, detail);
    frames.iter().zip(told).filter(|(_, told)| *told).map(|(frame, _)| frame).collect()
}

struct Text {
    detail: Detail,
    extent: Extent,
    names: Names,
    style: Style,
    /// How many digits the highest number of a frame has.
    digits: usize,
    out: String,
}

impl Text {
    fn new(options: &Options, names: Names, digits: usize) -> Self {
        let Options { detail, extent, style } = *options;
        Self { detail, extent, names, style, digits, out: String::new() }
    }

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
        let mut title = self.style.bold(&shown(&autopsy.program));
        match &autopsy.signal {
            Some(signal) => write!(title, "  {signal}").unwrap_or_default(),
            None => title.push_str("  no signal: it was running"),
        }
        if let Some(address) = autopsy.fault_address {
            let _ = write!(title, " at {address:#x}");
        }
        if let Some(reason) = &autopsy.reason {
            let _ = write!(title, ": {}", shown(reason));
        }
        self.line(&title);
        let build = if autopsy.build_id.is_empty() { "not known" } else { &autopsy.build_id };
        self.line(&format!("  of        {}", shown(&autopsy.core)));
        self.line(&format!("  build id  {}", shown(build)));
        if !autopsy.command.is_empty() {
            self.line(&format!("  command   {}", shown(&autopsy.command)));
        }
        for remark in &autopsy.remarks {
            self.line(&format!("  {}", self.style.warning(&shown(remark))));
        }
    }

    fn thread(&mut self, thread: &Thread) {
        self.line("");
        let crashed = if thread.crashed { ", which crashed" } else { "" };
        self.line(&self.style.bold(&format!("Thread {}{crashed}", thread.id)));
        let told = told_frames(&thread.frames, self.detail);
        let widest = told.iter().map(|frame| width(&name(frame, &self.names))).max();
        let widest = widest.unwrap_or(0).min(WIDEST_NAME);
        let split = thread.gap.map_or(thread.frames.len(), |gap| gap.behind);
        let (newest, oldest) = thread.frames.split_at(split.min(thread.frames.len()));
        self.frames(newest, widest, thread.crashed);
        if let Some(gap) = &thread.gap {
            self.gap(gap);
        }
        self.frames(oldest, widest, thread.crashed);
        if let Some(lost) = &thread.lost {
            self.below(&self.style.warning(&format!("no further: {}", shown(lost))));
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
        let told = is_told(frames, self.detail);
        let mut at = 0;
        while at < frames.len() {
            if let Some(folded) = told[at..].iter().position(|told| *told).filter(|it| *it > 0) {
                self.folded(&frames[at..at + folded]);
                at += folded;
                continue;
            }
            let (cycle, times) = repetition(&frames[at..]);
            if times > SHOWN + 1 {
                for place in at..at + cycle * SHOWN {
                    if told[place] {
                        self.frame(&frames[place], widest, sources);
                    }
                }
                let left = (cycle * (times - SHOWN)) as u64;
                let what = if cycle == 1 {
                    format!("{} more of the same", counted(left, "frame"))
                } else {
                    let again = counted((times - SHOWN) as u64, "time");
                    format!("the {cycle} above, {again} more")
                };
                self.below(&format!("… {what} …"));
                at += cycle * times;
            } else {
                self.frame(&frames[at], widest, sources);
                at += 1;
            }
        }
    }

    /// Frames of libraries that are told by the one they were inlined into.
    fn folded(&mut self, frames: &[Frame]) {
        let count = counted(frames.len() as u64, "inlined function");
        let libraries = format!("… {count} of libraries (--full) …");
        self.below(&self.style.dim(&libraries));
    }

    fn frame(&mut self, frame: &Frame, widest: usize, sources: bool) {
        let place = place(frame);
        let name = name(frame, &self.names);
        let name = match self.detail {
            Detail::Short => {
                let room = self.style.room(self.digits + 7 + width(&place), WIDEST_NAME);
                shortened(&name, room)
            }
            Detail::Full => name,
        };
        let padding = padded("", widest.saturating_sub(width(&name)));
        let number = format!("#{:<width$}", frame.number, width = self.digits);
        let mut line = format!("  {number}  {}{padding}  {place}", self.style.bold(&name));
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
            let source = shorten(&text::source(source), self.style.room(9, 20));
            self.below(&self.style.dim(&source));
        }
        if let Some(remark) = &frame.remark {
            self.below(&self.style.warning(&shown(remark)));
        }
        if let Some(way) = &frame.way {
            self.way(way, frame);
        }
        let never = match self.detail {
            Detail::Short => &frame.never_told,
            Detail::Full => &frame.never,
        };
        if !never.is_empty() {
            let room = self.style.page().saturating_sub(self.digits + 5 + 12).max(20);
            let never = never_words(never, frame.file.as_deref().unwrap_or_default());
            for (place, row) in self.words(&never, room).iter().enumerate() {
                let label = if place == 0 { "never" } else { "" };
                self.below(&format!("{label:<10} {}", self.style.dim(&shown(row))));
            }
        }
    }

    /// Words in rows; on a screen in one, unless all are wanted.
    fn words(&self, words: &[String], room: usize) -> Vec<String> {
        match (self.style.screen, self.extent) {
            (Some(_), Extent::Screenful) => vec![first_words(words, room)],
            _ => terminal::rows(words, " ", room),
        }
    }

    /// The way a frame came: the path in progress, then those before it.
    fn way(&mut self, way: &Way, frame: &Frame) {
        let room = match self.detail {
            Detail::Short => self.style.page().saturating_sub(self.digits + 5 + 12).max(20),
            Detail::Full => usize::MAX,
        };
        let here = frame.file.as_deref().unwrap_or_default();
        let label = if way.known == "exact" { "" } else { " (inferred)" };
        if !way.path.is_empty() {
            let steps = last_words(&written(&way.path, here, self.detail), room);
            self.below(&format!("came by    {}{label}", self.style.decision(&shown(&steps))));
        }
        let listed = match (self.style.screen, self.extent) {
            (Some(_), Extent::Screenful) => OLDER.min(way.older.len()),
            _ => way.older.len(),
        };
        for older in &way.older[..listed] {
            let times = match older.times {
                1 => String::new(),
                times => format!("  {}", counted(times, "time")),
            };
            let steps = last_words(&written(&older.steps, here, self.detail), room);
            self.below(&format!("  before   {}{times}", shown(&steps)));
        }
        let more = way.older.len() - listed;
        if more > 0 {
            self.below(
                &self.style.dim(&format!("  before   {} more (--all)", number(more as u64))),
            );
        } else if way.truncated {
            self.below(&self.style.dim("  before   there was more, of which nothing is left"));
        }
        if let Some(note) = &way.note {
            self.below(&self.style.warning(&shown(note)));
        }
    }
}

/// Older paths that are shown on a screen, unless all are wanted.
const OLDER: usize = 6;

/// The lines of a path; those of another file than `here` with its name. What
/// was decided follows the line: `T` or `F`.
pub(super) fn written(steps: &[Step], here: &str, detail: Detail) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for step in steps {
        for (file, line) in step.lines.iter().map(|line| line.told(detail)) {
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
    let mut taken = 0;
    for word in words.iter().rev() {
        taken += width(word) + 1;
        if taken > room {
            break;
        }
        kept += 1;
    }
    let shown = words[words.len() - kept..].join(" ");
    if kept < words.len() { format!("… {shown}") } else { shown }
}

/// As many of the first words as there is room for, and how many more there are.
fn first_words(words: &[String], room: usize) -> String {
    let mut taken = 0;
    let fits = |word: &&String| {
        taken += width(word) + 1;
        taken <= room
    };
    let kept = words.iter().take_while(fits).count().max(1).min(words.len());
    let shown = words[..kept].join(" ");
    match words.len() - kept {
        0 => shown,
        more => format!("{shown} … {} more (--all)", number(more as u64)),
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

/// How the function of a frame is called.
pub(super) fn name(frame: &Frame, names: &Names) -> String {
    match (&frame.function, &frame.demangled) {
        _ if frame.signal => "<signal handler called>".to_owned(),
        (Some(linkage_name), Some(name)) => shown(&names.of(linkage_name, name)),
        (None, Some(name)) => shown(&compact(name)),
        (_, None) => format!("{:#x}", frame.address),
    }
}

fn place(frame: &Frame) -> String {
    let module = frame.module.as_deref().map(|path| format!("in {}", file_name(path)));
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => shown(&format!("{}:{line}", short_path(file))),
        _ => shown(&module.unwrap_or_default()),
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

    const PLAIN: Options =
        Options { detail: Detail::Short, extent: Extent::Screenful, style: Style::PLAIN };

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
        let text = render(&autopsy, &PLAIN);
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
        let text = render(&autopsy, &PLAIN);
        for part in [
            "#0  0x10",
            "the program jumped\\u{1b} to 0x10",
            "(found by scan)",
            "(rests on a guess)",
            "no further: why",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
