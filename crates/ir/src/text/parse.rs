//! Parsing, down to the functions. See [`super`] for the form.

use std::any::type_name;

use backtrail_graph::{Index, IndexMap};

use super::lexer::{Lexer, Token};
use super::{LINKAGES, TRAITS};
use crate::{
    Comdat, Error, File, Func, Linkage, Loc, Location, Sym, Symbol, SymbolKind, Traits, Unit,
    Visibility, verify,
};

/// Parses the text form of a unit and verifies it.
pub fn parse(text: &str) -> Result<Unit, Error> {
    let mut parser = Parser { lexer: Lexer::new(text)? };
    let unit = parser.unit()?;
    verify::verify(&unit)?;
    Ok(unit)
}

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
}

/// An index of the text form: its prefix.
pub(super) trait Named: Index {
    const PREFIX: &'static str;
}

macro_rules! named {
    ($($index:ty, $prefix:literal;)*) => {
        $(impl Named for $index {
            const PREFIX: &'static str = $prefix;
        })*
    };
}

named! {
    File, "file";
    Comdat, "c";
    Sym, "s";
    Loc, "loc";
    Func, "f";
    crate::Block, "b";
    crate::Inst, "i";
}

impl<'a> Parser<'a> {
    pub(super) fn error(&self, what: impl Into<String>) -> Error {
        self.lexer.error(what)
    }

    pub(super) fn expected<T>(&self, what: &str) -> Result<T, Error> {
        Err(self.error(format!("expected {what}, found {}", self.lexer.peek().describe())))
    }

