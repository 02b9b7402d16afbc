//! `cargo xtask setup`: the packages a verb needs, shown and installed.
//!
//! What is missing is said first, with the command that installs it, and then
//! installed, with or without somebody to watch. `--no-install` refuses that, and
//! whoever may not install gets the exact command to hand to somebody who may.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::packages::{self, Need, Package};
use crate::{command, terminal};

/// What every verb that needs packages takes.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Installing {
    /// Install nothing: if a package is missing, name it and fail
    #[arg(long)]
    pub no_install: bool,
}

/// Shows the packages for `need` and installs those that are missing.
pub fn run(need: Need, installing: &Installing) -> Result<()> {
    ensure!(
        command::exists("dpkg-query") && command::exists("apt-get"),
        "this is not Debian (no dpkg-query, no apt-get): install by other means what these \
         Debian packages hold, then use cargo directly: {}",
        names(packages::needed(need))
    );
    let missing = show(need)?;
    if missing.is_empty() {
        return Ok(());
    }
    let install = Install::new(&missing);
    ensure!(!installing.no_install, "missing: {}; {}", install.names.join(" "), install.hint());
    println!("missing: {}\n{}", install.names.join(" "), install.shown());
    install.run()?;
    let still = missing.iter().filter(|package| version(package.name).is_none());
    let still = names(still.copied());
    ensure!(still.is_empty(), "apt-get succeeded, but these are still not installed: {still}");
    Ok(())
}

fn names<'a>(packages: impl Iterator<Item = &'a Package>) -> String {
    packages.map(|package| package.name).collect::<Vec<_>>().join(" ")
}

/// Prints every package, installed or not, and returns those that are not.
fn show(need: Need) -> Result<Vec<&'static Package>> {
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    for package in packages::needed(need) {
        let state = match version(package.name) {
            Some(version) => version,
            None => {
                missing.push(package);
                "MISSING".to_owned()
            }
        };
        rows.push(vec![package.name.to_owned(), state, package.why.to_owned()]);
    }
    rows.insert(0, ["package", "installed", "why"].map(str::to_owned).to_vec());
    print!("{}", terminal::table(&rows));
    Ok(missing)
}

/// The installed version of a package.
fn version(name: &str) -> Option<String> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat", "${db:Status-Status} ${Version}", name]);
    let output = command::capture(&mut query).ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.strip_prefix("installed ").map(|version| version.trim().to_owned())
}

/// One installation to be made.
struct Install {
    names: Vec<&'static str>,
    sudo: bool,
}

