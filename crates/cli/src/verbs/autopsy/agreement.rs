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
    let (concluded, frames) = first.concluded.as_ref()?;
    let mut both = concluded.all();
    for other in others {
        let is_same = other.autopsy.build_id == first.autopsy.build_id;
        let (other, _) = other.concluded.as_ref().filter(|_| is_same)?;
        both = other.intersect(&both);
    }
    Some(concluded.report_common(frames, &both))
}
