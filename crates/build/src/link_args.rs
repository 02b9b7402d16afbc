//! The command line of a linker, as far as it matters for linking again.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// What an argument of a linker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkArg {
    /// Anything else, as it is.
    Text(String),
    /// The path of the output.
    Output(String),
    /// A file to link.
    File(String),
    /// A file to take in as it is, whatever it holds (`-b binary`).
    Data(String),
    /// A library by name (`-lm`), and whether only archives are searched.
    Library {
        /// The name, without `-l`.
        name: String,
        /// Whether `-Bstatic` or `-static` is in force here.
        archives_only: bool,
    },
    /// An option with a file that the linker reads: the words before it, the
    /// text it is joined to (`--version-script=`), and the file.
    ReadFile {
        /// The option as a word of its own, or empty.
        option: String,
        /// The text the path is joined to, or empty.
        joined: String,
        /// The file.
        path: String,
    },
    /// Something that writes a file beside the output or prints: dropped when
    /// linking again.
    Report(Vec<String>),
}

/// Options whose value is the next word and is not a file we carry.
const VALUES: [&str; 43] = [
    "A",
    "architecture",
    "b",
    "format",
    "e",
    "entry",
    "f",
    "auxiliary",
    "F",
    "filter",
    "G",
    "gpsize",
    "h",
    "soname",
    "L",
    "library-path",
    "m",
    "u",
    "undefined",
    "require-defined",
    "y",
    "trace-symbol",
    "I",
    "dynamic-linker",
    "rpath",
    "rpath-link",
    "defsym",
    "wrap",
    "section-start",
    "Ttext",
    "Tdata",
    "Tbss",
    "Ttext-segment",
    "exclude-libs",
    "init",
    "fini",
    "hash-style",
    "plugin",
    "plugin-opt",
    "z",
    "oformat",
    "export-dynamic-symbol",
    "Y",
];

/// Options whose value is a file that the linker reads.
const READS: [&str; 12] = [
    "T",
    "script",
    "c",
    "mri-script",
    "version-script",
    "dynamic-list",
    "export-dynamic-symbol-list",
    "retain-symbols-file",
    "R",
    "just-symbols",
    "symbol-ordering-file",
    "default-script",
];

/// Options whose value is a file that the linker writes beside the output.
const WRITES: [&str; 4] = ["Map", "dependency-file", "out-implib", "print-archive-stats"];

/// Options that only print.
const PRINTS: [&str; 8] =
    ["t", "trace", "M", "print-map", "stats", "verbose", "print-gc-sections", "print-memory-usage"];

/// Options that GNU ld takes abbreviated, each with the shortest beginning that no other one
/// of its long options has. A link that succeeded had no ambiguous ones.
const ABBREVIATED: [(&str, &str); 29] = [
    ("wrap", "wr"),
    ("defsym", "defs"),
    ("entry", "ent"),
    ("init", "in"),
    ("fini", "fin"),
    ("undefined", "undefi"),
    ("require-defined", "req"),
    ("soname", "son"),
    ("library-path", "library-"),
    ("dynamic-linker", "dynamic-lin"),
    ("rpath-link", "rpath-"),
    ("section-start", "section-s"),
    ("exclude-libs", "exclude-l"),
    ("hash-style", "hash-st"),
    ("trace-symbol", "trace-"),
    ("auxiliary", "aux"),
    ("filter", "filt"),
    ("format", "form"),
    ("oformat", "of"),
    ("script", "sc"),
    ("default-script", "default-sc"),
    ("version-script", "version-s"),
    ("export-dynamic-symbol-list", "export-dynamic-symbol-"),
    ("retain-symbols-file", "ret"),
    ("just-symbols", "j"),
    ("start-group", "star"),
    ("end-group", "end-g"),
    ("whole-archive", "wh"),
    ("no-whole-archive", "no-wh"),
];

/// Letters that are options with a value: behind one dash, what follows may be that.
const VALUED_LETTERS: &str = "AabceFfGhILlmOoRTuYyz";

/// The word, with an abbreviated option spelled out.
fn in_full(word: &str) -> Cow<'_, str> {
    let Some(name) = option_name(word) else { return word.into() };
    let dashes = &word[..word.len() - name.len()];
    if dashes == "-" && name.starts_with(|first| VALUED_LETTERS.contains(first)) {
        return word.into();
    }
    let (name, value) = name.split_at(name.find('=').unwrap_or(name.len()));
    let is_meant = |(full, shortest): &&(&str, &str)| {
        full.starts_with(name) && name.starts_with(shortest) && *full != name
    };
    match ABBREVIATED.iter().find(is_meant) {
        Some((full, _)) => format!("{dashes}{full}{value}").into(),
        None => word.into(),
    }
}

/// The name of an option, without dashes. Long names take one dash or two.
fn option_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    (!name.is_empty()).then_some(name)
}

