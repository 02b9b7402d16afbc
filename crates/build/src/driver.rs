//! The drop-in compiler: `backtrail cc` and `backtrail c++`.
//!
//! Clang is asked what it would do ([`crate::jobs`]); compilations of units are
//! done in two steps, links are recorded, and every other job is run as it is.
//! A command line that makes neither object nor executable is handed to clang
//! untouched, as is one at which clang crashes: its report is its own.
//!
//! Some options make clang go from source to object in more than one job
//! (`-save-temps`, `-no-integrated-as`, `-fembed-bitcode`). Those jobs are run
//! as they are; what is carried comes from the one job that clang would have
//! run without the option.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use backtrail_interruption::Folder;

use crate::clang::{self, Compiler, Driver};
use crate::codegen_args::Source;
use crate::compile::{self, End, Task};
use crate::jobs::{self, Job, Jobs};
use crate::{Error, driver_args, job_templates, link};

/// The language a driver assumes for linking, as `clang` and `clang++` do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C: `clang`.
    C,
    /// C++: `clang++`.
    Cxx,
}

/// Runs the compiler on `arguments`; the result is the status to leave with.
pub fn run(language: Language, arguments: Vec<OsString>) -> Result<i32, Error> {
    let clang = clang::find()?;
    let driver = match language {
        Language::C => Driver::for_c(clang),
        Language::Cxx => Driver::for_cxx(clang),
    };
    let texts: Option<Vec<String>> =
        arguments.iter().map(|argument| argument.to_str().map(str::to_owned)).collect();
    let Some(texts) = texts else {
        compile::warn("nothing is carried: an argument is not UTF-8");
        return Err(exec(&driver, &arguments));
    };
    if driver_args::makes_nothing(&texts) {
        return Err(exec(&driver, &arguments));
    }
    let (texts, for_database) = driver_args::without_database(texts);
    if for_database {
        // Only a real run of clang writes an entry for a compilation database;
        // ours comes behind it, in silence.
        if texts.iter().any(|text| text == "-") {
            compile::warn("nothing is carried: -MJ with standard input");
            return Err(exec(&driver, &arguments));
        }
        let status = driver.command().args(&arguments).status();
        let status = status.map_err(|error| clang::not_runnable(&driver.program, error))?;
        if !status.success() {
            return Ok(compile::status_code(status));
        }
    }
    let words = driver.mode.map(str::to_owned).into_iter().chain(jobs::for_terminal(texts));
    let words: Vec<String> = words.collect();
    let Some(mut jobs) = job_templates::ask(&driver.program, &words)? else {
        return Err(exec(&driver, &arguments));
    };
    if !jobs.jobs.iter().any(is_ours) {
        return Err(exec(&driver, &arguments));
    }
    jobs::set_width(&mut jobs.jobs);
    let scratch = match Folder::new("cc") {
        Ok(scratch) => scratch,
        Err(error) => {
            compile::warn(&format!("nothing is carried: no place for temporary files: {error}"));
            return Err(exec(&driver, &arguments));
        }
    };
    let folder = std::path::absolute(scratch.path()).map_err(Error::read(scratch.path()))?;
    let keeps_intermediates = jobs.jobs.iter().any(|job| job.has_prefix("-save-temps"));
    if !keeps_intermediates {
        rename_intermediates(&mut jobs.jobs, &folder);
    }
    let build = Build {
        driver: &driver,
        words: &words,
        version: jobs.version.clone(),
        input: spool_input(&jobs, &folder)?,
        scratch: folder,
        failed: BTreeSet::new(),
        direct: None,
        indirect_units: 0,
        keeps_intermediates,
        status: 0,
        shown: !for_database,
    };
    match build.run(&jobs)? {
        Finished::Status(status) => Ok(status),
        Finished::Crashed(input) => {
            // Once more, by clang alone. Not as [`exec`]: our folder is to go.
            let mut command = driver.command();
            command.args(&arguments);
            if let Some(input) = input {
                command.stdin(File::open(&input).map_err(Error::read(&input))?);
            }
            let status = command.status();
            status
                .map(compile::status_code)
                .map_err(|error| clang::not_runnable(&driver.program, error))
        }
    }
}

/// Becomes clang. Returns only if that fails.
fn exec(driver: &Driver, arguments: &[OsString]) -> Error {
    clang::not_runnable(&driver.program, driver.command().args(arguments).exec())
}

