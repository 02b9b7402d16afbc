//! Programs, tests and shared libraries of Rust built by `backtrail cargo`: what
//! they carry, and that their variants do the same.

mod cargo_project;

use cargo_project::Project;

/// The parts of the mixed project that a program of it is made of.
fn has_unit(units: &[(String, String)], begins: &str) -> bool {
    units.iter().any(|(name, carried)| name.starts_with(begins) && carried == "yes")
}

fn count(events: &[serde_json::Value], function: &str) -> usize {
    let is_entry = |event: &&serde_json::Value| {
        event["block"] == "b0" && event["function"].as_str().unwrap().contains(function)
    };
    events.iter().filter(is_entry).count()
}

#[test]
fn everything_but_what_runs_while_building_is_carried() {
    let project = Project::new("mixed");
    project.cargo(&["build"]).succeeded();
    let units = project.units("target/debug/mixed");
    for part in ["mixed-0.2.0/src/main.rs[", "shapes-0.1.0/src/lib.rs[", "c/weigh.c"] {
        assert!(has_unit(&units, part), "{part} in {units:?}");
    }
    for (name, carried) in &units {
        let known = ["mixed-0.2.0/src/main.rs[", "shapes-0.1.0/src/lib.rs[", "c/weigh.c"];
        assert!(known.iter().any(|part| name.starts_with(part)), "{name}");
        // Only what belongs to the standard library is left out.
        assert!(carried == "yes" || name.ends_with("[allocator]"), "{name}: {carried}");
    }

    // Threads, panics that are caught, C that calls back, an exit status.
    let ran = project.behaves_alike("target/debug/mixed", &["13"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("Parcel of a build script: "), "{}", ran.stdout);
    assert!(ran.stderr.contains("nothing below"), "{}", ran.stderr);
    let events = project.events();
    assert_eq!(count(&events, "6shapes5steps"), 4 * 13, "four threads, thirteen weights each");
    assert_eq!(count(&events, "limit"), 13, "once for each weight, in C");
    assert_eq!(count(&events, "6shapes4fall"), 6);
    let lines: Vec<_> = events.iter().filter_map(|event| event["line"].as_str()).collect();
    for source in ["src/main.rs:", "shapes/src/lib.rs:", "c/weigh.c:"] {
        assert!(lines.iter().any(|line| line.contains(source)), "no line of {source}");
    }
    // The program needs nothing of the tree it was built in.
    let before = project.info("target/debug/mixed.log")["derived_from"].clone();
    std::fs::rename(project.path("target/debug/mixed"), project.path("mixed")).unwrap();
    std::fs::remove_dir_all(project.path("target")).unwrap();
    let again = project.variant("mixed", "log");
    assert_eq!(project.info(&again)["derived_from"], before);
    assert_eq!(project.run(project.path(&again), &["13"]), ran);
}

#[test]
fn optimised_programs_and_shared_libraries_have_variants() {
    let mut project = Project::new("mixed");
    project.cargo(&["build", "--release", "--workspace"]).succeeded();
    let program = "target/release/mixed";
    let ran = project.behaves_alike(program, &["13"]);
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert_eq!(count(&project.events(), "6shapes5steps"), 4 * 13);
    let (original, empty) = (
        project.instructions(program, &["300"]) as f64,
        project.instructions("target/release/mixed.empty", &["300"]) as f64,
    );
    assert!((empty / original - 1.0).abs() < 0.01, "{original} and {empty} instructions");

    // A library for programs that are not ours.
    let source = "#include <stdio.h>\nunsigned plugin_steps(unsigned long);\nint plugin_fall(unsigned);\n\
                  int main(void) { printf(\"%u %d\\n\", plugin_steps(27), plugin_fall(4)); return 0; }\n";
    std::fs::write(project.path("host.c"), source).unwrap();
    let words = ["host.c", "-Ltarget/release", "-lplugin", "-o", "host"];
    project.run("cc", &words).succeeded();
    let mut answers = Vec::new();
    for scheme in ["original", "empty", "log"] {
        let library = match scheme {
            "original" => "target/release/libplugin.so".to_owned(),
            scheme => project.variant("target/release/libplugin.so", scheme),
        };
        std::fs::create_dir(project.path(scheme)).unwrap();
        std::fs::copy(project.path(&library), project.path(scheme).join("libplugin.so")).unwrap();
        project.set("LD_LIBRARY_PATH", project.path(scheme));
        answers.push(project.run(project.path("host"), &[]).succeeded());
    }
    assert_eq!(answers[0].stdout, "111 1\n");
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

#[test]
fn run_test_and_fail_as_cargo_does() {
    let project = Project::new("small");
    let ours = project.cargo(&["run", "--quiet"]);
    assert_eq!((ours.status, &ours.stdout[..]), (101, "untold\n"), "{}", ours.stderr);

    let tests = project.cargo(&["test", "--workspace", "--no-run", "--message-format=json"]);
    let executables: Vec<String> = tests
        .succeeded()
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["profile"]["test"] == true)
        .filter_map(|message| Some(message["executable"].as_str()?.to_owned()))
        .collect();
    let of_part = executables.iter().find(|path| path.contains("/part-")).unwrap();
    assert!(has_unit(&project.units(of_part), "part-0.1.0/src/lib.rs["));
    let variant = project.variant(of_part, "log");
    let ran = project.run(&variant, &[]).succeeded();
    assert!(ran.stdout.contains("2 passed"), "{}", ran.stdout);
    let all = project.cargo(&["test", "--workspace"]).succeeded();
    assert!(all.stdout.contains("the_program_counts ... ok"), "{}", all.stdout);

    // A mistake is reported by the compiler, in its own words.
    let source = std::fs::read_to_string(project.path("part/src/lib.rs")).unwrap();
    let mistaken = source.replace("*times += 1", "*times += \"x\"");
    std::fs::write(project.path("part/src/lib.rs"), mistaken).unwrap();
    let (ours, plain) = (project.cargo(&["build", "-q"]), project.plain_cargo(&["build", "-q"]));
    assert_eq!((ours.status, plain.status), (101, 101));
    assert_eq!(ours.stderr, plain.stderr);
    assert!(ours.stderr.contains("error[E0277]"), "{}", ours.stderr);
    // So is one by the linker.
    std::fs::write(project.path("part/src/lib.rs"), source).unwrap();
    let words = ["rustc", "-q", "--", "-Clink-arg=-lnowhere-to-be-found"];
    let (ours, plain) = (project.cargo(&words), project.plain_cargo(&words));
    assert_eq!((ours.status, plain.status), (101, 101));
    assert!(ours.stderr.contains("nowhere-to-be-found"), "{}", ours.stderr);
}
