//! Whether a signal that came to us also came to the program.
//!
//! A program that stands in our place has to get each signal once. It is in our process
//! group, so that it can read the terminal and the keyboard reaches it; what is sent to
//! the group (`^C`, a closed terminal, `kill -- -GROUP`, `timeout`) it gets by itself,
//! and what is sent to us alone (`kill PID`) it gets from us. A signal does not tell how
//! it was sent: with `kill(2)` both look the same.
//!
//! So a third process is in the group, whose only purpose it is to be asked. It blocks
//! the signals from its first moment on, so that what is sent to the group stays pending
//! in it until we ask. A signal that it has is one that the program has.
//!
//! It is this tool again (`/proc/self/exe`), under another name: not everything called
//! `backtrail` that is killed (`pkill backtrail`) is the group. Its input ends when we do,
//! and then so does it.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use backtrail_interruption::signals::ASKED;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::copies::process::VERB;

/// The second argument.
pub(crate) const BYSTANDER: &str = "bystander";

/// A question: what did it get since it was asked this last?
const NEW: u8 = 0;
/// A question: what is the answer to that now? It will be the same later.
const SO_FAR: u8 = 1;

/// Its name.
const NAME: &std::ffi::CStr = c"bystander";

fn signals() -> SigSet {
    ASKED.into_iter().filter_map(|it| Signal::try_from(it).ok()).collect()
}

/// The bit of a signal in a set.
pub(crate) fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// A process in our process group that can be asked.
pub(crate) struct Bystander {
    child: Child,
    questions: Option<ChildStdin>,
    answers: ChildStdout,
}

impl Bystander {
    /// From now on.
    pub fn start() -> io::Result<Self> {
        // Inherited, so that nothing is missed before it can say so itself.
        let before = signals().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(BYSTANDER).args([VERB, BYSTANDER]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn();
        before.thread_set_mask()?;
        let mut child = child?;
        let questions = child.stdin.take();
        let answers = child.stdout.take().expect("it was asked for as a pipe");
        Ok(Self { child, questions, answers })
    }

    /// What somebody else can ask, between a fork and what is executed then, as long as it
    /// is not asked here.
    pub fn inherited(&self) -> Option<Inherited> {
        let questions = self.questions.as_ref()?.as_raw_fd();
        Some(Inherited { questions, answers: self.answers.as_fd().as_raw_fd() })
    }

    /// The signals that it got since it was asked last; none if it is gone.
    pub fn ask(&mut self) -> u64 {
        let mut answer = [0; 8];
        let asked = self.questions.as_mut().is_some_and(|pipe| pipe.write_all(&[NEW]).is_ok());
        match asked && self.answers.read_exact(&mut answer).is_ok() {
            true => u64::from_le_bytes(answer),
            false => 0,
        }
    }
}

/// The bystander, as a copy of this process knows it.
#[derive(Clone, Copy)]
pub(crate) struct Inherited {
    questions: i32,
    answers: i32,
}

impl Inherited {
    /// The signals that it has by now. Only system calls are made.
    pub fn ask(self) -> io::Result<u64> {
        // SAFETY: they are open as long as the bystander is kept, and that is longer than
        // the copy takes to become another program.
        #[allow(unsafe_code)]
        let [questions, answers] =
            unsafe { [self.questions, self.answers].map(|it| BorrowedFd::borrow_raw(it)) };
        let mut answer = [0; 8];
        rustix::io::write(questions, &[SO_FAR])?;
        // Eight bytes come at once through a pipe.
        let length = rustix::io::retry_on_intr(|| rustix::io::read(answers, &mut answer))?;
        Ok(if length == answer.len() { u64::from_le_bytes(answer) } else { 0 })
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.questions = None;
        let _ = self.child.wait();
    }
}

/// The whole of the process.
pub(crate) fn main() -> ExitCode {
    match answer() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer() -> io::Result<()> {
    let _ = prctl::set_name(NAME);
    let signals = signals();
    signals.thread_block()?;
    let pending = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let (mut questions, mut answers) = (io::stdin().lock(), io::stdout().lock());
    let mut question = [0];
    let mut seen = 0;
    while questions.read(&mut question)? > 0 {
        while let Some(info) = pending.read_signal()? {
            seen |= bit(info.ssi_signo as i32);
        }
        answers.write_all(&u64::to_le_bytes(seen))?;
        answers.flush()?;
        if question == [NEW] {
            seen = 0;
        }
    }
    Ok(())
}
