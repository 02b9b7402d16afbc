//! The linker that rustc calls: records before the link, the recipe after it.
//!
//! The objects of the crate that is being linked get their records now; those
//! of libraries have them already. The user's linker is then run with rustc's
//! own words. What rustc made for this link alone (the list of exported
//! symbols, the version script) is gone afterwards and stands in the recipe.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::units::{Compilation, ORIGIN_VARIABLE};
use super::{become_program, driver_line, not_started, standard_library};
use crate::clang::find_program;
use crate::link::{LinkCommand, attach_recipe_of};
use crate::output::{self, Mode};
use crate::{Error, compile, link_args, response_file};

/// Carries out the link `words`: our name and the linker's arguments.
pub fn run(words: Vec<OsString>) -> Result<i32, Error> {
    let own_name = words.first().map(PathBuf::from).unwrap_or_default();
    let arguments = &words[1.min(words.len())..];
    let Some(compilation) = compilation() else {
        // Not called by a rustc that we started: the linker of that name.
        let name = own_name.file_name().unwrap_or_default();
        return Err(become_program(name, arguments));
    };
    let linker = find_program(&compilation.linker.to_string_lossy());
    let linker = linker.unwrap_or_else(|| compilation.linker.clone());
    let linker = std::path::absolute(&linker).unwrap_or(linker);
    let texts: Option<Vec<String>> =
        arguments.iter().map(|argument| argument.to_str().map(str::to_owned)).collect();
    let Some(texts) = texts else {
        return Err(become_program(linker.as_os_str(), arguments));
    };
    let mut expanded = response_file::expand(&texts)?;
    attach_units(&compilation, &expanded)?;
    if compilation.with_std {
        standard_library::replace(&compilation, &mut expanded)?;
    }

    let driver = driver_line::is_driver(&linker, &expanded);
    let build_id = if driver { "-Wl,--build-id" } else { "--build-id" };
    let chosen = expanded.iter().any(|word| word.contains("--build-id"));
    let mut words = if compilation.with_std { expanded.clone() } else { texts };
    if !chosen {
        words.insert(0, build_id.to_owned());
    }
    let mut command = compile::command(&linker, &words, &compilation.folder)?;
    let status = command.status().map_err(not_started(linker.as_os_str()))?;
    let status = compile::status_code(status);
    if status != 0 {
        return Ok(status);
    }
    let expanded = with_lasting_names(&compilation, expanded);
    if let Err(error) = attach_recipe(&compilation, &linker, driver, &expanded, !chosen) {
        compile::warn(&format!("no variants can be derived: {error}"));
    }
    Ok(0)
}

fn compilation() -> Option<Compilation> {
    let bytes = fs::read(env::var_os(ORIGIN_VARIABLE)?).ok()?;
    Compilation::from_bytes(&bytes).ok()
}

/// Gives the crate's own objects their records, in place.
fn attach_units(compilation: &Compilation, words: &[String]) -> Result<(), Error> {
    words.par_iter().try_for_each(|word| {
        let path = Path::new(word);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(unit) = compilation.unit_of(&name) else { return Ok(()) };
        if path.parent() != Some(&compilation.folder) {
            return Ok(());
        }
        let bytes = fs::read(path).map_err(Error::read(path))?;
        match compilation.attach(unit, &bytes)? {
            // Under the name, not into the file: with incremental compilation
            // that is also the file rustc keeps for the next time.
            Some(changed) => output::write_whole(path, &changed, Mode::Data),
            None => Ok(()),
        }
    })
}

/// `words` with names that are always the same for the folder that rustc made
/// for this link and for the objects of incremental builds.
fn with_lasting_names(compilation: &Compilation, words: Vec<String>) -> Vec<String> {
    let objects = words.into_iter().map(|word| lasting_object(compilation, &word).unwrap_or(word));
    let words: Vec<String> = objects.collect();
    let within = format!("{}/rustc", compilation.folder.display());
    let found = words.iter().find_map(|word| {
        let at = word.find(&within)?;
        let end = word[at + within.len()..].find('/')?;
        Some(word[at..at + within.len() + end].to_owned())
    });
    let Some(folder) = found else { return words };
    let lasting = compilation.folder.join("link");
    // Of an earlier link by the same rustc.
    let _ = fs::remove_file(&lasting);
    if std::os::unix::fs::symlink(&folder, &lasting).is_err() {
        return words;
    }
    let lasting = lasting.display().to_string();
    words.into_iter().map(|word| word.replace(&folder, &lasting)).collect()
}

/// The object `word` of the crate under its lasting name, if that is another.
fn lasting_object(compilation: &Compilation, word: &str) -> Option<String> {
    let path = Path::new(word);
    let name = path.file_name()?.to_str()?;
    let lasting = compilation.lasting_name(compilation.unit_of(name)?);
    if lasting == name || path.parent() != Some(&compilation.folder) {
        return None;
    }
    let lasting = compilation.folder.join(lasting);
    // Made already if this rustc links more than once.
    let _ = fs::hard_link(path, &lasting);
    lasting.is_file().then(|| lasting.display().to_string())
}

fn attach_recipe(
    compilation: &Compilation,
    linker: &Path,
    through_driver: bool,
    words: &[String],
    with_build_id: bool,
) -> Result<(), Error> {
    let mut arguments = match through_driver {
        true => driver_line::parse(words),
        false => link_args::parse(words),
    };
    if with_build_id {
        let option = if through_driver { "-Wl,--build-id" } else { "--build-id" };
        arguments.insert(0, link_args::LinkArg::Text(option.to_owned()));
    }
    let output = arguments.iter().find_map(|argument| match argument {
        link_args::LinkArg::Output(path) => Some(PathBuf::from(path)),
        _ => None,
    });
    let Some(output) = output.filter(|output| output.is_file()) else { return Ok(()) };
    let toolchain = [compilation.sysroot.clone()];
    attach_recipe_of(LinkCommand { linker, through_driver, arguments }, &output, &toolchain)
}
