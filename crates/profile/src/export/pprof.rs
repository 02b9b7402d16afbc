//! pprof's compressed protocol buffer, as its `proto/profile.proto` describes
//! it.
//!
//! A sample is a position that blocks begin at, inlined calls its frames, and
//! its value is how many blocks were executed there: the values add up to what
//! the program executed. Who called whom is not known, so every stack ends with
//! the function itself.

use std::collections::BTreeMap;
use std::io::Write as _;

use super::{Exported, Options, functions};
use crate::error::Error;
use crate::known::KnownCounts;
use crate::model::Profile;

/// A message in the making. There are two kinds of fields in it: numbers and
/// bytes.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }
}

/// Strings by number; the first is the empty one.
struct Strings {
    numbers: BTreeMap<String, u64>,
    all: Vec<String>,
}

impl Strings {
    fn new() -> Self {
        Self { numbers: BTreeMap::from([(String::new(), 0)]), all: vec![String::new()] }
    }

    fn number(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.all.len() as u64;
        self.numbers.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }
}

/// A function of the source: linkage name and file.
type Key = (String, Option<u32>);

/// The frames of a position, the innermost first: functions and lines.
type Frames = Vec<(Key, u32)>;

/// The file.
pub fn write_pprof(profile: &Profile, options: &Options) -> Result<Exported, Error> {
    let mut samples: BTreeMap<Frames, u64> = BTreeMap::new();
    let mut starts: BTreeMap<Key, u32> = BTreeMap::new();
    let mut total = 0u64;
    for (number, function) in functions(profile, options) {
        let place = function.location.map(|number| &profile.locations[number as usize]);
        let own = (function.name.clone(), place.map(|place| place.file));
        starts.insert(own.clone(), place.map_or(0, |place| place.line));
        let counts = KnownCounts::of(profile, number).counts;
        for (block, &count) in function.blocks.iter().zip(&counts.blocks) {
            if count == 0 {
                continue;
            }
            let mut frames: Frames = Vec::new();
            let mut next = block.locations.first().copied();
            while let Some(location) = next.map(|number| &profile.locations[number as usize]) {
                let key = match location.inlined_at {
                    Some(_) => (location.scope.clone(), Some(location.file)),
                    None => own.clone(),
                };
                frames.push((key, location.line));
                next = location.inlined_at;
            }
            if frames.is_empty() {
                frames.push((own.clone(), place.map_or(0, |place| place.line)));
            }
            *samples.entry(frames).or_default() += count;
            total += count;
        }
    }
    if i64::try_from(total).is_err() {
        return Err(Error::Overflow { what: "the blocks, for pprof's signed numbers,".to_owned() });
    }
    let bytes = encode(profile, options, &samples, &starts);
    let mut gzip = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::default());
    gzip.write_all(&bytes).and_then(|()| gzip.finish()).map_or_else(
        |error| Err(Error::Export { what: format!("cannot compress: {error}") }),
        |bytes| Ok(Exported { bytes, remarks: Vec::new() }),
    )
}

fn encode(
    profile: &Profile,
    options: &Options,
    samples: &BTreeMap<Frames, u64>,
    starts: &BTreeMap<Key, u32>,
) -> Vec<u8> {
    let mut strings = Strings::new();
    let mut functions: BTreeMap<&Key, u64> = BTreeMap::new();
    let mut out = Message::default();
    let (blocks, count) = (strings.number("blocks"), strings.number("count"));
    let value_type = |message: &mut Message| {
        message.number(1, blocks);
        message.number(2, count);
    };
    out.message(1, value_type);
    // Each sample has one location of its own, with the inlined calls as lines.
    for (number, &value) in samples.values().enumerate() {
        out.message(2, |sample| {
            sample.number(1, number as u64 + 1);
            sample.number(2, value);
        });
    }
    for (number, frames) in samples.keys().enumerate() {
        for (key, _) in frames {
            let next = functions.len() as u64 + 1;
            functions.entry(key).or_insert(next);
        }
        out.message(4, |location| {
            location.number(1, number as u64 + 1);
            for (key, line) in frames {
                location.message(4, |message| {
                    message.number(1, functions[key]);
                    message.number(2, u64::from(*line));
                });
            }
        });
    }
    for (key, number) in &functions {
        let (name, file) = key;
        let shown = strings.number(&(options.demangle)(name));
        let linkage = strings.number(name);
        let file = file.map_or(0, |file| strings.number(&profile.files[file as usize]));
        out.message(5, |function| {
            function.number(1, *number);
            function.number(2, shown);
            function.number(3, linkage);
            function.number(4, file);
            function.number(5, u64::from(starts.get(*key).copied().unwrap_or(0)));
        });
    }
    let comments: Vec<u64> = profile
        .incomplete
        .iter()
        .map(|why| strings.number(&format!("incomplete: {why}")))
        .collect();
    for text in &strings.all {
        out.bytes(6, text.as_bytes());
    }
    out.message(11, value_type);
    out.number(12, 1);
    for comment in comments {
        out.number(13, comment);
    }
    out.0
}
