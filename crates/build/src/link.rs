//! Links, and records in the result how to link it again.
//!
//! The linker itself is run as clang would have run it. Afterwards the unit
//! section of the result says which units were really linked; the command line
//! and the files it names become the recipe. Objects made of units need no
//! bytes of their own in it; everything else that is not part of the system is
//! carried, so that the build tree may go.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use backtrail_interruption::{Folder, bind};
use backtrail_machine::edit::{self, Edit, NewSection};
use backtrail_machine::elf::{Elf, Kind};
use object::read::archive::ArchiveFile;

use crate::carry::file::read_units;
use crate::carry::frame;
use crate::carry::recipe::{Input, InputKind, Member, Recipe, RecipeArg, compress_native};
use crate::carry::unit::{IrState, UnitRecord};
use crate::jobs::Job;
use crate::link_args::{self, LinkArg};
use crate::output::{self, Mode};
use crate::trust::known;
use crate::{Error, clang, compile, own_object, response_file, surroundings};

/// Sources by the temporary objects that are linked for them.
pub type Sources = BTreeMap<String, String>;

/// Runs the link `job`; the result is the linker's status. What the linker says
/// is `shown` or not.
pub fn link(job: &Job, sources: &Sources, scratch: &Path, shown: bool) -> Result<i32, Error> {
    let mut words = job.arguments.clone();
    let given =
        |name: &str| words.iter().any(|word| word.trim_start_matches('-').starts_with(name));
    let relocatable = words.iter().any(|word| word == "-r" || word == "--relocatable");
    let adds_build_id = !given("build-id") && !given("oformat") && !relocatable;
    // A variable that the linker reads: linked again, it is an option.
    let run_path = std::env::var("LD_RUN_PATH").ok().filter(|path| !path.is_empty());
    let run_path = run_path.filter(|_| !given("rpath"));
    if adds_build_id {
        words.insert(0, "--build-id".to_owned());
    }
    let mut command = compile::command(&job.program, &words, scratch)?;
    if !shown {
        command.stderr(Stdio::null());
    }
    let status = command.status().map_err(|error| clang::not_runnable(&job.program, error))?;
    let status = compile::status_code(status);
    let output = Path::new(job.value("-o").unwrap_or("a.out"));
    if status == 0 && output.is_file() && !relocatable {
        words.extend(run_path.map(|path| format!("-rpath={path}")));
        let recorded = response_file::expand(&words).and_then(|words| {
            let arguments = link_args::parse(&words);
            let command = LinkCommand { linker: &job.program, through_driver: false, arguments };
            attach_recipe_with(command, output, &[], sources)
        });
        // The executable is there, and works.
        if let Err(error) = recorded {
            compile::warn(&format!(
                "no variants can be derived from {}: {error}",
                output.display()
            ));
        }
    }
    Ok(status)
}

/// A linker, or a compiler driver, and its arguments.
pub struct LinkCommand<'a> {
    /// The program.
    pub linker: &'a Path,
    /// Whether it is a compiler driver, which calls a linker.
    pub through_driver: bool,
    /// The arguments.
    pub arguments: Vec<LinkArg>,
}

/// Adds the recipe to the linked file `output`, if it holds units. Files below
/// `toolchain` count as parts of the system.
pub fn attach_recipe_of(
    command: LinkCommand<'_>,
    output: &Path,
    toolchain: &[PathBuf],
) -> Result<(), Error> {
    attach_recipe_with(command, output, toolchain, &Sources::new())
}

fn attach_recipe_with(
    command: LinkCommand<'_>,
    output: &Path,
    toolchain: &[PathBuf],
    sources: &Sources,
) -> Result<(), Error> {
    let bytes = std::fs::read(output).map_err(Error::read(output))?;
    // The linker may have been asked for something else than ELF.
    let Ok(elf) = Elf::parse(&bytes) else { return Ok(()) };
    let machine = || Error::machine(output);
    if elf.kind().map_err(machine())? == Kind::Relocatable {
        return Ok(());
    }
    let section = elf.section(backtrail_abi::UNIT_SECTION).map_err(machine())?;
    if section.is_none() && !links_bitcode(&command) {
        return Ok(());
    }
    let mut units = read_units(output, &section.unwrap_or_default())?;
    let mut recorder = Recorder::new(&units, toolchain, sources);
    recorder.record(&command)?;
    let are_as_linked = !recorder.give_up(&mut units) && recorder.absent.is_empty();
    units.append(&mut recorder.absent);
    let mut recipe = std::mem::take(&mut recorder.recipe);
    let is_system = |path: &Path| recorder.is_system(path);
    surroundings::note(&mut recipe, &command, output, &bytes, &units, &is_system)?;
    for remark in &recipe.remarks {
        compile::warn(remark);
    }
    let record = recipe.to_bytes();
    let section = NewSection { name: backtrail_abi::LINK_SECTION, data: &record };
    let edited = match are_as_linked {
        true => edit::edit(
            &bytes,
            &Edit { remove: &[backtrail_abi::LINK_SECTION], add: &[section], ..Edit::default() },
        ),
        false => {
            let data: Vec<u8> = units.iter().flat_map(UnitRecord::to_bytes).collect();
            let units = NewSection { name: backtrail_abi::UNIT_SECTION, data: &data };
            let remove = [backtrail_abi::UNIT_SECTION, backtrail_abi::LINK_SECTION];
            edit::edit(&bytes, &Edit { remove: &remove, add: &[units, section], ..Edit::default() })
        }
    };
    output::write_whole(output, &edited.map_err(machine())?, Mode::Program)?;
    known::remember(&known::fingerprint(&recipe, &units));
    Ok(())
}

