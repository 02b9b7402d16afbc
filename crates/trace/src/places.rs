//! Numbers for the blocks of a program, and what they are called.
//!
//! Blocks of all units are counted through, in the order in which the units are
//! given: those are the places of a trace file of kind [`Kind::Blocks`].

use std::collections::BTreeMap;

use backtrail_abi::UnitId;
use backtrail_graph::Index;
use backtrail_ir::{Block, Func, Location, Unit};
use backtrail_plan::block_log::first_blocks;

use crate::block_log::{ProgramMap, Step};
use crate::file::{FunctionName, Kind, Legend, PlaceName};

/// The places of a program.
#[derive(Debug)]
pub struct ProgramPlaces<'a> {
    units: Vec<UnitPlaces<'a>>,
    by_id: BTreeMap<UnitId, usize>,
}

#[derive(Debug)]
struct UnitPlaces<'a> {
    id: UnitId,
    unit: &'a Unit,
    /// The first place of each function.
    firsts: Vec<u32>,
}

impl<'a> ProgramPlaces<'a> {
    /// The places of these units.
    pub fn new(units: impl IntoIterator<Item = (UnitId, &'a Unit)>) -> Self {
        let mut base = 0;
        let mut places = Vec::new();
        for (id, unit) in units {
            let firsts: Vec<u32> = first_blocks(unit).map(|(_, first)| base + first).collect();
            base += unit.functions.values().map(|it| it.blocks.len() as u32).sum::<u32>();
            places.push(UnitPlaces { id, unit, firsts });
        }
        let by_id = places.iter().enumerate().map(|(at, unit)| (unit.id, at)).collect();
        Self { units: places, by_id }
    }

    /// The place of a block of the unit at this position.
    pub fn place(&self, unit: usize, function: Func, block: Block) -> u32 {
        self.units[unit].firsts[function.position()] + block.position() as u32
    }

    /// The place of a logged block.
    pub fn place_of(&self, step: &Step) -> Option<u32> {
        Some(self.place(*self.by_id.get(&step.unit)?, step.func, step.block))
    }

    /// What all places are called.
    pub fn legend(&self, program: &str, build_id: &str) -> Legend {
        let map = ProgramMap::new(self.units.iter().map(|it| (it.id, it.unit)));
        let mut legend = Legend {
            program: program.to_owned(),
            build_id: build_id.to_owned(),
            kind: Kind::Blocks,
            functions: Vec::new(),
            files: Vec::new(),
            places: Vec::new(),
            incomplete: Vec::new(),
            inlined: BTreeMap::new(),
        };
        let mut files: BTreeMap<&str, u32> = BTreeMap::new();
        for UnitPlaces { id, unit, firsts } in &self.units {
            for (func, data) in unit.functions.iter() {
                let function = legend.functions.len() as u32;
                let name = unit.symbols[data.symbol].name.clone();
                legend.functions.push(FunctionName { name });
                for block in data.blocks.indices() {
                    let mut number = |location: &Location| {
                        let name = unit.files[location.file].as_str();
                        let number = *files.entry(name).or_insert_with(|| {
                            legend.files.push(name.to_owned());
                            legend.files.len() as u32 - 1
                        });
                        (number, location.line)
                    };
                    let mut lines = map.locations(&Step { unit: *id, func, block });
                    let first = lines.next().map(&mut number);
                    let (file, line) = (first.map(|it| it.0), first.map_or(0, |it| it.1));
                    let outer = lines.filter(|it| it.line > 0).map(number);
                    let outer: Vec<(u32, u32)> = outer.collect();
                    let label = block.position() as u64;
                    let place = firsts[func.position()] + block.position() as u32;
                    if !outer.is_empty() {
                        legend.inlined.insert(place, outer);
                    }
                    legend.places.push((place, PlaceName { function, label, file, line }));
                }
            }
        }
        legend
    }
}
