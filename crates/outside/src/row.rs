//! A line of the data, read and written.
//!
//! A line is a name and, behind blanks, words in a fixed order; so that a line can be
//! written again, and each thing is said in one way only.

#[cfg(test)]
use std::fmt::Write;

use crate::function::{Class, Elsewhere, Family, Fresh, Function, Installs, Source, Whom};
use crate::set::{Member, Set};

/// What a line speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Row {
    /// A function outside.
    Function(Function),
    /// A variable outside into which the program puts hooks.
    Variable(&'static str, Vec<Installs>, Option<Elsewhere>),
    /// A function of the program that is run from outside as a hook of this kind.
    Entered(&'static str, Class),
}

impl Row {
    /// Reads a line; what is wrong, if something is.
    pub fn read(line: &'static str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let name = words.next().ok_or("an empty line")?;
        let words: Vec<&'static str> = words.collect();
        if words.is_empty() {
            return Err(format!("{name} has no words"));
        }
        let mut function = Function::plain(name);
        let (mut is_variable, mut entered) = (false, None);
        for word in words {
            let wrong = || format!("{name}: what is \"{word}\"?");
            match word.split_once(':') {
                None if word == "-" => {}
                None if word == "variable" => is_variable = true,
                None => *trait_of(&mut function, word).ok_or_else(wrong)? ^= true,
                Some(("entered", class)) => entered = Some(Class::named(class).ok_or_else(wrong)?),
                Some((key, value)) => set(&mut function, key, value).ok_or_else(wrong)?,
            }
        }
        function.runs = function.runs.with(implied(function.by_name));
        Ok(match (is_variable, entered) {
            (true, _) => Self::Variable(name, function.installs, function.elsewhere),
            (false, Some(class)) => Self::Entered(name, class),
            (false, None) => Self::Function(function),
        })
    }

    /// The name it is of.
    #[cfg(test)]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Function(function) => function.name,
            Self::Variable(name, ..) | Self::Entered(name, _) => name,
        }
    }

    /// The words of the line, as they have to be. (Of one that is entered, all but where
    /// it is.)
    #[cfg(test)]
    pub fn words(&self) -> String {
        match self {
            Self::Function(function) => words_of(function),
            Self::Variable(name, installs, elsewhere) => {
                let function = Function {
                    installs: installs.clone(),
                    elsewhere: *elsewhere,
                    ..Function::plain(name)
                };
                format!("variable {}", words_of(&function)).trim_end_matches(" -").to_owned()
            }
            Self::Entered(_, class) => format!("entered:{} elsewhere:program", class.word()),
        }
    }
}

/// The traits that a word says are not as of a plain function, in order.
#[cfg(test)]
#[rustfmt::skip]
const TRAITS: [&str; 19] = [
    "noreturn", "ends", "leaves", "twice", "forks", "vforks", "execs", "spawns", "threads",
    "cancels", "stacks", "shares", "asynchronous", "signals", "looks-up", "loads", "anything",
    "implied", "inserted",
];

/// The trait that a word is of.
fn trait_of<'a>(function: &'a mut Function, word: &str) -> Option<&'a mut bool> {
    Some(match word {
        "noreturn" => &mut function.returns,
        "ends" => &mut function.ends,
        "leaves" => &mut function.leaves,
        "twice" => &mut function.returns_twice,
        "forks" => &mut function.forks,
        "vforks" => &mut function.vforks,
        "execs" => &mut function.execs,
        "spawns" => &mut function.spawns,
        "threads" => &mut function.starts_threads,
        "cancels" => &mut function.cancels,
        "stacks" => &mut function.switches_stacks,
        "shares" => &mut function.shares_memory,
        "asynchronous" => &mut function.allows_cancelling,
        "signals" => &mut function.signals,
        "looks-up" => &mut function.looks_up,
        "loads" => &mut function.loads,
        "anything" => &mut function.anything,
        "implied" => &mut function.implied,
        "inserted" => &mut function.inserted,
        _ => return None,
    })
}

