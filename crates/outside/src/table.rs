//! All rows, read once.

use std::sync::LazyLock;

use crate::function::{Class, Elsewhere, Function, Installs};
use crate::pattern::{is_pattern, matches};
use crate::row::Row;
use crate::set::Set;

/// A variable of a library. Hooks that a program puts into it are left as by a call that
/// installs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What comes through it.
    pub installs: Vec<Installs>,
    /// If it is not one of the libraries the rows are checked against: why.
    pub elsewhere: Option<Elsewhere>,
}

/// Functions of a program that libraries run though nobody passed them: they find them in
/// tables of virtual functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entered {
    /// A pattern of names.
    pub name: &'static str,
    /// They are run as hooks of this kind.
    pub class: Class,
}

#[derive(Default)]
struct Table {
    /// By name, those of one name.
    functions: Vec<Function>,
    /// Those of many.
    patterns: Vec<Function>,
    variables: Vec<Variable>,
    entered: Vec<Entered>,
}

/// The rows of the data; comments and empty lines are none.
pub(crate) fn lines() -> impl Iterator<Item = &'static str> {
    crate::TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::default();
    for line in lines() {
        // A test reads every line.
        let row = Row::read(line).unwrap_or_else(|wrong| panic!("outside.txt: {wrong}"));
        match row {
            Row::Function(function) if is_pattern(function.name) => table.patterns.push(function),
            Row::Function(function) => table.functions.push(function),
            Row::Variable(name, installs, elsewhere) => {
                table.variables.push(Variable { name, installs, elsewhere });
            }
            Row::Entered(name, class) => table.entered.push(Entered { name, class }),
        }
    }
    table
});

/// What the function of this name does, which may have a symbol's version behind it
/// (`exit@GLIBC_2.2.5`). Of one that is not listed nothing is known: it may do everything.
pub fn of(name: &str) -> Option<&'static Function> {
    let name = name.split('@').next().unwrap_or(name);
    let found = TABLE.functions.binary_search_by(|it| it.name.cmp(name));
    match found {
        Ok(found) => Some(&TABLE.functions[found]),
        Err(_) => TABLE.patterns.iter().find(|it| matches(it.name, name)),
    }
}

/// What is left as hooks by putting it into the variable of this name.
pub fn hooks_through(name: &str) -> Option<&'static Variable> {
    variable(name).filter(|it| !it.installs.is_empty())
}

/// The variable of this name, if it is listed. Through one that is not, the program may
/// get the address of any code.
pub fn variable(name: &str) -> Option<&'static Variable> {
    let name = name.split('@').next().unwrap_or(name);
    TABLE.variables.iter().find(|it| it.name == name)
}

/// The kinds of hooks that a program leaves which calls these functions and mentions these
/// variables. A function that is not listed may leave any. (What is no function of others,
/// such as an intrinsic of a compiler, is not to be asked for; nor are other variables.)
pub fn installed_by<'a>(
    functions: impl IntoIterator<Item = &'a str>,
    variables: impl IntoIterator<Item = &'a str>,
) -> Set<Class> {
    let mut found = Set::NONE;
    for name in functions {
        match of(name) {
            Some(function) if !function.anything => {
                found = found.with(function.installs.iter().map(|it| it.class).collect());
            }
            _ => return Set::all(),
        }
    }
    let of_variables = variables.into_iter().filter_map(hooks_through);
    found.with(of_variables.flat_map(|it| &it.installs).map(|it| it.class).collect())
}

/// As which kind of hook libraries run a function of the program of this name though
/// nobody passed it to them.
pub fn entered(name: &str) -> Option<Class> {
    TABLE.entered.iter().find(|it| matches(it.name, name)).map(|it| it.class)
}

/// All functions that are listed: those of one name in its order, then patterns.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    TABLE.functions.iter().chain(&TABLE.patterns)
}

/// All variables that are listed.
pub fn variables() -> &'static [Variable] {
    &TABLE.variables
}

