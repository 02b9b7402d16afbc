//! Several threads that take from one list of work.

use anyhow::Result;

/// Runs a job so many times at once, at least once; what fails first is the result.
pub fn run(count: usize, job: impl Fn() -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..count.max(1)).map(|_| scope.spawn(&job)).collect();
        for job in jobs {
            job.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(())
    })
}
