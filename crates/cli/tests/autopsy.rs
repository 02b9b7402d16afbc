//! `backtrail autopsy`: what it prints of cores, and of what is none.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use backtrail_testkit::cores::{self, compile, core_beside};
use serde_json::{Value, json};

fn autopsy(words: &[&str], files: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backtrail"));
    command.arg("autopsy").args(words).args(files).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn shown(words: &[&str], files: &[&Path]) -> String {
    let output = autopsy(words, files);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    said(&output)
}

/// What is said, in one line, of an input of which nothing can be told.
fn refused(words: &[&str], files: &[&Path]) -> String {
    let output = autopsy(words, files);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(said(&output), "");
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    message.trim_end().to_owned()
}

fn crashed(folder: &Path, way: &str) -> (PathBuf, PathBuf) {
    let program = compile("clang-19", &["-O2"], "crashes.c", folder);
    let core = core_beside(&program, &[way], way);
    (program, core)
}

fn schema() -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/autopsy-1.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn check(document: &str) -> Value {
    let value: Value = serde_json::from_str(document).unwrap();
    let schema = schema();
    let errors: Vec<_> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?} in {document}");
    value
}

#[test]
fn a_segfault_is_shown_with_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let (program, core) = crashed(folder.path(), "segfault");
    let source = std::fs::read_to_string(cores::fixture("crashes.c")).unwrap();
    let line = 1 + source.lines().position(|line| line.contains("return *from + more;")).unwrap();
    let place = format!("crashes.c:{line}");
    let text = shown(&[], &[&core]);
    for part in [
        "program  SIGSEGV at 0x0: nothing is mapped at the address\n",
        "  #0  peek ",
        &format!("{place}  (inlined)\n"),
        "return *from + more;\n",
        "  #5  main ",
        "This program was not built with `backtrail cc`",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let document = check(&shown(&["--json"], &[&core]));
    assert_eq!(document["signal"], "SIGSEGV");
    assert_eq!(document["fault_address"], "0x0");
    assert_eq!(document["program"], "program");
    let frame = &document["threads"][0]["frames"][0];
    assert_eq!((&frame["function"], &frame["line"]), (&json!("peek"), &json!(line)));
    assert_eq!((&frame["file"], &frame["inlined"]), (&json!("crashes.c"), &json!(true)));
    assert_eq!(frame["found_by"], "unwind tables");

    // The schema is strict enough to notice something.
    for (pointer, value) in [
        ("/threads/0/frames/0/found_by", json!("luck")),
        ("/threads/0/frames/0/address", json!(16)),
        ("/threads/0/frames/0/line", json!(0)),
        ("/threads/0/crashed", json!("yes")),
        ("/fault_address", json!("16")),
    ] {
        let mut broken = document.clone();
        *broken.pointer_mut(pointer).unwrap() = value;
        assert!(!schema().is_valid(&broken), "{pointer}");
    }

    // Sources that have moved; several cores, a document in each line.
    let was = cores::fixture("").canonicalize().unwrap();
    let moved = folder.path().join("moved");
    std::fs::create_dir(&moved).unwrap();
    std::fs::write(moved.join("crashes.c"), "// line\n".repeat(line - 1) + "was moved\n").unwrap();
    let map = format!("{}={}", was.display(), moved.display());
    let text = shown(&["--source-map", &map, "--exe", program.to_str().unwrap()], &[&core]);
    assert!(text.contains(&format!("moved/{place}")) && text.contains("was moved\n"), "{text}");
    let both = shown(&["--json"], &[&core, &core]);
    let both: Vec<&str> = both.lines().collect();
    let [one, other, common] = both[..] else { panic!("{both:?}") };
    assert_eq!([check(one), check(other)], [document.clone(), document]);
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/autopsy-common-1.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let common: Value = serde_json::from_str(common).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&common), "{common}");
    assert_eq!(
        (&common["signal"], &common["frames"][0]["line"]),
        (&json!("SIGSEGV"), &json!(line))
    );
}

#[test]
fn a_stack_that_overflowed_is_folded() {
    let folder = tempfile::tempdir().unwrap();
    let (_, core) = crashed(folder.path(), "overflow");
    let text = shown(&[], &[&core]);
    assert!(text.lines().count() < 60, "{text}");
    assert!(text.contains("more of the same …") && text.contains("main "), "{text}");
    let document = check(&shown(&["--json"], &[&core]));
    let thread = &document["threads"][0];
    let listed = thread["frames"].as_array().unwrap();
    let left_out = &thread["left_out"];
    assert_eq!(left_out["cycle"], 1);
    let all = listed.len() as u64 + left_out["frames"].as_u64().unwrap();
    assert_eq!(listed.last().unwrap()["number"].as_u64().unwrap() + 1, all);
    assert_eq!(thread["lost"], Value::Null);
}

#[test]
fn what_was_guessed_is_labelled() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-O2", "-fno-stack-protector"];
    let program = compile("clang-19", &options, "crashes.c", folder.path());
    let core = core_beside(&program, &["smash"], "smash");
    let text = shown(&[], &[&core]);
    assert!(text.contains("its return address was overwritten: 0x4141414141414141"), "{text}");
    assert!(text.contains("(found by "), "{text}");
    let document = check(&shown(&["--json"], &[&core]));
    let frames = document["threads"][0]["frames"].as_array().unwrap();
    assert!(frames[1..].iter().all(|frame| frame["uncertain"] == true), "{text}");
}

