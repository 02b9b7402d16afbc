//! A context: what modules share, and where diagnostics go.

use std::cell::RefCell;
use std::ffi::{c_uint, c_void};
use std::fmt;
use std::rc::Rc;

use crate::error::one_line;
use crate::message::Message;
use crate::table::{ContextRef, DiagnosticRef, Functions};
use crate::{Error, Llvm};

/// How grave a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The operation failed.
    Error,
    /// Something is odd.
    Warning,
    /// What an optimisation did.
    Remark,
    /// More about another diagnostic.
    Note,
}

/// Something LLVM wanted to tell its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How grave it is.
    pub severity: Severity,
    /// What it says, in one line.
    pub text: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An attribute of functions and calls that is there or not, by LLVM's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute(pub(crate) c_uint);

/// What modules share: types, constants, metadata, and where diagnostics go.
pub struct Context<'l> {
    pub(crate) raw: ContextRef,
    pub(crate) llvm: &'l Llvm,
    sink: Rc<Sink>,
}

struct Sink {
    describe: Describe,
    diagnostics: RefCell<Vec<Diagnostic>>,
}

/// The functions the handler needs, copied so that it borrows nothing.
#[derive(Clone, Copy)]
struct Describe {
    text: unsafe extern "C" fn(DiagnosticRef) -> *mut std::ffi::c_char,
    severity: unsafe extern "C" fn(DiagnosticRef) -> c_uint,
    dispose: unsafe extern "C" fn(*mut std::ffi::c_char),
}

impl<'l> Context<'l> {
    /// A new context. Its diagnostics are kept instead of printed.
    pub fn new(llvm: &'l Llvm) -> Self {
        let functions = &llvm.functions;
        let describe = Describe {
            text: functions.LLVMGetDiagInfoDescription,
            severity: functions.LLVMGetDiagInfoSeverity,
            dispose: functions.LLVMDisposeMessage,
        };
        let sink = Rc::new(Sink { describe, diagnostics: RefCell::default() });
        // SAFETY: creating has no precondition. The sink is shared, never
        // moved, and outlives the context, which is disposed of first.
        let raw = unsafe {
            let raw = (functions.LLVMContextCreate)();
            let place = Rc::as_ptr(&sink).cast_mut().cast();
            (functions.LLVMContextSetDiagnosticHandler)(raw, Some(keep_diagnostic), place);
            raw
        };
        Self { raw, llvm, sink }
    }

    /// The library.
    pub fn llvm(&self) -> &'l Llvm {
        self.llvm
    }

    pub(crate) fn functions(&self) -> &'l Functions {
        &self.llvm.functions
    }

    /// Takes the diagnostics that came since this was last asked.
    pub fn take_diagnostics(&self) -> Vec<Diagnostic> {
        self.sink.diagnostics.take()
    }

    /// The errors among the diagnostics since they were last taken, or
    /// `otherwise` when there is none.
    pub(crate) fn take_errors(&self, otherwise: &str) -> String {
        let diagnostics = self.take_diagnostics();
        let errors: Vec<_> =
            diagnostics.iter().filter(|it| it.severity == Severity::Error).collect();
        match errors.as_slice() {
            [] => otherwise.to_owned(),
            [first] => first.text.clone(),
            [first, rest @ ..] => format!("{} (and {} more)", first.text, rest.len()),
        }
    }

    /// The attribute called `name`, if this LLVM knows it.
    pub fn attribute(&self, name: &str) -> Option<Attribute> {
        // SAFETY: pointer and length are those of `name`.
        let kind = unsafe {
            (self.functions().LLVMGetEnumAttributeKindForName)(name.as_ptr().cast(), name.len())
        };
        (kind != 0).then_some(Attribute(kind))
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is ours; whatever borrows it is gone.
        unsafe { (self.functions().LLVMContextDispose)(self.raw) }
    }
}

extern "C" fn keep_diagnostic(diagnostic: DiagnosticRef, sink: *mut c_void) {
    // SAFETY: the pointer is that of the context's sink, see `Context::new`;
    // LLVM calls us on the thread that uses the context.
    let sink = unsafe { &*sink.cast::<Sink>() };
    let Describe { text, severity, dispose } = sink.describe;
    // SAFETY: the diagnostic lives during this call; the message is ours.
    let (text, severity) = unsafe {
        let message = text(diagnostic);
        let owned = std::ffi::CStr::from_ptr(message).to_string_lossy().into_owned();
        dispose(message);
        (owned, severity(diagnostic))
    };
    let severity = match severity {
        0 => Severity::Error,
        1 => Severity::Warning,
        2 => Severity::Remark,
        _ => Severity::Note,
    };
    sink.diagnostics.borrow_mut().push(Diagnostic { severity, text: one_line(&text) });
}

/// Makes sure a message that LLVM left is freed and says something.
pub(crate) fn said(message: Message<'_>, context: &Context<'_>) -> String {
    let text = one_line(&message.text());
    let diagnostics = context.take_errors("");
    match (text.is_empty(), diagnostics.is_empty()) {
        (false, true) => text,
        (false, false) => format!("{text}; {diagnostics}"),
        (true, false) => diagnostics,
        (true, true) => "LLVM gives no reason".to_owned(),
    }
}

/// Errors that were reported although the operation claims to have succeeded.
pub(crate) fn check_errors(
    context: &Context<'_>,
    error: impl FnOnce(String) -> Error,
) -> Result<(), Error> {
    let why = context.take_errors("");
    if why.is_empty() { Ok(()) } else { Err(error(why)) }
}
