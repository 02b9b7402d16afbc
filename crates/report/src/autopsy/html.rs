//! An autopsy as one page that needs nothing else.
//!
//! Without scripts it is the text of the terminal. A script adds the source beside
//! the frames, its lines shaded by whether they ran, and steps through the
//! recovered path line by line. Its data is in the page, as JSON; so are the
//! sources, as far as they were found.
//!
//! Sources and names come from elsewhere: whatever gets into the page is escaped,
//! as text or as JSON in which no `<` is left.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Autopsy, Conclusion, Frame, LineState, Step, text};
use crate::html::{escape, escape_json};
use crate::name::Names;
use crate::terminal::{Detail, Extent, Style, counted, number, short_path};

const CSS: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Files with more lines are shown around what matters only.
const LARGE: usize = 6_000;

/// How many lines around a line that a frame came by, of large files.
const AROUND: u32 = 150;

/// So many lines of files in which no frame is are in the page.
const OTHER_LINES: usize = 40_000;

/// An older path is stepped through at most so often.
const TIMES: u64 = 20;

/// The whole page. `source` gives the lines of a file, if it is found.
pub fn render(
    autopsy: &Autopsy,
    detail: Detail,
    source: &mut dyn FnMut(&str) -> Option<Vec<String>>,
) -> String {
    let title = escape(&autopsy.program);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: autopsy</title>\n<style>\n{CSS}</style>\n<body>\n"
    );
    head(autopsy, &mut out);
    let _ = write!(
        out,
        "<pre id=\"plain\">{}</pre>\n\
         <main hidden>\n<nav id=\"frames\" aria-label=\"frames\"></nav>\n<section>\n\
         <div id=\"bar\"><button id=\"back\" title=\"one line back (left arrow, k)\">◀ back</button>\
         <button id=\"forth\" title=\"one line forth (right arrow, j)\">forth ▶</button>\
         <span id=\"where\" aria-live=\"polite\"></span></div>\n\
         <div id=\"source\" class=\"source\"></div>\n\
         <div class=\"legend\"><span class=\"key executed\">ran</span>\
         <span class=\"key possible\">may have run</span>\
         <span class=\"key impossible\">cannot have run</span>\
         <span>← → or k j: line by line · ↑ ↓: frames · Home, End: oldest, newest</span></div>\n\
         </section>\n</main>\n",
        plain(autopsy, detail)
    );
    let names = text::names(autopsy, detail);
    let mut page = Page { detail, functions: names, numbers: BTreeMap::new(), names: Vec::new() };
    let threads: Vec<Value> = autopsy
        .threads
        .iter()
        .map(|thread| {
            let told = text::told_frames(&thread.frames, detail);
            let frames: Vec<Value> = told.into_iter().map(|frame| page.frame(frame)).collect();
            json!({ "id": thread.id, "crashed": thread.crashed, "frames": frames })
        })
        .collect();
    let files = page.files(autopsy, source);
    let data = json!({ "threads": threads, "files": files });
    let _ = writeln!(
        out,
        "<script id=\"data\" type=\"application/json\">{}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>",
        escape_json(&data)
    );
    out
}

