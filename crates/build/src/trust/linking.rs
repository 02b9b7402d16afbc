//! What a linker, or a compiler driver that calls one, may be told by a recipe from
//! elsewhere.
//!
//! The words are read by the grammar of GNU ld, which gold, lld and mold follow, and
//! what is not on the lists ([`super::link_words`]) is refused. No word is taken on trust for standing
//! behind another one: whatever begins with `-` has to be on the lists itself, so a
//! linker that reads the line otherwise than we do still finds no word in it that is
//! not; and whatever does not is the value of an option that has one, or refused. Words
//! that begin with `@` are files of words, abbreviated options have many meanings:
//! neither is on a list.
//! The files are another matter ([`link_inputs`]), also those that are found by `-l`.

use std::path::{Path, PathBuf};

use super::installed::Installed;
use super::link_inputs;
use super::link_words::{
    DRIVER_FLAGS, DRIVER_KEYWORDS, DRIVER_VALUES, FLAGS, JOINED, KEYWORDS, OBJECTS, Shape,
    USED_LINKERS, VALUES,
};
use crate::carry::recipe::{Input, Recipe, RecipeArg};

/// What stands in a recipe, with the inputs.
#[derive(Clone, Copy)]
enum Word<'a> {
    Text(&'a str),
    Output,
    Input(&'a Input),
}

/// Fails, with what it is, unless all that `recipe` says is harmless.
pub fn check(recipe: &Recipe, installed: &Installed) -> Result<(), String> {
    for input in &recipe.inputs {
        link_inputs::check(input, installed)?;
    }
    let mut line = Line {
        installed,
        linker: Linker::default(),
        outputs: 0,
        folders: Vec::new(),
        libraries: Vec::new(),
    };
    match recipe.through_driver {
        true => line.driver(recipe)?,
        false => {
            for argument in &recipe.arguments {
                line.for_linker(argument, recipe)?;
            }
        }
    }
    line.end()?;
    line.found_by_name().try_for_each(|path| link_inputs::check_found(&path, installed))
}

fn option(word: &str) -> String {
    format!("its link has '{word}'")
}

fn is_keyword(value: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-.,=".contains(&byte);
    !value.is_empty() && value.bytes().all(is_part)
}

/// How far a linker's words have been read.
#[derive(Default)]
struct Linker {
    /// The option whose value comes next.
    pending: Option<(String, Shape)>,
    /// Whether files are now taken in as they are, whatever they are.
    takes_anything: bool,
}

struct Line<'a> {
    installed: &'a Installed,
    linker: Linker,
    outputs: usize,
    /// Where libraries are looked for, and which.
    folders: Vec<PathBuf>,
    libraries: Vec<String>,
}

