//! What every page needs.

use backtrail_foreign::text::shown;

/// Text as it may stand in a page, in an attribute or between tags.
pub fn escape(text: &str) -> String {
    let mut out = String::new();
    for letter in shown(text).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
    out
}

/// Data as it may stand in a script: no tag begins in it.
pub fn escape_json(data: &serde_json::Value) -> String {
    data.to_string().replace('<', "\\u003c")
}
