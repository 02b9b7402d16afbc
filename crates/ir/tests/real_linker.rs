//! Symbol resolution against real linkers.
//!
//! Random C and C++ programs, in which many names are defined and referred to in
//! different ways by several units, are compiled, linked with GNU ld and LLD, and
//! run. Each definition returns the number of its unit, so the program itself
//! says what every name means in every unit; each function holds a marker, so
//! the symbol table says whose code is there. One unit's symbols are given as a
//! native object's.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backtrail_ir::program::{
    Input, Link, NativeDefinition, NativeObject, Object, Program, Resolution, Strength, Wrapping,
};
use backtrail_ir::{Index, Linkage, Unit, encode, text};
use backtrail_plan::worker::{DebugKept, Request, Response};
use backtrail_testkit::joined;
use fastrand::Rng;

const LINKERS: [&str; 2] = ["bfd", "lld"];
const UNITS: usize = 5;
/// This one is given as a native object.
const NATIVE: usize = 3;

#[test]
fn c_programs_are_resolved_as_linkers_do() {
    check_program(Language::C, 1);
    check_program(Language::C, 2);
}

#[test]
fn cpp_programs_are_resolved_as_linkers_do() {
    check_program(Language::Cpp, 1);
    check_program(Language::Cpp, 2);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cpp,
}

/// How a unit knows a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Absent,
    Declared,
    DeclaredWeak,
    Strong,
    Hidden,
    Weak,
    /// C alone.
    Alias,
    /// C alone.
    WeakAlias,
    Static,
    /// Functions of C++: in a COMDAT group. In C: `inline`, which is no
    /// definition.
    Inline,
    /// Variables of C alone, so many words.
    Common(usize),
}

impl Way {
    fn is_strong(self) -> bool {
        matches!(self, Self::Strong | Self::Hidden | Self::Alias)
    }

    fn defines(self, language: Language) -> bool {
        let weakly = matches!(self, Self::Weak | Self::WeakAlias | Self::Common(_));
        self.is_strong() || weakly || (self == Self::Inline && language == Language::Cpp)
    }
}

struct Name {
    text: String,
    is_function: bool,
    /// By unit.
    ways: Vec<Way>,
}

/// Names known in ways that link: at most one strong definition, and at least
/// one of any kind unless all references are weak.
fn names(rng: &mut Rng, language: Language) -> Vec<Name> {
    let mut names = Vec::new();
    for number in 0..60 {
        let is_function = number % 2 == 0;
        let text = format!("{}{number}", if is_function { 'f' } else { 'v' });
        let mut ways: Vec<Way> = (0..UNITS).map(|_| way(rng, language, is_function)).collect();
        let mut has_strong = false;
        for way in &mut ways {
            if way.is_strong() && std::mem::replace(&mut has_strong, true) {
                *way = Way::Weak;
            }
        }
        if !ways.iter().any(|way| way.defines(language)) {
            for way in &mut ways {
                if matches!(way, Way::Declared | Way::Inline) {
                    *way = Way::DeclaredWeak;
                }
            }
        }
        names.push(Name { text, is_function, ways });
    }
    names
}

fn way(rng: &mut Rng, language: Language, is_function: bool) -> Way {
    use Way::*;
    // Strong ones are rarer: one per name is the most there can be.
    let ways: &[Way] = match (language, is_function) {
        (Language::C, true) => &[
            Absent,
            Declared,
            Declared,
            DeclaredWeak,
            Strong,
            Hidden,
            Weak,
            Weak,
            Weak,
            Alias,
            WeakAlias,
            WeakAlias,
            Static,
            Inline,
        ],
        (Language::C, false) => &[
            Absent,
            Declared,
            DeclaredWeak,
            Strong,
            Hidden,
            Weak,
            Weak,
            Static,
            Common(1),
            Common(2),
            Common(3),
        ],
        (Language::Cpp, true) => {
            &[Absent, Declared, DeclaredWeak, Strong, Weak, Weak, Static, Inline, Inline, Inline]
        }
        (Language::Cpp, false) => {
            &[Absent, Declared, DeclaredWeak, Strong, Weak, Weak, Static, Inline, Inline]
        }
    };
    ways[rng.usize(0..ways.len())]
}

