//! Links again: a recipe carried out with other objects for its units.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use ar_archive_writer::{ArchiveKind, DEFAULT_OBJECT_READER, NewArchiveMember};

use crate::Error;
use crate::carry::recipe::{Input, InputKind, Member, Recipe, RecipeArg, decompress_native};

/// The objects to use, by unit.
pub type Objects = BTreeMap<[u8; 16], Vec<u8>>;

/// A recipe and what it is carried out with.
pub struct Relink<'a> {
    /// The executable the recipe comes from, for messages.
    pub program: &'a Path,
    /// The recipe.
    pub recipe: &'a Recipe,
    /// The objects of the units; a unit without one is left out, as the linker
    /// left it out before.
    pub objects: &'a Objects,
    /// Further objects, by name.
    pub added: &'a [(&'a str, &'a [u8])],
    /// Further options for the linker.
    pub options: &'a [String],
    /// A folder for intermediate files.
    pub scratch: &'a Path,
}

impl Relink<'_> {
    /// Links to `output`.
    pub fn run(&self, output: &Path) -> Result<(), Error> {
        let mut words = self.option_words(self.options);
        words.extend(self.missing_libraries()?);
        let mut added = self.added_words()?;
        for argument in &self.recipe.arguments {
            match argument {
                RecipeArg::Text(text) => words.push(text.clone()),
                RecipeArg::Output => words.push(output.display().to_string()),
                RecipeArg::Joined(text, input) => {
                    let [file] = &self.files(*input)?[..] else { continue };
                    words.push(format!("{text}{}", file.display()));
                }
                RecipeArg::Input(input) => {
                    let files = self.files(*input)?;
                    words.extend(files.iter().map(|file| file.display().to_string()));
                    if matches!(self.recipe.inputs[*input as usize].kind, InputKind::Units(_)) {
                        words.append(&mut added);
                    }
                }
            }
        }
        // Only archives hold units.
        words.append(&mut added);
        self.call_linker(&words)
    }

    fn call_linker(&self, words: &[String]) -> Result<(), Error> {
        // Always a response file: the words may be many.
        let path = self.scratch.join("link.rsp");
        let mut file = BufWriter::new(std::fs::File::create(&path).map_err(Error::write(&path))?);
        for word in words {
            writeln!(file, "{}", crate::response_file::quote(word)).map_err(Error::write(&path))?;
        }
        file.flush().map_err(Error::write(&path))?;
        let what = format!("linking a variant of {}", self.program.display());
        let output = Command::new(&self.recipe.linker)
            .arg(format!("@{}", path.display()))
            .output()
            .map_err(|error| Error::Tool {
                what: what.clone(),
                status: format!("cannot start {}", self.recipe.linker.display()),
                stderr: error.to_string(),
            })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        // GNU ld first names the function it was looking at.
        let mut lines = said.lines().filter(|line| !line.trim().is_empty()).peekable();
        let first = lines.peek().copied().unwrap_or("it said nothing");
        let line = lines.find(|line| !line.contains(": in function `")).unwrap_or(first);
        Err(Error::Tool { what, status: output.status.to_string(), stderr: line.to_owned() })
    }

    fn option_words(&self, options: &[impl AsRef<str>]) -> Vec<String> {
        let prefix = if self.recipe.through_driver { "-Wl," } else { "" };
        options.iter().map(|option| format!("{prefix}{}", option.as_ref())).collect()
    }

    fn added_words(&self) -> Result<Vec<String>, Error> {
        let mut words = Vec::new();
        for (name, object) in self.added {
            let path = write(&self.scratch.join(name), object)?;
            words.push(path.display().to_string());
        }
        Ok(words)
    }

    /// The files that stand for an input.
    fn files(&self, index: u32) -> Result<Vec<PathBuf>, Error> {
        let input = &self.recipe.inputs[index as usize];
        let name = input.path.file_name().unwrap_or_default().to_string_lossy();
        let place = |name: &str| self.scratch.join(format!("{index}-{name}"));
        match &input.kind {
            InputKind::Units(units) => {
                let mut files = Vec::new();
                for (part, object) in
                    units.iter().filter_map(|unit| self.objects.get(unit)).enumerate()
                {
                    files.push(write(&place(&format!("{part}-{name}")), object)?);
                }
                Ok(files)
            }
            InputKind::Native { contents, .. } => {
                Ok(vec![write(&place(&name), &self.native(contents)?)?])
            }
            InputKind::Archive(members) => Ok(vec![self.archive(&place(&name), members)?]),
            InputKind::System | InputKind::Shared { .. } if input.path.exists() => {
                Ok(vec![input.path.clone()])
            }
            InputKind::Shared { soname } => Ok(vec![self.find_shared(input, soname.as_deref())?]),
            InputKind::System => Err(self.gone(input)),
        }
    }

    fn gone(&self, input: &Input) -> Error {
        Error::InputGone { program: self.program.to_owned(), path: input.path.clone() }
    }

    fn native(&self, contents: &[u8]) -> Result<Vec<u8>, Error> {
        decompress_native(contents)
            .map_err(|damaged| Error::Damaged { path: self.program.to_owned(), what: damaged.0 })
    }

    fn archive(&self, path: &Path, members: &[Member]) -> Result<PathBuf, Error> {
        let mut contents: Vec<(String, Vec<u8>)> = Vec::new();
        for member in members {
            match &member.kind {
                InputKind::Units(units) => {
                    let objects = units.iter().filter_map(|unit| self.objects.get(unit));
                    contents.extend(objects.map(|object| (member.name.clone(), object.clone())));
                }
                InputKind::Native { contents: bytes, .. } => {
                    contents.push((member.name.clone(), self.native(bytes)?));
                }
                _ => {}
            }
        }
        let members: Vec<_> = contents
            .iter()
            .map(|(name, bytes)| {
                NewArchiveMember::new(&bytes[..], &DEFAULT_OBJECT_READER, name.clone())
            })
            .collect();
        let mut out = std::io::Cursor::new(Vec::new());
        ar_archive_writer::write_archive_to_stream(
            &mut out,
            &members,
            ArchiveKind::Gnu,
            false,
            None,
        )
        .map_err(Error::write(path))?;
        write(path, out.get_ref())
    }

    /// A shared library that is no longer where it was linked from: where the
    /// program itself would find it.
    fn find_shared(&self, input: &Input, soname: Option<&str>) -> Result<PathBuf, Error> {
        let file = input.path.file_name().unwrap_or_default();
        let names = [soname.map(PathBuf::from), Some(PathBuf::from(file))];
        let beside = self.program.parent().unwrap_or(Path::new(".")).to_owned();
        let variable = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders =
            std::env::split_paths(&variable).chain([beside.clone(), beside.join("../lib")]);
        let found = folders
            .flat_map(|folder| {
                names.iter().flatten().map(move |name| folder.join(name)).collect::<Vec<_>>()
            })
            .find(|path| path.is_file());
        found.ok_or_else(|| self.gone(input))
    }

    /// Libraries named by `-l` whose folder is gone get a folder of ours.
    fn missing_libraries(&self) -> Result<Vec<String>, Error> {
        let mut words = Vec::new();
        for input in &self.recipe.inputs {
            let InputKind::Shared { soname } = &input.kind else { continue };
            if input.path.exists() {
                continue;
            }
            let found = self.find_shared(input, soname.as_deref())?;
            let folder = self.scratch.join("libraries");
            std::fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
            let link = folder.join(input.path.file_name().unwrap_or_default());
            std::os::unix::fs::symlink(std::path::absolute(&found).unwrap_or(found), &link)
                .map_err(Error::write(&link))?;
            words = vec![format!("-L{}", folder.display())];
        }
        Ok(words)
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<PathBuf, Error> {
    std::fs::write(path, bytes).map_err(Error::write(path))?;
    Ok(path.to_owned())
}
