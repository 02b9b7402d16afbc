//! The real programs, as data.
//!
//! A recipe is a shell script that runs in a copy of the unpacked source. It
//! finds in its environment the compilers (`CC`, `CXX`, `CARGO_COMMAND`) and their
//! options (`CFLAGS`, `CXXFLAGS`), `JOBS`, and `AUTOTOOLS`: Debian's patches
//! leave generated autotools files older than their inputs, and these make
//! variables keep make from generating them again. A suite finds `WORKLOAD`
//! too, the folder of the program's workload in this repository, and prints
//! lines that [`super::results`] understands.

/// In what a program is written, by its executables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C or C++: the empty plan gives back the same code.
    Clang,
    /// Rust: the empty plan gives code that does the same work.
    Rust,
}

/// Where a program comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source {
    /// A Debian source package.
    Debian(&'static str),
    /// A package of Rust's registry with an executable.
    Registry {
        /// Its name.
        name: &'static str,
        /// Exactly which.
        version: &'static str,
    },
}

/// One program.
#[derive(Debug)]
pub struct Program {
    /// How it is called here.
    pub name: &'static str,
    /// Where it comes from.
    pub source: Source,
    /// In what it is written.
    pub language: Language,
    /// How it is built.
    pub build: &'static str,
    /// The executables that are replaced by variants.
    pub replaced: &'static [&'static str],
    /// Their own shared libraries, which variants take along.
    pub libraries: &'static [&'static str],
    /// Its own tests, or a fixed workload.
    pub suite: &'static str,
    /// What the suite is.
    pub tests: &'static str,
    /// A run whose instructions are counted, where the empty plan is not held
    /// to the same code.
    pub callgrind: Option<&'static str>,
    /// Which parts of the executable are known to be without IR: words that
    /// `backtrail info` has for them.
    pub native: &'static [&'static str],
    /// Functions, by how their names begin, that do not do the same in two runs
    /// of the suite: they depend on addresses, on time or on chance.
    pub varies: &'static [&'static str],
}

const AUTOTOOLS_BUILD: &str = "./configure --quiet && make -j$JOBS $AUTOTOOLS";

