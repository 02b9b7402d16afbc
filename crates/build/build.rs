//! Compiles the runtime into one object, which this crate then holds.

include!("../runtime/recipe.rs");

fn main() {
    let folder = |name| std::path::PathBuf::from(std::env::var_os(name).expect("cargo sets it"));
    let crates = folder("CARGO_MANIFEST_DIR").join("..");
    for watched in ["runtime/src", "runtime/recipe.rs", "abi/src"] {
        println!("cargo::rerun-if-changed={}", crates.join(watched).display());
    }
    let rustc = std::env::var_os("RUSTC").expect("cargo sets it");
    compile_runtime(&rustc, &crates, &folder("OUT_DIR"));
}