/// The source of unit `number`. It prints what each name means here:
/// `UNIT NAME MEANING`, 0 for a common variable, -1 for null.
fn source(language: Language, names: &[Name], number: usize) -> String {
    let mut text =
        String::from("#ifdef __cplusplus\nextern \"C\"\n#endif\nint printf(const char *, ...);\n");
    let mut report = String::new();
    for name in names {
        let way = name.ways[number];
        if way == Way::Absent {
            continue;
        }
        let id = &name.text;
        let value = number + 1;
        if name.is_function {
            let body = |id: &str| {
                format!(
                    "{id}(void) {{ __asm__ volatile(\"marker_{number}_{id}:\"); return {value}; }}"
                )
            };
            let weak = "__attribute__((weak))";
            let line = match way {
                Way::Declared => format!("int {id}(void);"),
                Way::DeclaredWeak => format!("{weak} int {id}(void);"),
                Way::Strong => format!("int {}", body(id)),
                Way::Hidden => format!("__attribute__((visibility(\"hidden\"))) int {}", body(id)),
                Way::Weak => format!("{weak} int {}", body(id)),
                Way::Static => format!("static int {}", body(id)),
                Way::Inline => format!("inline int {}", body(id)),
                Way::Alias => format!(
                    "static int {}\nint {id}(void) __attribute__((alias(\"impl_{id}\")));",
                    body(&format!("impl_{id}")),
                ),
                Way::WeakAlias => format!(
                    "static int {}\n{weak} int {id}(void) __attribute__((alias(\"impl_{id}\")));",
                    body(&format!("impl_{id}")),
                ),
                Way::Absent | Way::Common(_) => unreachable!("not a way of a function"),
            };
            writeln!(text, "{line}").unwrap();
            writeln!(report, "  printf(\"{number} {id} %d\\n\", {id} ? {id}() : -1);").unwrap();
        } else {
            // Arrays, so that common ones may differ in size.
            let line = match way {
                Way::Declared => format!("extern int {id}[];"),
                Way::DeclaredWeak => format!("extern __attribute__((weak)) int {id}[];"),
                Way::Strong => format!("int {id}[] = {{{value}}};"),
                Way::Hidden => {
                    format!("__attribute__((visibility(\"hidden\"))) int {id}[] = {{{value}}};")
                }
                Way::Weak => format!("__attribute__((weak)) int {id}[] = {{{value}}};"),
                Way::Static => format!("static int {id}[] = {{{value}}};"),
                Way::Inline => format!("inline int {id}[] = {{{value}}};"),
                Way::Common(words) => format!("int {id}[{words}];"),
                Way::Absent | Way::Alias | Way::WeakAlias => {
                    unreachable!("not a way of a variable")
                }
            };
            writeln!(text, "{line}").unwrap();
            writeln!(report, "  printf(\"{number} {id} %d\\n\", {id} ? {id}[0] : -1);").unwrap();
        }
    }
    let c = if language == Language::Cpp { "extern \"C\" " } else { "" };
    writeln!(text, "{c}void report_{number}(void) {{\n{report}}}").unwrap();
    if number == 0 {
        for other in 1..UNITS {
            writeln!(text, "{c}void report_{other}(void);").unwrap();
        }
        let calls: String = (0..UNITS).map(|other| format!("report_{other}(); ")).collect();
        writeln!(text, "int main(void) {{ {calls}return 0; }}").unwrap();
    }
    text
}

/// The symbol table's name for `name` where it is not static.
fn linkage_name(language: Language, name: &Name) -> String {
    match (language, name.is_function) {
        (Language::Cpp, true) => format!("_Z{}{}v", name.text.len(), name.text),
        _ => name.text.clone(),
    }
}