/// Sorts the words of a linker's command line.
pub fn parse(words: &[String]) -> Vec<LinkArg> {
    let mut arguments = Vec::new();
    let mut archives_only = false;
    let mut is_data = false;
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let word = &*in_full(word);
        let Some(name) = option_name(word) else {
            arguments.push(match is_data {
                true => LinkArg::Data(word.to_owned()),
                false => LinkArg::File(word.to_owned()),
            });
            continue;
        };
        match name {
            "Bstatic" | "dn" | "non_shared" | "static" => archives_only = true,
            "Bdynamic" | "dy" | "call_shared" => archives_only = false,
            _ => {}
        }
        match name {
            "b" | "format" => is_data = words.peek().is_some_and(|format| *format == "binary"),
            _ => {
                if let Some(format) = name.strip_prefix("format=") {
                    is_data = format == "binary";
                }
            }
        }
        let (head, value) = match name.split_once('=') {
            Some((head, value)) => (head, Some(value)),
            None => (name, None),
        };
        if matches!(name, "o" | "output") {
            arguments.extend(words.next().map(|path| LinkArg::Output(path.clone())));
        } else if let Some(path) = word.strip_prefix("--output=") {
            arguments.push(LinkArg::Output(path.to_owned()));
        } else if matches!(name, "l" | "library") {
            let library = words.next().cloned().unwrap_or_default();
            arguments.push(LinkArg::Library { name: library, archives_only });
        } else if let Some(library) = word.strip_prefix("-l").or(word.strip_prefix("--library=")) {
            arguments.push(LinkArg::Library { name: library.to_owned(), archives_only });
        } else if READS.contains(&head) {
            arguments.push(match value {
                Some(path) => LinkArg::ReadFile {
                    option: String::new(),
                    joined: word[..word.len() - path.len()].to_owned(),
                    path: path.to_owned(),
                },
                None => LinkArg::ReadFile {
                    option: word.to_owned(),
                    joined: String::new(),
                    path: words.next().cloned().unwrap_or_default(),
                },
            });
        } else if WRITES.contains(&head) {
            let value = if value.is_none() { words.next().cloned() } else { None };
            arguments.push(LinkArg::Report([word.to_owned()].into_iter().chain(value).collect()));
        } else if PRINTS.contains(&name) {
            arguments.push(LinkArg::Report(vec![word.to_owned()]));
        } else if value.is_none() && VALUES.contains(&name) {
            arguments.push(LinkArg::Text(word.to_owned()));
            arguments.extend(words.next().map(|value| LinkArg::Text(value.clone())));
        } else if let Some(path) = word.strip_prefix("-T").filter(|path| Path::new(path).is_file())
        {
            let path = path.to_owned();
            arguments.push(LinkArg::ReadFile {
                option: String::new(),
                joined: "-T".to_owned(),
                path,
            });
        } else {
            arguments.push(LinkArg::Text(word.to_owned()));
        }
    }
    arguments
}

/// The folders libraries are searched in. All of them count for every `-l`,
/// wherever they stand (the GNU linker's rule).
pub fn library_folders(arguments: &[LinkArg]) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut texts = arguments.iter().filter_map(|argument| match argument {
        LinkArg::Text(text) => Some(text.as_str()),
        _ => None,
    });
    while let Some(text) = texts.next() {
        if text == "-L" || text == "--library-path" {
            folders.extend(texts.next().map(PathBuf::from));
        } else if let Some(folder) =
            text.strip_prefix("-L").or_else(|| text.strip_prefix("--library-path="))
        {
            folders.push(PathBuf::from(folder));
        }
    }
    folders
}

/// The file a library name stands for.
pub fn find_library(folders: &[PathBuf], name: &str, archives_only: bool) -> Option<PathBuf> {
    let candidates = match name.strip_prefix(':') {
        Some(file) => vec![file.to_owned()],
        None if archives_only => vec![format!("lib{name}.a")],
        None => vec![format!("lib{name}.so"), format!("lib{name}.a")],
    };
    let in_folder = |folder: &PathBuf| {
        candidates.iter().map(|file| folder.join(file)).find(|file| file.is_file())
    };
    folders.iter().find_map(in_folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_are_spelled_out() {
        for (short, full) in [
            ("--wra=helper", "--wrap=helper"),
            ("-wr", "-wrap"),
            ("--defs=a=b", "--defsym=a=b"),
            ("--star", "--start-group"),
            // What is whole, what is something else, and what may be two things.
            ("--wrap=wr", "--wrap=wr"),
            ("--rpath", "--rpath"),
            ("--def=a=b", "--def=a=b"),
            ("-entry", "-entry"),
            ("-ent", "-ent"),
            ("-undefi", "-undefi"),
            ("wrap.o", "wrap.o"),
            ("-", "-"),
        ] {
            assert_eq!(in_full(short), full);
        }
        let parsed =
            parse(&["--versi", "v", "--version-sc", "v.map", "-wra", "f"].map(str::to_owned));
        let text = |text: &str| LinkArg::Text(text.to_owned());
        assert!(matches!(&parsed[2], LinkArg::ReadFile { path, .. } if path == "v.map"));
        assert_eq!(parsed[3..], [text("-wrap"), text("f")]);
    }

    #[test]
    fn words_are_sorted_by_what_they_are() {
        let words = "-pie -o prog -soname x.o a.o --version-script=v.map -T s.ld -Map m.txt -Lfoo -L bar -lm -Bstatic -lz -t";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let parsed = parse(&words);
        assert!(parsed.contains(&LinkArg::Output("prog".into())));
        assert!(parsed.contains(&LinkArg::Text("x.o".into())));
        assert!(parsed.contains(&LinkArg::File("a.o".into())));
        assert!(parsed.contains(&LinkArg::Library { name: "m".into(), archives_only: false }));
        assert!(parsed.contains(&LinkArg::Library { name: "z".into(), archives_only: true }));
        assert!(parsed.contains(&LinkArg::Report(vec!["-Map".into(), "m.txt".into()])));
        assert!(parsed.contains(&LinkArg::Report(vec!["-t".into()])));
        let reads: Vec<_> =
            parsed.iter().filter(|a| matches!(a, LinkArg::ReadFile { .. })).collect();
        assert_eq!(reads.len(), 2);
        let data = parse(&["-b", "binary", "x", "--format=elf64-x86-64", "y"].map(str::to_owned));
        assert!(
            data.contains(&LinkArg::Data("x".into())) && data.contains(&LinkArg::File("y".into()))
        );
        assert_eq!(library_folders(&parsed), [PathBuf::from("foo"), PathBuf::from("bar")]);
    }
}
