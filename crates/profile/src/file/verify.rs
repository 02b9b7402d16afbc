//! Whether a profile holds together, so that whoever uses it need not ask.
//!
//! 1. Every number of a file, location, block is one that there is; a location
//!    is inlined at one with a smaller number.
//! 2. Edges are by source and then target, each pair once.
//! 3. Paths are by increasing id, with counts that are not 0, and each step of
//!    a path, the one it ends with included, is an edge.
//! 4. A function that was not instrumented has no counts.
//! 5. `entries + inherited` = paths that end the function `+ unfinished`,
//!    unless the profile is incomplete.
//! 6. Partial paths are in order, each once, of functions that were instrumented,
//!    with counts that are not 0, and each of their steps is an edge.
//! 7. Signals are by increasing number, and each ended some run.
//! 8. What is known of functions whose counts are not exact is in order, of such
//!    functions, and of blocks and edges that there are, each once.
//! 9. All blocks that were executed together, and all entries, fit in 64 bits,
//!    and so does whatever is summed of them.
//!
//! Linear in the size of the profile, times the logarithm of a function's edges.

use crate::derived::{edge_number, steps};
use crate::error::Error;
use crate::model::{End, Function, Instrumented, Profile};

/// Checks everything above.
pub fn verify(profile: &Profile) -> Result<(), Error> {
    let invalid = |what: String| Err(Error::Invalid { what });
    for (number, location) in profile.locations.iter().enumerate() {
        if location.file as usize >= profile.files.len() {
            return invalid(format!("location {number} is in file {}", location.file));
        }
        if location.inlined_at.is_some_and(|at| at as usize >= number) {
            return invalid(format!("location {number} is inlined at a later one"));
        }
    }
    let mut executed = 0;
    for function in &profile.functions {
        verify_places(profile, function)?;
        verify_paths(function)?;
        let overflow = || Error::Overflow { what: profile.program.clone() };
        executed = executed_blocks(function)
            .and_then(|blocks| blocks.checked_add(executed))
            .ok_or_else(overflow)?;
        if profile.incomplete.is_empty() {
            verify_sum(function)?;
        }
    }
    let is_signal = |&(signal, runs): &(i32, u64)| (1..=64).contains(&signal) && runs > 0;
    if !profile.ended_by.iter().all(is_signal) || !profile.ended_by.is_sorted_by(|a, b| a.0 < b.0) {
        return invalid("signals that cannot have ended runs".to_owned());
    }
    verify_inexact(profile)?;
    verify_partial(profile)
}

fn verify_inexact(profile: &Profile) -> Result<(), Error> {
    if !profile.inexact.is_sorted_by(|a, b| a.function < b.function) {
        let what = "what is known of functions is out of order".to_owned();
        return Err(Error::Invalid { what });
    }
    for it in &profile.inexact {
        let Some(function) = profile.functions.get(it.function as usize) else {
            let what = format!("it knows of function {}, which is not there", it.function);
            return Err(Error::Invalid { what });
        };
        let ran: Vec<u32> = it.ran.iter().map(|it| it.block).collect();
        let fits = |ran: &[u32], unknown: &[u32], count: usize| {
            let is_list = |list: &[u32]| {
                list.is_sorted_by(|a, b| a < b)
                    && list.last().is_none_or(|it| (*it as usize) < count)
            };
            let is_both = |it: &u32| ran.binary_search(it).is_ok();
            is_list(ran) && is_list(unknown) && !unknown.iter().any(is_both)
        };
        if function.edges_exact
            || !function.is_instrumented()
            || !fits(&ran, &it.unknown, function.blocks.len())
            || it.ran.iter().any(|it| {
                it.positions as usize > function.blocks[it.block as usize].locations.len()
            })
            || !fits(&it.ran_edges, &it.unknown_edges, function.edges.len())
        {
            return Err(invalid(function, "it knows of it what cannot be"));
        }
    }
    Ok(())
}

