//! What goes wrong in the user's program is told by clang, in clang's words,
//! with clang's status; and nothing is left behind that clang would not leave.

mod cc_project;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use cc_project::Project;

#[test]
fn errors_and_warnings_of_the_front_end() {
    let project = Project::new(&[
        (
            "warning.c",
            "#include <stdio.h>\nstatic int unused(void) { return 1; }\nint main(void) { int x; printf(\"%s\\n\", 3); return x; }\n",
        ),
        ("hash.c", "#warning take care\nint x;\n"),
        ("stop.c", "#error stop here\nint x;\n"),
        ("syntax.c", "int main(void) { return }\n"),
        ("good.c", "int good(void) { return 1; }\n"),
    ]);
    project.both("$CC -Wall -Wextra -c warning.c").succeeded();
    project.carries("warning.o", &["warning.c"]);
    project.both("$CC -c hash.c").succeeded();
    for script in [
        "$CC -Wall -Werror -c warning.c",
        "$CC -c stop.c",
        "$CC -c syntax.c",
        "$CC -c missing.c",
        "$CC syntax.c good.c -o program",
        "$CC -c syntax.c good.c",
        "$CC -Weverything -Wno-such -c warning.c -Wno-error",
        "$CC -fno-such-option -c good.c",
        "$CC -std=c++99 -c good.c",
        "$CC -fdiagnostics-format=sarif -Wno-everything -c syntax.c",
        "$CC -fdiagnostics-parseable-fixits -c syntax.c",
        "$CC --serialize-diagnostics d.dia -c warning.c",
    ] {
        project.both(script);
    }
}

#[test]
fn messages_of_the_driver() {
    let project = Project::new(&[("good.c", "int main(void) { return 0; }\n")]);
    project.both("$CC -c good.c -lm -L/nowhere").succeeded();
    project.both("$CXX -x c good.c -lm -o program").succeeded();
    project.both("$CXX -c good.c").succeeded();
    for script in [
        "$CC -c",
        "$CC -c nothing.c",
        "$CC -o",
        "$CC -march=no-such -c good.c",
        "$CC -Werror -c good.c -lm",
    ] {
        let both = project.both(script);
        assert_ne!(both.ours.status, 0, "{script}");
    }
}

/// Said when code is generated, where the two steps no longer know the source.
#[test]
fn errors_and_warnings_of_code_generation() {
    let project = Project::new(&[
        ("nonsense.c", "int main(void) { __asm__(\"nonsense %eax\"); return 0; }\n"),
        (
            "careful.c",
            "int main(void) { int unused; __asm__(\".warning \\\"careful\\\"\"); return 0; }\n",
        ),
        ("frame.c", "void use(char *);\nvoid big(void) { char room[5000]; use(room); }\n"),
        ("constraint.c", "int f(int x) { __asm__(\"mov %0, %0\" : : \"i\"(x)); return x; }\n"),
        ("module.c", "__asm__(\".globl x\\nx: .nonsense\");\nint main(void) { return 0; }\n"),
    ]);
    for name in ["nonsense.c", "constraint.c", "module.c"] {
        let both = project.both(&format!("$CC -O1 -c {name}"));
        assert_eq!(both.ours.status, 1, "{name}");
        assert_eq!(both.warnings, [""; 0], "{name}");
    }
    project.both("$CC -Wall -c careful.c").succeeded();
    project.carries("careful.o", &["careful.c"]);
    project.both("$CC -Wframe-larger-than=100 -c frame.c").succeeded();
    project.carries("frame.o", &["frame.c"]);
    let both = project.both("$CC -Werror -Wframe-larger-than=100 -c frame.c -o other.o");
    assert_eq!(both.ours.status, 1);
    project.both("$CC -w -Wframe-larger-than=100 -c frame.c").succeeded();
}

#[test]
fn remarks_of_the_optimiser() {
    let project = Project::new(&[(
        "loop.c",
        "void f(float *a, float *b, int n) { for (int i = 0; i < n; i++) a[i] += b[i]; }\n\
         static int g(int x) { return x + 1; }\nint h(int x) { return g(g(x)); }\n",
    )]);
    for options in ["-Rpass=.*", "-Rpass-missed=.*", "-Rpass-analysis=.*", "-g -Rpass=inline"] {
        project.both(&format!("$CC -O2 '{options}' -c loop.c").replace("'-g ", "-g '")).succeeded();
        project.carries("loop.o", &["loop.c"]);
    }
}

