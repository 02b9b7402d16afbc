//! Functions of the C library that return and do nothing else to whoever calls them.
//!
//! A name that is missing costs precision and a few probes; one that is wrong could
//! make something certain that is not. So only what is specified to return is here:
//! by ISO C, by POSIX, by the C++ ABI, or by the GNU C library's manual. Many are
//! points of cancellation, which is for those who care to know. The checking twin of
//! a function (`__printf_chk`) is not listed beside it.

/// By name.
#[rustfmt::skip]
pub const PLAIN: &[&str] = &[
    "__", "__ctype_b_loc", "__ctype_get_mb_cur_max", "__ctype_tolower_loc", "__ctype_toupper_loc",
    "__cxa_allocate_exception", "__cxa_begin_catch", "__cxa_free_exception",
    "__cxa_get_exception_ptr", "__errno_location", "__fpending", "__fxstat", "__fxstat64",
    "__getdelim", "__isoc23_sscanf", "__isoc23_strtol", "__isoc23_strtoll", "__isoc23_strtoul",
    "__isoc23_strtoull", "__isoc99_fscanf", "__isoc99_scanf", "__isoc99_sscanf", "__lxstat",
    "__lxstat64", "__overflow", "__sigsetjmp", "__strdup", "__uflow", "__xstat", "__xstat64",
    "_chk", "_setjmp", "abs", "access", "acos", "acosh", "alarm", "asctime", "asin", "asinh",
    "asprintf", "assert_fail", "atan", "atan2", "atanh", "atof", "atoi", "atol", "atoll", "bcmp",
    "bcopy", "bind_textdomain_codeset", "bindtextdomain", "btowc", "bzero", "calloc", "cbrt",
    "ceil", "ceilf", "chdir", "chmod", "chown", "clearerr", "clearerr_unlocked", "clock",
    "clock_gettime", "close", "closedir", "copysign", "cos", "cosh", "ctime", "ctime_r",
    "dcgettext", "dcngettext", "dgettext", "difftime", "div", "dup", "dup2", "dup3", "erf", "erfc",
    "exp", "exp2", "expf", "explicit_bzero", "fabs", "fabsf", "fchdir", "fchmod", "fchown",
    "fclose", "fcntl", "fcntl64", "fdatasync", "fdelt", "fdimf", "fdopen", "fdopendir", "feof",
    "feof_unlocked", "ferror", "ferror_unlocked", "fflush", "fflush_unlocked", "ffs", "fgetc",
    "fgetpos", "fgets", "fgets_unlocked", "fileno", "finite", "flock", "floor", "floorf", "fmax",
    "fmin", "fmod", "fnmatch", "fopen", "fopen64", "fprintf", "fputc", "fputc_unlocked", "fputs",
    "fputs_unlocked", "fputwc", "fread", "fread_unlocked", "free", "freopen", "frexp", "fscanf",
    "fseek", "fseeko", "fseeko64", "fsetpos", "fstat", "fstat64", "fstatat", "fsync", "ftell",
    "ftello", "ftello64", "ftruncate", "ftruncate64", "futimens", "fwrite", "fwrite_unlocked",
    "getauxval", "getc", "getc_unlocked", "getchar", "getchar_unlocked", "getcwd", "getdelim",
    "getegid", "getenv", "geteuid", "getgid", "getgrgid", "getgrnam", "getgroups", "gethostname",
    "getline", "getlogin", "getopt", "getopt_long", "getpagesize", "getpgrp", "getpid", "getppid",
    "getpwnam", "getpwuid", "getrlimit", "getrlimit64", "getrusage", "getservbyname", "gettext",
    "gettimeofday", "getuid", "globfree", "gmtime", "gmtime_r", "gnu_get_libc_version", "hypot",
    "iconv", "iconv_close", "iconv_open", "inet_addr", "inet_ntoa", "ioctl", "isalnum", "isalpha",
    "isatty", "isblank", "iscntrl", "isdigit", "isgraph", "isinf", "islower", "isnan", "isprint",
    "ispunct", "isspace", "isupper", "iswalnum", "iswalpha", "iswctype", "iswdigit", "iswlower",
    "iswprint", "iswpunct", "iswspace", "iswupper", "isxdigit", "labs", "lchown", "ldexp", "ldiv",
    "lgamma", "link", "listen", "localeconv", "localtime", "localtime_r", "log", "log10", "log1p",
    "log2", "logb", "logf", "longjmp_chk", "lrint", "lround", "lseek", "lseek64", "lstat",
    "lstat64", "malloc", "malloc_usable_size", "mblen", "mbrlen", "mbrtowc", "mbsinit", "mbsrtowcs",
    "mbstowcs", "mbtowc", "memccpy", "memchr", "memcmp", "memcpy", "memmem", "memmove", "mempcpy",
    "memrchr", "memset", "mkdir", "mkdtemp", "mkfifo", "mkostemp", "mkostemps", "mkstemp",
    "mkstemp64", "mktime", "mmap", "mmap64", "modf", "mprotect", "mremap", "msync", "munmap",
    "nanosleep", "nearbyint", "nextafter", "ngettext", "nl_langinfo", "open", "open64", "openat",
    "openat64", "opendir", "pathconf", "pause", "pclose", "perror", "pipe", "pipe2", "poll",
    "popen", "posix_fadvise", "posix_fadvise64", "posix_memalign", "pow", "powf", "pread",
    "pread64", "printf", "pthread_attr_destroy", "pthread_attr_init", "pthread_cond_broadcast",
    "pthread_cond_init", "pthread_cond_signal", "pthread_cond_wait", "pthread_getspecific",
    "pthread_join", "pthread_mutex_destroy", "pthread_mutex_init", "pthread_mutex_lock",
    "pthread_mutex_trylock", "pthread_mutex_unlock", "pthread_mutexattr_destroy",
    "pthread_mutexattr_init", "pthread_mutexattr_settype", "pthread_self", "pthread_setspecific",
    "pthread_sigmask", "putc", "putc_unlocked", "putchar", "putchar_unlocked", "putenv", "puts",
    "pwrite", "pwrite64", "rand", "random", "rawmemchr", "read", "readdir", "readdir64", "readlink",
    "realloc", "reallocarray", "realpath", "regcomp", "regexec", "regfree", "remove", "rename",
    "renameat", "rewind", "rint", "rmdir", "round", "rpmatch", "scalbn", "scanf", "sched_yield",
    "secure_getenv", "select", "sem_init", "sem_post", "sem_wait", "setbuf", "setegid", "setenv",
    "seteuid", "setgid", "setjmp", "setlinebuf", "setlocale", "setpgid", "setrlimit", "setsid",
    "setuid", "setvbuf", "shutdown", "sigaction", "sigaddset", "sigdelset", "sigemptyset",
    "sigfillset", "sigismember", "signal", "sigpending", "sigprocmask", "sigsetjmp", "sin", "sinh",
    "sleep", "snprintf", "socket", "sprintf", "sqrt", "sqrtf", "srand", "srandom", "sscanf", "stat",
    "stat64", "statfs", "stpcpy", "stpncpy", "strcasecmp", "strcasestr", "strcat", "strchr",
    "strchrnul", "strcmp", "strcoll", "strcpy", "strcspn", "strdup", "strerror", "strerror_r",
    "strftime", "strlcpy", "strlen", "strncasecmp", "strncat", "strncmp", "strncpy", "strndup",
    "strnlen", "strpbrk", "strrchr", "strsep", "strsignal", "strspn", "strstr", "strtod", "strtof",
    "strtoimax", "strtok", "strtok_r", "strtol", "strtold", "strtoll", "strtoul", "strtoull",
    "strtoumax", "strverscmp", "strxfrm", "symlink", "sync", "sysconf", "sysinfo", "system", "tan",
    "tanh", "tcgetattr", "tcsetattr", "textdomain", "tgamma", "time", "times", "tmpfile", "toascii",
    "tolower", "toupper", "towlower", "towupper", "trunc", "truncate", "ttyname", "tzset", "umask",
    "uname", "ungetc", "unlink", "unlinkat", "unsetenv", "usleep", "utime", "utimensat", "utimes",
    "vasprintf", "vfprintf", "vprintf", "vsnprintf", "vsprintf", "wait", "wait3", "wait4",
    "waitpid", "wcrtomb", "wcscmp", "wcscoll", "wcscpy", "wcslen", "wcsncmp", "wcsrtombs",
    "wcstombs", "wctob", "wctomb", "wctype", "wcwidth", "wmemchr", "wmemcpy", "wmemset", "write",
    "writev",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(PLAIN.windows(2).all(|pair| pair[0] < pair[1]));
        for other in ["longjmp", "pthread_exit", "exit", "qsort", "raise", "fork"] {
            assert!(PLAIN.binary_search(&other).is_err(), "{other}");
        }
    }
}
