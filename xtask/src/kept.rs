//! What the parts of a long run found, kept so that it can be ended and gone on with.
//!
//! A part is what is run at once, such as one program in one variant. What it found is
//! a file in the target folder, with a stamp: what it was made by, such as the tool,
//! the test and the amounts. A part whose file has the same stamp is not made again.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Where what parts found is kept.
pub struct Kept {
    folder: PathBuf,
    stamp: String,
}

/// A kept file.
#[derive(Serialize, Deserialize)]
struct File<T> {
    stamp: String,
    found: T,
}

impl Kept {
    /// In a folder; `stamp` is what changes when parts have to be made again.
    pub fn new(folder: PathBuf, stamp: String) -> Result<Self> {
        std::fs::create_dir_all(&folder).context("cannot make the folder of what is kept")?;
        Ok(Self { folder, stamp })
    }

    fn path(&self, part: &str) -> PathBuf {
        self.folder.join(format!("{}.json", part.replace(' ', "_")))
    }

    /// What a part found, if it was made by the same.
    pub fn get<T: DeserializeOwned>(&self, part: &str) -> Option<T> {
        let text = std::fs::read_to_string(self.path(part)).ok()?;
        // What an older version of this program wrote is as good as nothing.
        let file: File<T> = serde_json::from_str(&text).ok()?;
        (file.stamp == self.stamp).then_some(file.found)
    }

    /// Keeps what a part found, from what its test has written.
    pub fn put_written<T: Serialize + DeserializeOwned>(
        &self,
        part: &str,
        written: &Path,
    ) -> Result<()> {
        let text = std::fs::read_to_string(written)
            .with_context(|| format!("the test wrote nothing of {part}"))?;
        let found = serde_json::from_str::<T>(&text).context("the test wrote something else")?;
        self.put(part, &found)
    }

    /// Keeps what a part found.
    pub fn put<T: Serialize>(&self, part: &str, found: &T) -> Result<()> {
        let file = File { stamp: self.stamp.clone(), found };
        let path = self.path(part);
        let text = serde_json::to_string(&file)?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_something_else_made_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let kept = |stamp: &str| Kept::new(folder.path().to_owned(), stamp.to_owned()).unwrap();
        let written = folder.path().join("written");
        std::fs::write(&written, r#"["all"]"#).unwrap();
        kept("one").put_written::<Vec<String>>("sed -O2", &written).unwrap();
        kept("one").put("lua5.4 -O2", &["some"]).unwrap();
        assert!(kept("one").put_written::<u32>("sed -O2", &written).is_err());
        assert!(kept("one").get::<Vec<String>>("lua5.4 -O0").is_none());
        assert_eq!(kept("one").get::<Vec<String>>("sed -O2").unwrap(), ["all"]);
        assert_eq!(kept("one").get::<Vec<String>>("lua5.4 -O2").unwrap(), ["some"]);
        assert!(kept("two").get::<Vec<String>>("sed -O2").is_none());
        assert!(kept("one").get::<Vec<String>>("sed -O0").is_none());
    }
}