fn verify_partial(profile: &Profile) -> Result<(), Error> {
    if !profile.partial.is_sorted_by(|a, b| a.key() < b.key()) {
        return Err(Error::Invalid { what: "partial paths out of order".to_owned() });
    }
    for path in &profile.partial {
        let Some(function) = profile.functions.get(path.function as usize) else {
            let what = format!("a partial path of function {}, which is not there", path.function);
            return Err(Error::Invalid { what });
        };
        let is_block = |&block: &u32| (block as usize) < function.blocks.len();
        let is_edge = |pair: &[u32]| edge_number(function, (pair[0], pair[1])).is_some();
        let fits = function.is_instrumented()
            && path.count > 0
            && !path.blocks.is_empty()
            && path.blocks.iter().all(is_block)
            && path.blocks.windows(2).all(is_edge);
        if !fits {
            return Err(invalid(function, "a partial path that it cannot have"));
        }
    }
    Ok(())
}

fn invalid(function: &Function, what: &str) -> Error {
    Error::Invalid { what: format!("{}: {what}", function.name) }
}

fn verify_places(profile: &Profile, function: &Function) -> Result<(), Error> {
    let locations = profile.locations.len();
    let within_blocks = function.blocks.iter().flat_map(|block| &block.locations);
    if function.location.iter().chain(within_blocks).any(|&number| number as usize >= locations) {
        return Err(invalid(function, "a location that does not exist"));
    }
    let blocks = function.blocks.len();
    if function.edges.iter().any(|edge| edge.from.max(edge.to) as usize >= blocks) {
        return Err(invalid(function, "an edge between blocks that do not exist"));
    }
    if !function.edges.is_sorted_by(|a, b| (a.from, a.to) < (b.from, b.to)) {
        return Err(invalid(function, "edges out of order"));
    }
    Ok(())
}

fn verify_paths(function: &Function) -> Result<(), Error> {
    if matches!(function.instrumented, Instrumented::No(_))
        && (!function.paths.is_empty()
            || [function.entries, function.inherited, function.unfinished] != [0; 3])
    {
        return Err(invalid(function, "counts, though it was not instrumented"));
    }
    if !function.paths.is_sorted_by(|a, b| a.id < b.id) {
        return Err(invalid(function, "paths out of order"));
    }
    for path in &function.paths {
        if path.count == 0 {
            return Err(invalid(function, "a path that was never taken"));
        }
        if path.blocks.is_empty() {
            return Err(invalid(function, "a path without blocks"));
        }
        if path.blocks.iter().any(|&block| block as usize >= function.blocks.len()) {
            return Err(invalid(function, "a path through a block that does not exist"));
        }
        if let Some((from, to)) = steps(path).find(|&step| edge_number(function, step).is_none()) {
            let what = format!("path {} goes from b{from} to b{to}: no edge does", path.id);
            return Err(invalid(function, &what));
        }
    }
    Ok(())
}

fn verify_sum(function: &Function) -> Result<(), Error> {
    let ended = function
        .paths
        .iter()
        .filter(|path| matches!(path.ends, End::Exit | End::Call))
        .map(|path| u128::from(path.count))
        .sum::<u128>();
    let begun = u128::from(function.entries) + u128::from(function.inherited);
    if begun != ended + u128::from(function.unfinished) {
        let what = format!(
            "{begun} activations began, {ended} ended and {} are unfinished",
            function.unfinished
        );
        return Err(invalid(function, &what));
    }
    Ok(())
}

/// An upper bound of everything that is summed over the function: its blocks'
/// executions and its activations.
fn executed_blocks(function: &Function) -> Option<u64> {
    let activations =
        [function.entries, function.inherited, function.unfinished].into_iter().map(Some);
    let paths =
        function.paths.iter().map(|path| path.count.checked_mul(path.blocks.len() as u64 + 1));
    activations.chain(paths).try_fold(0u64, |sum, count| sum.checked_add(count?))
}
