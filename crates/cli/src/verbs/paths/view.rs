//! A profile as data to be shown: names demangled, decisions and derived counts
//! with their edges, sources where they are found.

use std::collections::BTreeMap;

use backtrail_profile::derived::{Counts, compute_function_lines};
use backtrail_profile::model::{self, Profile};
use backtrail_report::paths::{
    Decision, Edge, End, Function, PartialPath, Path, Place, Program, SourceFile, Start,
};

use crate::source;
use crate::style::demangle;

/// Turns profiles into what is shown.
#[derive(Default)]
pub struct Viewer {
    /// Inlined functions, by linkage name, and their numbers.
    scopes: BTreeMap<String, u32>,
    names: Vec<String>,
}

impl Viewer {
    /// Everything there is to show.
    pub fn program(mut self, profile: &Profile) -> Program {
        let mut functions: Vec<Function> =
            profile.functions.iter().map(|function| self.function(profile, function)).collect();
        for model::PartialPath { function, starts, blocks, count } in &profile.partial {
            let (starts, blocks, count) = (start(*starts), blocks.clone(), *count);
            functions[*function as usize].partial.push(PartialPath { starts, blocks, count });
        }
        let file = |path: &String| SourceFile { path: path.clone(), lines: source::read(path) };
        Program {
            program: profile.program.clone(),
            build_id: profile.build_id.clone(),
            incomplete: profile.incomplete.clone(),
            processes: profile.processes,
            files: profile.files.iter().map(file).collect(),
            scopes: self.names,
            functions,
        }
    }

    /// One function, without its partial paths.
    pub fn function(&mut self, profile: &Profile, function: &model::Function) -> Function {
        let counts = Counts::of(function);
        let lines = compute_function_lines(profile, function, &counts);
        let line = |(line, count): (backtrail_profile::derived::Line, u64)| {
            (Place { file: line.file, line: line.line, scope: None }, count)
        };
        Function {
            id: format!("{}#{}", function.unit, function.name),
            name: function.name.clone(),
            demangled: demangle(&function.name),
            unit: function.unit.clone(),
            place: function.location.and_then(|number| self.place(profile, number)),
            acyclic_paths: function.acyclic_paths.count,
            acyclic_paths_exact: function.acyclic_paths.exact,
            instrumented: match &function.instrumented {
                model::Instrumented::Whole => "whole".to_owned(),
                model::Instrumented::Cut => "cut".to_owned(),
                model::Instrumented::No(why) => format!("no: {why}"),
            },
            entries: function.entries,
            inherited: function.inherited,
            unfinished: function.unfinished,
            edges_exact: function.edges_exact,
            blocks: function
                .blocks
                .iter()
                .map(|block| {
                    block.locations.iter().filter_map(|&at| self.place(profile, at)).collect()
                })
                .collect(),
            edges: function
                .edges
                .iter()
                .zip(&counts.edges)
                .map(|(edge, &count)| Edge {
                    from: edge.from,
                    to: edge.to,
                    decision: decision(&edge.decision),
                    count,
                })
                .collect(),
            lines: lines.into_iter().map(line).collect(),
            paths: function.paths.iter().map(path).collect(),
            partial: Vec::new(),
        }
    }

    /// A position, if it has a line.
    fn place(&mut self, profile: &Profile, number: u32) -> Option<Place> {
        let location = &profile.locations[number as usize];
        let scope = location.inlined_at.map(|_| match self.scopes.get(&location.scope) {
            Some(&scope) => scope,
            None => {
                let scope = self.names.len() as u32;
                self.names.push(demangle(&location.scope));
                self.scopes.insert(location.scope.clone(), scope);
                scope
            }
        });
        (location.line > 0).then_some(Place { file: location.file, line: location.line, scope })
    }
}

fn decision(decision: &model::Decision) -> Decision {
    match decision {
        model::Decision::Always => Decision::Always,
        model::Decision::True => Decision::True,
        model::Decision::False => Decision::False,
        model::Decision::Cases { values, default } => {
            Decision::Cases { values: values.clone(), default: *default }
        }
        model::Decision::Returned => Decision::Returned,
        model::Decision::Unwound => Decision::Unwound,
        model::Decision::Computed => Decision::Computed,
    }
}

fn start(starts: model::Start) -> Start {
    match starts {
        model::Start::Entry => Start::Entry,
        model::Start::Loop => Start::Loop,
        model::Start::Cut => Start::Cut,
        model::Start::CutWithin => Start::CutWithin,
        model::Start::ReturnTwice => Start::ReturnTwice,
    }
}

fn path(path: &model::Path) -> Path {
    Path {
        id: path.id,
        count: path.count,
        starts: start(path.starts),
        ends: match path.ends {
            model::End::Exit => End::Exit,
            model::End::Loop(to) => End::Loop(to),
            model::End::Cut(to) => End::Cut(to),
            model::End::CutWithin => End::CutWithin,
            model::End::Call => End::Call,
        },
        blocks: path.blocks.clone(),
    }
}
