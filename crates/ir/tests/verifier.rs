//! Each rule of the verifier: a unit that breaks it, and the message.
//!
//! The units are the text of one that verifies, with one edit; what the text
//! form cannot say is done to the unit itself.

use backtrail_graph::{Index, IndexMap};
use backtrail_ir::text::parse;
use backtrail_ir::verify::verify;
use backtrail_ir::{Block, Comdat, File, Func, Function, Inst, Loc, Sym, SymbolKind, Unit};
use backtrail_testkit::random_unit::{Size, unit};
use proptest::prelude::*;

const DEMO: &str = include_str!("demo.unit");

#[track_caller]
fn check_text(old: &str, new: &str, expected: &str) {
    assert_eq!(DEMO.matches(old).count(), 1, "'{old}' must stand once in the unit");
    let found = parse(&DEMO.replace(old, new)).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(found, Err(expected.to_string()));
}

#[track_caller]
fn check(edit: impl FnOnce(&mut Unit), expected: &str) {
    let mut unit = parse(DEMO).unwrap();
    edit(&mut unit);
    assert_eq!(verify(&unit).map_err(|error| error.to_string()), Err(expected.to_string()));
}

fn main_function(unit: &mut Unit) -> &mut Function {
    &mut unit.functions[Func::new(0)]
}

#[test]
fn indices_are_in_range() {
    check_text(
        "comdat c0\n",
        "comdat c1\n",
        "s1 '_ZN4List4pushEi': c1 is out of range: there are 1",
    );
    check_text("refers [s1 s0]", "refers [s9]", "s5 'handlers': s9 is out of range: there are 9");
    check_text("weak to s0", "weak to s9", "s7 'start': s9 is out of range: there are 9");
    check_text("by s1", "by s9", "s8 'pick': s9 is out of range: there are 9");
    check_text("= file1:12", "= file2:12", "loc2: file2 is out of range: there are 2");
    check_text("at loc1\n", "at loc9\n", "loc2: loc9 is out of range: there are 3");
    check_text("2 at loc0", "2 at loc9", "f0 'main': loc9 is out of range: there are 3");
    check_text(
        "@loc1 ; printf",
        "@loc9 ; printf",
        "f0 'main': b2: i9: loc9 is out of range: there are 3",
    );
    check_text("-> b1, b4", "-> b1, b6", "f0 'main': b0: i2: b6 is out of range: there are 6");
    check_text("(b1: i4,", "(b6: i4,", "f0 'main': b2: i5: b6 is out of range: there are 6");
    check_text("call s2 (s4", "call s9 (s4", "f0 'main': b2: i9: s9 is out of range: there are 9");
    check_text(
        "intrinsic s3",
        "intrinsic s9",
        "f0 'main': b2: i8: s9 is out of range: there are 9",
    );
    check_text("(s4, i5)", "(s9, i5)", "f0 'main': b2: i9: s9 is out of range: there are 9");
    check_text("(s4, i5)", "(s4, i17)", "f0 'main': b2: i9: i17 is out of range: there are 17");
    check_text(
        "(i0, p1, 8",
        "(i0, p2, 8",
        "f0 'main': b2: i8: parameter p2 is out of range: there are 2",
    );
    check_text("expr [s0 s5]", "expr [s9]", "f0 'main': b5: i14: s9 is out of range: there are 9");
    check_text(
        "address s0 b4",
        "address s0 b6",
        "f0 'main': b5: i15: b6 is out of range: there are 6",
    );
    check_text(
        "address s0 b4",
        "address s9 b6",
        "f0 'main': b5: i15: s9 is out of range: there are 9",
    );
    check(
        |unit| unit.functions[Func::new(1)].symbol = Sym::new(9),
        "s1 '_ZN4List4pushEi': it names f1, whose symbol is s9",
    );
    check(
        |unit| unit.symbols[Sym::new(0)].kind = SymbolKind::Function(Func::new(2)),
        "s0 'main': f2 is out of range: there are 2",
    );
}

