//! `backtrail plan`, as it is asked for.

use std::path::PathBuf;

use clap::Args;

/// `backtrail plan`
#[derive(Debug, Args)]
pub struct Plan {
    /// A profile of this build: what paths and edges weigh.
    #[arg(long, value_name = "FILE")]
    pub weights: PathBuf,
    /// A profile of the run that costs are computed for [default: the one of
    /// --weights].
    #[arg(long, value_name = "FILE")]
    pub on: Option<PathBuf>,
    /// For how many copies.
    #[arg(long, value_name = "K", value_delimiter = ',', default_value = "2,4,8")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    pub copies: Vec<u8>,
    /// Show who counts what of the functions with such names.
    #[arg(long, value_name = "FUNCTION")]
    pub explain: Option<globset::Glob>,
    /// Plan without the weights, with guessed ones, and compute the costs on the
    /// run all the same.
    #[arg(long)]
    pub guessed: bool,
    /// Print JSON (schema backtrail.plan/1).
    #[arg(long)]
    pub json: bool,
    /// An executable built by Backtrail.
    pub program: PathBuf,
}
