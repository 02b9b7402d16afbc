//! How far the runs were compared that a result was put together from.

use backtrail_foreign::text::shown;
use serde::Serialize;

use crate::html::escape;
use crate::terminal::Style;

/// The same as plain data, and as it is in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Merged {
    /// How many runs there were.
    pub runs: u32,
    /// Whether it is checked that they did the same.
    pub checked: bool,
    /// What was compared, and was the same in all.
    pub by: Vec<String>,
    /// What could differ, or did, without being seen.
    pub unseen: Vec<String>,
}

impl Merged {
    /// What is said of it in a few words.
    fn verdict(&self) -> &'static str {
        if self.checked { "checked" } else { "not checked" }
    }

    /// Lines of text: what they are about, and what they say.
    pub fn lines(&self, style: Style) -> Vec<(&'static str, String)> {
        let verdict = format!("of {} runs, {}", self.runs, self.verdict());
        let verdict = if self.checked { verdict } else { style.warning(&verdict) };
        let mut lines = vec![("merged", verdict), ("alike in", shown(&self.by.join("; ")))];
        if !self.unseen.is_empty() {
            lines.push(("not seen", shown(&self.unseen.join("; "))));
        }
        lines
    }

    /// A paragraph of a page.
    pub fn html(&self) -> String {
        let list = |list: &[String]| {
            let escaped: Vec<String> = list.iter().map(|it| escape(it)).collect();
            escaped.join("; ")
        };
        let class = if self.checked { "" } else { " class=\"warn\"" };
        let (runs, verdict, by) = (self.runs, self.verdict(), list(&self.by));
        let mut out = format!(
            "<p><span{class}>merged of {runs} runs, <b>{verdict}</b></span> · alike in: {by}"
        );
        if !self.unseen.is_empty() {
            out.push_str(&format!(" · not seen: {}", list(&self.unseen)));
        }
        out.push_str("</p>\n");
        out
    }
}
