//! The scenes that random programs are put together from, and how their text is read.
//!
//! A scene is a few pieces of source that call each other over the borders of units,
//! native objects and libraries. Scenes are written as templates, in files below
//! `scenes/`:
//!
//! - `//= NAME  WHAT` begins a scene; lines `//: WORD …` say what its pieces are and what
//!   the link needs;
//! - `@name` is a name of the scene's own: no two scenes of a program share one;
//! - `$w{v}` is some random work on the variable `v`, `$n` a small number, `$a` a
//!   function that may be inlined or not, `$[a|b]` one of these.
//!
//! An ordinary scene defines `int @scene(int)`, an ending `void @end(int)`, and a crash
//! `void @crash(int)`; `main` calls them.

use anyhow::{Context as _, Result, bail};
use fastrand::Rng;

/// What every file begins with.
pub const PRELUDE: &str = include_str!("scenes/prelude.h");

/// The files of scenes.
pub const FILES: [&str; 8] = [
    include_str!("scenes/natives.c"),
    include_str!("scenes/overrides.c"),
    include_str!("scenes/exports.c"),
    include_str!("scenes/libraries.c"),
    include_str!("scenes/callbacks.c"),
    include_str!("scenes/stdio.c"),
    include_str!("scenes/flow.c"),
    include_str!("scenes/language.cc"),
];

/// What a scene is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// One of several things that the program does.
    Ordinary,
    /// How it ends.
    Ending,
    /// How it crashes when it is asked to.
    Crash,
}

/// A scene as it is written.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    /// What it is called.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// What it is for.
    pub role: Role,
    /// What only one scene of a program can do.
    pub alone: Option<&'static str>,
    /// Whether it needs a program that is linked with shared libraries.
    pub is_dynamic: bool,
    /// Whether it has a piece in a library that the program is linked with.
    pub has_library: bool,
    text: &'static str,
}

/// Where a piece goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// A unit of C; the letters of a scene are different ones.
    Unit(usize),
    /// The unit of C++.
    UnitCxx,
    /// A native object or a member of a native archive.
    Native,
    /// A native object that is linked in any case.
    NativeObject,
    /// A member of a native archive.
    NativeMember,
    /// A native object of C++.
    NativeCxx,
    /// A native object in which this symbol is made local.
    Localised(String),
    /// An assembly object.
    Assembly,
    /// A library of the program that is made of units.
    LibraryUnits,
    /// One that is made of native objects.
    LibraryNatives,
    /// One of units that the program is not linked with.
    LibraryOpened,
}

/// A scene with everything drawn.
#[derive(Debug, Default)]
pub struct Written {
    /// Its pieces of source, and where they go.
    pub pieces: Vec<(Home, String)>,
    /// Words for the link.
    pub links: Vec<String>,
    /// Names that its library is to export.
    pub exports: Vec<String>,
    /// Other files that are needed.
    pub files: Vec<(String, String)>,
    /// Whether variables without a value are common symbols.
    pub is_common: bool,
    /// Whether functions have sections of their own.
    pub has_sections: bool,
}

/// All scenes, in the order of the files.
pub fn all() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for file in FILES {
        // What stands before the first one is nothing.
        for text in format_free(file).skip(1) {
            let head = text.lines().next().unwrap_or_default();
            let (name, what) = head.split_once(' ').unwrap_or((head, ""));
            let words = |word: &'static str| {
                let lines = text.lines().filter_map(|line| line.strip_prefix("//: "));
                lines.filter_map(move |line| line.strip_prefix(word)).map(str::trim)
            };
            let has = |word| words(word).any(str::is_empty);
            let role = match (has("ending"), has("crash")) {
                (true, _) => Role::Ending,
                (_, true) => Role::Crash,
                _ => Role::Ordinary,
            };
            scenes.push(Scene {
                name,
                what: what.trim(),
                role,
                alone: words("alone").next(),
                is_dynamic: has("dynamic"),
                has_library: words("library").any(|of| of != "opened"),
                text,
            });
        }
    }
    scenes
}

