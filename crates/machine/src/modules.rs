//! The files that were mapped into a process, and the vDSO.
//!
//! A core names the mapped files (`NT_FILE`) and holds the first page of each
//! that is ELF, with its build id. A file of that name that has another build
//! id is not the one that ran, and is not used: wrong names are worse than
//! none. What is not used says why.

mod loaded;

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use backtrail_foreign::file;
use loaded::{Group, groups};

use crate::Error;
use crate::core_file::notes::{AT_ENTRY, AT_PHDR, AT_SYSINFO_EHDR, Notes};
use crate::debug_file::DebugFolders;
use crate::image::{Image, build_id_text};
use crate::memory::Memory;
use crate::symbolise::DebugInfo;
use crate::unwind::tables::Tables;

/// A mapped file.
pub struct Module {
    /// The file, as the process saw it, in text; `[vdso]` for the vDSO. What is no
    /// text in a name stands there as `\xff`, so that different files have different
    /// texts.
    pub path: String,
    /// The file itself.
    file: PathBuf,
    /// What is added to the file's own addresses.
    pub bias: u64,
    /// Its build id, as the core has it; else, as the file has it.
    pub build_id: Option<Vec<u8>>,
    /// The file, if it is there and the same.
    pub image: Option<Image>,
    /// Why it is not used, or how sure it is that it is the same, if not by
    /// build id.
    pub remark: Option<String>,
    debug: OnceCell<Option<Image>>,
    tables: OnceCell<Tables>,
    info: OnceCell<DebugInfo>,
}

impl Module {
    fn new(file: &Path, bias: u64, build_id: Option<Vec<u8>>) -> Self {
        Self {
            path: text_of(file),
            file: file.to_owned(),
            bias,
            build_id,
            image: None,
            remark: None,
            debug: OnceCell::new(),
            tables: OnceCell::new(),
            info: OnceCell::new(),
        }
    }

    /// The file with its debug information, if that is not the file itself.
    pub(crate) fn debug(&self, folders: &DebugFolders) -> Option<&Image> {
        let find = || self.image.as_ref().and_then(|image| folders.debug_of(image));
        self.debug.get_or_init(find).as_ref()
    }

    /// Its unwind tables.
    pub(crate) fn tables(&self, folders: &DebugFolders) -> Option<&Tables> {
        let image = self.image.as_ref()?;
        Some(self.tables.get_or_init(|| Tables::new(image, self.debug(folders))))
    }

    /// Its symbols and lines.
    pub(crate) fn info(&self, folders: &DebugFolders) -> Option<&DebugInfo> {
        let image = self.image.as_ref()?;
        let make = || DebugInfo::new(image, self.debug(folders), folders);
        Some(self.info.get_or_init(make))
    }
}

/// The files that were mapped.
pub struct Modules {
    /// The files, by address.
    pub list: Vec<Module>,
    /// The executable's place among them.
    pub main: Option<usize>,
    /// Which addresses belong to which, by address.
    ranges: Vec<(Range<u64>, usize)>,
}

/// Where files are looked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The executable that ran.
    pub executable: Option<PathBuf>,
    /// Folders with debug files, besides the system's.
    pub debug_folders: Vec<PathBuf>,
    /// The folder of the core: an executable that is gone may be beside it.
    pub core_folder: Option<PathBuf>,
}

