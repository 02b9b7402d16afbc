//! The link recipe: how an executable or shared library was linked, so that it
//! can be linked again from other objects, without the build tree.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::frame;
use super::unit::Damaged;

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
        frame::wrap(
            MAGIC,
            &zstd::bulk::compress(&body, 3).expect("compressing into memory does not fail"),
        )
    }

    /// Reads the body of a record.
    pub fn from_body(body: &[u8]) -> Result<Self, Damaged> {
        let bytes = zstd::stream::decode_all(body)
            .map_err(|error| Damaged(format!("link recipe: {error}")))?;
        postcard::from_bytes(&bytes).map_err(|error| Damaged(format!("link recipe: {error}")))
    }
}

/// Contents for [`InputKind::Native`].
pub fn compress_native(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 3).expect("compressing into memory does not fail")
}

/// The inverse of [`compress_native`].
pub fn decompress_native(contents: &[u8]) -> Result<Vec<u8>, Damaged> {
    zstd::stream::decode_all(contents).map_err(|error| Damaged(format!("a native input: {error}")))
}
