//! Remembers what clang said it would do.
//!
//! Asking clang (`-###`) costs as much as starting it, some 20 ms, and in a
//! build the same question comes back for every file with other names in it.
//! So the answer to a plain `-c` compilation of one source is kept as a
//! template, with the names taken out. A template is believed only after it
//! predicted clang's answer for a second, different file to the letter; one
//! that predicted wrongly is never used.
//!
//! What else the answer depends on is part of the key: the compiler's file, the
//! working directory, the variables that clang reads. Options whose effect
//! depends on which files exist (`-include` finds precompiled headers) are
//! always asked about.

use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::cache::Cache;
use crate::carry::frame;
use crate::jobs::{self, Jobs};

/// Endings of the sources that templates are made for.
const SOURCES: [&str; 6] = ["c", "cc", "cpp", "cxx", "C", "c++"];

/// Beginnings of options that are always asked about.
const ALWAYS_ASK: [&str; 8] =
    ["@", "-include", "-imacros", "-x", "-fmodule", "-save-temps", "--config", "-fprofile"];

/// Beginnings of the variables that clang's driver reads.
const VARIABLES: [&str; 10] = [
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "OBJC",
    "COMPILER_PATH",
    "LIBRARY_PATH",
    "CCC_",
    "CLANG",
    "HOME",
    "TMPDIR",
];

/// The names in a command line that change from file to file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Names {
    source: String,
    output: String,
    dependencies: String,
    target: String,
}

/// What is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Template {
    jobs: Jobs,
    sample: Names,
    belief: Belief,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Belief {
    Untried,
    Confirmed,
    Refuted,
}

/// As [`jobs::ask`], from memory where that is safe.
pub fn ask(clang: &Path, arguments: &[String]) -> Result<Option<Jobs>, Error> {
    let Some((shape, names)) = shape(arguments) else { return jobs::ask(clang, arguments) };
    let Some(key) = key(clang, &shape) else { return jobs::ask(clang, arguments) };
    let cache = Cache::open();
    let known = cache.get(&key).and_then(|bytes| postcard::from_bytes::<Template>(&bytes).ok());
    let known = match known {
        Some(known) if known.belief == Belief::Confirmed && Path::new(&names.source).is_file() => {
            return Ok(Some(fill(&known.jobs, &names)));
        }
        known => known,
    };
    let answer = jobs::ask(clang, arguments)?;
    let Some(jobs) = &answer else { return Ok(answer) };
    let kept = match known {
        None => Template { jobs: take_out(jobs, &names), sample: names, belief: Belief::Untried },
        Some(known) if known.belief == Belief::Untried && differ(&known.sample, &names) => {
            let right = fill(&known.jobs, &names) == *jobs;
            Template { belief: if right { Belief::Confirmed } else { Belief::Refuted }, ..known }
        }
        Some(_) => return Ok(answer),
    };
    // Only a memory: if it cannot be kept, clang is asked again.
    let _ = cache
        .put(&key, &postcard::to_stdvec(&kept).expect("serialising into memory does not fail"));
    Ok(answer)
}

/// Whether a right prediction from one for the other means anything.
fn differ(one: &Names, other: &Names) -> bool {
    let stem = |name: &str| Path::new(name).file_stem().map(|stem| stem.to_owned());
    stem(&one.source) != stem(&other.source) && one.output != other.output
}

/// The words with the names taken out, and the names; `None` for anything but
/// a plain compilation of one source.
fn shape(arguments: &[String]) -> Option<(Vec<String>, Names)> {
    let (mut source, mut output, mut dependencies, mut target) = (None, None, None, None);
    let mut compiles = false;
    let mut shape = Vec::with_capacity(arguments.len());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if ALWAYS_ASK.iter().any(|prefix| word.starts_with(prefix)) {
            return None;
        }
        shape.push(word.clone());
        let place = match word.as_str() {
            "-c" => {
                compiles = true;
                continue;
            }
            "-o" => &mut output,
            "-MF" => &mut dependencies,
            "-MT" | "-MQ" => &mut target,
            _ if !word.starts_with('-') && ending(word).is_some() => {
                let named = shape.pop();
                shape.push(format!("source.{}", ending(word)?));
                if source.is_some() {
                    return None;
                }
                source = named;
                continue;
            }
            _ => continue,
        };
        if place.is_some() {
            return None;
        }
        *place = Some(words.next()?.clone());
    }
    let source = source.filter(|_| compiles)?;
    let output = match output {
        Some(output) => output,
        None => Path::new(Path::new(&source).file_name()?).with_extension("o").to_str()?.to_owned(),
    };
    let names = Names {
        source,
        output,
        dependencies: dependencies.unwrap_or_default(),
        target: target.unwrap_or_default(),
    };
    Some((shape, names))
}

