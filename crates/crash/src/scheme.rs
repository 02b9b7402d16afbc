//! Tracing schemes, as they are written on the command line.
//!
//! A scheme says, by glob of function names, what is recorded of a function:
//!
//! ```text
//! scheme     = preset | rule { "," rule }
//! rule       = mechanisms [ ":" glob ] | glob "=" mechanisms
//! mechanisms = mechanism { "+" mechanism } | "none"
//! mechanism  = "pt" | "fc" | "cc" | "bc"
//! preset     = "none" | "realistic" | "full"
//! ```
//!
//! `pt` traces every function, `pt:parse_*,pt:main` two kinds of them, and
//! `pt,hash_*=none` all but some. Of several rules that a name matches the last
//! counts; a function that none matches gets nothing. A glob is matched with the
//! linkage name and with the name as people write it.
//!
//! `realistic` is `cc` everywhere and `cc+pt` for functions of a list, which is
//! given apart; `full` is `bc+cc+pt`.

use globset::{Glob, GlobMatcher};

use crate::Error;
use crate::placement::Wanted;

/// How many ended paths a record holds, unless something else is asked for.
pub const DEFAULT_PATHS: u32 = 10;

/// The most that a record may hold.
pub const MOST_PATHS: u32 = 100;

/// A tracing scheme.
#[derive(Debug, Clone)]
pub struct Scheme {
    rules: Vec<(GlobMatcher, Mechanisms)>,
    /// How many rules, at the end, are names of a list.
    listed: usize,
    ended: u32,
}

/// What is recorded of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mechanisms {
    /// `pt`: the last paths of each live activation.
    pub paths: bool,
    /// `fc`, `cc`, `bc`: what was ever executed, and what by each live activation.
    pub coverage: Wanted,
}

impl Scheme {
    /// Reads a scheme whose records are to hold at least `paths` ended paths.
    /// Functions of `listed`, by name, are traced if the scheme is `realistic`.
    pub fn parse(text: &str, paths: u32, listed: &[String]) -> Result<Self, Error> {
        let wrong = |word: &str, why: &str| Error::Scheme { word: word.into(), why: why.into() };
        if !(1..=MOST_PATHS).contains(&paths) {
            let why = format!("a record holds between 1 and {MOST_PATHS} paths");
            return Err(wrong(&paths.to_string(), &why));
        }
        let mut rules = Vec::new();
        let text = match text {
            "realistic" => "cc",
            "full" => "bc+cc+pt",
            _ if listed.is_empty() => text,
            _ => return Err(wrong(text, "a list of functions is for the scheme realistic")),
        };
        for rule in text.split(',') {
            let (glob, mechanisms) = match (rule.split_once('='), rule.split_once(':')) {
                (Some((glob, mechanisms)), _) => (glob, mechanisms),
                // `::` is part of names.
                (None, Some((mechanisms, glob))) => (glob, mechanisms),
                (None, None) => ("*", rule),
            };
            let matcher = Glob::new(glob).map_err(|error| wrong(glob, &error.to_string()))?;
            rules.push((matcher.compile_matcher(), Mechanisms::parse(mechanisms)?));
        }
        let mechanisms = Mechanisms { paths: true, ..Mechanisms::parse("cc")? };
        for name in listed {
            let literal = globset::escape(name);
            let matcher = Glob::new(&literal).map_err(|error| wrong(name, &error.to_string()))?;
            rules.push((matcher.compile_matcher(), mechanisms));
        }
        Ok(Self { rules, listed: listed.len(), ended: paths })
    }

    /// The globs by which its rules name functions; names of a list are none.
    pub fn globs(&self) -> impl Iterator<Item = &Glob> {
        self.rules[..self.rules.len() - self.listed].iter().map(|(matcher, _)| matcher.glob())
    }

    /// What is recorded of the function with these names.
    pub fn of(&self, name: &str, plain: &str) -> Mechanisms {
        let mut rules = self.rules.iter().rev();
        let found = rules.find(|(glob, _)| glob.is_match(name) || glob.is_match(plain));
        found.map(|(_, mechanisms)| *mechanisms).unwrap_or_default()
    }