/// Whether a file that is linked is bitcode, or holds it (`-flto`).
fn links_bitcode(command: &LinkCommand<'_>) -> bool {
    let holds_bitcode = |path: &String| {
        std::fs::read(path).is_ok_and(|bytes| is_bitcode(&bytes) || holds(&bytes, FAT_SECTION))
    };
    command.arguments.iter().any(|argument| match argument {
        LinkArg::File(path) => Path::new(path).is_file() && holds_bitcode(path),
        _ => false,
    })
}

/// The section of an object that was compiled with `-ffat-lto-objects`.
const FAT_SECTION: &str = ".llvm.lto";

fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(b"BC\xC0\xDE") || bytes.starts_with(b"\xDE\xC0\x17\x0B")
}

/// The member of a Rust library that only rustc reads.
const RUST_METADATA: &str = "lib.rmeta";

/// Why an object of units is linked as it is.
const MIXED: &str =
    "its symbols or sections are not those of its units (it was changed by ld -r or objcopy)";

/// Why what is linked as bitcode carries nothing.
const FLTO: &str = "compiled with -flto";

/// Folders whose files are there on every machine that has the same packages.
pub(crate) const SYSTEM_FOLDERS: [&str; 8] = [
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/lib",
    "/lib",
    "/lib32",
    "/lib64",
];

struct Recorder<'a> {
    linked: BTreeSet<[u8; 16]>,
    toolchain: &'a [PathBuf],
    sources: &'a Sources,
    recipe: Recipe,
    /// Units whose objects are linked as they are.
    as_they_are: BTreeSet<[u8; 16]>,
    /// Units that were linked without leaving a record: link-time optimisation
    /// goes by their bitcode.
    absent: Vec<UnitRecord>,
}

/// What the bytes of a linked file are.
enum Contents<'a> {
    Archive,
    Elf(Box<Elf<'a>>),
    /// Bitcode, a linker script, anything else.
    Other,
}

fn classify(bytes: &[u8]) -> Contents<'_> {
    if bytes.starts_with(b"!<arch>\n") || bytes.starts_with(b"!<thin>\n") {
        return Contents::Archive;
    }
    Elf::parse(bytes).map_or(Contents::Other, |elf| Contents::Elf(Box::new(elf)))
}

impl<'a> Recorder<'a> {
    fn new(linked: &[UnitRecord], toolchain: &'a [PathBuf], sources: &'a Sources) -> Self {
        let linked = linked.iter().map(|unit| unit.meta.id).collect();
        let (recipe, as_they_are) = (Recipe::default(), BTreeSet::new());
        Self { linked, toolchain, sources, recipe, as_they_are, absent: Vec::new() }
    }

    /// Says of units whose object is linked as it is that they are not carried: nothing
    /// can be made of them but what was linked. Whether there are some.
    fn give_up(&self, units: &mut [UnitRecord]) -> bool {
        let is_lost = |unit: &&mut UnitRecord| {
            unit.meta.state == IrState::Carried && self.as_they_are.contains(&unit.meta.id)
        };
        let lost = units.iter_mut().filter(is_lost);
        let count = lost.map(|unit| *unit = unit.without_ir(MIXED)).count();
        count > 0
    }

