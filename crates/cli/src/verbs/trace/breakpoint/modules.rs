//! The files that are traced: an executable, and those of its libraries that are asked
//! for.
//!
//! Which libraries a program has is known once the dynamic linker has done its work:
//! it is started up to its entry point, looked at, and ended. All its libraries are
//! noted, since which of them define a name decides whom a call calls.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use backtrail_build::Error;
use backtrail_machine::code::{Code, Library};
use backtrail_machine::image::{Image, build_id_text};
use backtrail_machine::tracee::Launch;
use serde::{Deserialize, Serialize};

use super::{Request, hide_records};
use crate::exit::{Unreadable, Usage};

/// An executable and its libraries, wherever they are read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Modules {
    program: FileId,
    /// In the order in which names are looked up; whether they are traced. Empty if
    /// none is.
    libraries: Vec<(FileId, bool)>,
}

/// A file, and what tells it from others of its name: its build id and its length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileId {
    path: Vec<u8>,
    build: String,
}

impl FileId {
    fn of(path: &Path) -> anyhow::Result<Self> {
        let image = Image::open(path)?;
        let length = std::fs::metadata(path).map_err(Error::read(path))?.len();
        let id = image.build_id.as_deref().map(build_id_text).unwrap_or_default();
        Ok(Self { path: path.as_os_str().as_bytes().to_vec(), build: format!("{id} {length}") })
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.path.clone()))
    }
}

impl Modules {
    /// What is asked for, of an executable that can be traced, and the code of that.
    pub fn of(program: &Path, request: &Request<'_>) -> anyhow::Result<(Self, Code)> {
        use backtrail_machine::Error::{Corrupt, NotElf, Unsupported};
        let code = Code::of_file(program).map_err(|error| match error {
            // These do not know of which file they are.
            NotElf | Unsupported(_) | Corrupt(_) => {
                anyhow::Error::new(Unreadable(format!("{}: {error}", program.display())))
            }
            error => error.into(),
        })?;
        let image = Image::open(program)?;
        if image.has_section(".go.buildinfo") || image.has_section(".note.go.buildid") {
            anyhow::bail!(Unreadable(format!(
                "{} cannot be traced by breakpoints: it is a Go program, whose threads and stacks \
                 are its own; use delve",
                program.display()
            )));
        }
        let program_id = FileId::of(program)?;
        if request.libraries.is_empty() {
            return Ok((Self { program: program_id, libraries: Vec::new() }, code));
        }
        let libraries = libraries(program, &code, request)?;
        let modules = Self { program: program_id, libraries };
        let code = modules.code()?;
        Ok((modules, code))
    }

    /// The executable.
    pub fn program(&self) -> PathBuf {
        self.program.path()
    }

    /// Fails if a file is another one here than where it was noted.
    pub fn check(&self) -> anyhow::Result<()> {
        for file in self.libraries.iter().map(|(file, _)| file).chain([&self.program]) {
            if FileId::of(&file.path())? != *file {
                anyhow::bail!(Unreadable(format!(
                    "{} is not the same file here as where the run was planned",
                    file.path().display()
                )));
            }
        }
        Ok(())
    }

    /// Their code.
    pub fn code(&self) -> Result<Code, backtrail_machine::Error> {
        if self.libraries.is_empty() {
            return Code::of_file(&self.program());
        }
        let libraries = self.libraries.iter();
        let libraries: Vec<Library> = libraries
            .map(|(file, traced)| Library { path: file.path(), traced: *traced })
            .collect();
        Code::with_libraries(&self.program(), &libraries)
    }
}

/// All libraries of a program, with those marked that are asked for.
fn libraries(
    program: &Path,
    code: &Code,
    request: &Request<'_>,
) -> anyhow::Result<Vec<(FileId, bool)>> {
    let nothing = Path::new("/dev/null");
    let launch = Launch {
        executable: program,
        name: request.program.name(),
        arguments: request.arguments,
        input: Some(File::open(nothing).map_err(Error::read(nothing))?),
        output: Some(Stdio::null()),
        errors: Some(Stdio::null()),
        prepare: Some(&|command| hide_records(command)),
    };
    let loaded = launch.start(code)?.libraries()?;
    let matchers: Vec<_> = request.libraries.iter().map(globset::Glob::compile_matcher).collect();
    let name = |path: &Path| path.file_name().unwrap_or(OsStr::new("")).to_owned();
    for (matcher, glob) in matchers.iter().zip(request.libraries) {
        if !loaded.iter().any(|it| matcher.is_match(name(&it.path))) {
            let names: Vec<String> =
                loaded.iter().map(|it| name(&it.path).to_string_lossy().into_owned()).collect();
            let there = match names.is_empty() {
                true => "it has none".to_owned(),
                false => format!("there are {}", names.join(", ")),
            };
            anyhow::bail!(Usage(format!(
                "no library of {} matches {glob} when it begins: {there}; what it loads later is \
                 not traced",
                program.display()
            )));
        }
    }
    let is_wanted = |path: &Path| matchers.iter().any(|it| it.is_match(name(path)));
    loaded.iter().map(|it| Ok((FileId::of(&it.path)?, is_wanted(&it.path)))).collect()
}
