//! What a linker script, or `--defsym`, assigns to names.
//!
//! `NAME = EXPRESSION;` makes NAME a symbol, whatever else defines it, and within
//! `PROVIDE(…)` only if nothing does. If the expression is the name of a symbol, NAME is
//! another name for it; else it is not known what NAME is. Scripts are read loosely: what
//! stands before an `=` is a name, unless the `=` gives a section its filling.

/// A name that is assigned something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The name.
    pub name: String,
    /// The symbol that it is another name for.
    pub means: Option<String>,
    /// Whether only if nothing else defines it.
    pub is_provided: bool,
}

/// What stands before an `=` that changes a name.
const CHANGES: [&str; 9] = ["+", "-", "*", "/", "&", "|", "^", "<<", ">>"];

/// All that a text assigns, in order.
pub fn of(text: &str) -> Vec<Assignment> {
    let text = without_comments(text);
    let mut found = Vec::new();
    for (place, _) in text.match_indices('=') {
        let (before, behind) = (&text[..place], &text[place + 1..]);
        if behind.starts_with('=') {
            continue;
        }
        let changed = CHANGES.iter().find_map(|sign| before.strip_suffix(sign));
        let is_changed = changed.is_some();
        let before = changed.unwrap_or(before).trim_end();
        let is_comparison = !is_changed && before.ends_with(['<', '>', '!']);
        let name = &before[before.rfind(|c| !is_name(c)).map_or(0, |at| at + 1)..];
        let outer = before[..before.len() - name.len()].trim_end();
        // `.` is where it stands; the others are fillings.
        if is_comparison || !is_symbol(name) || outer.ends_with([':', '}', '>']) {
            continue;
        }
        let words = outer.trim_end_matches('(').trim_end();
        let is_provided = outer.ends_with('(')
            && ["PROVIDE", "PROVIDE_HIDDEN"].iter().any(|word| words.ends_with(word));
        let end = behind.find([';', ',', '\n']).unwrap_or(behind.len());
        let value = behind[..end].trim();
        let value = if is_provided { value.trim_end_matches(')').trim_end() } else { value };
        let means = (!is_changed && is_symbol(value)).then(|| value.to_owned());
        found.push(Assignment { name: name.to_owned(), means, is_provided });
    }
    found
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.$@".contains(c)
}

/// Whether it is a name, and neither `.` nor a number.
fn is_symbol(word: &str) -> bool {
    let is_first = |c: char| is_name(c) && !c.is_ascii_digit();
    word != "." && word.starts_with(is_first) && word.chars().all(is_name)
}

fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        kept.push_str(before);
        kept.push(' ');
        rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let show = |it: Assignment| {
            let sign = if it.is_provided { "?=" } else { "=" };
            format!("{}{sign}{}", it.name, it.means.unwrap_or_default())
        };
        of(text).into_iter().map(show).collect()
    }

    #[test]
    fn names_are_assigned_names_or_what_is_unknown() {
        assert_eq!(shown("toupper=my_abs"), ["toupper=my_abs"]);
        assert_eq!(shown("toupper = my_abs;"), ["toupper=my_abs"]);
        assert_eq!(shown("a=0x10"), ["a="]);
        assert_eq!(shown("a=b+4"), ["a="]);
        let script = "ENTRY(go) /* x = y; */ SECTIONS { . = 0x1000; .text : { *(.text) begin = .; }\n\
                      =0x90 PROVIDE (etext = .); PROVIDE_HIDDEN(f = g); n += m; n <<= m;\n\
                      .data : { *(.data) } :phdr =0 ASSERT(a == b, \"no\") last = ABSOLUTE(.); }";
        assert_eq!(shown(script), ["begin=", "etext?=", "f?=g", "n=", "n=", "last="]);
        assert!(shown("GROUP ( /lib/libc.so.6 AS_NEEDED ( ld.so ) )").is_empty());
        assert!(shown("=").is_empty() && shown("a <= b; c >= d").is_empty());
    }
}
