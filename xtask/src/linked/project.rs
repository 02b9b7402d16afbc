//! Programs as files and a script that builds them, from what was drawn or by hand.
//!
//! The script is run twice: with clang alone, and with `backtrail cc` for the units and
//! for the links. Native objects are made by clang or gcc in both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use fastrand::Rng;

use super::draw::Drawn;
use super::scenes::{Home, PRELUDE, Role, Scene, Written};

/// A program that can be built.
#[derive(Debug, Clone, Default)]
pub struct Project {
    /// Its features, by name.
    pub features: Vec<String>,
    /// Its files.
    pub files: BTreeMap<String, String>,
    /// How it is built, into `program`.
    pub script: String,
    /// Whether it crashes if it is given a word.
    pub has_crash: bool,
}

/// The script, in the folder of a program.
pub const SCRIPT: &str = "build.sh";

const HEAD: &str = "#!/bin/sh\nset -e\nCC=${CC:-clang-19} CXX=${CXX:-clang++-19}\n";

impl Project {
    /// A program that is written by hand.
    pub fn by_hand(name: &str, files: &[(&str, &str)], build: &str, has_crash: bool) -> Self {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Self {
            features: vec![name.to_owned()],
            files: files.collect(),
            script: format!("{HEAD}{build}\n"),
            has_crash,
        }
    }

    /// Writes the files and the script into a folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let script = [(SCRIPT, &self.script)];
        let files = self.files.iter().map(|(name, text)| (&name[..], text)).chain(script);
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// The program of what was drawn.
    pub fn drawn(drawn: &Drawn, scenes: &[Scene]) -> Result<Self> {
        let mut maker = Maker { drawn, files: BTreeMap::new(), whole: Written::default() };
        let mut main = Main::default();
        for feature in &drawn.features {
            let Some(scene) = scenes.iter().find(|it| it.name == feature.name) else { continue };
            let mut rng = drawn.rng(feature);
            let prefix = format!("s{}", feature.place);
            maker.add(scene.write(&prefix, &mut rng)?, &prefix, &mut rng);
            main.call(scene, &prefix, rng.u32(2..=7));
        }
        let home = if drawn.has("main-in-native") { "native_main.c" } else { "unit0.c" };
        maker.append(home, &main.text());
        let script = maker.script();
        let mut files = maker.files;
        files.insert("prelude.h".to_owned(), PRELUDE.to_owned());
        files.insert("unused.c".to_owned(), "int never_needed(int x) { return x; }\n".to_owned());
        files.extend(maker.whole.files);
        Ok(Self { features: drawn.names(), files, script, has_crash: true })
    }
}

/// What `main` does.
#[derive(Default)]
struct Main {
    declared: String,
    called: String,
    crash: Option<String>,
    ending: Option<String>,
}

impl Main {
    fn call(&mut self, scene: &Scene, prefix: &str, argument: u32) {
        let mut declare = |what: String| _ = writeln!(self.declared, "{what};");
        match scene.role {
            Role::Ordinary => {
                declare(format!("int {prefix}_scene(int)"));
                let _ = writeln!(
                    self.called,
                    "  t = {prefix}_scene({argument}); sum += t; printf(\"{prefix} %d\\n\", t);"
                );
            }
            Role::Ending => {
                declare(format!("void {prefix}_end(int)"));
                self.ending = Some(format!("{prefix}_end(sum & 63)"));
            }
            Role::Crash => {
                declare(format!("void {prefix}_crash(int)"));
                self.crash = Some(format!("{prefix}_crash(sum & 63)"));
            }
        }
    }

    fn text(&self) -> String {
        let crash = self.crash.as_deref().unwrap_or("abort()");
        let ending = self.ending.as_deref().map(|it| format!("  {it};\n")).unwrap_or_default();
        format!(
            "{}int main(int argc, char **argv) {{\n  (void)argv; own_storage = argc; int sum = 0, t;\n{}  (void)t; \
             fflush(stdout);\n  if (argc > 1) {crash};\n{ending}  return 64 + (sum & 31);\n}}\n",
            self.declared, self.called
        )
    }
}

/// Files and what the script needs to know of them.
struct Maker<'a> {
    drawn: &'a Drawn,
    files: BTreeMap<String, String>,
    whole: Written,
}

