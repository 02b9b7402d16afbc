//! What several cores have in common.

use backtrail_report::autopsy::common::Common;
use backtrail_report::autopsy::{Autopsy, Conclusion};

use super::Examined;

/// Compares what was found in several cores.
pub fn compare(found: &[Examined]) -> Common {
    let autopsies: Vec<&Autopsy> = found.iter().map(|it| &it.autopsy).collect();
    Common::new(&autopsies, conclude(found))
}

/// What can have run in all of them, if they are of one build.
fn conclude(found: &[Examined]) -> Option<Conclusion> {
    let (first, others) = found.split_first()?;
    let (concluded, tables) = first.concluded.as_ref()?;
    let mut same = Vec::new();
    for other in others {
        let is_same = other.autopsy.build_id == first.autopsy.build_id;
        same.push(&other.concluded.as_ref().filter(|_| is_same)?.0);
    }
    concluded.common(&same, tables)
}
