//! What cannot be switched: one line, the right code, and nothing changes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use backtrail_machine::elf::Elf;

use super::{backtrail, built, run};

/// What is said of a command that leaves with `code` and changes nothing of `file`.
#[track_caller]
fn refused(folder: &Path, words: &[&str], code: i32, file: &str) -> String {
    let before = fs::read(folder.join(file)).ok();
    let output = backtrail(folder, &[&["tune"], words].concat());
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {message}");
    assert!(output.stdout.is_empty(), "{words:?}");
    assert_eq!(message.lines().count(), 1, "{words:?}: {message}");
    assert!(fs::read(folder.join(file)).ok() == before, "{words:?} changed {file}");
    message
}

fn tunable() -> tempfile::TempDir {
    let folder = built("cc", &["-O2"], &["shapes.c"]);
    let words = ["-q", "instrument", "--scheme", "cc", "--tunable", "parse_*", "-o", "tuned"];
    run(folder.path(), &[&words[..], &["program"]].concat());
    folder
}

#[test]
fn files_that_are_not_tunable() {
    let folder = tunable();
    let folder = folder.path();
    let set = ["--set", "*=none"];
    let refuse = |file: &str| refused(folder, &[&[file], &set[..]].concat(), 3, file);
    assert!(refuse("program").contains("no function of it can be switched"));
    assert!(refuse("shapes.c").contains("not an ELF file"), "{}", refuse("shapes.c"));
    assert!(refuse("missing").contains("cannot read missing"));
    fs::copy("/bin/true", folder.join("foreign")).unwrap();
    assert!(refuse("foreign").contains("no function of it can be switched"));
    let whole = fs::read(folder.join("tuned")).unwrap();
    for length in (0..whole.len()).step_by(whole.len() / 60) {
        fs::write(folder.join("cut"), &whole[..length]).unwrap();
        refuse("cut");
    }
}

#[test]
fn what_was_damaged_is_left_alone() {
    let folder = tunable();
    let folder = folder.path();
    let whole = fs::read(folder.join("tuned")).unwrap();
    let section = Elf::parse(&whole).unwrap().section(".backtrail.tune").unwrap().unwrap();
    let place = whole.windows(section.len()).position(|it| it == section).unwrap();
    for within in (0..section.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[place + within] ^= 0x41;
        fs::write(folder.join("bad"), &bytes).unwrap();
        refused(folder, &["bad", "--set", "*=none"], 3, "bad");
    }
    // The jump that leads elsewhere.
    run(folder, &["-q", "tune", "tuned", "--set", "*=none", "-o", "other"]);
    let other = fs::read(folder.join("other")).unwrap();
    let changed: Vec<usize> = (0..whole.len()).filter(|&it| whole[it] != other[it]).collect();
    assert!((2..=5).contains(&changed.len()), "a distance and a byte: {changed:?}");
    for (&at, what) in [(&changed[0], "leads elsewhere"), (changed.last().unwrap(), "different")] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x15;
        fs::write(folder.join("bad"), &bytes).unwrap();
        let message = refused(folder, &["bad", "--undo"], 3, "bad");
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn wrong_usage_changes_nothing() {
    let folder = tunable();
    let folder = folder.path();
    let refuse = |words: &[&str], code| refused(folder, words, code, "tuned");
    let message = refuse(&["tuned", "--set", "parse_*=none", "--set", "nobody=cc"], 2);
    assert!(
        message.contains("no function of tuned that can be switched is called nobody"),
        "{message}"
    );
    let message = refuse(&["tuned", "--set", "parse_*=bc"], 2);
    assert!(message.contains("carries bc: parse_words (cc, none, cc+pt)"), "{message}");
    refuse(&["tuned", "-o", "copy"], 2);
    assert!(!folder.join("copy").exists());
    let message = refuse(&["tuned", "--undo", "-o", "nowhere/copy"], 6);
    assert!(message.contains("nowhere/copy"), "{message}");
    for (words, code) in [(["--set", "parse_*=turbo"], 2), (["--set", "parse_*"], 2)] {
        let output = backtrail(folder, &[&["tune", "tuned"][..], &words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}");
    }
    for words in [["--scheme", "log", "--tunable", "*"], ["--scheme", "cc", "--tunable", "a[=cc"]] {
        let words = [&["instrument"][..], &words, &["-o", "x", "program"]].concat();
        assert_eq!(backtrail(folder, &words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn the_file_keeps_its_mode_and_its_links() {
    let folder = tunable();
    let folder = folder.path();
    let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o7777;
    fs::set_permissions(folder.join("tuned"), fs::Permissions::from_mode(0o4751)).unwrap();
    std::os::unix::fs::symlink("tuned", folder.join("link")).unwrap();
    run(folder, &["-q", "tune", "link", "--set", "*=cc+pt"]);
    assert!(fs::symlink_metadata(folder.join("link")).unwrap().is_symlink());
    assert_eq!(mode("tuned"), 0o4751);
    run(folder, &["-q", "tune", "link", "--undo", "-o", "copy"]);
    assert_eq!(mode("copy"), 0o751);
}
