//! What is measured, as data: the programs, how they are built, what they do.
//!
//! A program is prepared once (configured, by plain clang) and built from
//! there by every compiler, into one executable without shared libraries of
//! its own: what is measured is then the same code in all builds. Its regular
//! expressions, where it has any, are its own and not the C library's.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::input;

/// What a program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Lines of words: seed, bytes.
    Text(u64, usize),
    /// What compressors meet: seed, bytes.
    Mixed(u64, usize),
    /// A scanner for flex: seed, keywords, how far a pattern looks back.
    Scanner(u64, usize, usize),
    /// C: seed, functions.
    Source(u64, usize),
    /// `build.ninja`: seed, objects.
    Manifest(u64, usize),
    /// A script of SQL: seed, rows.
    Sql(u64, usize),
    /// A script of Lua, told by its arguments how much to do.
    Lua,
}

impl Input {
    /// Its bytes.
    pub fn make(self) -> Vec<u8> {
        match self {
            Input::Text(seed, bytes) => input::text(seed, bytes),
            Input::Mixed(seed, bytes) => input::mixed(seed, bytes),
            Input::Scanner(seed, words, back) => input::scanner(seed, words, back),
            Input::Source(seed, functions) => input::source(seed, functions),
            Input::Manifest(seed, objects) => input::manifest(seed, objects),
            Input::Sql(seed, rows) => include_str!("work.sql")
                .replace("@SEED@", &seed.to_string())
                .replace("@ROWS@", &rows.to_string())
                .into_bytes(),
            Input::Lua => include_bytes!("work.lua").to_vec(),
        }
    }
}

/// One run of a program.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Its arguments: `INPUT` stands for the name of its input, which is its
    /// standard input otherwise; `OUTPUT` for a file that it writes besides
    /// standard output.
    pub arguments: &'static [&'static str],
    /// What it reads.
    pub input: Input,
}

/// A program and what it does.
#[derive(Debug)]
pub struct Subject {
    /// How it is called here.
    pub name: &'static str,
    /// The Debian source package.
    pub package: &'static str,
    /// What is done once, before it is built.
    pub prepare: &'static str,
    /// How it is built.
    pub build: &'static str,
    /// What the build makes.
    pub executable: &'static str,
    /// What it does, in words.
    pub does: &'static str,
    /// The run that is timed: 1 to 3 seconds.
    pub timed: Work,
    /// The run whose instructions are counted: at most 0.2 seconds.
    pub counted: Work,
    /// The run whose profile is the weights: other inputs than both.
    pub training: Work,
}

impl Subject {
    /// What changes when the subject or one of its inputs does.
    pub fn stamp(&self) -> String {
        let mut inputs = DefaultHasher::new();
        for work in [self.timed, self.counted, self.training] {
            work.input.make().hash(&mut inputs);
        }
        format!("{self:?} {:x}", inputs.finish())
    }
}

const CONFIGURED: &str = r#"make -j$JOBS CC="$CC" CFLAGS="$CFLAGS" $AUTOTOOLS"#;

