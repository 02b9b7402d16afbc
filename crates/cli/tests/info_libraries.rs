//! `info` names the libraries that are not the system's, and what was linked into them as
//! it is: what `instrument` counts.

mod cc_project;

use cc_project::Project;

#[test]
fn libraries_are_named_with_what_they_carry() {
    let project = Project::new(&[
        ("lib.c", "int twice(int x) { return x > 3 ? x * 2 : x; }\n"),
        ("v.map", "{ global: twice; local: *; };\n"),
        ("plain.c", "int deeper(int);\nint plain(int x) { return deeper(x) + 1; }\n"),
        ("deeper.c", "int deeper(int x) { return x * 3; }\n"),
        (
            "m.c",
            "int twice(int); int plain(int);\nint main(int c, char **v) { return twice(c) + plain(c); }\n",
        ),
    ]);
    let script = "mkdir libs && PLAIN=${BACKTRAIL_CLANG:-clang-19} && \
        $PLAIN -shared -fPIC deeper.c -o libs/libdeeper.so && \
        $PLAIN -shared -fPIC plain.c -Llibs -ldeeper -Wl,-rpath,'$ORIGIN' -o libs/libplain.so && \
        $CC -O1 -g -shared -fPIC -Wl,--version-script=v.map lib.c -o libs/libx.so && \
        $CC -O1 -g m.c -Llibs -lx -lplain -lz -Wl,-rpath-link,libs -Wl,-rpath,'$ORIGIN/libs' -o m";
    project.run_ours(script).succeeded();
    let info = project.info("m");
    let libraries = info["libraries"].as_array().unwrap();
    let rows: Vec<(&str, &str, u64, u64, usize)> = libraries
        .iter()
        .map(|it| {
            let number = |field: &str| it[field].as_u64().unwrap();
            let text = |field: &str| it[field].as_str().unwrap();
            let native = it["native"].as_array().unwrap().len();
            (text("name"), text("carried"), number("units"), number("functions"), native)
        })
        .collect();
    let no = "no: it was not built by Backtrail";
    assert_eq!(
        rows,
        [("libx.so", "yes", 1, 1, 1), ("libplain.so", no, 0, 0, 0), ("libdeeper.so", no, 0, 0, 0)]
    );
    assert!(info["native"].as_array().unwrap().is_empty());
    let text = project.run_ours("backtrail info m").succeeded().text();
    let has = |line: &str| {
        text.lines().any(|it| it.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(line))
    };
    assert!(text.contains("\nLibraries that are not the system's\n"), "{text}");
    assert!(has("libx.so 1 unit, 1 function"), "{text}");
    assert!(has("libplain.so it was not built by Backtrail"), "{text}");
    assert!(text.contains("v.map  read by an option of the linker, into libx.so"), "{text}");
    // As many as are named.
    let ran = project.run_ours("backtrail instrument --scheme log -o m.log m").succeeded();
    let told = ran.stderr.clone();
    assert!(told.contains("1 input linked as it is (see 'backtrail info')"), "{told}");
    // One that is gone is named, too.
    let gone = project.run_ours("rm libs/libplain.so && backtrail info m").succeeded().text();
    assert!(gone.contains("it is not found"), "{gone}");
}

#[test]
fn what_a_library_of_ones_own_does_is_known() {
    let project = Project::new(&[
        ("lib.c", "int twice(int x) { return x > 3 ? x * 2 : x; }\n"),
        ("m.c", "int twice(int);\nint main(int c, char **v) { return twice(c); }\n"),
    ]);
    let script = "$CC -O1 -g -shared -fPIC lib.c -o libx.so && \
        $CC -O1 -g m.c -L. -lx -Wl,-rpath,'$ORIGIN' -o m";
    project.run_ours(script).succeeded();
    let info = project.info("m");
    assert!(info["unlisted"]["functions"].as_array().unwrap().is_empty(), "{}", info["unlisted"]);
}
