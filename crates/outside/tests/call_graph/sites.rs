//! Whom the C library calls through pointers, and which of its functions are not followed.

/// What the library may do to a program's functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    Malloc,
    Strings,
    Library,
    Stream,
    Printf,
    Obstack,
    Error,
    AtExit,
    AtFork,
}

use Claim::{AtExit, AtFork, Error, Library, Malloc, Obstack, Printf, Stream, Strings};

/// What is called through pointers, by the functions that do so (of glibc 2.36, by pattern).
#[rustfmt::skip]
const SITES: &[(&[Claim], &str)] = &[
    // The kernel's code that is mapped into processes, and a table of the dynamic linker.
    (&[], "_dl_find_object clock_getres clock_gettime getcpu sched_getcpu gettimeofday time"),
    // Assembly that jumps within itself, and to where it was told to return.
    (&[], "*_ssse3 *_sse2* *_sse42 *_avx* *_evex* *_erms *_small *_small.* __longjmp* ____longjmp_chk"),
    (&[], "makecontext clone clone3 mempcpy_small"),
    // What they are passed. The library passes functions of its own; what programs pass is
    // in the rows.
    (&[], "bsearch lfind lsearch tsearch tfind tdelete trecurse trecurse_r tdestroy_recurse"),
    (&[], "__tsearch __tfind __tdelete"),
    (&[], "_quicksort msort_with_tmp.part.0 __pthread_once_slow* __scandir64_tail ftw_dir"),
    (&[], "ftw_startup process_entry.* dl_iterate_phdr __gen_tempname __spawni_child fts_sort"),
    (&[], "__nss_fgetent_r __dl_iterate_phdr"),
    // `glob` with functions instead of `opendir` and the like.
    (&[], "glob_in_dir is_dir"),
    // What threads begin with, and what is done when they end: see the rows.
    (&[], "start_thread notify_func_wrapper notification_function timer_sigev_thread"),
    (&[], "__nptl_deallocate_tsd __call_tls_dtors unwind_stop *pthread_cleanup* __libc_start_call_main"),
    (&[], "__libc_start_main*"),
    // Conversion of what localtime gives; the same is reached directly.
    (&[Malloc], "__mktime_internal ranged_convert __libc_allocate_once_slow free_category"),
    // The dynamic linker, which allocates by the program's allocator.
    (&[Malloc], "dl*_doit _dlerror_run dlerror* dladdr* dlinfo dlsym dlvsym do_sym do_dl* call_dl_lookup"),
    (&[Malloc], "dlopen dlmopen dlclose __libc_dl* _dl_catch_exception _dl_mcount* __libc_early_init"),
    (&[Malloc], "__dlerror __dladdr* __dlclose ___dl* __libc_freeres __cxa_finalize_rtld"),
    // Conversion between encodings, by modules that are loaded: they call only these.
    (&[Malloc, Strings], "__gconv* find_derivation find_module* free_derivation btowc wctob mbrtowc mbrtoc*"),
    (&[Malloc, Strings], "mbsnrtowcs *mbsrtowcs_l __wcrtomb_internal wcsnrtombs wcsrtombs __libio_codecvt_*"),
    (&[Malloc, Strings], "setlocale _nl_load_domain iconv"),
    // Libraries that are loaded to look things up, and that for unwinding.
    (&[Malloc, Library], "__nss_* nss_* get*_r __get*_r __new_get*_r internal_getgrouplist compat_call* ether_* register_file"),
    (&[Malloc, Library], "getaddrinfo innetgr __internal_* endnetgrent gethosts module_load*"),
    (&[Malloc, Library], "backtrace* __backtrace* _Unwind_* __gcc_personality_v0 __idna_*"),
    // Streams. Those that check a table of functions before they use it are found by that.
    (&[Stream, Malloc, Strings], "_IO_cookie_* _IO_*file_* __printf_fp_l _IO_cleanup _IO_switch_to_wget_mode"),
    (&[Stream, Malloc, Strings], "_IO_wfile_* _IO_wdoallocbuf"),
    // Hooks.
    (&[Printf, Malloc], "__parse_one_spec* parse_printf_format printf_positional"),
    (&[Obstack], "_obstack_newchunk _obstack_begin _obstack_begin_1 _obstack_free obstack_free"),
    (&[Error], "__error_internal __error_at_line_internal"),
    (&[AtExit], "__run_exit_handlers __cxa_finalize"),
    (&[AtFork], "__run_postfork_handlers __run_prefork_handlers"),
    // Remote procedure calls, which no row speaks of, and which are not for new programs.
    (&[Library, Malloc], "*xdr* clnt* *svc* auth* *_authenticate callrpc pmap_* *key* getpublickey getsecretkey"),
    (&[Library, Malloc], "netname2user marshal_new_auth* __rpc_thread_* __libc_clntudp_* __libc_rpc_getport"),
    (&[Library, Malloc], "universal flush_out get_input_bytes __EI_* _seterr_reply"),
    // Arguments of programs: the rows of `argp_…` say that they call anything.
    (&[], "argp_* __argp_* _help hol_entry_short_iterate print_header"),
];

