//! Strings and buffers that LLVM hands out.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use crate::Error;
use crate::table::{BufferRef, Functions};

/// A string that LLVM allocated for us.
pub(crate) struct Message<'l> {
    raw: *mut c_char,
    functions: &'l Functions,
}

impl<'l> Message<'l> {
    /// A place for LLVM to leave a message in.
    pub fn empty(functions: &'l Functions) -> Self {
        Self { raw: ptr::null_mut(), functions }
    }

    /// # Safety
    /// `raw` is null or a message that LLVM passed on to the caller.
    pub unsafe fn from_raw(raw: *mut c_char, functions: &'l Functions) -> Self {
        Self { raw, functions }
    }

    /// Where LLVM puts the message's pointer; only for one call.
    pub fn place(&mut self) -> *mut *mut c_char {
        debug_assert!(self.raw.is_null());
        &mut self.raw
    }

    /// The text, empty if LLVM left none.
    pub fn text(&self) -> String {
        if self.raw.is_null() {
            return String::new();
        }
        // SAFETY: LLVM's messages end with a zero and live until disposed of.
        unsafe { CStr::from_ptr(self.raw) }.to_string_lossy().into_owned()
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the message is ours and is freed once.
            unsafe { (self.functions.LLVMDisposeMessage)(self.raw) }
        }
    }
}

/// A buffer that LLVM allocated for us.
pub(crate) struct MemoryBuffer<'l> {
    pub raw: BufferRef,
    pub functions: &'l Functions,
}

impl MemoryBuffer<'_> {
    /// What it holds.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: start and size describe memory that lives until the buffer is
        // disposed of, which needs `self`.
        unsafe {
            let start = (self.functions.LLVMGetBufferStart)(self.raw);
            let size = (self.functions.LLVMGetBufferSize)(self.raw);
            std::slice::from_raw_parts(start.cast(), size)
        }
    }
}

impl Drop for MemoryBuffer<'_> {
    fn drop(&mut self) {
        // SAFETY: the buffer is ours and is freed once.
        unsafe { (self.functions.LLVMDisposeMemoryBuffer)(self.raw) }
    }
}

/// `text` as a C string.
pub(crate) fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::ZeroByte(text.to_owned()))
}

/// The text of `length` bytes at `start`, which may be null.
///
/// # Safety
/// If `start` is not null, so many bytes are there, for as long as `'a`.
pub(crate) unsafe fn text_at<'a>(start: *const c_char, length: usize) -> &'a [u8] {
    if start.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: passed on.
    unsafe { std::slice::from_raw_parts(start.cast(), length) }
}