fn ending(word: &str) -> Option<&str> {
    let ending = Path::new(word).extension()?.to_str()?;
    SOURCES.contains(&ending).then_some(ending)
}

fn key(clang: &Path, shape: &[String]) -> Option<[u8; 16]> {
    let data = clang.canonicalize().ok()?.metadata().ok()?;
    let changed = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    let mut variables: Vec<_> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| VARIABLES.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    variables.sort();
    let folder = std::env::current_dir().ok()?;
    let described =
        format!("jobs {clang:?} {} {changed} {folder:?} {variables:?} {shape:?}", data.len());
    Some(frame::hash(&[described.as_bytes(), env!("CARGO_PKG_VERSION").as_bytes()]))
}

/// A word that stands for a name; no argument of a command holds this byte.
const SOURCE: &str = "\0source";
const MAIN_FILE: &str = "\0main";
const OUTPUT: &str = "\0output";
const DEPENDENCIES: &str = "\0dependencies";
const TARGET: &str = "\0target";
const BESIDE_OUTPUT: &str = "\0output.d";

fn main_file(names: &Names) -> String {
    Path::new(&names.source).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Where `-MD` writes when it is not told: beside the output.
fn beside_output(names: &Names) -> String {
    Path::new(&names.output).with_extension("d").display().to_string()
}

/// `jobs` with the names taken out where an option says what they are.
fn take_out(jobs: &Jobs, names: &Names) -> Jobs {
    let mut jobs = jobs.clone();
    for job in &mut jobs.jobs {
        let last = job.arguments.len().saturating_sub(1);
        for at in 1..job.arguments.len() {
            let word = &job.arguments[at];
            let stand_in = match job.arguments[at - 1].as_str() {
                "-main-file-name" if *word == main_file(names) => MAIN_FILE,
                "-o" if *word == names.output => OUTPUT,
                "-dependency-file" if *word == names.dependencies => DEPENDENCIES,
                "-dependency-file" if *word == beside_output(names) => BESIDE_OUTPUT,
                "-MT" if *word == names.target => TARGET,
                "-MT" if *word == names.output => OUTPUT,
                _ if at == last && *word == names.source => SOURCE,
                _ => continue,
            };
            job.arguments[at] = stand_in.to_owned();
        }
    }
    jobs
}

/// The inverse of [`take_out`].
fn fill(jobs: &Jobs, names: &Names) -> Jobs {
    let mut jobs = jobs.clone();
    for word in jobs.jobs.iter_mut().flat_map(|job| &mut job.arguments) {
        *word = match word.as_str() {
            SOURCE => names.source.clone(),
            MAIN_FILE => main_file(names),
            OUTPUT => names.output.clone(),
            DEPENDENCIES => names.dependencies.clone(),
            TARGET => names.target.clone(),
            BESIDE_OUTPUT => beside_output(names),
            _ => continue,
        };
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_plain_compilations_have_a_shape() {
        let (one, names) = shape(&words("-O2 -c src/a.c -o a.o -MD -MF a.d")).unwrap();
        let (other, _) = shape(&words("-O2 -c src/b.c -o b.o -MD -MF b.d")).unwrap();
        assert_eq!(one, other);
        assert_eq!((names.source.as_str(), names.dependencies.as_str()), ("src/a.c", "a.d"));
        assert_eq!(shape(&words("-c x/a.c")).unwrap().1.output, "a.o");
        for line in
            ["-O2 a.c", "-c a.c b.c", "-c a.c @more", "-c a.c -include b.h", "-c -x c a", "-c a.o"]
        {
            assert!(shape(&words(line)).is_none(), "{line}");
        }
        assert_ne!(shape(&words("-c a.c")).unwrap().0, shape(&words("-c a.cc")).unwrap().0);
    }

    #[test]
    fn a_template_predicts_what_differs_only_in_names() {
        let job = |text: &str| Jobs {
            jobs: vec![jobs::Job { program: "clang".into(), arguments: words(text) }],
            ..Jobs::default()
        };
        let names = |line: &str| shape(&words(line)).unwrap().1;
        let one = names("-c src/a.c -o out/a.o -MD");
        let other = names("-c b.c -o b.o -MD");
        let template = take_out(
            &job(
                "-cc1 -main-file-name a.c -dependency-file out/a.d -MT out/a.o -o out/a.o -x c src/a.c",
            ),
            &one,
        );
        let expected = job("-cc1 -main-file-name b.c -dependency-file b.d -MT b.o -o b.o -x c b.c");
        assert_eq!(fill(&template, &other), expected);
        // What depends on the name in another way is not predicted.
        let template = take_out(&job("-cc1 -split-dwarf-file a.dwo -o a.o -x c a.c"), &one);
        assert_ne!(fill(&template, &other), job("-cc1 -split-dwarf-file b.dwo -o b.o -x c b.c"));
    }
}
