// How the runtime is compiled into the objects that are linked into variants.
//
// Meant to be `include!`d by a build script or a test. Cargo cannot make these
// objects as a dependency of a build script, so `rustc` is called directly; the
// two crates have no dependencies besides each other.

/// Compiles the runtime in `crates_dir` with `rustc` to relocatable objects in
/// `out_dir`: `backtrail_runtime.o`, whose path it gives, and beside it
/// `backtrail_counts.o`, which has no block log.
///
/// Unwind tables are kept: a program that takes a backtrace in a signal handler
/// must find its way through the runtime.
fn compile_runtime(
    rustc: &std::ffi::OsStr,
    crates_dir: &std::path::Path,
    out_dir: &std::path::Path,
) -> std::path::PathBuf {
    let compile = |arguments: &[&std::ffi::OsStr]| {
        let output = std::process::Command::new(rustc)
            .args(["--edition", "2024", "-C", "opt-level=3", "-C", "panic=abort"])
            .args(["-C", "codegen-units=1", "-C", "relocation-model=pic"])
            .args(["-C", "force-unwind-tables=yes", "-C", "embed-bitcode=no"])
            .args(["--crate-type", "lib", "--cap-lints", "warn"])
            .args(arguments)
            .output()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", rustc.display()));
        assert!(
            output.status.success(),
            "{} could not compile the runtime:\n{}",
            rustc.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let abi = out_dir.join("libbacktrail_abi.rlib");
    compile(&[
        "--crate-name".as_ref(),
        "backtrail_abi".as_ref(),
        "-o".as_ref(),
        abi.as_os_str(),
        crates_dir.join("abi/src/lib.rs").as_os_str(),
    ]);
    let mut with_abi = std::ffi::OsString::from("backtrail_abi=");
    with_abi.push(&abi);
    let compile_object = |name: &str, features: &[&std::ffi::OsStr]| {
        let object = out_dir.join(name);
        let source = crates_dir.join("runtime/src/lib.rs");
        let mut arguments: Vec<&std::ffi::OsStr> =
            vec!["--crate-name".as_ref(), "backtrail_runtime".as_ref(), "--emit=obj".as_ref()];
        arguments.extend(["--extern".as_ref(), with_abi.as_os_str()]);
        arguments.extend(["-o".as_ref(), object.as_os_str(), source.as_os_str()]);
        arguments.extend(features);
        compile(&arguments);
        object
    };
    compile_object("backtrail_counts.o", &[]);
    compile_object("backtrail_runtime.o", &["--cfg".as_ref(), "feature=\"log\"".as_ref()])
}