    fn record(&mut self, command: &LinkCommand<'_>) -> Result<(), Error> {
        self.recipe.linker = command.linker.to_owned();
        self.recipe.through_driver = command.through_driver;
        let arguments = command.arguments.clone();
        let folders = link_args::library_folders(&arguments);
        let mut folder_follows = false;
        for argument in arguments {
            match argument {
                LinkArg::Text(text) => {
                    let is_folder = std::mem::replace(&mut folder_follows, text == "-L");
                    self.text(if is_folder { absolute(&text) } else { absolute_folder(text) });
                }
                LinkArg::Output(_) => {
                    self.text("-o".to_owned());
                    self.recipe.arguments.push(RecipeArg::Output);
                }
                LinkArg::File(path) => self.file(path)?,
                LinkArg::Data(path) => self.data(&path)?,
                LinkArg::Library { name, archives_only } => {
                    self.library(&folders, &name, archives_only)?;
                }
                LinkArg::ReadFile { option, joined, path } => {
                    self.read_file(option, joined, path)?
                }
                LinkArg::Report(_) => {}
            }
        }
        Ok(())
    }

    fn text(&mut self, text: String) {
        self.recipe.arguments.push(RecipeArg::Text(text));
    }

    fn is_system(&self, path: &Path) -> bool {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        SYSTEM_FOLDERS.iter().any(|folder| real.starts_with(folder))
            || self.toolchain.iter().any(|folder| real.starts_with(folder))
    }

    fn add(&mut self, path: &Path, kind: InputKind) -> u32 {
        let path = match self.sources.get(&*path.to_string_lossy()) {
            // The name of a temporary file means nothing, and is another each time.
            Some(source) => Path::new(source).with_extension("o"),
            None => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        };
        self.recipe.inputs.push(Input { path, kind });
        (self.recipe.inputs.len() - 1) as u32
    }

    fn file(&mut self, path: String) -> Result<(), Error> {
        let file = Path::new(&path);
        if !file.is_file() {
            self.text(path);
            return Ok(());
        }
        if let Some(kind) = self.kind_of(file)? {
            let input = self.add(file, kind);
            self.recipe.arguments.push(RecipeArg::Input(input));
        }
        Ok(())
    }

    /// A file taken in as it is gives symbols named by its path, which is another
    /// one when it is linked again. So the linker makes an object of it now.
    fn data(&mut self, path: &str) -> Result<(), Error> {
        let scratch = Folder::new("data").map_err(Error::write(&std::env::temp_dir()))?;
        let object = scratch.path().join("object");
        let words = ["-m", "elf_x86_64", "-r", "-b", "binary", path, "-o"];
        let mut linker = Command::new(&self.recipe.linker);
        let output = bind(&mut linker).args(words).arg(&object).output();
        let made = output.is_ok_and(|output| output.status.success());
        if !made {
            self.text(path.to_owned());
            return Ok(());
        }
        let bytes = std::fs::read(&object).map_err(Error::read(&object))?;
        let input = self.add(Path::new(path), native(&bytes, "taken in as it is (-b binary)"));
        self.text("--format=default".to_owned());
        self.recipe.arguments.push(RecipeArg::Input(input));
        self.text("--format=binary".to_owned());
        Ok(())
    }

    fn library(
        &mut self,
        folders: &[PathBuf],
        name: &str,
        archives_only: bool,
    ) -> Result<(), Error> {
        let as_written = format!("-l{name}");
        let Some(file) = link_args::find_library(folders, name, archives_only) else {
            self.text(as_written);
            return Ok(());
        };
        match self.kind_of(&file)? {
            // By its name, as it was: what a program asks for at run time may
            // depend on how the library was named.
            Some(kind @ InputKind::Shared { .. }) => {
                self.add(&file, kind);
                self.text(as_written);
            }
            Some(InputKind::System) => self.text(as_written),
            Some(kind) => {
                let input = self.add(&file, kind);
                self.recipe.arguments.push(RecipeArg::Input(input));
            }
            None => {}
        }
        Ok(())
    }

    fn read_file(&mut self, option: String, joined: String, path: String) -> Result<(), Error> {
        let file = Path::new(&path);
        if !option.is_empty() {
            self.text(option);
        }
        if !file.is_file() || self.is_system(file) {
            self.text(format!("{joined}{path}"));
            return Ok(());
        }
        let bytes = std::fs::read(file).map_err(Error::read(file))?;
        let input = self.add(file, native(&bytes, "read by an option of the linker"));
        self.recipe.arguments.push(match joined.is_empty() {
            true => RecipeArg::Input(input),
            false => RecipeArg::Joined(joined, input),
        });
        Ok(())
    }

