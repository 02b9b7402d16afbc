//! Assembly in a unit, and whether it reads files.
//!
//! `.incbin` and `.include` take a file of whoever assembles into the object. In a unit
//! from elsewhere that file is not the maker's. Neither are the ways to write these words
//! otherwise: macros and repetitions put words together (`.\a\b`), operands print the
//! names of symbols (`.%c0`), and alternatives end within a word (`{a|b}`). An assembler
//! takes no directive but by the first word of a statement, so operands elsewhere are fine.

use backtrail_llvm_ffi::Module;

/// Directives that read files or put words together, as they stand behind a dot.
const DIRECTIVES: [&str; 7] = ["incbin", "include", "macro", "irp", "irpc", "rept", "altmacro"];

/// What makes assembly in `module` read files, or may; the first there is.
pub fn may_read_files(module: &Module<'_>) -> Option<String> {
    let mut of_functions = module.functions().flat_map(|function| {
        let calls = function.blocks().flat_map(|block| block.instructions());
        calls.filter_map(|it| it.as_call()?.callee().assembly()).collect::<Vec<_>>()
    });
    directive(&module.inline_asm()).or_else(|| of_functions.find_map(|it| template(&it)))
}

/// The first word of assembly that may read files.
fn directive(text: &str) -> Option<String> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    let mut words = words.map(str::to_ascii_lowercase);
    words.find(|word| DIRECTIVES.contains(&word.as_str()))
}

/// The same of a template, in which operands are put.
fn template(text: &str) -> Option<String> {
    // A dollar sign itself is written twice; behind the others stand alternatives.
    let plain = text.replace("$$", "");
    if let Some(it) = ["$(", "$|", "$)"].into_iter().find(|it| plain.contains(it)) {
        return Some(it.to_owned());
    }
    // A comment hides where a statement begins.
    if plain.contains("/*") && plain.contains('$') {
        return Some("/*".to_owned());
    }
    let mut place = Place::Before;
    let mut letters = plain.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_word = letter.is_ascii_alphanumeric() || "_.".contains(letter);
        place = match (letter, place) {
            ('$', Place::Before | Place::Within) => return Some("$ in a first word".to_owned()),
            ('$', Place::Behind) if letters.peek() == Some(&'{') => {
                letters.by_ref().find(|it| *it == '}');
                Place::Behind
            }
            ('\n' | '\r' | ';' | ':', _) => Place::Before,
            (_, Place::Before) if is_word => Place::Within,
            (_, Place::Within) if !is_word => Place::Behind,
            (_, place) => place,
        };
    }
    directive(text)
}

/// Where in a statement, seen from its first word.
#[derive(Clone, Copy)]
enum Place {
    Before,
    Within,
    Behind,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembly_that_reads_files_is_told_from_other() {
        for harmless in [
            "",
            "\tmovq $0, %rax\n\tlock; cmpxchgq ${1:q}, ($2)",
            "1: rep; nop\n jmp 1b",
            "call ${0:P}",
            ".pushsection .note,\"a\"; .byte $0; .popsection",
            "bts $$1, $0",
            "# a comment\nmovl $1, $0",
        ] {
            assert_eq!(template(harmless), None, "{harmless}");
        }
        for hostile in [
            ".incbin \"/etc/shadow\"",
            "nop; .INCBIN \"x\"",
            "1:.include \"x\"",
            ".macro m a b\n.\\a\\b \"x\"\n.endm",
            ".irp x,incbin",
            "$0 \"/etc/shadow\"",
            ".${0:c} \"/etc/shadow\"",
            "nop\n.inc$0 \"x\"",
            "/* x */ $0 \"x\"",
            ".in$(c$|d$)bin \"x\"",
            "{\n $0 \"x\"",
        ] {
            assert!(template(hostile).is_some(), "{hostile}");
        }
        assert_eq!(directive(".symver a,a@V1\n.globl includes"), None);
    }
}
