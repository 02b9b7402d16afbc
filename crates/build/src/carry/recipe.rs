//! The link recipe: how an executable or shared library was linked, so that it
//! can be linked again from other objects, without the build tree.

use std::path::PathBuf;

use backtrail_foreign::packed::{pack, unpack};
use backtrail_ir::program::Surroundings;
use serde::{Deserialize, Serialize};

use super::frame;
use super::unit::{Damaged, LARGEST};

/// The first bytes of a recipe record.
pub const MAGIC: [u8; 8] = *b"BTLINK\r\n";

/// How a file was linked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// The linker, or the compiler driver that calls it.
    pub linker: PathBuf,
    /// Whether that is a compiler driver, whose options for the linker are
    /// written `-Wl,OPTION`.
    pub through_driver: bool,
    /// Its arguments.
    pub arguments: Vec<RecipeArg>,
    /// What the arguments refer to.
    pub inputs: Vec<Input>,
    /// Remarks for people: units that became native-only, and why.
    pub remarks: Vec<String>,
    /// Set in a variant: the scheme.
    pub variant: Option<String>,
    /// Set in a variant: the build id of the executable it was derived from.
    pub derived_from: Vec<u8>,
    /// What it was linked with besides its units.
    pub surroundings: Surroundings,
    /// The shared libraries it is loaded with that carry no units, as they were.
    pub libraries: Vec<Library>,
}

/// A shared library that carries no units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// Where it was.
    pub path: PathBuf,
    /// What tells whether it is still the same.
    pub identity: [u8; 16],
    /// Whether it is of the system or the toolchain.
    pub system: bool,
}

/// One argument of the linker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecipeArg {
    /// As it is.
    Text(String),
    /// The path of the output.
    Output,
    /// An input, by its place in [`Recipe::inputs`].
    Input(u32),
    /// An option joined with the path of an input (`--version-script=FILE`).
    Joined(String, u32),
}

/// A file the link read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// Its path when it was linked.
    pub path: PathBuf,
    /// What it is.
    pub kind: InputKind,
}

/// What a linked file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputKind {
    /// An object made of these units.
    Units(Vec<[u8; 16]>),
    /// Carried as it is: an object without IR, a linker script, an export list.
    Native {
        /// The compressed contents.
        contents: Vec<u8>,
        /// Why it is not made of units.
        why: String,
    },
    /// An archive.
    Archive(Vec<Member>),
    /// A file of the system or toolchain, found again by its path.
    System,
    /// A shared library, found again by its path or its name.
    Shared {
        /// The name by which programs ask for it.
        soname: Option<String>,
    },
}

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// [`InputKind::Units`] or [`InputKind::Native`].
    pub kind: InputKind,
}

impl Recipe {
    /// The record as it stands in a section.
    pub fn to_bytes(&self) -> Vec<u8> {
        let body = postcard::to_stdvec(self).expect("serialising into memory does not fail");
        frame::wrap(MAGIC, &pack(&body, 3))
    }

    /// What was linked as it is, members of archives as `ARCHIVE(MEMBER)`, and why.
    pub fn natives(&self) -> impl Iterator<Item = (String, &str)> {
        self.inputs.iter().flat_map(|input| {
            let path = input.path.display().to_string();
            match &input.kind {
                InputKind::Native { why, .. } => vec![(path, &**why)],
                InputKind::Archive(members) => members
                    .iter()
                    .filter_map(|member| match &member.kind {
                        InputKind::Native { why, .. } => {
                            Some((format!("{path}({})", member.name), &**why))
                        }
                        _ => None,
                    })
                    .collect(),
                _ => Vec::new(),
            }
        })
    }

    /// Reads the body of a record.
    pub fn from_body(body: &[u8]) -> Result<Self, Damaged> {
        let bytes =
            unpack(body, LARGEST).map_err(|error| Damaged(format!("link recipe: {error}")))?;
        let recipe: Self = postcard::from_bytes(&bytes)
            .map_err(|error| Damaged(format!("link recipe: {error}")))?;
        for argument in &recipe.arguments {
            let (RecipeArg::Input(input) | RecipeArg::Joined(_, input)) = argument else {
                continue;
            };
            if *input as usize >= recipe.inputs.len() {
                return Err(Damaged(format!(
                    "link recipe: it names input {input}, which it lacks"
                )));
            }
        }
        Ok(recipe)
    }
}

/// Contents for [`InputKind::Native`].
pub fn compress_native(bytes: &[u8]) -> Vec<u8> {
    pack(bytes, 3)
}

/// The inverse of [`compress_native`].
pub fn decompress_native(contents: &[u8]) -> Result<Vec<u8>, Damaged> {
    unpack(contents, LARGEST).map_err(|error| Damaged(format!("a native input: {error}")))
}
