//! How many, in words, wherever something is said.

/// A number with its thousands set apart.
pub fn number(value: impl Into<u128>) -> String {
    let digits = value.into().to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number and its noun, in the plural unless it is one.
pub fn counted(value: u64, noun: &str) -> String {
    format!("{} {}", number(value), if value == 1 { noun.to_owned() } else { plural(noun) })
}

/// The plural of a noun, of which the last word is declined.
fn plural(noun: &str) -> String {
    let mut letters = noun.chars().rev();
    let (last, before) = (letters.next(), letters.next());
    match last {
        Some('s' | 'x') => format!("{noun}es"),
        Some('h') if matches!(before, Some('s' | 'c')) => format!("{noun}es"),
        Some('y') if !before.is_some_and(|letter| "aeiou".contains(letter)) => {
            format!("{}ies", &noun[..noun.len() - 1])
        }
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        for (noun, many) in [
            ("path", "paths"),
            ("process", "processes"),
            ("box", "boxes"),
            ("entry", "entries"),
            ("way", "ways"),
            ("branch", "branches"),
            ("shared library", "shared libraries"),
        ] {
            assert_eq!(counted(1, noun), format!("1 {noun}"));
            for count in [0, 2, 1_000] {
                assert_eq!(counted(count, noun), format!("{} {many}", number(count)));
            }
        }
    }
}
