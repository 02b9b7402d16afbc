//! The environment of programs that stand in our place: as we got it, in its order.
//!
//! Programs print it, hash it, take the first of two that match. `std::process::Command`
//! keeps changes in a sorted map, so a single variable that is set sorts them all, drops
//! those that are there twice and those that are no variables (`=` is missing). Here a
//! variable that is set takes the place of its old value or comes last; nothing else moves.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

unsafe extern "C" {
    static mut environ: *const *const c_char;
}

/// What a program is told of its surroundings, `NAME=VALUE` each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment(Vec<CString>);

/// Whether an entry is that variable.
fn is(entry: &CStr, name: &OsStr) -> bool {
    entry.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
}

impl Environment {
    /// This process's own.
    pub fn own() -> Self {
        let mut entries = Vec::new();
        // SAFETY: nothing of ours changes the environment, so the array and what it points
        // at stay as the loader made them; it ends with a null (environ(7)).
        unsafe {
            let mut next = environ;
            while !next.is_null() && !(*next).is_null() {
                entries.push(CStr::from_ptr(*next).to_owned());
                next = next.add(1);
            }
        }
        Self(entries)
    }

    /// These variables.
    pub fn of(variables: &[(OsString, OsString)]) -> Self {
        let mut environment = Self::default();
        variables.iter().for_each(|(name, value)| environment.set(name, value));
        environment
    }

    /// Sets a variable. What cannot stand in an environment is not set.
    pub fn set(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) {
        let name = name.as_ref();
        let entry = [name.as_bytes(), b"=", value.as_ref().as_bytes()].concat();
        let Ok(entry) = CString::new(entry) else { return };
        match self.0.iter().position(|it| is(it, name)) {
            Some(place) => {
                self.0[place] = entry;
                let mut at = 0..;
                self.0.retain(|it| at.next() <= Some(place) || !is(it, name));
            }
            None => self.0.push(entry),
        }
    }

    /// Takes a variable out.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) {
        self.0.retain(|it| !is(it, name.as_ref()));
    }

    /// Gives it to what `command` starts, which is not to be told of variables otherwise.
    pub fn give(self, command: &mut Command) -> &mut Command {
        // For good: the array is that of whatever becomes the program, this process if it
        // is not copied first.
        let entries: &'static [CString] = Vec::leak(self.0);
        let mut array: Vec<usize> = entries.iter().map(|it| it.as_ptr().addr()).collect();
        array.push(0);
        let array: &'static [usize] = Vec::leak(array);
        let exchange = move || {
            // SAFETY: the array ends with a null, and it and its strings are never freed.
            // Between fork and exec there is one thread, and a word is written.
            unsafe { environ = array.as_ptr().cast() };
            Ok(())
        };
        // SAFETY: as above: nothing is allocated, locked or called.
        unsafe { command.pre_exec(exchange) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(environment: &Environment) -> Vec<&str> {
        environment.0.iter().map(|it| it.to_str().unwrap()).collect()
    }

    fn unsorted() -> Environment {
        let entries = ["Z=1", "A=2", "no variable", "Z=3", "M=4", "AB=5"];
        Environment(entries.map(|it| CString::new(it).unwrap()).into())
    }

    #[test]
    fn what_is_set_takes_its_old_place_or_comes_last() {
        let mut environment = unsorted();
        environment.set("M", "new");
        environment.set("B", "x=y");
        assert_eq!(
            texts(&environment),
            ["Z=1", "A=2", "no variable", "Z=3", "M=new", "AB=5", "B=x=y"]
        );
        environment.set("Z", "one");
        environment.set("bad", "a\0b");
        assert_eq!(texts(&environment)[..3], ["Z=one", "A=2", "no variable"]);
        assert_eq!(texts(&environment).len(), 6);
        environment.remove("A");
        assert_eq!(texts(&environment)[1..4], ["no variable", "M=new", "AB=5"]);
        let all = [("B".into(), "1".into()), ("A".into(), "2".into())];
        assert_eq!(texts(&Environment::of(&all)), ["B=1", "A=2"]);
    }

    #[test]
    fn programs_get_it_as_it_is() {
        let mut command = Command::new("/usr/bin/env");
        let output = unsorted().give(&mut command).output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "Z=1\nA=2\nno variable\nZ=3\nM=4\nAB=5\n"
        );
        // What is not started leaves this process as it was.
        assert_eq!(Environment::own(), Environment::own());
        assert!(std::env::vars_os().count() <= Environment::own().0.len());
    }
}
