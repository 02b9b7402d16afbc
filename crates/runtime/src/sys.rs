//! System calls, made directly: no libc, no `errno`.
//!
//! A call gives back what the kernel returns, with error numbers as
//! [`Error`]s. Numbers and constants are those of Linux on x86-64
//! (`arch/x86/entry/syscalls/syscall_64.tbl`, `include/uapi`).

use core::arch::asm;
use core::sync::atomic::AtomicU32;

/// An error number.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Error(pub(crate) u32);

pub(crate) const ENOENT: Error = Error(2);
pub(crate) const ESRCH: Error = Error(3);
pub(crate) const EINTR: Error = Error(4);
pub(crate) const EIO: Error = Error(5);
pub(crate) const ENOMEM: Error = Error(12);
pub(crate) const EACCES: Error = Error(13);
pub(crate) const EFAULT: Error = Error(14);
pub(crate) const EEXIST: Error = Error(17);
pub(crate) const EMFILE: Error = Error(24);
pub(crate) const EFBIG: Error = Error(27);
pub(crate) const ENAMETOOLONG: Error = Error(36);
pub(crate) const ESTALE: Error = Error(116);
pub(crate) const EPERM: Error = Error(1);
pub(crate) const ENOSYS: Error = Error(38);
pub(crate) const EOVERFLOW: Error = Error(75);
pub(crate) const EOPNOTSUPP: Error = Error(95);
pub(crate) const ETIMEDOUT: Error = Error(110);

pub(crate) const O_RDONLY: u32 = 0;
pub(crate) const O_RDWR: u32 = 2;
pub(crate) const O_CREAT: u32 = 0o100;
pub(crate) const O_EXCL: u32 = 0o200;
pub(crate) const O_NOFOLLOW: u32 = 0o400_000;
pub(crate) const O_NONBLOCK: u32 = 0o4000;
pub(crate) const O_DIRECTORY: u32 = 0o200_000;
pub(crate) const O_CLOEXEC: u32 = 0o2_000_000;
pub(crate) const O_PATH: u32 = 0o10_000_000;
pub(crate) const AT_FDCWD: i32 = -100;

const SIGXFSZ: u32 = 25;
const SIGSET_BYTES: usize = 8;

/// A page of memory.
pub(crate) const PAGE: usize = 4096;

/// An open file; whoever opened it closes it.
#[derive(Clone, Copy)]
pub(crate) struct Descriptor(pub(crate) i32);

/// [`backtrail_abi::OWN_CALL`] in assembly, for behind a `syscall`: the call is ours.
macro_rules! own_call {
    () => {
        ".byte 0x0f, 0x1f, 0x80, 0x42, 0x6b, 0x74, 0x72"
    };
}
pub(crate) use own_call;

