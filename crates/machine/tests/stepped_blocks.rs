//! Blocks found in executables, against what a processor executes of them: every
//! instruction is in a block that is known, and every block is followed by one
//! that its exit allows.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use backtrail_machine::Error;
use backtrail_machine::code::{Callee, Code, Exit};
use backtrail_machine::tracee::single_step;
use backtrail_machine::tracee::{Ended, Launch, Tracee};

struct Stepped {
    ended: Ended,
    blocks: u64,
    different: usize,
}

fn start(code: &Code, program: &Path, arguments: &[&str], input: Option<File>) -> Tracee {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let launch = Launch {
        executable: program,
        name: OsStr::new(program.file_name().unwrap()),
        arguments: &arguments,
        input: Some(input.unwrap_or_else(|| File::open("/dev/null").unwrap())),
        output: Some(Stdio::null()),
        errors: None,
        prepare: None,
    };
    launch.start(code).unwrap()
}

/// Whether `next` may come after `block`.
fn may_follow(code: &Code, backs: &BTreeSet<usize>, block: usize, next: usize) -> bool {
    let from_outside = backs.contains(&next)
        || code.blocks[next].pad
        || code.routines[code.blocks[next].routine].head == next
            && code.routines[code.blocks[next].routine].taken;
    let called = |callee: &Callee| match callee {
        Callee::Routine(routine) => code.routines[*routine].head == next,
        Callee::External(_) | Callee::Pointer => from_outside,
    };
    match &code.blocks[block].exit {
        Exit::Blocks(blocks) => blocks.contains(&next),
        Exit::BlocksOrTail(blocks, callee) => blocks.contains(&next) || called(callee),
        Exit::Call(callee, _) | Exit::Tail(callee) => called(callee),
        Exit::Return => from_outside,
        Exit::Nothing => false,
    }
}

fn step(program: &Path, arguments: &[&str], input: Option<File>) -> Stepped {
    let code = Code::of_file(program).unwrap();
    let backs: BTreeSet<usize> = code
        .blocks
        .iter()
        .filter_map(|block| match block.exit {
            Exit::Call(_, back) => back,
            _ => None,
        })
        .collect();
    let mut tracee = start(&code, program, arguments, input);
    let (mut blocks, mut seen) = (0, BTreeSet::new());
    let mut last: Option<usize> = None;
    let ended = single_step::blocks(&mut tracee, &code, |block| {
        if let Some(last) = last {
            let (from, to) = (&code.blocks[last], code.blocks[block].start);
            assert!(
                may_follow(&code, &backs, last, block),
                "{}: {to:#x} followed {:#x}–{:#x}, which ends with {:?}",
                program.display(),
                from.start,
                from.last,
                from.exit,
            );
        }
        last = Some(block);
        blocks += 1;
        seen.insert(block);
        Ok::<(), Error>(())
    });
    Stepped { ended: ended.unwrap(), blocks, different: seen.len() }
}

fn compile(folder: &Path, compiler: &str, source: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/code").join(source);
    let program = folder.join(format!("{compiler}{}", options.concat()));
    let done = Command::new(compiler)
        .args(options)
        .arg(source)
        .arg("-o")
        .arg(&program)
        .status()
        .expect("the compiler is installed");
    assert!(done.success(), "{compiler} {options:?}");
    program
}

const LEVELS: [&str; 4] = ["-O0", "-O1", "-O2", "-O3"];

#[test]
fn code_of_gcc_and_clang_is_found_at_every_level() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in ["gcc", "clang-19"] {
        for level in LEVELS {
            for kind in ["-pie", "-no-pie"] {
                let code = if kind == "-pie" { "-fPIE" } else { "-fno-pie" };
                let options = [level, kind, code, "-s"];
                let program = compile(folder.path(), compiler, "shapes.c", &options);
                let expected = Command::new(&program).stdout(Stdio::null()).status().unwrap();
                let stepped = step(&program, &[], None);
                assert_eq!(stepped.ended, Ended::Exited(expected.code().unwrap()), "{options:?}");
                assert!(stepped.blocks > 400, "{compiler} {options:?}: {}", stepped.blocks);
                assert!(stepped.different > 60, "{compiler} {options:?}: {}", stepped.different);
            }
        }
    }
}