/// Where a native piece can go, if nothing is said: files whose names say how they are
/// made.
const NATIVES: [&str; 5] =
    ["native_clang.c", "native_gcc.c", "native_merged.c", "native_text.c", "member"];

impl Maker<'_> {
    /// Puts the pieces of a scene into files.
    fn add(&mut self, written: Written, prefix: &str, rng: &mut Rng) {
        let first_unit = rng.usize(0..3);
        for (number, (home, text)) in written.pieces.into_iter().enumerate() {
            let native = match home {
                Home::NativeObject => NATIVES[rng.usize(0..4)],
                _ => NATIVES[rng.usize(0..5)],
            };
            let member = format!("member_{prefix}_{number}.c");
            let file = match home {
                Home::Unit(letter) => format!("unit{}.c", (first_unit + letter) % 3),
                Home::UnitCxx => "unitx.cc".to_owned(),
                Home::NativeMember => member,
                Home::Native | Home::NativeObject if native == "member" => member,
                Home::Native | Home::NativeObject => native.to_owned(),
                Home::NativeCxx => "native_cxx.cc".to_owned(),
                Home::Localised(symbol) => format!("local_{symbol}.c"),
                Home::Assembly => "assembly.s".to_owned(),
                Home::LibraryUnits => "library_units.c".to_owned(),
                Home::LibraryNatives => "library_natives.c".to_owned(),
                Home::LibraryOpened => format!("opened_{prefix}.c"),
            };
            self.append(&file, &text);
        }
        self.whole.links.extend(written.links);
        self.whole.exports.extend(written.exports);
        self.whole.files.extend(written.files);
        self.whole.is_common |= written.is_common;
        self.whole.has_sections |= written.has_sections;
    }

    fn append(&mut self, file: &str, text: &str) {
        let begin = if file.ends_with(".s") { "" } else { "#include \"prelude.h\"\n" };
        self.files.entry(file.to_owned()).or_insert_with(|| begin.to_owned()).push_str(text);
    }

    fn has(&self, manner: &str) -> bool {
        self.drawn.has(manner)
    }

    fn script(&self) -> String {
        let mut script = Script::new(self);
        script.compile();
        script.libraries();
        script.link();
        script.text
    }
}

struct Script<'a> {
    maker: &'a Maker<'a>,
    text: String,
    /// Options for units.
    options: String,
    /// What is linked: units, native objects, archives, libraries.
    units: Vec<String>,
    natives: Vec<String>,
    archives: Vec<&'static str>,
    libraries: Vec<&'static str>,
}