/// All functions of programs that are listed.
pub fn entered_functions() -> &'static [Entered] {
    &TABLE.entered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::{Elsewhere, Family, Whom};

    #[test]
    fn every_line_is_read_and_written_as_it_is() {
        let mut before = "";
        for line in lines() {
            let row = Row::read(line).unwrap();
            assert!(before < row.name(), "{} is behind {before}", row.name());
            before = row.name();
            assert_eq!(line, format!("{:<32} {}", row.name(), row.words()));
        }
        assert!(functions().count() > 2000, "most of the data is gone");
    }

    #[test]
    fn names_are_found() {
        assert!(of("strlen").unwrap().is_plain() && of("strlen@@GLIBC_2.2.5").is_some());
        assert_eq!(of("bsearch").unwrap().calls, Whom::Arguments(vec![4]));
        assert_eq!(of("fopencookie").unwrap().hooks(Class::Stream).count(), 1);
        assert!(of("_ZSt17__throw_bad_allocv").unwrap().leaves);
        assert!(of("_RNvMNtNtNtCs_3std3sys6thread6Thread3new").unwrap().starts_threads);
        assert_eq!(entered("_ZNSt6thread11_State_implIX3fooED0Ev"), Some(Class::ThreadExit));
        assert!(hooks_through("stdout").is_none() && variable("stdout").is_some());
        assert_eq!(hooks_through("__malloc_hook").unwrap().installs[0].class, Class::Malloc);
        // A checking twin has a row of its own. What only looks like one has none.
        assert!(of("__printf_chk").is_some() && of("__frobnicate_chk").is_none());
        assert!(of("fmod").unwrap().implied && !of("fmod").unwrap().inserted);
        assert!(of("__stack_chk_fail").unwrap().inserted && of("mcount").unwrap().is_plain());
        for none in ["", "__", "_chk", "assert_fail", "fdelt", "longjmp_chk", "printf_chk"] {
            assert!(of(none).is_none(), "{none}");
        }
    }

    #[test]
    fn what_belongs_together_is_together() {
        for it in functions() {
            let name = it.name;
            // Buffers of streams are allocated, and wide ones converted.
            if it.runs.has(Class::Stream) && it.elsewhere != Some(Elsewhere::Other) {
                let both: Set<Family> = [Family::Malloc, Family::String].into_iter().collect();
                assert_eq!(it.by_name.common(both), both, "{name}");
            }
            assert!(!it.execs || it.ends, "{name}: that is the end of the program, too");
            assert!(!it.forks || it.returns, "{name}");
            assert!(it.installs(Class::Thread) <= it.starts_threads, "{name}");
            assert!(!it.signals || it.runs.has(Class::Signal), "{name}");
        }
    }

    #[test]
    fn what_is_left_as_hooks_runs() {
        let installed = |names: &[&str]| installed_by(names.iter().copied(), []);
        assert!(installed(&["printf", "strlen"]).is_empty());
        assert!(installed(&["frobnicate"]) == Set::all() && installed(&["syscall"]) == Set::all());
        let streams = installed(&["fopencookie", "fgets"]);
        assert!(streams.iter().eq([Class::Stream]));
        assert!(installed_by([], ["__free_hook", "stdout"]).iter().eq([Class::Malloc]));
        let (fgets, strdup) = (of("fgets").unwrap(), of("strdup").unwrap());
        let malloc: Set<Family> = [Family::Malloc].into_iter().collect();
        assert!(strdup.is_step(streams, Set::NONE) && !fgets.is_step(streams, Set::NONE));
        assert!(!strdup.is_step(Set::NONE, malloc) && fgets.is_step(Set::NONE, Set::NONE));
    }

    /// Checking twins, those for large files, for another standard, and without locks.
    #[test]
    fn twins_do_the_same() {
        let mut compared = 0;
        for it in functions() {
            let name = it.name;
            let isoc = name.strip_prefix("__isoc99_").or_else(|| name.strip_prefix("__isoc23_"));
            let checking = name.strip_prefix("__").and_then(|it| it.strip_suffix("_chk"));
            let large = name.strip_suffix("64");
            let other = isoc.or(checking).or(large).or_else(|| name.strip_suffix("_unlocked"));
            let Some(other) = other.and_then(of) else { continue };
            // Code generation knows one of them.
            let twin =
                Function { name, elsewhere: it.elsewhere, implied: it.implied, ..other.clone() };
            assert_eq!(*it, twin);
            compared += 1;
        }
        assert!(compared > 150, "only {compared} twins were compared");
    }

    #[test]
    fn families_have_their_members() {
        assert!(Family::Malloc.has("calloc") && !Family::Malloc.has("strdup"));
        assert!(Family::New.has("_ZnwmSt11align_val_t") && Family::New.has("_ZdaPv"));
        assert!(Family::String.has("__rawmemchr") && Family::String.has("wcslen"));
        assert!(!Family::String.has("memalign") && !Family::String.has("structure"));
        assert!(Family::Cxx.has("_ZNSt6vectorIiE4sizeEv") && Family::Cxx.has("_ZNKSs4sizeEv"));
        assert!(!Family::Cxx.has("_ZN3foo3barEv") && !Family::Cxx.has("St"));
        assert!(Family::Library.has("printf") && !Family::Library.has("main"));
    }
}
