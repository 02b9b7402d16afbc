//! What a compiler may be told by a unit from elsewhere.
//!
//! These are words of `clang -cc1`, which generates code from bitcode and runs no other
//! pass. Each word that begins with `-` has to be known: by its name, or by its shape,
//! because an option that only turns something on or off has no place for a file. A
//! word that does not begin so is the value of an option that is known to have one.
//! `-mllvm` may set numbers. Paths are never read here: those of
//! `-fdebug-compilation-dir=` and the like are text that goes into the object.

use backtrail_plan::worker::Codegen;

use crate::codegen_args::without_side_outputs;

/// Options with a keyword as the next word.
const KEYWORD_VALUES: [&str; 18] = [
    "-debugger-tuning",
    "-dwarf-version",
    "-exception-model",
    "-ferror-limit",
    "-ftabstop",
    "-function-alignment",
    "-mfloat-abi",
    "-mlimit-float-precision",
    "-mregparm",
    "-mrelocation-model",
    "-msmall-data-limit",
    "-mthread-model",
    "-pic-level",
    "-stack-protector",
    "-stack-protector-buffer-size",
    "-target-abi",
    "-target-cpu",
    "-tune-cpu",
];

/// Options whose next word is text that is not looked at, or only goes into the object.
/// (The folder of resources holds headers, of which none is read any more.)
const TEXT_VALUES: [&str; 5] = [
    "-dwarf-debug-flags",
    "-main-file-name",
    "-resource-dir",
    "-triple",
    "-fconstant-string-class",
];

/// Options joined with text that only goes into the object. (Notes of coverage were
/// written by a pass that has been run.)
const JOINED_TEXT: [&str; 10] = [
    "-coverage-data-file=",
    "-coverage-notes-file=",
    "-coverage-version=",
    "-fcoverage-compilation-dir=",
    "-fcoverage-prefix-map=",
    "-fdebug-compilation-dir=",
    "-fdebug-prefix-map=",
    "-ffile-compilation-dir=",
    "-fmacro-prefix-map=",
    "-fprofile-instrument-path=",
];

/// Options joined with a keyword, a number, or a list of them.
const JOINED_KEYWORDS: [&str; 64] = [
    "--compress-debug-sections=",
    "-compress-debug-sections=",
    "-debug-info-kind=",
    "-debugger-tuning=",
    "-dwarf-version=",
    "-exception-model=",
    "-faltivec-src-compat=",
    "-fbasic-block-address-map=",
    "-fbasic-block-sections=",
    "-fcf-protection=",
    "-fcomplex-arithmetic=",
    "-fconstexpr-backtrace-limit=",
    "-fconstexpr-depth=",
    "-fconstexpr-steps=",
    "-fdefault-calling-conv=",
    "-fdenormal-fp-math-f32=",
    "-fdenormal-fp-math=",
    "-fexcess-precision=",
    "-fexperimental-max-bitint-width=",
    "-fextend-arguments=",
    "-ffp-contract=",
    "-ffp-eval-method=",
    "-ffp-exception-behavior=",
    "-ffunction-alignment=",
    "-fgnuc-version=",
    "-finline-max-stacksize=",
    "-finput-charset=",
    "-flax-vector-conversions=",
    "-fmax-type-align=",
    "-fms-compatibility-version=",
    "-fnew-alignment=",
    "-fopenmp-version=",
    "-fpack-struct=",
    "-fpatchable-function-entry-offset=",
    "-fpatchable-function-entry=",
    "-fprofile-instrument=",
    "-fprofile-update=",
    "-frandomize-layout-seed=",
    "-fsanitize-",
    "-fsanitize=",
    "-fstrict-flex-arrays=",
    "-ftemplate-backtrace-limit=",
    "-ftemplate-depth=",
    "-ftls-model=",
    "-ftrivial-auto-var-init=",
    "-funwind-tables=",
    "-fveclib=",
    "-fvisibility=",
    "-fwarn-stack-size=",
    "-fzero-call-used-regs=",
    "-gsimple-template-names=",
    "-gsrc-hash=",
    "-mabi=",
    "-mcmodel=",
    "-mfpmath=",
    "-mframe-pointer=",
    "-mfunction-return=",
    "-mharden-sls=",
    "-mlarge-data-threshold=",
    "-mprefer-vector-width=",
    "-mrecip=",
    "-mstack-alignment=",
    "-mstack-probe-size=",
    "-mtls-dialect=",
];