const CONSTANTS: &str = r#"
#include <string.h>
static int twice(int it) { return it + it; }
static int thrice(int it) { return it * 3; }
static int square(int it) { return it * it; }
static int (*const steps[])(int) = {twice, square, thrice};
static const char *const names[] = {"two of them, added", "it times itself", "and three"};
int main(int count, char **words) {
  int sum = 0;
  for (int i = 0; i < 3; i++)
    sum = steps[(i + count) % 3](sum + (int)strlen(names[(i + count) % 3]));
  return sum % 100;
}
"#;

/// Some linkers put constants into the segment with the code: these are none, and what
/// they point to is code that may be called.
#[test]
fn constants_beside_code_are_not_code() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("constants.c");
    std::fs::write(&source, CONSTANTS).unwrap();
    for (kind, code) in [("-pie", "-fPIE"), ("-no-pie", "-fno-pie")] {
        let options = ["-O1", kind, code, "-s", "-Wl,-z,noseparate-code"];
        let program = compile(folder.path(), "gcc", source.to_str().unwrap(), &options);
        let expected = Command::new(&program).status().unwrap().code().unwrap();
        let found = Code::of_file(&program).unwrap();
        assert!(found.blocks.iter().all(|block| block.plain), "{kind}");
        assert_eq!(step(&program, &[], None).ended, Ended::Exited(expected), "{kind}");
        // Without section headers nobody says where they are, and none is missed.
        let mut bytes = std::fs::read(&program).unwrap();
        bytes[0x28..0x30].fill(0);
        bytes[0x3c..0x40].fill(0);
        std::fs::write(&program, bytes).unwrap();
        let taken = |code: &Code| -> BTreeSet<u64> {
            let taken = code.routines.iter().filter(|routine| routine.taken);
            taken.map(|routine| code.blocks[routine.head].start).collect()
        };
        let undivided = taken(&Code::of_file(&program).unwrap());
        assert!(taken(&found).len() > 3 && taken(&found).is_subset(&undivided), "{kind}");
    }
}

#[test]
fn tables_end_where_they_do_though_nothing_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in ["gcc", "clang-19"] {
        for level in LEVELS {
            for (kind, code) in [("-pie", "-fPIE"), ("-no-pie", "-fno-pie")] {
                let options = [level, kind, code, "-s"];
                let program = compile(folder.path(), compiler, "tables.c", &options);
                // Entries that are none lead into instructions sooner or later.
                let code = Code::of_file(&program).unwrap();
                let overlapping = code.blocks.iter().filter(|block| !block.plain).count();
                assert_eq!(overlapping, 0, "{compiler} {options:?}");
                let exits = code.blocks.iter().filter_map(|block| match &block.exit {
                    Exit::Blocks(next) => Some(next.iter().collect::<BTreeSet<_>>().len()),
                    _ => None,
                });
                let mut sizes: Vec<usize> = exits.filter(|&size| size > 4).collect();
                sizes.sort_unstable();
                assert_eq!(sizes, [5, 5, 5, 6, 7], "{compiler} {options:?}");
                assert_eq!(step(&program, &[], None).ended, Ended::Exited(0), "{options:?}");
            }
        }
    }
}

const JUMPS_OUT: &str = r#"
#include <stdlib.h>
void release(int *counted);
__asm__(".text\n"
        ".type release, @function\n"
        "release:\n"
        "  .cfi_startproc\n"
        "  decl (%rdi)\n"
        "  jne 1f\n"
        "  jmp *free@GOTPCREL(%rip)\n"
        "1: ret\n"
        "  .cfi_endproc\n");
int main(void) {
  int *counted = malloc(sizeof *counted), rounds = 0;
  for (*counted = 3; rounds < 3; rounds++)
    release(counted);
  return rounds;
}
"#;

