//! The objects that hold a module's bytes: those of coverage, see
//! [`backtrail_abi::cover`], and those that say which variants of functions are on,
//! see [`backtrail_abi::tune`].

use backtrail_abi::{UnitId, cover, tune};
use backtrail_plan::UnitPlan;
use object::write::{Symbol, SymbolSection};
use object::{SectionKind, SymbolFlags, SymbolKind, SymbolScope};

use crate::generated_object;

/// The symbol of the bytes of coverage of a unit, or of a variant of it.
pub fn symbol(unit: [u8; 16], variant: u32) -> String {
    format!("{}{}", cover::UNIT_SYMBOL_PREFIX, UnitPlan::suffix(unit, variant))
}

/// The symbol of the bytes that say which variants of a unit are on.
pub fn state_symbol(unit: [u8; 16]) -> String {
    format!("{}{}", tune::UNIT_SYMBOL_PREFIX, UnitId(unit))
}

/// An object with the bytes of coverage that `plans` need; none if they need none.
pub fn object(plans: &[&UnitPlan]) -> Option<Vec<u8>> {
    let plans = plans.iter().flat_map(|plan| plan.with_variants());
    let bytes = plans.map(|plan| (symbol(plan.unit, plan.variant), plan.covered));
    arrays(bytes.collect(), b".bss.backtrail", SectionKind::UninitializedData)
}

/// An object with the bytes that say which variants are on, all 0; none if there
/// is nothing to say. They are data, not memory that is zeroed when a program
/// begins: the file is to say it.
pub fn state_object(plans: &[&UnitPlan]) -> Option<Vec<u8>> {
    let bytes = plans.iter().map(|plan| {
        let count = plan.switched.functions.len() as u32;
        (state_symbol(plan.unit), count)
    });
    arrays(bytes.collect(), b".data.backtrail", SectionKind::Data)
}

/// An object with arrays of so many bytes each, in one section.
fn arrays(arrays: Vec<(String, u32)>, section: &[u8], kind: SectionKind) -> Option<Vec<u8>> {
    let total: u64 = arrays.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
    if total == 0 {
        return None;
    }
    let mut object = generated_object::begin();
    let area = object.add_section(Vec::new(), section.to_vec(), kind);
    match kind {
        SectionKind::UninitializedData => object.append_section_bss(area, total, 64),
        _ => object.append_section_data(area, &vec![0; total as usize], 64),
    };
    let mut next = 0;
    for (name, bytes) in arrays.into_iter().filter(|(_, bytes)| *bytes > 0) {
        object.add_symbol(Symbol {
            name: name.into_bytes(),
            value: next,
            size: bytes.into(),
            kind: SymbolKind::Data,
            // Hidden: known to the whole module, and to nobody else.
            scope: SymbolScope::Linkage,
            weak: false,
            section: SymbolSection::Section(area),
            flags: SymbolFlags::None,
        });
        next += u64::from(bytes);
    }
    Some(object.write().expect("an object of one section can be written"))
}