fn check_program(language: Language, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let names = names(&mut rng, language);
    let folder = tempfile::tempdir().unwrap();
    let extension = if language == Language::C { "c" } else { "cpp" };
    let sources: Vec<PathBuf> = (0..UNITS)
        .map(|number| {
            let path = folder.path().join(format!("u{number}.{extension}"));
            fs::write(&path, source(language, &names, number)).unwrap();
            path
        })
        .collect();
    let units = compile(folder.path(), &sources, &["-fcommon"]);
    let objects: Vec<PathBuf> = sources.iter().map(|path| path.with_extension("o")).collect();

    let native = native_object(language, &names, NATIVE);
    let input = |(number, unit)| match number {
        NATIVE => Input::Native(native.clone()),
        _ => Input::Unit(unit),
    };
    let inputs = units.iter().enumerate().map(input).collect();
    let program = Program::new(Link { inputs, ..Link::default() });
    assert_eq!(program.duplicates(), []);

    for linker in LINKERS {
        let executable = folder.path().join(linker);
        let linked = link(linker, &objects, &executable, &[]);
        assert!(linked.status.success(), "{linked:?}");
        let printed = run(&mut Command::new(&executable));
        let told: BTreeSet<&str> = printed.lines().collect();
        let mut checked = 0;
        for (object, unit) in program.units() {
            let number = object.position();
            for name in &names {
                let way = name.ways[number];
                if way == Way::Absent {
                    continue;
                }
                let meaning = meaning(&program, object, unit, &symbol_name(language, name, way));
                let line = format!("{number} {} {meaning}", name.text);
                assert!(told.contains(line.as_str()), "{linker}: '{line}' not in\n{printed}");
                checked += 1;
            }
        }
        assert!(checked > 150, "{checked}");
        check_markers(&program, &executable);
    }
}

/// The name by which a unit's own symbol table knows it.
fn symbol_name(language: Language, name: &Name, way: Way) -> String {
    match (language, name.is_function, way) {
        (Language::Cpp, true, Way::Static) => format!("_ZL{}{}v", name.text.len(), name.text),
        (Language::Cpp, false, Way::Static) => format!("_ZL{}{}", name.text.len(), name.text),
        _ => linkage_name(language, name),
    }
}

/// What the program must print for a symbol.
fn meaning(program: &Program<'_>, object: Object, unit: &Unit, name: &str) -> i64 {
    let found = unit.symbols.iter().find(|(_, symbol)| symbol.name == name);
    let (sym, _) = found.unwrap_or_else(|| panic!("{object} has no symbol {name}"));
    let value = |object: Object| object.position() as i64 + 1;
    match program.resolve(object, sym) {
        Resolution::Function(object, _) => value(object),
        Resolution::Data(object, sym) => {
            let linkage = program.unit(object).unwrap().symbols[sym].linkage;
            if linkage == Linkage::Common { 0 } else { value(object) }
        }
        Resolution::Native(object) => {
            let Input::Native(native) = &program.inputs()[object] else { unreachable!() };
            let definition = native.definitions.iter().find(|it| it.name == name).unwrap();
            if matches!(definition.strength, Strength::Common(_)) { 0 } else { value(object) }
        }
        Resolution::Null => -1,
        other => panic!("{object} {name}: {other:?}"),
    }
}

/// The symbols of a unit, as its object file has them.
fn native_object(language: Language, names: &[Name], number: usize) -> NativeObject {
    let definition = |name: &Name| {
        let way = name.ways[number];
        let strength = match way {
            Way::Weak | Way::WeakAlias | Way::Inline => Strength::Weak,
            Way::Common(words) => Strength::Common(4 * words as u64),
            _ => Strength::Strong,
        };
        let text = linkage_name(language, name);
        let comdat = (way == Way::Inline).then(|| text.clone());
        way.defines(language).then_some(NativeDefinition {
            name: text,
            strength,
            comdat,
            means: None,
        })
    };
    let definitions = names.iter().filter_map(definition).collect();
    NativeObject {
        name: format!("u{number}.o"),
        shared: false,
        definitions,
        references: Vec::new(),
        system: false,
    }
}

