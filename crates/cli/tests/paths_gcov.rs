//! Line counts derived from paths are gcov's: programs built without
//! optimisation, profiled by us, and by `clang --coverage`.
//!
//! gcov's counts follow from the flow through a function, which `longjmp` into
//! it breaks; lines of functions that call `setjmp` are left out.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn run(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder);
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", words[0]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

/// Counts of the lines of `program.c`, ours and gcov's, and whether both
/// programs printed the same.
fn counts(folder: &Path, options: &[&str]) -> [BTreeMap<u32, u64>; 2] {
    let mut words = vec![BACKTRAIL, "cc", "-O0", "-g", "-w", "program.c", "-o", "program"];
    words.extend_from_slice(options);
    run(folder, &words);
    let printed = run(folder, &[BACKTRAIL, "profile", "./program"]);
    let trace = run(folder, &[BACKTRAIL, "export", "program.btprof", "--to", "lcov"]);
    let mut ours = BTreeMap::new();
    let record = trace.split("end_of_record").find(|record| record.contains("program.c\n"));
    for line in record.unwrap().lines().filter_map(|line| line.strip_prefix("DA:")) {
        let (line, count) = line.split_once(',').unwrap();
        ours.insert(line.parse().unwrap(), count.parse().unwrap());
    }

    let mut words = vec!["clang-19", "-O0", "--coverage", "-w", "program.c", "-o", "covered"];
    words.extend_from_slice(options);
    run(folder, &words);
    assert_eq!(run(folder, &["./covered"]), printed);
    let text = run(folder, &["llvm-cov-19", "gcov", "-t", "covered-program.gcda"]);
    let mut theirs = BTreeMap::new();
    let mut wanted = false;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').map(str::trim);
        let (count, number) = (fields.next().unwrap(), fields.next().unwrap_or("0"));
        if let Some(source) = fields.next().and_then(|rest| rest.strip_prefix("Source:")) {
            wanted = source.ends_with("program.c");
        }
        if wanted && count != "-" {
            let count = count.trim_end_matches('*').parse().unwrap_or(0);
            theirs.insert(number.parse().unwrap(), count);
        }
    }
    [ours, theirs]
}

fn compare(source: &str, options: &[&str], left_out: impl Fn(u32) -> bool) -> usize {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("program.c"), source).unwrap();
    let [mut ours, mut theirs] = counts(folder.path(), options);
    ours.retain(|&line, _| !left_out(line));
    theirs.retain(|&line, _| !left_out(line));
    assert_eq!(ours, theirs, "{source}");
    ours.len()
}

#[test]
fn loops_and_decisions_on_one_line_and_on_many() {
    let source = r#"
#include <stdio.h>
static int table[64];
static int collatz(int n) { int steps = 0; while (n != 1) { n = n % 2 ? 3 * n + 1 : n / 2; steps++; } return steps; }
static int early(int n) {
    for (int i = 0; ; i++)
        if (i * i > n)
            return i;
        else if (i == 40 || (n > 500 && i == 20)) goto out;
out: return -1;
}
static unsigned kinds(const char *text) {
    unsigned seen = 0;
    do switch (*text) {
        case 'a': case 'b': seen += 1; break;
        case 'c': seen += 10; /* falls through */
        case 'd': { for (int i = 0; i < 3; i++) for (int j = i; j < 3; j++) seen += i * j; } break;
        default: if (*text & 1) continue; else seen ^= 4;
    } while (*++text);
    return seen;
}
static int depth(int n) { return n <= 1 ? n : depth(n - 1) + depth(n - 2); }
static int never(int n) {
    while (n--) table[n & 63]++;
    return n;
}
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 1; i < 30; i++) { sum += collatz(i); if (i % 7 == 0) continue; sum += early(i * 100); }
    for (int i = 0; i < 64 && (sum > i || !sum); i++)
        table[i] = i % 3 ? i : -i;
    sum += kinds("abcdabxyzzyq") + depth(12);
    if (argc > 1 && never(argc)) return 1;
    printf("%d %d\n", sum, table[17]);
    return 0;
}
"#;
    assert!(compare(source, &[], |_| false) > 25);
}

#[test]
fn functions_and_jumps_of_the_other_oracle() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/oracle/control.c");
    let source = std::fs::read_to_string(path).unwrap();
    let main = source.lines().position(|line| line.contains("int main(")).unwrap() as u32 + 1;
    assert!(source.lines().skip(main as usize).any(|line| line.contains("setjmp(")));
    assert!(compare(&source, &[], |line| line >= main) > 30);
}

#[test]
fn random_programs() {
    // Six that end soon.
    let mut lines = 0;
    for seed in 1..=6 {
        let folder = tempfile::tempdir().unwrap();
        let source = run(folder.path(), &["csmith", "--seed", &seed.to_string()]);
        lines += compare(&source, &["-I/usr/include/csmith"], |_| false);
    }
    assert!(lines > 2_000, "{lines}");
}
