//! Symbol resolution: each rule by hand, and all together against the slow twin.

use std::collections::BTreeSet;
use std::fmt::Write;

use backtrail_ir::program::{
    Counts, Fate, Input, Link, Loaded, NativeDefinition, NativeObject, Program, Resolution,
    Strength, Surroundings, Wrapping,
};
use backtrail_ir::{Index, Unit, text};
use backtrail_testkit::{joined, random_link, slow_link};
use proptest::prelude::*;

/// A unit with these COMDAT groups and symbols, in the words of the text form;
/// functions get a body that returns.
fn unit(name: &str, comdats: &[&str], symbols: &[&str]) -> Unit {
    let mut text = format!("unit \"{name}\"\n");
    for (number, comdat) in comdats.iter().enumerate() {
        writeln!(text, "c{number} = comdat \"{comdat}\"").unwrap();
    }
    let mut bodies = String::new();
    let mut functions = 0;
    for (number, symbol) in symbols.iter().enumerate() {
        match symbol.strip_prefix("function ") {
            Some(rest) => {
                writeln!(text, "s{number} = function f{functions} {rest}").unwrap();
                let head = format!("function f{functions} s{number} parameters 0");
                writeln!(bodies, "{head} {{ b0: i0 return }}").unwrap();
                functions += 1;
            }
            None => writeln!(text, "s{number} = {symbol}").unwrap(),
        }
    }
    text::parse(&(text + &bodies)).unwrap()
}

/// What every symbol means, one line per unit: `NAME=MEANING`.
fn meanings(program: &Program<'_>) -> Vec<String> {
    let name_of = |object| program.inputs()[object].name();
    let describe = |(object, unit): (_, &Unit)| {
        let mut line = String::new();
        for (sym, symbol) in unit.symbols.iter() {
            let meaning = match program.resolve(object, sym) {
                Resolution::Function(object, func) => {
                    let unit = program.unit(object).unwrap();
                    format!("{}.{}", unit.name, unit.symbols[unit.functions[func].symbol].name)
                }
                Resolution::Data(object, sym) | Resolution::IFunc(object, sym) => {
                    format!(
                        "{}.{}",
                        name_of(object),
                        program.unit(object).unwrap().symbols[sym].name
                    )
                }
                Resolution::Native(object) => name_of(object).to_string(),
                other => format!("{other:?}").to_lowercase(),
            };
            let space = if line.is_empty() { "" } else { " " };
            write!(line, "{space}{}={meaning}", symbol.name).unwrap();
        }
        line
    };
    program.units().map(describe).collect()
}

#[track_caller]
fn check(units: &[Unit], expected: &[&str]) {
    let program = joined(units);
    assert_eq!(meanings(&program), expected);
    assert_eq!(program.duplicates(), []);
}

#[test]
fn strong_beats_common_beats_weak() {
    let user = unit("user", &[], &["declare \"f\" external", "declare_data \"v\" external"]);
    let weak = unit("weak", &[], &["function \"f\" weak", "data \"v\" weak size 4"]);
    let common = unit("common", &[], &["data \"v\" common size 4"]);
    let strong = unit("strong", &[], &["function \"f\" external", "data \"v\" external size 4"]);
    check(&[user.clone(), weak.clone()], &["f=weak.f v=weak.v", "f=weak.f v=weak.v"]);
    for units in
        [[user.clone(), weak.clone(), common.clone()], [user.clone(), common.clone(), weak.clone()]]
    {
        let program = joined(&units);
        assert_eq!(meanings(&program)[0], "f=weak.f v=common.v");
    }
    check(
        &[common, weak, strong, user],
        &["v=strong.v", "f=strong.f v=strong.v", "f=strong.f v=strong.v", "f=strong.f v=strong.v"],
    );
}

#[test]
fn the_first_weak_and_the_largest_common_count() {
    let one = unit("one", &[], &["function \"f\" weak", "data \"v\" common size 4"]);
    let two = unit("two", &[], &["function \"f\" weak_odr", "data \"v\" common size 8"]);
    let three = unit("three", &[], &["function \"f\" weak", "data \"v\" common size 8"]);
    check(&[one, two, three], &["f=one.f v=two.v"; 3]);
}