impl Install {
    fn new(missing: &[&'static Package]) -> Install {
        Install { names: missing.iter().map(|package| package.name).collect(), sudo: !is_root() }
    }

    /// The command as a person would type it.
    fn shown(&self) -> String {
        let sudo = if self.sudo { "sudo " } else { "" };
        format!("{sudo}apt-get install --no-install-recommends {}", self.names.join(" "))
    }

    fn hint(&self) -> String {
        format!("run: {}", self.shown())
    }

    fn run(&self) -> Result<()> {
        ensure!(
            !self.sudo || command::exists("sudo"),
            "you are not root and there is no sudo; as root, run: apt-get install \
             --no-install-recommends {}",
            self.names.join(" ")
        );
        if self.names.iter().any(|name| !has_candidate(name)) {
            self.update()?;
        }
        // Lists that are there can still be older than the archive.
        if let Err(first) = self.install() {
            eprintln!("{first:#}; trying once more with fresh package lists");
            self.update()?;
            self.install()?;
        }
        Ok(())
    }

    fn update(&self) -> Result<()> {
        show_progress("updating package lists", &mut self.apt_get(&["update"])).with_context(|| {
            "apt-get could not fetch the package lists; is the network there?".to_owned()
        })
    }

    fn install(&self) -> Result<()> {
        let mut apt = self.apt_get(&["install", "--yes", "--no-install-recommends"]);
        apt.args(&self.names);
        show_progress(&format!("installing {} packages", self.names.len()), &mut apt)
            .with_context(|| format!("could not install them; {}", self.hint()))
    }

    fn apt_get(&self, arguments: &[&str]) -> Command {
        let mut command = if self.sudo {
            let mut sudo = Command::new("sudo");
            if !terminal::is_interactive() {
                sudo.arg("--non-interactive");
            }
            sudo.args(["DEBIAN_FRONTEND=noninteractive", "sh"]);
            sudo
        } else {
            let mut shell = Command::new("sh");
            shell.env("DEBIAN_FRONTEND", "noninteractive");
            shell
        };
        // The status goes where the output goes, but through a descriptor of its
        // own: apt closes it in the scripts of packages, which write to theirs.
        // The shell is for that, and is behind sudo, which passes on no others.
        command.args(["-c", r#"exec apt-get "$@" 3>&1"#, "apt-get"]);
        // Another apt may be at work.
        for option in ["DPkg::Lock::Timeout=300", "APT::Status-Fd=3", "Dpkg::Use-Pty=0"] {
            command.args(["--option", option]);
        }
        command.args(arguments);
        command
    }
}

fn is_root() -> bool {
    let output = command::output(Command::new("id").arg("-u"));
    output.is_ok_and(|text| text.trim() == "0")
}

/// Whether apt knows a version it could install.
fn has_candidate(name: &str) -> bool {
    let output = command::output(Command::new("apt-cache").args(["policy", name]));
    let text = output.unwrap_or_default();
    text.lines().any(|line| {
        line.trim().strip_prefix("Candidate: ").is_some_and(|candidate| candidate != "(none)")
    })
}

/// Runs apt-get with a bar on a terminal and a line now and then elsewhere; keeps
/// what it prints for the error.
fn show_progress(what: &str, apt: &mut Command) -> Result<()> {
    println!("{what} ...");
    let bar = ProgressBar::new(100);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}% {elapsed} {wide_msg}")?);
    bar.enable_steady_tick(Duration::from_millis(500));
    apt.stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = apt.spawn().with_context(|| format!("cannot start {}", command::shown(apt)))?;
    let stderr = child.stderr.take().expect("standard error is a pipe");
    let errors = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let mut said = String::new();
    let mut printed = 0;
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.context("lost apt-get's output")?;
        let line = String::from_utf8_lossy(&line);
        match Status::parse(&line) {
            Some(status) => {
                bar.set_position(status.percent);
                bar.set_message(status.text.to_owned());
                // Fetching counts to a hundred, and then installing does.
                let next = if status.percent < printed { 0 } else { printed + 10 };
                if bar.is_hidden() && status.percent >= next {
                    println!("  {:>3} % {}", status.percent, status.text);
                    printed = status.percent;
                }
            }
            None => {
                said.push_str(&line);
                said.push('\n');
            }
        }
    }
    let status = child.wait().context("lost apt-get")?;
    bar.finish_and_clear();
    let errors = errors.join().unwrap_or_default();
    if !status.success() {
        let said = if errors.trim().is_empty() { &said } else { &errors };
        bail!("apt-get failed ({status}): {}", command::tail(said, 6));
    }
    Ok(())
}

/// A line of `APT::Status-Fd`: `pmstatus:PACKAGE:PERCENT:TEXT`, or `dlstatus`.
struct Status<'a> {
    percent: u64,
    text: &'a str,
}

impl<'a> Status<'a> {
    fn parse(line: &'a str) -> Option<Status<'a>> {
        let rest = line.strip_prefix("pmstatus:").or_else(|| line.strip_prefix("dlstatus:"))?;
        // A package's name can hold a colon (`libc6:amd64`), a number cannot.
        let fields: Vec<&str> = rest.splitn(4, ':').collect();
        let at = fields.iter().skip(1).position(|field| field.parse::<f64>().is_ok())? + 1;
        let percent = fields[at].parse::<f64>().ok()?.clamp(0.0, 100.0) as u64;
        let text = rest.splitn(at + 2, ':').nth(at + 1).unwrap_or_default();
        Some(Status { percent, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_lines_are_read_with_and_without_an_architecture() {
        let status = Status::parse("pmstatus:csmith:42.8571:Unpacking csmith (amd64)").unwrap();
        assert_eq!((status.percent, status.text), (42, "Unpacking csmith (amd64)"));
        let status = Status::parse("pmstatus:libc6:amd64:7.5:Configuring: libc6").unwrap();
        assert_eq!((status.percent, status.text), (7, "Configuring: libc6"));
        let status = Status::parse("dlstatus:1:9.80392:Retrieving file 1 of 3").unwrap();
        assert_eq!((status.percent, status.text), (9, "Retrieving file 1 of 3"));
        assert!(Status::parse("Setting up csmith (2.3.0-7) ...").is_none());
        assert!(Status::parse("pmstatus:only").is_none());
    }

    #[test]
    fn a_package_that_does_not_exist_is_not_installed() {
        assert_eq!(version("backtrail-no-such-package"), None);
    }
}
