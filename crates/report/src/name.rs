//! Names of functions, short enough to be read.
//!
//! A demangled name can be longer than a screen, and what tells functions apart
//! is mostly in front: `std::map<…>::operator[]`. Template arguments that follow
//! a name become `<…>`; parameters, qualifiers and the type that is returned are
//! left out. What Rust has in angle brackets by itself, `<T as Trait>::name`, is
//! kept, shortened within. The full name is for documents, and for whoever asks.
//!
//! Functions that are shown together ([`Names`]) get what tells them apart:
//! arguments, `Parser<int>::factor`; parameters if that does not suffice; and as
//! the last resort the hash by which the linker knows functions of Rust.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::terminal::{Detail, shorten_middle, width};

/// The names of functions that are shown together.
#[derive(Debug)]
pub struct Names {
    detail: Detail,
    /// Each form, and the linkage name whose it is; none if several have it.
    owners: BTreeMap<String, Option<String>>,
}

impl Names {
    /// For functions given by linkage name and by the name that people write. Of one
    /// linkage name there may be several; where they are tells them apart.
    pub fn new<'a>(
        functions: impl IntoIterator<Item = (&'a str, &'a str)>,
        detail: Detail,
    ) -> Self {
        let mut owners: BTreeMap<String, Option<String>> = BTreeMap::new();
        for (linkage_name, name) in functions {
            for form in forms(linkage_name, name) {
                let owner = owners.entry(form).or_insert_with(|| Some(linkage_name.to_owned()));
                if owner.as_deref() != Some(linkage_name) {
                    *owner = None;
                }
            }
        }
        Self { detail, owners }
    }

    /// How a function is called, which need not be one of them.
    pub fn of(&self, linkage_name: &str, name: &str) -> String {
        let mut forms = forms(linkage_name, name).into_iter();
        let is_clear = |form: &String| match self.owners.get(form) {
            Some(owner) => owner.as_deref() == Some(linkage_name),
            None => true,
        };
        let clear = match self.detail {
            Detail::Short => forms.find(is_clear),
            Detail::Full => forms.skip(2).find(is_clear),
        };
        clear.unwrap_or_else(|| name.to_owned())
    }
}

/// The forms of a name, the shortest first.
fn forms(linkage_name: &str, name: &str) -> [String; 4] {
    let hashed = match rust_hash(linkage_name) {
        Some(hash) => format!("{name}::{hash}"),
        None => name.to_owned(),
    };
    [compact(name), with_arguments(name), name.to_owned(), hashed]
}

/// The hash that ends a linkage name of Rust's older kind, `h` and 16 digits, before
/// the suffix that LLVM may give it.
fn rust_hash(linkage_name: &str) -> Option<&str> {
    let path = linkage_name.strip_prefix("_ZN")?;
    let path = path.split_once('.').map_or(path, |(path, _)| path).strip_suffix('E')?;
    let (before, hash) = path.split_at_checked(path.len().checked_sub(17)?)?;
    let is_hash = before.ends_with("17")
        && hash.strip_prefix('h')?.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then_some(hash)
}

/// A name in at most `room` columns. What is left out is in the middle, in front of the
/// function's own name or behind that, which is kept as long as it fits.
pub fn shortened(name: &str, room: usize) -> String {
    if width(name) <= room {
        return name.to_owned();
    }
    let own = own_name(name);
    let (scope, own, rest) = (&name[..own.start], &name[own.clone()], &name[own.end..]);
    // An ellipsis on either side, and something of the scope.
    let Some(left) = room.checked_sub(width(own) + 2).filter(|left| *left > 0) else {
        return shorten_middle(name, room);
    };
    let for_rest = width(rest).min(left / 3 + 1);
    let for_scope = width(scope).min(left + 2 - for_rest);
    let scope = shorten_middle(scope, for_scope);
    let rest = shorten_middle(rest, room - width(&scope) - width(own));
    format!("{scope}{own}{rest}")
}