/// Options that turn something on.
const FLAGS: [&str; 48] = [
    "-O0",
    "-O1",
    "-O2",
    "-O3",
    "-Os",
    "-Oz",
    "-arange-sections",
    "-clear-ast-before-backend",
    "-debug-forward-template-params",
    "-debug-info-macro",
    "-disable-O0-optnone",
    "-disable-free",
    "-disable-lifetime-markers",
    "-disable-llvm-passes",
    "-disable-llvm-verifier",
    "-disable-red-zone",
    "-disable-tail-calls",
    "-discard-value-names",
    "-dwarf-explicit-import",
    "-dwarf-ext-refs",
    "-emit-llvm-uselists",
    "-emit-obj",
    "-ggnu-pubnames",
    "-gno-column-info",
    "-gpubnames",
    "-gstrict-dwarf",
    "-gtemplate-alias",
    "-massembler-fatal-warnings",
    "-menable-no-infs",
    "-menable-no-nans",
    "-no-enable-noundef-analysis",
    "-no-implicit-float",
    "-no-round-trip-args",
    "-nobuiltininc",
    "-nostdinc++",
    "-nostdlibinc",
    "-nostdsysteminc",
    "-pedantic",
    "-pedantic-errors",
    "-pic-is-pie",
    "-pthread",
    "-relaxed-aliasing",
    "-static-define",
    "-traditional-cpp",
    "-trigraphs",
    "-undef",
    "-vectorize-loops",
    "-vectorize-slp",
];

/// What looks like an option that turns something on and has a value as the next word.
const NOT_FLAGS: [&str; 13] = [
    "-fbracket-depth",
    "-fcuda-include-gpubinary",
    "-fdiagnostics-format",
    "-fdiagnostics-show-category",
    "-fexperimental-openacc-macro-override",
    "-fmodule-feature",
    "-fmodules-user-build-path",
    "-fopenmp-host-ir-file-path",
    "-mdebug-pass",
    "-mlink-bitcode-file",
    "-mlink-builtin-bitcode",
    "-mllvm",
    "-mt-migrate-directory",
];

/// What the names of options of LLVM's have in them that take the name of a file or a
/// program, which may be a number as well, or write a file or show one.
const NOT_FOR_LLVM: [&str; 18] = [
    "channel", "-dir", "dot", "dump", "exec", "file", "import", "list", "load-opt", "log",
    "mapping", "output", "path", "plugin", "profile", "summary", "view", "write",
];

/// What else `-mllvm` may say.
const FOR_LLVM: [&str; 3] =
    ["-generate-type-units", "-x86-asm-syntax=att", "-x86-asm-syntax=intel"];

/// Fails, with what it is, unless all that a unit's `arguments` say is harmless.
pub fn check(arguments: &[String]) -> Result<(), String> {
    let arguments = without_side_outputs(arguments);
    let has = |word: &str| arguments.iter().any(|it| it == word);
    if arguments.first().is_none_or(|word| word != "-cc1") {
        return Err("its compilation does not begin with '-cc1'".to_owned());
    }
    for needed in ["-emit-obj", "-disable-llvm-passes"] {
        if !has(needed) {
            return Err(format!("its compilation lacks '{needed}'"));
        }
    }
    let mut words = arguments[1..].iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut with_value = |fits: fn(&str) -> bool| match words.next() {
            Some(value) if fits(value) => Ok(()),
            value => Err(format!("its compilation has '{word} {}'", value.unwrap_or_default())),
        };
        if KEYWORD_VALUES.contains(&word) {
            with_value(is_keyword)?;
        } else if TEXT_VALUES.contains(&word) {
            with_value(|text| !text.starts_with(['-', '@']) || is_odd_file_name(text))?;
        } else if word == "-target-feature" {
            with_value(|text| text.strip_prefix(['+', '-']).is_some_and(is_keyword))?;
        } else if word == "-mllvm" {
            with_value(sets_number)?;
        } else if !is_harmless(word) {
            return Err(format!("its compilation has '{word}'"));
        }
    }
    Ok(())
}

/// Whether it is standard input, or a name that a file may have and no option has.
fn is_odd_file_name(text: &str) -> bool {
    text == "-"
        || text.starts_with('-')
            && text.rsplit_once('.').is_some_and(|(stem, _)| stem.len() > 1)
            && text.bytes().all(is_letter)
}

/// Whether an option without a word behind it is known to do no harm.
fn is_harmless(word: &str) -> bool {
    let turns_on = |word: &str| {
        let name = word.strip_prefix("-f").or_else(|| word.strip_prefix("-m"));
        name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_letter))
    };
    FLAGS.contains(&word)
        || turns_on(word) && !NOT_FLAGS.contains(&word)
        || JOINED_TEXT.iter().any(|it| word.starts_with(it))
        || JOINED_KEYWORDS.iter().any(|it| {
            let rest = word.strip_prefix(it);
            rest.is_some_and(|rest| is_keyword(rest.split_once('=').map_or(rest, |(_, it)| it)))
                && !word.contains("list=")
        })
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+._".contains(&byte)
}

/// A name, a number, or several with commas or colons between them.
fn is_keyword(value: &str) -> bool {
    let is_part = |byte| is_letter(byte) || b",:!".contains(&byte);
    !value.is_empty() && !value.starts_with(['-', '.']) && value.bytes().all(is_part)
}

