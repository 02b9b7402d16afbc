//! What the places of a breakpoint trace are called: functions by symbols, those of a
//! separate debug file included, and lines where there is debug information.

use std::collections::HashMap;
use std::path::Path;

use backtrail_machine::code::{Block, Code};
use backtrail_machine::debug_file::DebugFolders;
use backtrail_machine::image::{Image, build_id_text};
use backtrail_machine::symbolise::FilePlaces;
use backtrail_trace::file::{FunctionName, Kind, Legend, PlaceName};

/// The legend of an executable.
pub fn of(program: &Path, code: &Code) -> anyhow::Result<Legend> {
    let image = Image::open(program)?;
    let known = FilePlaces::of_file(program, &DebugFolders::new(&[]))?;
    let name = |routine: usize| {
        let data = &code.routines[routine];
        let start = code.blocks[data.head].start;
        let other = || known.at(start).pop().and_then(|place| place.function);
        data.name.clone().or_else(other).unwrap_or_else(|| code.name(routine))
    };
    let mut files = Files::default();
    let mut place = |block: &Block| {
        // The innermost: what the block begins with was written there.
        let found = known.at(block.start).into_iter().find(|place| place.line.is_some());
        let line = found.as_ref().and_then(|place| place.line).unwrap_or(0);
        let file = found.and_then(|place| place.file).map(|file| files.number(file));
        PlaceName { function: block.routine as u32, label: block.start, file, line }
    };
    let places = code.blocks.iter().enumerate();
    let places = places.map(|(number, block)| (number as u32, place(block))).collect();
    Ok(Legend {
        program: program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        build_id: image.build_id.as_deref().map(build_id_text).unwrap_or_default(),
        kind: Kind::Code,
        functions: (0..code.routines.len()).map(|it| FunctionName { name: name(it) }).collect(),
        files: files.names,
        places,
        incomplete: Vec::new(),
    })
}

/// Source files, by the order in which they come up.
#[derive(Default)]
struct Files {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Files {
    fn number(&mut self, name: String) -> u32 {
        let next = self.names.len() as u32;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }
}
