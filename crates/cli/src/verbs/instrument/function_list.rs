//! Lists of functions: those to trace, as somebody wrote them down or as earlier
//! crashes suggest.

use std::collections::BTreeSet;
use std::path::Path;

use backtrail_build::Error;
use backtrail_foreign::file::read_list;
use serde_json::Value;

use crate::exit::Unreadable;

/// The functions that a file names: one on each line, or those on the stacks of
/// what `backtrail autopsy --json` wrote, be it one document or one on each line.
pub fn read(path: &Path) -> anyhow::Result<Vec<String>> {
    let text = read_list(path).map_err(Error::read(path))?;
    if text.trim_start().starts_with('{') {
        let mut found = BTreeSet::new();
        for document in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            let document = document
                .map_err(|error| Unreadable(format!("{}: no JSON: {error}", path.display())))?;
            let schema = document["schema"].as_str().unwrap_or_default();
            if !schema.starts_with("backtrail.autopsy/") {
                anyhow::bail!(Unreadable(format!(
                    "{}: its schema is {schema:?}, not that of `backtrail autopsy --json`",
                    path.display()
                )));
            }
            found.extend(on_stacks(&document));
        }
        return Ok(found.into_iter().collect());
    }
    Ok(from_lines(&text))
}

fn from_lines(text: &str) -> Vec<String> {
    let names = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The functions whose frames were on the stack of a thread that crashed.
fn on_stacks(document: &Value) -> impl Iterator<Item = String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let threads = list(&document["threads"]).into_iter();
    let crashed = threads.filter(|thread| thread["crashed"] == Value::Bool(true));
    let frames = crashed.flat_map(move |thread| list(&thread["frames"]));
    // What was inlined has no frame of its own.
    let own = frames.filter(|frame| frame["inlined"] != Value::Bool(true));
    own.filter_map(|frame| frame["function"].as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_comments() {
        assert_eq!(from_lines("a\n# b\n\n  c d  # e\n"), ["a", "c d"]);
    }

    #[test]
    fn functions_on_the_stack_that_crashed() {
        let frame =
            |name: &str, inlined: bool| serde_json::json!({ "function": name, "inlined": inlined });
        let document = serde_json::json!({ "threads": [
            { "crashed": true, "frames": [frame("f", false), frame("g", true), frame("main", false)] },
            { "crashed": false, "frames": [frame("other", false)] },
            { "crashed": true, "frames": [{ "function": null }] },
        ] });
        assert_eq!(on_stacks(&document).collect::<Vec<_>>(), ["f", "main"]);
    }
}
