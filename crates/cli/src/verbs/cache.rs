//! `backtrail cache`: where derived objects are kept, how much, the limit.

use std::io::Write as _;

use backtrail_build::cache::{CACHE_VARIABLE, Cache, LIMIT_VARIABLE};

use crate::args;
use crate::style::{number, size};

/// Runs the verb.
pub fn run(args: &args::Cache) -> anyhow::Result<u8> {
    let cache = Cache::open();
    let mut out = std::io::stdout().lock();
    if args.clear {
        let gone = cache.clear()?;
        writeln!(out, "removed {} objects, {}", number(gone.files), size(gone.bytes))?;
        return Ok(0);
    }
    let usage = cache.usage();
    writeln!(out, "folder  {}  ({CACHE_VARIABLE})", cache.folder().display())?;
    writeln!(out, "holds   {} objects, {}", number(usage.files), size(usage.bytes))?;
    writeln!(out, "limit   {}  ({LIMIT_VARIABLE})", size(cache.limit()))?;
    Ok(0)
}
