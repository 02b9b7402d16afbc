//! What code that is not seen may do while it runs on behalf of a call.
//!
//! The safe answer is everything: call back any function whose address is known,
//! end the run, leave frames. Whatever is traced or analysed then has to reckon
//! with all of it. So it is worth knowing of a function that it does less. The names here are of functions that the C standard, POSIX or the
//! C++ ABI describe, and only where these descriptions exclude more; a program
//! that replaces one of them by its own has it in a unit, where it is seen.
//!
//! Asynchronous signals are not thought of: they are nondeterminism.

use backtrail_ir::Traits;

/// Whom unseen code may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallsBack {
    /// Nobody.
    Nobody,
    /// The functions that were passed to it, if these are known by name, and any
    /// whose address is taken if not.
    Arguments,
    /// Any function whose address is taken.
    Anyone,
}

/// What unseen code may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    /// Whom it calls.
    pub calls_back: CallsBack,
    /// Whether the run may end in it.
    pub ends: bool,
    /// Whether it may leave frames for a landing.
    pub leaves: bool,
    /// Whether it may return.
    pub returns: bool,
}

impl Behaviour {
    /// Nothing but to return.
    pub const PLAIN: Self =
        Self { calls_back: CallsBack::Nobody, ends: false, leaves: false, returns: true };

    /// What a function of this name and with these traits may do.
    pub fn of(name: &str, traits: Traits) -> Self {
        if traits.returns_twice {
            // `setjmp` and `vfork` remember where they were called, no more.
            return Self::PLAIN;
        }
        let name = name.strip_prefix("__").unwrap_or(name);
        let name = name.strip_suffix("_chk").unwrap_or(name);
        if PLAIN.binary_search(&name).is_ok() {
            return Self { returns: !traits.no_return, ..Self::PLAIN };
        }
        match name {
            "qsort" | "bsearch" | "qsort_r" | "lfind" | "lsearch" | "tsearch" | "tfind"
            | "tdelete" | "twalk" | "ftw" | "nftw" | "glob" | "scandir" => {
                Self { calls_back: CallsBack::Arguments, leaves: true, ..Self::PLAIN }
            }
            "_exit" | "_Exit" | "quick_exit" => Self { ends: true, returns: false, ..Self::PLAIN },
            // Handlers of signals run.
            "raise" | "kill" | "pthread_kill" | "tgkill" => {
                Self { calls_back: CallsBack::Anyone, ends: true, leaves: true, returns: true }
            }
            // What was registered runs, and may call for the end again.
            "exit" | "abort" | "assert_fail" | "err" | "errx" | "verr" | "verrx" => {
                Self { calls_back: CallsBack::Anyone, ends: true, leaves: false, returns: false }
            }
            "longjmp" | "_longjmp" | "siglongjmp" | "longjmp_chk" => {
                Self { leaves: true, returns: false, ..Self::PLAIN }
            }
            _ => Self {
                calls_back: CallsBack::Anyone,
                ends: true,
                leaves: true,
                returns: !traits.no_return,
            },
        }
    }
}

/// In order.
#[rustfmt::skip]
const PLAIN: &[&str] = &[
    "abs", "access", "asctime", "atof", "atoi", "atol", "atoll", "calloc", "ceil", "chdir",
    "chmod", "chown", "clearerr", "clock", "clock_gettime", "close", "closedir", "cos",
    "ctime", "ctype_b_loc", "ctype_tolower_loc", "ctype_toupper_loc", "cxa_allocate_exception",
    "cxa_begin_catch", "cxa_free_exception", "cxa_get_exception_ptr", "difftime", "dup", "dup2",
    "errno_location", "exp", "fabs", "fchmod", "fchown", "fclose", "fcntl", "fdopen", "feof",
    "ferror", "fflush", "fgetc", "fgets", "fileno", "floor", "fmod", "fopen", "fprintf", "fputc",
    "fputs", "fread", "free", "freopen", "frexp", "fscanf", "fseek", "fseeko", "fstat", "fsync",
    "ftell", "ftello", "ftruncate", "fwrite", "getc", "getchar", "getcwd", "getenv", "getline",
    "getopt", "getopt_long", "getpid", "getrusage", "getservbyname", "gettimeofday", "getuid",
    "gmtime", "ioctl", "isalnum", "isalpha", "isatty", "isdigit", "isoc23_sscanf",
    "isoc23_strtol", "isoc23_strtoul", "isoc99_fscanf", "isoc99_scanf", "isoc99_sscanf",
    "isspace", "isupper", "labs", "ldexp", "localeconv", "localtime", "log", "log10",
    "lseek", "lstat", "malloc", "mbrtowc", "memccpy", "memchr", "memcmp", "memcpy", "memmove",
    "memrchr", "memset", "mkdir", "mkstemp", "mktime", "mmap", "modf", "mprotect", "munmap",
    "nl_langinfo", "open", "open64", "opendir", "perror", "pipe", "posix_memalign", "pow",
    "printf", "putc", "putchar", "puts", "rand", "random", "read", "readdir",
    "readlink", "realloc", "remove", "rename", "rewind", "rmdir", "scanf", "setbuf", "setlocale",
    "setvbuf", "sigaction", "sigemptyset", "signal", "sin", "sleep", "snprintf", "sprintf",
    "sqrt", "srand", "srandom", "sscanf", "stat", "stpcpy", "strcasecmp", "strcat", "strchr",
    "strcmp", "strcoll", "strcpy", "strcspn", "strdup", "strerror", "strftime", "strlen",
    "strncasecmp", "strncat", "strncmp", "strncpy", "strndup", "strnlen", "strpbrk", "strrchr",
    "strsignal", "strspn", "strstr", "strtod", "strtok", "strtok_r", "strtol", "strtoll",
    "strtoul", "strtoull", "sysconf", "tan", "time", "toascii", "tolower", "toupper", "ungetc",
    "unlink", "usleep", "utime", "utimensat", "vfprintf", "vprintf", "vsnprintf", "vsprintf",
    "waitpid", "wcrtomb", "wcslen", "write",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        assert!(PLAIN.windows(2).all(|pair| pair[0] < pair[1]));
        let of = |name: &str| Behaviour::of(name, Traits::default());
        assert_eq!(of("printf"), Behaviour::PLAIN);
        assert_eq!(of("__printf_chk"), Behaviour::PLAIN);
        assert_eq!(of("qsort").calls_back, CallsBack::Arguments);
        assert!(!of("exit").returns && of("exit").ends);
        let unknown = of("frobnicate");
        assert!(unknown.ends && unknown.leaves && unknown.calls_back == CallsBack::Anyone);
    }
}
