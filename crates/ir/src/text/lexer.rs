//! Words, numbers, strings and signs of the text form, with their lines.

use crate::Error;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Letters, digits and underscores, the first not a digit.
    Word(&'a str),
    /// Digits, perhaps behind a sign.
    Number(&'a str),
    /// A string, unescaped.
    String(String),
    /// `->`.
    Arrow,
    /// Any other sign.
    Sign(char),
    /// The end of the text.
    End,
}

impl Token<'_> {
    /// As a message names it.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) => format!("'{text}'"),
            Self::String(_) => "a string".into(),
            Self::Arrow => "'->'".into(),
            Self::Sign(sign) => format!("'{}'", sign.escape_debug()),
            Self::End => "the end of the text".into(),
        }
    }
}

/// Reads tokens one by one, always one ahead.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    line: u32,
    next: Token<'a>,
    /// The line of `next`.
    next_line: u32,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, Error> {
        let mut lexer = Self { rest: text, line: 1, next: Token::End, next_line: 1 };
        lexer.advance()?;
        Ok(lexer)
    }

    /// The token at hand.
    pub(super) fn peek(&self) -> &Token<'a> {
        &self.next
    }

    /// Takes the token at hand.
    pub(super) fn take(&mut self) -> Result<Token<'a>, Error> {
        let token = std::mem::replace(&mut self.next, Token::End);
        self.advance()?;
        Ok(token)
    }

    /// An error at the token at hand.
    pub(super) fn error(&self, what: impl Into<String>) -> Error {
        Error::Text { line: self.next_line, what: what.into() }
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.skip_blank();
        self.next_line = self.line;
        let mut chars = self.rest.chars();
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        self.next = match (chars.next(), chars.next()) {
            (None, _) => Token::End,
            (Some('"'), _) => Token::String(self.string()?),
            (Some('-'), Some('>')) => {
                self.split(2);
                Token::Arrow
            }
            (Some('+' | '-'), second) if is_digit(second) => Token::Number(self.word(1)),
            (Some(first), _) if first.is_ascii_digit() => Token::Number(self.word(0)),
            (Some(first), _) if first.is_ascii_alphabetic() || first == '_' => {
                Token::Word(self.word(0))
            }
            (Some(sign), _) => {
                self.split(sign.len_utf8());
                Token::Sign(sign)
            }
        };
        Ok(())
    }

    fn split(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// A word whose first `sign` bytes are taken as they are.
    fn word(&mut self, sign: usize) -> &'a str {
        let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let length = self.rest[sign..].find(ends).map_or(self.rest.len(), |at| sign + at);
        self.split(length)
    }

    fn skip_blank(&mut self) {
        loop {
            let blank = self.rest.find(|c: char| !c.is_ascii_whitespace());
            let blank = self.split(blank.unwrap_or(self.rest.len()));
            self.line += blank.matches('\n').count() as u32;
            if !self.rest.starts_with(';') {
                return;
            }
            self.split(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    /// A string, whose opening quote is at hand.
    fn string(&mut self) -> Result<String, Error> {
        let error = |what: &str| Error::Text { line: self.next_line, what: what.into() };
        let mut chars = self.rest.char_indices().skip(1);
        let mut text = String::new();
        loop {
            let (at, c) = chars.next().ok_or_else(|| error("the string has no end"))?;
            match c {
                '"' => {
                    self.split(at + 1);
                    return Ok(text);
                }
                '\n' => return Err(error("the string does not end on its line")),
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(c @ ('"' | '\\')) => text.push(c),
                    Some('u') => {
                        let digits = chars.by_ref().map(|(_, c)| c).skip_while(|&c| c == '{');
                        let digits: String = digits.take_while(|&c| c != '}').take(8).collect();
                        let c = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                        text.push(c.ok_or_else(|| error("the string has a bad \\u{...}"))?);
                    }
                    _ => return Err(error("the string has an unknown escape")),
                },
                c => text.push(c),
            }
        }
    }
}
