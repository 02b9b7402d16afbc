//! Loops without a condition, which line tables must not change.
//!
//! With debug information clang gives every loop an identity; without, in C, a
//! loop on a constant condition (`for (;;)`, `while (1)`) has none, and the
//! optimiser treats the two differently. A unit with such loops is optimised
//! apart from the rest of the first step, after the worker has taken these
//! identities away. That costs two more processes, so a look at the source says
//! whether it may be needed; where the look was mistaken (the loop is in a
//! macro or a header), the worker notices, and the unit is compiled again.

/// Whether `source` seems to hold a loop on a constant condition.
pub fn seem_to_be_in(source: &[u8]) -> bool {
    let text = String::from_utf8_lossy(source);
    let behind = |word: &'static str| {
        let text = &text;
        text.match_indices(word).filter_map(move |(at, _)| {
            let before = text[..at].chars().next_back();
            let is_word = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let rest = text[at + word.len()..].trim_start().strip_prefix('(')?;
            is_word.then_some(rest)
        })
    };
    let no_condition = |head: &str| {
        head.split_once(';').is_some_and(|(_, rest)| rest.trim_start().starts_with(';'))
    };
    let constant = |head: &str| {
        let head = head.trim_start();
        head.starts_with(|c: char| ('1'..='9').contains(&c))
            || ["true", "TRUE", "True"].iter().any(|word| head.starts_with(word))
    };
    behind("for").any(no_condition) || behind("while").any(constant)
}

/// Whether options are such that line tables may change the code.
pub fn may_change_under(arguments: &[String]) -> bool {
    arguments.iter().any(|word| word.starts_with("-O") && word != "-O0")
}

/// Whether, moreover, the optimiser may be run apart: it has all it needs in the
/// bitcode.
pub fn matter_under(arguments: &[String]) -> bool {
    let instruments = |word: &String| {
        ["-fsanitize", "-fprofile", "-fcoverage-mapping", "-coverage-", "-fpass-plugin", "-fplugin"]
            .iter()
            .any(|prefix| word.starts_with(prefix))
    };
    may_change_under(arguments) && !arguments.iter().any(instruments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_on_constants_are_seen() {
        for text in ["for(;;)", "for (i = 0; ; i++)", "x; while ( 1 ) y", "do x; while (true);"] {
            assert!(seem_to_be_in(text.as_bytes()), "{text}");
        }
        for text in ["for (;x;)", "while (x)", "do x; while (0)", "before(1)", "awhile (1)", "for"]
        {
            assert!(!seem_to_be_in(text.as_bytes()), "{text}");
        }
    }
}
