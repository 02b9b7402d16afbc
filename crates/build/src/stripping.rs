//! Links that strip, done in two steps.
//!
//! A linker that is told to strip drops what is needed to find out where blocks
//! are. So it is not told, and what it would have dropped goes afterwards.

use std::borrow::Cow;

use backtrail_machine::edit::{self, Edit};
use backtrail_machine::elf::Elf;
use backtrail_plan::block_lines::SECTION_PREFIX;

use crate::carry::recipe::{Recipe, RecipeArg};

/// The word with which a driver is told that the next one is for the linker.
const PASS: &str = "-Xlinker";

/// What a link drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stripping {
    debug: bool,
    symbols: bool,
}

impl Stripping {
    /// A recipe that drops nothing, and what the original drops.
    pub fn take_from(recipe: &Recipe) -> (Cow<'_, Recipe>, Self) {
        let mut found = Self::default();
        let mut arguments = Vec::new();
        for argument in &recipe.arguments {
            match argument {
                RecipeArg::Text(word) => match found.take_word(word) {
                    Some(left) => arguments.push(RecipeArg::Text(left)),
                    None => {
                        let announced = |it: &mut RecipeArg| *it == RecipeArg::Text(PASS.into());
                        let _ = arguments.pop_if(announced);
                    }
                },
                other => arguments.push(other.clone()),
            }
        }
        match found == Self::default() {
            true => (Cow::Borrowed(recipe), found),
            false => (Cow::Owned(Recipe { arguments, ..recipe.clone() }), found),
        }
    }

    /// What is left of a word.
    fn take_word(&mut self, word: &str) -> Option<String> {
        match word.strip_prefix("-Wl,") {
            Some(options) => {
                let left: Vec<&str> = options.split(',').filter(|it| !self.take(it)).collect();
                (!left.is_empty()).then(|| format!("-Wl,{}", left.join(",")))
            }
            None => (!self.take(word)).then(|| word.to_owned()),
        }
    }

    /// Whether an option says that something is dropped.
    fn take(&mut self, option: &str) -> bool {
        match option {
            "-s" | "--strip-all" | "-strip-all" => {
                self.debug = true;
                self.symbols = true;
                true
            }
            "-S" | "--strip-debug" | "-strip-debug" => {
                self.debug = true;
                true
            }
            _ => false,
        }
    }

    /// Drops it, and debug information that tells blocks in any case.
    pub fn apply(self, bytes: &[u8]) -> Result<Vec<u8>, backtrail_machine::Error> {
        let names = Elf::parse(bytes)?.section_names();
        let is_dropped = |name: &&str| {
            name.starts_with(SECTION_PREFIX)
                || self.debug && (name.starts_with(".debug_") || *name == ".gdb_index")
                || self.symbols && matches!(*name, ".symtab" | ".strtab")
        };
        let remove: Vec<&str> = names.iter().map(String::as_str).filter(is_dropped).collect();
        edit::edit(bytes, &Edit { remove: &remove, ..Edit::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_strip_are_taken_out_and_remembered() {
        let text = |word: &str| RecipeArg::Text(word.to_owned());
        let arguments =
            vec![text("-pie"), text("-Wl,-z,now,-S"), text(PASS), text("-s"), RecipeArg::Output];
        let recipe = Recipe { arguments, ..Recipe::default() };
        let (kept, stripping) = Stripping::take_from(&recipe);
        assert_eq!(kept.arguments, [text("-pie"), text("-Wl,-z,now"), RecipeArg::Output]);
        assert_eq!(stripping, Stripping { debug: true, symbols: true });
        let plain = Recipe { arguments: vec![text("-o")], ..Recipe::default() };
        assert_eq!(Stripping::take_from(&plain).1, Stripping::default());
    }
}
