//! What was loaded into a process before the libraries that its executable asks for.
//!
//! A loader looks names up in the executable, in what it was told to load first
//! (`LD_PRELOAD`, `/etc/ld.so.preload`), and then in the libraries that the executable
//! asks for, and those that these ask for, breadth first (ld.so(8)). Its own list is in
//! that order ([`crate::link_map`]), and what a program opens later is behind. So what
//! stands in the list before a library that comes next in that order was put there.
//!
//! Where the list is not in a core, files are compared without their order: what nothing
//! asks for may have been put first, or was opened.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use crate::core_file::notes::{AT_PHDR, AT_PHNUM};
use crate::link_map::{Headers, Link, links};
use crate::modules::Module;
use crate::process::Process;

/// A file that is loaded, by the name that others ask for it by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Loaded {
    /// Its file name, or its `DT_SONAME`.
    names: Vec<String>,
    /// What it asks for.
    needed: Vec<String>,
    /// Its place among the modules.
    module: usize,
}

impl Process {
    /// The modules that were, or may have been, loaded before those that the executable
    /// asks for.
    pub fn loaded_first(&self) -> Vec<&Module> {
        let Some(main) = self.modules.main else { return Vec::new() };
        let Some(executable) = &self.modules.list[main].image else { return Vec::new() };
        let asked = executable.needed();
        if asked.is_empty() {
            return Vec::new();
        }
        let list = self.links().filter(|list| list.len() > 1);
        let first = match &list {
            Some(list) => put_first(&asked, &self.in_order(main, list)),
            None => unasked(&asked, &self.of_files(main)),
        };
        first.into_iter().filter_map(|place| self.modules.list.get(place)).collect()
    }

    fn links(&self) -> Option<Vec<Link>> {
        let main = self.main()?;
        let address = self.notes.auxiliary(AT_PHDR)?;
        let count = self.notes.auxiliary(AT_PHNUM)?;
        let headers = Headers { address, count, bias: main.bias };
        links(&headers, |at, bytes| self.memory.read(at, bytes)).ok()
    }

    /// The files of the loader's list behind the executable.
    fn in_order(&self, main: usize, list: &[Link]) -> Vec<Loaded> {
        let known = list.iter().filter_map(|link| {
            // The vDSO has no file.
            let name = std::str::from_utf8(&link.name).ok().filter(|it| it.contains('/'))?;
            let module = self.modules.list.iter().position(|it| it.bias == link.bias)?;
            (module != main).then(|| self.loaded(module, Some(name)))
        });
        known.collect()
    }

    /// The files that are mapped, in whichever order.
    fn of_files(&self, main: usize) -> Vec<Loaded> {
        let modules = 0..self.modules.list.len();
        let files = modules.filter(|&it| it != main && self.modules.list[it].path.contains('/'));
        files.map(|module| self.loaded(module, None)).collect()
    }

    fn loaded(&self, module: usize, name: Option<&str>) -> Loaded {
        let found = &self.modules.list[module];
        let image = found.image.as_ref();
        let names = [name, Some(&*found.path)].into_iter().flatten().map(file_name);
        let names = names.chain(image.and_then(|it| it.soname())).collect();
        Loaded { names, needed: image.map(|it| it.needed()).unwrap_or_default(), module }
    }
}

fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name().and_then(|it| it.to_str());
    name.unwrap_or(path).to_owned()
}

/// The places in `loaded` of what is asked for, breadth first.
fn asked_for(asked: &[String], loaded: &[Loaded]) -> Vec<usize> {
    let mut pending: VecDeque<&String> = asked.iter().collect();
    let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
    while let Some(name) = pending.pop_front() {
        let name = file_name(name);
        let Some(place) = loaded.iter().position(|it| it.names.contains(&name)) else { continue };
        if seen.insert(place) {
            order.push(place);
            pending.extend(&loaded[place].needed);
        }
    }
    order
}

/// The modules of what stands before something that is asked for and comes next.
fn put_first(asked: &[String], loaded: &[Loaded]) -> Vec<usize> {
    let order = asked_for(asked, loaded);
    if order.is_empty() {
        // Nothing is there by the name it was asked for: nothing is known.
        return loaded.iter().map(|it| it.module).collect();
    }
    let mut first = BTreeSet::new();
    let mut order = order.into_iter().peekable();
    for place in 0..loaded.len() {
        while order.next_if(|it| first.contains(it)).is_some() {}
        match order.peek() {
            None => break,
            Some(&next) if next == place => drop(order.next()),
            Some(_) => drop(first.insert(place)),
        }
    }
    // They bring along what they ask for.
    let all: BTreeSet<usize> = asked_for(asked, loaded).into_iter().collect();
    let brought = first.iter().flat_map(|&it| asked_for(&loaded[it].needed, loaded));
    let brought: BTreeSet<usize> = brought.filter(|it| !all.contains(it)).collect();
    first.union(&brought).map(|&it| loaded[it].module).collect()
}

/// The modules of what nothing asks for.
fn unasked(asked: &[String], loaded: &[Loaded]) -> Vec<usize> {
    let order: BTreeSet<usize> = asked_for(asked, loaded).into_iter().collect();
    (0..loaded.len()).filter(|it| !order.contains(it)).map(|it| loaded[it].module).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(list: &[(&str, &[&str])]) -> Vec<Loaded> {
        let strings = |list: &[&str]| list.iter().map(|it| it.to_string()).collect();
        let of = |(module, (name, needed)): (usize, &(&str, &[&str]))| Loaded {
            names: vec![name.to_string()],
            needed: strings(needed),
            module,
        };
        list.iter().enumerate().map(of).collect()
    }

    /// The names of what was put first.
    fn first(asked: &[&str], list: &[(&str, &[&str])]) -> Vec<String> {
        let asked: Vec<String> = asked.iter().map(|it| it.to_string()).collect();
        put_first(&asked, &loaded(list)).iter().map(|&it| list[it].0.to_owned()).collect()
    }

    #[test]
    fn what_is_asked_for_in_order_was_not_put_first() {
        let none: [String; 0] = [];
        // `a` asks for `c`, which comes behind `b`; what is opened comes behind all.
        let list: [(&str, &[&str]); 5] =
            [("a", &["c", "libc"]), ("b", &["libc"]), ("c", &[]), ("libc", &[]), ("opened", &[])];
        assert_eq!(first(&["a", "b"], &list), none);
        assert_eq!(first(&["missing", "a", "b"], &list), none);
    }

    #[test]
    fn what_stands_before_what_is_asked_for_was_put_there() {
        let list: [(&str, &[&str]); 5] =
            [("pre", &["brought"]), ("a", &["libc"]), ("libc", &[]), ("brought", &[]), ("o", &[])];
        assert_eq!(first(&["a", "libc"], &list), ["pre", "brought"]);
        // One that is asked for as well, but later.
        let list: [(&str, &[&str]); 4] = [("a", &[]), ("c", &[]), ("b", &[]), ("libc", &[])];
        assert_eq!(first(&["a", "b", "c", "libc"], &list), ["c"]);
    }

    #[test]
    fn without_an_order_what_nothing_asks_for_may_have_been_put_first() {
        let list: [(&str, &[&str]); 3] = [("a", &["libc"]), ("libc", &[]), ("other", &[])];
        assert_eq!(unasked(&["a".to_owned()], &loaded(&list)), [2]);
    }
}