#[test]
fn a_program_of_ours_is_not_told_to_become_one() {
    let folder = tempfile::tempdir().unwrap();
    let backtrail = env!("CARGO_BIN_EXE_backtrail");
    let program = folder.path().join("program");
    let mut command = Command::new(backtrail);
    command.args(["cc", "-O2", "-g", "-pthread", "-o"]).arg(&program);
    cores::run(command.arg(cores::fixture("crashes.c")));
    let core = core_beside(&program, &["abort"], "abort");
    let text = shown(&[], &[&core]);
    assert!(text.contains("SIGABRT: sent by process ") && text.contains("give_up"), "{text}");
    assert!(!text.contains("not built with"), "{text}");
}

#[test]
fn what_is_no_core_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (program, core) = crashed(folder.path(), "segfault");
    let bytes = std::fs::read(&core).unwrap();
    let with = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let mut small = bytes.clone();
    (small[4], small[18]) = (1, 3);
    let mut arm = bytes.clone();
    arm[18] = 183;
    for (path, part) in [
        (folder.path().join("none"), "No such file"),
        (folder.path().to_owned(), "a folder, not a core dump"),
        (with("empty", b""), "an empty file"),
        (with("text", b"Segmentation fault\n"), "not even an ELF file"),
        (with("header", &bytes[..40]), "truncated core dump"),
        (with("notes", &bytes[..0x600]), "no thread's registers are in it: the core is truncated"),
        (with("small", &small), "a 32-bit file (i386)"),
        (with("arm", &arm), "of another architecture (AArch64)"),
        (with("gz", &[0x1f, 0x8b, 8, 0, 0]), "compressed with gzip"),
        (program.clone(), "not a core dump but an executable"),
    ] {
        let message = refused(&[], &[&path]);
        assert!(message.contains(part), "{part} in {message}");
        assert!(message.contains(path.to_str().unwrap()), "{message}");
    }
    let text = with("notes.txt", b"nothing");
    let message = refused(&["--exe", text.to_str().unwrap()], &[&core]);
    assert!(message.contains("not an executable: not an ELF file"), "{message}");
    assert!(refused(&["--pid", "999999999"], &[]).contains("there is no such process"));
    assert_eq!(autopsy(&[], &[]).status.code(), Some(2));
    assert_eq!(autopsy(&["--source-map", "a"], &[&core]).status.code(), Some(2));
}

#[test]
fn of_what_is_missing_the_rest_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (program, core) = crashed(folder.path(), "abort");
    let id = check(&shown(&["--json"], &[&core]))["build_id"].as_str().unwrap().to_owned();
    // Another build, given and in its place.
    let other = tempfile::tempdir().unwrap();
    let wrong = compile("clang-19", &["-O1"], "crashes.c", other.path());
    let message = refused(&["--exe", wrong.to_str().unwrap()], &[&core]);
    assert!(message.contains(&id) && message.contains("without --exe, a backtrace"), "{message}");
    let kept = folder.path().join("kept");
    std::fs::rename(&program, &kept).unwrap();
    std::fs::copy(&wrong, &program).unwrap();
    let text = shown(&[], &[&core]);
    assert!(text.contains("is of another build") && text.contains(&id), "{text}");
    assert!(text.contains("give the executable that ran with --exe"), "{text}");
    // None.
    std::fs::remove_file(&program).unwrap();
    let text = shown(&[], &[&core]);
    assert!(text.contains("No such file") && text.contains("SIGABRT"), "{text}");
    let document = check(&shown(&["--json"], &[&core]));
    assert_eq!(document["build_id"], *id);
    assert_eq!(document["remarks"].as_array().unwrap().len(), 1);
    // Elsewhere.
    let text = shown(&["--exe", kept.to_str().unwrap()], &[&core]);
    assert!(text.contains("give_up") && !text.contains("No such file"), "{text}");
    // A core that ends early.
    let bytes = std::fs::read(&core).unwrap();
    std::fs::write(&core, &bytes[..bytes.len() / 3]).unwrap();
    let words = ["--exe", kept.to_str().unwrap()];
    if cores::kernel_writes() {
        let text = shown(&words, &[&core]);
        assert!(
            text.contains("the core is truncated: ") && text.contains("no further: "),
            "{text}"
        );
    } else {
        // gdb puts the registers behind everything else.
        let message = refused(&words, &[&core]);
        assert!(message.contains("no thread's registers are in it: the core is truncated"));
    }
}

#[test]
fn a_live_process_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("clang-19", &["-O2"], "crashes.c", folder.path());
    let mut command = Command::new(&program);
    command.arg("wait").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    let document = check(&shown(&["--json", "--pid", &child.id().to_string()], &[]));
    let frames = document["threads"][0]["frames"].as_array().unwrap();
    assert_eq!(
        (&document["signal"], &document["threads"][0]["crashed"]),
        (&Value::Null, &json!(false))
    );
    assert!(frames.iter().any(|frame| frame["function"] == "linger"), "{document}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
