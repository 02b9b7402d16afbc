//! The sources of the programs that are run.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Each file, by name.
pub const SOURCES: [(&str, &str); 10] = [
    ("work.h", include_str!("programs/work.h")),
    ("input.c", include_str!("programs/input.c")),
    ("library.c", include_str!("programs/library.c")),
    ("interrupted.c", include_str!("programs/interrupted.c")),
    ("processes.c", include_str!("programs/processes.c")),
    ("threads.c", include_str!("programs/threads.c")),
    ("signals.c", include_str!("programs/signals.c")),
    ("limits.c", include_str!("programs/limits.c")),
    ("stacks.c", include_str!("programs/stacks.c")),
    ("language.cc", include_str!("programs/language.cc")),
];

/// Writes all of them into a folder.
pub fn write(folder: &Path) -> Result<()> {
    for (name, text) in SOURCES {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
