//! Inputs, made by rule: nothing is fetched, and every machine makes the same.

use std::fmt::Write as _;

/// Marsaglia's xorshift with 64 bits of state.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 16) % limit as u64) as usize
    }

    /// Below `limit`, the small ones more often, as words in a language.
    fn skewed(&mut self, limit: usize) -> usize {
        let most = self.below(limit) + 1;
        let most = self.below(most) + 1;
        self.below(most)
    }
}

fn word(random: &mut Random) -> String {
    let letters = b"etaoinshrdlucmfwypvbgk";
    let length = 2 + random.skewed(9);
    let mut letter = || {
        let most = random.below(letters.len()) + 1;
        char::from(letters[random.below(most)])
    };
    (0..length).map(|_| letter()).collect()
}

/// Words and phrases, the frequent ones first.
struct Language {
    words: Vec<String>,
    phrases: Vec<String>,
}

impl Language {
    fn new(random: &mut Random) -> Language {
        let words: Vec<String> = (0..8000).map(|_| word(random)).collect();
        let mut phrase = || {
            let length = 3 + random.below(4);
            let chosen: Vec<_> =
                (0..length).map(|_| words[random.skewed(words.len())].as_str()).collect();
            chosen.join(" ")
        };
        let phrases = (0..200).map(|_| phrase()).collect();
        Language { words, phrases }
    }

    /// Lines with words, phrases, numbers and punctuation.
    fn write(&self, random: &mut Random, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 100);
        let mut column = 0;
        while text.len() < bytes {
            let before = text.len();
            match random.below(16) {
                0 => text.push_str(&self.phrases[random.skewed(self.phrases.len())]),
                1 => {
                    let _ = write!(text, "{}", random.below(100_000));
                }
                _ => text.push_str(&self.words[random.skewed(self.words.len())]),
            }
            match random.below(12) {
                0 => text.push_str(", "),
                1 => text.push_str(". "),
                _ => text.push(' '),
            }
            column += text.len() - before;
            if column > 40 + random.below(40) {
                text.push('\n');
                column = 0;
            }
        }
        text.push('\n');
        text
    }
}

/// Text.
pub fn text(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    Language::new(&mut random).write(&mut random, bytes).into_bytes()
}

/// What compressors meet: text, records with counters and floating numbers,
/// runs, and noise, in pieces of 16 kB to 64 kB.
pub fn mixed(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let language = Language::new(&mut random);
    let mut data = Vec::with_capacity(bytes + (1 << 16));
    while data.len() < bytes {
        let piece = (1 << 14) + random.below(3 << 14);
        let end = data.len() + piece;
        match random.below(8) {
            0 => {
                let mut number = random.below(1 << 20) as u32;
                while data.len() < end {
                    number = number.wrapping_add(random.below(50) as u32);
                    data.extend(number.to_le_bytes());
                    data.extend((f64::from(number) * 0.25).to_le_bytes());
                    data.extend([random.skewed(4) as u8; 4]);
                }
            }
            1 => {
                while data.len() < end {
                    let run = 1 + random.skewed(300);
                    data.resize(data.len() + run, random.skewed(8) as u8);
                }
            }
            2 => data.extend((0..piece / 4).map(|_| random.next() as u8)),
            _ => data.extend(language.write(&mut random, piece).into_bytes()),
        }
    }
    data.truncate(bytes);
    data
}

/// A scanner for `words` keywords and some patterns, one of which looks back at
/// the last `back` letters: the automaton has two to that power of states.
pub fn scanner(seed: u64, words: usize, back: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text =
        String::from("%option noyywrap\nDIGIT [0-9]\nLETTER [a-zA-Z_]\n%x COMMENT\n%%\n");
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < words {
        let word = word(&mut random) + &word(&mut random);
        if seen.insert(word.clone()) {
            let number = seen.len();
            let _ = match random.below(6) {
                0 => writeln!(text, "\"{word}\"{{DIGIT}}+ return {number};"),
                1 => writeln!(text, "\"{word}\"(\"{}\")? return {number};", word.len()),
                _ => writeln!(text, "\"{word}\" return {number};"),
            };
        }
    }
    let _ = writeln!(text, "\"#\"[xy]*x[xyz]{{{back}}} return -4;");
    text.push_str(
        "{LETTER}({LETTER}|{DIGIT})* return -1;\n\
         {DIGIT}+(\".\"{DIGIT}*)?([eE][-+]?{DIGIT}+)? return -2;\n\
         \"/*\" BEGIN(COMMENT);\n<COMMENT>\"*/\" BEGIN(INITIAL);\n<COMMENT>.|\\n ;\n\
         \\\"([^\\\"\\\\\\n]|\\\\.)*\\\" return -3;\n[ \\t\\n]+ ;\n. return yytext[0];\n%%\n",
    );
    text.into_bytes()
}

