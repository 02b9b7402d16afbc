//! The files that a command line names: what is read and what is written.
//!
//! Nothing is written over what is read, whatever either is called: two names are
//! compared by the file behind them, so links of both kinds and relative paths make
//! no difference. Every verb says here what it reads and writes, and is checked before
//! it begins; a verb that finds more inputs on its way checks again
//! ([`check_output`]). `tune` without `-o` and the PROG of `detach` are changed in
//! place, which is what they are for.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use backtrail_build::carry::Carried;
use backtrail_build::libraries::own_libraries;

use super::{Command, Counting};
use crate::exit::Usage;
use crate::verbs::{instrument, profile};

/// What a command line reads and writes.
#[derive(Default)]
struct Files<'a> {
    inputs: Vec<&'a Path>,
    outputs: Vec<PathBuf>,
}

impl<'a> Files<'a> {
    fn of(inputs: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        Self { inputs: inputs.into_iter().map(PathBuf::as_path).collect(), outputs: Vec::new() }
    }

    fn writing<'b>(mut self, outputs: impl IntoIterator<Item = &'b PathBuf>) -> Self {
        self.outputs.extend(outputs.into_iter().cloned());
        self
    }

    /// A page goes into a folder of its own.
    fn with_page(mut self, folder: Option<&PathBuf>) -> Self {
        self.outputs.extend(folder.map(|folder| folder.join("index.html")));
        self
    }

    fn named(command: &'a Command) -> Self {
        let counting = |counting: &'a Counting| counting.weights.iter();
        match command {
            Command::Info(args) => Self::of([&args.program].into_iter().chain(&args.side)),
            Command::Instrument(args) => {
                let lists = args.pt_list.iter().chain(counting(&args.counting));
                Self::of(lists.chain([&args.program])).writing([&instrument::output(args)])
            }
            Command::Trace(args) => {
                let mut files = Self::of(&args.weights).writing(&args.status);
                files.inputs.push(&args.program);
                if !args.costs {
                    files.outputs.push(crate::verbs::trace::output(args));
                }
                files
            }
            Command::Profile(args) => {
                let mut files = Self::of(counting(&args.counting)).writing(&args.status);
                files.inputs.push(&args.program);
                files.outputs.push(profile::output(args));
                files
            }
            Command::Show(args) => Self::of([&args.record].into_iter().chain(&args.exe))
                .writing(&args.output)
                .with_page(args.html.as_ref()),
            Command::Paths(args) => {
                Self::of(args.files.iter().chain(&args.exe).chain(args.compare.iter().flatten()))
                    .writing(&args.output)
                    .with_page(args.html.as_ref())
            }
            Command::Export(args) => Self::of([&args.file]).writing(&args.output),
            Command::Autopsy(args) => {
                let files = Self::of(args.cores.iter().chain(&args.exe));
                let numbered = args.html.iter().flat_map(|folder| {
                    (1..=args.cores.len()).map(move |number| folder.join(format!("{number}.html")))
                });
                let numbered: Vec<PathBuf> = numbered.collect();
                files.with_page(args.html.as_ref()).writing(&numbered)
            }
            Command::Tune(args) => Self::of([&args.program]).writing(&args.output),
            Command::Detach(args) => Self::of([&args.program]).writing(&args.output),
            Command::Plan(args) => {
                Self::of([&args.program, &args.weights].into_iter().chain(&args.on))
            }
            // What it writes is known when the units are: it checks then.
            Command::Extract(args) => Self::of([&args.program]),
            // What is read and written is clang's, cargo's or the program's own affair.
            Command::Cc { .. }
            | Command::Cxx { .. }
            | Command::Cargo { .. }
            | Command::Run { .. } => Self::default(),
            Command::Cache(_) | Command::Completions { .. } | Command::Manual { .. } => {
                Self::default()
            }
        }
    }
}

/// Fails if something would be written over what is read, or twice to one file.
pub fn check(command: &Command) -> Result<(), Usage> {
    let Files { inputs, outputs } = Files::named(command);
    for (place, output) in outputs.iter().enumerate() {
        check_output(output, inputs.iter().copied())?;
        if outputs[..place].iter().any(|other| is_same(output, other)) {
            let path = output.display();
            return Err(Usage(format!("{path} would be written twice; give two files")));
        }
    }
    Ok(())
}

/// Fails if `output` is one of `inputs`, or lies in a folder that is one.
pub fn check_output<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Usage> {
    let overwritten =
        inputs.into_iter().find(|input| is_same(output, input) || is_in(output, input));
    let Some(input) = overwritten else { return Ok(()) };
    let shown = output.display();
    Err(Usage(if input == output {
        format!("{shown} is what is read, and would be overwritten; give another -o")
    } else {
        format!("{shown} would be written over {}, which is read; give another -o", input.display())
    }))
}

/// Fails if what is made of `carried` would be written over a part of it: its side file
/// or a library of its own; libraries of a variant go beside it, into `OUTPUT.libs`.
pub fn check_output_of(output: &Path, carried: &Carried) -> anyhow::Result<()> {
    let libraries = own_libraries(carried)?;
    let mut inputs: Vec<&Path> = carried.side.iter().map(PathBuf::as_path).collect();
    inputs.extend(libraries.values().map(|library| library.path.as_path()));
    check_output(output, inputs.iter().copied())?;
    let mut folder = output.as_os_str().to_owned();
    folder.push(".libs");
    for name in libraries.keys() {
        check_output(&Path::new(&folder).join(name), inputs.iter().copied())?;
    }
    Ok(())
}

/// Whether both are names of one regular file, or will be.
fn is_same(one: &Path, other: &Path) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => {
            one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
        }
        (Err(_), Err(_)) => resolved(one).is_some_and(|path| Some(path) == resolved(other)),
        _ => false,
    }
}

/// Whether `path` is, or will be, below `folder`.
fn is_in(path: &Path, folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    folder.is_dir() && resolved(path).is_some_and(|path| path.starts_with(&folder))
}

/// A path without links, of a file that need not be there.
fn resolved(path: &Path) -> Option<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Some(path);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
    Some(folder.join(path.file_name()?))
}
