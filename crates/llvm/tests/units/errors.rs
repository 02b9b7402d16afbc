//! What cannot be done is one line that says so.

use std::path::{Path, PathBuf};

use backtrail_graph::Index;
use backtrail_ir::{Block, Func};
use backtrail_plan::worker::{Codegen, Output, Request, Response};
use backtrail_plan::{Action, FunctionPlan, Place, Probe, UnitPlan, block_log};

use crate::toolchain::{
    Workshop, frame, lower, request, run, serve, serve_bytes, serve_done, serve_failed,
    serve_stream, source,
};

fn assert_says(why: &str, words: &[&str]) {
    for word in words {
        assert!(why.contains(word), "`{why}` does not say `{word}`");
    }
}

#[test]
fn libraries_that_do_not_fit_are_refused() {
    let workshop = Workshop::new();
    let bitcode = workshop.bitcode("inlined.c", &[]);
    let with = |library: PathBuf| serve_failed(&Request { library, ..request(&bitcode) });
    assert_says(&with("/nowhere/libLLVM.so".into()), &["cannot load libLLVM /nowhere/libLLVM.so"]);
    assert_says(&with(source("inlined.c")), &["cannot load libLLVM", "inlined.c"]);
    let library = |name: &str, code: &str| {
        let (source, out) = (workshop.path("made.c"), workshop.path(name));
        std::fs::write(&source, code).expect("a file");
        run(std::process::Command::new("clang-19")
            .args(["-shared", "-fPIC", "-o"])
            .args([&out, &source]));
        out
    };
    let version = |major: u32| {
        format!(
            "void LLVMGetVersion(unsigned *a, unsigned *b, unsigned *c) {{ *a = {major}; *b = 1; *c = 8; }}"
        )
    };
    assert_says(
        &with(library("none.so", "int nothing;")),
        &["none.so", "does not tell its version"],
    );
    let old = with(library("old.so", &version(18)));
    assert_says(&old, &["old.so", "version 18.1.8", "19 to 22"]);
    let new = with(library("new.so", &version(23)));
    assert_says(&new, &["version 23.1.8"]);
    let empty = with(library("empty.so", &version(21)));
    assert_says(&empty, &["21.1.8", "lacks the function LLVM"]);
}

#[test]
fn bitcode_that_is_missing_or_not_bitcode_is_refused() {
    let with = |path: &Path| serve_failed(&Request { lower: true, ..request(path) });
    assert_says(&with(Path::new("/nowhere/x.bc")), &["unit.c: cannot read /nowhere/x.bc"]);
    assert_says(&with(&source("inlined.c")), &["not readable as LLVM 19.1"]);
    assert_says(&with(Path::new("/dev/null")), &["empty or cut off"]);
}

#[test]
fn truncated_bitcode_is_refused_at_every_length() {
    let workshop = Workshop::new();
    let whole = std::fs::read(workshop.bitcode("inlined.c", &["-O1", "-g"])).expect("bitcode");
    let cut = workshop.path("cut.bc");
    let lengths =
        (0..40).chain((40..whole.len()).step_by(whole.len() / 60)).chain([whole.len() - 1]);
    for length in lengths {
        std::fs::write(&cut, &whole[..length]).expect("a file");
        let why = serve_failed(&Request { lower: true, ..request(&cut) });
        assert_says(&why, &["unit.c: "]);
    }
    std::fs::write(&cut, &whole).expect("a file");
    serve_done(&Request { lower: true, ..request(&cut) });
}

