//! Response files: words of a command line that stand in a file, as GNU tools
//! and clang read them.

use std::path::Path;

use crate::Error;

/// Files that name each other end somewhere.
const DEPTH: usize = 8;

/// `word` as a response file spells it.
pub fn quote(word: &str) -> String {
    if word.is_empty() {
        return "\"\"".to_owned();
    }
    let mut quoted = String::with_capacity(word.len());
    for character in word.chars() {
        if character.is_whitespace() || "\"'\\".contains(character) {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted
}

/// The words of a response file.
pub fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (_, Some(open)) if character == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (_, None) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// `words` with each `@FILE` replaced by the words in the file, if there is one.
pub fn expand(words: &[String]) -> Result<Vec<String>, Error> {
    let mut expanded = words.to_vec();
    for _ in 0..DEPTH {
        let mut any = false;
        let mut next = Vec::with_capacity(expanded.len());
        for word in expanded {
            match word.strip_prefix('@').map(Path::new).filter(|path| path.is_file()) {
                Some(path) => {
                    any = true;
                    next.extend(split(&std::fs::read_to_string(path).map_err(Error::read(path))?));
                }
                None => next.push(word),
            }
        }
        expanded = next;
        if !any {
            break;
        }
    }
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        assert_eq!(split("a\nb\\ c \"d e\" 'f\"g' \"\"\n"), ["a", "b c", "d e", "f\"g", ""]);
        let words = ["with space", "back\\slash", "quote\"s'", "", "line\nbreak"];
        let text: String = words.iter().map(|word| quote(word) + "\n").collect();
        assert_eq!(split(&text), words);
    }

    #[test]
    fn files_may_name_files() {
        let folder = tempfile::tempdir().unwrap();
        let [outer, inner] = ["outer", "inner"].map(|name| folder.path().join(name));
        std::fs::write(&inner, "b 'c d'").unwrap();
        std::fs::write(&outer, format!("a @{} @nowhere", inner.display())).unwrap();
        let words = ["-o".to_owned(), format!("@{}", outer.display())];
        assert_eq!(expand(&words).unwrap(), ["-o", "a", "b", "c d", "@nowhere"]);
        // A file that names itself does not hang us.
        std::fs::write(&inner, format!("@{}", inner.display())).unwrap();
        assert_eq!(expand(&[format!("@{}", inner.display())]).unwrap().len(), 1);
    }
}