#[test]
fn of_a_group_the_first_copy_is_kept_whole() {
    let symbols = [
        "function \"f\" weak_odr comdat c0",
        "function \"help\" internal comdat c0",
        "function \"own\" internal",
        "alias \"g\" external to s0",
        "alias \"h\" internal to s1",
    ];
    let units = [unit("one", &["group"], &symbols), unit("two", &["group"], &symbols)];
    check(
        &units,
        &[
            "f=one.f help=one.help own=one.own g=one.f h=one.help",
            "f=one.f help=discarded own=two.own g=one.f h=discarded",
        ],
    );
    let program = joined(&units);
    let fates = |position| {
        let object = Index::new(position);
        (0..3).map(|func| program.fate(object, Index::new(func))).collect::<Vec<_>>()
    };
    assert_eq!(fates(0), [Fate::Kept; 3]);
    assert_eq!(fates(1), [Fate::Discarded, Fate::Discarded, Fate::Kept]);
}

#[test]
fn a_member_that_only_a_discarded_group_had_is_gone() {
    let one = unit("one", &["group"], &["function \"f\" weak_odr comdat c0"]);
    let two = unit(
        "two",
        &["group"],
        &["function \"f\" weak_odr comdat c0", "function \"g\" external comdat c0"],
    );
    let three = unit("three", &[], &["function \"g\" external"]);
    check(&[one.clone(), two.clone()], &["f=one.f", "f=one.f g=elsewhere"]);
    // Nor is it a duplicate of another's.
    check(&[one, two, three], &["f=one.f", "f=one.f g=three.g", "g=three.g"]);
}

#[test]
fn a_strong_symbol_overrides_a_kept_group_and_both_are_there() {
    let one = unit("one", &["f"], &["function \"f\" weak_odr comdat c0"]);
    let two = unit("two", &[], &["function \"f\" external"]);
    let units = [one, two];
    check(&units, &["f=two.f", "f=two.f"]);
    let program = joined(&units);
    assert_eq!(program.fate(Index::new(0), Index::new(0)), Fate::Overridden);
    assert!(program.kept(Index::new(0), Index::new(0)));
}

#[test]
fn an_alias_names_the_place_in_its_own_unit() {
    let one = unit("one", &[], &["function \"f\" weak", "alias \"g\" external to s0"]);
    let two = unit("two", &[], &["function \"f\" external", "declare \"g\" external"]);
    check(&[one, two], &["f=two.f g=one.f", "f=two.f g=one.f"]);
    let chain = unit(
        "chain",
        &[],
        &[
            "alias \"a\" external to s1",
            "alias \"b\" weak to s2",
            "ifunc \"c\" external by s3",
            "function \"d\" internal",
            "alias \"e\" external",
        ],
    );
    check(&[chain], &["a=chain.c b=chain.c c=chain.c d=chain.d e=chain.e"]);
}

#[test]
fn what_is_internal_or_without_a_name_is_seen_by_no_other() {
    let one = unit(
        "one",
        &[],
        &[
            "function \"f\" internal",
            "data \"\" external size 1",
            "data \"llvm.used\" appending size 8",
        ],
    );
    let two = unit(
        "two",
        &[],
        &[
            "declare \"f\" external",
            "data \"\" external size 1",
            "data \"llvm.used\" appending size 8",
        ],
    );
    check(
        &[one, two],
        &["f=one.f =one. llvm.used=one.llvm.used", "f=elsewhere =two. llvm.used=two.llvm.used"],
    );
}

#[test]
fn hidden_symbols_are_seen_within_the_program() {
    let one = unit("one", &[], &["function \"f\" external hidden"]);
    let two = unit("two", &[], &["declare \"f\" external", "declare \"f\" external hidden"]);
    check(&[one, two], &["f=one.f", "f=one.f f=one.f"]);
}

#[test]
fn what_nothing_defines_is_elsewhere_or_null() {
    let one = unit(
        "one",
        &[],
        &[
            "declare \"strong\" external",
            "declare \"weak\" extern_weak",
            "declare_data \"data\" extern_weak",
            "function \"inline\" available_externally",
            "declare \"llvm.trap\" external",
        ],
    );
    check(
        std::slice::from_ref(&one),
        &["strong=elsewhere weak=null data=null inline=elsewhere llvm.trap=elsewhere"],
    );
    assert_eq!(joined([&one]).fate(Index::new(0), Index::new(0)), Fate::NoCode);
    let two = unit("two", &[], &["function \"inline\" external", "function \"weak\" weak"]);
    check(
        &[one, two],
        &[
            "strong=elsewhere weak=two.weak data=null inline=two.inline llvm.trap=elsewhere",
            "inline=two.inline weak=two.weak",
        ],
    );
}

