//! What came out of a comparison.

use serde::{Deserialize, Serialize};

/// How one way of looking at a program came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// What was told is what the log of every block tells.
    Equal,
    /// Less is told, it agrees with the log, and it is said why something is missing.
    Labelled {
        /// The reason that is given.
        why: String,
    },
    /// Nothing was written, with exit code 4 and this message.
    Diverged {
        /// The message.
        said: String,
    },
    /// The same where nothing was in the way: copies of a program that does the same
    /// each time.
    Refused {
        /// The message.
        said: String,
    },
    /// Something else was told, or nothing.
    Wrong {
        /// What is wrong, in words that do not depend on the program.
        what: String,
        /// Where.
        detail: String,
    },
}

impl Verdict {
    /// Something that is wrong: what, in words that do not depend on the program, and
    /// where.
    pub fn wrong(what: &str, detail: impl Into<String>) -> Self {
        Verdict::Wrong { what: what.to_owned(), detail: detail.into() }
    }

    /// Whether it must not be.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Verdict::Refused { .. } | Verdict::Wrong { .. })
    }

    /// The column of the page that counts it.
    pub fn column(&self) -> Column {
        match self {
            Verdict::Equal => Column::Equal,
            Verdict::Labelled { .. } => Column::Labelled,
            Verdict::Diverged { .. } => Column::Diverged,
            Verdict::Refused { .. } => Column::Refused,
            Verdict::Wrong { .. } => Column::Wrong,
        }
    }

    /// What it is, in words that do not depend on the program.
    pub fn kind(&self) -> String {
        match self {
            Verdict::Equal => "equal".to_owned(),
            Verdict::Labelled { why } => general(why),
            Verdict::Diverged { said } | Verdict::Refused { said } => general(said),
            Verdict::Wrong { what, .. } => what.clone(),
        }
    }

    /// What it is, in a line.
    pub fn shown(&self) -> String {
        match self {
            Verdict::Equal => "equal".to_owned(),
            Verdict::Wrong { what, detail } => format!("{what}: {detail}"),
            _ => self.detail().to_owned(),
        }
    }

    /// All that is known of it.
    pub fn detail(&self) -> &str {
        match self {
            Verdict::Equal => "",
            Verdict::Labelled { why: text }
            | Verdict::Diverged { said: text }
            | Verdict::Refused { said: text }
            | Verdict::Wrong { detail: text, .. } => text,
        }
    }
}

/// Columns of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// [`Verdict::Equal`].
    Equal,
    /// [`Verdict::Labelled`].
    Labelled,
    /// [`Verdict::Diverged`].
    Diverged,
    /// [`Verdict::Refused`].
    Refused,
    /// [`Verdict::Wrong`].
    Wrong,
}

/// All columns, in order.
pub const COLUMNS: [Column; 5] =
    [Column::Equal, Column::Labelled, Column::Diverged, Column::Refused, Column::Wrong];

/// A message without what is of one program: names and numbers.
fn general(message: &str) -> String {
    let message = message.strip_prefix("backtrail: ").unwrap_or(message);
    let is_own = |word: &str| {
        word.contains(|it: char| it.is_ascii_digit() || it == '_' || it == '/') || word == "main"
    };
    let word = |word: &str| {
        let end = word.trim_end_matches([':', ',', ';', '.', ')']);
        let begin = end.trim_start_matches(['(', '`', '"']);
        if is_own(begin) { format!("…{}", &word[end.len()..]) } else { word.to_owned() }
    };
    let mut words: Vec<String> = message.split_whitespace().map(word).collect();
    words.dedup();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_kind_are_the_same() {
        let said = |text: &str| Verdict::Refused { said: text.to_owned() }.kind();
        let one = said("backtrail: the copies did not run alike: s1_cb was entered 2 times in one");
        let other =
            said("backtrail: the copies did not run alike: main was entered 14 times in one");
        assert_eq!(one, other);
        assert_eq!(one, "the copies did not run alike: … was entered … times in one");
    }
}
