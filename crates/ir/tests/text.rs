//! The text form: round trips, what it looks like, and texts with mistakes.

use backtrail_ir::text::{parse, print};
use backtrail_ir::verify::verify;
use backtrail_testkit::random_unit::{Size, unit};
use proptest::prelude::*;

const DEMO: &str = include_str!("demo.unit");

#[test]
fn printing_gives_what_people_read() {
    let unit = parse(DEMO).unwrap();
    assert_eq!(print(&unit), DEMO);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_unit_comes_back(seed: u64) {
        let unit = unit(seed, Size::SMALL);
        let text = print(&unit);
        prop_assert!(parse(&text) == Ok(unit), "{}", text);
    }

    /// Mistakes give an error or a unit that verifies.
    #[test]
    fn changed_texts_are_safe_to_read(seed: u64, at: prop::sample::Index, cut in 0usize..8, junk in "\\PC{0,3}|[ibsp(){}:;\"\\\\@=,>0-9\n-]{0,3}") {
        let text = print(&unit(seed, Size::SMALL));
        let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let from = at.index(starts.len());
        let to = starts.get(from + cut).copied().unwrap_or(text.len());
        let changed = format!("{}{junk}{}", &text[..starts[from]], &text[to..]);
        if let Ok(unit) = parse(&changed) {
            prop_assert_eq!(verify(&unit), Ok(()));
            prop_assert!(parse(&print(&unit)) == Ok(unit));
        }
    }
}

#[test]
fn every_prefix_of_a_text_is_safe_to_read() {
    let text = print(&unit(3, Size { functions: 2, blocks: 4, insts: 3 }));
    for (at, _) in text.char_indices() {
        let _ = parse(&text[..at]);
    }
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(parse(text).map_err(|error| error.to_string()), Err(expected.to_string()));
}

#[test]
fn mistakes_are_named_with_their_line() {
    check_error("", "line 1: expected 'unit', found the end of the text");
    check_error("unit \"a", "line 1: the string has no end");
    check_error("unit \"a\nb\"", "line 1: the string does not end on its line");
    check_error("unit \"\\x\"", "line 1: the string has an unknown escape");
    check_error("unit \"\\u{d800}\"", "line 1: the string has a bad \\u{...}");
    check_error("unit \"\" ; no\n\n s1 = data", "line 3: expected s0, found 's1'");
    check_error("unit \"\"\ns0 = data \"x\" odd", "line 2: expected a linkage, found 'odd'");
    check_error(
        "unit \"\"\ns0 = data \"x\" external size -1",
        "line 2: '-1' is not a number of type u64",
    );
    check_error(
        "unit \"\"\ns0 = declare \"x\" external naked naked",
        "line 2: 'naked' stands here twice",
    );
    check_error(
        "unit \"\"\ns0 = declare \"x\" external size 4",
        "line 2: expected the next file, comdat, symbol, location or function, in this order, found 'size'",
    );
    let function = "unit \"\"\ns0 = function f0 \"x\" external\nfunction f0 s0 parameters 0 {";
    check_error(&format!("{function}\nb1:"), "line 4: expected b0, found 'b1'");
    check_error(
        &format!("{function}\nb0:\ni0 frob"),
        "line 5: expected an operation, found 'frob'",
    );
    check_error(
        &format!("{function}\nb0:\ni0 jump -> b0 }} }}"),
        "line 5: expected the next file, comdat, symbol, location or function, in this order, found '}'",
    );
    // Well-formed, but not a unit: the verifier's message.
    check_error(
        &format!("{function}\nb0:\ni0 jump -> b7 }}"),
        "f0 'x': b0: i0: b7 is out of range: there are 1",
    );
}