/// What a word with a value says; nothing if it is not understood.
fn set(function: &mut Function, key: &str, value: &str) -> Option<()> {
    match key {
        "calls" => {
            function.calls = match value {
                "taken" => Whom::Taken,
                "anyone" => Whom::Anyone,
                _ => Whom::Arguments(numbers(value)?),
            }
        }
        "installs" => {
            let (class, from) = value.split_once(':')?;
            let from = match from {
                "taken" => vec![Source::Taken],
                _ => numbers(from)?.into_iter().map(Source::Argument).collect(),
            };
            function.installs.push(Installs { class: Class::named(class)?, from });
        }
        "runs" => function.runs = members(value)?,
        "uses" => function.by_name = members(value)?,
        "allocates" => {
            function.allocates = Some(match value {
                "result" => Fresh::Result,
                _ => Fresh::Through(value.parse().ok()?),
            });
        }
        "frees" => function.frees = Some(value.parse().ok()?),
        "elsewhere" => function.elsewhere = Some(Elsewhere::named(value)?),
        _ => return None,
    }
    Some(())
}

fn numbers(value: &str) -> Option<Vec<u8>> {
    value.split(',').map(|it| it.parse().ok()).collect()
}

fn members<T: Member>(value: &str) -> Option<Set<T>> {
    value.split(',').map(T::named).collect()
}

/// The hooks that run when libraries call these by name and they are not replaced.
fn implied(by_name: Set<Family>) -> Set<Class> {
    let malloc = by_name.has(Family::Malloc).then_some(Class::Malloc);
    let new = by_name.has(Family::New).then_some(Class::NewHandler);
    malloc.into_iter().chain(new).collect()
}

#[cfg(test)]
fn words_of(function: &Function) -> String {
    let plain = Function::plain(function.name);
    let mut words = String::new();
    for word in TRAITS {
        let of = |it: &Function| *trait_of(&mut it.clone(), word).expect("it is one of them");
        if of(function) != of(&plain) {
            write!(words, "{word} ").unwrap();
        }
    }
    let list = |numbers: &[u8]| {
        let numbers: Vec<String> = numbers.iter().map(u8::to_string).collect();
        numbers.join(",")
    };
    match &function.calls {
        Whom::Nobody => {}
        Whom::Arguments(arguments) => write!(words, "calls:{} ", list(arguments)).unwrap(),
        Whom::Taken => words.push_str("calls:taken "),
        Whom::Anyone => words.push_str("calls:anyone "),
    }
    let mut installs: Vec<&Installs> = function.installs.iter().collect();
    installs.sort_by_key(|it| it.class);
    for Installs { class, from } in installs {
        let from = from.iter().map(|it| match it {
            Source::Argument(argument) => argument.to_string(),
            Source::Taken => "taken".to_owned(),
        });
        let from: Vec<String> = from.collect();
        write!(words, "installs:{}:{} ", class.word(), from.join(",")).unwrap();
    }
    let runs = function.runs.without(implied(function.by_name));
    if !runs.is_empty() {
        write!(words, "runs:{runs} ").unwrap();
    }
    if !function.by_name.is_empty() {
        write!(words, "uses:{} ", function.by_name).unwrap();
    }
    match function.allocates {
        None => {}
        Some(Fresh::Result) => words.push_str("allocates:result "),
        Some(Fresh::Through(argument)) => write!(words, "allocates:{argument} ").unwrap(),
    }
    if let Some(argument) = function.frees {
        write!(words, "frees:{argument} ").unwrap();
    }
    if let Some(elsewhere) = function.elsewhere {
        write!(words, "elsewhere:{} ", elsewhere.word()).unwrap();
    }
    if words.is_empty() { "-".to_owned() } else { words.trim_end().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_said() {
        for line in ["f", "f jumps", "f calls:x", "f calls:300", "f runs:never", "f uses:", "f a:b"]
        {
            assert!(Row::read(line).is_err(), "{line}");
        }
        let Ok(Row::Function(read)) = Row::read("f noreturn uses:malloc") else { panic!() };
        assert!(read.never_returns() && read.runs.has(Class::Malloc));
    }
}
