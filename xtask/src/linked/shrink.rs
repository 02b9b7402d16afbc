//! The fewest features with which something is still wrong.

use anyhow::Result;

use super::draw::Drawn;
use super::trial::Found;
use super::verdict::Verdict;

/// What is wrong: the way, and what it is in words that do not depend on the program.
pub type Fault = (String, String);

/// Leaves out one feature after another, as long as the same is wrong, until none can be
/// left out.
pub fn smallest(
    drawn: Drawn,
    fault: &Fault,
    mut attempt: impl FnMut(&Drawn) -> Result<Found>,
) -> Result<Drawn> {
    let mut smallest = drawn;
    loop {
        let before = smallest.features.len();
        for at in (0..before).rev() {
            let less = smallest.without(at);
            let found = attempt(&less)?;
            let is_same = |it: (&String, &Verdict)| (it.0, &it.1.kind()) == (&fault.0, &fault.1);
            if found.unfit.is_none() && found.wrong().any(is_same) {
                smallest = less;
            }
        }
        // Others may have been needed only with those that are gone.
        if smallest.features.len() == before {
            return Ok(smallest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::Feature;
    use super::*;

    #[test]
    fn only_what_is_needed_stays() {
        let names = ["a", "b", "c", "d", "e"];
        let features = names.into_iter().enumerate().map(|(place, name)| Feature { place, name });
        let drawn = Drawn { seed: 1, number: 1, features: features.collect() };
        let judge = |drawn: &Drawn| {
            let mut found = Found::default();
            // It is wrong with b and d; without c it is no program if d is there.
            if drawn.has("b") && drawn.has("d") {
                found.verdicts.insert("trace".to_owned(), Verdict::wrong("x", "y"));
            } else {
                found.verdicts.insert("trace".to_owned(), Verdict::wrong("z", "y"));
            }
            found.unfit = (!drawn.has("c") && drawn.has("e")).then(|| "none".to_owned());
            Ok(found)
        };
        let smallest = smallest(drawn, &("trace".to_owned(), "x".to_owned()), judge).unwrap();
        assert_eq!(smallest.names(), ["b", "d"]);
        assert_eq!(smallest.features[1].place, 3);
    }
}