/// A function's code is in the program if and only if its marker is.
fn check_markers(program: &Program<'_>, executable: &Path) {
    let symbols = run(Command::new("nm").arg(executable));
    let markers: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter(|name| name.starts_with("marker_"))
        .collect();
    assert!(markers.len() > 20);
    let mut expected = BTreeSet::new();
    for (object, unit) in program.units() {
        for (func, function) in unit.functions.iter() {
            let name = &unit.symbols[function.symbol].name;
            let plain = name.trim_start_matches("_Z").trim_start_matches('L');
            let plain = plain.trim_start_matches(|c: char| c.is_ascii_digit());
            let plain = if plain == name { plain } else { plain.trim_end_matches('v') };
            if program.kept(object, func) && !name.starts_with("report_") && name != "main" {
                expected.insert(format!("marker_{}_{plain}", object.position()));
            }
        }
    }
    let native = format!("marker_{NATIVE}_");
    let found: BTreeSet<String> =
        markers.iter().filter(|it| !it.starts_with(&native)).map(|it| it.to_string()).collect();
    assert_eq!(found, expected);
}

/// Compiles each source to bitcode and the bitcode to an object beside it, and
/// lowers the bitcode.
fn compile(folder: &Path, sources: &[PathBuf], options: &[&str]) -> Vec<Unit> {
    let clang = |arguments: &[&str], files: &[PathBuf]| {
        let mut command = Command::new("clang-19");
        run(command.current_dir(folder).args(["-w", "-O0", "-c"]).args(arguments).args(files));
    };
    let bitcode: Vec<PathBuf> = sources.iter().map(|path| path.with_extension("bc")).collect();
    clang(&[&["-emit-llvm"], options].concat(), sources);
    clang(&[], &bitcode);
    let library = libllvm();
    bitcode
        .into_iter()
        .map(|bitcode| {
            let name = bitcode.file_stem().unwrap().to_str().unwrap().to_string();
            let request = Request {
                library: library.clone(),
                bitcode,
                name,
                lower: true,
                files_in_assembly: true,
                plan: None,
                debug: DebugKept::All,
                output: None,
            };
            let unit = match backtrail_llvm::worker::run(&request) {
                Response::Done { unit, .. } => *unit.expect("a unit was asked for"),
                other => panic!("{other:?}"),
            };
            // What front ends make can be carried and printed.
            assert_eq!(encode::from_bytes(&encode::to_bytes(&unit)).as_ref(), Ok(&unit));
            assert_eq!(text::parse(&text::print(&unit)).as_ref(), Ok(&unit));
            unit
        })
        .collect()
}

/// The library that clang-19 itself uses.
fn libllvm() -> PathBuf {
    let clang = run(Command::new("sh").args(["-c", "command -v clang-19"]));
    let libraries = run(Command::new("ldd").arg(clang.trim()));
    let line = libraries.lines().find(|line| line.contains("libLLVM")).expect("a shared libLLVM");
    PathBuf::from(line.split_whitespace().nth(2).expect("ldd tells the path"))
}

