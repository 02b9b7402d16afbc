//! `backtrail autopsy` of a program that records its paths: which way each frame
//! came.

use std::fs;
use std::path::Path;
use std::process::Command;

use backtrail_testkit::cores::core_beside;
use serde_json::Value;

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

const SOURCE: &str = "\
int *table[4]; volatile int nine = 9, seen;
__attribute__((noinline)) int get(int which) {

    for (int i = 0; i < nine; i++)
        if (i % 3)
            seen += i;
        else
            seen -= i;
    if (which > 2)
        return seen;
    return *table[which];
}
int main(int count, char **words) {
    int sum = 0;
    for (int i = 5; i >= 0; i--)
        sum += get(i);
    return sum + count + (words == 0);
}
";

fn run(folder: &Path, program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).current_dir(folder).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn frames_say_which_way_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.c"), SOURCE).unwrap();
    for level in ["-O0", "-O2"] {
        run(folder, BACKTRAIL, &["cc", "-g", level, "-fno-unroll-loops", "a.c", "-o", "a"]);
        run(folder, BACKTRAIL, &["instrument", "--quiet", "--scheme", "pt", "-o", "a.pt", "a"]);
        let core = core_beside(&folder.join("a.pt"), &[], "a");
        let core = core.to_str().unwrap();
        let words = ["autopsy", "--exe", "./a.pt", core];
        let text = run(folder, BACKTRAIL, &words);
        let document: Value =
            serde_json::from_str(&run(folder, BACKTRAIL, &[&words[..], &["--json"]].concat()))
                .unwrap();
        fs::remove_file(core).unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/autopsy-1.json");
        let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&document), "{document}");
        assert!(text.contains("came by"), "{level}: {text}");
        let frames = document["threads"][0]["frames"].as_array().unwrap();
        let get = frames.iter().find(|frame| frame["function"] == "get").unwrap();
        assert_eq!((get["scheme"].as_str(), get["line"].as_u64()), (Some("pt"), Some(11)));
        let path = get["path"].as_array().unwrap();
        assert!(path.iter().all(|step| step["known"] == "exact"), "{level}: {path:?}");
        let last = path.last().unwrap()["line"].as_str().unwrap();
        assert!(last.ends_with("a.c:11"), "{level}: {last}");
        // It went past the other return.
        assert!(
            !path.iter().any(|it| it["line"].as_str().is_some_and(|it| it.ends_with("a.c:10")))
        );
        assert!(!get["older"].as_array().unwrap().is_empty(), "{level}: {get}");
        let main = frames.iter().find(|frame| frame["function"] == "main").unwrap();
        assert_eq!(main["scheme"], "pt", "{level}");
    }
}
