//! Whose a source file is: the user's own, a package's that the user fetched, or the
//! system's and the compiler's.
//!
//! Told by the path that the compiler wrote down, since a profile or a core may be
//! looked at where none of the files is. Everything that is in no folder of libraries
//! is the user's own, a relative path as well: it begins where something was built.
//!
//! Code of a library that was inlined is told by the innermost line it was inlined into
//! that is nearest to the user: in a function of the user's own by one of its own lines,
//! in a function of a package by a line of that package.

use backtrail_ir::{Loc, Unit};

/// Whose a source file is, the nearest to the user first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The user's own.
    User,
    /// A package's that cargo fetched.
    Package,
    /// The system's, the compiler's, or a standard library's.
    System,
}

/// Folders of the system, with all below.
const SYSTEM: [&str; 11] = [
    "/usr/include/",
    "/usr/lib/",
    "/usr/lib32/",
    "/usr/lib64/",
    "/usr/libexec/",
    "/usr/local/include/",
    "/usr/local/lib/",
    "/lib/",
    "/nix/store/",
    // What Rust's own releases call the places that they and what they need were built in.
    "/rustc/",
    "/rust/deps/",
];

/// Folders of the compilers' own, wherever they are installed: Rust's sources of its
/// library, headers that come with gcc and clang, and C++'s.
const COMPILERS: [&str; 4] = ["/lib/rustlib/", "/lib/gcc/", "/lib/clang/", "/include/c++/"];

impl Owner {
    /// Whose `file` is.
    pub fn of(file: &str) -> Self {
        let is_system = SYSTEM.iter().any(|folder| file.starts_with(folder))
            || (file.starts_with('/') && COMPILERS.iter().any(|folder| file.contains(folder)));
        if is_system {
            Self::System
        } else if is_fetched(file) {
            Self::Package
        } else {
            Self::User
        }
    }
}

/// Whether a file is below a folder that cargo keeps packages in, whatever its home:
/// `registry/src/INDEX-HASH/`, `git/checkouts/NAME-HASH/`.
fn is_fetched(file: &str) -> bool {
    ["/registry/src/", "/git/checkouts/"].iter().any(|folder| {
        let below = file.split_once(folder).and_then(|(_, rest)| rest.split_once('/'));
        below.and_then(|(name, _)| name.rsplit_once('-')).is_some_and(|(_, hash)| {
            hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    })
}

/// Which of some places, given from the innermost outwards, tells most: the first of
/// those nearest to the user.
pub fn nearest(owners: impl IntoIterator<Item = Owner>) -> Option<usize> {
    let owners = owners.into_iter().enumerate();
    owners.min_by_key(|(_, owner)| *owner).map(|(place, _)| place)
}

/// Which line of a place tells more, given with those it was inlined at from the innermost
/// outwards, and whether it is the user's own.
pub fn told<'a>(lines: impl Iterator<Item = (&'a str, u32)>) -> Option<((&'a str, u32), bool)> {
    let lines: Vec<(&str, u32)> = lines.collect();
    let owners = || lines.iter().map(|(file, _)| Owner::of(file));
    let line = lines[nearest(owners())?];
    Some((line, Owner::of(line.0) == Owner::User))
}

/// The same of a position in a unit, whose own line is known.
pub fn told_by(unit: &Unit, position: Loc) -> Loc {
    let outer = |at: &Loc| unit.locations[*at].inlined_at;
    if outer(&position).is_none() {
        return position;
    }
    let chain = std::iter::successors(Some(position), outer);
    let chain: Vec<Loc> = chain.filter(|&at| unit.locations[at].line > 0).collect();
    let owners = chain.iter().map(|&at| Owner::of(&unit.files[unit.locations[at].file]));
    nearest(owners).map_or(position, |found| chain[found])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_tell_whose_a_file_is() {
        for (owner, files) in [
            (
                Owner::User,
                &[
                    "src/main.rs",
                    "a.c",
                    "../lib/x.c",
                    "/home/u/project/src/lib.rs",
                    "/home/u/project/vendor/zlib/inflate.c",
                    "/usr/src/project/a.c",
                    "/home/u/registry/src/project-one/a.c",
                    "/home/u/usr/include/a.h",
                    "include/c++/mine.h",
                    "",
                ][..],
            ),
            (
                Owner::Package,
                &[
                    "/home/u/.cargo/registry/src/index-0123456789abcdef/memchr-2.7.4/src/lib.rs",
                    "/opt/cargo/registry/src/github.com-1ecc6299db9ec823/x-1.0.0/src/lib.rs",
                    "/home/u/.cargo/git/checkouts/rayon-b8b3a5a1b0f5a0ad/1a2b3c4/src/lib.rs",
                ][..],
            ),
            (
                Owner::System,
                &[
                    "/rustc/9fc6b43126469e3858e2fe86cafb4f0fd5068869/library/core/src/ptr/mod.rs",
                    "/home/u/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/a.rs",
                    "/rust/deps/hashbrown-0.16.1/src/raw.rs",
                    "/usr/include/c++/12/bits/stl_vector.h",
                    "/usr/lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/bits/a.h",
                    "/usr/lib/llvm-19/lib/clang/19/include/immintrin.h",
                    "/opt/llvm/include/c++/v1/vector",
                ][..],
            ),
        ] {
            for file in files {
                assert_eq!(Owner::of(file), owner, "{file}");
            }
        }
    }

    #[test]
    fn the_innermost_of_those_nearest_to_the_user_tells() {
        let (user, package, system) = (Owner::User, Owner::Package, Owner::System);
        assert_eq!(nearest([system, system, user, user]), Some(2));
        assert_eq!(nearest([user, system, user]), Some(0));
        assert_eq!(nearest([system, package, system]), Some(1));
        assert_eq!(nearest([system, system]), Some(0));
        assert_eq!(nearest([]), None);
    }
}
