//! Whole projects, under the build systems people use, unmodified.

mod cc_project;

use cc_project::{Build, Project};

/// The units of a file, sorted, with whether each is carried.
fn sorted_units(project: &Project, name: &str) -> Vec<(String, String)> {
    let mut units = project.units(name);
    // Some build systems give absolute paths.
    for (unit, _) in &mut units {
        *unit = unit.rsplit('/').next().unwrap().to_owned();
    }
    units.sort();
    units
}

fn carried(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| (name.to_string(), "yes".to_owned())).collect()
}

#[test]
fn configure_and_make() {
    let project = Project::new(&[]);
    project.add_fixture("configured");
    project.both_spoke("./configure > /dev/null && cat config.h").succeeded();
    // In parallel the lines of make come in any order.
    project.both_spoke("make -s -j4 && make -s check").succeeded();
    project.both_spoke("touch lib/own.h && make -s -j2 && rm Makefile").succeeded();
    project.same_files("make");
    project.carries("program", &["src/main.c", "src/table.c", "lib/numbers.c", "lib/words.c"]);
    project.behaves("program", "1 2 3 -4 50");
    // The tree may go.
    let plain = project.run(Build::Plain, "./program 5 6");
    project
        .run_ours("mkdir away && mv program away && rm -r src lib libown.a config.h")
        .succeeded();
    project.behaves_as("away/program", "5 6", &plain);
}

/// `CC="backtrail cc"`, with the space.
#[test]
fn a_compiler_of_two_words() {
    let project = Project::new(&[]);
    project.add_fixture("configured");
    project.run_ours("CC='backtrail cc' CFLAGS=-O1 ./configure && make -s -j2 check").succeeded();
    project.carries("program", &["src/main.c", "src/table.c", "lib/numbers.c", "lib/words.c"]);
}

#[test]
fn a_compiler_cache_in_front() {
    let project = Project::new(&[]);
    project.add_fixture("configured");
    let variables = "CCACHE_DIR=$PWD/../ccache CC='ccache backtrail-cc'";
    let build = format!(
        "{variables} ./configure > /dev/null && {variables} make -s check && cp program first && make -s -n"
    );
    project.run_ours(&build).succeeded();
    let hits = "CCACHE_DIR=$PWD/../ccache ccache --print-stats | grep -E '^(direct|preprocessed)_cache_hit' | awk '{s += $2} END {print s}'";
    let before: u32 = project.run_ours(hits).succeeded().text().trim().parse().unwrap();
    let again = format!("rm -f program */*.o && {variables} make -s check");
    project.run_ours(&again).succeeded();
    let after: u32 = project.run_ours(hits).succeeded().text().trim().parse().unwrap();
    assert_eq!(after - before, 5, "every object from the cache");
    // Byte by byte the same program, which still carries everything.
    project.run_ours("cmp first program").succeeded();
    project.carries("program", &["src/main.c", "src/table.c", "lib/numbers.c", "lib/words.c"]);
    let plain = project.run_ours("./first 1 2");
    project.behaves_as("program", "1 2", &plain);
}

#[test]
fn cmake_with_exceptions() {
    let project = Project::new(&[]);
    project.add_fixture("cmake");
    let build = "cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release > log 2>&1 && ninja -C build >> log 2>&1 \
                 && cd build && ctest >> ../log 2>&1";
    for which in [Build::Plain, Build::Ours] {
        let ran = project.run(which, &format!("({build}) || (cat log; false)"));
        ran.succeeded();
    }
    assert_eq!(sorted_units(&project, "build/draw"), carried(&["draw.cpp", "shapes.cpp"]));
    assert_eq!(sorted_units(&project, "build/libunits.so"), carried(&["units.c"]));
    for arguments in ["circle 2", "square -1", "triangle 1", ""] {
        project.behaves("build/draw", arguments);
    }
    // Its own checks came to the same.
    let flags = "grep -h HAS_ build/CMakeCache.txt";
    assert_eq!(project.run_ours(flags), project.run(Build::Plain, flags));
    for object in ["draw.cpp.o", "cmake_pch.hxx.pch"] {
        let found = project.run_ours(&format!("find build -name {object}"));
        assert!(!found.stdout.is_empty(), "{object}");
    }
    let compare = "build/CMakeFiles/shapes.dir/shapes.cpp.o";
    cc_project::elf::assert_same(&project.ours(compare), &project.plain(compare), compare);
}