/// The text of the terminal, line by line.
fn plain(autopsy: &Autopsy, detail: Detail) -> String {
    let options = text::Options { detail, extent: Extent::All, style: Style::PLAIN };
    let text = text::render(autopsy, &options);
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

fn head(autopsy: &Autopsy, out: &mut String) {
    let signal = autopsy.signal.as_deref().unwrap_or("no signal");
    let reason = autopsy.reason.as_ref().map_or_else(String::new, |it| format!(": {it}"));
    let build = if autopsy.build_id.is_empty() { "not known" } else { &autopsy.build_id };
    let _ = write!(
        out,
        "<header>\n<h1>{} <b>{}</b> <small class=\"mono\">build id {}</small></h1>\n",
        escape(&autopsy.program),
        escape(&format!("{signal}{reason}")),
        escape(build),
    );
    if let Some(found) = &autopsy.conclusion {
        let _ = writeln!(out, "<p>{}</p>", escape(&summary(found)));
    }
    for remark in &autopsy.remarks {
        let _ = writeln!(out, "<p><span class=\"warn\">{}</span></p>", escape(remark));
    }
    out.push_str("</header>\n");
}

fn summary(found: &Conclusion) -> String {
    let lines = found.all_lines.saturating_sub(found.impossible_lines.len() as u64);
    format!(
        "can have run: {} of {}, {} of {}, {} of {} ({} by the stack alone)",
        number(found.functions.now),
        counted(found.functions.total, "function"),
        number(lines),
        counted(found.all_lines, "line"),
        number(found.edges.now),
        counted(found.edges.total, "edge"),
        number(found.edges.stack_only),
    )
}

struct Page {
    detail: Detail,
    /// How functions are called.
    functions: Names,
    /// Files by name, as numbers.
    numbers: BTreeMap<String, usize>,
    /// Names of files, and the lines of them that frames came by.
    names: Vec<(String, Vec<u32>)>,
}

impl Page {
    fn file(&mut self, name: &str, line: u32) -> usize {
        let number = *self.numbers.entry(name.to_owned()).or_insert_with(|| {
            self.names.push((name.to_owned(), Vec::new()));
            self.names.len() - 1
        });
        self.names[number].1.push(line);
        number
    }

    fn frame(&mut self, frame: &Frame) -> Value {
        let name = text::name(frame, &self.functions);
        let mut steps: Vec<Value> = Vec::new();
        let mut known = "exact";
        if let Some(way) = &frame.way {
            known = way.known;
            for (age, older) in way.older.iter().enumerate().rev() {
                for _ in 0..older.times.min(TIMES) {
                    self.steps(&older.steps, age + 1, &mut steps);
                }
            }
            self.steps(&way.path, 0, &mut steps);
        }
        // Of a frame that recorded nothing, where it is.
        let here = frame.file.as_deref().zip(frame.line);
        if let (Some((file, line)), true) = (here, steps.is_empty()) {
            let file = self.file(file, line);
            steps.push(json!([file, line, Value::Null, Value::Null, 0]));
        }
        let place = match (&frame.file, frame.line) {
            (Some(file), Some(line)) => format!("{}:{line}", short_path(file)),
            _ => frame
                .module
                .as_deref()
                .map_or_else(String::new, |it| format!("in {}", short_path(it))),
        };
        json!({
            "number": frame.number,
            "name": name,
            "place": place,
            "inlined": frame.inlined,
            "sure": !frame.uncertain,
            "known": known,
            "recorded": frame.way.is_some(),
            "truncated": frame.way.as_ref().is_none_or(|way| way.truncated),
            "steps": steps,
        })
    }

    /// Each line as file, line, block, what was decided behind it, and how many
    /// paths ago.
    fn steps(&mut self, path: &[Step], age: usize, out: &mut Vec<Value>) {
        for step in path {
            let mut lines: Vec<(&str, u32)> =
                step.lines.iter().map(|line| line.told(self.detail)).collect();
            lines.dedup();
            for (place, &(file, line)) in lines.iter().enumerate() {
                let file = self.file(file, line);
                let decision = step.decision.filter(|_| place + 1 == lines.len());
                out.push(json!([file, line, step.block, decision, age]));
            }
        }
    }

    /// The files, with their lines and what is known of each.
    fn files(
        &mut self,
        autopsy: &Autopsy,
        source: &mut dyn FnMut(&str) -> Option<Vec<String>>,
    ) -> Vec<Value> {
        let known = autopsy.conclusion.as_ref().map_or(&[][..], |found| &found.files);
        let states: BTreeMap<&str, _> =
            known.iter().map(|file| (file.name.as_str(), &file.states)).collect();
        let own = self.names.len();
        let others = known.iter().filter(|file| !self.numbers.contains_key(&file.name));
        let others: Vec<String> = others.map(|file| file.name.clone()).collect();
        self.names.extend(others.into_iter().map(|name| (name, Vec::new())));
        let mut room = OTHER_LINES;
        let mut files = Vec::new();
        for (number, (name, lines)) in self.names.iter().enumerate() {
            let text = source(name);
            let parts = match text {
                None => Vec::new(),
                Some(text) if number < own => parts(&text, lines),
                Some(text) if text.len() <= room.min(LARGE) => {
                    room -= text.len();
                    vec![json!([1, text])]
                }
                Some(_) => Vec::new(),
            };
            let mut by_state = [Vec::new(), Vec::new(), Vec::new()];
            if !parts.is_empty() {
                for (&line, &state) in states.get(name.as_str()).into_iter().copied().flatten() {
                    by_state[state_number(state)].push(line);
                }
            }
            files.push(json!({ "name": name, "short": short_path(name), "parts": parts,
                "states": by_state }));
        }
        files
    }
}

fn state_number(state: LineState) -> usize {
    match state {
        LineState::Impossible => 0,
        LineState::Possible => 1,
        LineState::Executed => 2,
    }
}

/// The parts of a file that matter: all of it, if it is not large.
fn parts(text: &[String], lines: &[u32]) -> Vec<Value> {
    if text.len() <= LARGE {
        return vec![json!([1, text])];
    }
    let mut lines = lines.to_vec();
    lines.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for line in lines {
        let (first, last) = (line.saturating_sub(AROUND).max(1), line.saturating_add(AROUND));
        match ranges.last_mut() {
            Some(before) if first <= before.1 => before.1 = last,
            _ => ranges.push((first, last)),
        }
    }
    let part = |(first, last): (u32, u32)| {
        let end = (last as usize).min(text.len());
        Some(json!([first, text.get(first as usize - 1..end)?]))
    };
    ranges.into_iter().filter_map(part).collect()
}
