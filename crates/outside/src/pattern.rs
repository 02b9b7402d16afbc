//! Patterns of names: `*` is anything, even nothing; `#` is a number.

/// Whether a row of this name stands for many.
pub(crate) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '#'])
}

/// Whether a name is of a pattern. A pattern is short and has few stars, so that trying
/// all ways is cheap.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some(first) = pattern.chars().next() else { return name.is_empty() };
    let rest = &pattern[first.len_utf8()..];
    match first {
        '*' => {
            let mut ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.any(|at| matches(rest, &name[at..]))
        }
        '#' => {
            let digits = name.len() - name.trim_start_matches(|it: char| it.is_ascii_digit()).len();
            digits > 0 && matches(rest, &name[digits..])
        }
        _ => name.strip_prefix(first).is_some_and(|name| matches(rest, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_are_anything_and_hashes_are_numbers() {
        assert!(matches("_ZSt#__throw_*", "_ZSt17__throw_bad_allocv"));
        assert!(!matches("_ZSt#__throw_*", "_ZSt__throw_bad_allocv"));
        assert!(!matches("_ZSt#__throw_*", "_ZSt4findI20__throw_x"));
        assert!(matches("*a*b", "aab") && matches("*", "") && !matches("*a*b", "aba"));
        assert!(matches("é*", "élan") && !matches("a", "ab") && !matches("#", ""));
    }
}
