//! The logs that the log of a fork's child goes on with.

use backtrail_collect::records::Descendant;
use backtrail_trace::block_log::Part;

/// What the first thread of a process inherited: the logs of those who forked it, up to
/// there, the oldest first; as far as that is known.
pub fn inherited(processes: &[Descendant], process: usize) -> Vec<Part<'_>> {
    let forked_by = |process: usize| {
        let parent = processes[process].parent?;
        let place = processes[process].record.forked_at?;
        let threads = &processes[parent].record.threads;
        let thread = threads.iter().position(|thread| thread.ordinal == place.thread)?;
        Some((parent, thread, (&*threads[thread].path, Some(place.events))))
    };
    let mut parts = Vec::new();
    let mut child = Some(process);
    while let Some((parent, thread, part)) = child.and_then(forked_by) {
        parts.push(part);
        // Other threads begin in their process.
        child = (thread == 0).then_some(parent);
    }
    parts.reverse();
    parts
}
