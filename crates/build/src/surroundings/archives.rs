//! The objects that a linker took, and in which order.
//!
//! Words are read from left to right. A member of an archive is taken if it defines a
//! name that what was taken before refers to and does not define; an archive is looked
//! through until no member is taken any more, and so are the archives of a group
//! together. lld remembers which member is the first to define a name, wherever it stands,
//! and takes it as soon as something refers to the name (`LazySymbol`). Of members made
//! of units it is known which were taken: their units are in the file.
//!
//! Not modelled: a common symbol takes no member that defines it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use backtrail_ir::program::{
    NativeDefinition, NativeObject, Strength, SurroundingNative, wrapped_name,
};
use backtrail_machine::elf::{Elf, Kind};
use backtrail_outside as outside;
use object::read::archive::ArchiveFile;

use super::assignments::{self, Assignment};
use super::{names_in, symbols};
use crate::Error;
use crate::carry::file::read_units;
use crate::carry::unit::{IrState, UnitRecord};
use crate::link_args::{self, LinkArg};

fn is_carried(unit: &UnitRecord) -> bool {
    unit.meta.state == IrState::Carried
}

fn definition(Assignment { name, means, .. }: Assignment) -> NativeDefinition {
    NativeDefinition { name, strength: Strength::Told, comdat: None, means }
}

/// An object, or a member of an archive.
struct Candidate {
    symbols: NativeObject,
    /// Names that it refers to and cannot do without, in order.
    needs: Vec<String>,
    /// Its units that are in the linked file; none if it has no units.
    units: Option<usize>,
}

/// What was linked so far.
pub struct Objects<'a> {
    records: &'a [UnitRecord],
    is_system: &'a dyn Fn(&Path) -> bool,
    /// The units that were linked, and whether they are carried.
    linked: HashMap<[u8; 16], bool>,
    is_lld: bool,
    taken: Vec<SurroundingNative>,
    units: usize,
    defined: HashSet<String>,
    wanted: BTreeSet<String>,
    libraries: BTreeMap<String, PathBuf>,
    /// What objects made of units define or refer to.
    of_units: HashSet<String>,
    /// Members of archives that lld has seen and not taken, and which of them defines a
    /// name first.
    waiting: Vec<Option<Candidate>>,
    lazy: HashMap<String, usize>,
    /// The archives of the group that is open.
    group: Vec<Vec<Option<Candidate>>>,
    depth: usize,
    takes_all: bool,
    wrapped: HashSet<String>,
    /// The objects since `--start-lib`, which are like members of an archive.
    members: Option<Vec<Option<Candidate>>>,
    /// What is assigned to names that nothing else defines (`PROVIDE`).
    provided: Vec<Assignment>,
    folders: Vec<PathBuf>,
}

impl<'a> Objects<'a> {
    /// A link of these units.
    pub fn new(
        records: &'a [UnitRecord],
        is_system: &'a dyn Fn(&Path) -> bool,
        is_lld: bool,
    ) -> Self {
        Self {
            records,
            is_system,
            linked: records.iter().map(|unit| (unit.meta.id, is_carried(unit))).collect(),
            is_lld,
            taken: Vec::new(),
            units: 0,
            defined: HashSet::new(),
            wanted: BTreeSet::new(),
            libraries: BTreeMap::new(),
            of_units: HashSet::new(),
            waiting: Vec::new(),
            lazy: HashMap::new(),
            group: Vec::new(),
            depth: 0,
            takes_all: false,
            wrapped: HashSet::new(),
            members: None,
            provided: Vec::new(),
            folders: Vec::new(),
        }
    }

    /// What was taken and has no unit, in link order, as far as it defines names that
    /// objects made of units define or refer to, or that are exported: to units of other
    /// modules; or that are the program's own in the place of a library's.
    pub fn taken(&mut self, exports: &BTreeSet<String>) -> Vec<SurroundingNative> {
        let mut taken = std::mem::take(&mut self.taken);
        for native in &mut taken {
            let is_own = !native.object.system;
            let is_replaced = |name: &str| is_own && outside::of(name).is_some();
            let concerns = |name: &String| {
                self.of_units.contains(name) || exports.contains(name) || is_replaced(name)
            };
            native.object.definitions.retain(|it| concerns(&it.name));
        }
        taken
    }

    /// References to these names go elsewhere (`--wrap`).
    pub fn wrap(&mut self, names: &[String]) {
        self.wrapped.extend(names.iter().cloned());
    }

    /// The shared libraries among the files, by the name that they are asked for.
    pub fn libraries(&self) -> &BTreeMap<String, PathBuf> {
        &self.libraries
    }

    /// The linker's own words refer to these names, and assign these.
    pub fn told(&mut self, names: BTreeSet<String>, assigned: Vec<Assignment>) {
        self.refer("the linker's options", names.into_iter().collect(), assigned);
    }

