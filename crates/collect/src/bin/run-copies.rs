//! `run-copies [OPTIONS] PROGRAM… -- ARGUMENTS…`: copies of programs as they are.
//!
//! The engines without variants: each PROGRAM is a copy's, `--copies K` makes K
//! of the last one. For the tests of this crate, and to try an engine. Leaves as
//! `backtrail profile` does: with the program's status, 4 if copies diverged, 5
//! if the engine failed, 3 otherwise; `--report FILE` says more.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use backtrail_collect::Error;
use backtrail_collect::copies::{
    Copies, Engine, Event, Isolation, SlurmOptions, Variant, process, run_copies,
};

#[derive(Default)]
struct Line {
    isolation: Isolation,
    engine: Engine,
    programs: Vec<PathBuf>,
    arguments: Vec<OsString>,
    report: Option<PathBuf>,
    records: Option<PathBuf>,
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == process::VERB) {
        return process::main();
    }
    let line = match read(std::env::args_os().skip(1)) {
        Ok(line) => line,
        Err(what) => {
            eprintln!("run-copies: {what}");
            return ExitCode::from(2);
        }
    };
    let mut report = String::new();
    let result = run(&line, &mut report);
    if let Some(path) = &line.report {
        std::fs::write(path, report).expect("the report can be written");
    }
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("run-copies: {error}");
            ExitCode::from(match error {
                Error::Diverged { .. } => 4,
                Error::Engine { .. } => 5,
                Error::Interrupted { signal } => 128 + signal as u8,
                _ => 3,
            })
        }
    }
}

fn read(mut words: impl Iterator<Item = OsString>) -> Result<Line, String> {
    let mut line = Line::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{} needs a value", word.display()));
        match word.to_str() {
            Some("--") => {
                line.arguments = words.collect();
                break;
            }
            Some("--isolate") => {
                line.isolation = match value()?.to_str() {
                    Some("auto") => Isolation::Auto,
                    Some("copy") => Isolation::Copy,
                    Some("overlay") => Isolation::Overlay,
                    Some("none") => Isolation::None,
                    _ => return Err("--isolate auto|copy|overlay|none".to_owned()),
                }
            }
            Some("--slurm") => line.engine = Engine::Slurm(SlurmOptions::default()),
            Some("--slurm-dir" | "--slurm-arg" | "--slurm-retries") => {
                let value = value()?;
                let Engine::Slurm(options) = &mut line.engine else {
                    return Err("--slurm comes before".to_owned());
                };
                match word.to_str() {
                    Some("--slurm-dir") => options.folder = Some(value.into()),
                    Some("--slurm-arg") => options.arguments.push(value),
                    _ => options.retries = value.to_string_lossy().parse().unwrap_or(0),
                }
            }
            Some("--report") => line.report = Some(value()?.into()),
            Some("--records") => line.records = Some(value()?.into()),
            Some("--copies") => {
                let count = value()?.to_str().and_then(|word| word.parse::<usize>().ok());
                let last = line.programs.pop().ok_or("the program comes before --copies")?;
                line.programs.extend(std::iter::repeat_n(last, count.unwrap_or(1)));
            }
            _ => line.programs.push(word.into()),
        }
    }
    match line.programs.is_empty() {
        true => Err("say which program".to_owned()),
        false => Ok(line),
    }
}

fn run(line: &Line, report: &mut String) -> Result<u8, Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Write { path, source }
    };
    let temporary = std::env::temp_dir();
    let folder = tempfile::Builder::new().prefix("run-copies-").tempdir();
    let folder = folder.map_err(failed(&temporary))?;
    let name = line.programs[0].file_name().unwrap_or_default().to_owned();
    let mut variants = Vec::new();
    for (index, program) in line.programs.iter().enumerate() {
        let own = folder.path().join(format!("{index:03}"));
        std::fs::create_dir(&own).map_err(failed(&own))?;
        let executable = own.join(&name);
        std::fs::copy(program, &executable).map_err(failed(program))?;
        let records = line.records.as_deref().unwrap_or(folder.path());
        variants.push(Variant { executable, records: records.join(format!("records-{index:03}")) });
    }
    let entry = std::env::current_exe().map_err(failed(Path::new("/proc/self/exe")))?;
    let outcome = run_copies(&Copies {
        variants: &variants,
        name: line.programs[0].as_os_str(),
        arguments: &line.arguments,
        environment: &[],
        isolation: line.isolation,
        engine: line.engine.clone(),
        is_trial: false,
        inputs: false,
        entry: &entry,
        listener: &|event| {
            if let Event::Notice(text) = event {
                eprintln!("run-copies: {text}");
            }
        },
    })?;
    let _ = writeln!(report, "repeated {}", outcome.repeated);
    for (index, node) in outcome.nodes.iter().enumerate() {
        let _ = writeln!(report, "copy {} ran on {node}", index + 1);
    }
    if let Some(signal) = outcome.status.signal() {
        let _ = writeln!(report, "signal {signal}");
        return Ok(128 + signal as u8);
    }
    Ok(outcome.status.code().unwrap_or(0) as u8)
}
