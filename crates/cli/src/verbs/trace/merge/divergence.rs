//! Where runs diverged, in words: functions, blocks and lines, and what came instead.

use backtrail_graph::Index as _;
use backtrail_ir::{Block, Func, Unit};
use backtrail_trace::icfg::{Node, PlaceKind, Role, Routine};
use backtrail_trace::rebuild::Divergence;

use super::Merge;
use crate::own_code::told_by;
use crate::style::{counted, demangle};

impl Merge<'_> {
    /// Where partial traces cease to agree, and what there is instead.
    pub(super) fn what_differs(&self, divergence: &Divergence) -> String {
        let Divergence { position, node, profile, found, why, .. } = *divergence;
        let name = self.name(node);
        let run = match profile {
            Some(profile) if self.plan.profiles.len() > 1 => format!("run {}", profile + 1),
            _ => "the run".to_owned(),
        };
        let next = profile.map(|profile| match found {
            Some(found) => {
                let place = self.plan.profiles[profile as usize].places()[found.position()];
                format!(": {run} has {} next", self.place_name(self.graph.icfg.place(place)))
            }
            None => format!(": {run} is at its end"),
        });
        let after = counted(position, "step");
        format!("{name}, after {after}{}, and {why}", next.unwrap_or_default())
    }

    /// A place as people know it.
    fn place_name(&self, place: PlaceKind) -> String {
        match place {
            PlaceKind::Node(node) => self.name(node),
            PlaceKind::Way(way) => {
                format!("a way on from {}", self.name(self.graph.icfg.ways()[way].from))
            }
        }
    }

    /// A node as people know it.
    pub(super) fn name(&self, node: Node) -> String {
        let icfg = &self.graph.icfg;
        let routine: Routine = icfg.nodes()[node].routine;
        let Some((object, func)) = self.graph.functions[routine] else {
            return "the start of the program".to_owned();
        };
        let Some(unit) = self.program.unit(object) else { return node.to_string() };
        let function = demangle(&unit.symbols[unit.functions[func].symbol].name);
        match icfg.nodes()[node].role {
            Role::Block(block) => {
                let (_, _, block) = self.graph.blocks[block as usize];
                let line = line(unit, func, block).unwrap_or_default();
                format!("{block} of {function}{line}")
            }
            Role::Piece | Role::Hub => format!("a call in {function}"),
        }
    }
}

/// The line by which a block is told, if it has one.
fn line(unit: &Unit, function: Func, block: Block) -> Option<String> {
    let body = &unit.functions[function];
    let positions = body.blocks[block].insts().filter_map(|inst| body.insts[inst].location);
    let first = positions.into_iter().find(|&at| unit.locations[at].line > 0)?;
    let told = &unit.locations[told_by(unit, first)];
    Some(format!(" ({}:{})", unit.files[told.file], told.line))
}