impl<'a> Script<'a> {
    fn new(maker: &'a Maker<'a>) -> Self {
        let level = ["O0", "O2"].into_iter().find(|it| maker.has(it)).unwrap_or("O1");
        let mut options = format!("-{level} -g -w");
        if maker.files.keys().any(|it| it.starts_with("opened")) {
            options.push_str(" -DHERE=\"\\\"$PWD\\\"\"");
        }
        let sections = ["gc-sections", "function-sections"].iter().any(|it| maker.has(it));
        for (is_so, option) in [
            (maker.has("no-inlining"), " -fno-inline"),
            (sections || maker.whole.has_sections, " -ffunction-sections"),
            (maker.whole.is_common, " -fcommon"),
            (maker.has("static-pie"), " -fPIE"),
        ] {
            options.push_str(if is_so { option } else { "" });
        }
        let (units, natives, archives, libraries) = Default::default();
        Self { maker, text: HEAD.to_owned(), options, units, natives, archives, libraries }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn compile(&mut self) {
        let native = match self.maker.whole.is_common {
            true => "-w -ffunction-sections -fcommon",
            false => "-w -ffunction-sections",
        };
        let options = self.options.clone();
        let mut members = Vec::new();
        for name in self.maker.files.keys() {
            let Some((stem, _)) = name.rsplit_once('.') else { continue };
            let object = format!("{stem}.o");
            let line = match &name[..] {
                "unitx.cc" => format!("$CXX {options} -c {name}"),
                "native_cxx.cc" => format!("clang++-19 -O1 {native} -c {name}"),
                "native_gcc.c" => format!("gcc -O2 {native} -c {name}"),
                "native_text.c" => {
                    format!("gcc -O1 {native} -S {name}\n$CC -c native_text.s")
                }
                "assembly.s" => format!("$CC -c {name}"),
                _ if name.starts_with("unit") => format!("$CC {options} -c {name}"),
                _ if name.starts_with("library") || name.starts_with("opened") => continue,
                _ => format!("clang-19 -O1 {native} -c {name}"),
            };
            self.line(&line);
            match name.strip_prefix("local_").and_then(|it| it.strip_suffix(".c")) {
                Some(symbol) => self.line(&format!("objcopy --localize-symbol={symbol} {object}")),
                None if name.starts_with("member") => {
                    members.push(object);
                    continue;
                }
                None => {}
            }
            let is_unit = name.starts_with("unit");
            if is_unit { &mut self.units } else { &mut self.natives }.push(object);
        }
        self.merge();
        if !members.is_empty() {
            self.line("gcc -O1 -c unused.c -o unused_native.o");
            self.line(&format!("ar rcs libmembers.a unused_native.o {}", members.join(" ")));
            self.archives.push("libmembers.a");
        }
    }

    /// Merges and archives objects, in some manners.
    fn merge(&mut self) {
        let take = |from: &mut Vec<String>, name: &str| {
            let at = from.iter().position(|it| it == name)?;
            Some(from.remove(at))
        };
        if self.maker.has("merged-units") {
            let mut parts: Vec<String> =
                ["unit2.o", "unit1.o"].iter().filter_map(|it| take(&mut self.units, it)).collect();
            parts.extend(take(&mut self.natives, "native_merged.o"));
            if parts.len() > 1 {
                self.line(&format!("ld -r -o merged.o {}", parts.join(" ")));
                self.units.push("merged.o".to_owned());
            } else {
                self.units.extend(parts);
            }
        } else if let Some(native) = take(&mut self.natives, "native_merged.o") {
            let other = take(&mut self.natives, "native_gcc.o").unwrap_or_default();
            self.line(&format!("ld -r -o natives.o {native} {other}"));
            self.natives.push("natives.o".to_owned());
        }
        if self.maker.has("units-in-archive") {
            let names = ["unit1.o", "unit2.o", "merged.o"];
            let members: Vec<String> =
                names.iter().filter_map(|it| take(&mut self.units, it)).collect();
            if !members.is_empty() {
                self.line("$CC -O1 -g -c unused.c");
                self.line(&format!("ar rcs libunits.a unused.o {}", members.join(" ")));
                self.archives.push("libunits.a");
            }
        }
    }

    fn libraries(&mut self) {
        let options = self.options.clone();
        let has = |name: &str| self.maker.files.contains_key(name);
        let (of_units, of_natives) = (has("library_units.c"), has("library_natives.c"));
        let opened: Vec<String> =
            self.maker.files.keys().filter(|it| it.starts_with("opened")).cloned().collect();
        for name in opened {
            let prefix = name.trim_start_matches("opened_").trim_end_matches(".c").to_owned();
            self.line(&format!("$CC {options} -fPIC -shared -o lib{prefix}_opened.so {name}"));
        }
        let mut words = String::new();
        if self.maker.has("Bsymbolic") {
            words.push_str(" -Wl,-Bsymbolic");
        }
        if let Some(linker) = self.linker() {
            let _ = write!(words, " -fuse-ld={linker}");
        }
        if self.maker.has("soname") {
            words.push_str(" -Wl,-soname,LIBRARY");
        }
        // What one library has of another is found when the program starts.
        if of_units {
            let words = words.clone() + &self.version_script("library_units.c");
            let words = words.replace("LIBRARY", "libown.so");
            self.line(&format!("$CC {options} -fPIC -shared{words} -o libown.so library_units.c"));
            self.libraries.push("-lown");
        }
        if of_natives {
            let words = words + &self.version_script("library_natives.c");
            let words = words.replace("LIBRARY", "libnative.so");
            self.line(&format!(
                "clang-19 -O1 -w -fPIC -shared{words} -o libnative.so library_natives.c"
            ));
            self.libraries.push("-lnative");
        }
    }

    /// A script that names what a library is to export, and the option for it.
    fn version_script(&mut self, source: &str) -> String {
        let tag = if self.maker.has("named-versions") { "OWN_1.0 " } else { "" };
        if !self.maker.has("version-script") && tag.is_empty() {
            return String::new();
        }
        let text = self.maker.files.get(source).map(String::as_str).unwrap_or_default();
        let is_here = |name: &&String| {
            let called = [format!("{name}("), format!("{name}[")];
            // Declarations have no body, and what stands in a body is no definition.
            let begin = |line: &'_ str| line.split_once('{').map(|it| it.0.to_owned());
            let defined = |line: &str| {
                begin(line).is_some_and(|line| called.iter().any(|it| line.contains(it)))
            };
            text.lines().any(|line| !line.starts_with("static") && defined(line))
        };
        let names: Vec<&str> =
            self.maker.whole.exports.iter().filter(is_here).map(String::as_str).collect();
        let script = source.replace(".c", ".map");
        let names = names.join("; ");
        self.line(&format!("echo '{tag}{{ global: {names}; local: *; }};' > {script}"));
        format!(" -Wl,--version-script={script}")
    }

    fn linker(&self) -> Option<&'static str> {
        match (self.maker.has("lld"), self.maker.has("gold")) {
            (true, _) => Some("lld"),
            (_, true) => Some("gold"),
            _ => None,
        }
    }

    fn link(&mut self) {
        let drawn = self.maker.drawn;
        let is_cxx = self.units.iter().chain(&self.natives).any(|it| it.ends_with("x.o"));
        let driver = if is_cxx { "$CXX" } else { "$CC" };
        let mut words = vec![driver.to_owned(), "-o program".to_owned()];
        let mut objects = match self.maker.has("natives-first") {
            true => [&self.natives[..], &self.units].concat(),
            false => [&self.units[..], &self.natives].concat(),
        };
        if let Some(feature) = drawn.features.iter().find(|it| it.name == "shuffled-link") {
            drawn.rng(feature).shuffle(&mut objects);
        }
        words.extend(objects);
        if let Some(linker) = self.linker() {
            words.push(format!("-fuse-ld={linker}"));
        }
        for (manner, word) in [
            ("static", "-static"),
            ("static-pie", "-static-pie"),
            ("no-pie", "-no-pie"),
            ("gc-sections", "-Wl,--gc-sections"),
            ("rdynamic", "-rdynamic"),
            ("bind-now", "-Wl,-z,now"),
            ("as-needed", "-Wl,--as-needed"),
        ] {
            if self.maker.has(manner) {
                words.push(word.to_owned());
            }
        }
        words.extend(self.maker.whole.links.iter().cloned());
        if !self.archives.is_empty() {
            let archives = self.archives.join(" ");
            words.push(format!("-Wl,--start-group {archives} -Wl,--end-group"));
        }
        if !self.libraries.is_empty() || self.text.contains("_opened.so") {
            let place = if self.maker.has("rpath-origin") { "'$ORIGIN'" } else { "\"$PWD\"" };
            let asked = |library: &&str| match self.maker.has("library-paths") {
                // The program is started elsewhere.
                true => format!("\"$PWD\"/lib{}.so", &library["-l".len()..]),
                false => (*library).to_owned(),
            };
            let libraries: Vec<String> = self.libraries.iter().map(asked).collect();
            words.push(format!("-L. {} -Wl,-rpath,{place}", libraries.join(" ")));
        }
        words.push("-pthread".to_owned());
        let line = words.join(" ");
        self.line(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenes;
    use super::*;

    #[test]
    fn programs_repeat_and_lose_only_what_is_taken_away() {
        let scenes = scenes::all();
        for number in 0..300 {
            let drawn = Drawn::new(&scenes, 1, number);
            let project = Project::drawn(&drawn, &scenes).unwrap();
            let again = Project::drawn(&drawn, &scenes).unwrap();
            assert_eq!((&project.files, &project.script), (&again.files, &again.script));
            let main: usize =
                project.files.values().map(|it| it.matches("int main(int argc").count()).sum();
            assert_eq!(main, 1, "{number}");
            let less = Project::drawn(&drawn.without(0), &scenes).unwrap();
            let all: String = less.files.values().cloned().collect();
            assert!(!all.contains("s0_"), "{number}");
        }
    }
}
