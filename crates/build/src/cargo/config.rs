//! The parts of cargo's configuration that ours would hide.
//!
//! `RUSTC_WRAPPER` in the environment takes precedence over
//! `build.rustc-wrapper`, and a compiler in the environment over one in `[env]`.
//! So those are read here, by cargo's rules for where configuration stands:
//! `--config` on the command line, `.cargo/config.toml` in the working folder
//! and each above it, then in `$CARGO_HOME`. What cannot be read is left to
//! cargo to complain about.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::C_TARGET;

/// One source of configuration.
struct Source {
    /// What relative paths in it are relative to.
    folder: PathBuf,
    table: Table,
}

/// All sources, the most important first.
pub struct Config {
    sources: Vec<Source>,
}

impl Config {
    /// The configuration that cargo would have with `arguments`.
    pub fn read(arguments: &[OsString]) -> Self {
        let here = env::current_dir().unwrap_or_default();
        let here = folder_of(arguments).map_or(here.clone(), |folder| here.join(folder));
        let mut sources = from_arguments(arguments, &here);
        let home = env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
        let above = here.ancestors().map(|folder| folder.join(".cargo"));
        let mut seen = Vec::new();
        for folder in above.chain(home) {
            if seen.contains(&folder) {
                continue;
            }
            // The name without ending is the old one, and wins.
            let files = ["config", "config.toml"].map(|name| folder.join(name));
            sources.extend(files.iter().find_map(|file| from_file(file)));
            seen.push(folder);
        }
        Self { sources }
    }

    fn find(&self, section: &str, name: &str) -> Option<(&Source, &Value)> {
        self.sources
            .iter()
            .find_map(|source| Some((source, source.table.get(section)?.as_table()?.get(name)?)))
    }

    /// The user's own wrapper around rustc.
    pub fn wrapper(&self) -> Option<OsString> {
        let from_environment = ["RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER"];
        if let Some(wrapper) = from_environment.into_iter().find_map(env::var_os) {
            // An empty one switches off what the files say; one of ours is met
            // when cargo is started by cargo.
            return Some(wrapper)
                .filter(|wrapper| {
                    !wrapper.is_empty() && super::role_of(Path::new(wrapper)).is_none()
                })
                .or_else(|| env::var_os(super::WRAPPER_VARIABLE));
        }
        let (source, value) = self.find("build", "rustc-wrapper")?;
        let wrapper = value.as_str().filter(|wrapper| !wrapper.is_empty())?;
        Some(match wrapper.contains('/') {
            true => source.folder.join(wrapper).into(),
            false => wrapper.into(),
        })
    }

    /// Whether the user names a target, as far as can be seen.
    pub fn names_target(&self, arguments: &[OsString]) -> bool {
        !values(arguments, "--target").is_empty()
            || env::var_os("CARGO_BUILD_TARGET").is_some_and(|target| !target.is_empty())
            || self.find("build", "target").is_some()
    }

    /// Whether the user chose the compiler that the `cc` crate calls `kind`
    /// (`CC` or `CXX`).
    pub fn chooses_compiler(&self, kind: &str) -> bool {
        let dashes = C_TARGET.replace('_', "-").replacen("x86-64", "x86_64", 1);
        let names = [
            kind.to_owned(),
            format!("TARGET_{kind}"),
            format!("{kind}_{C_TARGET}"),
            format!("{kind}_{dashes}"),
        ];
        names.iter().any(|name| {
            let own = env::var_os(name)
                .filter(|value| !Path::new(value).file_name().is_some_and(is_ours));
            own.is_some() || self.find("env", name).is_some()
        })
    }
}

/// Whether a compiler of this name is one of ours.
fn is_ours(name: &OsStr) -> bool {
    name == super::names::CC || name == super::names::CXX
}

fn from_file(path: &Path) -> Option<Source> {
    let table = fs::read_to_string(path).ok()?.parse().ok()?;
    // Paths are relative to the folder that holds `.cargo`.
    let folder = path.parent()?.parent()?.to_owned();
    Some(Source { folder, table })
}

/// The values behind `option`, written as one word or two; those behind `--`
/// are not cargo's.
fn values<'a>(arguments: &'a [OsString], option: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut words =
        arguments.iter().map_while(|word| word.to_str()).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        if word == option {
            found.extend(words.next());
        } else if let Some(value) =
            word.strip_prefix(option).and_then(|value| value.strip_prefix('='))
        {
            found.push(value);
        }
    }
    found
}

/// The folder cargo is told to work in.
fn folder_of(arguments: &[OsString]) -> Option<PathBuf> {
    values(arguments, "-C").last().map(PathBuf::from)
}

/// What `--config` says: `KEY=VALUE`, or a file. Later ones count more.
fn from_arguments(arguments: &[OsString], here: &Path) -> Vec<Source> {
    let values = values(arguments, "--config");
    values
        .into_iter()
        .rev()
        .filter_map(|value| {
            let file = here.join(value);
            let text = match file.is_file() {
                true => fs::read_to_string(&file).ok()?,
                false => value.to_owned(),
            };
            Some(Source { folder: here.to_owned(), table: text.parse().ok()? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(texts: &[&str]) -> Config {
        let source =
            |text: &&str| Source { folder: "/p".into(), table: text.parse().expect("valid") };
        Config { sources: texts.iter().map(source).collect() }
    }

    #[test]
    fn the_first_source_counts() {
        let config = config(&["build.rustc-wrapper = 'tools/w'", "[build]\nrustc-wrapper = 'x'"]);
        let (source, value) = config.find("build", "rustc-wrapper").unwrap();
        assert_eq!((source.folder.as_path(), value.as_str()), (Path::new("/p"), Some("tools/w")));
        assert!(config.find("env", "CC").is_none());
    }

    #[test]
    fn a_compiler_in_the_configuration_is_a_choice() {
        assert!(config(&["[env]\nCC_x86_64-unknown-linux-gnu = 'gcc'"]).chooses_compiler("CC"));
        assert!(!config(&["[env]\nCFLAGS = '-g'"]).chooses_compiler("CXX"));
    }

    #[test]
    fn targets_are_seen_wherever_they_are_named() {
        let words = [OsString::from("build"), OsString::from("--target=x86_64-unknown-linux-gnu")];
        assert!(config(&[]).names_target(&words));
        assert!(config(&["build.target = 'x'"]).names_target(&[]));
        assert!(!config(&[]).names_target(&words[..1]));
    }

    #[test]
    fn options_of_cargo_end_at_two_dashes() {
        let words = ["build", "--config", "a.b=1", "--config=c.d=2", "--", "--config", "e=3"];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        assert_eq!(values(&words, "--config"), ["a.b=1", "c.d=2"]);
    }
}
