//! What is left behind when somebody interrupts us: nothing.
//!
//! A tool is stopped often: `^C` in the middle of a build, `timeout`, a terminal that is
//! closed. Then its temporary files and folders have to go, and so do the compilers and
//! linkers that it started. This is the one place that sees to it.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`signals`] | one thread waits for the signals that ask a process to end, and tidies up; whoever runs a program takes them in its stead |
//! | [`folder`] | temporary folders: removed at the end, by an interruption, or by the next run |
//! | [`children`] | processes that do not outlive this one |
//! | [`inherited`] | what programs in our place ignore |
//! | [`environment`] | what they are told of their surroundings |
//!
//! Nothing can be done about `SIGKILL` by whom it meets. So children ask the kernel to be
//! killed when we die, and the next run removes what a dead one left: that a folder's
//! owner is dead is told by a lock that the kernel takes back, not by a process number,
//! which somebody else may have by now.

pub mod children;
pub mod environment;
pub mod folder;
pub mod inherited;
pub mod signals;

pub use children::{bind, spawn_program};
pub use environment::Environment;
pub use folder::Folder;
pub use inherited::give_back;
pub use signals::{Leftover, Taken, obey, remember, settle, take, uninterrupted};
