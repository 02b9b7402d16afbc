//! The command line of the compiler driver, as far as we look at it ourselves.
//!
//! Clang is asked what its words mean; these are the few questions that need no
//! asking, or that come before it.

/// Options with which clang makes neither object nor executable.
const MAKES_NOTHING: [&str; 15] = [
    "-E",
    "-M",
    "-MM",
    "-S",
    "-###",
    "--version",
    "-fsyntax-only",
    "-dumpversion",
    "-dumpmachine",
    "--help",
    "--precompile",
    "--analyze",
    "--preprocess",
    "--assemble",
    "-emit-ast",
];

/// Options whose value is the next word, which may look like an option.
const VALUES: [&str; 24] = [
    "-o",
    "-Xlinker",
    "-Xclang",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xanalyzer",
    "-mllvm",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-D",
    "-U",
    "-I",
    "-L",
    "-u",
    "-z",
    "-T",
    "-e",
];

/// Whether the words say plainly that neither object nor executable is made.
pub fn makes_nothing(words: &[String]) -> bool {
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if VALUES.contains(&word) {
            words.next();
        } else if word == "--" {
            return false;
        } else if MAKES_NOTHING.contains(&word) || word.starts_with("-print-") {
            return true;
        }
    }
    false
}

/// Whether the jobs are to be shown.
pub fn is_verbose(words: &[String]) -> bool {
    words.iter().any(|word| word == "-v" || word == "--verbose")
}

/// The words without `-MJ FILE`, and whether it was there. (Asking clang about
/// it would remove the file.)
pub fn without_database(words: Vec<String>) -> (Vec<String>, bool) {
    let mut kept = Vec::with_capacity(words.len());
    let mut found = false;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "-MJ" {
            found = true;
            words.next();
        } else {
            kept.push(word);
        }
    }
    (kept, found)
}

/// The words with which clang goes from each source to its object in one job.
pub fn for_direct_jobs(words: &[String]) -> Vec<String> {
    let keeps = |word: &str| word.starts_with("-save-temps") || word.starts_with("--save-temps");
    let mut direct: Vec<String> = words.iter().filter(|word| !keeps(word)).cloned().collect();
    // Behind `--` there are files only.
    let end = direct.iter().position(|word| word == "--").unwrap_or(direct.len());
    let added = ["-fintegrated-as", "-fembed-bitcode=off"].map(str::to_owned);
    direct.splice(end..end, added);
    direct
}

/// An error as clang's driver `name` prints it, in colours if `words` ask for
/// them.
pub fn error_line(name: &str, text: &str, words: &[String]) -> String {
    let colours = words.iter().rev().find_map(|word| match word.as_str() {
        "-fcolor-diagnostics" | "-fdiagnostics-color" | "-fdiagnostics-color=always" => Some(true),
        "-fno-color-diagnostics" | "-fno-diagnostics-color" | "-fdiagnostics-color=never" => {
            Some(false)
        }
        _ => None,
    });
    match colours {
        Some(true) => format!("{name}: \x1b[0;1;31merror: \x1b[0m\x1b[1m{text}\x1b[0m"),
        _ => format!("{name}: error: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_are_told_from_values() {
        for line in ["-E a.c", "a.c -S", "-print-search-dirs", "-O2 -o x --version"] {
            assert!(makes_nothing(&words(line)), "{line}");
        }
        for line in ["-Xlinker -E a.c", "-c a.c -o -S", "-MD a.c", "a.c -- -E", "-Wl,-E a.c"] {
            assert!(!makes_nothing(&words(line)), "{line}");
        }
    }

    #[test]
    fn the_database_is_left_out() {
        assert_eq!(without_database(words("-c -MJ x.json a.c")), (words("-c a.c"), true));
        assert_eq!(without_database(words("-c a.c")), (words("-c a.c"), false));
    }

    #[test]
    fn direct_words_stand_before_files() {
        let direct = for_direct_jobs(&words("-save-temps=obj -no-integrated-as -c -- a.c"));
        let expected = "-no-integrated-as -c -fintegrated-as -fembed-bitcode=off -- a.c";
        assert_eq!(direct, words(expected));
    }
}
