//! Tracing schemes, as they are written on the command line.
//!
//! A scheme says, by glob of function names, what is recorded of a function:
//!
//! ```text
//! scheme     = preset | rule { "," rule }
//! rule       = mechanisms [ ":" glob ] | glob "=" mechanisms
//! mechanisms = mechanism { "+" mechanism } | "none"
//! preset     = "none"
//! ```
//!
//! `pt` traces every function, `pt:parse_*,pt:main` two kinds of them, and
//! `pt,hash_*=none` all but some. Of several rules that a name matches the last
//! counts; a function that none matches gets nothing. A glob is matched with the
//! linkage name and with the name as people write it.

use globset::{Glob, GlobMatcher};

use crate::Error;

/// How many ended paths a record holds, unless something else is asked for.
pub const DEFAULT_PATHS: u32 = 10;

/// The most that a record may hold.
pub const MOST_PATHS: u32 = 100;

/// A tracing scheme.
#[derive(Debug, Clone)]
pub struct Scheme {
    rules: Vec<(GlobMatcher, Mechanisms)>,
    ended: u32,
}

/// What is recorded of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mechanisms {
    /// `pt`: the last paths of each live activation.
    pub paths: bool,
}

impl Scheme {
    /// Reads a scheme whose records are to hold at least `paths` ended paths.
    pub fn parse(text: &str, paths: u32) -> Result<Self, Error> {
        let wrong = |word: &str, why: &str| Error::Scheme { word: word.into(), why: why.into() };
        if !(1..=MOST_PATHS).contains(&paths) {
            let why = format!("a record holds between 1 and {MOST_PATHS} paths");
            return Err(wrong(&paths.to_string(), &why));
        }
        let mut rules = Vec::new();
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
        Ok(Self { rules, ended: paths })
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
    fn parse(text: &str) -> Result<Self, Error> {
        let mut found = Self::default();
        if text == "none" {
            return Ok(found);
        }
        for word in text.split('+') {
            let why = match word {
                "pt" => {
                    found.paths = true;
                    continue;
                }
                "fc" | "cc" | "bc" => "coverage is not recorded yet, only paths (pt)",
                "none" => "none stands alone",
                "realistic" | "full" => "it needs coverage, which is not recorded yet; use pt",
                _ => "expected pt or none, alone, as pt:GLOB or as GLOB=pt",
            };
            return Err(Error::Scheme { word: word.into(), why: why.into() });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(scheme: &str, name: &str) -> bool {
        Scheme::parse(scheme, DEFAULT_PATHS).unwrap().of(name, name).paths
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
        let scheme = Scheme::parse("pt:list::*", 3).unwrap();
        assert!(scheme.of("_ZN4list3addEv", "list::add()").paths);
        assert_eq!(scheme.ended(), 3);
    }

    #[test]
    fn what_is_not_there_yet_and_what_never_will_be() {
        let why = |text: &str| Scheme::parse(text, 10).unwrap_err().to_string();
        assert_eq!(
            why("f=cc+pt"),
            "\"cc\" is no scheme: coverage is not recorded yet, only paths (pt)"
        );
        assert!(why("full").contains("it needs coverage"));
        assert!(why("pt+none").contains("none stands alone"));
        assert!(why("turbo").contains("expected pt or none"));
        assert!(why("pt:a[").starts_with("\"a[\" is no scheme: "));
        assert!(Scheme::parse("pt", 0).is_err() && Scheme::parse("pt", 101).is_err());
    }
}