/// All of them.
pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "bzip2",
        package: "bzip2",
        prepare: "",
        build: r#"
            for unit in blocksort huffman crctable randtable compress decompress bzlib bzip2; do
                $CC $CFLAGS -D_FILE_OFFSET_BITS=64 -c $unit.c
            done
            $CC -o bzip2 *.o
        "#,
        executable: "bzip2",
        does: "compresses a mix of text, tables, runs and noise",
        timed: Work { arguments: &["-c"], input: Input::Mixed(1, 18_000_000) },
        counted: Work { arguments: &["-c"], input: Input::Mixed(2, 400_000) },
        training: Work { arguments: &["-c"], input: Input::Mixed(3, 1_000_000) },
    },
    Subject {
        name: "gzip",
        package: "gzip",
        prepare: "./configure --quiet",
        build: CONFIGURED,
        executable: "gzip",
        does: "compresses such a mix (`-9`)",
        timed: Work { arguments: &["-9nc"], input: Input::Mixed(1, 16_000_000) },
        counted: Work { arguments: &["-9nc"], input: Input::Mixed(2, 600_000) },
        training: Work { arguments: &["-9nc"], input: Input::Mixed(3, 1_000_000) },
    },
    Subject {
        name: "lua5.4",
        package: "lua5.4",
        // With a fixed seed for its hashes, and neither its cache of strings nor
        // keys that are objects by address: else no two runs are the same.
        prepare: r##"
            echo '#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"' > src/lua5.4-deb-multiarch.h
            echo '#define luai_makeseed(L) 1u' >> src/lua5.4-deb-multiarch.h
            printf '#define STRCACHE_N 1\n#define STRCACHE_M 2\n' >> src/lua5.4-deb-multiarch.h
            sed -i 's/define point2uint(p).*/define point2uint(p) 0u/' src/llimits.h
        "##,
        build: r#"
            cd src
            rm luac.c
            for unit in l*.c; do
                $CC $CFLAGS -std=gnu99 -DLUA_COMPAT_5_3 -DLUA_USE_LINUX -c $unit
            done
            $CC -o lua5.4 l*.o -Wl,-E -lm -ldl
        "#,
        executable: "src/lua5.4",
        does: "a sieve, queens, strings, metatables, coroutines; with computed goto, as by default",
        timed: Work { arguments: &["INPUT", "550", "1"], input: Input::Lua },
        counted: Work { arguments: &["INPUT", "12", "2"], input: Input::Lua },
        training: Work { arguments: &["INPUT", "20", "3"], input: Input::Lua },
    },
    Subject {
        name: "sqlite3",
        package: "sqlite3",
        prepare: "./configure --quiet --disable-tcl && make sqlite3.c shell.c",
        build: r#"
            $CC $CFLAGS -DSQLITE_THREADSAFE=1 -c sqlite3.c
            $CC $CFLAGS -c shell.c
            $CC $CFLAGS -o sqlite3 sqlite3.o shell.o -lpthread -ldl -lm
        "#,
        executable: "sqlite3",
        does: "fills, indexes, joins, groups, changes two tables in memory",
        timed: Work { arguments: &["-batch", ":memory:"], input: Input::Sql(1, 480_000) },
        counted: Work { arguments: &["-batch", ":memory:"], input: Input::Sql(2, 10_000) },
        training: Work { arguments: &["-batch", ":memory:"], input: Input::Sql(3, 20_000) },
    },
    Subject {
        name: "xz",
        package: "xz-utils",
        prepare: "./configure --quiet --disable-shared --disable-nls --disable-threads --disable-assembler",
        build: CONFIGURED,
        executable: "src/xz/xz",
        does: "compresses the mix (`-4`)",
        timed: Work { arguments: &["-4c"], input: Input::Mixed(1, 2_500_000) },
        counted: Work { arguments: &["-4c"], input: Input::Mixed(2, 150_000) },
        training: Work { arguments: &["-4c"], input: Input::Mixed(3, 500_000) },
    },
    Subject {
        name: "zstd",
        package: "libzstd",
        prepare: "",
        build: r#"
            make -C programs -j$JOBS zstd CC="$CC" CFLAGS="$CFLAGS" ZSTD_NO_ASM=1 \
                HAVE_THREAD=0 HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 BACKTRACE=0
        "#,
        executable: "programs/zstd",
        does: "compresses the mix (`-12`)",
        timed: Work { arguments: &["-12", "-qc"], input: Input::Mixed(1, 14_000_000) },
        counted: Work { arguments: &["-12", "-qc"], input: Input::Mixed(2, 500_000) },
        training: Work { arguments: &["-12", "-qc"], input: Input::Mixed(3, 1_000_000) },
    },
    Subject {
        name: "flex",
        package: "flex",
        prepare: "./configure --quiet --disable-shared --disable-nls",
        build: CONFIGURED,
        executable: "src/flex",
        does: "makes a scanner of many keywords and some patterns",
        timed: Work { arguments: &["-t", "INPUT"], input: Input::Scanner(1, 1_000, 13) },
        counted: Work { arguments: &["-t", "INPUT"], input: Input::Scanner(2, 300, 9) },
        training: Work { arguments: &["-t", "INPUT"], input: Input::Scanner(3, 500, 9) },
    },
    Subject {
        name: "sed",
        package: "sed",
        prepare: "./configure --quiet --with-included-regex --disable-nls",
        build: CONFIGURED,
        executable: "sed/sed",
        does: "rewrites lines of text, with groups and back references",
        timed: Work { arguments: SED, input: Input::Text(1, 5_000_000) },
        counted: Work { arguments: SED, input: Input::Text(2, 100_000) },
        training: Work { arguments: SED, input: Input::Text(3, 300_000) },
    },
    Subject {
        name: "tcc",
        package: "tcc",
        prepare: "./configure",
        build: "$CC $CFLAGS -DONE_SOURCE=1 -DTCC_TARGET_X86_64 -o tcc tcc.c -lm -ldl -lpthread",
        executable: "tcc",
        does: "compiles C",
        timed: Work { arguments: TCC, input: Input::Source(1, 150_000) },
        counted: Work { arguments: TCC, input: Input::Source(2, 3_000) },
        training: Work { arguments: TCC, input: Input::Source(3, 5_000) },
    },
    Subject {
        name: "ninja",
        package: "ninja-build",
        prepare: "",
        build: r#"
            cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=None -DBUILD_TESTING=OFF
            ninja -C build -j$JOBS ninja
        "#,
        executable: "build/ninja",
        does: "C++: reads a large manifest and lists its commands",
        timed: Work { arguments: NINJA, input: Input::Manifest(1, 200_000) },
        counted: Work { arguments: NINJA, input: Input::Manifest(2, 8_000) },
        training: Work { arguments: NINJA, input: Input::Manifest(3, 10_000) },
    },
];

const SED: &[&str] = &[
    "-E",
    "-e",
    r"s/([a-z]+) ([a-z]+)/\2 \1/g",
    "-e",
    r"s/\b([a-z])([a-z]*)\1\b/<\1\2>/",
    "-e",
    "/[0-9]{3,}/{h;s/[^0-9]//g;G;s/\\n/: /}",
    "-e",
    "y/abc/xyz/",
    "-e",
    "$!N;P;D",
];

const TCC: &[&str] = &["-c", "INPUT", "-o", "OUTPUT"];

const NINJA: &[&str] = &["-f", "INPUT", "-t", "commands"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_run_has_the_input_of_another() {
        for subject in SUBJECTS {
            let runs = [subject.timed, subject.counted, subject.training];
            let shown: std::collections::BTreeSet<_> =
                runs.iter().map(|work| format!("{work:?}")).collect();
            assert_eq!(shown.len(), 3, "{}", subject.name);
        }
    }

    #[test]
    fn names_are_different() {
        let names: std::collections::BTreeSet<_> = SUBJECTS.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), SUBJECTS.len());
    }
}
