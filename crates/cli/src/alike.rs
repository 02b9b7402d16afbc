//! Whether runs that are put together did the same: what is said of that.

use backtrail_foreign::say;
use backtrail_plan::merged::Merged;
use backtrail_plan::order::Entries;

use crate::args::copies::Isolate;

/// What the runs have in common, whatever is recorded of them.
pub fn shared(isolation: Isolate) -> Vec<String> {
    let mut shared = vec!["how they ended", "what they printed"];
    if isolation != Isolate::None {
        shared.push("what they left in the working directory");
    }
    shared.into_iter().map(str::to_owned).collect()
}

/// What is said of runs that have `by` in common, and entered functions so. `parts` is what
/// one run alone may have seen.
pub fn merged(runs: usize, mut by: Vec<String>, entries: &Entries, parts: &str) -> Merged {
    let runs = runs as u32;
    match entries {
        Entries::Alike(_) => {
            by.push("the order in which each thread entered functions".to_owned());
            let unseen = vec![format!("{parts}, if no other function is entered by that")];
            Merged { runs, checked: true, by, unseen }
        }
        Entries::Differ { run } => {
            let differs = format!(
                "the order in which threads entered functions differs between runs 1 and {}: \
                 threads or handlers of signals took turns in another way, or the runs did not \
                 do the same",
                run + 1
            );
            Merged { runs, checked: false, by, unseen: vec![differs, parts.to_owned()] }
        }
    }
}

/// What is said of runs that have `by` in common, where nothing notes which functions they
/// entered.
pub fn unchecked(runs: usize, by: Vec<String>, parts: &str) -> Merged {
    let unseen = vec![parts.to_owned(), "which functions were entered by that".to_owned()];
    Merged { runs: runs as u32, checked: false, by, unseen }
}

/// What came into the runs was compared, too, but for what is `unseen`.
pub fn add_inputs(merged: &mut Merged, unseen: &[String]) {
    merged.by.push(
        "what system calls returned and wrote, signals, and what programs were started with \
         (random numbers of the kernel were made the same)"
            .to_owned(),
    );
    merged.unseen.extend_from_slice(unseen);
}

/// Says that a result is not checked, if it is not.
pub fn tell(merged: &Merged) {
    if !merged.checked {
        say!("backtrail: merged, and not checked: {}", merged.unseen.join("; "));
    }
}

/// The same to be shown.
pub fn view(merged: &Merged) -> backtrail_report::merged::Merged {
    let Merged { runs, checked, by, unseen } = merged.clone();
    backtrail_report::merged::Merged { runs, checked, by, unseen }
}
