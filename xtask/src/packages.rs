//! The Debian packages the project relies on.
//!
//! One list, as data: `setup` prints and installs from it, and the documents
//! refer to it. clang comes first, because everything starts there. None of
//! these is a development package of LLVM: the libLLVM that belongs to clang
//! is loaded when it is needed and is there whenever clang is.

/// For what a package is needed. Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// To use the tool, as the demo does.
    Tool,
    /// To run the test suite.
    Test,
    /// To fetch and build real packages, for `corpus` and `bench`.
    Corpus,
}

/// One Debian package.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Its name in Debian 12.
    pub name: &'static str,
    /// For what.
    pub need: Need,
    /// Why.
    pub why: &'static str,
}

const fn package(need: Need, name: &'static str, why: &'static str) -> Package {
    Package { name, need, why }
}

/// All of them, the most important first.
pub const PACKAGES: &[Package] = &[
    package(Need::Tool, "clang-19", "the compiler that `backtrail cc` drives; brings libLLVM"),
    package(Need::Tool, "binutils", "ld, ar, strip: links programs and their variants"),
    package(Need::Tool, "build-essential", "the C and C++ libraries to compile against; make"),
    package(
        Need::Tool,
        "gdb",
        "writes cores where the kernel leaves none; checks our stacks of them",
    ),
    package(
        Need::Test,
        "libclang-rt-19-dev",
        "clang's sanitizers, against which block logs are checked",
    ),
    package(Need::Test, "lld-19", "the other linker people choose with -fuse-ld="),
    package(
        Need::Test,
        "llvm-19",
        "llvm-strip and llvm-dis, to check what survives and what is carried",
    ),
    package(Need::Test, "cmake", "a build system the drop-in compilers must work under"),
    package(Need::Test, "ninja-build", "runs what cmake and meson generate"),
    package(Need::Test, "meson", "a build system the drop-in compilers must work under"),
    package(Need::Test, "libtool", "a build system the drop-in compilers must work under"),
    package(Need::Test, "autoconf", "makes the configure script of the libtool test"),
    package(Need::Test, "automake", "makes the Makefile.in of the libtool test"),
    package(Need::Test, "ccache", "a compiler cache, to be put in front of us"),
    package(Need::Test, "csmith", "generates random C programs by seed"),
    package(Need::Test, "libcsmith-dev", "the header those programs include"),
    package(Need::Test, "valgrind", "callgrind counts instructions repeatably"),
    package(
        Need::Test,
        "util-linux",
        "setarch: the same addresses in two runs; script: a terminal; setpriv: another user",
    ),
    package(
        Need::Test,
        "libc6-dbg",
        "names what is in the C library, to compare its code with rows",
    ),
    package(Need::Test, "zstd", "compresses logs, with which traces are compared"),
    package(Need::Test, "zlib1g-dev", "a library without IR that tests link; git is built with it"),
    package(Need::Test, "lcov", "genhtml renders exported line counts"),
    package(Need::Test, "graphviz", "dot draws exported graphs"),
    package(Need::Test, "golang-go", "`go tool pprof` reads exported profiles"),
    package(Need::Test, "chromium", "shows the page of a path profile"),
    package(Need::Test, "slurmctld", "the controller of the cluster that copies are tested on"),
    package(Need::Test, "slurmd", "the nodes of that cluster, three on one machine"),
    package(Need::Test, "slurm-client", "sbatch, squeue and scancel, which --engine slurm uses"),
    package(Need::Test, "munge", "by which the parts of a cluster know each other"),
    package(Need::Corpus, "debootstrap", "makes the machine that `cargo xtask fresh` tries"),
    package(Need::Corpus, "dpkg-dev", "unpacks Debian source packages"),
    package(Need::Corpus, "tcl", "makes sqlite3's amalgamation"),
    package(Need::Corpus, "bison", "flex's tests have grammars"),
    package(Need::Corpus, "m4", "flex runs it"),
    package(Need::Corpus, "gettext", "autotools packages look for it"),
    package(Need::Corpus, "python3", "ninja's tests use it"),
    package(Need::Corpus, "perl", "the tests of sed and grep use it"),
];

/// Those that are needed for `need`.
pub fn needed(need: Need) -> impl Iterator<Item = &'static Package> {
    PACKAGES.iter().filter(move |package| package.need <= need)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clang_is_first_and_no_name_is_there_twice() {
        assert_eq!(PACKAGES[0].name, "clang-19");
        let mut names: Vec<_> = PACKAGES.iter().map(|package| package.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PACKAGES.len());
    }

    #[test]
    fn nothing_is_a_development_package_of_llvm() {
        for package in PACKAGES {
            assert!(!package.name.starts_with("llvm-19-dev"), "{}", package.name);
            assert!(!package.name.starts_with("libllvm"), "{}", package.name);
        }
    }

    #[test]
    fn the_demo_needs_the_least() {
        let tool = needed(Need::Tool).count();
        assert!(tool < needed(Need::Test).count());
        assert!(needed(Need::Test).count() < needed(Need::Corpus).count());
    }
}
