//! Set-up, demo, tests, benchmarks and the corpus.

fn main() {}