#[test]
fn two_strong_definitions_are_reported_and_the_first_counts() {
    let units = ["one", "two", "three"].map(|name| unit(name, &[], &["function \"f\" external"]));
    let program = joined(&units);
    assert_eq!(meanings(&program), ["f=one.f"; 3]);
    let messages: Vec<String> = program.duplicates().iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "'f' is defined in 'one' and again in 'two'",
            "'f' is defined in 'one' and again in 'three'"
        ]
    );
}

fn native(
    name: &str,
    shared: bool,
    definitions: &[(&str, Strength, Option<&str>)],
) -> Input<'static> {
    let definition = |&(name, strength, comdat): &(&str, Strength, Option<&str>)| {
        let comdat = comdat.map(str::to_string);
        NativeDefinition { name: name.to_string(), strength, comdat, means: None }
    };
    let definitions = definitions.iter().map(definition).collect();
    Input::Native(NativeObject {
        name: name.to_string(),
        shared,
        definitions,
        references: Vec::new(),
        system: false,
    })
}

#[test]
fn native_objects_take_part_and_shared_libraries_come_last() {
    let unit = unit(
        "unit",
        &["group"],
        &[
            "function \"weak\" weak",
            "function \"member\" weak_odr comdat c0",
            "declare \"extern\" extern_weak",
            "data \"common\" common size 4",
        ],
    );
    let all = [("weak", Strength::Strong, None), ("extern", Strength::Weak, None)];
    let group = [("member", Strength::Weak, Some("group")), ("common", Strength::Common(8), None)];
    let inputs = vec![
        native("first.o", false, &group),
        Input::Unit(&unit),
        native("lib.a(x.o)", false, &all),
    ];
    let program = Program::new(Link { inputs, ..Link::default() });
    assert_eq!(
        meanings(&program),
        ["weak=lib.a(x.o) member=first.o extern=lib.a(x.o) common=first.o"]
    );

    let inputs = vec![native("libx.so", true, &[&all[..], &group].concat()), Input::Unit(&unit)];
    let program = Program::new(Link { inputs, ..Link::default() });
    assert_eq!(
        meanings(&program),
        ["weak=unit.weak member=unit.member extern=libx.so common=unit.common"]
    );
}

/// What the symbols of a program and a library mean that show and preempt these names.
fn two_modules(shown: [&[&str]; 2], preemptible: &[&str]) -> Vec<String> {
    let both = ["function \"f\" external", "function \"g\" weak_odr comdat c0"];
    let main = unit("main", &["group"], &[both[0], both[1], "declare \"h\" external"]);
    let library = unit("library", &["group"], &[both[0], both[1], "function \"h\" weak"]);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let [of_main, of_library] = shown.map(names);
    let surroundings = |exports, preemptible| Surroundings {
        loaded: Loaded { exports, preemptible, has_unknown: false },
        ..Surroundings::default()
    };
    let of_main = surroundings(of_main, BTreeSet::new());
    let of_library = surroundings(of_library, names(preemptible));
    let program = Program::linked([(vec![&main], &of_main), (vec![&library], &of_library)]);
    assert_eq!(program.duplicates(), []);
    // All code is there.
    assert!(program.units().all(|(object, unit)| {
        unit.functions.indices().all(|function| program.kept(object, function))
    }));
    meanings(&program)
}

#[test]
fn modules_have_names_of_their_own() {
    let main = "f=main.f g=main.g h=library.h".to_owned();
    let own = "f=library.f g=library.g h=library.h".to_owned();
    let all = ["f", "g", "h"];
    // A library that hides all but one name.
    assert_eq!(two_modules([&["f", "g"], &["h"]], &[]), [main.clone(), own.clone()]);
    // One that shows all of them and means its own, as with -Bsymbolic.
    assert_eq!(two_modules([&["f", "g"], &all], &[]), [main.clone(), own.clone()]);
    let preempted = "f=main.f g=main.g h=library.h".to_owned();
    assert_eq!(two_modules([&["f", "g"], &all], &all), [main.clone(), preempted]);
    // The executable shows nothing, so nothing is preempted.
    assert_eq!(two_modules([&[], &all], &all), [main, own]);
    // What nobody shows is elsewhere.
    let main = "f=main.f g=main.g h=elsewhere".to_owned();
    assert_eq!(two_modules([&[], &[]], &[])[0], main);
}

