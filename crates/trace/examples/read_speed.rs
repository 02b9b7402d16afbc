//! Prints how many events of the block log are read per second, from memory:
//! `cargo run --release -p backtrail-trace --example read_speed`.

use std::io::Read;
use std::time::Instant;

use backtrail_trace::block_log::{Events, Process, example_process, example_thread};

const EVENTS: u64 = 200_000_000;

fn main() -> Result<(), backtrail_trace::Error> {
    let process = Process::read(&example_process())?;
    let header = &example_thread()[..24];
    // A short piece again and again, so that memory is not what is measured.
    let words: Vec<u8> = (0..1 << 16).flat_map(|i: u32| (i * 7 % 3 + 1).to_le_bytes()).collect();
    let repeat = std::iter::repeat_n(words.as_slice(), EVENTS as usize / (1 << 16));
    let input = header.chain(Repeated(repeat, &[]));
    let start = Instant::now();
    let mut blocks = 0;
    for event in Events::new(&process, input)? {
        blocks += u64::from(event?.block);
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{:.0} million events per second ({blocks})", EVENTS as f64 / seconds / 1e6);
    Ok(())
}

struct Repeated<'a, I>(I, &'a [u8]);

impl<'a, I: Iterator<Item = &'a [u8]>> Read for Repeated<'a, I> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.1.is_empty() {
            self.1 = self.0.next().unwrap_or_default();
        }
        self.1.read(buffer)
    }
}
