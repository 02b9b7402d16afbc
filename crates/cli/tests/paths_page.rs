//! `backtrail paths --html`, in a headless Chromium.

use std::path::Path;
use std::process::Command;

use backtrail_profile::file::write_profile;
use backtrail_profile::model::Profile;
use backtrail_testkit::{random_profile, sample_profile};

/// Writes a page into the folder.
fn page(folder: &Path, profile: &Profile) -> String {
    std::fs::write(folder.join("p"), write_profile(profile).unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_backtrail"));
    command.args(["paths", "p", "--html", "site"]).current_dir(folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "site/index.html\n");
    std::fs::read_to_string(folder.join("site/index.html")).unwrap()
}

/// Runs Chromium on the page, with a part of its address behind `#`.
fn chromium(folder: &Path, part: &str, words: &[&str]) -> String {
    let address = format!("file://{}/site/index.html#{part}", folder.display());
    let data = folder.join("browser");
    let mut command = Command::new("chromium");
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--window-size=1500,900", "--virtual-time-budget=10000"])
        .arg(format!("--user-data-dir={}", data.display()))
        .args(words)
        .arg(address)
        .env("HOME", folder);
    let output = command.output().expect("chromium can be started (package chromium)");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("Uncaught"), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

fn dom(folder: &Path, part: &str) -> String {
    chromium(folder, part, &["--enable-logging=stderr", "--v=0", "--dump-dom"])
}

#[test]
fn in_a_browser_a_path_is_shown_beside_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = folder.join("scan.c");
    std::fs::write(&source, sample_profile::SOURCE).unwrap();
    let text = page(folder, &sample_profile::profile(&source.display().to_string()));
    // It needs nothing else.
    for reference in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!text.contains(reference), "{reference}");
    }

    let overall = dom(folder, "");
    assert!(overall.contains("class=\"script\""));
    // All paths, of which the hottest is chosen, beside its source.
    assert_eq!(overall.matches("class=\"path\"").count(), 8);
    assert_eq!(
        overall.matches("class=\"path chosen\" tabindex=\"0\" data-p=\"0\"").count(),
        1,
        "{overall}"
    );
    assert!(overall.contains("Hottest paths") && overall.contains("class=\"row hit\""));

    // The second path of the hottest function.
    let chosen = dom(folder, "f0p1");
    assert_eq!(chosen.matches("class=\"path\"").count(), 5);
    assert_eq!(chosen.matches("class=\"path chosen\"").count(), 1);
    assert!(chosen.contains("<tr data-f=\"0\" tabindex=\"0\" class=\"chosen\">"), "{chosen}");
    let hit = |line: u32| format!("class=\"row hit\" data-line=\"0:{line}\"");
    for line in [11, 12, 4, 5, 13] {
        assert!(chosen.contains(&hit(line)), "{line}: {chosen}");
    }
    for line in [6, 14, 15, 18] {
        assert!(!chosen.contains(&hit(line)), "{line}");
    }
    assert!(chosen.contains("return x / 3;"));
    assert!(chosen.contains("<span class=\"times\">1,300,000</span>"));

    let picture = folder.join("picture.png");
    chromium(folder, "f0p1", &[&format!("--screenshot={}", picture.display())]);
    let picture = std::fs::read(picture).unwrap();
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 30_000, "{}", picture.len());
}

#[test]
fn in_a_browser_thousands_of_functions_and_hostile_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut profile = random_profile::run(&random_profile::program(1, 3_000, 12), 1).0;
    profile.program = "</script><img src=x onerror=alert(1)>".to_owned();
    profile.incomplete = vec!["<b>because</b>".to_owned()];
    let hottest = profile.functions.iter_mut().max_by_key(|function| function.paths.len());
    hottest.unwrap().name = "</script><script>document.title = 'taken'</script>".to_owned();
    let text = page(folder, &profile);
    assert!(!text.contains("<img") && !text.contains("<script>document.title"));
    assert!(text.contains("incomplete: &lt;b&gt;because"));
    let dom = dom(folder, "f3");
    let ran = profile.functions.iter().filter(|function| function.entries > 0).count();
    assert_eq!(dom.matches("<tr data-f=").count(), ran);
    assert!(dom.contains("class=\"path chosen\""));
    assert!(!dom.contains("<title>taken"));
}

#[test]
fn without_scripts_it_is_two_tables() {
    let folder = tempfile::tempdir().unwrap();
    let text = page(folder.path(), &sample_profile::profile("gone.c"));
    let (static_part, _) = text.split_once("<script").unwrap();
    assert_eq!(static_part.matches("<tr data-f=").count(), 2);
    assert_eq!(static_part.matches("class=\"path\"").count(), 9);
    assert!(static_part.contains("↻ 11 T → 12 =97 → 4 F → 6 → 13 → 11 ↩ 11"));
    assert!(static_part.contains("unfinished activations: <b>0</b>"));
}