/// Makes a system call.
///
/// # Safety
/// The arguments must be right for the call: every pointer valid for what the
/// kernel does with it, and no memory changed or unmapped that others rely on.
#[inline(always)]
unsafe fn call(number: usize, arguments: [usize; 6]) -> Result<usize, Error> {
    let result: isize;
    // SAFETY: the kernel changes rax, rcx and r11, and memory as the caller
    // vouches for.
    unsafe {
        asm!(
            "syscall",
            own_call!(),
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if result < 0 { Err(Error(result.unsigned_abs() as u32)) } else { Ok(result as usize) }
}

/// Runs `work` on a kernel thread of its own that has a copy of the descriptor
/// table in which two places are free, and waits for it.
///
/// For a program that has used all its descriptors up: what is opened and
/// closed there is never seen by the program, and the memory mapped there is
/// the program's. The thread uses the caller's stack and thread storage, which
/// is right because the caller sleeps until it has ended (`CLONE_VFORK`).
/// Record locks belong to the descriptor table, so none is given up when the
/// copy goes.
pub(crate) fn with_free_descriptors<F: FnMut()>(work: &mut F) -> Result<(), Error> {
    // CLONE_VM, CLONE_FS, CLONE_SIGHAND, CLONE_VFORK, CLONE_THREAD, CLONE_SYSVSEM.
    const FLAGS: usize = 0x100 | 0x200 | 0x800 | 0x4000 | 0x10000 | 0x40000;
    unsafe extern "C" fn run<F: FnMut()>(work: *mut F) {
        close(Descriptor(0));
        close(Descriptor(1));
        // SAFETY: the address of the caller's `work`, which it does not use
        // until we have ended.
        unsafe { (*work)() };
    }
    let result: isize;
    // SAFETY: the new thread calls a function on the free part of the stack and
    // ends; the caller goes on after that, with all registers its own.
    unsafe {
        asm!(
            "syscall",
            own_call!(),
            "test rax, rax",
            "jnz 2f",
            "mov rdi, r13",
            "call r12",
            "xor edi, edi",
            "mov eax, 60",
            "syscall",
            "ud2",
            "2:",
            inlateout("rax") 56isize => result,
            in("rdi") FLAGS,
            in("rsi") 0usize,
            in("rdx") 0usize,
            in("r10") 0usize,
            in("r8") 0usize,
            in("r12") run::<F> as *const (),
            in("r13") &raw mut *work,
            clobber_abi("C"),
        );
    }
    if result < 0 { Err(Error(result.unsigned_abs() as u32)) } else { Ok(()) }
}

/// Reads into `buffer`; gives the number of bytes.
pub(crate) fn read(file: Descriptor, buffer: &mut [u8]) -> Result<usize, Error> {
    // SAFETY: the kernel writes at most the length of a buffer that is ours.
    unsafe { call(0, [file.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) }
}

/// Reads our own memory at `address` into `buffer`, as far as there is any.
pub(crate) fn read_memory(address: usize, buffer: &mut [u8]) -> Result<usize, Error> {
    let to = [buffer.as_mut_ptr() as usize, buffer.len()];
    let from = [address, buffer.len()];
    let pid = process_id() as usize;
    // SAFETY: the kernel writes at most the length of a buffer that is ours,
    // and says so if there is nothing to read.
    unsafe { call(310, [pid, to.as_ptr() as usize, 1, from.as_ptr() as usize, 1, 0]) }
}

/// Reads a word of our own memory that may be gone.
pub(crate) fn read_word(address: usize) -> Option<u64> {
    let mut word = [0; 8];
    match read_memory(address, &mut word) {
        Ok(length) => (length == word.len()).then(|| u64::from_ne_bytes(word)),
        Err(EFAULT) => None,
        // Not allowed in some sandboxes. A word is on one page.
        Err(_) => {
            let mut room = [0];
            resident(address / PAGE * PAGE, 1, &mut room).ok()?;
            // SAFETY: it was mapped a moment ago.
            Some(unsafe { core::ptr::with_exposed_provenance::<u64>(address).read_volatile() })
        }
    }
}

/// Closes a file.
pub(crate) fn close(file: Descriptor) {
    // SAFETY: `file` is a descriptor we opened; nothing else uses it.
    let _ = unsafe { call(3, [file.0 as usize, 0, 0, 0, 0, 0]) };
}

const READ_WRITE: usize = 3;
const SHARED: usize = 1;
const PRIVATE_ANONYMOUS: usize = 0x22;
const FIXED: usize = 0x10;
const NO_RESERVE: usize = 0x4000;
const FIXED_NO_REPLACE: usize = 0x10_0000;
const RANDOM: usize = 1;
const WIPE_ON_FORK: usize = 18;

/// Private memory that reads zero in the children of forks.
pub(crate) fn map_wiped_on_fork(bytes: usize, wiped: usize) -> Result<usize, Error> {
    // SAFETY: new memory at an address of the kernel's choice.
    let address = unsafe { call(9, [0, bytes, READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0]) }?;
    match wipe_on_fork(address, wiped) {
        Ok(()) => Ok(address),
        Err(error) => {
            // SAFETY: nobody knows the address yet.
            unsafe { unmap(address, bytes) };
            Err(error)
        }
    }
}

/// Maps a range of a file, shared.
pub(crate) fn map_file(file: Descriptor, offset: u64, bytes: usize) -> Result<usize, Error> {
    // SAFETY: new memory at an address of the kernel's choice.
    unsafe { call(9, [0, bytes, READ_WRITE, SHARED, file.0 as usize, offset as usize]) }
}

/// Maps a range of a file, shared, so that all its addresses have the bit `size`, a
/// power of two and no less than `bytes`, and the next ones do not.
pub(crate) fn map_window(
    file: Descriptor,
    offset: u64,
    bytes: usize,
    size: usize,
) -> Result<usize, Error> {
    let (reserved, flags) = (3 * size, PRIVATE_ANONYMOUS | NO_RESERVE);
    // SAFETY: new memory at an address of the kernel's choice.
    let room = unsafe { call(9, [0, reserved, 0, flags, usize::MAX, 0]) }?;
    // Rounded up behind the first `size` bytes.
    let end = (room + 3 * size - 1) & !(2 * size - 1);
    let address = end - bytes;
    let arguments = [address, bytes, READ_WRITE, SHARED | FIXED, file.0 as usize, offset as usize];
    // SAFETY: within the room, which nobody else knows.
    if let Err(error) = unsafe { call(9, arguments) } {
        // SAFETY: as above; whatever of it is still mapped.
        unsafe { unmap(room, reserved) };
        return Err(error);
    }
    // SAFETY: as above: what is before and behind the window.
    unsafe {
        unmap(room, address - room);
        unmap(end, room + reserved - end);
    }
    Ok(address)
}

/// Makes private memory read zero in the children of forks.
pub(crate) fn wipe_on_fork(address: usize, bytes: usize) -> Result<(), Error> {
    // SAFETY: changes nothing in this process.
    unsafe { call(28, [address, bytes, WIPE_ON_FORK, 0, 0, 0]) }.map(drop)
}

/// Private memory at an address where nothing is mapped; [`EEXIST`] if
/// something is.
pub(crate) fn map_where_free(address: usize, bytes: usize) -> Result<(), Error> {
    let flags = PRIVATE_ANONYMOUS | NO_RESERVE | FIXED_NO_REPLACE;
    // SAFETY: replaces nothing. A kernel before 4.17 takes the address as a hint.
    let found = unsafe { call(9, [address, bytes, READ_WRITE, flags, usize::MAX, 0]) }?;
    if found == address {
        return Ok(());
    }
    // SAFETY: nobody knows the address.
    unsafe { unmap(found, bytes) };
    Err(EEXIST)
}

/// Replaces what is mapped by private memory that reads zero.
///
/// # Safety
/// The range is the caller's, and nothing in it is needed any more.
pub(crate) unsafe fn map_zeros_over(address: usize, bytes: usize) -> Result<(), Error> {
    let flags = PRIVATE_ANONYMOUS | NO_RESERVE | FIXED;
    // SAFETY: as the caller vouches for.
    unsafe { call(9, [address, bytes, READ_WRITE, flags, usize::MAX, 0]) }.map(drop)
}

/// Replaces what is mapped by a range of a file, shared. Pages come one by one as
/// they are touched: reading ahead, in pieces of up to two mebibytes, would cost
/// far more memory than what is used.
///
/// # Safety
/// The range is the caller's, and nothing in it is needed any more.
pub(crate) unsafe fn map_file_over(
    address: usize,
    file: Descriptor,
    offset: u64,
    bytes: usize,
) -> Result<(), Error> {
    let arguments = [address, bytes, READ_WRITE, SHARED | FIXED, file.0 as usize, offset as usize];
    // SAFETY: as the caller vouches for.
    unsafe { call(9, arguments) }?;
    // SAFETY: changes no content.
    let _ = unsafe { call(28, [address, bytes, RANDOM, 0, 0, 0]) };
    Ok(())
}

/// Says for each page of a mapped range whether it is in memory, as long as
/// there is room to say it; gives that many pages' bytes, of which the lowest
/// bit is the answer.
pub(crate) fn resident(address: usize, pages: usize, room: &mut [u64]) -> Result<&[u8], Error> {
    let count = pages.min(size_of_val(room));
    let place = room.as_mut_ptr();
    // SAFETY: the kernel writes a byte per page into a buffer that is ours.
    unsafe { call(27, [address, count * PAGE, place as usize, 0, 0, 0]) }?;
    // SAFETY: the same buffer as bytes, as far as it was written.
    Ok(unsafe { core::slice::from_raw_parts(place.cast(), count) })
}

/// The base of the calling thread's `%gs` segment.
pub(crate) fn segment_base() -> Result<usize, Error> {
    const GET_GS: usize = 0x1004;
    let mut base = 0usize;
    // SAFETY: the kernel writes the base into our memory.
    unsafe { call(158, [GET_GS, &raw mut base as usize, 0, 0, 0, 0]) }.map(|_| base)
}

/// What the kernel tells a program at its start.
#[derive(Clone, Copy)]
pub(crate) struct Auxiliary {
    /// Programs may set the bases of segments to any address by an instruction,
    /// as `AT_HWCAP2` says (Linux 5.9;
    /// `Documentation/arch/x86/x86_64/fsgs.rst`).
    pub(crate) base_instructions: bool,
    /// Where the dynamic linker is, 0 if there is none.
    pub(crate) linker: usize,
    /// An address at the top of the stack, 0 if it is not known.
    pub(crate) stack: usize,
    /// Whether the program has rights that whoever started it has not (`AT_SECURE`), if
    /// that is known.
    pub(crate) privileged: Option<bool>,
}

/// Reads what the kernel tells, by way of `vector`.
pub(crate) fn auxiliary(vector: &mut [u64]) -> Auxiliary {
    const GET_AUXILIARY_VECTOR: usize = 0x4155_5856;
    const BASE: u64 = 7;
    const SECURE: u64 = 23;
    const RANDOM_BYTES: u64 = 25;
    const HARDWARE_CAPABILITIES_2: u64 = 26;
    const FSGSBASE: u64 = 2;
    let bytes = size_of_val(vector);
    let address = vector.as_mut_ptr() as usize;
    // SAFETY: the kernel writes at most the length of a buffer that is ours.
    if unsafe { call(157, [GET_AUXILIARY_VECTOR, address, bytes, 0, 0, 0]) }.is_err() {
        // Kernels before 6.4.
        let here = Descriptor(AT_FDCWD);
        if let Ok(file) = open(here, Path(b"/proc/self/auxv\0"), O_RDONLY, 0) {
            // SAFETY: as above.
            let _ = unsafe { call(0, [file.0 as usize, address, bytes, 0, 0, 0]) };
            close(file);
        }
    }
    let mut found = Auxiliary { base_instructions: false, linker: 0, stack: 0, privileged: None };
    for [kind, value] in vector.as_chunks().0 {
        match *kind {
            BASE => found.linker = *value as usize,
            SECURE => found.privileged = Some(*value != 0),
            RANDOM_BYTES => found.stack = *value as usize,
            HARDWARE_CAPABILITIES_2 => found.base_instructions = value & FSGSBASE != 0,
            _ => {}
        }
    }
    found
}

/// Whether this program has rights that whoever started it has not (set-user-id,
/// set-group-id, capabilities of the file). `room` is to work in.
pub(crate) fn is_privileged(room: &mut [u8]) -> bool {
    room.iter_mut().for_each(|byte| *byte = 0);
    // SAFETY: any bytes are a number.
    let (_, vector, _) = unsafe { room.align_to_mut() };
    auxiliary(vector).privileged.unwrap_or_else(|| {
        // A process that changed its user may not read what it was told (before Linux
        // 6.4).
        // SAFETY: the calls have no arguments.
        let ids = [102, 107, 104, 108].map(|number| unsafe { call(number, [0; 6]) });
        ids[0] != ids[1] || ids[2] != ids[3]
    })
}

/// How far the stack may grow.
pub(crate) fn stack_limit() -> usize {
    const STACK: usize = 3;
    let mut limits = [0usize; 2];
    // SAFETY: the kernel writes two numbers into our memory.
    let _ = unsafe { call(302, [0, STACK, 0, limits.as_mut_ptr() as usize, 0, 0]) };
    limits[0]
}

/// Sets the base of the calling thread's `%gs` segment. The system call takes
/// only addresses that a program can have, and no negative numbers.
///
/// # Safety
/// Whatever the thread reaches through the segment is at the new base, too. For
/// a negative base, [`Auxiliary::base_instructions`] must hold.
pub(crate) unsafe fn set_segment_base(base: usize) -> Result<(), Error> {
    const SET_GS: usize = 0x1001;
    if (base as isize) < 0 {
        // SAFETY: as the caller vouches for.
        unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags)) };
        return Ok(());
    }
    // SAFETY: as the caller vouches for.
    unsafe { call(158, [SET_GS, base, 0, 0, 0, 0]) }.map(drop)
}

