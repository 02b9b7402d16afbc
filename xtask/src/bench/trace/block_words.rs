//! What is in logs of words: how many there are, and what they could take.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Bytes of a log before its words.
const HEADER: usize = 24;

/// Bytes of its segments, and of what is before the words of each but the first.
const SEGMENT: usize = 256 << 10;
const SEGMENT_HEADER: usize = 64;

/// What a log of every block has.
pub struct Summary {
    /// Blocks.
    pub words: u64,
    /// Bits per block to tell each block's successor, knowing how often each
    /// follows.
    pub entropy: f64,
    /// Bytes that zstd makes of the words.
    pub zstd: u64,
}

/// How many words there are in logs.
pub fn count(paths: &[PathBuf]) -> Result<u64> {
    let mut words = 0;
    for path in paths {
        each(path, |_| words += 1)?;
    }
    Ok(words)
}

/// What logs of every block have.
pub fn summarize(paths: &[PathBuf]) -> Result<Summary> {
    let mut follows: HashMap<(u32, u32), u64> = HashMap::new();
    let (mut words, mut zstd) = (0, 0);
    for path in paths {
        let mut last = 0;
        each(path, |word| {
            words += 1;
            *follows.entry((last, word)).or_default() += 1;
            last = word;
        })?;
        zstd += compressed(path)?;
    }
    let mut passed: HashMap<u32, u64> = HashMap::new();
    follows.iter().for_each(|((from, _), count)| *passed.entry(*from).or_default() += count);
    let bits: f64 = follows
        .iter()
        .map(|((from, _), &count)| count as f64 * (passed[from] as f64 / count as f64).log2())
        .sum();
    Ok(Summary { words, entropy: bits / words.max(1) as f64, zstd })
}

/// Gives all words but zeros, which are no events. Nothing was packed, so segments are
/// in the order in which they were filled.
fn each(path: &Path, mut take: impl FnMut(u32)) -> Result<()> {
    let mut input = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut buffer = vec![0; SEGMENT];
    let mut header = HEADER;
    loop {
        let mut length = 0;
        while length < buffer.len() {
            match input.read(&mut buffer[length..])? {
                0 => break,
                more => length += more,
            }
        }
        if length == 0 && header == SEGMENT_HEADER {
            return Ok(());
        }
        ensure!(length >= header, "{} is cut", path.display());
        for word in buffer[header..length].as_chunks().0 {
            let word = u32::from_le_bytes(*word);
            if word != 0 {
                take(word);
            }
        }
        header = SEGMENT_HEADER;
    }
}

/// Bytes that zstd makes of a log's words.
fn compressed(path: &Path) -> Result<u64> {
    let mut zstd = Command::new("zstd")
        .args(["-q", "-3", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("zstd cannot be started")?;
    let mut input = zstd.stdin.take().context("no pipe")?;
    let path = path.to_owned();
    let writer = std::thread::spawn(move || -> Result<()> {
        let mut block = Vec::with_capacity(1 << 16);
        let mut result = Ok(());
        each(&path, |word| {
            block.extend(word.to_le_bytes());
            if block.len() == 1 << 16 && result.is_ok() {
                result = input.write_all(&block);
                block.clear();
            }
        })?;
        result?;
        Ok(input.write_all(&block)?)
    });
    let mut output = zstd.stdout.take().context("no pipe")?;
    let bytes = std::io::copy(&mut output, &mut std::io::sink())?;
    ensure!(zstd.wait()?.success(), "zstd fails");
    writer.join().map_err(|_| anyhow::anyhow!("the log cannot be read"))??;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_their_entropy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thread-1-0");
        let mut bytes = vec![7; HEADER];
        // Behind 1, 2 and 3 follow equally often; behind these, always 1.
        for word in [1u32, 2, 1, 3, 1, 2, 1, 3, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(count(std::slice::from_ref(&path)).unwrap(), 8);
        let summary = summarize(&[path]).unwrap();
        assert_eq!(summary.words, 8);
        assert!((summary.entropy - 0.5).abs() < 1e-9, "{}", summary.entropy);
        assert!(summary.zstd > 0);
    }
}
