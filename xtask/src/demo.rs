//! `cargo xtask demo`: what Backtrail can tell about a small C program.
//!
//! The program is `demo/`: tabulate, a few hundred lines with a parser,
//! callbacks, loops and one bug. Each step prints the command it runs, so that
//! the demo can be repeated by hand.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::packages::Need;
use crate::workspace::{self, Profile};
use crate::{command, setup, terminal};

/// What `cargo xtask demo` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
}

/// Shows it all.
pub fn run(options: &Options) -> Result<()> {
    terminal::heading("Packages");
    setup::run(Need::Tool, &options.installing)?;

    terminal::heading("The tool");
    println!("cargo build --package backtrail-cli --bins");
    let tool = workspace::build_tool(Profile::Dev)?;
    let folder = workspace::target()?.join("demo");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder)?;
    Demo { tool, source: workspace::root().join("demo"), folder }.run()
}

struct Demo {
    tool: PathBuf,
    source: PathBuf,
    folder: PathBuf,
}

impl Demo {
    fn run(&self) -> Result<()> {
        terminal::heading("Build once: an ordinary executable that carries its own IR");
        let mut make = self.step("make", &["CC=backtrail cc"]);
        make.arg(format!("OUT={}", self.folder.display())).current_dir(&self.source);
        self.show(make, None)?;

        terminal::heading("What it carries");
        self.show(self.step("backtrail", &["info", "tabulate"]), None)?;

        terminal::heading("It works on a good table");
        let good = self.show(self.tabulate("./tabulate", "good.csv"), None)?;

        terminal::heading("Which paths does it take, and how often?");
        let mut profile = self.step("backtrail", &["profile", "./tabulate", "--"]);
        let inputs = self.source.join("inputs");
        profile.arg(inputs.join("orders.script")).arg(inputs.join("good.csv"));
        let profiled = self.show(profile, None)?;
        ensure!(profiled.stdout == good.stdout, "the counting variant printed something else");
        println!("{}", terminal::green("same output"));
        self.show(self.step("backtrail", &["paths", "tabulate.btprof", "--top", "3"]), None)?;
        let page = ["paths", "tabulate.btprof", "--html", "report"];
        self.show(self.step("backtrail", &page), None)?;

        terminal::heading("Derive a variant that logs every block it executes");
        let log = ["instrument", "--scheme", "log", "-o", "tabulate.log", "tabulate"];
        self.show(self.step("backtrail", &log), None)?;

        terminal::heading("The variant prints the same, and leaves a record");
        let logged = self.show(self.recorded("good.csv", "records-good"), None)?;
        ensure!(logged.stdout == good.stdout, "the variant printed something else");
        println!("{}", terminal::green("same output"));
        let show = ["show", "records-good", "--function", "run_*", "--count", "12"];
        self.show(self.step("backtrail", &show), None)?;

        terminal::heading("On another table the program crashes");
        let crash = self.show(self.tabulate("./tabulate", "crash.csv"), Some(SIGSEGV))?;
        ensure!(crash.stdout.is_empty(), "it printed something before it crashed");

        terminal::heading("The variant crashes too, and nothing of its record is lost");
        self.show(self.recorded("crash.csv", "records-crash"), Some(SIGSEGV))?;
        self.show(self.step("backtrail", &["show", "records-crash", "--last", "9"]), None)?;
        self.explain()?;
        self.autopsy()?;
        println!("\nEverything is in {}.", workspace::shown(&self.folder));
        Ok(())
    }

    /// A variant to ship: which way it came is in its core dump.
    fn autopsy(&self) -> Result<()> {
        terminal::heading("Ship a variant whose core dump tells which way it came");
        let pt = ["instrument", "--scheme", "pt", "-o", "tabulate.pt", "tabulate"];
        self.show(self.step("backtrail", &pt), None)?;
        let shipped = self.tabulate("./tabulate.pt", "crash.csv");
        let line = format!("ulimit -c unlimited; exec {}", command::shown(&shipped));
        self.show(self.step("sh", &["-c", &line]), Some(SIGSEGV))?;
        let core = match self.core()? {
            Some(core) => core,
            None => self.core_by_gdb(&shipped)?,
        };
        let autopsy =
            self.show(self.step("backtrail", &["autopsy", "--exe", "tabulate.pt", &core]), None)?;
        let said = String::from_utf8_lossy(&autopsy.stdout);
        ensure!(
            said.contains("compare_rows") && said.contains("came by"),
            "the autopsy does not tell the way to the crash"
        );
        Ok(())
    }