#[test]
fn symbols_and_functions_name_each_other() {
    check_text(
        "function f1 \"",
        "function f0 \"",
        "s1 '_ZN4List4pushEi': it names f0, whose symbol is s0",
    );
    check_text(
        "s8 = ifunc \"pick\" external by s1",
        "s8 = function f1 \"pick\" external",
        "s8 'pick': it names f1, whose symbol is s1",
    );
    check(
        |unit| unit.symbols[Sym::new(1)].kind = SymbolKind::Alias { target: None },
        "f1: its symbol s1 does not name it",
    );
    check(
        |unit| {
            unit.symbols = IndexMap::new();
        },
        "f0: s0 is out of range: there are 0",
    );
}

#[test]
fn linkage_fits_what_the_symbol_is() {
    check_text(
        "\"printf\" external",
        "\"printf\" internal",
        "s2 'printf': it is declared here and cannot be Internal",
    );
    check_text(
        "\"errno\" external",
        "\"errno\" common",
        "s6 'errno': it is declared here and cannot be Common",
    );
    check_text(
        "\"main\" external",
        "\"main\" extern_weak",
        "s0 'main': it is defined here and cannot be ExternWeak",
    );
    check_text(
        "\"main\" external",
        "\"main\" common",
        "s0 'main': it is defined here and cannot be Common",
    );
    check_text(
        "\"start\" weak",
        "\"start\" appending",
        "s7 'start': it is defined here and cannot be Appending",
    );
    check_text(
        "external variadic",
        "external comdat c0",
        "s2 'printf': it is not defined here and cannot be in a comdat group",
    );
    check_text(
        "internal constant",
        "internal hidden",
        "s4 '.str': it is internal and must have default visibility",
    );
}

#[test]
fn data_lists_what_it_refers_to_once() {
    check_text("refers [s1 s0]", "refers [s1 s0 s1]", "s5 'handlers': it refers to s1 twice");
    check_text(
        "thread_local size 4",
        "size 4 refers [s0]",
        "s6 'errno': it is not defined, and refers to something",
    );
}

#[test]
fn aliases_and_inlining_come_to_an_end() {
    check_text("weak to s0", "weak to s7", "s7: the alias leads back to itself");
    check(
        |unit| {
            unit.symbols[Sym::new(7)].kind = SymbolKind::Alias { target: Some(Sym::new(8)) };
            unit.symbols[Sym::new(8)].kind = SymbolKind::Alias { target: Some(Sym::new(7)) };
        },
        "s7: the alias leads back to itself",
    );
    check_text("at loc1\n", "at loc2\n", "loc2: it is inlined into itself");
    check_text("4:7 in \"main\"", "4:7 in \"main\" at loc2", "loc1: it is inlined into itself");
}

#[test]
fn blocks_cover_the_instructions() {
    let block = |unit: &mut Unit, number| {
        let function = main_function(unit);
        std::mem::replace(&mut function.blocks[Block::new(number)].end, 0)
    };
    check(
        |unit| {
            block(unit, 2);
        },
        "f0 'main': b2: it has no instruction",
    );
    check(
        |unit| main_function(unit).blocks[Block::new(2)].first = 6,
        "f0 'main': b2: it begins at i6, not at i5",
    );
    check(
        |unit| main_function(unit).blocks[Block::new(5)].end = u32::MAX,
        "f0 'main': b5: it ends at i4294967295, there are 17 instructions",
    );
    check(
        |unit| main_function(unit).blocks[Block::new(5)].end = 16,
        "f0 'main': i16: it is in no block",
    );
    check(|unit| main_function(unit).blocks = IndexMap::new(), "f0 'main': it has no block");
}

#[test]
fn instructions_cover_the_operands() {
    check(
        |unit| main_function(unit).insts[Inst::new(1)].operands = 0,
        "f0 'main': i1: its operands begin at 0, not at 1",
    );
    check(
        |unit| main_function(unit).insts[Inst::new(1)].operand_count = u32::MAX,
        "f0 'main': i1: 4294967295 operands are not there",
    );
    check(
        |unit| main_function(unit).operands.push(backtrail_ir::Value::Opaque),
        "f0 'main': operands from 26 belong to no instruction",
    );
}

