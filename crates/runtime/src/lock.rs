//! A lock that neither a fork nor a death can leave locked.
//!
//! The word is the owner's thread number, with the highest bit set when others
//! wait. It lives in memory that is wiped on fork, so a child finds it open.
//! Whoever takes it has all signals blocked, so no handler of the same thread
//! can want it. A thread can still vanish while it holds the lock if it belongs
//! to another process that shares our memory (a `vfork` child that is killed);
//! who waits long looks whether the owner still exists and else takes over.
//! What the lock guards is written so that any prefix of the writes is
//! consistent, as forks need anyway.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

const WAITERS: u32 = 1 << 31;
const PATIENCE_MILLISECONDS: u64 = 50;

/// The lock. All zero is open.
#[repr(transparent)]
pub(crate) struct Lock(AtomicU32);

/// Holds the lock until dropped.
pub(crate) struct Guard<'a>(&'a Lock);

impl Lock {
    /// Takes the lock for the calling thread, which has all signals blocked.
    pub(crate) fn take(&self) -> Guard<'_> {
        let me = sys::thread_id();
        let mut new = me;
        loop {
            match self.0.compare_exchange(0, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Guard(self),
                Err(seen) => {
                    // From here on others may wait too: assume it, and wake
                    // one of them for nothing at worst.
                    new = me | WAITERS;
                    if seen & WAITERS == 0
                        && self
                            .0
                            .compare_exchange(
                                seen,
                                seen | WAITERS,
                                Ordering::Relaxed,
                                Ordering::Relaxed,
                            )
                            .is_err()
                    {
                        continue;
                    }
                    let held = seen | WAITERS;
                    if sys::wait(&self.0, held, PATIENCE_MILLISECONDS) == Err(sys::ETIMEDOUT)
                        && sys::is_gone(seen & !WAITERS)
                        && self
                            .0
                            .compare_exchange(held, new, Ordering::Acquire, Ordering::Relaxed)
                            .is_ok()
                    {
                        return Guard(self);
                    }
                }
            }
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.0.0.swap(0, Ordering::Release) & WAITERS != 0 {
            sys::wake_one(&self.0.0);
        }
    }
}