    /// Goes through the words of the linker.
    pub fn link(&mut self, arguments: &[LinkArg]) -> Result<(), Error> {
        self.folders = link_args::library_folders(arguments);
        for argument in arguments {
            match argument {
                LinkArg::Text(text) => self.text(text),
                LinkArg::File(path) => self.file(Path::new(path))?,
                LinkArg::Library { name, archives_only } => self.library(name, *archives_only)?,
                LinkArg::ReadFile { option, joined, path } => {
                    let is_script = |word: &str| {
                        let name = word.trim_start_matches('-').trim_end_matches('=');
                        name == "T" || name == "script"
                    };
                    if is_script(option) || is_script(joined) {
                        self.file(Path::new(path))?;
                    }
                }
                LinkArg::Output(_) | LinkArg::Data(_) | LinkArg::Report(_) => {}
            }
        }
        self.end_lib();
        self.depth = 0;
        self.close_group();
        let mut provided = std::mem::take(&mut self.provided);
        provided.retain(|it| !self.defined.contains(&it.name));
        self.refer("what the linker provides", Vec::new(), provided);
        Ok(())
    }

    fn text(&mut self, text: &str) {
        for word in text.strip_prefix("-Wl,").unwrap_or(text).split(',') {
            match word.trim_start_matches('-') {
                "start-group" | "(" => self.depth += 1,
                "end-group" | ")" => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.close_group();
                    }
                }
                "whole-archive" => self.takes_all = true,
                "no-whole-archive" => self.takes_all = false,
                "start-lib" => self.members = Some(Vec::new()),
                "end-lib" => self.end_lib(),
                _ => {}
            }
        }
    }

    fn library(&mut self, name: &str, archives_only: bool) -> Result<(), Error> {
        match link_args::find_library(&self.folders, name, archives_only) {
            Some(path) => self.file(&path),
            // A compiler driver knows more folders, where the system's libraries are.
            None => Ok(()),
        }
    }

    fn file(&mut self, path: &Path) -> Result<(), Error> {
        if !path.is_file() {
            return Ok(());
        }
        let bytes = std::fs::read(path).map_err(Error::read(path))?;
        let shown = path.display().to_string();
        if bytes.starts_with(b"!<arch>\n") || bytes.starts_with(b"!<thin>\n") {
            return self.archive(path, &bytes);
        }
        match Elf::parse(&bytes) {
            Ok(elf) if elf.kind().is_ok_and(|kind| kind != Kind::Relocatable) => {
                let file_name = path.file_name().unwrap_or_default().to_string_lossy();
                let name = elf.soname().unwrap_or_else(|| file_name.into_owned());
                self.libraries.insert(name, path.to_owned());
            }
            Ok(elf) => {
                let candidate = self.candidate(&shown, path, &bytes, &elf)?;
                match &mut self.members {
                    Some(members) => members.push(candidate),
                    None => candidate.into_iter().for_each(|candidate| self.take(candidate)),
                }
            }
            Err(_) => match std::str::from_utf8(&bytes) {
                Ok(text) => self.script(&shown, text)?,
                // Bitcode: what is in it is not known.
                Err(_) => self.refer(&shown, self.all_names(), Vec::new()),
            },
        }
        Ok(())
    }

    /// A linker script names files and symbols.
    fn script(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let words = text.split(|c: char| c.is_whitespace() || "(),;\"".contains(c));
        for word in words.filter(|word| !word.is_empty()) {
            if let Some(library) = word.strip_prefix("-l") {
                self.library(library, false)?;
            } else if word.starts_with('/') {
                self.file(Path::new(word))?;
            }
        }
        let all = assignments::of(text).into_iter();
        let (provided, assigned) = all.partition(|it: &Assignment| it.is_provided);
        self.provided.extend::<Vec<_>>(provided);
        self.refer(name, names_in(text).collect(), assigned);
        Ok(())
    }

    fn archive(&mut self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let damaged = |error: object::Error| Error::machine(path)(error.into());
        let archive = ArchiveFile::parse(bytes).map_err(damaged)?;
        let mut members = Vec::new();
        for member in archive.members() {
            let member = member.map_err(damaged)?;
            let name = String::from_utf8_lossy(member.name()).into_owned();
            let read;
            let contents = if archive.is_thin() {
                let path = path.parent().unwrap_or(Path::new("")).join(&name);
                read = std::fs::read(&path).map_err(Error::read(&path))?;
                &read[..]
            } else {
                member.data(bytes).map_err(damaged)?
            };
            let shown = format!("{}({name})", path.display());
            if let Ok(elf) = Elf::parse(contents) {
                members.push(self.candidate(&shown, path, contents, &elf)?);
            }
        }
        if self.takes_all {
            members.into_iter().flatten().for_each(|candidate| self.take(candidate));
            return Ok(());
        }
        self.members(members);
        Ok(())
    }

    /// Takes what is needed of the members of an archive.
    fn members(&mut self, mut members: Vec<Option<Candidate>>) {
        if self.is_lld {
            members.into_iter().flatten().for_each(|member| self.wait(member));
            return;
        }
        self.look_through(&mut members);
        if self.depth > 0 {
            self.group.push(members);
        }
    }

    fn end_lib(&mut self) {
        if let Some(members) = self.members.take() {
            self.members(members);
        }
    }

    /// Nothing if it is made of units that were all left out.
    fn candidate(
        &self,
        shown: &str,
        path: &Path,
        bytes: &[u8],
        elf: &Elf<'_>,
    ) -> Result<Option<Candidate>, Error> {
        let Some((mut symbols, needs)) = symbols::of_object(shown, bytes) else { return Ok(None) };
        symbols.system = (self.is_system)(path);
        let section = elf.section(backtrail_abi::UNIT_SECTION).map_err(Error::machine(path))?;
        let ids: Vec<[u8; 16]> = read_units(path, &section.unwrap_or_default())?
            .into_iter()
            .filter(is_carried)
            .map(|unit| unit.meta.id)
            .collect();
        let linked: Vec<bool> = ids.iter().filter_map(|id| self.linked.get(id).copied()).collect();
        if ids.is_empty() || linked.contains(&false) {
            return Ok(Some(Candidate { symbols, needs, units: None }));
        }
        let count = linked.len();
        Ok((count > 0).then_some(Candidate { symbols, needs, units: Some(count) }))
    }

    /// Takes members until no more are needed; whether there were some.
    fn look_through(&mut self, members: &mut [Option<Candidate>]) -> bool {
        let mut is_any = false;
        loop {
            let mut is_more = false;
            for place in members.iter_mut() {
                let is_needed = place.as_ref().is_some_and(|member| {
                    let defines = |name: &String| self.wanted.contains(name);
                    let mut definitions = member.symbols.definitions.iter();
                    member.units.is_some()
                        || definitions.any(|it| {
                            !matches!(it.strength, Strength::Common(_)) && defines(&it.name)
                        })
                });
                if is_needed && let Some(member) = place.take() {
                    self.take(member);
                    is_more = true;
                }
            }
            if !is_more {
                return is_any;
            }
            is_any = true;
        }
    }

    fn close_group(&mut self) {
        let mut group = std::mem::take(&mut self.group);
        while group.iter_mut().any(|members| self.look_through(members)) {}
    }

    fn take(&mut self, candidate: Candidate) {
        let mut pending = vec![self.add(candidate)];
        while let Some(needs) = pending.last_mut() {
            let Some(name) = needs.next() else {
                pending.pop();
                continue;
            };
            let name = wrapped_name(&self.wrapped, &name).into_owned();
            if self.defined.contains(&name) {
                continue;
            }
            let waiting = self.lazy.remove(&name).and_then(|member| self.waiting[member].take());
            match waiting {
                Some(member) => pending.push(self.add(member)),
                None => drop(self.wanted.insert(name)),
            }
        }
    }

    /// Adds what is taken; gives what it needs.
    fn add(&mut self, candidate: Candidate) -> std::vec::IntoIter<String> {
        let Candidate { symbols, needs, units } = candidate;
        for definition in &symbols.definitions {
            self.wanted.remove(&definition.name);
            self.defined.insert(definition.name.clone());
        }
        match units {
            Some(count) => {
                self.units = (self.units + count).min(self.records.len());
                let references = symbols.references.iter();
                let wrapped = references.map(|it| wrapped_name(&self.wrapped, it).into_owned());
                self.of_units.extend(wrapped.collect::<Vec<_>>());
                self.of_units.extend(symbols.references);
                self.of_units.extend(symbols.definitions.into_iter().map(|it| it.name));
            }
            None => self
                .taken
                .push(SurroundingNative { units_before: self.units as u32, object: symbols }),
        }
        needs.into_iter()
    }

    /// Takes a member at once if something needs it, and else when something does.
    fn wait(&mut self, member: Candidate) {
        let names = member.symbols.definitions.iter().map(|it| &it.name);
        if member.units.is_some() || names.clone().any(|name| self.wanted.contains(name)) {
            return self.take(member);
        }
        let place = self.waiting.len();
        for name in names.filter(|name| !self.defined.contains(*name)) {
            self.lazy.entry(name.clone()).or_insert(place);
        }
        self.waiting.push(Some(member));
    }

    /// Takes what refers to names and assigns some as an object.
    fn refer(&mut self, name: &str, references: Vec<String>, assigned: Vec<Assignment>) {
        if references.is_empty() && assigned.is_empty() {
            return;
        }
        let name = name.to_owned();
        let needs = references.clone();
        let definitions = assigned.into_iter().map(definition).collect();
        let symbols = NativeObject { name, definitions, references, ..NativeObject::default() };
        self.take(Candidate { symbols, needs, units: None });
    }

    fn all_names(&self) -> Vec<String> {
        let names = self.records.iter().flat_map(|unit| &unit.meta.symbols);
        names.map(|(name, _)| name.clone()).collect()
    }
}
