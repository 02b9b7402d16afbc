//! Where the time goes when one unit is compiled.
//!
//! The steps are run from outside, as clang's driver runs them: what
//! `backtrail cc` does beyond them is what is left of its own time.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::build::progress;
use super::commands::Call;
use super::cost::{self, Least};
use crate::command;
use crate::corpus::tree::Workshop;

/// CPU seconds of one unit's compilation and of its parts.
#[derive(Debug, Serialize, Deserialize)]
pub struct Anatomy {
    /// The unit.
    pub unit: String,
    /// Plain clang, in one step.
    pub plain: f64,
    /// `backtrail cc`, when it knows what clang would do.
    pub ours: f64,
    /// `backtrail cc`, when it has to ask.
    pub asking: f64,
    /// clang, asked what it would do (`-###`).
    pub question: f64,
    /// clang on an empty source: what a process of it costs.
    pub start: f64,
    /// `backtrail cc` on an empty source.
    pub ours_start: f64,
    /// The first step: to bitcode with line tables.
    pub first: f64,
    /// The same without line tables.
    pub first_without_lines: f64,
    /// The worker: the program model, and the bitcode without line tables.
    pub worker: f64,
    /// How often it is called.
    pub worker_calls: usize,
    /// The second step: code from bitcode.
    pub second: f64,
}

impl Anatomy {
    /// What `backtrail cc` does besides: compressing, attaching, writing, and
    /// clang once more for a unit whose loops are to be optimised apart.
    pub fn rest(&self) -> f64 {
        (self.ours - self.first - self.worker - self.second).max(0.0)
    }
}

/// Takes apart what `call`, a compilation by `backtrail cc`, does.
pub fn measure(workshop: &Workshop, call: &Call, unit: &str, rounds: usize) -> Result<Anatomy> {
    let folder = workshop.folder.join("temporary").join("anatomy");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let cache = folder.join("cache");
    let path = |name: &str| folder.join(name);
    let words = call.words_without_output();
    let without_source: Vec<&String> =
        words.iter().filter(|word| Some(word.as_str()) != call.source()).collect();
    std::fs::write(path("empty.c"), "")?;
    let timed = path("worker.times");
    write_timed_worker(&path("worker"), &workshop.tool.join("backtrail"), &timed)?;

    let clang = |words: &[&str], output: &Path| {
        let mut clang = Command::new("clang-19");
        clang.args(words).arg("-o").arg(output).current_dir(&call.folder);
        clang
    };
    let all: Vec<&str> = words.iter().map(String::as_str).collect();
    let with = |more: &[&'static str]| -> Vec<&str> { all.iter().chain(more).copied().collect() };
    let bitcode = path("plain.bc").display().to_string();
    let empty = path("empty.c").display().to_string();
    let instead = |source: &'_ str| -> Vec<String> {
        without_source.iter().map(|word| (*word).clone()).chain([source.to_owned()]).collect()
    };
    let ours_on = |words: &[String], output: &str| {
        let mut ours = Command::new(workshop.tool.join("backtrail"));
        ours.arg("cc").args(words).arg("-o").arg(path(output)).current_dir(&call.folder);
        ours.env("BACKTRAIL_CACHE", &cache);
        ours
    };
    let ours = || ours_on(&words, "ours.o");
    let mut second: Vec<String> = vec!["-Xclang".into(), "-disable-llvm-passes".into()];
    second.extend(["-Wno-unused-command-line-argument".into(), "-x".into(), "ir".into()]);
    second.extend(instead(&bitcode));
    let start = instead(&empty);

    let [mut plain, mut known, mut asking, mut question] = [Least::default(); 4];
    let [mut started, mut ours_started] = [Least::default(); 2];
    let [mut first, mut first_without_lines, mut generation] = [Least::default(); 3];
    let (mut worker, mut worker_calls) = (f64::INFINITY, 0);
    let bar = progress(rounds as u64);
    for _ in 0..rounds {
        plain.add(cost::measure(&mut clang(&all, &path("plain.o")))?);
        if cache.exists() {
            std::fs::remove_dir_all(&cache)?;
        }
        asking.add(cost::measure(&mut ours())?);
        // A template is believed once it has predicted another file's answer.
        command::output(&mut ours_on(&start, "empty.o"))?;
        known.add(cost::measure(&mut ours())?);
        ours_started.add(cost::measure(&mut ours_on(&start, "empty.o"))?);
        question.add(cost::measure(&mut clang(&with(&["-###"]), &path("plain.o")))?);
        let start: Vec<&str> = start.iter().map(String::as_str).collect();
        started.add(cost::measure(&mut clang(&start, &path("empty.o")))?);
        let lines = with(&["-emit-llvm", "-gline-tables-only"]);
        first.add(cost::measure(&mut clang(&lines, &path("lines.bc")))?);
        let no_lines = with(&["-emit-llvm"]);
        first_without_lines.add(cost::measure(&mut clang(&no_lines, &path("plain.bc")))?);
        let second: Vec<&str> = second.iter().map(String::as_str).collect();
        generation.add(cost::measure(&mut clang(&second, &path("second.o")))?);
        command::output(ours().env("BACKTRAIL_WORKER", path("worker")))?;
        let times = read_times(&timed)?;
        worker = worker.min(times.iter().sum());
        worker_calls = times.len();
        std::fs::remove_file(&timed)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    std::fs::remove_dir_all(&folder)?;
    Ok(Anatomy {
        unit: unit.to_owned(),
        plain: plain.cpu(),
        ours: known.cpu(),
        asking: asking.cpu(),
        question: question.cpu(),
        start: started.cpu(),
        ours_start: ours_started.cpu(),
        first: first.cpu(),
        first_without_lines: first_without_lines.cpu(),
        worker,
        worker_calls,
        second: generation.cpu(),
    })
}

/// Writes a script that is the worker and notes the time that each call took.
fn write_timed_worker(path: &Path, tool: &Path, times: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    let text = format!(
        "#!/bin/bash\nTIMEFORMAT='%3U %3S'\n{{ time {} \"$@\" 2>&3; }} 3>&2 2>>{}\n",
        quoted(tool),
        quoted(times)
    );
    std::fs::write(path, text)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}

/// Seconds of each call, in user mode and in the kernel together.
fn read_times(path: &Path) -> Result<Vec<f64>> {
    let text = std::fs::read_to_string(path).context("the worker was not started")?;
    let call = |line: &str| -> Option<f64> {
        let (user, kernel) = line.split_once(' ')?;
        Some(user.parse::<f64>().ok()? + kernel.parse::<f64>().ok()?)
    };
    text.lines().map(|line| call(line).with_context(|| format!("no times: {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_timed_and_its_streams_are_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (script, times) = (folder.path().join("worker"), folder.path().join("it's"));
        write_timed_worker(&script, Path::new("/bin/sh"), &times).unwrap();
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo out; echo err >&2";
        let output = command::capture(Command::new(&script).args(["-c", busy])).unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        command::capture(Command::new(&script).args(["-c", "exit"])).unwrap();
        let calls = read_times(&times).unwrap();
        assert!(calls.len() == 2 && calls[0] > 0.005, "{calls:?}");
        std::fs::write(&times, "1.5").unwrap();
        assert!(read_times(&times).is_err());
    }
}