/// Where in a name the function's own is: behind its scope and the type that is returned,
/// before arguments and parameters. What has none, such as a closure, is told by what it
/// is in.
fn own_name(name: &str) -> Range<usize> {
    let (mut start, mut end) = (0, None);
    let (mut depth, mut before) = (0usize, ' ');
    let mut last_scope = 0;
    for (at, letter) in name.char_indices() {
        match letter {
            _ if at < start => continue,
            'o' if depth == 0 && at == start && name[at..].starts_with(OPERATOR) => {
                let signs = at + OPERATOR.len();
                let is_sign = |it: char| !(Short::is_name(it) || it == '(');
                if name[signs..].starts_with(is_sign) || name[signs..].starts_with("()") {
                    let skipped = if name[signs..].starts_with("()") { signs + 2 } else { signs };
                    let parameters = name[skipped..].find('(');
                    return start..parameters.map_or(name.len(), |it| skipped + it);
                }
            }
            '<' | '(' | '[' | '{' => {
                if depth == 0 && at > start {
                    end.get_or_insert(at);
                }
                depth += 1;
            }
            '>' if before == '-' => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && name[at..].starts_with("::") => {
                last_scope = start;
                (start, end) = (at + 2, None);
            }
            // Between the type that is returned and the name, but not behind parameters.
            ' ' if depth == 0 && end.is_none_or(|end| !name[end..at].contains('(')) => {
                (start, end, last_scope) = (at + 1, None, at + 1);
            }
            _ => {}
        }
        before = letter;
    }
    if name[start..].starts_with('{') {
        start = last_scope;
    }
    start..end.unwrap_or(name.len())
}

/// `name` without what it can be recognised without.
pub fn compact(name: &str) -> String {
    without_parameters(name, Arguments::LeftOut)
}

/// `name` without parameters, qualifiers and the type that is returned.
fn with_arguments(name: &str) -> String {
    without_parameters(name, Arguments::Kept)
}

/// What becomes of arguments of templates and generics.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arguments {
    LeftOut,
    Kept,
}

fn without_parameters(name: &str, arguments: Arguments) -> String {
    let letters: Vec<char> = name.chars().collect();
    let out = String::new();
    let mut short = Short { letters: &letters, at: 0, out, parameters: false, arguments };
    while short.at < letters.len() {
        short.step();
    }
    let Short { mut out, parameters, .. } = short;
    for tail in [" &&", " &", " volatile", " const"] {
        if let Some(rest) = out.strip_suffix(tail) {
            out.truncate(rest.len());
        }
    }
    if parameters {
        out.drain(..returned_type(&out));
    }
    out.replace("std::__cxx11::", "std::")
}

struct Short<'a> {
    letters: &'a [char],
    at: usize,
    out: String,
    parameters: bool,
    arguments: Arguments,
}

const OPERATOR: &str = "operator";

