//! The sum of profiles of one build.
//!
//! Profiles add up if and only if they agree in what was counted where. The sum
//! depends on neither order nor grouping; it is incomplete for every reason any
//! of them is.

use crate::error::Error;
use crate::file::verify::verify;
use crate::model::{Function, Path, Profile};

/// The sum of `profiles`; `None` if there are none.
pub fn merge_all(profiles: impl IntoIterator<Item = Profile>) -> Result<Option<Profile>, Error> {
    let mut profiles = profiles.into_iter();
    let Some(first) = profiles.next() else { return Ok(None) };
    profiles.try_fold(first, |sum, profile| merge(sum, &profile)).map(Some)
}

/// The sum of two profiles.
pub fn merge(mut sum: Profile, other: &Profile) -> Result<Profile, Error> {
    if sum.layout != other.layout {
        return Err(Error::OtherBuild { ours: title(&sum), theirs: title(other) });
    }
    let agree = sum.files == other.files
        && sum.locations == other.locations
        && sum.functions.len() == other.functions.len()
        && sum.functions.iter().zip(&other.functions).all(|(a, b)| same_function(a, b));
    if !agree {
        let what = format!("{} says that it fits, and differs", title(other));
        return Err(Error::Invalid { what });
    }
    let overflow = |what: &str| Error::Overflow { what: what.to_owned() };
    let name = sum.program.clone();
    sum.processes = sum.processes.checked_add(other.processes).ok_or_else(|| overflow(&name))?;
    sum.incomplete.extend_from_slice(&other.incomplete);
    sum.incomplete.sort();
    sum.incomplete.dedup();
    sum.inexact = crate::known::add_inexact(&sum, other);
    sum.merged.extend_from_slice(&other.merged);
    sum.merged.sort();
    sum.merged.dedup();
    for (function, other) in sum.functions.iter_mut().zip(&other.functions) {
        add_function(function, other)?;
    }
    crate::partial::add_partial(&mut sum, other)?;
    for &(signal, runs) in &other.ended_by {
        match sum.ended_by.binary_search_by_key(&signal, |it| it.0) {
            Ok(at) => {
                let all = &mut sum.ended_by[at].1;
                *all = all.checked_add(runs).ok_or_else(|| overflow(&name))?;
            }
            Err(at) => sum.ended_by.insert(at, (signal, runs)),
        }
    }
    // Sums over functions have to fit, too.
    verify(&sum)?;
    Ok(sum)
}

/// A program's name and build, as messages show it.
pub fn title(profile: &Profile) -> String {
    let build = if profile.build_id.is_empty() { "none" } else { &profile.build_id };
    format!("{} (build id {build})", profile.program)
}

fn same_function(a: &Function, b: &Function) -> bool {
    a.name == b.name
        && a.unit == b.unit
        && a.location == b.location
        && a.acyclic_paths == b.acyclic_paths
        && a.instrumented == b.instrumented
        && a.blocks == b.blocks
        && a.edges == b.edges
}

fn add_function(sum: &mut Function, other: &Function) -> Result<(), Error> {
    let overflow = || Error::Overflow { what: other.name.clone() };
    let add = |a: u64, b: u64| a.checked_add(b).ok_or_else(overflow);
    sum.entries = add(sum.entries, other.entries)?;
    sum.inherited = add(sum.inherited, other.inherited)?;
    sum.unfinished = add(sum.unfinished, other.unfinished)?;
    sum.edges_exact &= other.edges_exact;
    let mut paths: Vec<Path> = Vec::with_capacity(sum.paths.len().max(other.paths.len()));
    let mut ours = std::mem::take(&mut sum.paths).into_iter().peekable();
    for theirs in &other.paths {
        while let Some(path) = ours.next_if(|path| path.id < theirs.id) {
            paths.push(path);
        }
        let Some(mut path) = ours.next_if(|path| path.id == theirs.id) else {
            paths.push(theirs.clone());
            continue;
        };
        if (path.starts, path.ends, &path.blocks) != (theirs.starts, theirs.ends, &theirs.blocks) {
            let what = format!("{}: path {} is two different ones", other.name, path.id);
            return Err(Error::Invalid { what });
        }
        path.count = add(path.count, theirs.count)?;
        paths.push(path);
    }
    paths.extend(ours);
    sum.paths = paths;
    Ok(())
}
