//! The executables of a program: where it looks for them, and the copies of the
//! originals and the variants that are put there in turn.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::program::Program;
use super::tree::Built;

/// The executables of one program.
pub struct Places {
    names: &'static [&'static str],
    build: PathBuf,
    kept: PathBuf,
}

impl Places {
    /// Those of a build; their originals are kept in a folder below `kept`.
    pub fn find(program: &Program, built: &Built, kept: &Path) -> Result<Places> {
        let places = Places {
            names: program.replaced,
            build: built.folder.clone(),
            kept: kept.to_path_buf(),
        };
        for folder in ["empty", "log"].map(|scheme| kept.join(scheme)) {
            if folder.exists() {
                std::fs::remove_dir_all(&folder)?;
            }
            std::fs::create_dir_all(&folder)?;
        }
        std::fs::create_dir_all(kept.join("original"))?;
        let originals = places.list("original");
        if built.fresh || originals.iter().any(|original| !original.is_file()) {
            for (used, original) in places.in_build(built).iter().zip(&originals) {
                ensure!(used.is_file(), "the build made no {}", used.display());
                copy(used, original)?;
            }
        } else {
            // An earlier run may have ended with a variant in place.
            places.put("original")?;
        }
        Ok(places)
    }

    /// Where the originals or the variants of a scheme are kept.
    pub fn list(&self, scheme: &str) -> Vec<PathBuf> {
        let folder = self.kept.join(scheme);
        let name = |name: &&str| folder.join(Path::new(name).file_name().unwrap_or_default());
        self.names.iter().map(name).collect()
    }

    /// Where they are in a build.
    pub fn in_build(&self, built: &Built) -> Vec<PathBuf> {
        self.names.iter().map(|name| built.folder.join(name)).collect()
    }

    /// Puts the originals or the variants where the program looks for them.
    pub fn put(&self, scheme: &str) -> Result<()> {
        for (kept, name) in self.list(scheme).iter().zip(self.names) {
            copy(kept, &self.build.join(name))?;
        }
        Ok(())
    }
}

/// Copies over a file that may be running: a new file under the old name.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_file(to)?;
    }
    std::fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}