#[test]
fn blocks_end_with_their_only_terminator() {
    check_text(
        "i10 return (0)",
        "i10 = compute add (0)",
        "f0 'main': b2: i10: the block does not end with a terminator",
    );
    check_text(
        "i6 = address offset 16 (p1, 2)",
        "i6 = jump",
        "f0 'main': b2: i6: a terminator before the end of its block",
    );
}

#[test]
fn successors_and_operands_are_as_many_as_the_operation_says() {
    check_text("-> b1, b4", "-> b1", "f0 'main': b0: i2: it has 1 successors instead of 2");
    check_text(
        "i16 unreachable",
        "i16 unreachable -> b1",
        "f0 'main': b5: i16: it has 1 successors instead of 0",
    );
    check_text(
        "i16 unreachable",
        "i16 asm_goto asm",
        "f0 'main': b5: i16: it has 0 successors instead of 1",
    );
    check_text(
        "i16 unreachable",
        "i16 switch (1)",
        "f0 'main': b5: i16: it has 0 successors instead of 1",
    );
    check_text(
        "compare (p0, 1)",
        "compare (p0)",
        "f0 'main': b0: i1: it has 1 operands instead of 2",
    );
    check_text(
        "return (0)",
        "return (0, 1)",
        "f0 'main': b2: i10: it has 2 operands instead of 0 to 1",
    );
    check_text(
        "atomic (p0, p1)",
        "atomic",
        "f1 '_ZN4List4pushEi': b0: i0: it has 0 operands instead of 1 to 3",
    );
    check_text(
        "offset 16 (p1, 2)",
        "offset 16",
        "f0 'main': b2: i6: it has 0 operands, at least 1 are needed",
    );
    check_text(
        "indirect (i0, -3, i3)",
        "indirect",
        "f0 'main': b1: i4: an indirect call needs its callee as an operand",
    );
}

#[test]
fn phis_have_one_value_per_edge_and_come_first() {
    check_text(
        "(b1: i4, b4: 0)",
        "(b1: i4)",
        "f0 'main': b2: i5: it has 1 values for 2 incoming edges",
    );
    check_text(
        "(b1: i4, b4: 0)",
        "(b1: i4, b1: 0)",
        "f0 'main': b2: i5: it has more values for b1 than edges from there",
    );
    check_text(
        "i9 = call s2 (s4, i5)",
        "i9 = phi (b1: i4, b4: 0)",
        "f0 'main': b2: i9: a phi behind other instructions",
    );
    // A block with two edges to another gives two values.
    check_text(
        "i14 = compute add (p0, expr [s0 s5])",
        "i14 = phi (b4: 1)",
        "f0 'main': b5: i14: it has 1 values for 2 incoming edges",
    );
    assert_eq!(
        parse(&DEMO.replace("compute add (p0, expr [s0 s5])", "phi (b4: 1, b4: 1)")).map(|_| ()),
        Ok(())
    );
}

#[test]
fn landing_pads_are_reached_by_unwinding_alone() {
    check_text(
        "b0:\n  i0 = alloca",
        "b0 landing_pad:\n  i0 = alloca",
        "f0 'main': b0: the entry cannot be a landing pad",
    );
    check_text(
        "-> b2, b3",
        "-> b2, b4",
        "f0 'main': b1: i4: it unwinds to b4, which is no landing pad",
    );
    check_text(
        "-> b1, b4",
        "-> b1, b3",
        "f0 'main': b0: i2: it goes to landing pad b3 without unwinding",
    );
    check_text(
        "b3 landing_pad:",
        "b3:",
        "f0 'main': b1: i4: it unwinds to b3, which is no landing pad",
    );
    check_text(
        "i11 = landing_pad",
        "i11 = select (1, 2, 3)",
        "f0 'main': b3: i11: a landing pad must begin with the instruction that says so",
    );
    check_text(
        "i14 = compute add (p0, expr [s0 s5])",
        "i14 = landing_pad",
        "f0 'main': b5: i14: the block is not marked as a landing pad",
    );
    check_text(
        "i9 = call s2 (s4, i5)",
        "i9 = landing_pad",
        "f0 'main': b2: i9: it must come first in its block",
    );
    // Funclets: unwinding that is not modelled.
    let funclets = DEMO.replace("invoke indirect (i0, -3, i3)", "other_terminator catchswitch");
    assert_eq!(
        parse(&funclets.replace("i11 = landing_pad", "i11 = compute cleanuppad")).map(|_| ()),
        Ok(())
    );
}

