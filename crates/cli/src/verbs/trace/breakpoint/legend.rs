//! What the places of a breakpoint trace are called: functions by symbols, those of a
//! separate debug file included, and lines where there is debug information.

use std::collections::HashMap;
use std::path::Path;

use backtrail_machine::code::{Block, Callee, Code, Exit};
use backtrail_machine::debug_file::DebugFolders;
use backtrail_machine::image::{Image, build_id_text};
use backtrail_machine::symbolise::FilePlaces;
use backtrail_trace::file::{FunctionName, Kind, Legend, PlaceName};

/// The legend of an executable.
pub fn of(program: &Path, code: &Code) -> anyhow::Result<Legend> {
    let folders = DebugFolders::new(&[]);
    let files = code.modules.iter().map(|module| FilePlaces::of_file(&module.path, &folders));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let known = |place: u64| files[code.module(place).0].at(code.file_address(place));
    let name = |routine: usize| {
        let data = &code.routines[routine];
        let start = code.blocks[data.head].start;
        let other = || known(start).pop().and_then(|place| place.function);
        let name = data.name.clone().or_else(other);
        name.map_or_else(|| code.name(routine), |name| code.qualified(start, &name))
    };
    let mut sources = Files::default();
    let mut place = |block: &Block| {
        // The innermost: what the block begins with was written there.
        let found = known(block.start).into_iter().find(|place| place.line.is_some());
        let line = found.as_ref().and_then(|place| place.line).unwrap_or(0);
        let file = found.and_then(|place| place.file).map(|file| sources.number(file));
        let label = code.file_address(block.start);
        PlaceName { function: block.routine as u32, label, file, line }
    };
    let places = code.blocks.iter().enumerate();
    let places = places.map(|(number, block)| (number as u32, place(block))).collect();
    let before = code.modules.iter().skip(1).map(|module| {
        format!("what {} ran before the program's entry point is not traced", module.name())
    });
    let mut incomplete: Vec<String> = before.collect();
    if !incomplete.is_empty() && loads_libraries(code) {
        incomplete.push("libraries that the program loaded while it ran are not traced".to_owned());
    }
    Ok(Legend {
        program: program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        build_id: build_ids(code)?,
        kind: Kind::Code,
        functions: (0..code.routines.len()).map(|it| FunctionName { name: name(it) }).collect(),
        files: sources.names,
        places,
        incomplete,
    })
}

/// Whether it asks the dynamic linker for more.
fn loads_libraries(code: &Code) -> bool {
    code.blocks.iter().any(|block| match &block.exit {
        Exit::Call(Callee::External(name), _) | Exit::Tail(Callee::External(name)) => {
            matches!(name.split('@').next(), Some("dlopen" | "dlmopen"))
        }
        _ => false,
    })
}

/// The build ids of all files, with a plus sign between them.
pub fn build_ids(code: &Code) -> anyhow::Result<String> {
    let ids = code.modules.iter().map(|module| {
        let id = Image::open(&module.path)?.build_id;
        anyhow::Ok(id.as_deref().map(build_id_text).unwrap_or_default())
    });
    Ok(ids.collect::<Result<Vec<_>, _>>()?.join("+"))
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
