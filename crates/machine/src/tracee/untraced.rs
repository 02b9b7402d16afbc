//! What a run did that is in no trace of it: code of libraries, processes that it
//! started, and the program that it became.
//!
//! A launcher does its work there, and a trace of it says little. Libraries are read off
//! the memory of the process where it ends, so that those are among them that it loaded
//! while it ran.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nix::unistd::Pid;

use super::Tracee;

/// It.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Untraced {
    /// The files whose code was mapped and is not traced, but for `EVERYBODYS`.
    pub libraries: BTreeSet<String>,
    /// How many processes it started that it went on beside.
    pub processes: u64,
    /// The program that it became.
    pub became: Option<String>,
    /// Whether it had code that no file holds: made while it ran, or copied.
    pub has_made_code: bool,
}

/// The C library's parts and the loader, which nobody takes for a program's work.
const EVERYBODYS: [&str; 8] = [
    "ld-linux-x86-64.so",
    "libc.so",
    "libm.so",
    "libdl.so",
    "libpthread.so",
    "librt.so",
    "libgcc_s.so",
    "libstdc++.so",
];

/// Whether a library of this file name is the C library's, the compiler's or the loader.
pub fn is_everybodys(name: &str) -> bool {
    EVERYBODYS.iter().any(|it| name.starts_with(it))
}

impl Untraced {
    /// Notes the libraries of a process that is about to end, and whether it has made code;
    /// `traced` are its files that are traced.
    pub(super) fn note_memory(&mut self, tracee: &Tracee, process: Pid, traced: &[&Path]) {
        let Ok(maps) = fs::read_to_string(format!("/proc/{process}/maps")) else { return };
        let files = maps.lines().filter_map(mapped_code);
        let others = files.filter(|file| {
            let name = file.rsplit('/').next().unwrap_or_default();
            !traced.contains(&Path::new(file)) && !is_everybodys(name)
        });
        self.libraries.extend(others.map(str::to_owned));
        self.note_made_code(tracee, &maps);
    }

    /// Notes whether a process has made code.
    pub(super) fn note_code(&mut self, tracee: &Tracee, process: Pid) {
        if !self.has_made_code
            && let Ok(maps) = fs::read_to_string(format!("/proc/{process}/maps"))
        {
            self.note_made_code(tracee, &maps);
        }
    }

    fn note_made_code(&mut self, tracee: &Tracee, maps: &str) {
        let mut made = maps.lines().filter_map(made_code);
        self.has_made_code |= made.any(|start| !tracee.is_in_scratch(start));
    }

    /// Notes what a process is now.
    pub(super) fn note_program(&mut self, process: Pid) {
        let program = fs::read_link(format!("/proc/{process}/exe"));
        self.became = program.ok().map(|program| program.to_string_lossy().into_owned());
    }
}

/// The file of a line of `/proc/PID/maps`, if it is mapped as code.
fn mapped_code(line: &str) -> Option<&str> {
    let is_code = line.split_ascii_whitespace().nth(1)?.contains('x');
    let file = &line[line.find('/')?..];
    is_code.then(|| file.strip_suffix(" (deleted)").unwrap_or(file))
}

/// Where memory of a line of `/proc/PID/maps` begins, if it is code that no file holds.
fn made_code(line: &str) -> Option<u64> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [range, protection, _, _, _, name @ ..] = &words[..] else { return None };
    // What the kernel puts there has a name of its own.
    let is_made = match name {
        [] => true,
        [name, ..] => name.starts_with("[anon") || name.starts_with("/memfd:"),
    };
    let start = u64::from_str_radix(range.split('-').next()?, 16).ok()?;
    (is_made && protection.contains('x')).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_no_file_holds_is_told_from_other_memory() {
        for (line, start) in [
            ("7f0-7f1 r-xp 00026000 fe:00 12 /usr/lib/x/libjvm.so", None),
            ("7f0-7f1 r-xp 00000000 00:00 0 [vdso]", None),
            ("7f0-7f1 rw-p 00000000 00:00 0", None),
            ("7f0-7f1 rwxp 00000000 00:00 0", Some(0x7f0)),
            ("7f0-7f1 r-xp 00000000 00:00 0 [anon:code]", Some(0x7f0)),
            ("7f0-7f1 r-xs 00000000 00:01 9 /memfd:code (deleted)", Some(0x7f0)),
            ("", None),
        ] {
            assert_eq!(made_code(line), start, "{line}");
        }
    }

    #[test]
    fn code_of_files_is_told_from_other_memory() {
        for (line, file) in [
            ("7f0-7f1 r-xp 00026000 fe:00 12 /usr/lib/x/libjvm.so", Some("/usr/lib/x/libjvm.so")),
            ("7f0-7f1 r-xp 00026000 fe:00 12 /a b/c (deleted)", Some("/a b/c")),
            ("7f0-7f1 r--p 00026000 fe:00 12 /usr/lib/x/libjvm.so", None),
            ("7f0-7f1 r-xp 00000000 00:00 0 [vdso]", None),
            ("7f0-7f1 rwxp 00000000 00:00 0", None),
            ("", None),
        ] {
            assert_eq!(mapped_code(line), file, "{line}");
        }
    }
}