/// What a job that matters to us does.
fn is_ours(job: &Job) -> bool {
    let makes_bitcode_for_linking = job.has("-emit-llvm-bc") && job.has_prefix("-flto");
    job.has("-emit-obj") || makes_bitcode_for_linking || is_assembler(job) || is_linker(job)
}

/// If a job reads standard input, what it reads, kept: it may be needed again.
fn spool_input(jobs: &Jobs, scratch: &Path) -> Result<Option<PathBuf>, Error> {
    let reads = |job: &Job| job.is_cc1() && job.arguments.last().is_some_and(|last| last == "-");
    if !jobs.jobs.iter().any(reads) {
        return Ok(None);
    }
    let path = scratch.join("standard-input");
    let mut file = File::create(&path).map_err(Error::write(&path))?;
    io::copy(&mut io::stdin().lock(), &mut file).map_err(Error::write(&path))?;
    Ok(Some(path))
}

/// Clang names temporary files that it would have made; ours are in a folder of
/// our own.
fn rename_intermediates(jobs: &mut [Job], scratch: &Path) {
    for index in 0..jobs.len() {
        let Some(output) = jobs[index].value("-o").map(str::to_owned) else { continue };
        if !is_temporary(&output) || !jobs[index + 1..].iter().any(|job| job.has(&output)) {
            continue;
        }
        let name = Path::new(&output).file_name().unwrap_or_default();
        let renamed = scratch.join(name).display().to_string();
        let all = jobs.iter_mut().flat_map(|job| &mut job.arguments);
        all.filter(|argument| **argument == output)
            .for_each(|argument| argument.clone_from(&renamed));
    }
}

