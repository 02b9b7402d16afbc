//! gdb's backtraces of the same cores, frame by frame.
//!
//! Compared are each frame's program counter, its function, and whether it is inlined
//! or a signal's. gdb has the executable with its symbols and debug information in
//! every case; of a stripped one an autopsy knows no more than the functions that
//! record something, and of inlined ones those that the program model has, so there
//! are compared frames that were not inlined, and names where it gives some. Where a
//! unit has line tables alone, gdb knows names without their scopes.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// As many frames of a thread as are compared.
const MOST_FRAMES: usize = 200;

/// A frame, as either shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    counter: u64,
    function: Option<String>,
    inlined: bool,
    signal: bool,
}

/// What gdb says of some cores of one program.
pub fn ask(program: &Path, cores: &[PathBuf]) -> Vec<Value> {
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machine/tests/cores/oracle.py");
    let list: Vec<_> = cores.iter().map(|core| core.display().to_string()).collect();
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-x"]).arg(machine).env("PROGRAM", program);
    gdb.env("CORES", list.join(":")).env("LIMIT", MOST_FRAMES.to_string());
    let output = gdb.output().expect("gdb can be started (package gdb)");
    let said = String::from_utf8_lossy(&output.stdout);
    let answers: Vec<Value> = said
        .lines()
        .filter_map(|line| line.strip_prefix("ORACLE "))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(answers.len(), cores.len(), "{said}\n{message}");
    answers
}

/// Names up to their parameters, without template arguments: how those are written
/// differs.
fn bare(name: &str) -> String {
    let name = name.replace("(anonymous namespace)", "{anonymous}");
    let (mut kept, mut depth) = (String::new(), 0);
    let mut rest = name.chars();
    while let Some(letter) = rest.next() {
        // Brackets and angles of an operator are its name.
        if depth == 0 && kept.ends_with("operator") && !letter.is_alphanumeric() {
            kept.push(letter);
            let sign: String =
                rest.as_str().chars().take_while(|it| "<>=-[]".contains(*it)).collect();
            let more = if letter == '(' { ")" } else { &sign };
            kept.push_str(more);
            rest.by_ref().take(more.chars().count()).for_each(drop);
            continue;
        }
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 => break,
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
    }
    // What a template returns is part of its mangled name.
    let kept = kept.trim_end();
    match kept.rsplit_once(' ') {
        Some((_, last)) if !kept.contains("operator ") => last.to_owned(),
        _ => kept.to_owned(),
    }
}

#[test]
fn names_are_compared_without_what_is_written_differently() {
    for (name, wanted) in [
        ("std::pair<A, B<C> > std::make_pair<A, B<C> >(A&&, B<C>&&)", "std::make_pair"),
        ("Graph::Load(std::string const&)", "Graph::Load"),
        ("bool std::operator< <char>(A const&, B const&)", "std::operator<"),
        ("std::ostream& operator<<(std::ostream&, int)", "operator<<"),
        ("Compare::operator()(int, int) const", "Compare::operator()"),
        ("Pointer<A>::operator->() const", "Pointer::operator->"),
        ("(anonymous namespace)::read(int)", "{anonymous}::read"),
        ("operator new(unsigned long)", "operator new"),
        ("main", "main"),
    ] {
        assert_eq!(bare(name), wanted, "{name}");
    }
}

/// Whether a name is another one with its scopes, of which the other has none.
fn is_in_scope(name: &str, bare: &str) -> bool {
    !bare.contains("::") && name.strip_suffix(bare).is_some_and(|scopes| scopes.ends_with("::"))
}

#[test]
fn a_name_without_scopes_is_one_with_them_and_no_other_way_about() {
    assert!(is_in_scope("{anonymous}::read", "read"));
    for (name, other) in
        [("read", "read"), ("read", "a::read"), ("a::reread", "read"), ("b::a::read", "a::read")]
    {
        assert!(!is_in_scope(name, other), "{name} {other}");
    }
}

fn ours(frame: &Value) -> Shown {
    let address = frame["address"].as_str().and_then(|it| it.strip_prefix("0x"));
    Shown {
        counter: u64::from_str_radix(address.unwrap(), 16).unwrap(),
        function: frame["demangled"].as_str().or(frame["function"].as_str()).map(bare),
        inlined: frame["inlined"] == true,
        signal: frame["signal"] == true,
    }
}

fn theirs(frame: &Value) -> Shown {
    Shown {
        counter: frame["pc"].as_u64().unwrap(),
        function: frame["name"].as_str().map(bare),
        inlined: frame["inlined"] == true,
        signal: frame["signal"] == true,
    }
}

/// How many frames an autopsy and gdb agree on, or in what they do not.
pub fn compare(told: &Value, answer: &Value, is_stripped: bool) -> Result<usize, String> {
    let threads = answer["threads"].as_array().unwrap();
    let mut compared = 0;
    let own = told["threads"].as_array().unwrap();
    if own.len() != threads.len() {
        return Err(format!("{} threads, gdb has {}", own.len(), threads.len()));
    }
    for thread in own {
        let id = &thread["id"];
        let Some(other) = threads.iter().find(|other| other["id"] == *id) else {
            return Err(format!("gdb has no thread {id}"));
        };
        let is_shown = |frame: &Shown| !is_stripped || !frame.inlined;
        let frames = thread["frames"].as_array().unwrap().iter().map(ours);
        let gdb = other["frames"].as_array().unwrap();
        let is_cut = gdb.len() == MOST_FRAMES;
        let left: Vec<Shown> = frames.filter(is_shown).collect();
        let right: Vec<Shown> = gdb.iter().map(theirs).filter(is_shown).collect();
        for (number, (own, other)) in left.iter().zip(&right).enumerate() {
            let unnamed = is_stripped && own.function.is_none();
            let is_same = |other: &String| {
                own.function.as_ref().is_some_and(|own| own == other || is_in_scope(own, other))
            };
            let function = match &other.function {
                _ if unnamed => None,
                Some(name) if is_same(name) => own.function.clone(),
                name => name.clone(),
            };
            let other = Shown { function, ..other.clone() };
            if *own != other {
                return Err(format!("thread {id}, frame {number}: {own:?}, gdb: {other:?}"));
            }
        }
        if !is_cut && left.len() != right.len() {
            return Err(format!("thread {id}: {left:#?}, gdb: {right:#?}"));
        }
        compared += left.len().min(right.len());
    }
    Ok(compared)
}
