//! A path as a chain of source lines with the decisions taken on them.
//!
//! `▶ 40 → 41 T → 43 ↩ 41`: enters the function, comes to line 40 and 41, the
//! condition on 41 holds, line 43, and back to the loop's head on line 41. A
//! line of another file than the function's has its file's name. Lines that
//! follow one another in several blocks are one item, with all its decisions. Lines
//! of libraries that were inlined are folded into the line that they were inlined
//! into, which then has their decisions, unless [`Detail`] is wanted.

use super::{End, Function, Line, Path, Program, Start};
use crate::terminal::{Detail, file_name};

/// One line of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Which line; `None` for blocks that have none.
    pub place: Option<Line>,
    /// The decisions that were taken on it.
    pub decisions: Vec<String>,
}

/// The lines of a path, in order.
pub fn compute_items(function: &Function, path: &Path, detail: Detail) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let next = match path.ends {
        End::Loop(to) | End::Cut(to) => Some(to),
        End::Exit | End::CutWithin | End::Call => None,
    };
    let followers = path.blocks[1..].iter().copied().map(Some).chain([next]);
    for (&block, follower) in path.blocks.iter().zip(followers) {
        for place in function.blocks[block as usize].iter().map(|place| place.told(detail)) {
            let repeated = items.last().is_some_and(|item| {
                item.place.is_some_and(|last| (last.file, last.line) == (place.file, place.line))
            });
            if !repeated {
                items.push(Item { place: Some(place), decisions: Vec::new() });
            }
        }
        let decision = follower.map_or(String::new(), |to| function.decision(block, to).sign());
        if !decision.is_empty() {
            if items.is_empty() {
                items.push(Item { place: None, decisions: Vec::new() });
            }
            let item = items.last_mut().expect("there is one now");
            item.decisions.push(decision);
        }
    }
    items
}

/// The lines of a path as `file:line`, in order.
pub fn lines(program: &Program, function: &Function, path: &Path) -> Vec<String> {
    let items = compute_items(function, path, Detail::Full);
    items.iter().filter_map(|item| item.place).map(|line| program.written(line)).collect()
}

/// The user's own lines of a path as `file:line`, in order: those that it came by itself,
/// and those that library code was inlined into that it came by.
pub fn own_lines(program: &Program, function: &Function, path: &Path) -> Vec<String> {
    let items = compute_items(function, path, Detail::Short);
    let own = items.iter().filter_map(|item| item.place).filter(|line| program.is_own(*line));
    let mut lines: Vec<String> = own.map(|line| program.written(line)).collect();
    lines.dedup();
    lines
}

/// The decisions of an item, as they are written behind its line.
pub fn decisions(item: &Item) -> String {
    let short = item.decisions.iter().all(|decision| decision.chars().count() == 1);
    item.decisions.join(if short { "" } else { " " })
}

/// How a path begins, as a sign.
pub fn start_sign(starts: Start) -> &'static str {
    match starts {
        Start::Entry => "▶",
        Start::Loop => "↻",
        Start::Cut => "✂",
        Start::CutWithin => "✂…",
        Start::ReturnTwice => "⤴…",
    }
}

/// How a path ends, as a sign and the line it leads to.
pub fn end_sign(program: &Program, function: &Function, path: &Path, detail: Detail) -> String {
    let line = |block: u32| {
        let place = function.blocks[block as usize].first().map(|place| place.told(detail));
        place.map_or_else(|| format!("b{block}"), |place| place_text(program, function, place))
    };
    match path.ends {
        End::Exit => "■".to_owned(),
        End::Loop(to) => format!("↩ {}", line(to)),
        End::Cut(to) => format!("✂ {}", line(to)),
        End::CutWithin => "…✂".to_owned(),
        End::Call => "✕".to_owned(),
    }
}

/// A line, with its file where that is not the function's own.
pub fn place_text(program: &Program, function: &Function, place: Line) -> String {
    let own = function.place.map(|own| own.file);
    if own == Some(place.file) {
        place.line.to_string()
    } else {
        format!("{}:{}", file_name(&program.files[place.file as usize].path), place.line)
    }
}

/// The words of a chain, each with the sign that leads to it. Lines that follow
/// one another without a decision between them are a range, `412-414 T`.
pub fn words(program: &Program, function: &Function, path: &Path, detail: Detail) -> Vec<String> {
    let mut words = vec![start_sign(path.starts).to_owned()];
    let items = compute_items(function, path, detail);
    let mut rest = &items[..];
    while let Some(first) = rest.first() {
        let length = 1 + rest.windows(2).take_while(|pair| is_range(&pair[0], &pair[1])).count();
        let (range, behind) = rest.split_at(length);
        let last = &range[length - 1];
        let mut word = if words.len() == 1 { String::new() } else { "→ ".to_owned() };
        match (first.place, last.place) {
            (Some(place), Some(end)) => {
                word.push_str(&place_text(program, function, place));
                if length > 1 {
                    word.push_str(&format!("-{}", end.line));
                }
            }
            _ => word.push('·'),
        }
        let decisions = decisions(last);
        if !decisions.is_empty() {
            word.push(' ');
            word.push_str(&decisions);
        }
        words.push(word);
        rest = behind;
    }
    words.push(end_sign(program, function, path, detail));
    words
}