impl Short<'_> {
    fn step(&mut self) {
        let letter = self.letters[self.at];
        match letter {
            'o' if self.is_operator() => self.operator(),
            '<' if self.follows_a_name() => {
                if let Some(end) = self.closing('<', '>') {
                    self.trim_space();
                    match self.arguments {
                        Arguments::LeftOut => self.out.push_str("<…>"),
                        Arguments::Kept => self.out.extend(&self.letters[self.at..=end]),
                    }
                    self.at = end + 1;
                } else {
                    self.copy();
                }
            }
            '(' => match self.closing('(', ')') {
                Some(end) if !self.is_anonymous(end) => {
                    self.parameters = true;
                    self.at = end + 1;
                }
                _ => self.copy(),
            },
            _ => self.copy(),
        }
    }

    fn copy(&mut self) {
        self.out.push(self.letters[self.at]);
        self.at += 1;
    }

    fn trim_space(&mut self) {
        self.out.truncate(self.out.trim_end().len());
    }

    fn is_name(letter: char) -> bool {
        letter.is_alphanumeric() || letter == '_'
    }

    fn follows_a_name(&self) -> bool {
        let last = self.out.trim_end().chars().next_back();
        let spaced = self.out.ends_with(' ');
        // A space is there between an operator and its arguments only.
        last.is_some_and(|last| {
            (!spaced && (Self::is_name(last) || last == ':' || last == '}'))
                || (spaced && "<>=-+*/%^&|~!,]".contains(last))
        })
    }

    /// The place of what closes the bracket at hand.
    fn closing(&self, open: char, close: char) -> Option<usize> {
        let mut depth = 0usize;
        for (place, &letter) in self.letters.iter().enumerate().skip(self.at) {
            if letter == open {
                depth += 1;
            } else if letter == close && !(close == '>' && self.letters[place - 1] == '-') {
                depth -= 1;
                if depth == 0 {
                    return Some(place);
                }
            }
        }
        None
    }

    fn is_anonymous(&self, end: usize) -> bool {
        let inside: String = self.letters[self.at + 1..end].iter().collect();
        inside == "anonymous namespace"
    }

    fn is_operator(&self) -> bool {
        let word = self.letters[self.at..].iter().take(OPERATOR.len()).copied();
        let behind = self.letters.get(self.at + OPERATOR.len()).copied();
        word.eq(OPERATOR.chars())
            && !self.out.chars().next_back().is_some_and(Self::is_name)
            && behind.is_some_and(|letter| !Self::is_name(letter))
    }

    /// The word and its signs, which are no brackets.
    fn operator(&mut self) {
        for _ in 0..OPERATOR.len() {
            self.copy();
        }
        if self.letters[self.at..].starts_with(&['(', ')']) {
            self.copy();
            self.copy();
        }
        while self.at < self.letters.len() && "<>=-+*/%^&|~!,[]".contains(self.letters[self.at]) {
            self.copy();
        }
    }
}

