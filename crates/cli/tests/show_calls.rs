//! The calls of a trace: as a tree, as a page in a headless Chromium, as trace
//! events.

mod profile_program;

use std::process::Command;

use profile_program::Program;
use serde_json::Value;

const SOURCE: &str = r#"
#include <stdio.h>
__attribute__((noinline)) static int leaf(int n) { int s = 0; while (n-- > 0) s += n & 3; return s; }
__attribute__((noinline)) static int middle(int n) { return leaf(n) + leaf(n / 2); }
int main(void) {
    int sum = 0;
    for (int i = 0; i < 10; i++) sum += middle(i);
    printf("%d\n", sum + leaf(3));
    return 0;
}
"#;

fn traced() -> Program {
    let program = Program::c(SOURCE, &["-O1", "-g"]);
    program.backtrail(&["trace", "./program"]);
    program
}

#[test]
fn a_tree_with_counts() {
    let program = traced();
    let shown = program.backtrail(&["show", "--tree", "program.bttrace"]);
    let rows: Vec<Vec<&str>> =
        shown.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let row = |name: &str, calls: &str| {
        rows.iter().filter(|row| row.last() == Some(&name) && row[2] == calls).count()
    };
    assert_eq!((row("main", "1"), row("middle", "10")), (1, 1), "{shown}");
    // Twice in each middle, and once from main.
    assert_eq!((row("leaf", "20"), row("leaf", "1")), (1, 1), "{shown}");
    let (code, message) = program.refused(&["show", "--tree", "."]);
    assert!(code == 3 && message.contains("not a trace file"), "{code} {message}");
}

#[test]
fn a_page_in_a_browser() {
    let program = traced();
    program.backtrail(&["show", "--html", "site", "program.bttrace"]);
    let page = program.path("site/index.html");
    let text = std::fs::read_to_string(&page).unwrap();
    for reference in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!text.contains(reference), "{reference}");
    }
    let dom = |part: &str| {
        let output = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--virtual-time-budget=10000", "--enable-logging=stderr", "--v=0"])
            .arg(format!("--user-data-dir={}", program.path("browser").display()))
            .args(["--dump-dom", &format!("file://{}{part}", page.display())])
            .env("HOME", program.path("."))
            .output()
            .expect("chromium can be started (package chromium)");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !said.contains("Uncaught"), "{said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let whole = dom("");
    assert_eq!(whole.matches("class=\"bar\"").count(), 5, "{whole}");
    assert!(whole.contains("middle: called 10 times"));
    // One bar and what it called.
    let middle = whole.split("class=\"bar\"").find(|bar| bar.contains(">middle<")).unwrap();
    let number = middle.split("data-bar=\"").nth(1).unwrap().split('"').next().unwrap();
    let chosen = dom(&format!("#b{number}"));
    assert_eq!(chosen.matches("class=\"bar\"").count(), 2, "{chosen}");
}

#[test]
fn trace_events() {
    let program = traced();
    let to = ["show", "--to", "perfetto", "-o", "events.json", "program.bttrace"];
    assert_eq!(program.backtrail(&to), "");
    let text = std::fs::read_to_string(program.path("events.json")).unwrap();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    let (mut stack, mut calls, mut last) = (Vec::new(), 0, 0);
    for event in &events[1..] {
        let at = event["ts"].as_u64().unwrap();
        assert!(at >= last);
        last = at;
        match event["ph"].as_str().unwrap() {
            "B" => {
                let name = event["name"].as_str().unwrap();
                let above: &[&str] = match name {
                    "main" => &[],
                    "middle" => &["main"],
                    _ if stack.len() == 2 => &["main", "middle"],
                    _ => &["main"],
                };
                assert_eq!(stack, above);
                stack.push(name);
                calls += 1;
            }
            "E" => assert!(stack.pop().is_some()),
            other => panic!("{other}"),
        }
    }
    assert!(stack.is_empty());
    assert_eq!(calls, 1 + 10 + 20 + 1);
}