#[test]
fn operands_have_a_value() {
    check_text("(s4, i5)", "(s4, i7)", "f0 'main': b2: i9: operand i7 computes no value");
    check_text("(s4, i5)", "(s4, i10)", "f0 'main': b2: i9: operand i10 computes no value");
    check_text(
        "block_address s0 b4",
        "block_address s2 b4",
        "f0 'main': b5: i15: a block address of s2, which has no body here",
    );
}

#[test]
fn callees_can_be_called() {
    check_text("call s2 (s4", "call s4 (s4", "f0 'main': b2: i9: callee s4 is data");
    check_text("intrinsic s3", "intrinsic s2", "f0 'main': b2: i8: callee s2 is not an intrinsic");
    assert_eq!(parse(&DEMO.replace("call s2 (s4", "call s7 (s4")).map(|_| ()), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    /// Whatever the numbers, the verifier answers.
    #[test]
    fn any_numbers_are_safe_to_verify(seed: u64, edits in prop::collection::vec((any::<u64>(), prop_oneof![0u32..12, any::<u32>()]), 1..4)) {
        let mut unit = unit(seed, Size::SMALL);
        for (choice, number) in edits {
            edit(&mut unit, choice as usize, number);
        }
        // Either is fine; what verifies must be safe to use.
        if verify(&unit).is_ok() {
            for function in unit.functions.values() {
                function.acyclic_paths();
            }
            let text = backtrail_ir::text::print(&unit);
            prop_assert_eq!(parse(&text), Ok(unit));
        }
    }
}

/// Sets one number somewhere in the unit.
fn edit(unit: &mut Unit, choice: usize, number: u32) {
    fn pick<I: Index, T>(map: &mut IndexMap<I, T>, choice: usize) -> Option<&mut T> {
        let at = choice.checked_rem(map.len())?;
        Some(&mut map[I::new(at)])
    }
    let at = number as usize;
    let (field, rest) = (choice % 16, choice / 16);
    if field < 4 {
        if let (Some(symbol), 0..2) = (pick(&mut unit.symbols, rest), field) {
            symbol.comdat = Some(Comdat::new(at));
            symbol.kind = match rest % 3 {
                0 => SymbolKind::Function(Func::new(at)),
                1 => SymbolKind::Alias { target: Some(Sym::new(at)) },
                _ => SymbolKind::IFunc { resolver: Some(Sym::new(at)) },
            };
        } else if let Some(location) = pick(&mut unit.locations, rest) {
            if field == 2 {
                location.inlined_at = Some(Loc::new(at));
            } else {
                location.file = File::new(at);
            }
        }
        return;
    }
    let Some(function) = pick(&mut unit.functions, rest) else { return };
    match field {
        4 => function.symbol = Sym::new(at),
        5 => function.location = Some(Loc::new(at)),
        6 => function.parameters = number,
        7..12 => {
            let Some(block) = pick(&mut function.blocks, rest / 7) else { return };
            match field {
                7 => block.first = number,
                8 => block.end = number,
                9 => block.successors.push(Block::new(at)),
                10 => block.landing_pad = !block.landing_pad,
                _ => block.successors.iter_mut().for_each(|to| *to = Block::new(at)),
            }
        }
        _ => {
            let Some(inst) = pick(&mut function.insts, rest / 7) else { return };
            match field {
                12 => inst.operands = number,
                13 => inst.operand_count = number,
                14 => inst.location = Some(Loc::new(at)),
                _ => inst.op = backtrail_ir::Op::Phi { from: vec![Block::new(at)] },
            }
        }
    }
}
