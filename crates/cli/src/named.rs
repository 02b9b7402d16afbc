//! Functions that are named by a glob on the command line.
//!
//! A glob is matched with linkage names and with names as people write them. One that
//! matches nothing is a slip, which would look like a result (nothing was counted, nothing
//! ran): it is refused as wrong usage, before anything runs or is written, with names that
//! come near.

use std::collections::BTreeSet;
use std::fmt::Display;

use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::libraries::own_libraries;
use backtrail_ir::Unit;
use backtrail_machine::elf::Kind;
use globset::{Glob, GlobMatcher};

use crate::exit::Usage;
use crate::style::demangle;
use crate::verbs::show::read_models;

/// How many names that come near are told.
const MOST_NEAR: usize = 3;

/// The functions with such names.
pub struct Named {
    matcher: GlobMatcher,
}

impl Named {
    /// Those that a glob names.
    pub fn by(glob: &Glob) -> Self {
        Self { matcher: glob.compile_matcher() }
    }

    /// Whether the function with this linkage name is one.
    pub fn has(&self, name: &str) -> bool {
        self.matcher.is_match(name) || self.matcher.is_match(demangle(name))
    }

    /// Fails if none of `names`, linkage names that `whole` has, is one. If it has none at
    /// all, that is told elsewhere.
    pub fn check<'n>(
        &self,
        whole: impl Display,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<(), Usage> {
        let names: BTreeSet<&str> = names.into_iter().collect();
        if names.is_empty() || names.iter().any(|name| self.has(name)) {
            return Ok(());
        }
        let glob = self.matcher.glob().glob();
        let plain: BTreeSet<String> = names.into_iter().map(demangle).collect();
        let near = match near(glob, &plain) {
            near if near.is_empty() => String::new(),
            near => format!("; near it: {}", near.join(", ")),
        };
        Err(Usage(format!("no function of {whole} is called {glob}{near}")))
    }
}

/// The models of a program and of its own libraries, which have all functions that probes
/// can be asked for.
pub fn models(program: &Carried) -> Result<Vec<Unit>, Error> {
    let libraries = match program.kind {
        Kind::SharedLibrary => Default::default(),
        _ => own_libraries(program)?,
    };
    let mut models = Vec::new();
    for file in [program].into_iter().chain(libraries.values()) {
        models.extend(read_models(file)?.into_iter().map(|(_, unit)| unit));
    }
    Ok(models)
}

/// The linkage names of all functions of some units.
pub fn names<'u>(units: impl IntoIterator<Item = &'u Unit>) -> impl Iterator<Item = &'u str> {
    units.into_iter().flat_map(|unit| {
        unit.functions.values().map(|function| &*unit.symbols[function.symbol].name)
    })
}

/// The names that hold what a glob says literally, or differ from it by a slip in three
/// letters at most, the nearest first.
fn near<'n>(glob: &str, names: &'n BTreeSet<String>) -> Vec<&'n str> {
    let is_literal = |letter: &char| !"*?[]{}!\\".contains(*letter);
    let meant: Vec<char> = glob.to_lowercase().chars().filter(is_literal).collect();
    let text: String = meant.iter().collect();
    if meant.is_empty() {
        return Vec::new();
    }
    let slips = |name: &String| {
        let name = name.to_lowercase();
        if name.contains(&text) {
            return Some(0);
        }
        // Arguments and the folders of a name are rarely typed.
        let whole = name.split('(').next().unwrap_or_default();
        let last = whole.rsplit("::").next().unwrap_or_default();
        let slips = distance(&meant, whole).min(distance(&meant, last));
        (slips * 3 <= meant.len()).then_some(slips)
    };
    let mut found: Vec<(usize, &str)> =
        names.iter().filter_map(|name| Some((slips(name)?, &**name))).collect();
    found.sort();
    found.into_iter().take(MOST_NEAR).map(|(_, name)| name).collect()
}

/// How many letters have to be put in, left out or replaced to make one of the other.
fn distance(one: &[char], other: &str) -> usize {
    let mut row: Vec<usize> = (0..=one.len()).collect();
    for (line, letter) in other.chars().enumerate() {
        let mut above_left = std::mem::replace(&mut row[0], line + 1);
        for (column, mine) in one.iter().enumerate() {
            let replaced = above_left + usize::from(*mine != letter);
            above_left = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(above_left + 1);
        }
    }
    row[one.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near_to(glob: &str) -> Vec<String> {
        let names = ["parse", "print", "list::add(int)", "<a::B as c::Show>::show", "main"];
        let names = names.map(str::to_owned).into();
        near(glob, &names).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn names_that_come_near() {
        assert_eq!(near_to("parze"), ["parse"]);
        assert_eq!(near_to("*Pars*"), ["parse"]);
        assert_eq!(near_to("add"), ["list::add(int)"]);
        assert_eq!(near_to("list::ad"), ["list::add(int)"]);
        assert_eq!(near_to("shaw"), ["<a::B as c::Show>::show"]);
        assert!(near_to("nothing").is_empty() && near_to("*").is_empty());
    }

    /// By definition: the fewest steps of one letter.
    fn distance_by_definition(one: &[char], other: &[char]) -> usize {
        match (one, other) {
            ([], rest) | (rest, []) => rest.len(),
            ([first, one @ ..], [second, other @ ..]) if first == second => {
                distance_by_definition(one, other)
            }
            ([_, one_rest @ ..], [_, other_rest @ ..]) => {
                let ways = [(one_rest, other), (one, other_rest), (one_rest, other_rest)];
                let least = ways.iter().map(|(one, other)| distance_by_definition(one, other));
                1 + least.min().expect("there are three ways")
            }
        }
    }

    #[test]
    fn distances_are_those_of_the_definition() {
        let words: Vec<Vec<char>> = (0..1 << 5)
            .map(|bits: u32| {
                (0..bits % 6).map(move |at| if bits >> at & 1 > 0 { 'a' } else { 'b' })
            })
            .map(Iterator::collect)
            .collect();
        for one in &words {
            for other in &words {
                let text: String = other.iter().collect();
                assert_eq!(distance(one, &text), distance_by_definition(one, other));
            }
        }
    }

    #[test]
    fn what_matches_nothing_is_wrong_usage() {
        let named = Named::by(&Glob::new("nope*").unwrap());
        assert!(named.check("a", []).is_ok());
        assert!(named.check("a", ["main", "nopes"]).is_ok());
        let refused = named.check("a", ["main", "_ZN4list4nopaEv"]).unwrap_err();
        assert_eq!(refused.0, "no function of a is called nope*; near it: list::nopa()");
    }
}