    /// How many ended paths records hold, at least.
    pub fn ended(&self) -> u32 {
        self.ended
    }
}

impl Mechanisms {
    /// As a scheme names it: `cc+pt`, `none`.
    pub fn name(self) -> String {
        let coverage = self.coverage.name();
        match (coverage.is_empty(), self.paths) {
            (true, false) => "none".to_owned(),
            (true, true) => "pt".to_owned(),
            (false, false) => coverage,
            (false, true) => format!("{coverage}+pt"),
        }
    }

    /// Reads what [`Self::name`] gives, in any order.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut found = Self::default();
        if text == "none" {
            return Ok(found);
        }
        for word in text.split('+') {
            let is = match word {
                "pt" => &mut found.paths,
                "fc" => &mut found.coverage.entered,
                "cc" => &mut found.coverage.calls,
                "bc" => &mut found.coverage.blocks,
                _ => {
                    let why = match word {
                        "none" => "none stands alone",
                        "realistic" | "full" => "it is a whole scheme, not a part of one",
                        _ => "expected pt, fc, cc, bc, several with + between, or none",
                    };
                    return Err(Error::Scheme { word: word.into(), why: why.into() });
                }
            };
            *is = true;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(scheme: &str, name: &str) -> bool {
        Scheme::parse(scheme, DEFAULT_PATHS, &[]).unwrap().of(name, name).paths
    }

    #[test]
    fn the_last_rule_that_matches_counts() {
        assert!(paths("pt", "main") && !paths("none", "main"));
        assert!(paths("pt:parse_*,pt:main", "parse_word") && paths("pt:parse_*,pt:main", "main"));
        assert!(!paths("pt:parse_*,pt:main", "print"));
        assert!(!paths("pt,hash_*=none", "hash_add") && paths("pt,hash_*=none", "add"));
        assert!(paths("none,main=pt", "main") && !paths("main=pt,none", "main"));
        assert!(paths("pt:a::b", "a::b") && !paths("pt:a::b", "a"));
    }

    #[test]
    fn a_name_may_be_matched_as_people_write_it() {
        let scheme = Scheme::parse("pt:list::*", 3, &[]).unwrap();
        assert!(scheme.of("_ZN4list3addEv", "list::add()").paths);
        assert_eq!(scheme.ended(), 3);
    }

    #[test]
    fn coverage_and_presets() {
        let scheme = Scheme::parse("*=cc,parse_*=fc+bc+pt", 3, &[]).unwrap();
        let (calls, all) = (scheme.of("main", "main"), scheme.of("parse_x", "parse_x"));
        assert_eq!(calls.coverage, Wanted { calls: true, ..Wanted::default() });
        assert_eq!(all.coverage, Wanted { entered: true, blocks: true, calls: false });
        assert!(!calls.paths && all.paths);
        let listed = ["a*b".to_owned(), "main".to_owned()];
        let scheme = Scheme::parse("realistic", 3, &listed).unwrap();
        assert!(scheme.of("main", "main").paths && scheme.of("a*b", "a*b").paths);
        assert!(!scheme.of("axb", "axb").paths && scheme.of("axb", "axb").coverage.calls);
        let full = Scheme::parse("full", 3, &[]).unwrap().of("f", "f");
        assert!(full.paths && full.coverage.blocks && full.coverage.calls);
    }

    #[test]
    fn what_is_no_scheme() {
        let why = |text: &str| Scheme::parse(text, 10, &[]).unwrap_err().to_string();
        assert!(why("f=cc+full").contains("a whole scheme"));
        assert!(why("pt+none").contains("none stands alone"));
        assert!(why("turbo").contains("expected pt, fc"));
        assert!(why("pt:a[").starts_with("\"a[\" is no scheme: "));
        assert!(Scheme::parse("pt", 0, &[]).is_err() && Scheme::parse("pt", 101, &[]).is_err());
        assert!(Scheme::parse("pt", 10, &["f".to_owned()]).is_err());
    }
}