/// Whether clang chose this name, as LLVM's `createTemporaryFile` does: in the
/// folder for such files, `STEM-1a2b3c.ENDING`.
fn is_temporary(path: &str) -> bool {
    let folder = ["TMPDIR", "TMP", "TEMP", "TEMPDIR"].iter().find_map(std::env::var_os);
    let folder = folder.map_or(PathBuf::from("/tmp"), PathBuf::from);
    let path = Path::new(path);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let random = stem.rsplit_once('-').is_some_and(|(_, random)| {
        random.len() == 6 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    random && path.parent() == Some(&folder)
}

/// One command line's work.
struct Build<'a> {
    driver: &'a Driver,
    /// The command line as clang was asked about it.
    words: &'a [String],
    version: String,
    scratch: PathBuf,
    /// What stands for standard input.
    input: Option<PathBuf>,
    /// Outputs of failed jobs: what needs them is not run.
    failed: BTreeSet<String>,
    /// The jobs that would make each unit's object at once, when asked for.
    direct: Option<Vec<Job>>,
    /// Units made in several jobs so far.
    indirect_units: usize,
    keeps_intermediates: bool,
    status: i32,
    /// Whether what the compiler says is shown.
    shown: bool,
}

/// How a command line's work ended.
enum Finished {
    Status(i32),
    /// Clang crashed, having read this as its standard input.
    Crashed(Option<PathBuf>),
}

/// What the object of a job comes from.
enum Origin {
    /// A source, in this one job.
    Source,
    /// A source, in several jobs.
    SourceInSteps,
    Assembly,
}

impl Build<'_> {
    fn run(mut self, jobs: &Jobs) -> Result<Finished, Error> {
        let verbose =
            driver_args::is_verbose(self.words) || jobs.jobs.iter().any(|job| job.has("-v"));
        if self.shown {
            let said = if verbose { &jobs.preamble } else { &jobs.diagnostics };
            let _ = io::stderr().write_all(said.as_bytes());
        }
        for (index, job) in jobs.jobs.iter().enumerate() {
            if job.arguments.iter().any(|argument| self.failed.contains(argument)) {
                self.failed.extend(job.value("-o").map(str::to_owned));
                continue;
            }
            if verbose && self.shown {
                let alone =
                    if jobs.jobs.len() == 1 && job.is_clang() { jobs::IN_PROCESS } else { "" };
                eprintln!("{alone}{}{job}", if alone.is_empty() { "" } else { "\n" });
            }
            match self.run_job(&jobs.jobs, index)? {
                End::Status(0) => {}
                End::Status(status) => self.fail(job, status),
                End::Crashed => return Ok(Finished::Crashed(self.input)),
            }
        }
        Ok(Finished::Status(self.status))
    }

    /// After a failed job, what clang's driver does: its output goes.
    fn fail(&mut self, job: &Job, status: i32) {
        if let Some(output) = job.value("-o") {
            self.failed.insert(output.to_owned());
            let path = Path::new(output);
            let is_ours =
                path.metadata().is_ok_and(|data| data.is_file() && !data.permissions().readonly());
            if is_ours && !self.keeps_intermediates {
                let _ = std::fs::remove_file(path);
            }
        }
        if self.status == 0 {
            self.status = status;
        }
        let tool = match job {
            _ if is_linker(job) => "linker",
            _ if job.is_cc1() => "clang frontend",
            _ if is_assembler(job) && !job.is_clang() => "assembler",
            _ => return,
        };
        // The compiler has told what is wrong; other tools are named.
        if self.shown && status < 128 && !(job.is_cc1() && status == 1) {
            let text =
                format!("{tool} command failed with exit code {status} (use -v to see invocation)");
            eprintln!("{}", driver_args::error_line(&self.driver.name(), &text, self.words));
        }
    }

    fn run_job(&mut self, jobs: &[Job], index: usize) -> Result<End, Error> {
        let job = &jobs[index];
        if job.is_cc1() {
            return self.run_compiler(jobs, index);
        }
        if is_assembler(job) {
            let status = self.run_plainly(job)?;
            if status == 0 {
                return self.finish_assembled(jobs, index);
            }
            return Ok(End::Status(status));
        }
        if index + 1 == jobs.len() && is_linker(job) {
            let source = |made: usize| {
                Some((jobs[made].value("-o")?.to_owned(), original_source(jobs, made)?))
            };
            let sources = (0..index).filter_map(source).collect();
            return link::link(job, &sources, &self.scratch, self.shown).map(End::Status);
        }
        self.run_plainly(job).map(End::Status)
    }

    /// Runs a job as it is.
    fn run_plainly(&self, job: &Job) -> Result<i32, Error> {
        let mut command = compile::command(&job.program, &job.arguments, &self.scratch)?;
        if let Some(input) = &self.input {
            command.stdin(File::open(input).map_err(Error::read(input))?);
        }
        if !self.shown {
            command.stderr(std::process::Stdio::null());
        }
        let status = command.status().map_err(|error| clang::not_runnable(&job.program, error))?;
        Ok(compile::status_code(status))
    }

    fn run_compiler(&mut self, jobs: &[Job], index: usize) -> Result<End, Error> {
        let job = &jobs[index];
        let output = job.value("-o").filter(|output| *output != "-").map(Path::new);
        let (Some(source), Some(output)) = (compile::source_of(job), output) else {
            let status = self.run_plainly(job)?;
            return Ok(if compile::is_crash(status) { End::Crashed } else { End::Status(status) });
        };
        let source = match source {
            Ok(source) => source,
            Err(why) => return self.compile_without_ir(job, output, &why),
        };
        let compiler = Compiler::new(&job.program, &self.version)?;
        let scratch = self.unit_scratch(index)?;
        let name = original_source(jobs, index).unwrap_or_else(|| source.path.clone());
        let in_steps = matches!(origin(jobs, index), Origin::SourceInSteps);
        let direct = if in_steps { self.next_direct_job(job)? } else { None };
        let whole = direct.as_ref().map_or((job, &source), |(job, source)| (job, source));
        let task = Task {
            compiler: &compiler,
            job: whole.0,
            source: whole.1,
            name: &name,
            object: output,
            scratch: &scratch,
            input: self.input.as_deref(),
            shown: self.shown,
        };
        if direct.is_none() {
            return task.compile();
        }
        match self.run_plainly(job)? {
            0 => task.finish_beside(output),
            status => Ok(End::Status(status)),
        }
    }

    /// Compiles as clang would, and notes where possible why no IR is carried.
    fn compile_without_ir(&self, job: &Job, output: &Path, why: &str) -> Result<End, Error> {
        let name = job.arguments.last().map_or("a unit", String::as_str);
        let status = self.run_plainly(job)?;
        if compile::is_crash(status) {
            return Ok(End::Crashed);
        }
        if status == 0 {
            compile::warn(&format!("the IR of {name} is not carried: {why}"));
            let language = job.value("-x").unwrap_or_default();
            let meta = compile::meta_without_ir(name, language, &self.version, why);
            compile::note_missing(output, meta)?;
        }
        Ok(End::Status(status))
    }

    /// An assembler has made an object: its unit, if it came from a source.
    fn finish_assembled(&mut self, jobs: &[Job], index: usize) -> Result<End, Error> {
        let job = &jobs[index];
        let Some(output) = job.value("-o").map(Path::new).filter(|output| output.is_file()) else {
            return Ok(End::Status(0));
        };
        let source = original_source(jobs, index);
        let name = source.unwrap_or_else(|| "assembly".to_owned());
        let why = match origin(jobs, index) {
            Origin::Assembly => "assembly",
            _ => match self.next_direct_job(job)? {
                Some((direct, source)) => {
                    let compiler = Compiler::new(&direct.program, &self.version)?;
                    let task = Task {
                        compiler: &compiler,
                        job: &direct,
                        source: &source,
                        name: &name,
                        object: output,
                        scratch: &self.unit_scratch(index)?,
                        input: self.input.as_deref(),
                        shown: self.shown,
                    };
                    return task.finish_beside(output);
                }
                None => {
                    let why = "compiled by way of an assembly file";
                    compile::warn(&format!("the IR of {name} is not carried: {why}"));
                    why
                }
            },
        };
        let meta = compile::meta_without_ir(&name, "assembler", &self.version, why);
        compile::note_missing(output, meta)?;
        Ok(End::Status(0))
    }

    fn unit_scratch(&self, index: usize) -> Result<PathBuf, Error> {
        let scratch = self.scratch.join(format!("unit-{index}"));
        std::fs::create_dir(&scratch).map_err(Error::write(&scratch))?;
        Ok(scratch)
    }

    /// The one job that would make the object that `job` is the last of several
    /// to make.
    fn next_direct_job(&mut self, job: &Job) -> Result<Option<(Job, Source)>, Error> {
        if self.direct.is_none() {
            let words = driver_args::for_direct_jobs(self.words);
            let jobs = jobs::ask(&self.driver.program, &words)?.map(|jobs| jobs.jobs);
            self.direct = Some(jobs.unwrap_or_default());
        }
        let mut objects =
            self.direct.iter().flatten().filter(|job| job.is_cc1() && job.has("-emit-obj"));
        let direct = objects.nth(self.indirect_units).cloned();
        self.indirect_units += 1;
        let same = |direct: &Job| direct.value("-main-file-name") == job.value("-main-file-name");
        // The last job of -fembed-bitcode has no name.
        let fits = |direct: &Job| same(direct) || job.value("-main-file-name").is_none();
        let Some(direct) = direct.filter(fits) else { return Ok(None) };
        Ok(match compile::source_of(&direct) {
            Some(Ok(source)) => Some((direct, source)),
            _ => None,
        })
    }
}

