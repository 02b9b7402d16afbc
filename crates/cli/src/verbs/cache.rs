//! `backtrail cache`: where derived objects are kept, how much, the limit.

use std::io::Write as _;

use backtrail_build::cache::{CACHE_VARIABLE, Cache, LIMIT_VARIABLE};
use backtrail_foreign::text::shown;

use crate::args;
use crate::stdout::{self, Form};
use crate::style::{counted, size};

/// Runs the verb.
pub fn run(args: &args::Cache) -> anyhow::Result<u8> {
    let cache = Cache::open();
    let mut out = stdout::open(Form::Text);
    if args.clear {
        let gone = cache.clear()?;
        writeln!(out, "removed {}, {}", counted(gone.files, "object"), size(gone.bytes))?;
        out.flush()?;
        return Ok(0);
    }
    let usage = cache.usage();
    writeln!(out, "folder  {}  ({CACHE_VARIABLE})", shown(&cache.folder().display().to_string()))?;
    writeln!(out, "holds   {}, {}", counted(usage.files, "object"), size(usage.bytes))?;
    writeln!(out, "limit   {}  ({LIMIT_VARIABLE})", size(cache.limit()))?;
    out.flush()?;
    Ok(0)
}
