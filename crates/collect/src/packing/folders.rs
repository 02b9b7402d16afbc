//! Which processes there are in a folder of records, and are not done with.
//!
//! There may be thousands, most of which have ended. So the kernel is asked to tell of new
//! ones (inotify(7)); all are looked through at first, when it could not tell, and once in
//! a while, since somebody else's machine may have made one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// How often all are looked through.
const OFTEN: Duration = Duration::from_secs(1);

/// A folder of records.
pub(super) struct Folders {
    root: PathBuf,
    news: Option<Inotify>,
    listed: Option<Instant>,
    living: BTreeSet<PathBuf>,
}

impl Folders {
    /// Which need not be there yet.
    pub fn new(root: PathBuf) -> Self {
        Self { root, news: None, listed: None, living: BTreeSet::new() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Those that there are by now, without those that were done with at some time.
    pub fn living(&mut self, is_done: impl Fn(&Path) -> bool) -> impl Iterator<Item = &PathBuf> {
        let is_told = self.hear();
        if !is_told || self.listed.is_none_or(|listed| listed.elapsed() >= OFTEN) {
            self.list();
        }
        self.living.retain(|folder| !is_done(folder));
        self.living.iter()
    }

    /// Adds those that the kernel told of; whether it told of all.
    fn hear(&mut self) -> bool {
        let Some(news) = &self.news else {
            self.news = self.watch();
            return false;
        };
        loop {
            let events = match news.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN) => return true,
                Err(_) => break,
            };
            for event in events {
                match event.name {
                    Some(name) => drop(self.living.insert(self.root.join(name))),
                    // Too many, or the folder is gone.
                    None if event.mask.contains(AddWatchFlags::IN_IGNORED) => {
                        self.news = None;
                        return false;
                    }
                    None => return false,
                }
            }
        }
        false
    }

    fn watch(&self) -> Option<Inotify> {
        let news = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok()?;
        let what =
            AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ONLYDIR;
        news.add_watch(&self.root, what).ok()?;
        Some(news)
    }

    fn list(&mut self) {
        let found = fs::read_dir(&self.root).into_iter().flatten();
        self.living.extend(found.filter_map(|entry| Some(entry.ok()?.path())));
        self.listed = self.news.is_some().then(Instant::now);
    }
}
