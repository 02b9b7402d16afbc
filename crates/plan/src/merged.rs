//! What is said of a result that was put together from several runs.
//!
//! Such a result is right if all runs did the same. What was compared is listed, and so is
//! what could differ without a difference in that. It is called checked if all runs were
//! compared in something that follows the whole program, such as the order in which they
//! entered functions ([`crate::order`]).

use serde::{Deserialize, Serialize};

/// How far the runs were compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Merged {
    /// How many runs there were.
    pub runs: u32,
    /// Whether it is checked that they did the same.
    pub checked: bool,
    /// What was compared, and was the same in all.
    pub by: Vec<String>,
    /// What could differ, or did, without being seen.
    pub unseen: Vec<String>,
}