/// The calling thread's pointer, which is also what it points to.
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the first word of thread storage, by the ABI.
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// Unmaps memory.
///
/// # Safety
/// Nothing may use the range any more.
pub(crate) unsafe fn unmap(address: usize, bytes: usize) {
    // SAFETY: as the caller vouches for.
    let _ = unsafe { call(11, [address, bytes, 0, 0, 0, 0]) };
}

/// A set of signals as the kernel has it.
#[derive(Clone, Copy)]
pub(crate) struct SignalSet(u64);

/// Blocks every signal that can be blocked; gives what was blocked before.
pub(crate) fn block_signals() -> SignalSet {
    const BLOCK: usize = 0;
    let all = SignalSet(u64::MAX);
    let mut before = SignalSet(0);
    // SAFETY: both sets are ours and of the size given.
    let _ = unsafe {
        call(14, [BLOCK, &raw const all as usize, &raw mut before as usize, SIGSET_BYTES, 0, 0])
    };
    before
}

/// Blocks exactly `signals`.
pub(crate) fn restore_signals(signals: SignalSet) {
    const SET: usize = 2;
    // SAFETY: the set is ours and of the size given.
    let _ = unsafe { call(14, [SET, &raw const signals as usize, 0, SIGSET_BYTES, 0, 0]) };
}