#[test]
fn cmake_with_makefiles() {
    let project = Project::new(&[]);
    project.add_fixture("cmake");
    let build =
        "cmake -S . -B build -DCMAKE_BUILD_TYPE=Debug > log 2>&1 && make -C build -j2 >> log 2>&1";
    project.run_ours(&format!("({build}) || (cat log; false)")).succeeded();
    assert_eq!(sorted_units(&project, "build/draw"), carried(&["draw.cpp", "shapes.cpp"]));
    let plain = project.run_ours("build/draw circle 3");
    project.behaves_as("build/draw", "circle 3", &plain);
}

#[test]
fn meson() {
    let project = Project::new(&[]);
    project.add_fixture("meson");
    let build = "meson setup build > log 2>&1 && ninja -C build >> log 2>&1 && ninja -C build test >> log 2>&1";
    for which in [Build::Plain, Build::Ours] {
        project
            .run(which, &format!("({build}) || (cat log build/meson-logs/*; false)"))
            .succeeded();
    }
    assert_eq!(sorted_units(&project, "build/program"), carried(&["main.cpp", "queue.c"]));
    assert_eq!(sorted_units(&project, "build/libshared.so"), carried(&["shared.c"]));
    project.behaves("build/program", "");
}

#[test]
fn autotools_and_libtool() {
    let project = Project::new(&[]);
    project.add_fixture("autotools");
    let build = "autoreconf -fi > log 2>&1 && ./configure --disable-silent-rules >> log 2>&1 && make -j2 check >> log 2>&1";
    project.run_ours(&format!("({build}) || (cat log; false)")).succeeded();
    // Both kinds of library, and the program against the shared one.
    assert_eq!(sorted_units(&project, ".libs/libcounter.so"), carried(&["counter.c", "inner.c"]));
    assert_eq!(sorted_units(&project, ".libs/count"), carried(&["count.c"]));
    project.carries("inner.o", &["inner.c"]);

    // What stands in the place of the program is a script.
    for verb in ["info", "instrument --scheme log", "detach", "extract -o out"] {
        let ran = project.run_ours(&format!("backtrail {verb} count"));
        assert_eq!(ran.status, 3, "{verb}");
        assert_eq!(
            ran.stderr,
            "backtrail: count is a libtool wrapper script, not the program; use .libs/count\n"
        );
    }

    // The program behind it, with its library.
    let plain = project.run_ours("LD_LIBRARY_PATH=.libs .libs/count banana Kayak");
    assert_eq!(plain.text(), "banana 3\nKayak 2\n");
    for scheme in ["empty", "log"] {
        project
            .run_ours(&format!(
                "LD_LIBRARY_PATH=.libs backtrail --quiet instrument --scheme {scheme} .libs/count"
            ))
            .succeeded();
        assert_eq!(
            project.run_ours(&format!("LD_LIBRARY_PATH=.libs .libs/count.{scheme} banana Kayak")),
            plain
        );
    }

    // Installed, and linked with the archive.
    let install = "make install DESTDIR=$PWD/root >> log 2>&1 && \
                   $CC -I. count.c root/usr/local/lib/libcounter.a -o static-count && ./static-count banana Kayak";
    assert_eq!(project.run_ours(install).text(), plain.text());
    project.carries("static-count", &["count.c", "counter.c", "inner.c"]);
    assert_eq!(sorted_units(&project, "root/usr/local/bin/count"), carried(&["count.c"]));
}
