//! Every name that is listed is one of the installed libraries, or it is said why not.

mod installed;

use std::collections::BTreeSet;

use backtrail_outside::{Elsewhere, functions, variables};
use object::{Object, ObjectSymbol};

const LIBRARIES: [&str; 5] =
    ["libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"];

/// What the libraries define, for others or for each other.
fn defined() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for library in LIBRARIES {
        let bytes = std::fs::read(installed::library(library)).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let symbols = file.dynamic_symbols().filter(|it| !it.is_undefined());
        let before = names.len();
        names.extend(symbols.map(|it| {
            let name = it.name().unwrap();
            name.split('@').next().unwrap().to_owned()
        }));
        assert!(names.len() > before, "{library} defines nothing");
    }
    names
}

#[test]
fn names_are_of_functions_that_there_are() {
    let defined = defined();
    let (mut absent, mut present) = (Vec::new(), Vec::new());
    for function in functions() {
        let name = function.name;
        // A pattern is tried on all of them.
        let is_there = if name.contains(['*', '#']) {
            let found =
                |it: &String| backtrail_outside::of(it).is_some_and(|found| found.name == name);
            defined.iter().any(found)
        } else {
            defined.contains(name)
        };
        match (is_there, function.elsewhere) {
            (true, None) | (false, Some(_)) | (_, Some(Elsewhere::Newer | Elsewhere::Private)) => {}
            (false, None) => absent.push(name),
            (true, Some(_)) => present.push(name),
        }
    }
    absent.extend(variables().iter().map(|it| it.name).filter(|it| !defined.contains(*it)));
    assert!(absent.is_empty(), "no library has them: {absent:?}");
    assert!(present.is_empty(), "these are not elsewhere: {present:?}");
}