/// Whether a "file too large" signal waits to be delivered.
pub(crate) fn size_signal_pending() -> bool {
    let mut pending = SignalSet(0);
    // SAFETY: the set is ours and of the size given.
    let _ = unsafe { call(127, [&raw mut pending as usize, SIGSET_BYTES, 0, 0, 0, 0]) };
    pending.0 & (1 << (SIGXFSZ - 1)) != 0
}

/// Takes a waiting "file too large" signal away.
pub(crate) fn take_size_signal() {
    let set = SignalSet(1 << (SIGXFSZ - 1));
    let no_time = [0u64; 2];
    // SAFETY: set and time are ours; no information about the signal is asked for.
    let _ = unsafe {
        call(128, [&raw const set as usize, 0, &raw const no_time as usize, SIGSET_BYTES, 0, 0])
    };
}

/// The process.
pub(crate) fn process_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(39, [0; 6]) }.unwrap_or(0) as u32
}

/// The parent process.
pub(crate) fn parent_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(110, [0; 6]) }.unwrap_or(0) as u32
}

/// The thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(186, [0; 6]) }.unwrap_or(0) as u32
}

/// Whether `thread` of `process` is known to have ended.
pub(crate) fn has_ended(process: u32, thread: u32) -> bool {
    // SAFETY: signal 0 is no signal: the kernel only looks the thread up.
    let found = unsafe { call(234, [process as usize, thread as usize, 0, 0, 0, 0]) };
    found == Err(ESRCH)
}

