//! The first thing that two runs were told differently.
//!
//! Thread by thread, in the order of who started whom, event by event. Of a thread that was
//! ended by another, in one of the runs, only what both did is compared: where it was then
//! is chance.

use std::collections::BTreeSet;
use std::fmt;

use super::calls;
use super::event::{Event, Recorded, Thread, What};

/// What two runs were told differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Different {
    /// Which thread: who started whom, as `1.2`.
    pub thread: String,
    /// Which of the events that are compared, from 1.
    pub number: u64,
    /// What it was.
    pub what: String,
}

impl fmt::Display for Different {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => write!(f, "thread {}: {}", self.thread, self.what),
            number => write!(f, "system call {number} of thread {}, {}", self.thread, self.what),
        }
    }
}

/// Compares two runs. If they were told the same, what may differ and did is told.
pub fn compare(one: &Recorded, other: &Recorded) -> Result<BTreeSet<String>, Different> {
    let mut differing = BTreeSet::new();
    let names: BTreeSet<&Vec<u32>> = one.threads.keys().chain(other.threads.keys()).collect();
    for name in names {
        let thread = || {
            let numbers: Vec<String> = name.iter().map(u32::to_string).collect();
            numbers.join(".")
        };
        match (one.threads.get(name), other.threads.get(name)) {
            (Some(left), Some(right)) => {
                let compared = compare_threads(left, right, &mut differing);
                compared.map_err(|(number, what)| Different { thread: thread(), number, what })?;
            }
            (left, _) => {
                // Whoever would have started it may have been ended before.
                let parent = &name[..name.len() - 1];
                let is_whole =
                    |run: &Recorded| run.threads.get(parent).is_some_and(|it| it.is_whole);
                if is_whole(one) && is_whole(other) {
                    let of = if left.is_some() { "first" } else { "second" };
                    let what = format!("it is in the {of} of both alone");
                    return Err(Different { thread: thread(), number: 0, what });
                }
            }
        }
    }
    Ok(differing)
}

fn compare_threads(
    one: &Thread,
    other: &Thread,
    differing: &mut BTreeSet<String>,
) -> Result<(), (u64, String)> {
    for (at, (left, right)) in one.events.iter().zip(&other.events).enumerate() {
        if let Some(what) = difference(left, right) {
            // How a thread ends that was ended by another is not its own.
            let is_end = |it: &Event| it.what == What::Ended;
            if (is_end(left) && !one.is_whole) || (is_end(right) && !other.is_whole) {
                return Ok(());
            }
            return Err((at as u64 + 1, what));
        }
        if left.may != right.may {
            differing.insert(loose(left.what));
        }
    }
    let (left, right) = (one.events.len(), other.events.len());
    let (shorter, longer) = if left < right { (one, other) } else { (other, one) };
    match longer.events.get(left.min(right)) {
        Some(next) if shorter.is_whole && (longer.is_whole || next.what != What::Ended) => {
            let number = left.min(right) as u64 + 1;
            Err((number, format!("{}: in one of both alone", named(next.what))))
        }
        _ => Ok(()),
    }
}

/// How two events differ in what has to be the same.
fn difference(one: &Event, other: &Event) -> Option<String> {
    let (name, others) = (named(one.what), named(other.what));
    if one.what != other.what {
        Some(format!("{name} against {others}"))
    } else if one.value != other.value {
        Some(match one.what {
            What::Clock => name,
            What::Ended => format!("{name} with {} against {}", one.value, other.value),
            _ => format!("{name}: {} against {}", one.value, other.value),
        })
    } else if one.length != other.length {
        Some(format!("{name}: {} against {} bytes", one.length, other.length))
    } else if one.must != other.must {
        Some(match one.what {
            What::Started => format!("{name}: arguments, environment or auxiliary values"),
            What::Signal(_) => format!("{name}: who sent it, or why"),
            _ => format!("{name}: {} bytes", one.length),
        })
    } else {
        None
    }
}

/// What an event is called.
fn named(what: What) -> String {
    match what {
        What::Call(number) => calls::name(number.into()),
        What::Signal(number) => format!("signal {number}"),
        What::Started => "start of a program".to_owned(),
        What::Clock => "rdtsc".to_owned(),
        What::Ended => "its end".to_owned(),
    }
}