impl Line<'_> {
    /// The files that its libraries may be found at, in the folders that it names. Those
    /// of the linker's own are the system's.
    fn found_by_name(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let names = self.libraries.iter().flat_map(|name| match name.strip_prefix(':') {
            Some(file) => vec![file.to_owned()],
            None => vec![format!("lib{name}.so"), format!("lib{name}.a")],
        });
        names.flat_map(|name| self.folders.iter().map(move |folder| folder.join(&name)))
    }

    fn end(&self) -> Result<(), String> {
        if let Some((word, _)) = &self.linker.pending {
            return Err(format!("its link has '{word}' without a value"));
        }
        if self.linker.takes_anything {
            return Err("its link ends within '--format=binary'".to_owned());
        }
        match self.outputs {
            1 => Ok(()),
            count => Err(format!("its link has {count} outputs")),
        }
    }

    /// Reads a word that a linker gets.
    fn for_linker(&mut self, argument: &RecipeArg, recipe: &Recipe) -> Result<(), String> {
        match argument {
            RecipeArg::Text(text) => self.linker_word(Word::Text(text)),
            RecipeArg::Output => self.linker_word(Word::Output),
            RecipeArg::Input(input) => self.linker_word(Word::Input(found(recipe, *input)?)),
            RecipeArg::Joined(text, input) => self.joined(text, found(recipe, *input)?),
        }
    }

    fn linker_word(&mut self, word: Word<'_>) -> Result<(), String> {
        if let Some((option, shape)) = self.linker.pending.take() {
            return self.value(&option, shape, word, true);
        }
        match word {
            Word::Text(text) => self.linker_text(text),
            Word::Output => Err("its link has an output without '-o'".to_owned()),
            Word::Input(input) => self.positional(input),
        }
    }

    fn positional(&self, input: &Input) -> Result<(), String> {
        match self.linker.takes_anything {
            // What the link took in as it is has been made an object.
            true => Err(format!("its link takes in {} as it is", input.path.display())),
            false => Ok(()),
        }
    }

    fn joined(&mut self, text: &str, input: &Input) -> Result<(), String> {
        let name = text.strip_suffix('=').and_then(dashes);
        let shape = match text {
            "-T" => Some(Shape::File),
            _ => name.and_then(|name| shape_of(text, name)),
        };
        match (&self.linker.pending, shape) {
            (None, Some(shape)) => self.value(text, shape, Word::Input(input), false),
            _ => Err(option(text)),
        }
    }

    fn linker_text(&mut self, text: &str) -> Result<(), String> {
        let refused = || Err(option(text));
        let Some(name) = dashes(text) else { return refused() };
        if is_spelled(text, name) && FLAGS.contains(&name) {
            return Ok(());
        }
        if let Some(shape) = shape_of(text, name) {
            self.linker.pending = Some((text.to_owned(), shape));
            return Ok(());
        }
        if let Some((name, value)) = name.split_once('=')
            && is_spelled(text, name)
        {
            if KEYWORDS.contains(&name) && is_keyword(value) {
                return Ok(());
            }
            if let Some(shape) = shape_of(text, name).filter(|_| name.len() > 1) {
                return self.value(text, shape, Word::Text(value), false);
            }
        }
        for (option, begin, shape) in JOINED {
            let Some(value) = text.strip_prefix(option).filter(|it| it.starts_with(begin)) else {
                continue;
            };
            // `--library`, with one dash.
            if shape == Shape::Library && value.starts_with("ib") && value.contains("rary") {
                return refused();
            }
            return self.value(text, shape, Word::Text(value), false);
        }
        refused()
    }

    /// Reads the value of an option, which is a word `apart` or not.
    fn value(
        &mut self,
        word: &str,
        shape: Shape,
        value: Word<'_>,
        apart: bool,
    ) -> Result<(), String> {
        let refused = |value: &str| match apart {
            true => Err(format!("its link has '{word} {value}'")),
            false => Err(option(word)),
        };
        let text = match (shape, value) {
            (Shape::Output, Word::Output) => {
                self.outputs += 1;
                return Ok(());
            }
            (Shape::File | Shape::FileOrFolder, Word::Input(_)) => return Ok(()),
            (_, Word::Text(text)) => text,
            _ => return refused("FILE"),
        };
        if apart && text.starts_with(['-', '@']) {
            return refused(text);
        }
        let path = Path::new(text);
        let fits = match shape {
            Shape::Plain => !text.is_empty() || apart,
            Shape::Keyword => is_keyword(text),
            Shape::Expression => !text.contains([';', '"', '{', '}', '@', '\n']),
            Shape::LibraryFolder => {
                // Those below the root of the system's files, if it has another one.
                let below = text.strip_prefix('=').or_else(|| text.strip_prefix("$SYSROOT"));
                self.folders.push(below.unwrap_or(text).into());
                !text.is_empty() || apart
            }
            Shape::Library => {
                let name = text.strip_prefix(':').unwrap_or(text);
                self.libraries.push(text.to_owned());
                !name.is_empty() && !name.contains('/') && !self.linker.takes_anything
            }
            Shape::Format => {
                self.linker.takes_anything = text == "binary";
                ["binary", "default", "elf64-x86-64", "elf32-i386"].contains(&text)
            }
            Shape::OutputFormat => ["elf64-x86-64", "default"].contains(&text),
            Shape::File => self.installed.holds(path),
            Shape::FileOrFolder => self.installed.holds(path) || !path.is_file(),
            Shape::Output => false,
            Shape::Flavor => text == "gnu",
        };
        if fits { Ok(()) } else { refused(text) }
    }

    /// Reads what a compiler driver gets.
    fn driver(&mut self, recipe: &Recipe) -> Result<(), String> {
        let mut pending: Option<(&str, Shape)> = None;
        let mut passes = false;
        for argument in &recipe.arguments {
            if std::mem::take(&mut passes) {
                self.for_linker(argument, recipe)?;
                continue;
            }
            if let RecipeArg::Text(text) = argument
                && pending.is_none()
            {
                if text == "-Xlinker" {
                    passes = true;
                    continue;
                }
                if let Some(words) = text.strip_prefix("-Wl,") {
                    words.split(',').try_for_each(|word| self.linker_word(Word::Text(word)))?;
                    continue;
                }
            }
            // What belongs together for the linker stands together.
            if let Some((word, _)) = &self.linker.pending {
                return Err(format!("its link has '{word}' without a value"));
            }
            let word = match argument {
                RecipeArg::Text(text) => Word::Text(text),
                RecipeArg::Output => Word::Output,
                RecipeArg::Input(input) => Word::Input(found(recipe, *input)?),
                RecipeArg::Joined(text, _) => return Err(option(text)),
            };
            if let Some((option, shape)) = pending.take() {
                self.value(option, shape, word, true)?;
                continue;
            }
            match word {
                Word::Text(text) => pending = self.driver_text(text)?,
                Word::Output => return Err("its link has an output without '-o'".to_owned()),
                Word::Input(input) => {
                    if !is_linked_unread(&input.path) {
                        return Err(format!("its link compiles {}", input.path.display()));
                    }
                    self.positional(input)?;
                }
            }
        }
        match (passes, pending) {
            (true, _) => Err(option("-Xlinker")),
            (_, Some((word, _))) => Err(format!("its link has '{word}' without a value")),
            _ => Ok(()),
        }
    }

    /// Reads an option of a driver: the kind of its value, if that is the next word.
    fn driver_text<'t>(&mut self, text: &'t str) -> Result<Option<(&'t str, Shape)>, String> {
        if DRIVER_FLAGS.contains(&text) {
            return Ok(None);
        }
        if let Some((_, shape)) = DRIVER_VALUES.iter().find(|(option, _)| *option == text) {
            return Ok(Some((text, *shape)));
        }
        if let Some(linker) = text.strip_prefix("-fuse-ld=") {
            return if USED_LINKERS.contains(&linker) { Ok(None) } else { Err(option(text)) };
        }
        let behind = DRIVER_KEYWORDS.iter().find_map(|it| text.strip_prefix(it));
        let debug = text.strip_prefix("-g").or_else(|| text.strip_prefix("-fdebug-info-"));
        if behind.is_some_and(is_keyword) || debug.is_some_and(|it| it.len() < 2) {
            return Ok(None);
        }
        // Where rustc has its own linker.
        if let Some(folder) = text.strip_prefix("-B") {
            let is_own = folder.starts_with('/') && self.installed.is_rust_tools(Path::new(folder));
            return if is_own { Ok(None) } else { Err(option(text)) };
        }
        for (joined, shape) in [("-l", Shape::Library), ("-L", Shape::LibraryFolder)] {
            if let Some(value) = text.strip_prefix(joined) {
                self.value(text, shape, Word::Text(value), false)?;
                return Ok(None);
            }
        }
        Err(option(text))
    }
}

