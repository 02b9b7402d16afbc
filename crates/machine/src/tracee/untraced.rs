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

/// It.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Untraced {
    /// The files whose code was mapped and is not traced, but for `EVERYBODYS`.
    pub libraries: BTreeSet<String>,
    /// How many processes it started that it went on beside.
    pub processes: u64,
    /// The program that it became.
    pub became: Option<String>,
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
    /// Notes the libraries of a process that is about to end; `traced` are its files that
    /// are traced.
    pub(super) fn note_libraries(&mut self, process: Pid, traced: &[&Path]) {
        let Ok(maps) = fs::read_to_string(format!("/proc/{process}/maps")) else { return };
        let files = maps.lines().filter_map(mapped_code);
        let others = files.filter(|file| {
            let name = file.rsplit('/').next().unwrap_or_default();
            !traced.contains(&Path::new(file)) && !is_everybodys(name)
        });
        self.libraries.extend(others.map(str::to_owned));
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

#[cfg(test)]
mod tests {
    use super::*;

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