    /// What `file` is; `None` if nothing of it was linked.
    fn kind_of(&mut self, file: &Path) -> Result<Option<InputKind>, Error> {
        let bytes = std::fs::read(file).map_err(Error::read(file))?;
        let system = self.is_system(file);
        let kind = match classify(&bytes) {
            Contents::Elf(elf) if elf.kind().is_ok_and(|kind| kind != Kind::Relocatable) => {
                match system && elf.section(backtrail_abi::UNIT_SECTION).ok().flatten().is_none() {
                    true => InputKind::System,
                    false => InputKind::Shared { soname: elf.soname() },
                }
            }
            _ if system && !holds(&bytes, backtrail_abi::UNIT_SECTION) => InputKind::System,
            Contents::Elf(elf) => match self.object(file, &bytes, &elf)? {
                Some(kind) => kind,
                None => return Ok(None),
            },
            Contents::Archive => InputKind::Archive(self.archive(file, &bytes)?),
            Contents::Other if is_bitcode(&bytes) => {
                self.optimised_in_linking(file);
                native(&bytes, FLTO)
            }
            Contents::Other => native(&bytes, "not an object"),
        };
        Ok(Some(kind))
    }

    /// Notes a unit of which only its bitcode was linked.
    fn optimised_in_linking(&mut self, file: &Path) {
        let shown = file.display().to_string();
        let name = self.sources.get(&shown).cloned().unwrap_or(shown);
        let mut meta = compile::meta_without_ir(&name, "bitcode", "unknown", FLTO);
        meta.id = frame::hash(&[name.as_bytes(), FLTO.as_bytes()]);
        self.absent.push(UnitRecord::new(meta, None, None));
    }

    /// An object: its units if it is theirs alone, else its bytes. `None` if
    /// the linker dropped it whole (`--gc-sections`).
    fn object(
        &mut self,
        file: &Path,
        bytes: &[u8],
        elf: &Elf<'_>,
    ) -> Result<Option<InputKind>, Error> {
        let section = elf.section(backtrail_abi::UNIT_SECTION).map_err(Error::machine(file))?;
        let units = read_units(file, &section.unwrap_or_default())?;
        if units.is_empty() {
            return Ok(Some(native(bytes, "not compiled by backtrail")));
        }
        if let Some(why) = units.iter().find_map(|unit| match &unit.meta.state {
            IrState::Missing { why } => Some(why),
            _ => None,
        }) {
            let fat = elf.section_names().iter().any(|name| name == FAT_SECTION);
            let kind = native(bytes, why);
            if fat && !units.iter().any(|unit| self.linked.contains(&unit.meta.id)) {
                self.absent.extend(units);
            }
            return Ok(Some(kind));
        }
        if !units.iter().any(|unit| self.linked.contains(&unit.meta.id)) {
            return Ok(None);
        }
        if !own_object::is_of(elf, &units) {
            let remark = format!("{} is linked as it is: {MIXED}", file.display());
            self.recipe.remarks.push(remark);
            self.as_they_are.extend(units.iter().map(|unit| unit.meta.id));
            return Ok(Some(native(bytes, MIXED)));
        }
        Ok(Some(InputKind::Units(units.iter().map(|unit| unit.meta.id).collect())))
    }

    fn archive(&mut self, file: &Path, bytes: &[u8]) -> Result<Vec<Member>, Error> {
        let damaged = |error: object::Error| Error::machine(file)(error.into());
        let archive = ArchiveFile::parse(bytes).map_err(damaged)?;
        let mut members = Vec::new();
        for member in archive.members() {
            let member = member.map_err(damaged)?;
            let name = String::from_utf8_lossy(member.name()).into_owned();
            if name == RUST_METADATA {
                continue;
            }
            let path = file.parent().unwrap_or(Path::new("")).join(&name);
            let read;
            let contents = if archive.is_thin() {
                read = std::fs::read(&path).map_err(Error::read(&path))?;
                &read[..]
            } else {
                member.data(bytes).map_err(damaged)?
            };
            let shown = PathBuf::from(format!("{}({name})", file.display()));
            let kind = match classify(contents) {
                Contents::Elf(elf) => self.object(&shown, contents, &elf)?,
                _ if is_bitcode(contents) => Some(native(contents, FLTO)),
                _ => Some(native(contents, "not an object")),
            };
            let name =
                Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned();
            members.extend(kind.map(|kind| Member { name, kind }));
        }
        Ok(members)
    }
}

/// Whether `bytes` hold the name of a section.
fn holds(bytes: &[u8], name: &str) -> bool {
    bytes.windows(name.len()).any(|window| window == name.as_bytes())
}

fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or(path.to_owned(), |path| path.display().to_string())
}

/// `-LFOLDER` with the folder absolute; any other text as it is. (`=` stands
/// for the system root.)
fn absolute_folder(text: String) -> String {
    match text.strip_prefix("-L").filter(|folder| !folder.is_empty() && !folder.starts_with('=')) {
        Some(folder) => format!("-L{}", absolute(folder)),
        None => text,
    }
}

fn native(bytes: &[u8], why: &str) -> InputKind {
    InputKind::Native { contents: compress_native(bytes), why: why.to_owned() }
}
