//! The record of one unit: how it was made, its bitcode, its program model.

use std::borrow::Cow;
use std::path::PathBuf;

use backtrail_abi::UnitId;
use backtrail_foreign::packed::{pack, unpack};
use backtrail_ir::Unit;
use backtrail_plan::worker::Codegen;
use serde::{Deserialize, Serialize};

use super::frame;

/// The first bytes of a unit record.
pub const MAGIC: [u8; 8] = *b"BTUNIT\r\n";

/// How a unit was made and can be made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitMeta {
    /// What identifies the unit.
    pub id: [u8; 16],
    /// Its main source file, as it was given to the compiler.
    pub name: String,
    /// The language, as the compiler names it (`c`, `c++`, `rust`, …).
    pub language: String,
    /// What the compiler calls itself, with its version.
    pub compiler: String,
    /// The libLLVM that belongs to the compiler; empty if no IR is carried.
    pub library: PathBuf,
    /// How code is generated from the bitcode.
    pub generator: Generator,
    /// Whether the user asked for debug information in the object.
    pub debug_wanted: bool,
    /// The symbols its object defines for others, sorted, each with whether it
    /// is weak: what tells whether an object is still the unit's own.
    pub symbols: Vec<(String, bool)>,
    /// The sections that its object adds to what is linked: what tells the same where
    /// there are no symbols.
    pub sections: Vec<OwnSection>,
    /// What is carried.
    pub state: IrState,
}

/// A section of a unit's object: its name, its size and its alignment.
pub type OwnSection = (String, u64, u64);

impl UnitMeta {
    /// What identifies the unit of this description, which has no id yet, and `bitcode`.
    pub fn id_with(&self, bitcode: &[u8]) -> [u8; 16] {
        let described = postcard::to_stdvec(self).expect("serialising into memory does not fail");
        frame::hash(&[&described, bitcode])
    }
}

/// How code is generated from a unit's bitcode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Generator {
    /// By the same clang: the program and the `-cc1` options, less input and output.
    Clang {
        /// The compiler proper.
        program: PathBuf,
        /// Its options.
        arguments: Vec<String>,
    },
    /// By the libLLVM of rustc.
    Library(Codegen),
    /// Not at all: no bitcode is carried.
    None,
}

/// What is carried of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum IrState {
    /// Bitcode and program model.
    Carried,
    /// Program model only: the unit of a variant, and which.
    Variant {
        /// The scheme it was derived by.
        scheme: String,
    },
    /// Neither, and why.
    Missing {
        /// A phrase for people.
        why: String,
    },
}

/// A unit as it is carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitRecord {
    /// How it was made.
    pub meta: UnitMeta,
    /// The compressed bitcode; empty unless carried.
    bitcode: Vec<u8>,
    /// The compressed program model; empty if missing.
    model: Vec<u8>,
}

/// What is wrong with a unit record.
#[derive(Debug, PartialEq, Eq)]
pub struct Damaged(pub String);

fn compress(bytes: &[u8]) -> Vec<u8> {
    // Level 9 takes a few percent of the time the compilation took.
    pack(bytes, 9)
}

/// The largest part of a unit, unpacked.
pub(super) const LARGEST: u64 = 1 << 32;

fn decompress(bytes: &[u8], what: &str) -> Result<Vec<u8>, Damaged> {
    unpack(bytes, LARGEST).map_err(|error| Damaged(format!("{what}: {error}")))
}

impl UnitRecord {
    /// A record of `meta` with `bitcode` and `model`, where there are such.
    pub fn new(meta: UnitMeta, bitcode: Option<&[u8]>, model: Option<&Unit>) -> Self {
        let model = model.map(backtrail_ir::encode::to_bytes);
        Self {
            meta,
            bitcode: bitcode.map(compress).unwrap_or_default(),
            model: model.as_deref().map(compress).unwrap_or_default(),
        }
    }

    /// The same unit as a part of a variant: without bitcode.
    pub fn of_variant(&self, scheme: &str) -> Self {
        let state = IrState::Variant { scheme: scheme.to_owned() };
        let meta = UnitMeta { state, generator: Generator::None, ..self.meta.clone() };
        Self { meta, bitcode: Vec::new(), model: self.model.clone() }
    }

    /// The same unit without what was carried of it, and why.
    pub fn without_ir(&self, why: &str) -> Self {
        let state = IrState::Missing { why: why.to_owned() };
        let meta = UnitMeta { state, generator: Generator::None, ..self.meta.clone() };
        Self { meta, bitcode: Vec::new(), model: Vec::new() }
    }

    /// What identifies the unit.
    pub fn id(&self) -> UnitId {
        UnitId(self.meta.id)
    }

    /// Bytes carried for the bitcode.
    pub fn bitcode_size(&self) -> usize {
        self.bitcode.len()
    }

    /// Bytes carried for the program model.
    pub fn model_size(&self) -> usize {
        self.model.len()
    }

    /// The bitcode, if it is carried.
    pub fn bitcode(&self) -> Result<Option<Vec<u8>>, Damaged> {
        if self.bitcode.is_empty() {
            return Ok(None);
        }
        decompress(&self.bitcode, "bitcode").map(Some)
    }

    /// The program model, if it is carried.
    pub fn model(&self) -> Result<Option<Unit>, Damaged> {
        if self.model.is_empty() {
            return Ok(None);
        }
        let bytes = decompress(&self.model, "program model")?;
        backtrail_ir::encode::from_bytes(&bytes)
            .map(Some)
            .map_err(|error| Damaged(error.to_string()))
    }

    /// All of the record: what it says of itself, the bitcode, the model.
    pub fn parts(&self) -> [Cow<'_, [u8]>; 3] {
        let meta = postcard::to_stdvec(&self.meta).expect("serialising into memory does not fail");
        [meta.into(), self.bitcode[..].into(), self.model[..].into()]
    }

    /// Fails unless the unit's id is that of `bitcode`, which it carries, and of what the
    /// record says: another unit's would stand for that one in the cache.
    pub fn verify_id(&self, bitcode: &[u8]) -> Result<(), Damaged> {
        let meta = UnitMeta { id: [0; 16], ..self.meta.clone() };
        match meta.id_with(bitcode) == self.meta.id {
            true => Ok(()),
            false => Err(Damaged("its id is not that of its contents".into())),
        }
    }

    /// The record as it stands in a section.
    pub fn to_bytes(&self) -> Vec<u8> {
        let meta = postcard::to_stdvec(&self.meta).expect("serialising into memory does not fail");
        frame::wrap(MAGIC, &frame::join_parts(&[&compress(&meta), &self.bitcode, &self.model]))
    }

    /// Reads the body of a record.
    pub fn from_body(body: &[u8]) -> Result<Self, Damaged> {
        let parts = frame::split_parts(body).unwrap_or_default();
        let [meta, bitcode, model] = parts[..] else {
            return Err(Damaged("a unit record has the wrong parts".into()));
        };
        let meta = decompress(meta, "unit record")?;
        let meta = postcard::from_bytes(&meta)
            .map_err(|error| Damaged(format!("unit record: {error}")))?;
        Ok(Self { meta, bitcode: bitcode.to_vec(), model: model.to_vec() })
    }
}
