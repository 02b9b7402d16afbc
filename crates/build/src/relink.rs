//! Links again: a recipe carried out with other objects for its units.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use ar_archive_writer::{ArchiveKind, DEFAULT_OBJECT_READER, NewArchiveMember};
use backtrail_interruption::bind;

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
        let failed = |status, said| Error::Link { path: self.program.to_owned(), status, said };
        let output = bind(&mut Command::new(&self.recipe.linker))
            // A driver of linkers that is killed leaves its own temporary files.
            .env("TMPDIR", self.scratch)
            .arg(format!("@{}", path.display()))
            .output()
            .map_err(|error| {
                failed(format!("cannot start {}", self.recipe.linker.display()), error.to_string())
            })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(failed(output.status.to_string(), first_error(&said).to_owned()))
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
                    let objects: Vec<&Vec<u8>> =
                        units.iter().filter_map(|unit| self.objects.get(unit)).collect();
                    let object = match objects[..] {
                        [] => continue,
                        [object] => object.clone(),
                        // Of a member that is taken all is taken, needed or not.
                        _ => self.merged(&objects)?,
                    };
                    contents.push((member.name.clone(), object));
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

    /// Several objects in one, as `ld -r` had merged them.
    fn merged(&self, objects: &[&Vec<u8>]) -> Result<Vec<u8>, Error> {
        let folder = tempfile::Builder::new().prefix("merged-").tempdir_in(self.scratch);
        let folder = folder.map_err(Error::write(self.scratch))?;
        let out = folder.path().join("merged.o");
        let mut linker = Command::new("ld");
        linker.arg("-r").arg("-o").arg(&out).env("TMPDIR", self.scratch);
        for (number, object) in objects.iter().enumerate() {
            linker.arg(write(&folder.path().join(format!("{number}.o")), object)?);
        }
        let failed = |status, said| Error::Link { path: self.program.to_owned(), status, said };
        let output = bind(&mut linker)
            .output()
            .map_err(|error| failed("cannot start ld".to_owned(), error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(output.status.to_string(), first_error(&said).to_owned()));
        }
        std::fs::read(&out).map_err(Error::read(&out))
    }

    /// A shared library that is no longer where it was linked from: where the
    /// program itself would find it.
    fn find_shared(&self, input: &Input, soname: Option<&str>) -> Result<PathBuf, Error> {
        let file = input.path.file_name().unwrap_or_default();
        // A path is no name.
        let soname = soname.filter(|name| !name.contains('/'));
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

/// The first line with an error in what a linker said: GNU ld, gold, lld, or a driver
/// that started one. Before it may be warnings, what was looked at when it was found
/// (GNU ld: ``in function `f':``, `in archive`), and behind it what led there.
fn first_error(said: &str) -> &str {
    let is_more = |line: &str| {
        line.starts_with([' ', '\t'])
            || line.starts_with(">>>")
            || ["warning: ", "note: ", "NOTE: "].iter().any(|it| line.contains(it))
            || [": in function ", ": In function "].iter().any(|it| line.contains(it))
    };
    // Of a driver, which only says that there was one.
    let is_end = |line: &str| {
        line.contains("linker command failed with") || line.contains(" error: ld returned ")
    };
    let lines = || said.lines().filter(|line| !line.trim().is_empty());
    let errors = || lines().filter(|line| !is_more(line));
    let found = errors().find(|line| !is_end(line)).or_else(|| errors().next());
    found.or_else(|| lines().next()).unwrap_or("it said nothing")
}

fn write(path: &Path, bytes: &[u8]) -> Result<PathBuf, Error> {
    std::fs::write(path, bytes).map_err(Error::write(path))?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::first_error;

    #[test]
    fn an_error_is_told_and_not_what_stands_before_it() {
        let stack = "/usr/bin/ld: warning: x.o: missing .note.GNU-stack section implies executable \
                     stack\n/usr/bin/ld: NOTE: This behaviour is deprecated\n";
        for (said, error) in [
            (
                "/usr/bin/ld: a.o: in function `f':\na.c:(.text+0x1): undefined reference to `g'\n\
                 collect2: error: ld returned 1 exit status\n",
                "a.c:(.text+0x1): undefined reference to `g'",
            ),
            (
                "/usr/bin/ld: cannot find -lnone: No such file or directory\n\
                 clang: error: linker command failed with exit code 1 (use -v to see invocation)\n",
                "/usr/bin/ld: cannot find -lnone: No such file or directory",
            ),
            (
                "ld.lld: warning: cannot find entry symbol _start\n\
                 ld.lld: error: undefined symbol: g\n>>> referenced by a.c:1\n",
                "ld.lld: error: undefined symbol: g",
            ),
            (
                "/usr/bin/ld.gold: warning: hidden symbol\na.o:a.c:function f: error: undefined \
                 reference to 'g'\n",
                "a.o:a.c:function f: error: undefined reference to 'g'",
            ),
            (
                "/usr/bin/ld: final link failed: No space left on device\n",
                "/usr/bin/ld: final link failed: No space left on device",
            ),
            (
                "clang: error: linker command failed due to signal\n",
                "clang: error: linker command failed due to signal",
            ),
            ("\n", "it said nothing"),
        ] {
            assert_eq!(
                first_error(&format!("{stack}{said}")).trim(),
                match error {
                    "it said nothing" => stack.lines().next().unwrap(),
                    error => error,
                }
            );
            assert_eq!(first_error(said), error);
        }
    }
}
