//! `backtrail autopsy --html`, in a headless Chromium that gets real keys.

mod browser;

use std::fs;
use std::path::Path;
use std::process::Command;

use backtrail_testkit::cores::core_beside;

use browser::Browser;

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

/// Line 11 dies; before it come lines that only one way leads through.
const SOURCE: &str = "\
volatile int seen; int *volatile nothing;
__attribute__((noinline)) int die(int which) {
    seen = 3;
    if (which > 1)
        seen = 5;
    else
        seen = 6;
    seen = 8;
    if (which > 5)
        return 10;
    return *nothing;
}
__attribute__((noinline)) void never(void) {
    seen = 14; // </script><img src=x onerror=alert(1)>
}
int main(int count, char **words) {
    seen = 17;
    if (count > 9)
        never();
    seen = 20;
    return die(count + 1) + (words == 0);
}
";

fn run(folder: &Path, program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).current_dir(folder).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

fn make_page(folder: &Path) -> String {
    fs::write(folder.join("a.c"), SOURCE).unwrap();
    run(folder, BACKTRAIL, &["cc", "-O0", "-g", "a.c", "-o", "a"]);
    run(folder, BACKTRAIL, &["instrument", "--quiet", "--scheme", "pt", "-o", "a.pt", "a"]);
    let core = core_beside(&folder.join("a.pt"), &[], "a");
    let core = core.to_str().unwrap();
    let words = ["autopsy", "--exe", "./a.pt", core, "--html", "site"];
    assert_eq!(run(folder, BACKTRAIL, &words), "site/index.html\n");
    fs::read_to_string(folder.join("site/index.html")).unwrap()
}

#[test]
fn in_a_browser_keys_step_through_the_path_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = make_page(folder.path());
    // It needs nothing else, and nothing of the source became a tag.
    for reference in ["http:", "https:", "@import", "url(", "<img"] {
        assert!(!text.contains(reference), "{reference}");
    }
    let mut browser = Browser::start(folder.path());
    browser.open(&format!("file://{}/site/index.html", folder.path().display()));
    let here = "[...document.querySelectorAll('.row.here')].map(it => it.dataset.line).join()";
    let expected = |browser: &mut Browser, key: &str, line: &str| {
        browser.press(key);
        assert_eq!(browser.value(here), line, "behind {key}");
    };
    assert_eq!(browser.value(here), "11");
    let way = ["9", "8", "5", "4", "3"];
    for line in way {
        expected(&mut browser, "ArrowLeft", line);
    }
    for line in ["4", "5", "8", "9", "11"] {
        expected(&mut browser, "ArrowRight", line);
    }
    // There is nothing behind the crash; before the function is its call.
    expected(&mut browser, "ArrowRight", "11");
    expected(&mut browser, "Home", "3");
    expected(&mut browser, "k", "21");
    expected(&mut browser, "k", "20");
    expected(&mut browser, "j", "21");
    expected(&mut browser, "j", "3");
    expected(&mut browser, "End", "11");
    expected(&mut browser, "ArrowDown", "21");
    let class = |line: u32| {
        format!("document.querySelector('.row[data-line=\"{line}\"]').className.split(' ')[1]")
    };
    for (line, state) in
        [(3, "executed"), (7, "impossible"), (10, "impossible"), (14, "impossible")]
    {
        assert_eq!(browser.value(&class(line)), state, "{line}");
    }
    assert_eq!(browser.value("document.images.length"), "0");
    let picture = browser.picture();
    assert!(picture.len() > 10_000, "{}", picture.len());
    if let Some(path) = std::env::var_os("BACKTRAIL_PICTURE") {
        fs::write(path, picture).unwrap();
    }
}

#[test]
fn without_scripts_it_is_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let text = make_page(folder.path());
    let (static_part, _) = text.split_once("<script").unwrap();
    for part in ["SIGSEGV", "came by", "never", "What can have run", "return *nothing;"] {
        assert!(static_part.contains(part), "{part} in {static_part}");
    }
}
