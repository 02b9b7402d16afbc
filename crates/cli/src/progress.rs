//! What we are doing, for whoever waits.
//!
//! Work that takes no longer than two seconds says nothing. Then a terminal shows a line
//! that changes; elsewhere (a log, a pipe) a line is written now and then, ever less often.
//! A program that runs in our place has the terminal to itself; that it runs now is said
//! if something was said before ([`running`]).
//!
//! `BACKTRAIL_PROGRESS` is how many seconds nothing is said, or `never`.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use backtrail_collect::copies::Event;
use backtrail_foreign::say;
use backtrail_foreign::text::shown;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const VARIABLE: &str = "BACKTRAIL_PROGRESS";

/// How long nothing is said.
const SILENCE: Duration = Duration::from_secs(2);

/// Whether any phase was told of.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Something that we do, as long as this is kept.
pub struct Phase {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

struct Shared {
    what: &'static str,
    /// What is counted, if anything is.
    unit: Option<&'static str>,
    done: AtomicU64,
    total: AtomicU64,
    /// What happened last.
    last: Mutex<String>,
    bar: ProgressBar,
    is_over: Mutex<bool>,
    ended: Condvar,
}

impl Phase {
    /// Of work of which nobody knows how much there is.
    pub fn begin(what: &'static str, quiet: bool) -> Self {
        Self::new(what, None, 0, quiet)
    }

    /// Of so many units of work.
    pub fn counted(what: &'static str, total: usize, unit: &'static str, quiet: bool) -> Self {
        Self::new(what, Some(unit), total as u64, quiet)
    }

    fn new(what: &'static str, unit: Option<&'static str>, total: u64, quiet: bool) -> Self {
        let bar = match unit {
            Some(_) => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()),
            None => ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
        };
        let shared = Arc::new(Shared {
            what,
            unit,
            done: AtomicU64::new(0),
            total: AtomicU64::new(total),
            last: Mutex::default(),
            bar,
            is_over: Mutex::new(false),
            ended: Condvar::new(),
        });
        let watcher = silence(quiet).and_then(|silence| {
            let shared = Arc::clone(&shared);
            let watch = move || shared.watch(silence);
            // Without one nothing is said.
            std::thread::Builder::new().name("progress".to_owned()).spawn(watch).ok()
        });
        Self { shared, watcher }
    }

    /// So much of so much is done.
    pub fn at(&self, done: usize, total: usize) {
        self.shared.done.store(done as u64, Ordering::Relaxed);
        self.shared.total.store(total as u64, Ordering::Relaxed);
        self.shared.bar.set_length(total as u64);
        self.shared.bar.set_position(done as u64);
    }

    /// What happened last.
    pub fn note(&self, what: &str) {
        let what = shown(what);
        self.shared.bar.set_message(what.clone());
        *self.shared.last.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// What copies of a program do.
    pub fn hear(&self, event: Event) {
        match event {
            Event::Notice(text) => self.shared.bar.suspend(|| say!("backtrail: {text}")),
            Event::Progress { done, of: total, what } => {
                self.note(&what);
                self.at(done, total);
            }
        }
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        *self.shared.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ended.notify_all();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
        self.shared.bar.finish_and_clear();
    }
}

impl Shared {
    /// Says what there is to say until it is over.
    fn watch(&self, silence: Duration) {
        let began = Instant::now();
        // Without silence, what is over soon is told of as well.
        if !silence.is_zero() && !self.waits_until(began + silence) {
            return;
        }
        TOLD.store(true, Ordering::Relaxed);
        if std::io::stderr().is_terminal() {
            self.bar.set_style(style(self.what, self.unit));
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.tick();
            self.bar.enable_steady_tick(Duration::from_millis(100));
            return;
        }
        for lines in 0.. {
            say!("backtrail: {}", self.line(began.elapsed()));
            if !self.waits_until(began + silence + later(lines)) {
                return;
            }
        }
    }

    /// Whether it goes on then.
    fn waits_until(&self, then: Instant) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let left = then.saturating_duration_since(Instant::now());
        let waited = self.ended.wait_timeout_while(is_over, left, |is_over| !*is_over);
        let (is_over, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !*is_over
    }

    fn line(&self, elapsed: Duration) -> String {
        let mut line = self.what.to_owned();
        if let Some(unit) = self.unit {
            let (done, total) = (&self.done, &self.total);
            let [done, total] = [done, total].map(|it| it.load(Ordering::Relaxed));
            line = format!("{line}, {done} of {total} {unit}");
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !last.is_empty() {
            line = format!("{line}, {last}");
        }
        match elapsed.as_secs() {
            0..3 => line,
            seconds => format!("{line} ({seconds} s)"),
        }
    }
}

/// After so many lines the next one comes so long after the first.
fn later(lines: u64) -> Duration {
    const FIRST: [u64; 3] = [10, 30, 60];
    let minutes = lines.saturating_sub(1);
    Duration::from_secs(FIRST.get(lines as usize).copied().unwrap_or(60 * minutes))
}

fn style(what: &str, unit: Option<&str>) -> ProgressStyle {
    let template = match unit {
        Some(unit) => format!("{what} {{bar:30}} {{pos}}/{{len}} {unit} {{wide_msg}}"),
        None => format!("{{spinner}} {what} {{elapsed}} {{wide_msg}}"),
    };
    ProgressStyle::with_template(&template).expect("the words have no braces")
}

/// How long nothing is said; nothing if it never is.
fn silence(quiet: bool) -> Option<Duration> {
    let asked = std::env::var(VARIABLE).unwrap_or_default();
    match (quiet, asked.trim()) {
        (true, _) | (_, "never") => None,
        (_, text) => {
            let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
            Some(seconds.and_then(Result::ok).unwrap_or(SILENCE))
        }
    }
}

/// The program starts now, in our place: said to whoever has waited for it.
pub fn running(program: &std::path::Path, quiet: bool) {
    if TOLD.load(Ordering::Relaxed) && silence(quiet).is_some() {
        say!("backtrail: running {}", program.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_ever_less_often() {
        let seconds: Vec<u64> = (0..7).map(|lines| later(lines).as_secs()).collect();
        assert_eq!(seconds, [10, 30, 60, 120, 180, 240, 300]);
    }

    #[test]
    fn lines_say_what_is_done_and_how_long_it_takes() {
        let phase = Phase::counted("deriving", 310, "units", true);
        let line = |seconds| phase.shared.line(Duration::from_secs(seconds));
        assert_eq!(line(2), "deriving, 0 of 310 units");
        phase.at(120, 311);
        phase.note("a\u{1b}[1mb.c");
        assert_eq!(line(12), "deriving, 120 of 311 units, a\\u{1b}[1mb.c (12 s)");
        let planning = Phase::begin("planning", true);
        assert_eq!(planning.shared.line(SILENCE), "planning");
    }

    #[test]
    fn templates_are_ones() {
        style("deriving", Some("units"));
        style("planning", None);
    }
}