impl Modules {
    /// Finds the files that the notes name, and tells `memory` of them.
    pub(crate) fn find(
        notes: &Notes,
        memory: &mut Memory,
        options: &Options,
        folders: &DebugFolders,
    ) -> Result<Self, Error> {
        let mut modules = Self { list: Vec::new(), main: None, ranges: Vec::new() };
        for group in groups(&notes.files, memory) {
            modules.add_files(&group, memory);
        }
        modules.add_vdso(notes, memory);
        let place = notes.auxiliary(AT_ENTRY).or(notes.auxiliary(AT_PHDR));
        modules.main = place.and_then(|place| modules.index(place));
        for number in 0..modules.list.len() {
            let main = modules.main == Some(number);
            modules.load(number, main, memory, options, folders)?;
        }
        if let (None, Some(executable)) = (modules.main, &options.executable) {
            modules.add_executable(executable, notes)?;
        }
        for (range, number) in &modules.ranges {
            let mapped = notes.files.iter().find(|file| file.start == range.start);
            let Some(mapped) = mapped else { continue };
            let image = modules.list[*number].image.as_ref();
            // Of a file that is not there, any part may be code.
            let code = image.is_none_or(|image| image.is_code(mapped.offset));
            memory.add_mapping(range.clone(), code);
            let path = image.and_then(Image::path);
            if let Some(file) = path.and_then(|path| file::open(path).ok()) {
                memory.add_backing(range.clone(), Rc::new(file), mapped.offset);
            }
        }
        Ok(modules)
    }

    fn add(&mut self, module: Module, ranges: impl Iterator<Item = Range<u64>>) {
        let number = self.list.len();
        self.list.push(module);
        self.ranges.extend(ranges.map(|range| (range, number)));
        self.ranges.sort_by_key(|(range, _)| range.start);
    }

    fn add_files(&mut self, group: &Group<'_>, memory: &Memory) {
        let executable = group.files.iter().any(|file| memory.is_executable(file.start));
        let header = group.header.as_ref();
        if header.is_none() && !executable {
            return;
        }
        let bias = header.map_or(group.first.start, |header| header.bias);
        let build_id = header.and_then(|header| header.build_id(memory));
        let module = Module::new(&group.first.path, bias, build_id);
        self.add(module, group.files.iter().map(|file| file.start..file.end));
    }

    /// The vDSO's image is in the core.
    fn add_vdso(&mut self, notes: &Notes, memory: &Memory) {
        let Some(start) = notes.auxiliary(AT_SYSINFO_EHDR) else { return };
        let Some(segment) = memory.segment(start).filter(|segment| segment.size <= 1 << 20) else {
            return;
        };
        let mut bytes = vec![0; (segment.end() - start) as usize];
        if memory.read(start, &mut bytes).is_err() || self.index(start).is_some() {
            return;
        }
        let Ok(image) = Image::from_memory(bytes) else { return };
        let bias = start.wrapping_sub(image.lowest().unwrap_or(0));
        let mut module = Module::new(Path::new("[vdso]"), bias, image.build_id.clone());
        module.image = Some(image);
        self.add(module, std::iter::once(start..segment.end()));
    }

    /// The executable, where the core does not name the mapped files.
    fn add_executable(&mut self, path: &Path, notes: &Notes) -> Result<(), Error> {
        let image = Image::open(path).map_err(|error| not_usable(path, error))?;
        let headers = notes.auxiliary(AT_PHDR).zip(image.headers_address);
        let entry = notes.auxiliary(AT_ENTRY).map(|entry| (entry, image.entry));
        let Some((there, own)) = headers.or(entry) else { return Ok(()) };
        let bias = there.wrapping_sub(own);
        let mut module = Module::new(path, bias, image.build_id.clone());
        module.remark = Some(format!(
            "the core does not name its files: {} is taken for the executable, unchecked",
            path.display()
        ));
        let ranges: Vec<_> = image
            .loads
            .iter()
            .map(|load| {
                let start = load.address.wrapping_add(bias);
                start..start.saturating_add(load.size)
            })
            .collect();
        module.image = Some(image);
        self.main = Some(self.list.len());
        self.add(module, ranges.into_iter());
        Ok(())
    }

