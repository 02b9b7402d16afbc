//! A test library with the runtime in it.

use tempfile::TempDir;

use crate::program::{compile, runtime_for, source};

/// A library with the runtime, where it is.
pub struct Library {
    folder: TempDir,
}

impl Library {
    /// Compiles `NAME.c`. A library that counts has layout 2: 1 is the
    /// executable's.
    pub fn new(name: &str, options: &[&str]) -> Self {
        let library = Self { folder: TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        let mut arguments = vec!["-O2", "-shared", "-fPIC", "-DLAYOUT=2"];
        arguments.push("-Wl,-soname,library.so");
        let source = source(&format!("{name}.c"));
        let path = library.path();
        arguments.extend([source.to_str().unwrap(), runtime_for(name).to_str().unwrap()]);
        arguments.extend(options);
        arguments.extend(["-o", &path]);
        compile("clang-19", arguments);
        library
    }

    /// One that shows one function and nothing else.
    pub fn hidden(name: &str, options: &[&str]) -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "{ global: run_library; local: *; };").unwrap();
        let script = format!("-Wl,--version-script={}", script.display());
        Self::new(name, &[&[&script[..]], options].concat())
    }

    /// The file.
    pub fn path(&self) -> String {
        self.folder.path().join("library.so").to_str().unwrap().into()
    }

    /// The option by which an executable finds it.
    pub fn rpath(&self) -> String {
        format!("-Wl,-rpath,{}", self.folder.path().display())
    }
}
