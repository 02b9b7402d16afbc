//! What the model of a program holds impossible, and happens all the same: an assembler
//! puts the name of a function together, so that no word of the program says who calls it.

mod cc_project;

use std::process::Command;

use backtrail_testkit::cores::core_of;
use cc_project::Project;

/// `SAID` stands for what the function does that nobody is known to call.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__asm__(".macro reach suffix\n call hidden_\\suffix\n .endm\n");
__attribute__((noinline)) int hidden_one(void) { SAID return 7; }
__attribute__((noinline)) int seen(int x) { return x > 1 ? x : 2; }
int main(int argc, char **argv) {
    int result = seen(argc);
    __asm__ volatile("sub $128, %%rsp\n reach one\n add $128, %%rsp"
                     : "=a"(result) : : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
                       "memory", "cc");
    printf("%d\n", result);
    if (argc > 1)
        abort();
    return 0;
}
"#;

/// What a run says of the function first.
const SAID: &str = "hidden_one ran, which the model of the program holds impossible: something \
                    called it that is not known to";

/// The program, where the function calls another, or is a leaf: that has no calls to be
/// covered.
fn projects() -> [Project; 2] {
    let calls = "if (getenv(\"DIE\")) abort(); puts(\"hidden\");";
    [(calls, "hidden\n7\n"), ("", "7\n")].map(|(does, prints)| {
        let project = Project::new(&[("program.c", &PROGRAM.replace("SAID", does))]);
        // A frame pointer keeps the stack aligned where the assembly calls.
        let ran = project.run_ours("$CC -O0 -g program.c -o program && ./program");
        assert_eq!(ran.succeeded().text(), prints);
        project
    })
}

/// Instruments the program, lets the variant die, and says what an autopsy has to say,
/// as text and as a document.
fn autopsy(project: &Project, scheme: &str, die: &[(&str, &str)]) -> (String, serde_json::Value) {
    let derive = format!("backtrail instrument --quiet --scheme '{scheme}' -o crash program");
    project.run_ours(&derive).succeeded();
    let core = project.ours("core.crash");
    let environment = die.iter().copied();
    core_of(Command::new(project.ours("crash")).arg("x").envs(environment), &core);
    let told = |words: &[&str]| {
        let mut autopsy = Command::new(env!("CARGO_BIN_EXE_backtrail"));
        let output = autopsy.arg("autopsy").args(words).arg(&core).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    (told(&[]), serde_json::from_str(&told(&["--json"])).unwrap())
}

#[test]
fn a_trace_is_refused_and_names_the_function() {
    for project in projects() {
        for options in ["", "--runs 3", "--witness node"] {
            let ran = project.run_ours(&format!("backtrail trace {options} -o out ./program"));
            assert_eq!(ran.status, 4, "{options}: {}", ran.stderr);
            assert!(ran.stderr.contains(SAID), "{options}: {}", ran.stderr);
            assert!(!project.ours("out").exists());
        }
        // What it did is known all the same.
        let ran = project.run_ours(
            "backtrail trace --strategy log -o log ./program && backtrail show log --json",
        );
        assert!(ran.succeeded().text().contains("hidden_one"));
    }
}

#[test]
fn a_profile_says_that_it_may_be_incomplete() {
    for project in projects() {
        let ran =
            project.run_ours("backtrail profile -o out ./program && backtrail paths out --json");
        let text = ran.succeeded().text();
        let document = &text[text.find('{').unwrap()..];
        let document: serde_json::Value = serde_json::from_str(document).unwrap();
        let why = document["incomplete"].as_str().unwrap();
        assert!(why.starts_with(SAID), "{why}");
    }
}

#[test]
fn copies_name_the_function_and_do_not_say_that_they_did_not_run_alike() {
    for project in projects() {
        for options in ["2", "3 --strategy pbl", "2 --strategy sbl", "4 --strategy p3"] {
            let ran =
                project.run_ours(&format!("backtrail profile --copies {options} -o out ./program"));
            assert_eq!(ran.status, 4, "{options}: {}", ran.stderr);
            assert!(ran.stderr.contains(SAID), "{options}: {}", ran.stderr);
            assert!(!ran.stderr.contains("alike"), "{options}: {}", ran.stderr);
            assert!(!project.ours("out").exists());
        }
    }
}

#[test]
fn an_autopsy_that_contradicts_its_records_concludes_nothing() {
    for project in projects() {
        for scheme in ["fc", "cc", "bc", "pt", "full", "realistic", "cc,hidden_*=none", "main=pt"] {
            let (text, document) = autopsy(&project, scheme, &[]);
            let said = "hidden_one did what the model of the program holds impossible: what can \
                        have run of";
            assert!(text.contains(said), "{scheme}: {text}");
            // Neither functions nor how many there are.
            assert!(
                !text.contains("did not run") && !text.contains("\n  functions"),
                "{scheme}: {text}"
            );
            assert!(document["impossible"].is_null() && document["active"].is_null(), "{scheme}");
        }
    }
}

#[test]
fn a_function_on_the_stack_that_nobody_is_known_to_call_is_a_contradiction() {
    let [project, _] = projects();
    for scheme in ["cc", "pt"] {
        let (text, document) = autopsy(&project, scheme, &[("DIE", "1")]);
        assert!(text.contains("hidden_one did what the model of the program holds"), "{text}");
        assert!(document["impossible"].is_null(), "{text}");
        assert_eq!(document["threads"][0]["frames"][3]["function"], "hidden_one", "{text}");
    }
}

const BEFORE_MAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int count;
static void early(void) { count += 2; }
void (*pointer)(void) __attribute__((section(".init_array"))) = early;
__attribute__((noinline)) int unused(int x) { return x * count; }
int main(int argc, char **argv) {
    if (argc > 5)
        return unused(argc);
    printf("%d\n", count);
    if (argc > 1)
        abort();
    return 0;
}
"#;

#[test]
fn what_ran_by_way_of_the_linker_is_not_said_to_have_not() {
    let project = Project::new(&[("program.c", BEFORE_MAIN)]);
    project.run_ours("$CC -O1 -g program.c -o program").succeeded();
    for scheme in ["fc", "cc", "bc", "pt", "full", "realistic"] {
        let (text, document) = autopsy(&project, scheme, &[]);
        assert!(!document["impossible"]["functions"].to_string().contains("early"), "{text}");
    }
}