    /// The core that the kernel left.
    fn core(&self) -> Result<Option<String>> {
        let entries = std::fs::read_dir(&self.folder)?.flatten().map(|it| it.file_name());
        let is_core = |name: &String| name == "core" || name.starts_with("core.");
        Ok(entries.filter_map(|it| it.into_string().ok()).find(is_core))
    }

    /// The same where the kernel gives it to another program, or to nobody.
    fn core_by_gdb(&self, dying: &Command) -> Result<String> {
        let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
        println!(
            "the kernel left no core dump here (kernel.core_pattern is {:?}), so gdb writes it",
            pattern.trim()
        );
        let script = ["-nx", "-batch", "-ex", "run", "-ex", "generate-core-file core", "--args"];
        let mut gdb = self.step("gdb", &script);
        self.show_all(gdb.arg(dying.get_program()).args(dying.get_args()))?;
        self.core()?.context(
            "gdb could not write a core dump; it needs ptrace (kernel.yama.ptrace_scope, the \
             capability SYS_PTRACE, seccomp)",
        )
    }

    /// What a reader can see in those last blocks, checked before it is said.
    fn explain(&self) -> Result<()> {
        let last = ["show", "records-crash", "--last", "2"];
        let output = command::output(&mut self.step("backtrail", &last))?;
        ensure!(
            output.contains("compare_rows") && output.contains("compare_text(x->text, y->text)"),
            "the last blocks are not those of the crash:\n{output}"
        );
        println!(
            "\nThe last comparison never got past {}: one of the two texts is not\n\
             there. A row of crash.csv is a field short, read_row leaves that cell empty, and\n\
             the comparison that `sort` gives to qsort does not expect it.",
            terminal::bold("compare_text(x->text, y->text)")
        );
        Ok(())
    }

    fn tabulate(&self, program: &str, table: &str) -> Command {
        let inputs = self.source.join("inputs");
        let mut command = self.step(program, &[]);
        command.arg(inputs.join("orders.script")).arg(inputs.join(table));
        command
    }

    fn recorded(&self, table: &str, records: &str) -> Command {
        let mut command = self.tabulate("./tabulate.log", table);
        command.env("BACKTRAIL_DIR", self.folder.join(records));
        command
    }

    fn step(&self, program: &str, arguments: &[&str]) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.tool.clone()).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(folders).expect("no folder has a colon in its name");
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder).env("PATH", path);
        command
    }

    /// Prints a command and what it prints. It must end with success, or with
    /// the signal that is expected of it.
    fn show(&self, mut command: Command, signal: Option<i32>) -> Result<Output> {
        let output = self.show_all(&mut command)?;
        let died = std::os::unix::process::ExitStatusExt::signal(&output.status);
        if died != signal || (signal.is_none() && !output.status.success()) {
            bail!("{} ended with {}", command::shown(&command), output.status);
        }
        if signal.is_some() {
            println!("{}", terminal::red(&output.status.to_string()));
        }
        Ok(output)
    }

    /// Prints a command and what it prints, however it ends.
    fn show_all(&self, command: &mut Command) -> Result<Output> {
        println!("{}", terminal::dim(&format!("$ {}", self.typed(command))));
        let output = command::capture(command)?;
        print!("{}", String::from_utf8_lossy(&output.stdout));
        print!("{}", String::from_utf8_lossy(&output.stderr));
        Ok(output)
    }

    /// A command as somebody in the demo's folder would type it.
    fn typed(&self, command: &Command) -> String {
        let shorten = |text: String| {
            let inside = |path: &Path| format!("{}/", path.display());
            let text = text.replace(&inside(&self.source), "demo/");
            text.replace(&inside(&self.folder), "")
        };
        let records = command.get_envs().find(|(name, _)| *name == "BACKTRAIL_DIR");
        let records = records.and_then(|(_, value)| value);
        let records = records.map(|value| format!("BACKTRAIL_DIR={} ", value.to_string_lossy()));
        shorten(format!("{}{}", records.unwrap_or_default(), command::shown(command)))
    }
}

const SIGSEGV: i32 = 11;