/// The place of the earlier job whose output job `index` reads.
fn maker_of_input(jobs: &[Job], index: usize) -> Option<usize> {
    jobs[..index].iter().rposition(|job| job.value("-o").is_some_and(|made| jobs[index].has(made)))
}

/// What the object made by job `index` comes from.
fn origin(jobs: &[Job], index: usize) -> Origin {
    let starts_as_assembly = is_assembler(&jobs[index]);
    match maker_of_input(jobs, index) {
        None if starts_as_assembly => Origin::Assembly,
        None => Origin::Source,
        // Assembly goes through the preprocessor alone.
        Some(maker) if starts_as_assembly && jobs[maker].has("-E") => Origin::Assembly,
        Some(_) => Origin::SourceInSteps,
    }
}

/// The source that the first of the jobs that lead to job `index` reads.
fn original_source(jobs: &[Job], mut index: usize) -> Option<String> {
    while let Some(maker) = maker_of_input(jobs, index) {
        index = maker;
    }
    jobs[index].arguments.iter().rev().find(|word| !word.starts_with('-') || *word == "-").cloned()
}

fn is_assembler(job: &Job) -> bool {
    let name = job.program.file_name().unwrap_or_default().to_string_lossy();
    job.arguments.first().is_some_and(|first| first == "-cc1as")
        || name == "as"
        || name.ends_with("-as")
}

fn is_linker(job: &Job) -> bool {
    let name = job.program.file_name().unwrap_or_default().to_string_lossy();
    ["ld", "lld", "mold", "gold"].iter().any(|linker| {
        name == *linker
            || name.ends_with(&format!(".{linker}"))
            || name.starts_with(&format!("{linker}."))
            || name.starts_with(&format!("{linker}-"))
    }) || name.ends_with("-ld")
}