fn format_free(file: &'static str) -> impl Iterator<Item = &'static str> {
    file.split("//= ")
}

impl Scene {
    /// The scene with everything drawn; its own names begin with `prefix`.
    pub fn write(&self, prefix: &str, rng: &mut Rng) -> Result<Written> {
        let text = expand(self.text, prefix, rng);
        let mut written = Written::default();
        for line in text.lines().skip(1) {
            let Some(directive) = line.strip_prefix("//: ") else {
                if let Some((_, piece)) = written.pieces.last_mut() {
                    piece.push_str(line);
                    piece.push('\n');
                }
                continue;
            };
            let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
            match word {
                "alone" | "dynamic" | "ending" | "crash" | "opened" => {}
                "common" => written.is_common = true,
                "sections" => written.has_sections = true,
                "link" => written.links.extend(rest.split_whitespace().map(str::to_owned)),
                "exports" => written.exports.extend(rest.split_whitespace().map(str::to_owned)),
                "file" => {
                    let (name, text) = rest.split_once(' ').context("a file without text")?;
                    written.files.push((name.to_owned(), format!("{text}\n")));
                }
                _ => {
                    let home =
                        home(word, rest).with_context(|| format!("{}: {line}", self.name))?;
                    written.pieces.push((home, String::new()));
                }
            }
        }
        Ok(written)
    }
}

fn home(word: &str, rest: &str) -> Result<Home> {
    Ok(match (word, rest) {
        ("unit", "a") => Home::Unit(0),
        ("unit", "b") => Home::Unit(1),
        ("unit", "c") => Home::Unit(2),
        ("unit", "c++") => Home::UnitCxx,
        ("native", "") => Home::Native,
        ("native", "object") => Home::NativeObject,
        ("native", "archive") => Home::NativeMember,
        ("native", "c++") => Home::NativeCxx,
        ("assembly", "") => Home::Assembly,
        ("library", "units") => Home::LibraryUnits,
        ("library", "natives") => Home::LibraryNatives,
        ("library", "opened") => Home::LibraryOpened,
        ("native", other) => match other.strip_prefix("localised ") {
            Some(symbol) => Home::Localised(symbol.to_owned()),
            None => bail!("no such native piece"),
        },
        _ => bail!("no such piece"),
    })
}

/// A template with its names and draws put in.
fn expand(text: &str, prefix: &str, rng: &mut Rng) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['@', '$']) {
        out.push_str(&rest[..at]);
        let sign = &rest[at..=at];
        rest = &rest[at + 1..];
        let is_name = rest.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
        let is_word = |rest: &str| !rest[1..].starts_with(|it: char| it.is_alphanumeric());
        let taken = match sign {
            "@" if is_name => {
                out.push_str(prefix);
                out.push('_');
                0
            }
            "$" if rest.starts_with("w{") => {
                let end = rest.find('}').unwrap_or(rest.len() - 1);
                out.push_str(&work(&rest[2..end], 2, rng));
                end + 1
            }
            "$" if rest.starts_with('[') => {
                let end = rest.find(']').unwrap_or(rest.len() - 1);
                let ways: Vec<&str> = rest[1..end].split('|').collect();
                out.push_str(&expand(ways[rng.usize(0..ways.len())], prefix, rng));
                end + 1
            }
            "$" if rest.starts_with('n') && is_word(rest) => {
                out.push_str(&rng.u32(2..=5).to_string());
                1
            }
            "$" if rest.starts_with('a') && is_word(rest) => {
                out.push_str(if rng.bool() { "NOINLINE" } else { "" });
                1
            }
            _ => {
                out.push_str(sign);
                0
            }
        };
        rest = &rest[taken..];
    }
    out + rest
}

/// Statements with branches and loops that change a variable, which stays small and not
/// negative.
fn work(variable: &str, depth: u32, rng: &mut Rng) -> String {
    let v = variable;
    let k = rng.u32(1..=7);
    let other = rng.u32(1..=15);
    let mut inner = || if depth == 0 { simple(v, rng) } else { work(v, depth - 1, rng) };
    let (one, two) = (inner(), inner());
    match rng.u32(0..8) {
        0 => format!("if ({v} & {k}) {{ {one} }} else {{ {two} }}"),
        1 => format!("if ({v} > {other}) {{ {one} }}"),
        2 => format!("for (int i_ = 0; i_ < ({v} & 3); i_++) {{ TICK({k}); }} {one}"),
        3 => format!(
            "switch ({v} % 3) {{ case 0: {{ {one} }} break; case 1: TICK({k}); break; default: {{ {two} }} }}"
        ),
        4 => format!("while ({v} > {}) {{ {v} -= {k}; }} {one}", 16 + other),
        5 => format!("{one} if ({v} < {other}) {{ TICK({k}); {two} }}"),
        6 => format!("if ({v} % {} == {}) {{ TICK({k}); }} {one}", k + 1, other % (k + 1)),
        _ => simple(v, rng),
    }
}

fn simple(v: &str, rng: &mut Rng) -> String {
    let k = rng.u32(1..=9);
    match rng.u32(0..4) {
        0 => format!("{v} = ({v} * {k} + 1) & 63;"),
        1 => format!("{v} = ({v} ^ {k}) & 63;"),
        2 => format!("TICK({k});"),
        _ => format!("{v} = ({v} + {k}) & 63;"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_scene_has_its_function_and_a_name_of_its_own() {
        let scenes = all();
        let names: BTreeSet<&str> = scenes.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), scenes.len());
        assert!(scenes.len() > 130, "{}", scenes.len());
        for scene in scenes {
            for seed in 0..8 {
                let written = scene.write("s7", &mut Rng::with_seed(seed)).unwrap();
                let function = match scene.role {
                    Role::Ordinary => "s7_scene(",
                    Role::Ending => "s7_end(",
                    Role::Crash => "s7_crash(",
                };
                let all: String = written.pieces.iter().map(|it| &it.1[..]).collect();
                assert_eq!(all.matches(function).count(), 1, "{}", scene.name);
                assert!(!all.contains('@') && !all.contains("$w"), "{}: {all}", scene.name);
                assert!(!scene.what.is_empty(), "{}", scene.name);
                let in_library = |it: &&(Home, String)| {
                    matches!(it.0, Home::LibraryUnits | Home::LibraryNatives)
                };
                let has_library = written.pieces.iter().any(|it| in_library(&it));
                assert_eq!(has_library, scene.has_library, "{}", scene.name);
                assert!(!has_library || !written.exports.is_empty(), "{}", scene.name);
            }
        }
    }

    #[test]
    fn templates_are_expanded_and_assembly_is_left_alone() {
        let mut rng = Rng::with_seed(1);
        assert_eq!(
            expand("call @cb; add $3, %edi; $$", "s1", &mut rng),
            "call s1_cb; add $3, %edi; $$"
        );
        assert_eq!(expand("$[@a|@a] __wrap_@h", "s1", &mut rng), "s1_a __wrap_s1_h");
        let one = expand("$w{x} $n $a", "s1", &mut Rng::with_seed(3));
        assert_eq!(one, expand("$w{x} $n $a", "s1", &mut Rng::with_seed(3)));
        assert_ne!(one, expand("$w{x} $n $a", "s1", &mut Rng::with_seed(4)));
    }
}