#[test]
fn what_is_no_request_gets_an_answer() {
    for bytes in [&[][..], &[0xff; 40], b"hello"] {
        let (response, output) = serve_bytes(bytes);
        let Response::Failed(why) = response else { panic!("it cannot be done") };
        assert_says(&why, &["not a request"]);
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_worker_serves_one_request_after_another_until_one_fails() {
    let workshop = Workshop::new();
    let good = Request { lower: true, ..request(&workshop.bitcode("inlined.c", &["-O1"])) };
    let bad = request(Path::new("/nowhere/x.bc"));
    let framed = |request| frame(&postcard::to_stdvec(request).expect("a request is data"));
    let stream = [framed(&good), framed(&good), framed(&bad), framed(&good)].concat();
    let (responses, output) = serve_stream(&stream);
    assert_eq!(responses.len(), 3);
    assert_eq!(responses[0], serve(&good));
    assert_eq!(responses[1], responses[0]);
    assert!(matches!(&responses[2], Response::Failed(why) if why.contains("/nowhere/x.bc")));
    assert_eq!(output.status.code(), Some(1));

    let (responses, output) = serve_stream(&[]);
    assert_eq!((responses.len(), output.status.code()), (0, Some(0)));
    let whole = framed(&good);
    for length in 1..whole.len() {
        let (responses, output) = serve_stream(&whole[..length]);
        let [Response::Failed(why)] = &responses[..] else { panic!("{length}: {responses:?}") };
        assert_says(why, &["not a request"]);
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn outputs_that_cannot_be_written_are_named() {
    let workshop = Workshop::new();
    let bitcode = workshop.bitcode("inlined.c", &[]);
    let output = Some(Output::Bitcode("/nowhere/out.bc".into()));
    let why = serve_failed(&Request { output, ..request(&bitcode) });
    assert_says(&why, &["cannot write /nowhere/out.bc"]);
    let full = Some(Output::Bitcode("/dev/full".into()));
    let why = serve_failed(&Request { output: full, ..request(&bitcode) });
    assert_says(&why, &["cannot write /dev/full"]);
}

#[test]
fn plans_for_another_unit_are_refused() {
    let workshop = Workshop::new();
    let bitcode = workshop.bitcode("control.c", &["-O1"]);
    let plan = block_log::plan(&lower(&bitcode), [1; 16]);
    let refused = |change: fn(&mut UnitPlan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        let output = Some(Output::Bitcode(workshop.path("out.bc")));
        serve_failed(&Request { plan: Some(plan), output, ..request(&bitcode) })
    };
    assert_says(&refused(|it| it.blocks += 1), &["not for this unit", "blocks in all"]);
    assert_says(
        &refused(|it| it.functions[0].name = "other".into()),
        &["f0 is `loops`, not `other`"],
    );
    assert_says(&refused(|it| it.functions[1].blocks += 1), &["`switches` has"]);
    assert_says(&refused(|it| it.functions[0].function = Func::new(999)), &["names f999"]);
    assert_says(
        &refused(|it| it.functions[0].probes[0].at = Place::Block(Block::new(999))),
        &["`loops` has no block b999"],
    );
    assert!(!workshop.path("out.bc").exists(), "nothing is written");
}

#[test]
fn naked_functions_are_refused() {
    let workshop = Workshop::new();
    let bitcode = workshop.bitcode("control.c", &["-O1"]);
    let unit = lower(&bitcode);
    let mut plan = block_log::plan(&unit, [1; 16]);
    let (function, data) = unit
        .functions
        .iter()
        .find(|(_, it)| unit.symbols[it.symbol].name == "bare")
        .expect("it is there");
    plan.functions.push(FunctionPlan {
        function,
        name: "bare".into(),
        blocks: data.blocks.len() as u32,
        probes: vec![Probe { at: Place::Block(Block::new(0)), action: Action::Log { number: 0 } }],
    });
    assert_says(
        &serve_failed(&Request { plan: Some(plan), ..request(&bitcode) }),
        &["`bare`", "naked"],
    );
}

#[test]
fn our_names_are_ours() {
    let workshop = Workshop::new();
    let taken = workshop.path("taken.c");
    std::fs::write(&taken, "void __backtrail_log(void *a, int b) {}").expect("a file");
    let bitcode = workshop.path("taken.bc");
    run(std::process::Command::new("clang-19")
        .args(["-c", "-emit-llvm", "-o"])
        .args([&bitcode, &taken]));
    let plan = Some(block_log::plan(&lower(&bitcode), [1; 16]));
    assert_says(&serve_failed(&Request { plan, ..request(&bitcode) }), &["`__backtrail_log`"]);
}

#[test]
fn unknown_code_generation_options_are_named() {
    let workshop = Workshop::new();
    let bitcode = workshop.bitcode("inlined.c", &[]);
    let with = |codegen: Codegen| {
        let output = Some(Output::Object { path: workshop.path("out.o"), codegen });
        serve_failed(&Request { output, ..request(&bitcode) })
    };
    let codegen = Codegen { relocation_model: "odd".into(), ..Codegen::default() };
    assert_says(&with(codegen), &["unknown relocation model `odd`"]);
    let codegen = Codegen { code_model: "vast".into(), ..Codegen::default() };
    assert_says(&with(codegen), &["unknown code model `vast`"]);
    let codegen = Codegen { opt_level: 9, ..Codegen::default() };
    assert_says(&with(codegen), &["unknown optimisation level `9`"]);
}

#[test]
fn an_error_that_llvm_cannot_report_is_answered() {
    let workshop = Workshop::new();
    let bad = workshop.path("bad.ll");
    let text = "target triple = \"x86_64-pc-linux-gnu\"\n\
        declare void @llvm.write_register.i64(metadata, i64)\n\
        define void @f() {\n call void @llvm.write_register.i64(metadata !0, i64 1)\n ret void\n}\n\
        !0 = !{!\"nosuch\\00\"}\n";
    std::fs::write(&bad, text).expect("a file");
    let bitcode = workshop.path("bad.bc");
    run(std::process::Command::new("clang-19")
        .args(["-c", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-o"])
        .args([&bitcode, &bad]));
    let output = Some(Output::Object { path: workshop.path("out.o"), codegen: Codegen::default() });
    let response = serve_answer(&Request { output, ..request(&bitcode) });
    let Response::Failed(why) = response else { panic!("there is no such register") };
    assert_says(&why, &["unit.c: ", "register"]);
}

/// As [`serve`], where LLVM may print as well.
fn serve_answer(request: &Request) -> Response {
    serve_bytes(&postcard::to_stdvec(request).expect("a request is data")).0
}

#[test]
fn workers_can_be_tried_within_a_process() {
    let bitcode = Workshop::new();
    let path = bitcode.bitcode("inlined.c", &["-O1"]);
    let asked = Request { lower: true, ..request(&path) };
    assert_eq!(backtrail_llvm::worker::run(&asked), serve(&asked));
}