/// What differed that may.
fn loose(what: What) -> String {
    match what {
        What::Call(number) => {
            let files = calls::of(number.into())
                .is_some_and(|it| ["stat", "statx", "dents"].iter().any(|rule| it.is(rule)));
            let name = calls::name(number.into());
            match files {
                true => format!(
                    "numbers and times of files that each run has of its own, which differ \
                     ({name})"
                ),
                false => format!("addresses and remaining times that differ ({name})"),
            }
        }
        _ => format!("addresses that differ ({})", named(what)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn call(number: u16, value: i64, must: u64) -> Event {
        Event { what: What::Call(number), value, length: 8, must, may: 1 }
    }

    fn run(threads: &[(&[u32], &[Event], bool)]) -> Recorded {
        let thread = |&(name, events, is_whole): &(&[u32], &[Event], bool)| {
            (name.to_vec(), Thread { events: events.to_vec(), is_whole })
        };
        Recorded { threads: threads.iter().map(thread).collect(), notes: BTreeSet::new() }
    }

    #[test]
    fn the_first_difference_is_named() {
        let (read, random) = (call(0, 5, 1), call(318, 8, 2));
        let base = run(&[(&[1], &[read, random], true)]);
        let said = |events: &[Event]| {
            compare(&base, &run(&[(&[1], events, true)])).map_err(|it| it.to_string())
        };
        assert_eq!(said(&[read, random]), Ok(BTreeSet::new()));
        assert_eq!(
            said(&[read, call(318, 8, 3)]).unwrap_err(),
            "system call 2 of thread 1, getrandom: 8 bytes"
        );
        assert_eq!(
            said(&[call(0, 4, 1), call(318, 8, 3)]).unwrap_err(),
            "system call 1 of thread 1, read: 5 against 4"
        );
        assert_eq!(
            said(&[random]).unwrap_err(),
            "system call 1 of thread 1, read against getrandom"
        );
        assert_eq!(
            said(&[read]).unwrap_err(),
            "system call 2 of thread 1, getrandom: in one of both alone"
        );
        let stat = Event { may: 1, ..call(5, 0, 4) };
        let one = run(&[(&[1], &[stat], true)]);
        let told = compare(&one, &run(&[(&[1], &[Event { may: 2, ..stat }], true)])).unwrap();
        assert_eq!(told.len(), 1);
        assert!(told.first().unwrap().contains("fstat"), "{told:?}");
    }

    /// Slow and obvious: whether the events of one thread agree.
    fn agree(one: &Thread, other: &Thread) -> bool {
        let key = |it: &Event| (it.what, it.value, it.length, it.must);
        let ended = |it: &Thread, at: usize| {
            it.events.get(at).is_none_or(|event| event.what == What::Ended)
        };
        for at in 0..one.events.len().max(other.events.len()) {
            let (left, right) = (one.events.get(at), other.events.get(at));
            if left.map(key) == right.map(key) {
                continue;
            }
            let is_cut = |it: &Thread| !it.is_whole && ended(it, at);
            return is_cut(one) || is_cut(other);
        }
        true
    }

    #[test]
    fn random_threads_agree_or_do_not() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut alike, mut different) = (0, 0);
        for _ in 0..20_000 {
            let mut thread = || {
                let mut events: Vec<Event> = (0..random(4))
                    .map(|_| call(random(2) as u16, random(2) as i64, random(2)))
                    .collect();
                let is_whole = random(2) == 0;
                if is_whole || random(2) == 0 {
                    let value = random(2) as i64;
                    events.push(Event { what: What::Ended, value, length: 0, must: 0, may: 0 });
                }
                Thread { events, is_whole }
            };
            let (one, other) = (thread(), thread());
            let as_run = |it: &Thread| Recorded {
                threads: BTreeMap::from([(vec![1], it.clone())]),
                notes: BTreeSet::new(),
            };
            let expected = agree(&one, &other);
            assert_eq!(
                compare(&as_run(&one), &as_run(&other)).is_ok(),
                expected,
                "{one:?} {other:?}"
            );
            *if expected { &mut alike } else { &mut different } += 1;
        }
        assert!(alike > 1000 && different > 1000, "{alike} {different}");
    }

    #[test]
    fn a_thread_that_is_missing_is_a_difference_if_it_could_have_been_started() {
        let one = run(&[(&[1], &[], true), (&[1, 1], &[], true)]);
        let whole = run(&[(&[1], &[], true)]);
        let cut = run(&[(&[1], &[], false)]);
        assert!(compare(&one, &whole).unwrap_err().to_string().contains("thread 1.1"));
        assert!(compare(&one, &cut).is_ok());
    }
}
