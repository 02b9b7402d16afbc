//! Names of functions, short enough to be read.
//!
//! A demangled name can be longer than a screen, and what tells functions apart
//! is mostly in front: `std::map<…>::operator[]`. Template arguments that follow
//! a name become `<…>`; parameters, qualifiers and the type that is returned are
//! left out. What Rust has in angle brackets by itself, `<T as Trait>::name`, is
//! kept, shortened within. The full name is for documents, and for whoever asks.

/// `name` without what it can be recognised without.
pub fn compact(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut short = Short { letters: &letters, at: 0, out: String::new(), parameters: false };
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
                    self.out.push_str("<…>");
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
    for (place, letter) in name[..end].char_indices() {
        match letter {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            ' ' if depth == 0 => start = place + 1,
            _ => {}
        }
    }
    if start < name.len() { start } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::compact;

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
            ("f<g->h>", "f<…>"),
            ("a<b", "a<b"),
            ("a(b", "a(b"),
            ("", ""),
        ] {
            assert_eq!(compact(name), expected, "{name}");
        }
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
        }
    }
}
