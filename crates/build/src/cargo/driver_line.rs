//! The command line of a compiler driver that is asked to link (`cc`, `clang`).
//!
//! rustc links through the system's compiler, so options for the linker stand
//! behind `-Wl,` or `-Xlinker`. They are sorted by the linker's own rules
//! ([`link_args`]); in the result each stands behind an `-Xlinker`.

use std::path::Path;

use crate::link_args::{self, LinkArg};

/// Options of drivers with a value as a word of its own.
const VALUES: [&str; 22] = [
    "-L",
    "-B",
    "-u",
    "-z",
    "-x",
    "-e",
    "-I",
    "-D",
    "-target",
    "--target",
    "-arch",
    "-isysroot",
    "--sysroot",
    "-Xclang",
    "-Xassembler",
    "-Xpreprocessor",
    "-mllvm",
    "--param",
    "-rpath",
    "-framework",
    "-specs",
    "-wrapper",
];

const FOR_LINKER: &str = "-Xlinker";

/// Sorts the words behind a driver's name.
pub fn parse(words: &[String]) -> Vec<LinkArg> {
    let mut line = Line::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some(options) = word.strip_prefix("-Wl,") {
            line.pending.extend(options.split(',').map(str::to_owned));
            continue;
        }
        if word == FOR_LINKER {
            line.pending.extend(words.next().cloned());
            continue;
        }
        line.flush();
        match word.as_str() {
            "-o" => line.push_with(words.next(), LinkArg::Output),
            "-l" => {
                let archives_only = line.archives_only;
                line.push_with(words.next(), |name| LinkArg::Library { name, archives_only });
            }
            "-T" => line.push_with(words.next(), |path| LinkArg::ReadFile {
                option: "-T".to_owned(),
                joined: String::new(),
                path,
            }),
            option if VALUES.contains(&option) => {
                line.arguments.push(LinkArg::Text(word.clone()));
                line.push_with(words.next(), LinkArg::Text);
            }
            "-static" => {
                line.archives_only = true;
                line.arguments.push(LinkArg::Text(word.clone()));
            }
            _ => line.word(word),
        }
    }
    line.flush();
    line.arguments
}

#[derive(Default)]
struct Line {
    arguments: Vec<LinkArg>,
    /// Words for the linker that belong together.
    pending: Vec<String>,
    archives_only: bool,
}

impl Line {
    fn push_with(&mut self, value: Option<&String>, make: impl FnOnce(String) -> LinkArg) {
        self.arguments.extend(value.cloned().map(make));
    }

    fn word(&mut self, word: &str) {
        let argument = if let Some(name) = word.strip_prefix("-l") {
            LinkArg::Library { name: name.to_owned(), archives_only: self.archives_only }
        } else if word.starts_with('-') && word.len() > 1 {
            LinkArg::Text(word.to_owned())
        } else {
            LinkArg::File(word.to_owned())
        };
        self.arguments.push(argument);
    }

    /// Sorts the words for the linker collected so far.
    fn flush(&mut self) {
        let words = std::mem::take(&mut self.pending);
        for word in &words {
            match word.trim_start_matches('-') {
                "Bstatic" | "dn" | "non_shared" | "static" => self.archives_only = true,
                "Bdynamic" | "dy" | "call_shared" => self.archives_only = false,
                _ => {}
            }
        }
        let mut parsed = link_args::parse(&words).into_iter();
        while let Some(argument) = parsed.next() {
            match argument {
                // Folders are known to the driver by the same name.
                LinkArg::Text(text) if text == "-L" || text == "--library-path" => {
                    let folder = parsed.next();
                    self.arguments.push(LinkArg::Text("-L".to_owned()));
                    self.arguments.extend(folder);
                }
                LinkArg::Text(text) if text.starts_with("-L") => {
                    self.arguments.push(LinkArg::Text(text));
                }
                LinkArg::Text(text) => self.for_linker(LinkArg::Text(text)),
                LinkArg::ReadFile { option, joined, path } => {
                    if !option.is_empty() {
                        self.for_linker(LinkArg::Text(option));
                    }
                    self.for_linker(LinkArg::ReadFile { option: String::new(), joined, path });
                }
                other => self.arguments.push(other),
            }
        }
    }

    fn for_linker(&mut self, argument: LinkArg) {
        self.arguments.push(LinkArg::Text(FOR_LINKER.to_owned()));
        self.arguments.push(argument);
    }
}

/// Whether `program` with `words` is a compiler driver, not a linker.
pub fn is_driver(program: &Path, words: &[String]) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let is_linker = ["ld", "lld", "mold", "wild"].iter().any(|linker| {
        name == *linker
            || name.ends_with(&format!("-{linker}"))
            || name.starts_with(&format!("{linker}."))
    });
    !is_linker || words.iter().any(|word| word.starts_with("-Wl,"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn text(text: &str) -> LinkArg {
        LinkArg::Text(text.to_owned())
    }

    #[test]
    fn a_link_by_rustc_is_sorted() {
        let parsed = parse(&words(
            "-m64 /t/symbols.o a.rcgu.o -Wl,--as-needed -Wl,-Bstatic libx.rlib -lfoo \
             -Wl,-Bdynamic -lc -L /raw -B/gcc-ld -fuse-ld=lld -Wl,--version-script=/t/list \
             -Wl,-z,relro,-z,now -Wl,-rpath,/r -o out -pie",
        ));
        assert_eq!(parsed[0], text("-m64"));
        assert_eq!(parsed[1], LinkArg::File("/t/symbols.o".into()));
        assert!(parsed.contains(&LinkArg::Library { name: "foo".into(), archives_only: true }));
        assert!(parsed.contains(&LinkArg::Library { name: "c".into(), archives_only: false }));
        assert!(parsed.contains(&LinkArg::Output("out".into())));
        let at = parsed
            .iter()
            .position(|argument| {
                matches!(argument, LinkArg::ReadFile { joined, path, .. }
                if joined == "--version-script=" && path == "/t/list")
            })
            .expect("the version script is a file");
        assert_eq!(parsed[at - 1], text("-Xlinker"));
        let tail = &parsed[at + 1..at + 9];
        let wanted = ["-z", "relro", "-z", "now"].map(text);
        assert_eq!(tail.iter().skip(1).step_by(2).cloned().collect::<Vec<_>>(), wanted);
        assert!(tail.iter().step_by(2).all(|argument| *argument == text("-Xlinker")));
        assert_eq!(parsed.last(), Some(&text("-pie")));
    }

    #[test]
    fn words_split_over_two_options_stay_together() {
        let parsed =
            parse(&words("-Wl,--dynamic-list -Wl,/t/d -Xlinker -soname -Xlinker x.so -L/q"));
        assert_eq!(
            parsed,
            [
                text("-Xlinker"),
                text("--dynamic-list"),
                text("-Xlinker"),
                LinkArg::ReadFile {
                    option: String::new(),
                    joined: String::new(),
                    path: "/t/d".into()
                },
                text("-Xlinker"),
                text("-soname"),
                text("-Xlinker"),
                text("x.so"),
                text("-L/q"),
            ]
        );
    }

    #[test]
    fn drivers_and_linkers_are_told_apart() {
        assert!(is_driver(Path::new("/usr/bin/cc"), &[]));
        assert!(is_driver(Path::new("clang-19"), &[]));
        assert!(!is_driver(Path::new("/x/rust-lld"), &[]));
        assert!(!is_driver(Path::new("ld.lld"), &[]));
        assert!(is_driver(Path::new("wrapped-ld"), &words("-Wl,--as-needed")));
    }
}
