//! What is made of all that can be made, and whether again.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use clap::Args;

/// What every verb takes that keeps what it has made.
#[derive(Debug, Clone, Default, Args)]
pub struct Choice {
    /// Only these: programs and other parts, by the first word of their titles
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Make again what has been made with the same tool
    #[arg(long)]
    pub again: bool,
}

impl Choice {
    /// Whether what has this title was asked for.
    pub fn wants(&self, title: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|it| it == first_word(title))
    }

    /// Names that nothing has are an error.
    pub fn check<'a>(&self, titles: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let known: BTreeSet<&str> = titles.into_iter().map(first_word).collect();
        for name in &self.only {
            let all: Vec<&str> = known.iter().copied().collect();
            ensure!(known.contains(&name[..]), "there is no {name} here, but: {}", all.join(", "));
        }
        Ok(())
    }
}

fn first_word(title: &str) -> &str {
    title.split(' ').next().unwrap_or(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_go_by_their_first_words_and_unknown_names_are_errors() {
        let all = Choice::default();
        assert!(all.wants("sed"));
        all.check([]).unwrap();
        let some = Choice { only: vec!["sed".to_owned(), "gcc".to_owned()], again: false };
        assert!(some.wants("sed") && some.wants("gcc -O0") && !some.wants("grep sed"));
        some.check(["sed by counts", "gcc -O0", "grep"]).unwrap();
        let error = some.check(["sed", "grep"]).unwrap_err().to_string();
        assert_eq!(error, "there is no gcc here, but: grep, sed");
    }
}
