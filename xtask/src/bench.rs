//! `cargo xtask bench build`: what building through `backtrail cc` costs.
