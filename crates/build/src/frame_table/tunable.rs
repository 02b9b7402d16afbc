//! Finds springboards and their variants in a linked file.
//!
//! The compiler described them as it does all functions, so nothing here depends on
//! symbols but where the bytes are that say what is on. A springboard that the
//! linker left out, or that it made one with another, is not listed; of variants that
//! it made one, one is.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_abi::tune::{JUMP, LANDING};
use backtrail_plan::SwitchedFunction;
use backtrail_plan::frames::{CodeKind, CodeRun, FunctionCode, TunedFunction};
use backtrail_plan::tuning::{TunableFunction, TuneTable, Variant};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSegment as _};

use super::PlannedRecords;

/// The most bytes before the jump of a springboard.
const MOST_BEFORE: usize = LANDING.len() + 16;

/// What can be switched in `file`, whose code was `found`. That of springboards
/// comes before their activations have frames. `state` says where the bytes of a
/// unit are.
pub fn find(
    planned: &[PlannedRecords],
    found: &mut [FunctionCode],
    file: &ElfFile64<'_>,
    state: &dyn Fn([u8; 16]) -> Option<u64>,
) -> (Vec<TunedFunction>, TuneTable) {
    // The entry of a function comes before parts of it that were put elsewhere.
    let mut starts: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for code in &*found {
        starts.entry((code.unit, code.function)).or_insert(code.start);
    }
    let places: BTreeMap<([u8; 16], u32), u32> =
        planned.iter().zip(0..).map(|(it, place)| ((it.unit, it.variant), place)).collect();
    let (mut tuned, mut functions) = (Vec::new(), Vec::new());
    let (mut springboards, mut jumps) = (BTreeSet::new(), BTreeSet::new());
    for (unit, unit_place) in planned.iter().zip(0u32..) {
        for (number, wanted) in unit.switched.iter().enumerate() {
            let function = function_number(wanted);
            springboards.insert((unit_place, function));
            let Some(&start) = starts.get(&(unit_place, function)) else { continue };
            // Those that the linker made one with another are not described.
            let known = wanted.variants.iter().filter_map(|(variant, scheme)| {
                let place = *places.get(&(unit.unit, *variant))?;
                let start = *starts.get(&(place, function))?;
                Some((place, Variant { scheme: scheme.clone(), start }))
            });
            let (variants, entries): (Vec<u32>, Vec<Variant>) = known.unzip();
            if variants.len() < 2 {
                continue;
            }
            let Some(state) = state(unit.unit).map(|first| first + number as u64) else { continue };
            let mut tunable = TunableFunction {
                name: wanted.name.clone(),
                unit: unit.name.clone(),
                distance: 0,
                state,
                variants: entries,
            };
            if !find_jump(file, start, &mut tunable) || !jumps.insert(tunable.distance) {
                continue;
            }
            functions.push(tunable);
            tuned.push(TunedFunction { unit: unit_place, function, state, variants });
        }
    }
    for code in found.iter_mut().filter(|it| springboards.contains(&(it.unit, it.function))) {
        let bytes = code.bytes().min(u32::MAX.into()) as u32;
        code.runs = vec![CodeRun { bytes, kind: CodeKind::Frame }];
    }
    functions.sort_by_key(|it| it.distance);
    (tuned, TuneTable { functions })
}

fn function_number(wanted: &SwitchedFunction) -> u32 {
    backtrail_ir::Index::position(wanted.function) as u32
}

/// Finds the jump to the first variant, from where the springboard starts; whether
/// it is there.
fn find_jump(file: &ElfFile64<'_>, start: u64, function: &mut TunableFunction) -> bool {
    let data = |before: usize, bytes: u64| {
        let at = start.checked_add(before as u64)?;
        file.segments().find_map(|it| it.data_range(at, bytes).ok().flatten())
    };
    for before in 0..=MOST_BEFORE {
        let Some(&[JUMP, ref distance @ ..]) = data(before, 5) else { continue };
        let Ok(distance) = <[u8; 4]>::try_from(distance) else { continue };
        function.distance = start + before as u64 + 1;
        if function.reached(i32::from_le_bytes(distance)) == Some(0) {
            return true;
        }
    }
    false
}
