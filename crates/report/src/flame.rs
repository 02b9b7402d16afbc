//! A call tree as a page: one bar for each stack of functions, as wide as the
//! blocks that were executed there, callers above those they called.
//!
//! The page is complete in itself. A click makes a bar as wide as the page; the
//! field at the top marks the functions whose names have a text in them.

use serde::Serialize;

use crate::html::escape;

/// A function in a call tree.
#[derive(Debug, Clone, Serialize)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// The caller, by position; its own for a root.
    pub parent: u32,
    /// How often it was called from there.
    pub calls: u64,
    /// Blocks executed in it.
    pub own: u64,
    /// Blocks executed in it and below.
    pub total: u64,
}

const STYLE: &str = include_str!("flame/style.css");
const SCRIPT: &str = include_str!("flame/script.js");

/// The page of a tree, callers before those they called.
pub fn render(title: &str, notes: &[String], bars: &[Bar]) -> String {
    let data = serde_json::to_string(bars).expect("plain data can always be written");
    // Within a script nothing may end it.
    let data = data.replace("</", "<\\/");
    let notes: String =
        notes.iter().map(|note| format!("<p class=\"note\">{}</p>\n", escape(note))).collect();
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{title}: call tree</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>{title}</h1>\
         <input id=\"search\" type=\"search\" placeholder=\"function\" aria-label=\"function\">\
         <button id=\"back\">whole trace</button><span id=\"found\"></span></header>\n{notes}\
         <div id=\"chart\" role=\"tree\"></div>\n<p id=\"detail\"></p>\n\
         <script>\nconst bars = {data};\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_end_the_script() {
        let bar = Bar { name: "</script>".into(), parent: 0, calls: 1, own: 1, total: 1 };
        let page = render("a<b\x1b", &["x & y".into()], &[bar]);
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(page.contains("<h1>a&lt;b\\u{1b}</h1>") && page.contains("x &amp; y"));
    }
}
