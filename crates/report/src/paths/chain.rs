//! A path as a chain of source lines with the decisions taken on them.
//!
//! `▶ 40 → 41 T → 43 ↩ 41`: enters the function, comes to line 40 and 41, the
//! condition on 41 holds, line 43, and back to the loop's head on line 41. A
//! line of another file than the function's has its file's name. Lines that
//! follow one another in several blocks are one item, with all its decisions.

use super::{End, Function, Path, Place, Program, Start};
use crate::terminal::file_name;

/// One line of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Which line; `None` for blocks that have none.
    pub place: Option<Place>,
    /// The decisions that were taken on it.
    pub decisions: Vec<String>,
}

/// The lines of a path, in order.
pub fn compute_items(function: &Function, path: &Path) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let next = match path.ends {
        End::Loop(to) | End::Cut(to) => Some(to),
        End::Exit | End::CutWithin | End::Call => None,
    };
    let followers = path.blocks[1..].iter().copied().map(Some).chain([next]);
    for (&block, follower) in path.blocks.iter().zip(followers) {
        for &place in &function.blocks[block as usize] {
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
pub fn end_sign(program: &Program, function: &Function, path: &Path) -> String {
    let line = |block: u32| {
        let place = function.blocks[block as usize].first();
        place.map_or_else(|| format!("b{block}"), |&place| place_text(program, function, place))
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
pub fn place_text(program: &Program, function: &Function, place: Place) -> String {
    let own = function.place.map(|own| own.file);
    if own == Some(place.file) {
        place.line.to_string()
    } else {
        format!("{}:{}", file_name(&program.files[place.file as usize].path), place.line)
    }
}

/// The words of a chain, each with the sign that leads to it.
pub fn words(program: &Program, function: &Function, path: &Path) -> Vec<String> {
    let mut words = vec![start_sign(path.starts).to_owned()];
    for (number, item) in compute_items(function, path).iter().enumerate() {
        let place =
            item.place.map_or_else(|| "·".to_owned(), |place| place_text(program, function, place));
        let decisions = decisions(item);
        let space = if decisions.is_empty() { "" } else { " " };
        let arrow = if number == 0 { "" } else { "→ " };
        words.push(format!("{arrow}{place}{space}{decisions}"));
    }
    words.push(end_sign(program, function, path));
    words
}
