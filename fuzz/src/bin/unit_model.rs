//! The serialised program model of a unit: bytes (0, and 1 without the magic
//! and version) and text (2). What is read verifies, and comes back the same
//! from both forms.

#![no_main]

use backtrail_fuzz::{choose, chosen, fixtures};
use backtrail_ir::encode::{MAGIC, VERSION, from_bytes, to_bytes};
use backtrail_ir::{Unit, text, verify};
use backtrail_testkit::random_unit::{self, Size};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: fixtures::write_if_asked(first_inputs), |data: &[u8]| {
    let Some((form, rest)) = choose(data, 3) else { return };
    let unit = match form {
        0 => from_bytes(rest),
        1 => from_bytes(&[&MAGIC[..], &VERSION.to_le_bytes(), rest].concat()),
        _ => match std::str::from_utf8(rest) {
            Ok(written) => text::parse(written),
            Err(_) => return,
        },
    };
    if let Ok(unit) = unit {
        check(&unit);
    }
});

fn check(unit: &Unit) {
    assert_eq!(verify::verify(unit), Ok(()));
    assert!(from_bytes(&to_bytes(unit)).as_ref() == Ok(unit), "the bytes lose something");
    assert!(text::parse(&text::print(unit)).as_ref() == Ok(unit), "the text loses something");
    for function in unit.functions.values() {
        function.acyclic_paths();
    }
}

fn first_inputs(from: &fixtures::Fixtures) -> Vec<Vec<u8>> {
    let mut units: Vec<Unit> = (0..30).map(|seed| random_unit::unit(seed, Size::SMALL)).collect();
    for model in from.all("models", "") {
        let Ok(written) = String::from_utf8(model) else { continue };
        units.push(text::parse(&written).expect("the fixture is a unit"));
    }
    let mut inputs = Vec::new();
    for (number, unit) in units.iter().enumerate() {
        let bytes = to_bytes(unit);
        inputs.push(chosen(1, &bytes[MAGIC.len() + 4..]));
        if number % 4 == 0 {
            inputs.push(chosen(0, &bytes));
        }
        inputs.push(chosen(2, text::print(unit).as_bytes()));
    }
    inputs
}
