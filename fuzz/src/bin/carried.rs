//! What executables carry: the unit section (0), the link section (1) or a side
//! file (2) as they are, the parts of a unit record (3), a link recipe (4). What
//! is read gives the same when it is written and read again.

#![no_main]

use std::path::Path;

use backtrail_build::carry::file::{SideFile, read_units};
use backtrail_build::carry::frame::{split_parts, unwrap_all};
use backtrail_build::carry::recipe::{self, InputKind, RecipeArg, decompress_native};
use backtrail_build::carry::{Recipe, UnitRecord, unit};
use backtrail_fuzz::{choose, chosen, container, fixtures, joined, parts};
use backtrail_machine::elf::Elf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: fixtures::write_if_asked(first_inputs), |data: &[u8]| {
    let Some((form, rest)) = choose(data, 5) else { return };
    match form {
        0 => check_units(rest),
        1 => check_recipes(rest),
        2 => check_side_file(rest),
        3 => {
            let [meta, bitcode, model] = parts(rest);
            let [meta, bitcode, model] = [meta, bitcode, model].map(container::compressed);
            let body = container::strings(&[&meta, &bitcode, &model]);
            check_units(&container::frame(unit::MAGIC, &body));
        }
        _ => check_recipes(&container::frame(recipe::MAGIC, &container::compressed(rest))),
    }
});

fn check_units(section: &[u8]) {
    let Ok(units) = read_units(Path::new("program"), section) else { return };
    let written: Vec<u8> = units.iter().flat_map(UnitRecord::to_bytes).collect();
    let again = read_units(Path::new("program"), &written).ok();
    assert!(again.as_ref() == Some(&units), "units change when they are written");
    for unit in &units {
        let _ = unit.bitcode();
        if let Ok(Some(model)) = unit.model() {
            let record = UnitRecord::new(unit.meta.clone(), None, Some(&model));
            assert!(record.model() == Ok(Some(model)), "a model changes when it is written");
        }
        assert!(unit.of_variant("log").id() == unit.id());
    }
}

fn check_recipes(section: &[u8]) {
    let Ok(bodies) = unwrap_all(recipe::MAGIC, section) else { return };
    for body in bodies {
        let Ok(recipe) = Recipe::from_body(body) else { continue };
        let written = recipe.to_bytes();
        let again = unwrap_all(recipe::MAGIC, &written).expect("it was just written");
        assert!(Recipe::from_body(again[0]) == Ok(recipe.clone()), "a recipe changes");
        // Who links with it looks up what it names.
        for argument in &recipe.arguments {
            if let RecipeArg::Input(input) | RecipeArg::Joined(_, input) = argument {
                assert!((*input as usize) < recipe.inputs.len());
            }
        }
        for input in &recipe.inputs {
            if let InputKind::Native { contents, .. } = &input.kind {
                let _ = decompress_native(contents);
            }
        }
    }
}

fn check_side_file(bytes: &[u8]) {
    let Ok(side) = SideFile::from_bytes(Path::new("side"), bytes) else { return };
    let again = SideFile::from_bytes(Path::new("side"), &side.to_bytes()).expect("just written");
    assert!(again.build_id == side.build_id && again.units == side.units);
    assert!(again.link == side.link);
    check_units(&side.units);
    check_recipes(&side.link);
}

fn first_inputs(from: &fixtures::Fixtures) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for name in ["program", "program.log", "program.profile"] {
        let bytes = from.read(name);
        let elf = Elf::parse(&bytes).expect("the fixture is a program");
        let section = |name| elf.section(name).expect("it can be read").expect("it is there");
        let units = section(backtrail_abi::UNIT_SECTION);
        let link = section(backtrail_abi::LINK_SECTION);
        for body in unwrap_all(unit::MAGIC, &units).expect("they are frames") {
            let parts = split_parts(body).expect("they are parts");
            let plain = |part: &[u8]| zstd::decode_all(part).unwrap_or_default();
            let (meta, model) = (plain(parts[0]), plain(parts[2]));
            inputs.push(chosen(3, &joined(&[&meta, b"BC\xc0\xde", &model])));
        }
        for body in unwrap_all(recipe::MAGIC, &link).expect("they are frames") {
            inputs.push(chosen(4, &zstd::decode_all(body).expect("it is compressed")));
        }
        let side = SideFile {
            build_id: vec![7; 20],
            units: units.clone(),
            link: link.clone(),
            frames: Vec::new(),
        };
        inputs.push(chosen(2, &side.to_bytes()));
        inputs.push(chosen(0, &units));
        inputs.push(chosen(1, &link));
    }
    inputs
}