/// Whether an item is on the next line of the one before it.
fn is_range(before: &Item, after: &Item) -> bool {
    let (Some(before_place), Some(place)) = (before.place, after.place) else { return false };
    before.decisions.is_empty()
        && (place.file, place.scope) == (before_place.file, before_place.scope)
        && before_place.line.checked_add(1) == Some(place.line)
}

#[cfg(test)]
mod tests {
    use super::super::{Decision, Edge, Place, SourceFile};
    use super::*;

    fn line(file: u32, line: u32) -> Line {
        Line { file, line, scope: None }
    }

    fn place(file: u32, number: u32) -> Place {
        line(file, number).into()
    }

    #[test]
    fn signs_tell_where_a_path_starts_turns_and_ends() {
        let file =
            |path: &str| SourceFile { path: path.to_owned(), own: true, ..SourceFile::default() };
        let program = Program { files: vec![file("a/f.c"), file("a/g.h")], ..Program::default() };
        let edge = |from, to, decision| Edge { from, to, decision, count: 1, ran: Some(true) };
        let cases = |values: &[i64]| Decision::Cases { values: values.to_vec(), default: false };
        let function = Function {
            place: Some(line(0, 1)),
            blocks: vec![
                vec![place(0, 2), place(0, 3), place(0, 4)],
                vec![place(0, 4)],
                vec![place(1, 9)],
                vec![],
                vec![place(0, 7)],
            ],
            edges: vec![
                edge(0, 1, Decision::True),
                edge(1, 2, Decision::False),
                edge(2, 3, Decision::Always),
                edge(3, 4, cases(&[1, 2, 3, 4, 5])),
                edge(4, 0, Decision::Unwound),
            ],
            ..Function::default()
        };
        let path = |starts, ends, blocks: &[u32]| {
            let path = Path { id: 0, count: 1, starts, ends, blocks: blocks.to_vec() };
            words(&program, &function, &path, Detail::Short).join(" ")
        };
        assert_eq!(
            path(Start::Entry, End::Loop(0), &[0, 1, 2, 3, 4]),
            "▶ 2-4 TF → g.h:9 =1,2,3,4,… → 7 unwinds ↩ 2"
        );
        assert_eq!(path(Start::Loop, End::Exit, &[4]), "↻ 7 ■");
        assert_eq!(path(Start::Cut, End::Cut(3), &[2]), "✂ g.h:9 ✂ b3");
        assert_eq!(path(Start::CutWithin, End::CutWithin, &[3]), "✂… …✂");
        assert_eq!(path(Start::ReturnTwice, End::Call, &[3, 4]), "⤴… · =1,2,3,4,… → 7 ✕");
    }

    #[test]
    fn steps_in_libraries_are_folded_into_the_line_they_were_inlined_into() {
        let file = |path: &str, own| SourceFile { path: path.to_owned(), own, lines: None };
        let files = vec![file("a/f.rs", true), file("/rustc/1/iter.rs", false)];
        let program = Program { files, ..Program::default() };
        let inlined = |number: u32, at: u32| Place {
            line: Line { file: 1, line: number, scope: Some(0) },
            told_by: line(0, at),
        };
        let edge = |from, to, decision| Edge { from, to, decision, count: 1, ran: Some(true) };
        let function = Function {
            place: Some(line(0, 1)),
            blocks: vec![
                vec![place(0, 2), inlined(90, 3), inlined(91, 3)],
                vec![inlined(40, 3)],
                vec![place(0, 3), inlined(90, 4), place(1, 7)],
            ],
            edges: vec![
                edge(0, 1, Decision::True),
                edge(1, 2, Decision::False),
                edge(2, 1, Decision::True),
            ],
            ..Function::default()
        };
        let (starts, ends) = (Start::Entry, End::Loop(1));
        let path = Path { id: 0, count: 1, starts, ends, blocks: vec![0, 1, 2] };
        let words = |detail| words(&program, &function, &path, detail).join(" ");
        assert_eq!(words(Detail::Short), "▶ 2-3 TF → 4 → iter.rs:7 T ↩ 3");
        assert_eq!(
            words(Detail::Full),
            "▶ 2 → iter.rs:90-91 T → iter.rs:40 F → 3 → iter.rs:90 → iter.rs:7 T ↩ iter.rs:40"
        );
        assert_eq!(own_lines(&program, &function, &path), ["a/f.rs:2", "a/f.rs:3", "a/f.rs:4"]);
        assert_eq!(lines(&program, &function, &path).len(), 7);
    }
}