#[test]
fn errors_of_the_linker() {
    let project = Project::new(&[
        ("main.c", "int missing(void);\nint main(void) { return missing(); }\n"),
        ("twice.c", "int main(void) { return 1; }\n"),
    ]);
    for script in [
        "$CC main.c",
        "$CC main.c -o program",
        "$CC -fuse-ld=lld main.c -o program",
        "$CC -fuse-ld=gold main.c -o program",
        "$CC -c main.c twice.c && $CC main.o twice.o",
        "$CC twice.c -lno-such-library",
        "$CC no-such-object.o",
        "$CC twice.c -fuse-ld=no-such-linker",
        "$CC -shared twice.c -Wl,--version-script=missing.map",
        "$CC twice.c -o /no/such/folder/program",
    ] {
        let both = project.both(script);
        assert_eq!(both.ours.status, 1, "{script}");
    }
    // A program of that name that was there before is gone, as with clang.
    project.both("touch program; chmod +x program; $CC main.c -o program; test -e program");
    project.both("$CC -Wl,--unresolved-symbols=ignore-all -Wl,--warn-unresolved-symbols main.c -o program").succeeded();
}

#[test]
fn errors_of_assemblers() {
    let project = Project::new(&[
        ("bad.s", "nonsense %eax\n"),
        ("bad.c", "void f(void) { __asm__(\"nonsense %eax\"); }\n"),
    ]);
    project.both("$CC -c bad.s");
    for script in ["$CC -no-integrated-as -c bad.s", "$CC -no-integrated-as -c bad.c"] {
        let both = project.both(script);
        assert_eq!(both.ours.status, 1, "{script}");
        assert!(both.ours.stderr.contains("assembler command failed"), "{}", both.ours.stderr);
    }
}

#[test]
fn outputs_that_cannot_be_written() {
    let project =
        Project::new(&[("good.c", "int main(void) { return 0; }\n"), ("locked/kept.o", "kept")]);
    for output in ["no/such/folder/good.o", ".", "good.c/good.o", "/proc/good.o"] {
        let both = project.both(&format!("$CC -c good.c -o {output}"));
        assert_eq!(both.ours.status, 1, "{output}");
    }
    // For everybody but root, who may write anywhere unless that right is taken.
    for build in [project.ours("locked"), project.plain("locked")] {
        std::fs::set_permissions(build, Permissions::from_mode(0o555)).unwrap();
    }
    let script = "exec 2>&1; case $(id -u) in 0) as='setpriv --bounding-set=-dac_override';; esac; \
                  chmod 777 . ; echo kept > read-only.o; chmod 444 read-only.o; \
                  $as $CC -c good.c -o read-only.o; cat read-only.o; $as $CC -c good.c -o locked/new.o; $as $CC -c good.c -o locked/kept.o; \
                  cat locked/kept.o; $as $CC good.c -o locked/program";
    let project = project.with("BACKTRAIL_CACHE", "/no/such/cache");
    let folder = project.ours("..");
    for place in [folder.clone(), folder.join("temporary")] {
        std::fs::set_permissions(place, Permissions::from_mode(0o777)).unwrap();
    }
    let both = project.both(script);
    assert!(both.ours.text().contains("Permission denied"), "{}", both.ours.text());
}

/// Clang writes a report and a reproduction of its own.
#[test]
fn a_crash_of_clang_is_its_own_affair() {
    let project = Project::new(&[("crash.c", "#pragma clang __debug crash\nint x;\n")]);
    let script = "ulimit -c 0; $CC -c crash.c 2> said; echo $?; \
                  grep -c 'PLEASE submit a bug report' said; ls $TMPDIR | grep -c 'crash-.*sh'; \
                  rm -f said $TMPDIR/crash-*; ls crash.o";
    let both = project.both(script);
    assert!(both.ours.text().contains("\n1\n1\n"), "{}", both.ours.text());
}

#[test]
fn colours_and_widths_on_a_terminal() {
    let project = Project::new(&[
        (
            "warning.c",
            "int main(void) { int this_variable_is_never_used_for_anything_at_all_in_here; }\n",
        ),
        ("undefined.c", "int f(void);\nint main(void) { return f(); }\n"),
    ]);
    for variables in [
        "TERM=xterm",
        "TERM=dumb",
        "TERM=screen.linux",
        "TERM=xterm NO_COLOR=1",
        "TERM=xterm COLUMNS=40",
    ] {
        for command in [
            "$CC -Wall -c warning.c -lm",
            "$CC -Wall -c warning.c -fno-color-diagnostics",
            "$CC -Wall -c warning.c -fdiagnostics-color=auto",
            "$CC undefined.c",
        ] {
            let script = format!("env -u NO_COLOR {variables} script -qec \"{command}\" /dev/null");
            let both = project.both(&script);
            if variables == "TERM=xterm" && command.ends_with("-lm") {
                assert!(both.ours.text().contains("\x1b[0;1;35m"), "{}", both.ours.text());
            }
        }
    }
    // What is carried does not depend on it.
    project.run_ours("$CC -c warning.c -o one.o; TERM=xterm COLUMNS=50 script -qec \"$CC -c warning.c -o two.o\" /dev/null; cmp one.o two.o").succeeded();
}
