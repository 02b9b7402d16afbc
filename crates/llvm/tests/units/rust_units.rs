//! Units of rustc, through its own libLLVM.

use std::path::{Path, PathBuf};
use std::process::Command;

use backtrail_ir::{Op, SymbolKind, Unit};
use backtrail_plan::block_log;
use backtrail_plan::worker::{Codegen, Output, Request};

use crate::toolchain::{Workshop, compiler, request, run, serve_done, serve_failed, source};

/// The libLLVM that belongs to rustc.
fn rust_library() -> PathBuf {
    let output = run(Command::new(rustc()).args(["--print", "sysroot"]));
    let sysroot = String::from_utf8(output.stdout).expect("a path");
    let folder = Path::new(sysroot.trim()).join("lib");
    let files = std::fs::read_dir(&folder).expect("the sysroot has libraries");
    files
        .map(|it| it.expect("readable").path())
        .find(|it| it.file_name().is_some_and(|it| it.to_string_lossy().starts_with("libLLVM")))
        .unwrap_or_else(|| panic!("no libLLVM in {}", folder.display()))
}

fn rustc() -> String {
    std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned())
}

/// A program's units, as `-C save-temps` leaves them, and how it was linked.
struct Program {
    workshop: Workshop,
    units: Vec<PathBuf>,
    link: Vec<String>,
}

impl Program {
    fn compile(flags: &[&str]) -> Self {
        let workshop = Workshop::new();
        let output = run(Command::new(rustc())
            .current_dir(workshop.path(""))
            .args(["--edition", "2021", "-C", "save-temps", "-C", "codegen-units=3"])
            .args(["--print", "link-args", "-o", "program"])
            .args(flags)
            .arg(source("program.rs")));
        let link = String::from_utf8(output.stdout).expect("text");
        let link: Vec<_> =
            link.trim().split(' ').map(|it| it.trim_matches('"').to_owned()).collect();
        let units: Vec<_> = std::fs::read_dir(workshop.path(""))
            .expect("readable")
            .map(|it| it.expect("readable").path())
            .filter(|it| {
                let name = it.file_name().expect("a name").to_string_lossy();
                name.ends_with(".rcgu.bc")
            })
            .collect();
        assert!(units.len() >= 3, "{units:?}");
        Self { workshop, units, link }
    }

    fn request(&self, unit: &Path) -> Request {
        Request { library: rust_library(), name: "program.rs".into(), ..request(unit) }
    }

    /// Replaces the objects of the units by ours.
    fn emit(&self, codegen: &Codegen, logged: bool) -> Vec<Unit> {
        let mut models = Vec::new();
        for unit in &self.units {
            let asked = Request { lower: true, ..self.request(unit) };
            let model = *serve_done(&asked).expect("it was asked for");
            backtrail_ir::verify::verify(&model).unwrap_or_else(|error| panic!("{error}"));
            let plan = logged.then(|| block_log::plan(&model, [3; 16]));
            let output =
                Some(Output::Object { path: unit.with_extension("o"), codegen: codegen.clone() });
            serve_done(&Request { plan, output, ..self.request(unit) });
            models.push(model);
        }
        models
    }

    fn run(&self) -> std::process::Output {
        let log = self.workshop.path("log");
        Command::new(self.workshop.path("program")).env("LOG", log).output().expect("it starts")
    }

    fn relink(&self, more: &[&Path]) {
        std::fs::remove_file(self.workshop.path("program")).expect("rustc wrote it");
        // rustc's own search folder for the linker is gone by now.
        let words = self.link.iter().skip_while(|it| !it.ends_with("cc"));
        let mut words = words.cloned();
        let mut command = Command::new(words.next().expect("a linker"));
        run(command.current_dir(self.workshop.path("")).args(words).args(more));
    }
}

fn codegen(opt_level: u8) -> Codegen {
    Codegen {
        cpu: "x86-64".into(),
        opt_level,
        relocation_model: "pic".into(),
        separate_sections: true,
        ..Codegen::default()
    }
}

#[test]
fn rust_programs_are_rebuilt_from_their_units() {
    for (flags, level) in [(&["-O", "-g"][..], 3), (&["-C", "opt-level=0"], 0)] {
        let program = Program::compile(flags);
        let expected = program.run();
        assert_eq!(expected.status.code(), Some(7));
        let models = program.emit(&codegen(level), false);
        program.relink(&[]);
        assert_eq!(program.run(), expected, "{flags:?}");
        let cases: Vec<_> = models
            .iter()
            .flat_map(|it| it.functions.values())
            .flat_map(|it| it.insts.values())
            .filter_map(
                |it| if let Op::Switch { cases } = &it.op { Some(cases.len()) } else { None },
            )
            .collect();
        assert!(cases.iter().any(|it| *it > 1), "{flags:?}");
        if flags.contains(&"-g") {
            let files = models.iter().flat_map(|it| it.files.values());
            assert!(files.into_iter().any(|it| it.ends_with("program.rs")));
            let inlined = models.iter().flat_map(|it| it.locations.values());
            assert!(inlined.into_iter().any(|it| it.inlined_at.is_some()));
        }
    }
}

#[test]
fn rust_programs_log_what_they_execute() {
    let program = Program::compile(&["-C", "opt-level=1"]);
    let expected = program.run();
    let models = program.emit(&codegen(1), true);
    let runtime = program.workshop.path("runtime.o");
    run(compiler("log_runtime.c")
        .args(["-O1", "-fPIC", "-c", "-o"])
        .arg(&runtime)
        .arg(source("log_runtime.c")));
    program.relink(&[&runtime]);
    assert_eq!(program.run(), expected);
    let log = std::fs::read_to_string(program.workshop.path("log")).expect("the runtime wrote it");
    assert!(log.lines().filter(|it| it.starts_with("unit")).count() >= 2, "units that run");
    let defined = |unit: &Unit| {
        unit.symbols.values().filter(|it| matches!(it.kind, SymbolKind::Function(_))).count()
    };
    assert!(models.iter().map(defined).sum::<usize>() > 20);
}

#[test]
fn bitcode_of_a_later_llvm_is_refused_by_name() {
    let program = Program::compile(&["-O"]);
    let newest = program.units.iter().find_map(|unit| {
        let asked = Request { lower: true, ..request(unit) };
        match crate::toolchain::serve(&asked) {
            backtrail_plan::worker::Response::Failed(_) => Some(serve_failed(&asked)),
            _ => None,
        }
    });
    let why = newest.expect("some unit uses what LLVM 19 does not know");
    assert!(why.contains("not readable as LLVM 19"), "{why}");
}
