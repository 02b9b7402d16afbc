//! The user's own settings are kept: profiles, flags, wrappers, linkers, targets,
//! and what cargo calls fresh.

mod cargo_project;

use cargo_project::{BACKTRAIL, Project};

const WORDS: [&str; 4] = ["a", "b", "A", "c"];

fn unit_names(project: &Project, program: &str) -> Vec<String> {
    project.units(program).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn every_kind_of_profile_has_variants() {
    let project = Project::new("small");
    for profile in ["thin", "fat", "kept", "bare"] {
        project.cargo(&["build", "--profile", profile]).succeeded();
        let program = format!("target/{profile}/small");
        let ran = project.behaves_alike(&program, &WORDS);
        assert_eq!(ran.stdout, "a 2\nb 1\nc 1\nuntold\n", "{profile}");
        // A panic ends the program, by a signal where the profile says so.
        let status = if profile == "fat" { 128 + 6 } else { 101 };
        assert_eq!(project.behaves_alike(&program, &[]).status, status, "{profile}");
        let sections = project.run("readelf", &["-SW", &program]).succeeded().stdout;
        assert_eq!(sections.contains(".symtab"), profile != "fat", "{profile}");
    }
    // Only the standard library has lines in the program, and all units in their IR.
    let lines = project.run("readelf", &["--debug-dump=decodedline", "target/bare/small"]);
    assert!(!lines.succeeded().stdout.contains("part/src"), "lines were not asked for");
    let lines = project.run("readelf", &["--debug-dump=decodedline", "target/kept/small"]);
    assert!(lines.succeeded().stdout.contains("part/src"), "lines were asked for");
    let events = project.events();
    assert!(events.iter().any(|event| {
        event["line"].as_str().is_some_and(|line| line.contains("part/src/lib.rs:"))
    }));

    // What did not change is taken from the incremental build, units and all.
    let before = unit_names(&project, "target/kept/small");
    let main = std::fs::read_to_string(project.path("src/main.rs")).unwrap();
    std::fs::write(project.path("src/main.rs"), main.replace("no words", "no word")).unwrap();
    project.cargo(&["build", "--profile", "kept"]).succeeded();
    assert_eq!(unit_names(&project, "target/kept/small"), before);
    let ran = project.behaves_alike("target/kept/small", &[]);
    assert!(ran.stderr.contains("no word\n"), "{}", ran.stderr);
}

#[test]
fn flags_wrappers_linkers_and_targets_are_kept() {
    let mut project = Project::new("small");
    let wrapper = project.script("wrapper", "exec \"$@\"");
    let of_workspace = project.script("workspace-wrapper", "exec \"$@\"");
    let linker = project.script("clang-like", "exec cc \"$@\"");
    project.set("RUSTFLAGS", "--cfg told");
    project.set("RUSTC_WRAPPER", &wrapper);
    project.set("RUSTC_WORKSPACE_WRAPPER", &of_workspace);
    project.set("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", &linker);
    project.cargo(&["build", "--target", "x86_64-unknown-linux-gnu"]).succeeded();
    let calls = project.calls();
    let called = |name: &str, with: &str| {
        calls.iter().any(|call| call.starts_with(&format!("{name} ")) && call.contains(with))
    };
    assert!(called("wrapper", "--crate-name part "), "{calls:#?}");
    assert!(called("wrapper", "workspace-wrapper"), "the one within the other: {calls:#?}");
    assert!(called("workspace-wrapper", "--crate-name small "), "{calls:#?}");
    assert!(called("clang-like", "-o "), "{calls:#?}");
    let program = "target/x86_64-unknown-linux-gnu/debug/small";
    let ran = project.run(project.path(program), &WORDS).succeeded();
    assert!(ran.stdout.ends_with("told\n") && !ran.stdout.contains("untold"), "{}", ran.stdout);
    // The variant was linked by the user's linker too, which is known as the user's.
    let variant = project.variant(program, "log");
    assert_eq!(project.run(project.path(&variant), &WORDS), ran);
    assert!(project.calls().iter().any(|call| call.starts_with("clang-like ")));

    // The same from a file of configuration.
    for name in ["RUSTC_WRAPPER", "RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER"] {
        project.unset(name);
    }
    project.unset("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER");
    std::fs::create_dir(project.path(".cargo")).unwrap();
    let config = "[build]\nrustc-wrapper = '../wrapper'\nrustflags = ['--cfg', 'told']\n\
                  [target.x86_64-unknown-linux-gnu]\nlinker = '../clang-like'\n";
    std::fs::write(project.path(".cargo/config.toml"), config).unwrap();
    project.cargo(&["build"]).succeeded();
    let calls = project.calls();
    for name in ["wrapper ", "clang-like "] {
        assert!(calls.iter().any(|call| call.starts_with(name)), "{name}: {calls:#?}");
    }
    let ran = project.run(project.path("target/debug/small"), &WORDS).succeeded();
    assert!(ran.stdout.ends_with("told\n") && !ran.stdout.contains("untold"), "{}", ran.stdout);
    assert!(!project.units("target/debug/small").is_empty());
}

#[test]
fn builds_with_and_without_us_stay_apart() {
    let mut project = Project::new("small");
    let program = "target/debug/small";
    let carries = |project: &Project| project.run(BACKTRAIL, &["info", program]).status == 0;
    assert!(project.cargo(&["build"]).succeeded().compiled("part") && carries(&project));
    assert!(project.plain_cargo(&["build"]).succeeded().compiled("part") && !carries(&project));
    // Both are kept, and the program is the one that was asked for last.
    let again = project.cargo(&["build"]).succeeded();
    assert!(!again.compiled("part") && !again.compiled("small") && carries(&project));
    let again = project.plain_cargo(&["build"]).succeeded();
    assert!(!again.compiled("part") && !again.compiled("small") && !carries(&project));
    // The standard library on request, which is another build again.
    assert!(project.cargo(&["build"]).succeeded().stderr.contains("Finished"));
    let without = project.units(program);
    project.set("BACKTRAIL_STD", "1");
    project.cargo(&["build"]).succeeded();
    let with = project.units(program);
    assert!(
        with.iter().any(|(name, carried)| name == "rust/std[0]" && carried == "yes"),
        "{with:?}"
    );
    assert!(without.len() < with.len() && !without.iter().any(|(name, _)| name.contains("rust/")));
    // Its panic machinery and start-up are logged then, and work.
    let variant = project.variant(program, "log");
    let (original, logged) =
        (project.run(project.path(program), &[]), project.run(project.path(&variant), &[]));
    assert_eq!((original.status, logged.status), (101, 101));
    assert_eq!(original, logged);
    // The same sources give the same bytes.
    project.unset("BACKTRAIL_STD");
    project.cargo(&["build"]).succeeded();
    let first = std::fs::read(project.path(program)).unwrap();
    std::fs::remove_dir_all(project.path("target")).unwrap();
    project.cargo(&["build"]).succeeded();
    assert!(first == std::fs::read(project.path(program)).unwrap(), "another file");
    let left = std::fs::read_dir(project.path("target/debug/deps")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = left.filter(|name| name.starts_with('.') || name.contains("rcgu")).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn as_a_command_of_cargo_and_without_one() {
    let mut project = Project::new("small");
    // `cargo backtrail build` starts `cargo-backtrail backtrail build`.
    let launcher = env!("CARGO_BIN_EXE_cargo-backtrail");
    project.run(launcher, &["backtrail", "build", "--offline"]).succeeded();
    assert!(!project.units("target/debug/small").is_empty());
    // Verbs that compile nothing are cargo's own affair.
    let version = project.cargo(&["--version"]).succeeded();
    assert_eq!(version.stdout, project.plain_cargo(&["--version"]).stdout);

    project.set("CARGO", "/nowhere/cargo");
    let ran = project.cargo(&["build"]);
    assert_eq!(ran.status, 127);
    assert_eq!(
        ran.stderr,
        "backtrail: cannot start '/nowhere/cargo': No such file or directory (os error 2)"
    );
}