/// A jump through a word that the dynamic linker fills in is all of a stub, and may be all
/// of a block.
#[test]
fn a_block_that_is_one_jump_to_a_library_is_no_stub() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("jumps_out.c");
    std::fs::write(&source, JUMPS_OUT).unwrap();
    for options in [&["-O1"][..], &["-O1", "-s", "-fno-plt"]] {
        let program = compile(folder.path(), "gcc", source.to_str().unwrap(), options);
        let code = Code::of_file(&program).unwrap();
        let jumps = |exit: &Exit| matches!(exit, Exit::Tail(Callee::External(it)) if it == "free");
        assert_eq!(code.blocks.iter().filter(|it| jumps(&it.exit)).count(), 1, "{options:?}");
        assert_eq!(step(&program, &[], None).ended, Ended::Exited(3), "{options:?}");
    }
}

const HOST: &str = "\
__attribute__((noreturn)) void leave(int);
__attribute__((noinline)) void fail(int code) { if (code < 9) code++; leave(code); }
__attribute__((noinline)) int next(int code) { return code > 3 ? 4 : code * 5; }
int main(int count, char **words) { if (count > 1) fail(count); return next(count); }
";

/// A program with a library whose function `leave` does not return, as `xexit`: nobody
/// but the compiler knew.
fn compile_with_leave(folder: &Path, source: &Path) -> PathBuf {
    let library = "#include <stdlib.h>\nvoid leave(int code) { exit(code); }\n";
    std::fs::write(folder.join("library.c"), library).unwrap();
    let gcc = |words: &[&str]| {
        let built = Command::new("gcc").current_dir(folder).args(words).status().unwrap();
        assert!(built.success(), "{words:?}");
    };
    gcc(&["-shared", "-fPIC", "library.c", "-o", "library.so"]);
    let linked = ["-L.", "-l:library.so", "-Wl,-rpath,$ORIGIN", "-o", "host"];
    gcc(&[&["-O1", source.to_str().unwrap()], &linked[..]].concat());
    folder.join("host")
}

#[test]
fn nothing_follows_a_call_that_ends_its_function() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("host.c");
    std::fs::write(&source, HOST).unwrap();
    let program = compile_with_leave(folder.path(), &source);
    let code = Code::of_file(&program).unwrap();
    let leaves = Callee::External("leave".to_owned());
    let behind: Vec<Option<usize>> = code
        .blocks
        .iter()
        .filter_map(|block| match &block.exit {
            Exit::Call(callee, behind) if *callee == leaves => Some(*behind),
            _ => None,
        })
        .collect();
    assert_eq!(behind, [None]);
    assert_eq!(step(&program, &[], None).ended, Ended::Exited(5));
}

#[test]
fn a_table_is_found_though_a_call_before_a_case_never_returns() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/code/asserts.s");
    let program = compile_with_leave(folder.path(), &source);
    let code = Code::of_file(&program).unwrap();
    let is_table = |exit: &Exit| matches!(exit, Exit::Blocks(next) if next.len() == 3);
    assert_eq!(code.blocks.iter().filter(|block| is_table(&block.exit)).count(), 1);
    assert_eq!(step(&program, &[], None).ended, Ended::Exited(5));
}

/// In code that is bound to its place, entries of tables are pointers into functions,
/// as labels are; the compiler proper of gcc has jumps beside them that leave.
#[test]
fn jumps_to_labels_are_told_from_calls_in_tail_position() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in ["gcc", "clang-19"] {
        for level in LEVELS {
            for options in [["-pie", "-fPIE"], ["-no-pie", "-fno-pie"]] {
                let options = [&[level, "-s"], &options[..]].concat();
                let program = compile(folder.path(), compiler, "leaving.c", &options);
                let alone = Command::new(&program).status().unwrap().code().unwrap();
                let stepped = step(&program, &[], None);
                assert_eq!(stepped.ended, Ended::Exited(alone), "{compiler} {options:?}");
            }
        }
    }
}

