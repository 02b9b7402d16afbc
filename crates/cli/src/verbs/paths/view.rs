//! A profile as data to be shown: names demangled, decisions and derived counts
//! with their edges, sources where they are found.

use std::collections::BTreeMap;

use backtrail_collect::local::signal_name;
use backtrail_profile::derived::{self, Counts};
use backtrail_profile::known::{self, KnownCounts};
use backtrail_profile::model::{self, Profile};
use backtrail_report::paths::{
    Decision, Edge, End, Function, Line, PartialPath, Path, Place, Program, Ran, SourceFile, Start,
};

use crate::own_code::{Owner, nearest};
use crate::source;
use crate::style::demangle;

/// Turns profiles into what is shown.
#[derive(Default)]
pub struct Viewer {
    /// Inlined functions, by linkage name, and their numbers.
    scopes: BTreeMap<String, u32>,
    names: Vec<String>,
    /// Whose each file is, as far as that was asked.
    owners: BTreeMap<u32, Owner>,
}

/// A source file, without its lines.
pub fn file(path: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), lines: None, own: Owner::of(path) == Owner::User }
}

impl Viewer {
    /// Everything there is to show.
    pub fn program(mut self, profile: &Profile) -> Program {
        let mut functions: Vec<Function> =
            (0..profile.functions.len()).map(|number| self.function(profile, number)).collect();
        for (function, ran) in functions.iter_mut().zip(known::Ran::of_all(profile)) {
            function.ran = match ran {
                known::Ran::No => Ran::No,
                known::Ran::Unknown => Ran::Unknown,
                known::Ran::Inlined => Ran::Inlined,
                known::Ran::Itself => Ran::Itself,
            };
        }
        for model::PartialPath { function, starts, blocks, count } in &profile.partial {
            let (starts, blocks, count) = (start(*starts), blocks.clone(), *count);
            functions[*function as usize].partial.push(PartialPath { starts, blocks, count });
        }
        let file = |path: &String| SourceFile { lines: source::read(path), ..file(path) };
        Program {
            program: profile.program.clone(),
            build_id: profile.build_id.clone(),
            incomplete: profile.incomplete.clone(),
            processes: profile.processes,
            ended_by: profile
                .ended_by
                .iter()
                .map(|&(signal, runs)| (signal_name(signal), runs))
                .collect(),
            merged: profile.merged.iter().map(crate::alike::view).collect(),
            files: profile.files.iter().map(file).collect(),
            scopes: self.names,
            functions,
        }
    }

    /// One function, without its partial paths and whether it ran.
    pub fn function(&mut self, profile: &Profile, number: usize) -> Function {
        let function = &profile.functions[number];
        let known = KnownCounts::of(profile, number);
        let counted = Counts::of(function);
        let lines = known.lines(profile, function);
        let line = |(line, count): (derived::Line, Option<u64>)| {
            (Line { file: line.file, line: line.line, scope: None }, count)
        };
        let numbers = |is_one: &dyn Fn(usize) -> bool| -> Vec<u32> {
            (0..function.blocks.len()).filter(|&it| is_one(it)).map(|it| it as u32).collect()
        };
        Function {
            id: format!("{}#{}", function.unit, function.name),
            name: function.name.clone(),
            demangled: demangle(&function.name),
            unit: function.unit.clone(),
            place: function.location.and_then(|number| self.line(profile, number)),
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
            activations_exact: profile.inexact(number).is_none_or(|it| it.activations_exact),
            edges_exact: function.edges_exact,
            ran: Ran::default(),
            ran_uncounted: numbers(&|it| counted.blocks[it] == 0 && known.counts.blocks[it] > 0),
            unknown: numbers(&|it| known.unknown_blocks[it]),
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
                .enumerate()
                .map(|(place, edge)| Edge {
                    from: edge.from,
                    to: edge.to,
                    decision: decision(&edge.decision),
                    count: counted.edges[place],
                    ran: (!known.unknown_edges[place]).then_some(known.counts.edges[place] > 0),
                })
                .collect(),
            lines: lines.into_iter().map(line).collect(),
            paths: function.paths.iter().map(path).collect(),
            partial: Vec::new(),
        }
    }

    /// A position, if it has a line, with the line that tells more.
    fn place(&mut self, profile: &Profile, number: u32) -> Option<Place> {
        let line = self.line(profile, number)?;
        let outer = |at: &u32| profile.locations[*at as usize].inlined_at;
        let chain: Vec<u32> = std::iter::successors(Some(number), outer)
            .filter(|&at| profile.locations[at as usize].line > 0)
            .collect();
        let owners = chain.iter().map(|&at| {
            let file = profile.locations[at as usize].file;
            *self.owners.entry(file).or_insert_with(|| Owner::of(&profile.files[file as usize]))
        });
        let told_by = nearest(owners).and_then(|place| self.line(profile, chain[place]));
        Some(Place { line, told_by: told_by.unwrap_or(line) })
    }

    /// The line of a position, if it has one.
    fn line(&mut self, profile: &Profile, number: u32) -> Option<Line> {
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
        (location.line > 0).then_some(Line { file: location.file, line: location.line, scope })
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
