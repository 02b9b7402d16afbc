//! What several crashes have in common.

use serde::Serialize;

use super::text::{self, written};
use super::{Autopsy, Conclusion, Frame, json};
use crate::name::Names;
use crate::terminal::{Detail, counted, short_path};
use backtrail_foreign::text::shown;

/// What some cores have in common.
#[derive(Debug, Clone, Default)]
pub struct Common {
    /// The cores.
    pub cores: Vec<String>,
    /// The program, if it is the same.
    pub program: Option<String>,
    /// Its build id, if that is the same.
    pub build_id: Option<String>,
    /// The signal, if it is the same.
    pub signal: Option<String>,
    /// The innermost frames, as far as they are of the same functions.
    pub frames: Vec<CommonFrame>,
    /// How the innermost frames that recorded it came, as far as that is the
    /// same: the last lines, oldest first, with what was decided.
    pub path: Vec<String>,
    /// What can have run in all of them, if they are of one build that records
    /// something.
    pub conclusion: Option<Conclusion>,
}

/// A frame that all have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommonFrame {
    /// The function, as people write it.
    pub function: String,
    /// Its linkage name.
    pub linkage_name: String,
    /// The file, if it is the same.
    pub file: Option<String>,
    /// The line, if it is the same.
    pub line: Option<u32>,
}

impl Common {
    /// Compares some autopsies.
    pub fn new(autopsies: &[&Autopsy], conclusion: Option<Conclusion>) -> Self {
        let same = |what: &dyn Fn(&Autopsy) -> Option<String>| -> Option<String> {
            let first = what(autopsies.first()?)?;
            autopsies.iter().all(|it| what(it).as_ref() == Some(&first)).then_some(first)
        };
        let stacks: Vec<&[Frame]> = autopsies.iter().map(|it| crashed(it)).collect();
        let shortest = stacks.iter().map(|frames| frames.len()).min().unwrap_or(0);
        let mut frames = Vec::new();
        for place in 0..shortest {
            let at: Vec<&Frame> = stacks.iter().map(|frames| &frames[place]).collect();
            let (Some(function), Some(linkage_name)) = (&at[0].demangled, &at[0].function) else {
                break;
            };
            if at.iter().any(|frame| frame.function.as_ref() != Some(linkage_name)) {
                break;
            }
            let same_file = at.iter().all(|frame| frame.file == at[0].file);
            let same_line = same_file && at.iter().all(|frame| frame.line == at[0].line);
            frames.push(CommonFrame {
                function: function.clone(),
                linkage_name: linkage_name.clone(),
                file: at[0].file.clone().filter(|_| same_file),
                line: at[0].line.filter(|_| same_line),
            });
        }
        Self {
            cores: autopsies.iter().map(|it| it.core.clone()).collect(),
            program: same(&|it| Some(it.program.clone())),
            build_id: same(&|it| Some(it.build_id.clone()).filter(|id| !id.is_empty())),
            signal: same(&|it| it.signal.clone()),
            frames,
            path: common_path(&stacks),
            conclusion,
        }
    }

    /// As text.
    pub fn text(&self, options: &text::Options) -> String {
        let style = options.style;
        let frames = self.frames.iter().map(|it| (&*it.linkage_name, &*it.function));
        let names = Names::new(frames, options.detail);
        let mut out = String::new();
        let what = self.program.as_deref().unwrap_or("different programs");
        let cores = counted(self.cores.len() as u64, "core");
        let title = format!("What {cores} of {} have in common", shown(what));
        out += &format!("{}\n", style.bold(&title));
        let mut row = |what: &str, text: &str| out += &format!("  {what:<10} {text}\n");
        row("signal", self.signal.as_deref().unwrap_or("different ones"));
        if self.build_id.is_none() {
            row("build", "different ones, so that nothing else is compared");
        }
        if self.frames.is_empty() {
            row("frames", "none: they died in different functions");
        }
        for frame in &self.frames {
            let place = match (&frame.file, frame.line) {
                (Some(file), Some(line)) => format!("{}:{line}", short_path(file)),
                (Some(file), None) => format!("{}, at different lines", short_path(file)),
                _ => String::new(),
            };
            let name = shown(&names.of(&frame.linkage_name, &frame.function));
            row("frame", format!("{name}  {}", shown(&place)).trim_end());
        }
        if !self.path.is_empty() {
            row("came by", &style.decision(&shown(&self.path.join(" "))));
        }
        if let Some(found) = &self.conclusion {
            out += &text::render_conclusion(found, options, "What can have run in all of them");
        }
        out
    }

    /// As a document, schema `backtrail.autopsy-common/1`.
    pub fn document(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        struct Row<'a> {
            function: &'a str,
            linkage_name: &'a str,
            file: Option<&'a str>,
            line: Option<u32>,
        }
        #[derive(Serialize)]
        struct Document<'a> {
            schema: &'static str,
            cores: &'a [String],
            program: Option<&'a str>,
            build_id: Option<&'a str>,
            signal: Option<&'a str>,
            frames: Vec<Row<'a>>,
            path: &'a [String],
            impossible: Option<json::ImpossibleRow<'a>>,
            active: Option<json::ActiveRow>,
        }
        Document {
            schema: "backtrail.autopsy-common/1",
            cores: &self.cores,
            program: self.program.as_deref(),
            build_id: self.build_id.as_deref(),
            signal: self.signal.as_deref(),
            frames: self
                .frames
                .iter()
                .map(|frame| Row {
                    function: &frame.function,
                    linkage_name: &frame.linkage_name,
                    file: frame.file.as_deref(),
                    line: frame.line,
                })
                .collect(),
            path: &self.path,
            impossible: self.conclusion.as_ref().map(json::impossible_row),
            active: self.conclusion.as_ref().map(json::active_row),
        }
    }
}

/// The frames of the thread that died.
fn crashed(autopsy: &Autopsy) -> &[Frame] {
    let thread = autopsy.threads.iter().find(|it| it.crashed).or(autopsy.threads.first());
    thread.map_or(&[], |thread| &thread.frames)
}

/// The last lines that all came by, in the innermost frame that recorded it.
fn common_path(stacks: &[&[Frame]]) -> Vec<String> {
    let mut ways = Vec::new();
    let mut function = None;
    for frames in stacks {
        let frame = frames.iter().find_map(|frame| Some((frame, frame.way.as_ref()?)));
        let Some((frame, way)) = frame.filter(|(_, way)| !way.path.is_empty()) else {
            return Vec::new();
        };
        if *function.get_or_insert(&frame.function) != &frame.function {
            return Vec::new();
        }
        let mut steps: Vec<_> = Vec::new();
        for older in way.older.iter().rev() {
            (0..older.times.min(20)).for_each(|_| steps.extend(older.steps.iter().cloned()));
        }
        steps.extend(way.path.iter().cloned());
        ways.push(written(&steps, frame.file.as_deref().unwrap_or_default(), Detail::Full));
    }
    let Some((first, others)) = ways.split_first() else { return Vec::new() };
    let same = |count: &usize| {
        let last = |words: &[String]| words.len().checked_sub(*count).map(|at| words[at].clone());
        let mine = last(first);
        mine.is_some() && others.iter().all(|words| last(words) == mine)
    };
    let count = (1..=first.len()).take_while(same).count();
    first[first.len() - count..].to_vec()
}