    /// The word at hand, if it is one.
    pub(super) fn peek_word(&self) -> Option<&'a str> {
        match self.lexer.peek() {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Takes `word` if it is at hand.
    pub(super) fn accept(&mut self, word: &str) -> Result<bool, Error> {
        self.accept_token(&Token::Word(word))
    }

    /// Takes `sign` if it is at hand.
    pub(super) fn accept_sign(&mut self, sign: char) -> Result<bool, Error> {
        self.accept_token(&Token::Sign(sign))
    }

    pub(super) fn accept_arrow(&mut self) -> Result<bool, Error> {
        self.accept_token(&Token::Arrow)
    }

    fn accept_token(&mut self, token: &Token<'_>) -> Result<bool, Error> {
        let found = self.lexer.peek() == token;
        if found {
            self.lexer.take()?;
        }
        Ok(found)
    }

    pub(super) fn word(&mut self, word: &str) -> Result<(), Error> {
        if self.accept(word)? { Ok(()) } else { self.expected(&format!("'{word}'")) }
    }

    pub(super) fn sign(&mut self, sign: char) -> Result<(), Error> {
        if self.accept_sign(sign)? { Ok(()) } else { self.expected(&format!("'{sign}'")) }
    }

    fn string(&mut self) -> Result<String, Error> {
        if !matches!(self.lexer.peek(), Token::String(_)) {
            return self.expected("a string");
        }
        match self.lexer.take()? {
            Token::String(text) => Ok(text),
            _ => unreachable!("the token at hand is a string"),
        }
    }

    /// The number at hand, if it is one, as written.
    pub(super) fn peek_number(&self) -> Option<&'a str> {
        match self.lexer.peek() {
            Token::Number(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Result<T, Error> {
        let Some(text) = self.peek_number() else {
            return self.expected("a number");
        };
        let Ok(number) = text.parse() else {
            return Err(
                self.error(format!("'{text}' is not a number of type {}", type_name::<T>()))
            );
        };
        self.lexer.take()?;
        Ok(number)
    }

    /// The index of type `I` at hand, if it is one.
    pub(super) fn peek_index<I: Named>(&self) -> Option<I> {
        number_behind(self.peek_word()?, I::PREFIX).map(|number| I::new(number as usize))
    }

    pub(super) fn index<I: Named>(&mut self) -> Result<I, Error> {
        let Some(index) = self.peek_index() else {
            return self.expected(&format!("{}N", I::PREFIX));
        };
        self.lexer.take()?;
        Ok(index)
    }

    /// Takes the index at hand, which must be the next of `map`.
    pub(super) fn next_index<I: Named, T>(&mut self, map: &IndexMap<I, T>) -> Result<(), Error> {
        let found: Option<I> = self.peek_index();
        if found != Some(map.next_index()) {
            return self.expected(&format!("{}", map.next_index()));
        }
        self.lexer.take()?;
        Ok(())
    }

    /// The parameter at hand, if it is one.
    pub(super) fn accept_parameter(&mut self) -> Result<Option<u32>, Error> {
        let number = self.peek_word().and_then(|word| number_behind(word, "p"));
        if number.is_some() {
            self.lexer.take()?;
        }
        Ok(number)
    }

    pub(super) fn symbols(&mut self) -> Result<Vec<Sym>, Error> {
        let mut symbols = Vec::new();
        self.sign('[')?;
        while !self.accept_sign(']')? {
            symbols.push(self.index()?);
        }
        Ok(symbols)
    }

    /// Sets a flag whose word is at hand, once.
    pub(super) fn set(&mut self, flag: &mut bool) -> Result<(), Error> {
        if std::mem::replace(flag, true) {
            return Err(self.error(format!("{} stands here twice", self.lexer.peek().describe())));
        }
        self.lexer.take()?;
        Ok(())
    }

    /// Takes a trait if one is at hand.
    pub(super) fn accept_trait(&mut self, traits: &mut Traits) -> Result<bool, Error> {
        let word = self.peek_word();
        let field = TRAITS.iter().find(|(other, _)| Some(*other) == word);
        if let Some((_, field)) = field {
            self.set(field(traits))?;
        }
        Ok(field.is_some())
    }

    fn unit(&mut self) -> Result<Unit, Error> {
        self.word("unit")?;
        let mut unit = Unit { name: self.string()?, ..Unit::default() };
        if self.accept("asm")? {
            unit.module_asm = self.string()?;
        }
        while self.peek_index::<File>().is_some() {
            self.next_index(&unit.files)?;
            self.sign('=')?;
            unit.files.push(self.string()?);
        }
        while self.peek_index::<Comdat>().is_some() {
            self.next_index(&unit.comdats)?;
            self.sign('=')?;
            self.word("comdat")?;
            unit.comdats.push(self.string()?);
        }
        while self.peek_index::<Sym>().is_some() {
            self.next_index(&unit.symbols)?;
            self.sign('=')?;
            unit.symbols.push(self.symbol()?);
        }
        while self.peek_index::<Loc>().is_some() {
            self.next_index(&unit.locations)?;
            self.sign('=')?;
            unit.locations.push(self.location()?);
        }
        while self.accept("function")? {
            self.next_index(&unit.functions)?;
            unit.functions.push(self.function()?);
        }
        match self.lexer.peek() {
            Token::End => Ok(unit),
            _ => {
                self.expected("the next file, comdat, symbol, location or function, in this order")
            }
        }
    }

    fn symbol(&mut self) -> Result<Symbol, Error> {
        let data = |defined| SymbolKind::Data {
            defined,
            constant: false,
            size: 0,
            refers_to: Vec::new(),
            section: None,
        };
        let mut kind = match self.peek_word() {
            Some("function") => SymbolKind::Function(Func::new(0)),
            Some("declare") => SymbolKind::ExternalFunction(Traits::default()),
            Some("data") => data(true),
            Some("declare_data") => data(false),
            Some("alias") => SymbolKind::Alias { target: None },
            Some("ifunc") => SymbolKind::IFunc { resolver: None },
            _ => return self.expected("function, declare, data, declare_data, alias or ifunc"),
        };
        self.lexer.take()?;
        if let SymbolKind::Function(func) = &mut kind {
            *func = self.index()?;
        }
        let name = self.string()?;
        let mut symbol = Symbol {
            name,
            kind,
            linkage: self.linkage()?,
            visibility: Visibility::Default,
            comdat: None,
            thread_local: false,
        };
        while self.accept_attribute(&mut symbol)? {}
        Ok(symbol)
    }

    fn linkage(&mut self) -> Result<Linkage, Error> {
        let word = self.peek_word();
        match LINKAGES.iter().find(|(other, _)| Some(*other) == word) {
            Some((_, linkage)) => {
                self.lexer.take()?;
                Ok(*linkage)
            }
            None => self.expected("a linkage"),
        }
    }

    fn accept_attribute(&mut self, symbol: &mut Symbol) -> Result<bool, Error> {
        if let SymbolKind::ExternalFunction(traits) = &mut symbol.kind
            && self.accept_trait(traits)?
        {
            return Ok(true);
        }
        match (self.peek_word(), &mut symbol.kind) {
            (Some("hidden"), _) => {
                self.lexer.take()?;
                symbol.visibility = Visibility::Hidden;
            }
            (Some("protected"), _) => {
                self.lexer.take()?;
                symbol.visibility = Visibility::Protected;
            }
            (Some("comdat"), _) => {
                self.lexer.take()?;
                symbol.comdat = Some(self.index()?);
            }
            (Some("thread_local"), _) => self.set(&mut symbol.thread_local)?,
            (Some("constant"), SymbolKind::Data { constant, .. }) => self.set(constant)?,
            (Some("size"), SymbolKind::Data { size, .. }) => {
                self.lexer.take()?;
                *size = self.number()?;
            }
            (Some("section"), SymbolKind::Data { section, .. }) => {
                self.lexer.take()?;
                *section = Some(self.string()?);
            }
            (Some("refers"), SymbolKind::Data { refers_to, .. }) => {
                self.lexer.take()?;
                *refers_to = self.symbols()?;
            }
            (Some("to"), SymbolKind::Alias { target }) => {
                self.lexer.take()?;
                *target = Some(self.index()?);
            }
            (Some("by"), SymbolKind::IFunc { resolver }) => {
                self.lexer.take()?;
                *resolver = Some(self.index()?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn location(&mut self) -> Result<Location, Error> {
        let file = self.index()?;
        self.sign(':')?;
        let line = self.number()?;
        self.sign(':')?;
        let column = self.number()?;
        self.word("in")?;
        let scope = self.string()?;
        let scope_line = if self.accept("from")? { self.number()? } else { 0 };
        let inlined_at = if self.accept("at")? { Some(self.index()?) } else { None };
        Ok(Location { file, line, column, scope, scope_line, inlined_at })
    }
}

/// The number that follows `prefix` in `word`, if that is all.
fn number_behind(word: &str, prefix: &str) -> Option<u32> {
    let digits = word.strip_prefix(prefix)?;
    let only_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| digits.parse().ok()).flatten()
}
