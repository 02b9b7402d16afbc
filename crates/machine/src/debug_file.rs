//! Where debug information is, if it is not in the file itself.
//!
//! As gdb looks for it ("Debugging Information in Separate Files"): by build
//! id below `.build-id` in each folder of debug files; by the name in
//! `.gnu_debuglink`, beside the file, in `.debug` beside it, and below each
//! folder of debug files under the file's own folder. A file of another build
//! is not used; one that is found by name has to have the same build id, or
//! none where the file has none.

use std::path::{Path, PathBuf};

use crate::image::{Image, build_id_text};

/// Where packages put debug files.
const SYSTEM: &str = "/usr/lib/debug";

/// The folders in which debug files are looked for.
#[derive(Debug, Clone)]
pub struct DebugFolders {
    folders: Vec<PathBuf>,
}

impl DebugFolders {
    /// These, and the system's.
    pub fn new(given: &[PathBuf]) -> Self {
        let mut folders = given.to_vec();
        folders.push(PathBuf::from(SYSTEM));
        Self { folders }
    }

    /// A file by build id; `suffix` is `.debug` for debug information, nothing
    /// for the file itself.
    pub fn by_build_id(&self, id: &[u8], suffix: &str) -> Option<Image> {
        let text = build_id_text(id);
        if text.len() < 4 {
            return None;
        }
        let name = format!("{}/{}{suffix}", &text[..2], &text[2..]);
        let mut candidates = Vec::new();
        for folder in &self.folders {
            candidates.push(folder.join(".build-id").join(&name));
            // A folder of nothing but debug files, each named by its build id.
            candidates.push(folder.join(format!("{text}{suffix}")));
        }
        candidates.iter().find_map(|path| same_build(path, Some(id)))
    }

    /// The debug information of a file that has none.
    pub fn debug_of(&self, image: &Image) -> Option<Image> {
        if let Some(id) = &image.build_id
            && let Some(found) = self.by_build_id(id, ".debug")
        {
            return Some(found);
        }
        let name = image.debug_link()?;
        let name = Path::new(&name).file_name()?;
        let own = image.path()?;
        let folder = own.parent()?;
        let mut candidates = vec![folder.join(name), folder.join(".debug").join(name)];
        for debug in &self.folders {
            candidates.push(debug.join(name));
            if let Ok(below) = folder.strip_prefix("/") {
                candidates.push(debug.join(below).join(name));
            }
        }
        candidates
            .iter()
            .filter(|candidate| candidate.as_path() != own)
            .find_map(|path| same_build(path, image.build_id.as_deref()))
    }

    /// The debug information that a debug file shares with others (dwz).
    pub fn shared_debug_of(&self, image: &Image) -> Option<Image> {
        let (name, id) = image.shared_debug_link()?;
        if let Some(found) = self.by_build_id(&id, ".debug") {
            return Some(found);
        }
        let folder = image.path()?.parent()?;
        same_build(&folder.join(name), Some(&id))
    }
}

/// The file at a path, if it is of that build.
fn same_build(path: &Path, id: Option<&[u8]>) -> Option<Image> {
    let image = path.is_file().then(|| Image::open(path).ok()).flatten()?;
    (image.build_id.as_deref() == id).then_some(image)
}
