//! The compilers, the worker, and a folder to work in.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use backtrail_ir::Unit;
use backtrail_plan::worker::{DebugKept, Request, Response};
use tempfile::TempDir;

/// A folder that is removed at the end, and what is compiled in it.
pub struct Workshop {
    dir: TempDir,
}

impl Workshop {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Compiles a fixture to bitcode, as the compiler driver does.
    pub fn bitcode(&self, fixture: &str, flags: &[&str]) -> PathBuf {
        let out = self.path(&format!("{fixture}.bc"));
        run(compiler(fixture)
            .args(flags)
            .args(["-emit-llvm", "-c", "-o"])
            .arg(&out)
            .arg(source(fixture)));
        out
    }

    /// Compiles a fixture to an object in one step.
    pub fn object(&self, fixture: &str, flags: &[&str]) -> PathBuf {
        let out = self.path(&format!("{fixture}.o"));
        run(compiler(fixture).args(flags).args(["-c", "-o"]).arg(&out).arg(source(fixture)));
        out
    }

    /// Compiles bitcode to an object with the code generator alone.
    pub fn generate(&self, fixture: &str, bitcode: &Path, flags: &[&str]) -> PathBuf {
        let out = bitcode.with_extension("generated.o");
        let passes_off = ["-Xclang", "-disable-llvm-passes", "-c", "-o"];
        run(compiler(fixture).args(flags).args(passes_off).arg(&out).arg(bitcode));
        out
    }

    /// Compiles a fixture to LLVM's text form.
    pub fn text(&self, fixture: &str, flags: &[&str]) -> String {
        let out = self.path(&format!("{fixture}.ll"));
        run(compiler(fixture)
            .args(flags)
            .args(["-emit-llvm", "-S", "-o"])
            .arg(&out)
            .arg(source(fixture)));
        std::fs::read_to_string(out).expect("the compiler wrote it")
    }

    /// Links objects to a program.
    pub fn link(&self, fixture: &str, objects: &[&Path], flags: &[&str]) -> PathBuf {
        let out = self.path("program");
        run(compiler(fixture).args(flags).args(objects).arg("-o").arg(&out));
        out
    }
}

/// Where a fixture is.
pub fn source(fixture: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture)
}

/// The compiler for a fixture.
pub fn compiler(fixture: &str) -> Command {
    let is_cxx = fixture.ends_with(".cpp");
    Command::new(if is_cxx { "clang++-19" } else { "clang-19" })
}

/// The libLLVM that belongs to clang-19.
pub fn library() -> PathBuf {
    let places = ["/usr/lib/llvm-19/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let files = places.iter().map(|place| Path::new(place).join("libLLVM.so.19.1"));
    files.into_iter().find(|it| it.exists()).expect("libLLVM.so.19.1 (Debian package libllvm19)")
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A request that does nothing yet.
pub fn request(bitcode: &Path) -> Request {
    Request {
        library: library(),
        bitcode: bitcode.to_owned(),
        name: "unit.c".to_owned(),
        lower: false,
        files_in_assembly: true,
        plan: None,
        debug: DebugKept::All,
        output: None,
    }
}

/// Has a worker serve a request, and checks what is said about its end.
pub fn serve(request: &Request) -> Response {
    let bytes = postcard::to_stdvec(request).expect("a request is data");
    let (response, output) = serve_bytes(&bytes);
    let status = i32::from(matches!(response, Response::Failed(_)));
    assert_eq!(output.status.code(), Some(status), "{response:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    response
}

/// Sends a worker these bytes as its one request.
pub fn serve_bytes(bytes: &[u8]) -> (Response, Output) {
    let (mut responses, output) = serve_stream(&frame(bytes));
    assert_eq!(responses.len(), 1, "{responses:?}");
    (responses.remove(0), output)
}

/// Bytes behind their length.
pub fn frame(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).expect("a short request").to_le_bytes()[..], bytes].concat()
}

/// Sends a worker these bytes; all it answers.
pub fn serve_stream(bytes: &[u8]) -> (Vec<Response>, Output) {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_backtrail-llvm-worker"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the worker starts");
    worker.stdin.take().expect("a pipe").write_all(bytes).expect("the worker reads");
    let output = worker.wait_with_output().expect("the worker ends");
    let mut responses = Vec::new();
    let mut rest = &output.stdout[..];
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk().expect("a length");
        let (response, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
        responses.push(postcard::from_bytes(response).unwrap_or_else(|error| panic!("{error}")));
        rest = behind;
    }
    (responses, output)
}

/// Has a worker serve a request that it must be able to.
pub fn serve_done(request: &Request) -> Option<Box<Unit>> {
    match serve(request) {
        Response::Done { unit, order_kept, .. } => {
            assert!(order_kept);
            unit
        }
        other => panic!("{other:?}"),
    }
}

/// The reason why a request must fail, one line.
pub fn serve_failed(request: &Request) -> String {
    match serve(request) {
        Response::Failed(why) => {
            assert_eq!(why.lines().count(), 1, "{why}");
            why
        }
        other => panic!("against expectation: {other:?}"),
    }
}

/// The verified model of some bitcode.
pub fn lower(bitcode: &Path) -> Unit {
    let unit = serve_done(&Request { lower: true, ..request(bitcode) }).expect("it was asked for");
    backtrail_ir::verify::verify(&unit).unwrap_or_else(|error| panic!("{error}"));
    *unit
}
