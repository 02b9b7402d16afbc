//! Completions and manual pages, from the same description as the help texts.

use std::path::Path;

use backtrail_build::Error;
use backtrail_build::output::{Mode, write_whole};
use clap::CommandFactory as _;

use crate::args::Line;
use crate::stdout;

/// Prints completions.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<u8> {
    // Into memory first: clap_complete panics if what it writes to is full.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Line::command(), "backtrail", &mut script);
    stdout::document(&script)?;
    Ok(0)
}

/// Writes `backtrail.1` and a page for each verb into `folder`.
pub fn manual(folder: &Path) -> anyhow::Result<u8> {
    std::fs::create_dir_all(folder).map_err(Error::write(folder))?;
    let command = Line::command();
    let verbs = command
        .get_subcommands()
        .map(|verb| (format!("backtrail-{}", verb.get_name()), verb.clone()));
    let pages = [("backtrail".to_owned(), command.clone())].into_iter().chain(verbs);
    for (name, command) in pages {
        let mut page = Vec::new();
        // Without a date, so that the pages are reproducible.
        clap_mangen::Man::new(command).title(name.to_uppercase()).date("").render(&mut page)?;
        write_whole(&folder.join(format!("{name}.1")), &page, Mode::Data)?;
    }
    Ok(0)
}
