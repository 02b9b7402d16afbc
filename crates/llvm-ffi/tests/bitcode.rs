//! Reading and writing bitcode with and without the functions that a libLLVM
//! may lack. Needs clang-19 and its libLLVM; without them the tests fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use backtrail_llvm_ffi::{Context, Error, Llvm, Module};

fn library() -> PathBuf {
    let places = ["/usr/lib/llvm-19/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let files = places.iter().map(|place| Path::new(place).join("libLLVM.so.19.1"));
    files.into_iter().find(|it| it.exists()).expect("libLLVM.so.19.1 (Debian package libllvm19)")
}

/// Values with several uses, whose order the optimiser changes; constructors,
/// whose groups have names that no symbol has.
const SOURCE: &str = r"
    struct Counter { int value; Counter(int start); virtual ~Counter(); int next(); };
    inline Counter::Counter(int start) : value(start) {}
    inline Counter::~Counter() { value = 0; }
    int Counter::next() { return ++value; }
    template <typename T> struct Cell { T content; Cell(T content); };
    template <typename T> Cell<T>::Cell(T content) : content(content) {}
    template struct Cell<int>;
    template <int N> int unrolled(const int *from) { return *from * N + unrolled<N - 1>(from + 1); }
    template <> int unrolled<0>(const int *from) { return from ? *from : 0; }
    int loop(int *data, int count, int limit) {
        int sum = 0;
        for (int i = 0; i < count; i++) {
            if (data[i] > limit) { sum += data[i] * limit; data[i] = count; }
            else if (data[i] < sum) { sum -= limit; continue; }
            sum ^= count + i;
        }
        Counter counter(sum);
        return counter.next() + unrolled<7>(data) + limit;
    }
";

fn bitcode() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, out) = (folder.path().join("x.cpp"), folder.path().join("x.bc"));
    std::fs::write(&source, SOURCE).expect("a file");
    let status = Command::new("clang++-19")
        .args(["-O1", "-fno-inline", "-emit-llvm", "-c", "-o"])
        .args([&out, &source])
        .status()
        .expect("clang++-19 (Debian package clang-19)");
    assert!(status.success());
    std::fs::read(out).expect("the compiler wrote it")
}

fn with_module<T>(llvm: &Llvm, bitcode: &[u8], then: impl FnOnce(&Module<'_>) -> T) -> T {
    let context = Context::new(llvm);
    let module = Module::parse(&context, bitcode, "x").expect("bitcode");
    then(&module)
}

fn groups(module: &Module<'_>) -> Vec<String> {
    let of_functions = module.functions().filter_map(|it| it.comdat()).map(|it| it.name());
    let mut names: Vec<_> = of_functions.collect();
    names.sort();
    names
}

#[test]
fn the_order_of_uses_is_written_and_read() {
    let llvm = Llvm::load(&library()).expect("it fits");
    let original = bitcode();
    let written = with_module(&llvm, &original, |it| it.to_bitcode().expect("written"));
    assert!(written.order_kept);
    let again = with_module(&llvm, &written.bytes, |it| it.to_bitcode().expect("written"));
    assert!(again.bytes == written.bytes, "what was read is what was written");

    let mut plain = Llvm::load(&library()).expect("it fits");
    plain.forget_cxx_functions();
    let unordered = with_module(&plain, &original, |it| it.to_bitcode().expect("written"));
    assert!(!unordered.order_kept);
    assert!(unordered.bytes.len() < written.bytes.len(), "the order is left out");
    let text = |bytes: &[u8]| with_module(&llvm, bytes, |it| it.to_text());
    let without_predecessors = |text: String| {
        let lines = text.lines().map(|it| it.split("; preds").next().unwrap_or(it).trim_end());
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        without_predecessors(text(&unordered.bytes)),
        without_predecessors(text(&written.bytes)),
        "and nothing else"
    );
}

#[test]
fn names_of_groups_are_found_either_way() {
    let original = bitcode();
    let llvm = Llvm::load(&library()).expect("it fits");
    let names = with_module(&llvm, &original, groups);
    assert!(names.iter().any(|it| it.contains("C5")), "{names:?}");
    let mut plain = Llvm::load(&library()).expect("it fits");
    plain.forget_cxx_functions();
    assert_eq!(with_module(&plain, &original, groups), names);
}

#[test]
fn diagnostics_become_errors() {
    let llvm = Llvm::load(&library()).expect("it fits");
    let context = Context::new(&llvm);
    let Err(error) = Module::parse(&context, b"BC\xc0\xde and then nonsense", "x") else {
        panic!("that is no bitcode")
    };
    assert!(matches!(error, Error::Bitcode { version, .. } if version == llvm.version()));
    assert!(context.take_diagnostics().is_empty(), "taken into the error");
    let error = Module::parse(&context, b"", "x").err().expect("nothing is no bitcode");
    assert!(error.to_string().contains("empty"), "{error}");
    let error = Module::parse(&context, b"", "a\0b").err().expect("no name has a zero");
    assert!(matches!(error, Error::ZeroByte(_)), "{error}");
}

#[test]
#[should_panic(expected = "two modules must not be mixed")]
fn modules_are_not_mixed() {
    let llvm = Llvm::load(&library()).expect("it fits");
    let (context, original) = (Context::new(&llvm), bitcode());
    let first = Module::parse(&context, &original, "first").expect("bitcode");
    let second = Module::parse(&context, &original, "second").expect("bitcode");
    let _ = first.const_struct(&[second.const_int(32, 1)]);
}

#[test]
fn changes_are_verified() {
    let llvm = Llvm::load(&library()).expect("it fits");
    let (context, original) = (Context::new(&llvm), bitcode());
    let mut module = Module::parse(&context, &original, "x").expect("bitcode");
    module.verify().expect("the compiler's own");
    let signature = module.function_type(module.void_type(), &[]);
    let added = module.add_function("added", signature).expect("a name");
    let place =
        module.functions().flat_map(|it| it.blocks()).flat_map(|it| it.instructions()).next();
    let builder = backtrail_llvm_ffi::Builder::new(&module);
    builder.call_before(place.expect("code"), added, signature, &[]);
    drop(builder);
    module.verify().expect("a call more");
    assert!(!module.delete_variable("nothing"));
    let wrong = module.function_type(module.void_type(), &[module.int_type(32)]);
    let added = module.function("added").expect("it was added");
    let place =
        module.functions().flat_map(|it| it.blocks()).flat_map(|it| it.instructions()).next();
    let builder = backtrail_llvm_ffi::Builder::new(&module);
    builder.call_before(place.expect("code"), added, wrong, &[module.const_int(64, 1)]);
    drop(builder);
    let error = module.verify().expect_err("the argument has another type");
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
}