/// A C source of `functions` functions.
pub fn source(seed: u64, functions: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text = String::from(
        "struct node { int key; struct node *left, *right; double weight; };\n\
         #define MAX(a, b) ((a) > (b) ? (a) : (b))\n#define SCALE 16\n",
    );
    for number in 0..functions {
        let _ = writeln!(text, "int f{number}(struct node *node, int a, unsigned b)\n{{");
        let _ = writeln!(text, "    int local{number} = a * {}, i;", random.below(1000));
        for _ in 0..2 + random.below(6) {
            let n = random.below(10_000);
            let callee = random.below(number.max(1));
            let local = format!("local{number}");
            let _ = match random.below(7) {
                0 => writeln!(
                    text,
                    "    for (i = 0; i < {n}; i++)\n        {local} += i * b ^ 0x{n:x};"
                ),
                1 => writeln!(
                    text,
                    "    if ({local} > {n} && node)\n        {local} -= node->key;\n    else\n        node = node->left;"
                ),
                2 => writeln!(
                    text,
                    "    switch (b % 5) {{\n    case 0: a += {n}; break;\n    case 3: a = MAX(a, {local}); /* fall */\n    default: b >>= 1;\n    }}"
                ),
                3 => writeln!(text, "    while (b > {n}) {{ b /= 3; a ^= {local} << 2; }}"),
                4 => writeln!(
                    text,
                    "    node->weight = node->weight * {n}.5 + (double){local} / SCALE;"
                ),
                5 if number > 0 => writeln!(text, "    {local} += f{callee}(node, a, b + {n});"),
                _ => writeln!(
                    text,
                    "    /* {} {} */ a = (a | {n}) - sizeof(struct node);",
                    word(&mut random),
                    word(&mut random)
                ),
            };
        }
        let _ = writeln!(text, "    return local{number} + a;\n}}\n");
    }
    text.into_bytes()
}

/// A `build.ninja` of `objects` objects, libraries of them, and programs.
pub fn manifest(seed: u64, objects: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text = String::from(
        "cflags = -O2 -Wall\nbuilddir = out\n\n\
         rule cc\n  command = cc $cflags $defines -MMD -MF $out.d -c $in -o $out\n  \
         description = CC $out\n  depfile = $out.d\n\n\
         rule ar\n  command = rm -f $out && ar crs $out $in\n\n\
         rule link\n  command = cc -o $out $in $libs\n\n",
    );
    let mut library = String::new();
    let mut libraries = 0;
    for number in 0..objects {
        let (folder, name) = (word(&mut random), word(&mut random));
        let object = format!("$builddir/{folder}/{name}{number}.o");
        let _ = writeln!(text, "build {object}: cc src/{folder}/{name}{number}.c | src/{folder}.h");
        if random.below(3) == 0 {
            let _ = writeln!(text, "  defines = -D{name}={number} -Isrc/{folder}");
        }
        let _ = write!(library, " {object}");
        if number % 40 == 39 {
            let _ = writeln!(text, "build $builddir/lib{libraries}.a: ar{library}");
            let _ = writeln!(
                text,
                "build $builddir/program{libraries}: link $builddir/lib{libraries}.a || $builddir/lib{}.a\n  libs = -lm",
                random.below(libraries.max(1))
            );
            library.clear();
            libraries += 1;
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_of_the_size_asked_for_and_differ_by_seed() {
        for make in [text, mixed] {
            let made = make(1, 100_000);
            assert!((100_000..100_400).contains(&made.len()), "{}", made.len());
            assert_eq!(made, make(1, 100_000));
            assert_ne!(made, make(2, 100_000));
        }
        assert_ne!(scanner(1, 50, 3), scanner(2, 50, 3));
    }

    #[test]
    fn a_source_has_its_functions_and_a_manifest_its_objects() {
        let text = String::from_utf8(source(3, 20)).unwrap();
        assert_eq!(text.matches("\nint f").count(), 20);
        let text = String::from_utf8(manifest(3, 80)).unwrap();
        assert_eq!((text.matches(": cc ").count(), text.matches(": ar ").count()), (80, 2));
    }
}
