//! What the loader and the kernel are asked for by a variant is what they are asked
//! for by its original: which segments are writable and executable, the stack among
//! them, what is made read-only after relocation, which libraries are needed and
//! where they are looked for, whether everything is bound at once.
//!
//! A variant may have more data: memory of each thread, and an entry that runs before
//! everything else. Those are named here; nothing else may differ.

mod cc_project;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cc_project::Project;

/// Every scheme, with whatever changes what is linked into it.
const SCHEMES: [&str; 11] = [
    "empty",
    "log",
    "profile",
    "fc",
    "cc",
    "bc",
    "pt",
    "realistic",
    "full",
    "'none' --tunable '*'",
    "'full' --tunable '*'",
];

/// What a variant may ask for in addition, as [`requests`] writes it.
const ADDITIONS: [&str; 4] = [
    "segment TLS R",
    "dynamic PREINIT_ARRAY",
    "dynamic PREINIT_ARRAYSZ",
    "dynamic FLAGS STATIC_TLS",
];

const MAIN: &str = r#"
#include <stdio.h>
int twice(int);
static int decide(int x) { if (x > 2) return twice(x); return x; }
int main(int argc, char **argv) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        for (char *at = line; *at; at++)
            if (at[0] == '[' && at[1] == 's' && at[2] == 't') fwrite(line + 25, 1, 5, stdout);
    printf("%d\n", decide(argc));
    return 0;
}
"#;
/// It calls something, so that as a library it has a table of what is bound late.
const TWICE: &str = "int rand(void);\nint twice(int x) { return x > 100 ? rand() : x * 2; }\n";

/// What a file asks of the loader and of the kernel, a line each.
fn requests(path: &Path) -> BTreeSet<String> {
    let output = Command::new("readelf").args(["-W", "-l", "-d", "-n"]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut found = BTreeSet::new();
    let mut segments = false;
    for line in text.lines() {
        if line.starts_with("Program Headers:") {
            segments = true;
        } else if line.trim_start().starts_with("Section to Segment") {
            segments = false;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        // TYPE OFFSET ADDRESS ADDRESS SIZE SIZE FLAGS… ALIGNMENT
        if segments && words.len() >= 8 && words[1].starts_with("0x") {
            found.insert(format!("segment {} {}", words[0], words[6..words.len() - 1].join("")));
        }
        if words.len() >= 2 && words[0].starts_with("0x") && words[1].starts_with('(') {
            let tag = words[1].trim_matches(['(', ')']);
            let value = words[2..].join(" ");
            found.insert(match tag {
                "NEEDED" | "SONAME" | "RUNPATH" | "RPATH" | "FLAGS" | "FLAGS_1" => {
                    format!("dynamic {tag} {value}")
                }
                _ => format!("dynamic {tag}"),
            });
        }
        if line.contains("Properties:") || line.contains("OS: Linux") {
            found.insert(format!("note {}", line.trim()));
        }
    }
    assert!(found.iter().any(|line| line.starts_with("segment GNU_STACK")), "{text}");
    found
}

/// Compares variants of `file`, which `script` makes, with their original.
fn compare(script: &str, file: &str) {
    let project = Project::new(&[("main.c", MAIN), ("twice.c", TWICE)]);
    project.run_ours(script).succeeded();
    let original = requests(&project.ours(file));
    let stack = |program: &str| project.run_ours(&format!("./{program}")).succeeded().text();
    let is_program = !file.ends_with(".so");
    for scheme in SCHEMES {
        let derive =
            format!("rm -rf v v.libs; backtrail -q instrument -o v --scheme {scheme} {file}");
        project.run_ours(&derive).succeeded();
        let variant = requests(&project.ours("v"));
        let missing: Vec<_> = original.difference(&variant).collect();
        let mut added: Vec<_> = variant.difference(&original).collect();
        added.retain(|line| !ADDITIONS.contains(&line.as_str()));
        assert!(
            missing.is_empty() && added.is_empty(),
            "{script}, {scheme}: -{missing:?} +{added:?}"
        );
        if is_program {
            assert_eq!(stack("v"), stack(file), "{script}, {scheme}");
        }
    }
}

#[test]
fn of_programs_linked_by_gnu_ld() {
    compare("$CC -O1 -fuse-ld=bfd main.c twice.c -o p", "p");
}

#[test]
fn of_programs_linked_by_gold() {
    compare("$CC -O1 -fuse-ld=gold main.c twice.c -o p", "p");
}

#[test]
fn of_programs_linked_by_lld() {
    compare("$CC -O1 -fuse-ld=lld main.c twice.c -o p", "p");
}

#[test]
fn of_programs_that_bind_at_once_and_have_read_only_tables() {
    compare("$CC -O1 -Wl,-z,relro,-z,now -pie main.c twice.c -o p", "p");
}

#[test]
fn of_programs_at_fixed_addresses_and_without_libraries() {
    compare("$CC -O1 -static main.c twice.c -o p", "p");
    compare("$CC -O1 -no-pie -fno-pie main.c twice.c -o p", "p");
}

#[test]
fn of_programs_that_ask_for_an_executable_stack() {
    compare("$CC -O1 -Wl,-z,execstack main.c twice.c -o p", "p");
}

#[test]
fn of_shared_libraries() {
    for linker in ["bfd", "gold", "lld"] {
        compare(&format!("$CC -O1 -fPIC -shared -fuse-ld={linker} twice.c -o libt.so"), "libt.so");
    }
}
