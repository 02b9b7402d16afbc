//! `cargo xtask fresh`: the two commands of the README on a machine that has nothing.
//!
//! The machine is a Debian 12 in a folder, made by debootstrap: what every Debian has,
//! and what the README asks for. The Rust toolchain and the sources of packages are
//! this machine's. The last commit is cloned into it, and each command runs in a clone
//! of its own of that machine: without a terminal, without standard input, and without
//! `CI` set.
//!
//! Everything is mounted in a mount namespace and runs in a PID namespace, so nothing
//! stays mounted and nothing runs on, however it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};

use crate::packages::Need;
use crate::stages::Stages;
use crate::{command, setup, workspace};

/// The release that the README names.
const RELEASE: &str = "bookworm";
/// What the README asks for besides a Rust toolchain, and what a clone needs.
const INCLUDED: &str = "build-essential,ca-certificates,git";
/// Where things are in it: where others than root may look, too, as whom tests run some.
const TOOLCHAIN: &str = "/opt/rust";
const CHECKOUT: &str = "/srv/backtrail";

/// What `fresh` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    /// Only this command
    #[arg(long)]
    only: Option<Which>,
}

/// One of the two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    Demo,
    Test,
}

impl Which {
    fn name(self) -> &'static str {
        match self {
            Which::Demo => "demo",
            Which::Test => "test",
        }
    }
}

/// Runs them.
pub fn run(options: &Options) -> Result<()> {
    setup::run(Need::Corpus, &options.installing)?;
    let folder = workspace::target()?.join("fresh");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut stages = Stages::default();
    let base = folder.join("base");
    if stages.run("debootstrap", || bootstrap(&base)) {
        for which in [Which::Demo, Which::Test] {
            if options.only.is_none_or(|only| only == which) {
                let machine = folder.join(which.name());
                stages.run(which.name(), || {
                    copy(&base, &machine)?;
                    clone_into(&machine)?;
                    command::run(&mut inside(&machine, which)?)
                });
            }
        }
    }
    stages.finish()
}

/// The sources of packages that this machine has for the release: suites and addresses.
fn sources() -> Result<Vec<(String, String)>> {
    let mut apt = Command::new("apt-get");
    apt.args(["indextargets", "--format", "$(CREATED_BY) $(COMPONENT) $(RELEASE) $(REPO_URI)"]);
    let text = command::output(&mut apt)?;
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let ["Packages", "main", suite, address] = words[..] else { continue };
        let is_ours = suite == RELEASE || suite.starts_with(&format!("{RELEASE}-"));
        let source = (suite.to_owned(), address.to_owned());
        if is_ours && !found.contains(&source) {
            found.push(source);
        }
    }
    found.sort();
    ensure!(
        found.first().is_some_and(|(suite, _)| suite == RELEASE),
        "this machine has no sources of packages of {RELEASE}; see apt-get indextargets"
    );
    Ok(found)
}

/// Makes the machine, once; a mark says that it is whole.
fn bootstrap(base: &Path) -> Result<()> {
    let whole = base.join("root/.whole");
    if whole.exists() {
        println!("{} is there", workspace::shown(base));
        return Ok(());
    }
    remove(base)?;
    let sources = sources()?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.arg(format!("--include={INCLUDED}")).arg(RELEASE).arg(base).arg(&sources[0].1);
    command::run(&mut debootstrap)?;
    let lines: Vec<String> =
        sources.iter().map(|(suite, address)| format!("deb {address} {suite} main\n")).collect();
    let write = |name: &str, text: &str| {
        let path = base.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write("etc/apt/sources.list", &lines.concat())?;
    // Whom this machine trusts, and how it finds others.
    for file in ["etc/ssl/certs/ca-certificates.crt", "etc/resolv.conf", "etc/hosts"] {
        let here = Path::new("/").join(file);
        let text =
            fs::read_to_string(&here).with_context(|| format!("cannot read {}", here.display()))?;
        write(file, &text)?;
    }
    write("root/.whole", "")
}

/// Removes what an earlier run made. Nothing is mounted in it.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn copy(base: &Path, machine: &Path) -> Result<()> {
    remove(machine)?;
    command::run(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(base).arg(machine))
}

fn clone_into(machine: &Path) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["clone", "--quiet", "--no-hardlinks"]).arg(workspace::root());
    command::run(git.arg(machine.join(CHECKOUT.trim_start_matches('/'))))
}

/// The command, as it runs in the machine.
fn inside(machine: &Path, which: Which) -> Result<Command> {
    let sysroot = command::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let place = |name: &str| -> PathBuf { machine.join(name.trim_start_matches('/')) };
    fs::create_dir_all(place(TOOLCHAIN)).context("cannot make a folder for the toolchain")?;
    // `$0` is the machine and `$1` the toolchain. Links of /dev stay as they are. Its root
    // is the root of its mounts, as on every machine: in a mere `chroot` nothing could be
    // mounted for one process alone.
    let script = format!(
        "mount --bind \"$0\" \"$0\" && mount --rbind /dev \"$0/dev\" && mount --rbind /sys \"$0/sys\" && \
         mount -t proc proc \"$0/proc\" && \
         mount --bind \"$1\" \"$0{TOOLCHAIN}\" && mount -o remount,bind,ro \"$0{TOOLCHAIN}\" && \
         cd \"$0\" && pivot_root . mnt && cd / && umount --lazy /mnt && \
         exec /usr/bin/env --ignore-environment HOME=/root \
         PATH={TOOLCHAIN}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
         sh -c 'cd {CHECKOUT} && exec cargo xtask {}'",
        which.name()
    );
    // In a session of its own it has no terminal, and nobody who interrupts us reaches
    // it: it ends when we do.
    let mut command_line = Command::new("setpriv");
    command_line.args(["--pdeathsig", "KILL", "setsid", "--wait"]);
    command_line.args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--"]);
    command_line.args(["sh", "-c", &script]).arg(machine).arg(sysroot.trim());
    Ok(command_line)
}