    /// Finds the file of a module.
    fn load(
        &mut self,
        number: usize,
        main: bool,
        memory: &Memory,
        options: &Options,
        folders: &DebugFolders,
    ) -> Result<(), Error> {
        let module = &mut self.list[number];
        if module.image.is_some() {
            return Ok(());
        }
        let start = self.ranges.iter().find(|(_, own)| *own == number).map_or(0, |(r, _)| r.start);
        let expected = module.build_id.clone();
        let check = |image: &Image, path: &Path| same_file(image, path, &expected, memory, start);
        if let Some(path) = options.executable.as_ref().filter(|_| main) {
            let image = Image::open(path).map_err(|error| not_usable(path, error))?;
            let id = |id: &Option<Vec<u8>>| {
                id.as_ref().map_or("none".to_owned(), |id| build_id_text(id))
            };
            module.remark = check(&image, path).map_err(|_| Error::OtherBuild {
                given: path.clone(),
                found: id(&image.build_id),
                ran: module.file.clone(),
                expected: id(&expected),
            })?;
            module.set_image(image, start);
            return Ok(());
        }
        let own = module.file.as_os_str().as_bytes();
        let own = own.strip_suffix(b" (deleted)").unwrap_or(own);
        let own = PathBuf::from(OsStr::from_bytes(own));
        let beside = options.core_folder.as_ref().zip(own.file_name());
        let beside = beside.map(|(folder, name)| folder.join(name)).filter(|path| *path != own);
        let mut why = None;
        for path in [Some(own.clone()), beside].into_iter().flatten() {
            match Image::open(&path).map_err(|error| match error {
                Error::Read { source, .. } => format!("{}: {source}", path.display()),
                error => format!("{}: {error}", path.display()),
            }) {
                Ok(image) => match check(&image, &path) {
                    Ok(remark) => {
                        module.remark = remark;
                        module.set_image(image, start);
                        return Ok(());
                    }
                    // Another build beside the core is of no interest.
                    Err(other) => why = why.or(Some(other)),
                },
                Err(error) => why = why.or(Some(error)),
            }
        }
        let found = expected.as_ref().and_then(|id| folders.by_build_id(id, ""));
        match found {
            Some(image) => module.set_image(image, start),
            None => module.remark = why,
        }
        Ok(())
    }

    /// The module that an address belongs to.
    pub fn index(&self, address: u64) -> Option<usize> {
        let behind = self.ranges.partition_point(|(range, _)| range.start <= address);
        let (range, number) = self.ranges[..behind].last()?;
        range.contains(&address).then_some(*number)
    }

    /// The module that an address belongs to.
    pub fn of(&self, address: u64) -> Option<&Module> {
        self.list.get(self.index(address)?)
    }
}

impl Module {
    fn set_image(&mut self, image: Image, start: u64) {
        self.bias = start.wrapping_sub(image.lowest().unwrap_or(0));
        if self.build_id.is_none() {
            self.build_id.clone_from(&image.build_id);
        }
        self.image = Some(image);
    }
}

/// The name of a file as text, of which no two are alike.
fn text_of(file: &Path) -> String {
    let mut text = String::new();
    for chunk in file.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text += &format!("\\x{byte:02x}"));
    }
    text
}

/// What an executable that was given cannot be used for.
fn not_usable(path: &Path, error: Error) -> Error {
    match error {
        Error::Read { .. } => error,
        other => Error::Core { path: path.to_owned(), what: format!("not an executable: {other}") },
    }
}

/// Whether a file is the one that was mapped at `start`; a remark if that is
/// not quite sure, and why not if it is not.
fn same_file(
    image: &Image,
    path: &Path,
    expected: &Option<Vec<u8>>,
    memory: &Memory,
    start: u64,
) -> Result<Option<String>, String> {
    if let (Some(expected), Some(found)) = (expected, &image.build_id) {
        if expected == found {
            return Ok(None);
        }
        return Err(format!(
            "{} is of another build: it has build id {}, the core was left by build id {}",
            path.display(),
            build_id_text(found),
            build_id_text(expected),
        ));
    }
    let mut mapped = [0; 1024];
    if memory.read(start, &mut mapped).is_err() {
        return Ok(Some(format!(
            "{} is taken for the file that ran, unchecked: the core does not have its build id",
            path.display()
        )));
    }
    let mut own = [0; 1024];
    let read = file::open(path).and_then(|file| crate::core_file::read_up_to(&file, &mut own, 0));
    match read {
        Ok(_) if own == mapped => Ok(Some(format!(
            "{} has no build id; it begins as the file that ran does",
            path.display()
        ))),
        _ => Err(format!("{} is of another build: it begins otherwise", path.display())),
    }
}
