//! One module per verb.

pub mod autopsy;
pub mod cache;
pub mod cargo;
pub mod detach;
pub mod export;
pub mod extract;
pub mod generate;
pub mod info;
pub mod instrument;
pub mod paths;
pub mod plan;
pub mod profile;
pub mod run;
pub mod show;
pub mod trace;
pub mod tune;
