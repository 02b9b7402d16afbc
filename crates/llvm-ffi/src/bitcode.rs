//! Writing bitcode.
//!
//! Code generation depends on the order in which LLVM lists the uses of each
//! value. clang's driver has it written (`-emit-llvm-uselists`), but
//! `LLVMWriteBitcodeToMemoryBuffer` does not write it, and about one object in
//! five then differs from the compiler's own. So bitcode is written by the C++
//! function beneath, which takes a flag for it, where the library exports that;
//! otherwise by the C function, and [`Bitcode::order_kept`] says so.
//!
//! The C++ function wants an `llvm::raw_ostream`. The one that can be made from
//! outside is `raw_fd_ostream`, on a file descriptor; its destructor ends the
//! process when a write failed. Therefore it gets a pipe, whose other end we
//! empty on a thread: writes to it do not fail, and the bytes arrive here.

use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;
use std::ptr::{self, NonNull};
use std::thread;

use crate::message::MemoryBuffer;
use crate::table::OrderedWriter;
use crate::{Error, Module};

/// A module as bitcode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bitcode {
    /// The file's content.
    pub bytes: Vec<u8>,
    /// Whether it holds the order of uses.
    pub order_kept: bool,
}

impl Module<'_> {
    /// The module as bitcode of the library's version.
    pub fn to_bitcode(&self) -> Result<Bitcode, Error> {
        if let Some(writer) = self.context.llvm().extras.ordered_writer {
            return Ok(Bitcode { bytes: self.write_ordered(writer)?, order_kept: true });
        }
        let functions = self.functions_table();
        // SAFETY: the module is alive; the buffer is passed on to us.
        let raw = unsafe { (functions.LLVMWriteBitcodeToMemoryBuffer)(self.raw) };
        let buffer = MemoryBuffer { raw, functions };
        Ok(Bitcode { bytes: buffer.bytes().to_vec(), order_kept: false })
    }

    fn write_ordered(&self, writer: OrderedWriter) -> Result<Vec<u8>, Error> {
        let (mut from, to) = io::pipe()?;
        let bytes = thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut bytes = Vec::with_capacity(1 << 20);
                from.read_to_end(&mut bytes).map(|_| bytes)
            });
            let mut stream = Stream(MaybeUninit::uninit());
            let stream = NonNull::from(&mut stream).cast();
            // SAFETY: the stream is constructed in memory that is larger and
            // more aligned than any version's `raw_fd_ostream` (about 100
            // bytes), used, and destroyed, in this order and on this thread.
            // It owns the descriptor and closes it when destroyed, which ends
            // the reader. The module is alive; index and hash may be null.
            unsafe {
                (writer.open)(stream, to.into_raw_fd(), true, false, 0);
                (writer.write)(self.raw, stream, true, ptr::null(), false, ptr::null_mut());
                (writer.close)(stream);
            }
            reader.join().expect("reading into memory does not panic")
        })?;
        Ok(bytes)
    }
}

/// Room for an `llvm::raw_fd_ostream`.
#[repr(C, align(64))]
struct Stream(MaybeUninit<[u8; 1024]>);