/// Where the name begins behind the type that is returned.
fn returned_type(name: &str) -> usize {
    let end = name.find(OPERATOR).unwrap_or(name.len());
    let mut depth = 0i32;
    let mut start = 0;
    let mut before = ' ';
    for (place, letter) in name[..end].char_indices() {
        match letter {
            '(' | '{' | '<' => depth += 1,
            '>' if before == '-' => {}
            ')' | '}' | '>' => depth -= 1,
            ' ' if depth == 0 => start = place + 1,
            _ => {}
        }
        before = letter;
    }
    if start < name.len() { start } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_is_recognised_by_is_kept() {
        for (name, expected) in [
            ("main", "main"),
            ("n::f(int)", "n::f"),
            ("Sq::area() const", "Sq::area"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("std::map<a<b>, c>::operator[](d&&)", "std::map<…>::operator[]"),
            ("bool std::operator< <char, x>(a<b> const&, c)", "std::operator<<…>"),
            ("std::ostream& std::operator<< <x>(std::ostream&, char)", "std::operator<<<…>"),
            ("std::__cxx11::basic_string<char>::size() const", "std::basic_string<…>::size"),
            ("void f<int, (x)3>(int)", "f<…>"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()"),
            ("operator new(unsigned long)", "operator new"),
            ("A::operator bool() const", "A::operator bool"),
            ("f(int)::X::g()", "f::X::g"),
            ("core::ptr::drop_in_place::<alloc::vec::Vec<u8>>", "core::ptr::drop_in_place::<…>"),
            ("<alloc::vec::Vec<T> as Drop>::drop", "<alloc::vec::Vec<…> as Drop>::drop"),
            ("<fn(u8) -> u8 as Trait>::call", "<fn -> u8 as Trait>::call"),
            ("f<g->h>", "f<…>"),
            ("a<b", "a<b"),
            ("a(b", "a(b"),
            ("", ""),
        ] {
            assert_eq!(compact(name), expected, "{name}");
        }
    }

    #[test]
    fn what_a_function_itself_is_called_is_kept() {
        for (name, own) in [
            ("main", "main"),
            ("n::f", "f"),
            ("Parser<std::map<int, char>>::factor<long>", "factor"),
            ("std::map<…>::operator[]", "operator[]"),
            ("std::operator<<<…>", "operator<<<…>"),
            ("a::operator()(int) const", "operator()"),
            ("std::ostream& std::put<a b>(int, c) const", "put"),
            ("<alloc::vec::Vec<T> as Drop>::drop", "drop"),
            ("<fn(u8) -> u8 as Trait>::call", "call"),
            ("a::run::{closure#0}", "run::{closure#0}"),
            ("(anonymous namespace)::f(int)", "f"),
            ("operators::f", "f"),
            ("", ""),
        ] {
            assert_eq!(&name[own_name(name)], own, "{name}");
        }
        let long = "Parser<std::map<int, std::string>>::factor<std::vector<long>, std::less<int>>";
        for room in 1..90 {
            let short = shortened(long, room);
            assert!(width(&short) <= room, "{short}");
            assert!(room < 10 || short.contains("factor"), "{short} in {room}");
        }
        assert_eq!(shortened(long, 30), "Parser…tring>>::factor<s…int>>");
        assert_eq!(shortened("std::vector<long, std::alloc>::f", 20), "std::ve…d::alloc>::f");
        assert_eq!(shortened("f<std::vector<long, std::alloc>>", 20), "f<std::v…td::alloc>>");
    }

    #[test]
    fn functions_that_are_shown_together_can_be_told_apart() {
        let functions = [
            ("_ZN6ParserIiE6factorEv", "Parser<int>::factor()"),
            ("_ZN6ParserIdE6factorEv", "Parser<double>::factor()"),
            ("_ZN4ListIiE4pushEi", "List<int>::push(int)"),
            ("_Z3putc", "put(char)"),
            ("_Z3puti", "put(int)"),
            ("_ZN1a3fmt17h0123456789abcdefE", "a::fmt"),
            ("_ZN1a3fmt17hfedcba9876543210E.llvm.77", "a::fmt"),
            ("helper", "helper"),
            ("helper", "helper"),
            ("_Z4pickIiEiT_", "int pick<std::map<int, char> >(int)"),
            ("_Z4pickIcEiT_", "int pick<char>(int)"),
        ];
        let shown = |detail: Detail| {
            let names = Names::new(functions, detail);
            functions.map(|(linkage_name, name)| names.of(linkage_name, name))
        };
        assert_eq!(
            shown(Detail::Short),
            [
                "Parser<int>::factor",
                "Parser<double>::factor",
                "List<…>::push",
                "put(char)",
                "put(int)",
                "a::fmt::h0123456789abcdef",
                "a::fmt::hfedcba9876543210",
                "helper",
                "helper",
                "pick<std::map<int, char> >",
                "pick<char>",
            ]
        );
        assert_eq!(
            shown(Detail::Full)[..6],
            [
                "Parser<int>::factor()",
                "Parser<double>::factor()",
                "List<int>::push(int)",
                "put(char)",
                "put(int)",
                "a::fmt::h0123456789abcdef",
            ]
        );
        let alone = Names::new(functions[..1].iter().copied(), Detail::Short);
        assert_eq!(alone.of(functions[0].0, functions[0].1), "Parser<…>::factor");
    }

    #[test]
    fn nothing_makes_it_stumble() {
        let parts = ["<", ">", "(", ")", "operator", " ", "a", "::", "-", "{", "}", "é", "const"];
        let mut state = 1usize;
        for _ in 0..20_000 {
            let mut name = String::new();
            for _ in 0..state % 9 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
                name.push_str(parts[(state >> 33) % parts.len()]);
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
            compact(&name);
            with_arguments(&name);
            for room in 1..8 {
                assert!(width(&shortened(&name, room)) <= room, "{name} in {room}");
            }
        }
    }
}
