//! What the places of a breakpoint trace are called: functions by symbols, those of a
//! separate debug file included, and lines where there is debug information.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use backtrail_machine::code::{Block, Callee, Code, Exit};
use backtrail_machine::debug_file::DebugFolders;
use backtrail_machine::image::{Image, build_id_text};
use backtrail_machine::symbolise::FilePlaces;
use backtrail_outside as outside;
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
    let mut inlined = BTreeMap::new();
    let mut place = |(number, block): (usize, &Block)| {
        // The innermost comes first: what the block begins with was written there.
        let mut lines = known(block.start).into_iter().filter_map(|place| {
            let line = place.line?;
            Some((place.file.map(|file| sources.number(file)), line))
        });
        let (file, line) = lines.next().unwrap_or((None, 0));
        let outer: Vec<(u32, u32)> = lines.filter_map(|(file, line)| Some((file?, line))).collect();
        if !outer.is_empty() {
            inlined.insert(number as u32, outer);
        }
        let label = code.file_address(block.start);
        (number as u32, PlaceName { function: block.routine as u32, label, file, line })
    };
    let places = code.blocks.iter().enumerate().map(&mut place).collect();
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
        inlined,
    })
}

/// Whether it asks the dynamic linker for more.
fn loads_libraries(code: &Code) -> bool {
    code.blocks.iter().any(|block| match &block.exit {
        Exit::Call(Callee::External(name), _) | Exit::Tail(Callee::External(name)) => {
            outside::of(name).is_some_and(|row| row.loads)
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
