//! Loops that need not end, which line tables must not change.
//!
//! With debug information clang gives every loop an identity. Without, a loop
//! has one only if it may be taken to end, which since C11 and C++11 is every
//! loop but, in C, one on a constant condition (`for (;;)`, `while (1)`); in
//! older standards it is none. The optimiser treats the two differently. A unit
//! with loops that need not end is optimised apart from the rest of the first
//! step, after the worker has taken these identities away. That takes two more
//! steps, so a look at the options and the source says whether it may be needed;
//! where the look was mistaken (the loop is in a macro or a header), the worker
//! notices, and the unit is compiled again.

/// Standards in which no loop may be taken to end, as `-std=` names them.
const OLD_STANDARDS: [&str; 18] = [
    "c89",
    "c90",
    "gnu89",
    "gnu90",
    "c99",
    "c9x",
    "gnu99",
    "gnu9x",
    "iso9899:1990",
    "iso9899:199409",
    "iso9899:1999",
    "iso9899:199x",
    "c++98",
    "c++03",
    "gnu++98",
    "gnu++03",
    "cl1.0",
    "cl1.1",
];

/// Whether `source`, compiled with these options, seems to hold a loop that need
/// not end.
pub fn seem_to_be_in(source: &[u8], arguments: &[String]) -> bool {
    let last = |of: [&str; 2]| arguments.iter().rev().find(|word| of.contains(&word.as_str()));
    let every = match last(["-ffinite-loops", "-fno-finite-loops"]) {
        Some(word) if word == "-ffinite-loops" => return false,
        Some(_) => true,
        None => {
            let mut standards =
                arguments.iter().rev().filter_map(|word| word.strip_prefix("-std="));
            standards.next().is_some_and(|standard| OLD_STANDARDS.contains(&standard))
        }
    };
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
    let zero = |head: &str| head.trim_start().strip_prefix('0').is_some_and(ends);
    if every {
        return behind("for").next().is_some() || behind("while").any(|head| !zero(head));
    }
    behind("for").any(no_condition) || behind("while").any(constant)
}

/// Whether a condition ends here.
fn ends(rest: &str) -> bool {
    rest.trim_start().starts_with(')')
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

    fn seen(text: &str, options: &str) -> bool {
        let options: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
        seem_to_be_in(text.as_bytes(), &options)
    }

    #[test]
    fn loops_on_constants_are_seen() {
        for text in ["for(;;)", "for (i = 0; ; i++)", "x; while ( 1 ) y", "do x; while (true);"] {
            assert!(seen(text, "-O2 -std=gnu17"), "{text}");
            assert!(!seen(text, "-fno-finite-loops -ffinite-loops"), "{text}");
        }
        for text in ["for (;x;)", "while (x)", "do x; while (0)", "before(1)", "awhile (1)", "for"]
        {
            assert!(!seen(text, "-O2"), "{text}");
        }
    }

    #[test]
    fn in_old_standards_all_loops_are() {
        for text in ["for (;x;)", "while (x)", "do x; while (0 + x);", "while (0) x; for (;;)"] {
            assert!(seen(text, "-std=gnu17 -std=gnu99"), "{text}");
            assert!(seen(text, "-fno-finite-loops"), "{text}");
        }
        assert!(!seen("while (x)", "-std=c99 -std=c11"));
        for text in ["do x; while ( 0 );", "before(1)", "format"] {
            assert!(!seen(text, "-std=c89"), "{text}");
        }
    }
}
