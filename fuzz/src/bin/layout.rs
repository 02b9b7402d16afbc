//! The layout of counters, as a variant has it, with the models of units that
//! do not change: what it says of counters may be anything, and decoding them
//! gives a profile that can be written, or an error.

#![no_main]

use std::sync::LazyLock;

use backtrail_abi::UnitId;
use backtrail_fuzz::fixtures;
use backtrail_ir::Unit;
use backtrail_plan::counters::Layout;
use backtrail_profile::decode::{Counters, Decoder, Origin};
use backtrail_profile::file::write_profile;
use backtrail_profile::skeleton::Module;
use backtrail_profile::unit_plan::{Choice, UnitMeaning, plan_module};
use backtrail_testkit::random_unit::{self, Size};
use libfuzzer_sys::fuzz_target;

/// Larger areas are not tried.
const LARGEST: u64 = 1 << 16;

const ID: [u8; 16] = [9; 16];

static UNITS: LazyLock<Vec<(UnitId, Unit)>> = LazyLock::new(|| {
    let size = Size { functions: 2, blocks: 5, insts: 2 };
    let unit = |seed: u8| (UnitId([seed; 16]), random_unit::unit(seed.into(), size));
    (1..4).map(unit).collect()
});

fuzz_target!(init: fixtures::write_if_asked(first_inputs), |data: &[u8]| {
    let Ok(layout) = postcard::from_bytes::<Layout>(data) else { return };
    for unit in &layout.units {
        if let Some(meaning) = UnitMeaning::from_bytes(&unit.meaning) {
            assert_eq!(UnitMeaning::from_bytes(&meaning.to_bytes()), Some(meaning));
        }
    }
    let bytes = layout.bytes.min(LARGEST);
    let units = UNITS.iter().map(|(id, unit)| (*id, unit)).collect();
    let surroundings = Default::default();
    let module = Module { id: ID, layout, units, surroundings };
    let mut decoder = Decoder::new("program", "00", &[module]);
    let area: Vec<u8> = (0..bytes).map(|at| if at % 8 == 0 { (at / 8) as u8 } else { 0 }).collect();
    if decoder.add_process(&[Counters { layout: ID, area: &area }], Origin::Started, None).is_err() {
        return;
    }
    if let Ok(profile) = decoder.finish() {
        let _ = write_profile(&profile);
    }
});

fn first_inputs(_: &fixtures::Fixtures) -> Vec<Vec<u8>> {
    let units: Vec<_> = UNITS.iter().map(|(id, unit)| (id.0, unit)).collect();
    let layouts = [1, 4, 64, 1 << 12].map(|limit| {
        let choice = Choice {
            wants: &|_| true,
            limit,
            weights: None,
            surroundings: None,
        };
        let planned = plan_module(&units, &choice).into_iter();
        Layout::new(planned.map(|(plan, meaning)| (plan.unit, plan.counters, meaning.to_bytes())))
    });
    layouts.iter().map(|it| postcard::to_stdvec(it).expect("it is plain data")).collect()
}
