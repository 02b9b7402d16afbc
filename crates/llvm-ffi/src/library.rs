//! Opening a libLLVM.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

use crate::Error;
use crate::error::one_line;
use crate::table::{Extras, Functions, GetVersion};

/// The version of a libLLVM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The release.
    pub major: u32,
    /// The branch.
    pub minor: u32,
    /// The patch.
    pub patch: u32,
}

impl Version {
    /// Whether this crate was written for it.
    pub fn is_supported(self) -> bool {
        (19..=22).contains(&self.major)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// An opened libLLVM.
///
/// It is never closed: LLVM registers destructors of static objects that would
/// run without their code.
pub struct Llvm {
    pub(crate) functions: Functions,
    pub(crate) extras: Extras,
    version: Version,
    path: PathBuf,
    _library: ManuallyDrop<Library>,
}

impl Llvm {
    /// Opens the libLLVM at `path`.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let failed = |why: String| Error::Load { path: path.to_owned(), why };
        // A path without a slash would be searched for; we were told which.
        let absolute = std::path::absolute(path).map_err(|error| failed(error.to_string()))?;
        // Few of its functions are called, so they are bound when they are.
        // SAFETY: running a shared library's initialisers is what the caller
        // asks for; libLLVM's register options and passes and nothing else.
        let library = unsafe { Library::open(Some(&absolute), RTLD_LAZY | RTLD_LOCAL) }
            .map_err(|error| failed(loader_message(&error)))?;
        let library = ManuallyDrop::new(library);
        let version =
            version_of(&library).ok_or_else(|| Error::NoVersion { path: path.to_owned() })?;
        if !version.is_supported() {
            return Err(Error::Unsupported { path: path.to_owned(), version });
        }
        let functions = Functions::resolve(&library).map_err(|name| Error::MissingFunction {
            path: path.to_owned(),
            version,
            name,
        })?;
        let extras = Extras::resolve(&library);
        Ok(Self { functions, extras, version, path: path.to_owned(), _library: library })
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Where it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes do without the C++ functions that a library may or may not export,
    /// as with a library that does not.
    pub fn forget_cxx_functions(&mut self) {
        self.extras.comdat_name = None;
        self.extras.ordered_writer = None;
    }

    /// Has `handler` called with LLVM's message before LLVM ends the process
    /// because of an error it cannot report. The first handler stays.
    pub fn on_fatal_error(&self, handler: fn(&str)) {
        let _ = FATAL_HANDLER.set(handler);
        // SAFETY: the handler is a function and lives as long as the process.
        unsafe { (self.functions.LLVMInstallFatalErrorHandler)(fatal_error) }
    }
}

/// Ends the process without running the destructors of LLVM's static objects,
/// which take time and do nothing a dying process needs. What was written must
/// have been flushed.
pub fn exit_at_once(status: i32) -> ! {
    unsafe extern "C" {
        fn _exit(status: c_int) -> !;
    }
    // SAFETY: POSIX's `_exit` has no precondition.
    unsafe { _exit(status) }
}

/// What the dynamic loader said, which is the cause of the error we get.
fn loader_message(error: &libloading::Error) -> String {
    let innermost = std::iter::successors(Some(error as &dyn std::error::Error), |it| it.source());
    one_line(&innermost.last().map(ToString::to_string).unwrap_or_default())
}

static FATAL_HANDLER: OnceLock<fn(&str)> = OnceLock::new();

extern "C" fn fatal_error(reason: *const c_char) {
    // SAFETY: LLVM passes a string that ends with a zero.
    let reason = unsafe { CStr::from_ptr(reason) };
    if let Some(handler) = FATAL_HANDLER.get() {
        handler(&one_line(&reason.to_string_lossy()));
    }
}

fn version_of(library: &Library) -> Option<Version> {
    let (mut major, mut minor, mut patch): (c_uint, c_uint, c_uint) = (0, 0, 0);
    // SAFETY: the function, which LLVM has had since version 16, has this type.
    let get_version = unsafe { library.get::<GetVersion>(b"LLVMGetVersion\0") }.ok()?;
    // SAFETY: it writes three integers.
    unsafe { get_version(&mut major, &mut minor, &mut patch) };
    Some(Version { major, minor, patch })
}