/// Whether no thread of any process has the number `thread`.
pub(crate) fn is_gone(thread: u32) -> bool {
    // SAFETY: signal 0 is no signal: the kernel only looks the thread up.
    let found = unsafe { call(200, [thread as usize, 0, 0, 0, 0, 0]) };
    found == Err(ESRCH)
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes seconds and nanoseconds into our memory.
    let _ = unsafe { call(228, [0, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1])
}

/// Waits until woken if `word` still is `value`, for `milliseconds` at most.
pub(crate) fn wait(word: &AtomicU32, value: u32, milliseconds: u64) -> Result<(), Error> {
    const WAIT_PRIVATE: usize = 128;
    let time = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    let arguments =
        [word.as_ptr() as usize, WAIT_PRIVATE, value as usize, time.as_ptr() as usize, 0, 0];
    // SAFETY: the kernel reads the word and the time.
    unsafe { call(202, arguments) }.map(drop)
}

/// Wakes one that waits for `word`.
pub(crate) fn wake_one(word: &AtomicU32) {
    const WAKE_PRIVATE: usize = 129;
    // SAFETY: the kernel uses the address as a key only.
    let _ = unsafe { call(202, [word.as_ptr() as usize, WAKE_PRIVATE, 1, 0, 0, 0]) };
}

/// A path or name for the kernel: bytes that end with a zero.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a>(&'a [u8]);

impl<'a> Path<'a> {
    /// `bytes`, whose last byte must be zero.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        match bytes.last() {
            Some(0) => Some(Self(bytes)),
            _ => None,
        }
    }

    fn address(self) -> usize {
        self.0.as_ptr() as usize
    }
}

