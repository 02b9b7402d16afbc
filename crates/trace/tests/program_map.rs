//! From events to functions, blocks and lines.

use backtrail_abi::UnitId;
use backtrail_graph::Index;
use backtrail_ir::{
    Block, BlockData, File, Func, Function, Inst, InstData, Linkage, Loc, Location, Op, Sym,
    Symbol, SymbolKind, Traits, Unit, Visibility,
};
use backtrail_trace::Error;
use backtrail_trace::block_log::{Event, ProgramMap, Step};

/// A unit whose functions have blocks with one instruction per given line;
/// `None` is an instruction without a position.
fn unit(functions: &[&[&[Option<u32>]]]) -> Unit {
    let mut unit = Unit::default();
    let file: File = unit.files.push("a.c".into());
    for blocks in functions {
        let symbol: Sym = unit.symbols.push(Symbol {
            name: "f".into(),
            kind: SymbolKind::ExternalFunction(Traits::default()),
            linkage: Linkage::External,
            visibility: Visibility::Default,
            comdat: None,
            thread_local: false,
        });
        let mut function = Function {
            symbol,
            parameters: 0,
            traits: Traits::default(),
            location: None,
            blocks: Default::default(),
            insts: Default::default(),
            operands: Vec::new(),
        };
        for lines in *blocks {
            let first = function.insts.len() as u32;
            for line in *lines {
                let location: Option<Loc> = line.map(|line| {
                    unit.locations.push(Location {
                        file,
                        line,
                        column: 0,
                        scope_line: 0,
                        scope: "f".into(),
                        inlined_at: None,
                    })
                });
                let _: Inst = function.insts.push(InstData {
                    op: Op::Unreachable,
                    operands: 0,
                    operand_count: 0,
                    location,
                });
            }
            let end = function.insts.len() as u32;
            let _: Block = function.blocks.push(BlockData {
                first,
                end,
                successors: Vec::new(),
                landing_pad: false,
            });
        }
        let _: Func = unit.functions.push(function);
    }
    unit
}

const ONE: UnitId = UnitId([1; 16]);
const TWO: UnitId = UnitId([2; 16]);

fn event(unit: UnitId, block: u32) -> Event {
    Event { number: 0, unit, block }
}

#[test]
fn blocks_are_counted_through_all_functions() {
    let one = unit(&[
        &[&[Some(3)], &[None, Some(0), Some(5), Some(4)]],
        &[],
        &[&[None], &[Some(0)], &[Some(9)]],
    ]);
    let two = unit(&[&[&[Some(77)]]]);
    let map = ProgramMap::new([(ONE, &one), (TWO, &two)]);
    let expected = [(0, 0, Some(3)), (0, 1, Some(5)), (2, 0, None), (2, 1, None), (2, 2, Some(9))];
    for (number, (func, block, line)) in (0..).zip(expected) {
        let step = map.step(&event(ONE, number)).unwrap();
        assert_eq!(step, Step { unit: ONE, func: Func::new(func), block: Block::new(block) });
        assert_eq!(map.location(&step).map(|location| location.line), line);
    }
    let step = map.step(&event(TWO, 0)).unwrap();
    assert_eq!(map.location(&step).map(|location| location.line), Some(77));
    assert_eq!(map.unit(TWO), Some(&two));
}

#[test]
fn what_the_program_does_not_have_is_missing() {
    let one = unit(&[&[&[Some(3)]]]);
    let map = ProgramMap::new([(ONE, &one)]);
    assert!(matches!(map.step(&event(TWO, 0)), Err(Error::MissingUnit(TWO))));
    let error = map.step(&event(ONE, 1)).unwrap_err();
    assert!(matches!(error, Error::MissingBlock { unit: ONE, blocks: 1, block: 1 }));
    let nowhere = |func, block| Step { unit: ONE, func: Func::new(func), block: Block::new(block) };
    assert!(map.location(&nowhere(0, 1)).is_none());
    assert!(map.location(&nowhere(1, 0)).is_none());
    assert!(map.location(&Step { unit: TWO, ..nowhere(0, 0) }).is_none());
}
