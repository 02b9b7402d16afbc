//! Signals: their names, and why they were sent.
//!
//! Numbers of Linux on x86-64 (`include/uapi/asm-generic/siginfo.h`).

use crate::core_file::notes::SignalInfo;

const NAMES: [&str; 32] = [
    "",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGSEGV: i32 = 11;
const SIGSTOP: i32 = 19;
const SIGTSTP: i32 = 20;
const SIGTTIN: i32 = 21;
const SIGTTOU: i32 = 22;

/// `SI_KERNEL`: the kernel does not say more.
const KERNEL: i32 = 0x80;

/// Whether a signal stops a process and does not end it: gcore leaves one in
/// the core of a process that lives.
pub(crate) fn only_stops(signal: i32) -> bool {
    matches!(signal, SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU)
}

/// The name of a signal.
pub fn name(signal: i32) -> String {
    let known = usize::try_from(signal).ok().and_then(|number| NAMES.get(number));
    match known.filter(|name| !name.is_empty()) {
        Some(name) => (*name).to_owned(),
        None => format!("signal {signal}"),
    }
}

impl SignalInfo {
    /// The address of a fault, if it was one, and the processor told it.
    pub fn fault_address(&self) -> Option<u64> {
        let fault = matches!(self.signal, SIGILL | SIGTRAP | SIGBUS | SIGFPE | SIGSEGV);
        (fault && self.code > 0 && self.code != KERNEL).then_some(self.address)
    }

    /// Why it was sent, in words, if that says more than its name.
    pub fn reason(&self) -> Option<String> {
        let words = match (self.signal, self.code) {
            (SIGSEGV, 1) => "nothing is mapped at the address",
            (SIGSEGV, 2) => "the mapping does not allow the access",
            (SIGSEGV, KERNEL) => {
                "an address that cannot exist (not canonical), or a forbidden \
                                  instruction"
            }
            (SIGBUS, 1) => "an address that is not aligned",
            (SIGBUS, 2) => "the file ends before the address",
            (SIGBUS, 3) => "a hardware error",
            (SIGFPE, 1) => "an integer division by zero",
            (SIGFPE, 2) => "an integer overflow",
            (SIGFPE, 3) => "a floating-point division by zero",
            (SIGILL, 1 | 2) => "not an instruction",
            (_, 0 | -6) => return Some(format!("sent by process {}", self.sender)),
            (_, -1) => return Some(format!("queued by process {}", self.sender)),
            _ => return None,
        };
        Some(words.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_faults_addresses() {
        assert_eq!([6, 11, 31].map(name), ["SIGABRT", "SIGSEGV", "SIGSYS"]);
        assert_eq!([0, -3, 40].map(name), ["signal 0", "signal -3", "signal 40"]);
        let info = |signal, code| SignalInfo { signal, code, address: 16, sender: 16 };
        assert_eq!(info(SIGSEGV, 1).fault_address(), Some(16));
        assert_eq!(info(SIGSEGV, KERNEL).fault_address(), None);
        assert_eq!(info(6, -6).fault_address(), None);
        assert_eq!(info(6, -6).reason().as_deref(), Some("sent by process 16"));
        assert_eq!(info(SIGFPE, 9).reason(), None);
    }
}