/// Opens `path`, relative to `folder`.
pub(crate) fn open(
    folder: Descriptor,
    path: Path<'_>,
    flags: u32,
    mode: u32,
) -> Result<Descriptor, Error> {
    let flags = (flags | O_CLOEXEC) as usize;
    // SAFETY: the path ends with a zero.
    let file =
        unsafe { call(257, [folder.0 as usize, path.address(), flags, mode as usize, 0, 0]) }?;
    Ok(Descriptor(file as i32))
}

/// What the kernel says of an open file.
#[derive(Clone, Copy)]
pub(crate) struct Status {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) links: u64,
    pub(crate) mode: u32,
    pub(crate) owner: u32,
    pub(crate) length: u64,
}

impl Status {
    /// Whether it is a file, and not a folder, a link, a pipe or a device.
    pub(crate) fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }
}

/// Asks what an open file is. Not inlined, as the stack of whoever asks may be small.
#[inline(never)]
pub(crate) fn status(file: Descriptor) -> Result<Status, Error> {
    // `struct stat` (`arch/x86/include/uapi/asm/stat.h`).
    let mut words = [0u64; 18];
    // SAFETY: the kernel writes the 144 bytes of the structure into our memory.
    unsafe { call(5, [file.0 as usize, words.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    let [device, inode, links, mode_and_owner, _, _, length, ..] = words;
    let (mode, owner) = (mode_and_owner as u32, (mode_and_owner >> 32) as u32);
    Ok(Status { device, inode, links, mode, owner, length })
}

/// Makes a folder, relative to `folder`.
pub(crate) fn make_folder(folder: Descriptor, path: Path<'_>, mode: u32) -> Result<(), Error> {
    // SAFETY: the path ends with a zero.
    unsafe { call(258, [folder.0 as usize, path.address(), mode as usize, 0, 0, 0]) }.map(drop)
}

/// Removes a file, relative to `folder`.
pub(crate) fn remove(folder: Descriptor, path: Path<'_>) {
    // SAFETY: the path ends with a zero.
    let _ = unsafe { call(263, [folder.0 as usize, path.address(), 0, 0, 0, 0]) };
}

/// Removes a folder if it is empty.
pub(crate) fn remove_folder(path: Path<'_>) {
    // SAFETY: the path ends with a zero.
    let _ = unsafe { call(84, [path.address(), 0, 0, 0, 0, 0]) };
}

/// Changes the mode of what is at `path`.
pub(crate) fn change_mode(path: Path<'_>, mode: u32) -> Result<(), Error> {
    // SAFETY: the path ends with a zero.
    unsafe { call(90, [path.address(), mode as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Changes the mode of an open file.
pub(crate) fn change_mode_of(file: Descriptor, mode: u32) -> Result<(), Error> {
    // SAFETY: concerns the file only.
    unsafe { call(91, [file.0 as usize, mode as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Writes the current folder's path and a zero into `buffer`; gives their length.
pub(crate) fn current_folder(buffer: &mut [u8]) -> Result<usize, Error> {
    // SAFETY: the kernel writes at most the length of a buffer that is ours.
    unsafe { call(79, [buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0, 0]) }
}

/// Writes where the symbolic link `path` leads into `length` bytes at `address`.
///
/// # Safety
/// The bytes must be ours to write.
pub(crate) unsafe fn read_link(
    path: Path<'_>,
    address: usize,
    length: usize,
) -> Result<usize, Error> {
    // SAFETY: the path ends with a zero; the caller vouches for the rest.
    unsafe { call(89, [path.address(), address, length, 0, 0, 0]) }
}

/// Allocates a range of a file on disk, extending it.
pub(crate) fn allocate(file: Descriptor, offset: u64, bytes: u64) -> Result<(), Error> {
    // SAFETY: concerns the file only.
    unsafe { call(285, [file.0 as usize, 0, offset as usize, bytes as usize, 0, 0]) }.map(drop)
}

/// Writes `bytes` at `offset`; gives how many were written.
pub(crate) fn write_at(file: Descriptor, bytes: &[u8], offset: u64) -> Result<usize, Error> {
    let arguments = [file.0 as usize, bytes.as_ptr() as usize, bytes.len(), offset as usize, 0, 0];
    // SAFETY: the kernel reads the bytes.
    unsafe { call(18, arguments) }
}
