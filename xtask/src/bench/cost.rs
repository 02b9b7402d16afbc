//! The time that a command takes.
//!
//! CPU time is the kernel's count for the children that were waited for, and
//! for theirs: it holds all processes of a compiler driver. It is exact for one
//! command as long as this program starts one at a time.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::command;

/// What a command took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// In user and kernel mode, on all processors.
    pub cpu: Duration,
    /// By the clock.
    pub wall: Duration,
}

impl Cost {
    /// The least of each.
    pub fn least(self, other: Cost) -> Cost {
        Cost { cpu: self.cpu.min(other.cpu), wall: self.wall.min(other.wall) }
    }
}

/// Keeps the least of what is measured again and again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Least(Option<Cost>);

impl Least {
    /// Takes another measurement.
    pub fn add(&mut self, cost: Cost) {
        self.0 = Some(self.0.map_or(cost, |before| before.least(cost)));
    }

    /// CPU seconds.
    pub fn cpu(&self) -> f64 {
        self.0.map_or(f64::NAN, |cost| cost.cpu.as_secs_f64())
    }

    /// Seconds by the clock.
    pub fn wall(&self) -> f64 {
        self.0.map_or(f64::NAN, |cost| cost.wall.as_secs_f64())
    }
}

/// Runs a command, which must end with success.
pub fn measure(command: &mut Command) -> Result<Cost> {
    let before = children()?;
    let start = Instant::now();
    command::output(command)?;
    let wall = start.elapsed();
    Ok(Cost { cpu: children()?.saturating_sub(before), wall })
}

fn children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot ask for the time used")?;
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

fn duration(time: TimeVal) -> Duration {
    Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grandchildren_count_and_sleep_does_not() {
        let busy = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; sleep 0.2";
        let cost = measure(Command::new("sh").args(["-c", busy])).unwrap();
        assert!(cost.cpu > Duration::from_millis(20), "{cost:?}");
        assert!(cost.wall > Duration::from_millis(200), "{cost:?}");
        let idle = measure(Command::new("sleep").arg("0.2")).unwrap();
        assert!(idle.cpu < Duration::from_millis(150), "{idle:?}");
        let least = cost.least(idle);
        assert_eq!(least, Cost { cpu: idle.cpu.min(cost.cpu), wall: idle.wall.min(cost.wall) });
    }

    #[test]
    fn a_command_that_fails_is_no_measurement() {
        assert!(measure(&mut Command::new("false")).is_err());
    }
}
