//! The executables of a program: where it looks for them, and the copies of the
//! originals and the variants that are put there in turn.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::check::SCHEMES;
use super::program::Program;
use super::tree::Built;

/// The executables of one program.
pub struct Places {
    replaced: &'static [&'static str],
    libraries: &'static [&'static str],
    build: PathBuf,
    kept: PathBuf,
}

impl Places {
    /// Those of a build; their originals are kept in a folder below `kept`.
    pub fn find(program: &Program, built: &Built, kept: &Path) -> Result<Places> {
        let places = Places {
            replaced: program.replaced,
            libraries: program.libraries,
            build: built.folder.clone(),
            kept: kept.to_path_buf(),
        };
        for folder in SCHEMES.map(|scheme| kept.join(scheme)) {
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

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.replaced.iter().chain(self.libraries).copied()
    }

    /// Where the originals or the variants of a scheme are kept, the executables
    /// before the libraries.
    pub fn list(&self, scheme: &str) -> Vec<PathBuf> {
        let folder = self.kept.join(scheme);
        let kept = |name| folder.join(Path::new(name).file_name().unwrap_or_default());
        self.names().map(kept).collect()
    }

    /// Where they are in a build, in the same order.
    pub fn in_build(&self, built: &Built) -> Vec<PathBuf> {
        self.names().map(|name| built.folder.join(name)).collect()
    }

    /// Puts the originals or the variants where the program looks for them. A
    /// variant has its libraries in a folder beside it, which goes along.
    pub fn put(&self, scheme: &str) -> Result<()> {
        for (kept, name) in self.list(scheme).iter().zip(self.replaced) {
            let used = self.build.join(name);
            copy(kept, &used)?;
            let (kept, used) = (beside(kept), beside(&used));
            if used.exists() {
                std::fs::remove_dir_all(&used)?;
            }
            if kept.exists() {
                std::fs::create_dir(&used)?;
                for library in std::fs::read_dir(&kept)? {
                    let library = library?;
                    copy(&library.path(), &used.join(library.file_name()))?;
                }
            }
        }
        Ok(())
    }
}

/// The folder of a variant's libraries.
fn beside(executable: &Path) -> PathBuf {
    let mut name = executable.as_os_str().to_owned();
    name.push(".libs");
    PathBuf::from(name)
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
