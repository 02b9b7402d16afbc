//! Everything around the code: set-up, demo, tests, the corpus, benchmarks.
//!
//! This is a program for people who work on Backtrail or try it, so it depends
//! on no crate of the workspace: it uses the tool as its users do, from its
//! command line, and it still compiles when another crate does not.

#![forbid(unsafe_code)]

pub mod attack;
pub mod bench;
pub mod choice;
pub mod command;
pub mod corpus;
pub mod crashes;
pub mod csmith;
pub mod demo;
pub mod differing;
pub mod fresh;
pub mod installed;
mod jobs;
pub mod kept;
pub mod layers;
pub mod linked;
pub mod packages;
pub mod partitions;
pub mod readers;
pub mod setup;
pub mod stages;
pub mod stepped;
pub mod story;
pub mod suite;
pub mod terminal;
pub mod tidy;
pub mod traces;
pub mod workspace;