#[test]
fn wrapped_references_go_to_the_wrapper() {
    let one = unit("one", &[], &["declare \"f\" external", "declare \"__real_f\" external"]);
    let two = unit(
        "two",
        &[],
        &["function \"f\" external", "function \"__wrap_f\" external", "declare \"g\" external"],
    );
    let check = |wrapping, own: &str| {
        let inputs = vec![Input::Unit(&one), Input::Unit(&two)];
        let wrapped = vec!["f".into(), "g".into()];
        let program = Program::new(Link { inputs, wrapped, wrapping });
        let second = format!("f={own} __wrap_f=two.__wrap_f g=elsewhere");
        assert_eq!(meanings(&program), ["f=two.__wrap_f __real_f=two.f", &second]);
        assert_eq!(program.fate(Index::new(1), Index::new(0)), Fate::Kept);
    };
    check(Wrapping::Foreign, "two.f");
    check(Wrapping::All, "two.__wrap_f");
}

#[test]
fn counts_add_up_what_is_in_the_program() {
    let demo = text::parse(include_str!("demo.unit")).unwrap();
    let other = unit(
        "other",
        &["_ZN4List4pushEi"],
        &[
            "function \"_ZN4List4pushEi\" weak_odr comdat c0",
            "function \"printf\" external",
            "function \"inline\" available_externally",
        ],
    );
    let counts = joined([&demo, &other]).counts();
    let mut expected = Counts {
        units: 2,
        functions: 3,
        overridden: 0,
        discarded: 1,
        without_code: 1,
        blocks: 8,
        // The two cases of the switch that go to b5 are one.
        edges: 6,
        insts: 20,
        ..Counts::default()
    };
    expected.calls.known = 2;
    expected.calls.indirect = 1;
    expected.calls.intrinsic = 1;
    assert_eq!(counts, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_link_is_resolved_as_the_slow_twin_does(seed: u64) {
        let units = random_link::units(seed);
        let link = random_link::link(seed, &units);
        let program = Program::new(link.clone());
        for (object, unit) in program.units() {
            for sym in unit.symbols.indices() {
                let expected = slow_link::resolve(&link, object.position(), sym);
                prop_assert_eq!(program.resolve(object, sym), expected, "{} {}", object, sym);
            }
            // Without wrapping, a function is kept if its symbol means it.
            for (func, function) in unit.functions.iter().filter(|_| link.wrapped.is_empty()) {
                let own = program.resolve(object, function.symbol) == Resolution::Function(object, func);
                prop_assert_eq!(own, program.fate(object, func) == Fate::Kept);
            }
        }
        let mut duplicates: Vec<String> = program.duplicates().iter().map(|it| it.name.clone()).collect();
        duplicates.sort();
        prop_assert_eq!(duplicates, slow_link::duplicates(&link));
    }

    /// An object that asks for one name tells which function has it.
    #[test]
    fn names_are_those_by_which_others_find_a_function(seed: u64) {
        let units = random_link::units(seed);
        let mut link = random_link::link(seed, &units);
        for input in &mut link.inputs {
            if let Input::Native(native) = input {
                native.references.clear();
            }
        }
        let program = Program::new(link.clone());
        let symbols = units.iter().flat_map(|unit| unit.symbols.values());
        let mut names: BTreeSet<&str> = symbols.map(|it| &*it.name).collect();
        names.extend(link.wrapped.iter().map(String::as_str));
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let mut asking = link.clone();
            let references = vec![name.to_owned()];
            asking.inputs.push(Input::Native(NativeObject { references, ..NativeObject::default() }));
            let asked = Program::new(asking);
            for (object, unit) in program.units() {
                for (func, function) in unit.functions.iter() {
                    let is_found = asked.by_name(object, func).object;
                    let has_it = program.names(object, func).any(|it| it == name);
                    // Its own name is told whether or not others find it by that.
                    if unit.symbols[function.symbol].name != name || is_found {
                        prop_assert_eq!(has_it, is_found, "{} of {} {}", name, object, func);
                    }
                }
            }
        }
    }
}
