//! Weights from the first partial trace (`--weights first`): a run that observes one
//! part of what a plan by guesses spreads over all runs tells how often its witnesses
//! are passed, and so, about, how often everything in their functions is.
//!
//! Where a witness is, its count is known. Other places of its function are thought to
//! be passed in the proportions that were guessed, scaled so that the witnesses of the
//! function are passed as often as they were; where no witness is in a function, the
//! scale is that of the whole program. What is planned by that is verified like any
//! plan, so weights that are far from the truth cost hits, and nothing else.

use std::collections::BTreeMap;

use backtrail_abi::UnitId;
use backtrail_graph::Index as _;
use backtrail_trace::distribution::Profile;
use backtrail_trace::icfg::{Icfg, Place, PlaceKind, Routine};
use backtrail_trace::probes::UnitMeaning;

use super::merge::RunRecords;

/// How `--weights` asks for it.
pub const FIRST: &str = "first";

/// How often each witness of a profile was passed in a run, by all threads of all
/// processes.
pub fn count(
    records: &RunRecords,
    meanings: &BTreeMap<UnitId, UnitMeaning>,
    profile: &Profile,
) -> anyhow::Result<Vec<u64>> {
    let mut counts = vec![0u64; profile.places().len()];
    records.each_event(meanings, |event| counts[event.witness.position()] += 1)?;
    Ok(counts)
}

/// The weights of all places, from those that were guessed and what was counted.
pub fn scaled(icfg: &Icfg, guessed: &[u64], profile: &Profile, counts: &[u64]) -> Vec<u64> {
    let routine = |place: Place| -> Routine {
        let node = match icfg.place(place) {
            PlaceKind::Node(node) => node,
            PlaceKind::Way(way) => icfg.ways()[way].from,
        };
        icfg.nodes()[node].routine
    };
    // By routine: how often its witnesses were passed, and were thought to be.
    let mut sums = vec![(0u128, 0u128); icfg.routines().len()];
    let mut whole = (0u128, 0u128);
    for (&place, &count) in profile.places().iter().zip(counts) {
        let guess = guessed[place.position()].max(1);
        for sum in [&mut sums[routine(place).position()], &mut whole] {
            sum.0 += u128::from(count);
            sum.1 += u128::from(guess);
        }
    }
    let mut weights: Vec<u64> = (0..icfg.place_count())
        .map(|number| {
            let place = Place::new(number);
            let (counted, thought) = match sums[routine(place).position()] {
                (_, 0) => whole,
                sum => sum,
            };
            let weight = u128::from(guessed[number]) * counted / thought.max(1);
            u64::try_from(weight).unwrap_or(u64::MAX)
        })
        .collect();
    for (&place, &count) in profile.places().iter().zip(counts) {
        weights[place.position()] = count;
    }
    weights
}
