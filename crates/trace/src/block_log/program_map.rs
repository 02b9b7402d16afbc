//! From block numbers to functions, blocks and lines.
//!
//! One table per unit, filled when the unit is added: a step is then a lookup.
//! Cost: twelve bytes per block of the program.

use std::collections::BTreeMap;

use backtrail_abi::UnitId;
use backtrail_graph::Index;
use backtrail_ir::{Block, Func, Loc, Location, Unit};
use backtrail_plan::block_log::first_blocks;

use super::Event;
use crate::Error;

/// An executed block as the program model names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// The unit.
    pub unit: UnitId,
    /// The function.
    pub func: Func,
    /// The block.
    pub block: Block,
}

/// What one unit's block numbers stand for.
#[derive(Debug)]
struct UnitMap<'a> {
    unit: &'a Unit,
    blocks: Vec<(Func, Block)>,
    lines: Vec<Option<Loc>>,
}

/// The units of a program by id.
#[derive(Debug, Default)]
pub struct ProgramMap<'a> {
    units: BTreeMap<UnitId, UnitMap<'a>>,
}

impl<'a> ProgramMap<'a> {
    /// A map of these units.
    pub fn new(units: impl IntoIterator<Item = (UnitId, &'a Unit)>) -> Self {
        let units = units.into_iter().map(|(id, unit)| (id, UnitMap::new(unit))).collect();
        Self { units }
    }

    /// What an event stands for.
    pub fn step(&self, event: &Event) -> Result<Step, Error> {
        let Event { unit, block: number, .. } = *event;
        let map = self.units.get(&unit).ok_or(Error::MissingUnit(unit))?;
        match map.blocks.get(number as usize) {
            Some(&(func, block)) => Ok(Step { unit, func, block }),
            None => {
                let blocks = u32::try_from(map.blocks.len()).unwrap_or(u32::MAX);
                Err(Error::MissingBlock { unit, blocks, block: number })
            }
        }
    }

    /// The unit with this id.
    pub fn unit(&self, id: UnitId) -> Option<&'a Unit> {
        self.units.get(&id).map(|map| map.unit)
    }

    /// Where a step's block is in the source: the position of its first
    /// instruction that has a line, in the function it was written in, even if
    /// it was inlined.
    pub fn location(&self, step: &Step) -> Option<&'a Location> {
        self.locations(step).next()
    }

    /// The same, and behind it where that was inlined, from the innermost outwards.
    pub fn locations(&self, step: &Step) -> impl Iterator<Item = &'a Location> + use<'a> {
        let found = self.found(step);
        let unit = self.units.get(&step.unit).map(|map| map.unit);
        std::iter::successors(found, move |location| unit?.locations.get(location.inlined_at?))
    }

    fn found(&self, step: &Step) -> Option<&'a Location> {
        let map = self.units.get(&step.unit)?;
        let first = map.blocks.partition_point(|&(func, _)| func < step.func);
        let place = first.checked_add(step.block.position())?;
        (map.blocks.get(place) == Some(&(step.func, step.block)))
            .then(|| map.unit.locations.get(map.lines[place]?))?
    }
}

impl<'a> UnitMap<'a> {
    fn new(unit: &'a Unit) -> Self {
        let (mut blocks, mut lines) = (Vec::new(), Vec::new());
        for (func, first) in first_blocks(unit) {
            let function = &unit.functions[func];
            debug_assert_eq!(first as usize, blocks.len());
            for (block, data) in function.blocks.iter() {
                let has_line =
                    |loc: &Loc| unit.locations.get(*loc).is_some_and(|location| location.line != 0);
                let line = (data.first..data.end)
                    .filter_map(|inst| function.insts.get(Index::new(inst as usize))?.location)
                    .find(has_line);
                blocks.push((func, block));
                lines.push(line);
            }
        }
        Self { unit, blocks, lines }
    }
}
