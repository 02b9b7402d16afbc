//! The sum of what is known of unfinished paths.

use std::collections::BTreeMap;

use crate::Error;
use crate::model::{PartialPath, Profile, Start};

/// Partial paths that are being added up.
#[derive(Debug, Default)]
pub(crate) struct PartialSum(BTreeMap<(u32, Start, Vec<u32>), u64>);

impl PartialSum {
    /// One more of these.
    pub(crate) fn add_one(&mut self, function: u32, starts: Start, blocks: Vec<u32>) {
        *self.0.entry((function, starts, blocks)).or_default() += 1;
    }

    /// In order.
    pub(crate) fn into_paths(self) -> Vec<PartialPath> {
        let path =
            |((function, starts, blocks), count)| PartialPath { function, starts, blocks, count };
        self.0.into_iter().map(path).collect()
    }
}

/// Adds the partial paths of another profile of the same functions.
pub(crate) fn add_partial(sum: &mut Profile, other: &Profile) -> Result<(), Error> {
    let mut all = PartialSum::default();
    for PartialPath { function, starts, blocks, count } in
        std::mem::take(&mut sum.partial).into_iter().chain(other.partial.iter().cloned())
    {
        let known = all.0.entry((function, starts, blocks)).or_default();
        *known = known.checked_add(count).ok_or_else(|| {
            let name = sum.functions.get(function as usize).map(|it| it.name.clone());
            Error::Overflow { what: name.unwrap_or_default() }
        })?;
    }
    sum.partial = all.into_paths();
    Ok(())
}
