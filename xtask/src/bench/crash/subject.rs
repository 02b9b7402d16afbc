//! What is measured: programs, and which of their functions are traced by the
//! scheme `realistic`.
//!
//! The lists are of functions that are on the stack when such a program crashes:
//! the way from `main` to where it reads its input and does its work, and what
//! published defects of it name. They were written before anything was measured
//! with them, and are not changed by what is measured.

use crate::bench::profile::subject::{Input, SUBJECTS, Subject, Work};

/// A program, and the functions that are traced.
pub struct Traced {
    /// The program.
    pub subject: &'static Subject,
    /// The functions.
    pub functions: &'static [&'static str],
}

/// The programs of the page, in its order.
pub const NAMES: [&str; 8] =
    ["gzip", "sed", "grep", "flex", "bzip2", "lua5.4", "sqlite3", "ccrypt"];

/// Levels of optimisation, in the order in which they are measured.
pub const LEVELS: [&str; 2] = ["-O2", "-O0"];

static GREP: Subject = Subject {
    name: "grep",
    package: "grep",
    prepare: "./configure --quiet --with-included-regex --disable-nls --disable-perl-regexp",
    build: r#"make -j$JOBS CC="$CC" CFLAGS="$CFLAGS" $AUTOTOOLS"#,
    executable: "src/grep",
    does: "looks for words that end as they begin, and for numbers",
    timed: Work { arguments: GREP_WORDS, input: Input::Text(1, 4_000_000) },
    counted: Work { arguments: GREP_WORDS, input: Input::Text(2, 100_000) },
    training: Work { arguments: GREP_WORDS, input: Input::Text(3, 300_000) },
};

const GREP_WORDS: &[&str] = &["-nE", r"\b([a-z])[a-z]*\1\b|[0-9]{3,}"];

static CCRYPT: Subject = Subject {
    name: "ccrypt",
    package: "ccrypt",
    prepare: "./configure --quiet --disable-nls --disable-emacs",
    build: r#"make -C src -j$JOBS CC="$CC" CFLAGS="$CFLAGS" $AUTOTOOLS ccrypt"#,
    executable: "src/ccrypt",
    // What it encrypts is another thing each time.
    does: "decrypts such a mix, with whatever key",
    timed: Work { arguments: CCRYPT_WORDS, input: Input::Mixed(1, 60_000_000) },
    counted: Work { arguments: CCRYPT_WORDS, input: Input::Mixed(2, 2_000_000) },
    training: Work { arguments: CCRYPT_WORDS, input: Input::Mixed(3, 4_000_000) },
};

const CCRYPT_WORDS: &[&str] = &["--decrypt", "--mismatch", "--key", "secret"];

/// A program by name.
pub fn find(name: &str) -> Option<Traced> {
    let subject = match name {
        "grep" => Some(&GREP),
        "ccrypt" => Some(&CCRYPT),
        _ => SUBJECTS.iter().find(|it| it.name == name),
    };
    let functions: &[&str] = match name {
        "gzip" => &GZIP,
        "sed" => &SED,
        "grep" => &GREP_FUNCTIONS,
        "flex" => &FLEX,
        "bzip2" => &BZIP2,
        "lua5.4" => &LUA,
        "sqlite3" => &SQLITE,
        "ccrypt" => &CCRYPT_FUNCTIONS,
        _ => return None,
    };
    Some(Traced { subject: subject?, functions })
}

#[rustfmt::skip]
const GZIP: [&str; 20] = [
    "main", "treat_stdin", "treat_file", "zip", "deflate", "unzip", "inflate", "inflate_block",
    "inflate_dynamic", "inflate_codes", "huft_build", "unlzh", "decode", "make_table", "unpack",
    "build_tree", "read_tree", "unlzw", "get_method", "get_suffix",
];

#[rustfmt::skip]
const SED: [&str; 16] = [
    "main", "compile_program", "compile_string", "read_text", "mark_subst_opts", "process_files",
    "execute_program", "do_subst", "match_regex", "append_replacement", "re_search",
    "re_search_internal", "check_matching", "set_regs", "get_subexp", "compile_rx_1",
];

#[rustfmt::skip]
const GREP_FUNCTIONS: [&str; 14] = [
    "main", "grepdesc", "grep", "grepbuf", "fillbuf", "prtext", "EGexecute", "GEAcompile",
    "dfassbuild", "dfaparse", "re_search", "re_search_internal", "check_matching", "set_regs",
];

#[rustfmt::skip]
const FLEX: [&str; 12] = [
    "main", "flex_main", "flexinit", "readin", "yyparse", "yylex", "yy_get_next_buffer", "ntod",
    "make_tables", "genctbl", "gentabs", "flexend",
];

#[rustfmt::skip]
const BZIP2: [&str; 16] = [
    "main", "compress", "uncompress", "compressStream", "uncompressStream", "BZ2_bzWrite",
    "BZ2_bzRead", "BZ2_bzCompress", "handle_compress", "BZ2_compressBlock", "BZ2_blockSort",
    "BZ2_bzDecompress", "BZ2_decompress", "unRLE_obuf_to_output_FAST", "sendMTFValues",
    "BZ2_hbCreateDecodeTables",
];

#[rustfmt::skip]
const LUA: [&str; 18] = [
    "main", "pmain", "handle_script", "docall", "lua_pcallk", "luaD_pcall", "luaD_rawrunprotected",
    "luaD_call", "luaD_callnoyield", "luaD_precall", "luaV_execute", "luaV_finishget",
    "luaG_runerror", "luaH_resize", "lua_load", "luaY_parser", "statement", "subexpr",
];

#[rustfmt::skip]
const SQLITE: [&str; 20] = [
    "main", "process_input", "runOneSqlLine", "shell_exec", "exec_prepared_stmt", "sqlite3_step",
    "sqlite3Step", "sqlite3VdbeExec", "sqlite3_prepare_v2", "sqlite3LockAndPrepare",
    "sqlite3RunParser", "yy_reduce", "sqlite3Select", "sqlite3WhereBegin", "resolveExprStep",
    "sqlite3ResolveExprNames", "sqlite3ExprCodeTarget", "sqlite3Insert", "sqlite3Update",
    "multiSelect",
];

#[rustfmt::skip]
const CCRYPT_FUNCTIONS: [&str; 18] = [
    "main", "read_commandline", "traverse_toplevel", "traverse_files", "traverse_file",
    "file_action", "action_cat", "action_cat_stdin", "action_overwrite", "ccencrypt_streams",
    "ccdecrypt_streams", "streamhandler", "filehandler", "ccdecrypt_multi_init", "ccdecrypt",
    "ccencrypt", "keychange", "unixcrypt",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_page_is_there() {
        for name in NAMES {
            let found = find(name).expect(name);
            assert_eq!(found.subject.name, name);
            assert!(found.functions.contains(&"main"));
        }
        assert!(find("nothing").is_none());
    }
}