fn link(linker: &str, objects: &[PathBuf], to: &Path, options: &[&str]) -> Output {
    let mut command = Command::new("clang-19");
    command.arg(format!("-fuse-ld={linker}")).args(objects).arg("-o").arg(to).args(options);
    command.output().expect("clang-19 must be installed")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A few units, written out, and what a linker makes of them.
struct Built {
    units: Vec<Unit>,
    linked: Output,
    executable: PathBuf,
    _folder: tempfile::TempDir,
}

fn build(linker: &str, sources: &[(&str, &str)], options: &[&str]) -> Built {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = sources.iter().map(|(name, _)| folder.path().join(name)).collect();
    for (path, (_, text)) in paths.iter().zip(sources) {
        fs::write(path, text).unwrap();
    }
    let units = compile(folder.path(), &paths, &[]);
    let objects: Vec<PathBuf> = paths.iter().map(|path| path.with_extension("o")).collect();
    let executable = folder.path().join("program");
    let linked = link(linker, &objects, &executable, options);
    Built { units, linked, executable, _folder: folder }
}

/// What the linker takes for an error of the program, we do.
#[test]
fn duplicates_and_missing_definitions_fail_to_link() {
    let main = ("main.c", "int f(void); int main(void) { return f(); }");
    let f = "int f(void) { return 0; }";
    for linker in LINKERS {
        let Built { units, linked, .. } = build(linker, &[main, ("a.c", f), ("b.c", f)], &[]);
        assert!(!linked.status.success());
        assert_eq!(
            joined(&units).duplicates()[0].to_string(),
            "'f' is defined in 'a' and again in 'b'"
        );
        let Built { units, linked, .. } = build(linker, &[main], &[]);
        assert!(!linked.status.success());
        let program = joined(&units);
        assert_eq!(resolution(&program, 0, "f"), Resolution::Elsewhere);
        // Alone in a group, a definition is no duplicate.
        let grouped = "$f = comdat any\ndefine i32 @f() comdat { ret i32 0 }";
        let Built { units, linked, .. } =
            build(linker, &[main, ("a.ll", grouped), ("b.ll", grouped)], &[]);
        assert!(linked.status.success(), "{linked:?}");
        assert_eq!(joined(&units).duplicates(), []);
    }
}

fn resolution(program: &Program<'_>, object: usize, name: &str) -> Resolution {
    let object = Object::new(object);
    let symbols = &program.unit(object).unwrap().symbols;
    let (sym, _) = symbols.iter().find(|(_, symbol)| symbol.name == name).unwrap();
    program.resolve(object, sym)
}

/// Internal functions of a group are kept and discarded with it.
#[test]
fn groups_take_their_internal_functions_along() {
    let main = ("main.c", "int f(void); int main(void) { return f(); }");
    let grouped = |number: usize| {
        format!(
            "$g = comdat any\n\
             define weak i32 @f() comdat($g) {{ %r = call i32 @help_{number}() ret i32 %r }}\n\
             define internal i32 @help_{number}() comdat($g) {{ ret i32 0 }}\n\
             define internal i32 @outside_{number}() {{ ret i32 0 }}\n\
             @llvm.used = appending global [1 x ptr] [ptr @outside_{number}], section \"llvm.metadata\"\n"
        )
    };
    let (one, two) = (grouped(1), grouped(2));
    for linker in LINKERS {
        let built = build(linker, &[main, ("a.ll", &one), ("b.ll", &two)], &[]);
        assert!(built.linked.status.success(), "{:?}", built.linked);
        let symbols = run(Command::new("nm").arg(&built.executable));
        let symbols: Vec<&str> =
            symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
        let units = built.units;
        let program = joined(&units);
        let mut names = Vec::new();
        for (object, unit) in program.units().skip(1) {
            for (func, function) in unit.functions.iter() {
                let name = &unit.symbols[function.symbol].name;
                if name != "f" {
                    assert_eq!(
                        program.kept(object, func),
                        symbols.contains(&name.as_str()),
                        "{name}"
                    );
                    names.push(program.kept(object, func));
                }
            }
        }
        assert_eq!(names, [true, true, false, true]);
        assert_eq!(resolution(&program, 2, "help_2"), Resolution::Discarded);
    }
}

/// `--wrap`, told by the exit status.
#[test]
fn wrapped_names_go_where_linkers_send_them() {
    let main = (
        "main.c",
        "int f(void); int g(void); int __real_f(void);\n\
         int main(void) { return 100 * f() + 10 * __real_f() + g(); }",
    );
    let f = ("f.c", "int f(void) { return 1; } int g(void) { return f(); }");
    let wrap = ("wrap.c", "int __wrap_f(void) { return 2; }");
    for linker in LINKERS {
        let built = build(linker, &[main, f, wrap], &["-Wl,--wrap=f"]);
        assert!(built.linked.status.success(), "{:?}", built.linked);
        let status = Command::new(&built.executable).status().unwrap();
        let inputs = built.units.iter().map(Input::Unit).collect();
        let wrapping = if linker == "lld" { Wrapping::All } else { Wrapping::Foreign };
        let program = Program::new(Link { inputs, wrapped: vec!["f".into()], wrapping });
        let value = |object, name| match resolution(&program, object, name) {
            Resolution::Function(object, _) => object.position() as i32,
            other => panic!("{other:?}"),
        };
        // The unit's number is what the function returns.
        let expected = 100 * value(0, "f") + 10 * value(0, "__real_f") + value(1, "f");
        assert_eq!(status.code(), Some(expected), "{linker}");
    }
}
