//! Functions and lines at an address.
//!
//! From debug information, inlined functions included, where there is some;
//! from the symbol table otherwise. Names are linkage names: how they are
//! shown is not decided here.

use std::path::Path;

use crate::Error;
use crate::debug_file::DebugFolders;
use crate::image::{Image, Slice, Symbol, slice};

/// A function, and the line it was at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The function's linkage name, or its name where it has none.
    pub function: Option<String>,
    /// The source file, as it was named when it was compiled.
    pub file: Option<String>,
    /// The folder in which it was compiled, if the name is relative to that.
    pub folder: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// Whether the function was inlined into the next.
    pub inlined: bool,
}

/// Functions and lines of a file, by its own addresses.
pub struct FilePlaces(DebugInfo);

impl FilePlaces {
    /// Of the file at `path`, with its debug information, wherever that is.
    pub fn of_file(path: &Path, folders: &DebugFolders) -> Result<Self, Error> {
        let image = Image::open(path)?;
        let debug = folders.debug_of(&image);
        Ok(Self(DebugInfo::new(&image, debug.as_ref(), folders)))
    }

    /// What is at an address; inlined functions first.
    pub fn at(&self, address: u64) -> Vec<Place> {
        self.0.places(address)
    }
}

/// What a file tells about addresses.
pub(crate) struct DebugInfo {
    lines: Option<addr2line::Context<Slice>>,
    symbols: Vec<Symbol>,
}

impl DebugInfo {
    /// Of a file and of its separate debug information.
    pub fn new(image: &Image, debug: Option<&Image>, folders: &DebugFolders) -> Self {
        let mut symbols = image.symbols();
        symbols.extend(debug.map(Image::symbols).unwrap_or_default());
        symbols.sort_by_key(|symbol| symbol.address);
        let lines = [Some(image), debug].into_iter().flatten().find_map(|image| {
            image.has_section(".debug_info").then(|| lines(image, folders)).flatten()
        });
        Self { lines, symbols }
    }

    /// Inlined functions first. The address is the file's own.
    pub fn places(&self, address: u64) -> Vec<Place> {
        let mut places = self.lines.as_ref().map_or_else(Vec::new, |it| from_lines(it, address));
        let symbol = self.symbol(address).map(|symbol| symbol.name.clone());
        match (places.last_mut(), symbol) {
            // Line tables alone have the name without its scopes; the names of other
            // functions, such as what was split off a function in C, are the symbol's
            // only if there is no other.
            (Some(last), Some(name))
                if last
                    .function
                    .as_deref()
                    .is_none_or(|it| !is_mangled(it) && is_mangled(&name)) =>
            {
                last.function = Some(name);
            }
            (None, Some(name)) => {
                places.push(Place { function: Some(name), ..Place::default() });
            }
            _ => {}
        }
        places
    }

    /// The function around an address: the nearest that begins before it and
    /// does not end before it.
    fn symbol(&self, address: u64) -> Option<&Symbol> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        let before = &self.symbols[..behind];
        let covers = |symbol: &&Symbol| address - symbol.address < symbol.size;
        // Functions nest rarely and shallowly; those without a size extend to
        // the next.
        let near = before.iter().rev().take(64);
        let start = near.clone().find(covers).map(|symbol| symbol.address);
        match start {
            Some(start) => near
                .take_while(|symbol| symbol.address >= start)
                .filter(|symbol| symbol.address == start)
                .filter(covers)
                .max_by_key(|symbol| symbol.global),
            None => before.last().filter(|symbol| symbol.size == 0),
        }
    }
}

/// Whether a name is one that C++ or Rust made of a function's scopes and types.
fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

fn lines(image: &Image, folders: &DebugFolders) -> Option<addr2line::Context<Slice>> {
    let load = |image: &Image| {
        gimli::Dwarf::load(|id| {
            // Where variables are, and macros: large, and not asked for.
            let wanted = !matches!(
                id,
                gimli::SectionId::DebugLoc
                    | gimli::SectionId::DebugLocLists
                    | gimli::SectionId::DebugMacinfo
                    | gimli::SectionId::DebugMacro
            );
            let [section] = if wanted { image.sections([id.name()]) } else { [None] };
            let bytes = section.map_or_else(|| [].into(), |section| section.bytes);
            Ok::<_, gimli::Error>(slice(bytes))
        })
    };
    let mut dwarf = load(image).ok()?;
    if let Some(shared) = folders.shared_debug_of(image) {
        dwarf.set_sup(load(&shared).ok()?);
    }
    addr2line::Context::from_dwarf(dwarf).ok()
}

fn from_lines(context: &addr2line::Context<Slice>, address: u64) -> Vec<Place> {
    let folder = context.find_dwarf_and_unit(address).skip_all_loads().and_then(|unit| {
        let folder = unit.comp_dir.as_ref()?;
        Some(String::from_utf8_lossy(folder.bytes()).into_owned())
    });
    let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return Vec::new() };
    let mut places = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
        let location = frame.location.as_ref();
        let path = location.and_then(|location| location.file);
        let below = folder
            .as_deref()
            .zip(path)
            .and_then(|(folder, path)| path.strip_prefix(folder)?.strip_prefix('/'));
        places.push(Place {
            function: name.map(|name| name.into_owned()),
            file: below.or(path).map(str::to_owned),
            folder: below.and(folder.clone()),
            line: location.and_then(|location| location.line).filter(|&line| line > 0),
            inlined: true,
        });
    }
    if let Some(last) = places.last_mut() {
        last.inlined = false;
    }
    places
}