/// Whether the word of an option of LLVM's only sets a number or a truth value, or is
/// known.
fn sets_number(word: &str) -> bool {
    if FOR_LLVM.contains(&word) {
        return true;
    }
    let Some((name, value)) = word.split_once('=') else { return false };
    let name = name.strip_prefix("--").or_else(|| name.strip_prefix('-')).unwrap_or_default();
    let is_number = value.parse::<i64>().is_ok() || ["true", "false"].contains(&value);
    let is_harmless = !NOT_FOR_LLVM.iter().any(|it| name.contains(it));
    !name.is_empty() && name.bytes().all(is_letter) && is_number && is_harmless
}

/// The same for options that a libLLVM gets directly.
pub fn check_library(codegen: &Codegen) -> Result<(), String> {
    let Codegen { cpu, features, relocation_model, code_model, .. } = codegen;
    for text in [cpu, features, relocation_model, code_model] {
        let is_plain = text.bytes().all(|byte| is_letter(byte) || byte == b',');
        if !is_plain || text.contains("help") {
            return Err(format!("its compilation has '{text}'"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = "-cc1 -triple x86_64-pc-linux-gnu -emit-obj -disable-free -main-file-name \
        p.c -mrelocation-model pic -pic-level 2 -pic-is-pie -mframe-pointer=none -fmath-errno \
        -ffp-contract=on -funwind-tables=2 -target-cpu x86-64 -tune-cpu generic -target-feature \
        -sse4.2 -target-feature +avx10.1-512 -debug-info-kind=constructor -dwarf-version=5 \
        -fdebug-compilation-dir=/a/b -coverage-notes-file=/a/p.gcno -resource-dir \
        /usr/lib/llvm-19/lib/clang/19 -O2 -fsanitize=address,undefined \
        -fsanitize-recover=alignment,array-bounds -stack-protector 2 -fcf-protection=full \
        -fprofile-instrument-path=default_%m.profraw -fgnuc-version=4.2.1 -vectorize-loops \
        -mllvm -inline-threshold=5 -faddrsig -fstack-clash-protection";

    fn checked(added: &str) -> Result<(), String> {
        let words = format!("{USUAL} {added} -disable-llvm-passes");
        check(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn usual_options_pass() {
        assert_eq!(checked(""), Ok(()));
    }

    #[test]
    fn options_that_run_code_or_touch_files_are_named() {
        for hostile in [
            "-load x.so",
            "-fplugin=x.so",
            "-fpass-plugin=/x.so",
            "-mllvm -load=x.so",
            "-mllvm -info-output-file=x",
            "-mllvm -print-after-all",
            "-mllvm -info-output-file=1",
            "-mllvm --x86-lvi-load-opt-plugin=1",
            "-mllvm -x86-lvi-load-dot=true",
            "-mllvm -exec-on-ir-change=1",
            "-mllvm -crash-diagnostics-dir=1",
            "-mllvm -view-edge-bundles=true",
            "-mllvm -wholeprogramdevirt-write-summary=1",
            "-mllvm @x",
            "@x",
            "x.c",
            "-o x",
            "-x c",
            "-include x",
            "-as-secure-log-file x",
            "-MF x",
            "-fembed-offload-object=/x",
            "-fbasic-block-sections=list=x",
            "-fsanitize-ignorelist=/x",
            "-fsanitize-coverage-allowlist=x",
            "-fopenmp-host-ir-file-path x",
            "-fmodules-user-build-path x",
            "-fthinlto-index=/x",
            "-fprofile-instrument-use-path=x",
            "-mlink-builtin-bitcode x",
            "-plugin x",
            "-add-plugin x",
            "-target-cpu @x",
            "-target-feature -load=x",
            "-main-file-name -load",
            "-main-file-name -fplugin=./x.so",
            "-main-file-name @x.c",
            "-E",
            "-S",
            "-emit-llvm",
            "-frecord-command-line=/x",
            "-foverride-record-layout=x",
            "-fcas-path=x",
            "-finclude-default-header=/x",
            "-cc1as",
            "-stats-file=x -ast-dump-all",
        ] {
            let why = checked(hostile).expect_err(hostile);
            let word = hostile.split(' ').find(|word| why.contains(word));
            assert!(word.is_some(), "{hostile}: {why}");
        }
        assert!(check(&["-emit-obj".to_owned(), "-disable-llvm-passes".to_owned()]).is_err());
        assert!(check(&["-cc1", "-emit-obj"].map(str::to_owned)).is_err());
    }

    #[test]
    fn the_options_of_a_library_are_names() {
        let codegen = Codegen {
            cpu: "x86-64-v3".into(),
            features: "+avx2,-sse4.2".into(),
            ..Default::default()
        };
        assert_eq!(check_library(&codegen), Ok(()));
        assert!(check_library(&Codegen { cpu: "help".into(), ..codegen.clone() }).is_err());
        assert!(check_library(&Codegen { features: "+a\n".into(), ..codegen }).is_err());
    }
}
