//! A path profile as one page that needs nothing else.

use super::{Function, Measure, Program};

/// What is in the page.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// At most so many paths.
    pub top: usize,
    /// What paths are sorted by.
    pub measure: Measure,
}

/// The whole page.
pub fn render(
    _program: &Program,
    _options: &Options,
    _wanted: impl Fn(&Function) -> bool,
) -> String {
    String::new()
}