/// perl's `S_maybe_multideref` reads an entry before a loop and jumps to it within.
#[test]
fn tables_are_found_by_way_of_the_stack() {
    let folder = tempfile::tempdir().unwrap();
    for options in [&["-O1"][..], &["-O1", "-s", "-no-pie"]] {
        let program = compile(folder.path(), "gcc", "spilled.s", options);
        let code = Code::of_file(&program).unwrap();
        let ways = code.blocks.iter().filter_map(|block| match &block.exit {
            Exit::Blocks(next) if next.len() > 1 => Some(next.len()),
            _ => None,
        });
        assert_eq!(ways.filter(|&it| it != 2).collect::<Vec<_>>(), [3, 4, 4], "{options:?}");
        for arguments in [&[][..], &["2"], &["2", "3"]] {
            let stepped = step(&program, arguments, None);
            assert!(matches!(stepped.ended, Ended::Exited(24 | 0)), "{:?}", stepped.ended);
        }
    }
}

#[test]
fn code_that_throws_is_found() {
    let folder = tempfile::tempdir().unwrap();
    for (compiler, level) in [("g++", "-O0"), ("g++", "-O2"), ("clang++-19", "-O1")] {
        let program = compile(folder.path(), compiler, "throws.cc", &[level, "-s"]);
        let code = Code::of_file(&program).unwrap();
        assert!(code.blocks.iter().filter(|block| block.pad).count() > 3);
        let stepped = step(&program, &[], None);
        assert_eq!(stepped.ended, Ended::Exited(0));
    }
}

/// What Debian installs, stripped as it is.
#[test]
fn installed_programs_are_found() {
    let commands = "true;ls -l /usr;sort -S1M /etc/passwd;sed -n s/a/b/p /etc/passwd;\
                    grep -n ro*t /etc/passwd;gzip -c /etc/group;mawk {print($1)} /etc/group;\
                    find /etc/apt;xz --version;expr 3 + 4;date;diff /etc/passwd /etc/group";
    let commands = std::env::var("BACKTRAIL_STEPPED").unwrap_or_else(|_| commands.to_owned());
    for command in commands.split(';') {
        let mut words = command.split_whitespace();
        let name = words.next().unwrap();
        let program = Path::new("/usr/bin").join(name).canonicalize().unwrap();
        let arguments: Vec<&str> = words.collect();
        let code = Code::of_file(&program).unwrap();
        let stepped = step(&program, &arguments, None);
        println!(
            "{name}: {} routines, {} blocks, {} computed jumps assumed to be calls; \
             {} blocks executed, {} of them different",
            code.routines.len(),
            code.blocks.len(),
            code.open_jumps.len(),
            stepped.blocks,
            stepped.different,
        );
        assert!(matches!(stepped.ended, Ended::Exited(0 | 1)), "{command}: {:?}", stepped.ended);
    }
}

#[test]
fn damaged_files_are_refused_or_read_without_harm() {
    let bytes = std::fs::read("/usr/bin/true").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    for round in 0..60usize {
        let mut damaged = bytes.clone();
        let cut = bytes.len() * (round % 12 + 1) / 12;
        for step in 0..=round {
            let place = (step * 7919 + round * 104_729) % damaged.len();
            damaged[place] = damaged[place].wrapping_mul(31).wrapping_add(round as u8);
        }
        damaged.truncate(cut);
        std::fs::write(&path, &damaged).unwrap();
        if let Ok(code) = Code::of_file(&path) {
            assert!(code.blocks.windows(2).all(|pair| pair[0].start < pair[1].start));
        }
    }
    // Segments at the end of all memory, with more in the file than in memory.
    let options = ["-O1", "-no-pie", "-fno-pie"];
    let bytes = std::fs::read(compile(folder.path(), "gcc", "shapes.c", &options)).unwrap();
    let headers = u64::from_le_bytes(bytes[0x20..0x28].try_into().unwrap()) as usize;
    for header in (headers..).step_by(56).take(usize::from(bytes[0x38])) {
        let mut damaged = bytes.clone();
        damaged[header + 16..header + 24].copy_from_slice(&(u64::MAX - 6).to_le_bytes());
        damaged[header + 40..header + 48].copy_from_slice(&4u64.to_le_bytes());
        std::fs::write(&path, &damaged).unwrap();
        let _ = Code::of_file(&path);
    }
}