fn found(recipe: &Recipe, input: u32) -> Result<&Input, String> {
    let missing = || "its link names an input that there is not".to_owned();
    recipe.inputs.get(input as usize).ok_or_else(missing)
}

/// The name of an option.
fn dashes(word: &str) -> Option<&str> {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    (!name.is_empty() && !name.starts_with('-')).then_some(name)
}

/// Whether an option has the dashes it should have. Short options have one; with one,
/// long ones that begin with `o` would be outputs.
fn is_spelled(word: &str, name: &str) -> bool {
    match word.starts_with("--") {
        true => name.len() > 1,
        false => name.len() == 1 || !name.starts_with('o'),
    }
}

/// What the value of the option `name`, which `word` begins with, may be.
fn shape_of(word: &str, name: &str) -> Option<Shape> {
    let known = VALUES.iter().find(|(option, _)| *option == name);
    known.filter(|_| is_spelled(word, name)).map(|(_, shape)| *shape)
}

/// Whether a driver takes a file with such a name for something to link.
fn is_linked_unread(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_version = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let ending = name.rsplit_once('.').is_some_and(|(_, ending)| OBJECTS.contains(&ending));
    ending || name.split_once(".so.").is_some_and(|(_, rest)| is_version(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::recipe::InputKind;

    /// Checks a link with these words behind its output; `%` is an input.
    fn checked(through_driver: bool, words: &str) -> Result<(), String> {
        let input = Input { path: "/x/a.o".into(), kind: InputKind::Units(vec![[0; 16]]) };
        let word = |word: &str| match word.strip_suffix('%') {
            Some("") => RecipeArg::Input(0),
            Some(option) => RecipeArg::Joined(option.to_owned(), 0),
            None => RecipeArg::Text(word.to_owned()),
        };
        let arguments = [RecipeArg::Text("-o".to_owned()), RecipeArg::Output];
        let arguments = arguments.into_iter().chain(words.split_whitespace().map(word)).collect();
        let recipe = Recipe { through_driver, arguments, inputs: vec![input], ..Recipe::default() };
        check(&recipe, &Installed::find())
    }

    #[test]
    fn links_of_usual_builds_pass() {
        for words in [
            "--hash-style=gnu --build-id --eh-frame-hdr -m elf_x86_64 -pie -dynamic-linker \
             /lib64/ld-linux-x86-64.so.2 -L/usr/lib -L. % -lm --as-needed -lgcc_s -lc",
            "-shared -soname libx.so.1 --version-script=% -z now -zrelro -rpath $ORIGIN/../lib % \
             -Bsymbolic-functions --no-undefined --gc-sections --icf=safe",
            "--wrap=malloc --wrap free --defsym=a=b+4 --start-group % -( -lx -) --end-group \
             --whole-archive % --no-whole-archive -T % -T% -e main -u _start --sysroot=/x -O2",
            "--dynamic-list % --retain-symbols-file=% --format=binary --format=default % -R /nowhere",
            "-Ttext=0x400000 -Ttext-segment 0x10000 --section-start=.x=0x800 -flavor gnu %",
        ] {
            assert_eq!(checked(false, words), Ok(()));
        }
        for words in [
            "-m64 % -Wl,--as-needed -Wl,-Bstatic % -lfoo -Wl,-Bdynamic -lc -L /raw -pie \
             -fuse-ld=lld -Xlinker --version-script=% -Xlinker -z -Xlinker now -nodefaultlibs",
            "-Wl,--dynamic-list -Wl,/usr/lib/os-release -static-pie -g -O3 -march=native",
        ] {
            assert_eq!(checked(true, words), Ok(()));
        }
    }

    #[test]
    fn what_two_programs_could_read_differently_is_refused() {
        for words in [
            "-z -plugin=x",
            "-soname @x",
            "-T -z",
            "--version-script",
            "-m elf_x86_64 x.o",
            "-library -z",
            "--soname",
            "%=%",
            "-z% now",
            "--output=% ",
            "--rpath-l x",
            "---pie",
            "-",
            "--",
            "--z now",
            "-ox",
        ] {
            assert!(checked(false, words).is_err(), "{words}");
        }
        for words in ["-Wl,-T %", "-Xlinker -z -lx", "-Wl,", "-Xlinker", "-z -Wl,-plugin", "-T% %"]
        {
            assert!(checked(true, words).is_err(), "{words}");
        }
        let outputs = |arguments| {
            let recipe = Recipe { arguments, ..Recipe::default() };
            check(&recipe, &Installed::find())
        };
        let output = || [RecipeArg::Text("-o".to_owned()), RecipeArg::Output];
        assert!(outputs(Vec::new()).is_err());
        assert!(outputs(vec![RecipeArg::Output]).is_err());
        assert!(outputs([output(), output()].concat()).is_err());
        assert!(outputs(vec![RecipeArg::Input(0)]).is_err());
        assert_eq!(outputs(output().to_vec()), Ok(()));
    }

    #[test]
    fn drivers_compile_nothing() {
        for name in ["a.o", "liba.a", "libx.so", "libx.so.1.2", "libstd-1.rlib", "0-a.lo"] {
            assert!(is_linked_unread(Path::new(name)), "{name}");
        }
        for name in ["a.c", "a.S", "a.s", "a.o.c", "a", "a.so.c", "a.bc", "a.ll", "a.specs"] {
            assert!(!is_linked_unread(Path::new(name)), "{name}");
        }
    }
}