/// All of them.
pub const PROGRAMS: &[Program] = &[
    Program {
        name: "bzip2",
        source: Source::Debian("bzip2"),
        language: Language::Clang,
        build: r#"make -j$JOBS CC="$CC" CFLAGS="$CFLAGS -D_FILE_OFFSET_BITS=64" bzip2 bzip2recover"#,
        replaced: &["bzip2", "bzip2recover"],
        libraries: &["libbz2.so.1.0.4"],
        // Else the loader finds the system's library first.
        suite: r#"LD_LIBRARY_PATH=$PWD sh "$WORKLOAD/suite.sh""#,
        tests: "its `make test` and more, one line each",
        callgrind: None,
        native: &[],
        varies: &[],
    },
    Program {
        name: "gzip",
        source: Source::Debian("gzip"),
        language: Language::Clang,
        build: AUTOTOOLS_BUILD,
        replaced: &["gzip"],
        libraries: &[],
        suite: "make check -C tests -j$JOBS $AUTOTOOLS",
        tests: "`make check`",
        callgrind: None,
        native: &[],
        varies: &[],
    },
    Program {
        name: "lua5.4",
        source: Source::Debian("lua5.4"),
        language: Language::Clang,
        build: r##"
            mkdir debian/libtool
            cp debian/configure.ac debian/libtool
            (cd debian/libtool && LIBTOOLIZE='libtoolize -i' autoreconf -f -i && ./configure --quiet)
            echo '#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"' > src/lua5.4-deb-multiarch.h
            # Else hashes begin with the time and some addresses, and two runs differ.
            echo '#define luai_makeseed(L) 1u' >> src/lua5.4-deb-multiarch.h
            make -j$JOBS linux LIBTOOL="$PWD/debian/libtool/libtool" CC="$CC -std=gnu99" CXX="$CXX" \
                DEB_HOST_MULTIARCH=x86_64-linux-gnu
        "##,
        replaced: &["src/lua5.4", "src/luac5.4"],
        libraries: &[],
        suite: r#"
            lua=$PWD/src/lua5.4 luac=$PWD/src/luac5.4
            cd "$WORKLOAD"
            for test in *.lua; do
                name=${test%.lua}
                "$lua" "$test" 2>&1 | cmp - "$name.expected" && echo "PASS: $name" || echo "FAIL: $name"
                "$luac" -o "$TMPDIR/out.luac" "$test" && "$lua" "$TMPDIR/out.luac" 2>&1 |
                    cmp - "$name.expected" && echo "PASS: $name compiled" || echo "FAIL: $name compiled"
            done
        "#,
        tests: "scripts with expected output, from source and precompiled",
        callgrind: None,
        native: &[],
        // Where what is hashed is an address.
        varies: &[
            "mainposition",
            "luaH_",
            "getfreepos",
            "hash_search",
            "luaS_new",
            "luaS_clearcache",
        ],
    },
    Program {
        name: "sed",
        source: Source::Debian("sed"),
        language: Language::Clang,
        build: AUTOTOOLS_BUILD,
        replaced: &["sed/sed"],
        libraries: &[],
        suite: "make check -j$JOBS SUBDIRS=. $AUTOTOOLS",
        tests: "`make check`, without gnulib's",
        callgrind: None,
        native: &[],
        varies: &[],
    },
    Program {
        name: "grep",
        source: Source::Debian("grep"),
        language: Language::Clang,
        build: AUTOTOOLS_BUILD,
        replaced: &["src/grep"],
        libraries: &[],
        suite: "make check -C tests -j$JOBS $AUTOTOOLS",
        tests: "`make check`, without gnulib's",
        callgrind: None,
        native: &[],
        // How many pages of the stack's surroundings it asks for depends on
        // where the stack is.
        varies: &["sigsegv_get_vma"],
    },
    Program {
        name: "flex",
        source: Source::Debian("flex"),
        language: Language::Clang,
        build: AUTOTOOLS_BUILD,
        replaced: &["src/flex"],
        libraries: &[],
        suite: "make -C tests clean $AUTOTOOLS >/dev/null; make check -C tests -j$JOBS $AUTOTOOLS",
        tests: "`make check`: scanners that it generates, compiled and run",
        callgrind: None,
        native: &[],
        varies: &[],
    },
    Program {
        name: "sqlite3",
        source: Source::Debian("sqlite3"),
        language: Language::Clang,
        build: r#"
            [ -f sqlite3.c ] || { CC=cc ./configure --quiet --disable-tcl && make sqlite3.c shell.c; }
            $CC $CFLAGS -DSQLITE_THREADSAFE=1 -c sqlite3.c
            $CC $CFLAGS -c shell.c
            $CC $CFLAGS -o sqlite3 sqlite3.o shell.o -lpthread -ldl -lm
        "#,
        replaced: &["sqlite3"],
        libraries: &[],
        suite: r#"
            for test in "$WORKLOAD"/*.sql; do
                name=$(basename "$test" .sql)
                rm -f "$TMPDIR/x.db"
                ./sqlite3 -batch "$TMPDIR/x.db" < "$test" 2>&1 | cmp - "$WORKLOAD/$name.expected" &&
                    echo "PASS: $name" || echo "FAIL: $name"
            done
        "#,
        tests: "SQL scripts with expected output",
        callgrind: None,
        native: &[],
        varies: &[],
    },
    Program {
        name: "ninja-build",
        source: Source::Debian("ninja-build"),
        language: Language::Clang,
        build: r#"
            # A release would be link-time optimised: no unit of it is an object.
            cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=None
            ninja -C build -j$JOBS ninja ninja_test
            ln -sf build/ninja ninja
        "#,
        replaced: &["build/ninja", "build/ninja_test"],
        libraries: &[],
        suite: "(cd build && ./ninja_test) && python3 misc/output_test.py -v",
        tests: "`ninja_test` and `misc/output_test.py`",
        callgrind: None,
        native: &[],
        varies: &[],
    },
    Program {
        name: "libjsoncpp",
        source: Source::Debian("libjsoncpp"),
        language: Language::Clang,
        build: r#"
            cmake -S . -B build -G 'Unix Makefiles' -DCMAKE_BUILD_TYPE=Release \
                -DJSONCPP_WITH_POST_BUILD_UNITTEST=OFF -DBUILD_OBJECT_LIBS=OFF
            make -C build -j$JOBS jsoncpp_test
        "#,
        replaced: &["build/bin/jsoncpp_test"],
        libraries: &["build/lib/libjsoncpp.so.1.9.5"],
        suite: "build/bin/jsoncpp_test",
        tests: "`jsoncpp_test`: exceptions, a shared library of its own",
        callgrind: None,
        native: &[],
        varies: &[],
    },
    Program {
        name: "b3sum",
        source: Source::Registry { name: "b3sum", version: "1.8.7" },
        language: Language::Rust,
        // The unit tests and the command line tests are executables of their
        // own; cargo would put its own b3sum back if it were asked to run them.
        build: r#"
            grep -q '^\[workspace\]' Cargo.toml || printf '\n[workspace]\n' >> Cargo.toml
            $CARGO_COMMAND build --release --locked --features prefer_intrinsics
            $CARGO_COMMAND test --release --locked --features prefer_intrinsics --no-run 2>tests.list
            built() { sed -n "s|^ *Executable .*$1 (\(.*\))|\1|p" tests.list; }
            mkdir -p tests-built
            cp "$(built src/main.rs)" tests-built/unit_tests
            cp "$(built tests/cli_tests.rs)" tests-built/cli_tests
        "#,
        replaced: &["target/release/b3sum", "tests-built/unit_tests"],
        libraries: &[],
        // One at a time: which of two processes began first would be chance.
        suite: "tests-built/unit_tests --test-threads=1 && tests-built/cli_tests --test-threads=1",
        tests: "`cargo test`; has a C library built by cc, proc macros, build scripts",
        callgrind: Some("target/release/b3sum --num-threads 1 --no-mmap tests-built/cli_tests"),
        native: &[
            "rustc's allocator shim",
            // rustc writes this object by itself, to keep exported symbols; it has no code.
            "link/symbols.o: not compiled by backtrail",
        ],
        // Who finds work first, and how long the others wait.
        varies: &[
            "_ZN10rayon_core",
            "_ZN15crossbeam_",
            "_ZN106_$LT$core..iter..adapters..chain..Chain",
            "_ZN117_$LT$rayon_core..",
            "_ZN73_$LT$rayon_core..",
            "_ZN3std3sys9backtrace28__rust_begin_short_backtrace",
            "_ZN3std3sys12thread_local",
        ],
    },
];