/// What is not followed when others call it.
#[rustfmt::skip]
const NOT_FOLLOWED: &[&str] = &[
    // The library found itself or the program inconsistent, or the kernel lied.
    "abort", "__libc_fatal", "__libc_message", "malloc_printerr", "__malloc_assert",
    "__assert", "__assert_fail", "__assert_fail_base", "__stack_chk_fail", "__fortify_fail", "__chk_fail",
    "__libc_dynarray_at_failure", "__libc_alloc_buffer_create_failure", "__netlink_assert_response",
    "_dl_signal_error", "_dl_signal_exception",
    // Cancellation: whoever cancels says so. What unwinding does then belongs to it.
    "__pthread_enable_asynccancel", "__pthread_unwind", "__do_cancel", "pthread_exit",
    "__pthread_exit", "sigcancel_handler", "__nptl_setxid_sighandler", "_Unwind_Resume",
    "__pthread_cleanup_pop", "_pthread_cleanup_pop",
    // A thread of its own begins with it.
    "start_thread",
    // It ends the run if a table of functions is not the library's and no program's either.
    "_IO_vtable_check",
    // It is for profilers of the dynamic linker, and calls what it is passed.
    "_dl_mcount_wrapper_check", "_dl_mcount_wrapper",
    // It is for checkers of memory, and is called by them.
    "__libc_freeres",
];

/// What is not followed either, but does something.
#[rustfmt::skip]
const IN_SHORT: &[(&[Claim], &str)] = &[
    // Modules for encodings are loaded and unloaded here.
    (&[Malloc, Strings], "__gconv_find_shlib __gconv_release_shlib"),
    // The library for unwinding is loaded here.
    (&[Malloc, Library], "__libc_unwind_link_get"),
];

/// Functions whose rows say less than the machine code, and why that is right.
#[rustfmt::skip]
pub const PASSED: &[&str] = &[
    // It calls `main`, and its own initialisation before that.
    "__libc_start_main",
];

/// Functions of the C++ library that take the address of others and do not call them.
pub const TAKES_ADDRESSES: &[&str] = &[
    // What was there before, and what is there if nothing was set.
    "_ZSt13get_terminatev",
    "_ZSt13set_terminatePFvvE",
    "_ZSt14get_unexpectedv",
    "_ZSt14set_unexpectedPFvvE",
    // What deletes the exception is put into it.
    "__cxa_init_primary_exception",
];

/// Functions of the C++ library that are declared not to throw: they catch what is thrown in
/// them, or end the process.
pub const CATCHES: &[&str] = &[
    "_ZnamRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZnwmRKSt9nothrow_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "__cxa_allocate_dependent_exception",
    "__cxa_allocate_exception",
];

/// What the calls through pointers of a function of these names may lead to.
pub fn claims_of(names: &[&str]) -> Option<Vec<Claim>> {
    look_up(SITES, names)
}

/// If a function is not looked through when others call it: what it does.
pub fn in_short(names: &[&str]) -> Option<Vec<Claim>> {
    let does_nothing = names.iter().any(|name| NOT_FOLLOWED.contains(name));
    does_nothing.then(Vec::new).or_else(|| look_up(IN_SHORT, names))
}

/// The first line of a table that one of the names is in.
fn look_up(table: &[(&[Claim], &str)], names: &[&str]) -> Option<Vec<Claim>> {
    let found = table.iter().find(|(_, patterns)| {
        names.iter().any(|name| patterns.split(' ').any(|pattern| matches(pattern, name)))
    });
    found.map(|(claims, _)| claims.to_vec())
}

/// `*` is anything.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
