//! The files that a recipe from elsewhere may link.
//!
//! They come from the recipe itself, from the system or its toolchains, or are shared
//! libraries. Scripts may place sections and name symbols; a script that names files is
//! refused, also for a word in a comment. So is what the linker would compile.

use std::path::Path;

use object::read::archive::ArchiveFile;

use super::installed::Installed;
use crate::carry::recipe::{Input, InputKind, decompress_native};

/// Words of linker scripts that name files, or the result.
const SCRIPT_WORDS: [&str; 8] =
    ["INCLUDE", "INPUT", "GROUP", "OUTPUT", "SEARCH_DIR", "STARTUP", "TARGET", "MAP"];

/// Fails, with what it is, unless the input may be linked.
pub fn check(input: &Input, installed: &Installed) -> Result<(), String> {
    let shown = input.path.display();
    if input.path.to_str().is_none_or(|path| path.contains('\0')) {
        return Err(format!("it was linked with {shown}, which is no path"));
    }
    match &input.kind {
        InputKind::Units(_) => Ok(()),
        InputKind::Native { contents, .. } => check_native(&shown.to_string(), contents),
        InputKind::Archive(members) => members.iter().try_for_each(|member| match &member.kind {
            InputKind::Native { contents, .. } => {
                check_native(&format!("{shown}({})", member.name), contents)
            }
            _ => Ok(()),
        }),
        // What is gone is said when it is linked.
        InputKind::System | InputKind::Shared { .. } if !input.path.exists() => Ok(()),
        InputKind::System | InputKind::Shared { .. } if installed.holds(&input.path) => Ok(()),
        InputKind::Shared { .. } if is_elf(&input.path) => Ok(()),
        InputKind::System | InputKind::Shared { .. } => {
            Err(format!("it was linked with {shown}, which is no library of this machine"))
        }
    }
}

/// Fails, with what it is, unless the linker may take what it finds at `path` by the name
/// of a library: what is there may be a script or what the linker compiles, too.
pub fn check_found(path: &Path, installed: &Installed) -> Result<(), String> {
    if !path.exists() || installed.holds(path) {
        return Ok(());
    }
    let shown = path.display();
    match path.is_file().then(|| std::fs::read(path)) {
        Some(Ok(bytes)) => check_bytes(&shown.to_string(), &bytes),
        _ => Err(format!("it is linked with {shown}, which cannot be read")),
    }
}

/// Whether `path` is an ordinary file that begins as ELF files do.
fn is_elf(path: &Path) -> bool {
    use std::io::Read as _;
    let mut magic = [0; 4];
    let mut read = || std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    path.is_file() && read().is_ok() && magic == *b"\x7fELF"
}

/// A file that the recipe holds.
fn check_native(name: &str, contents: &[u8]) -> Result<(), String> {
    // Damaged ones are said when they are linked.
    let Ok(bytes) = decompress_native(contents) else { return Ok(()) };
    check_bytes(name, &bytes)
}

fn check_bytes(name: &str, bytes: &[u8]) -> Result<(), String> {
    let optimised = || Err(format!("{name} is compiled by the linker (-flto)"));
    if bytes.starts_with(b"BC\xC0\xDE") || bytes.starts_with(b"\xDE\xC0\x17\x0B") {
        return optimised();
    }
    if bytes.starts_with(b"!<thin>\n") {
        return Err(format!("{name} is an archive of files elsewhere"));
    }
    if bytes.starts_with(b"!<arch>\n") {
        let Ok(archive) = ArchiveFile::parse(bytes) else { return Ok(()) };
        for member in archive.members().flatten() {
            let inner = String::from_utf8_lossy(member.name()).into_owned();
            // Text in an archive is not linked.
            if let Ok(data) = member.data(bytes)
                && (data.starts_with(b"BC") || data.starts_with(b"\x7fELF"))
            {
                check_bytes(&format!("{name}({inner})"), data)?;
            }
        }
        return Ok(());
    }
    if let Ok(elf) = backtrail_machine::elf::Elf::parse(bytes) {
        let is_optimised =
            |name: &String| name.starts_with(".gnu.lto_") || name.starts_with(".llvm.lto");
        return if elf.section_names().iter().any(is_optimised) { optimised() } else { Ok(()) };
    }
    match script_word(&String::from_utf8_lossy(bytes)) {
        Some(word) => Err(format!("{name} is a script of the linker with {word}")),
        None => Ok(()),
    }
}

/// The word of a script that names a file, if there is one. Linkers need no blank between
/// a number and the word behind it: `LENGTH = 1MINCLUDE file`.
fn script_word(text: &str) -> Option<&'static str> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    let is_it = |word: &str, it: &str| {
        let is_number = word.starts_with(|first: char| first.is_ascii_digit());
        word == it || is_number && word.ends_with(it)
    };
    words.into_iter().find_map(|word| SCRIPT_WORDS.into_iter().find(|it| is_it(word, it)))
}

#[cfg(test)]
mod tests {
    use super::script_word;

    #[test]
    fn words_that_name_files_are_found_behind_numbers() {
        for (text, word) in [
            ("INCLUDE x", "INCLUDE"),
            ("{ m : ORIGIN = 0, LENGTH = 1MINCLUDE x }", "INCLUDE"),
            ("x = 0xAINPUT(x)", "INPUT"),
            ("{ *(.text) }INPUT(x)", "INPUT"),
        ] {
            assert_eq!(script_word(text), Some(word), "{text}");
        }
        for text in ["SECTIONS { .x : { *(.x) } }", "global: INCLUDE_x; MY_INPUT;", "OUTPUT_FORMAT"]
        {
            assert_eq!(script_word(text), None, "{text}");
        }
    }
}
