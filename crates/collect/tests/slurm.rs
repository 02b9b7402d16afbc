//! Copies as tasks of a job array, on a real Slurm cluster on this machine.

mod slurm_cluster;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use slurm_cluster::Cluster;
use tempfile::TempDir;

const RUN_COPIES: &str = env!("CARGO_BIN_EXE_run-copies");

/// A working directory, with a folder beside it that all copies share and whose
/// path is in `$SHARED`.
struct Place<'a> {
    cluster: &'a Cluster,
    folder: TempDir,
}

#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    report: String,
}

impl Ran {
    /// The node of each copy.
    fn nodes(&self) -> Vec<&str> {
        let lines = self.report.lines();
        lines
            .filter_map(|line| Some(line.strip_prefix("copy ")?.split_once(" ran on ")?.1))
            .collect()
    }
}

impl<'a> Place<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work", "shared", "temporary", "programs"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { cluster, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, text: &str) -> PathBuf {
        let path = self.path("programs/program");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.cluster.command(RUN_COPIES);
        command.args(["--report", self.path("report").to_str().unwrap(), "--slurm"]).args(words);
        command.current_dir(self.path("work"));
        command.env("TMPDIR", self.path("temporary")).env("SHARED", self.path("shared"));
        command
    }

    fn start(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits for the end; queue and folders must be as before.
    fn finish(&self, child: Child) -> Ran {
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let report = fs::read_to_string(self.path("report")).unwrap_or_default();
        let ran = Ran { code: output.status.code(), stdout, stderr, report };
        assert_eq!(self.cluster.queue(), "", "{ran:?}");
        assert_eq!(names(&self.path("temporary")), "", "{ran:?}");
        let hidden = |folder: &Path| {
            let names = names(folder);
            names.split(' ').filter(|name| name.starts_with(".backtrail")).count()
        };
        assert_eq!(hidden(self.folder.path()) + hidden(&self.path("work")), 0, "{ran:?}");
        ran
    }

    fn copies(&self, options: &[&str], count: usize, script: &str) -> Ran {
        let program = self.script(script);
        let count = count.to_string();
        let words = [options, &[program.to_str().unwrap(), "--copies", &count]].concat();
        self.finish(self.start(&words))
    }

    fn wait_for_file(&self, name: &str) -> String {
        let path = self.path(name);
        let has_line = || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'));
        self.cluster.wait_for(name, |_| has_line());
        fs::read_to_string(&path).unwrap().trim().to_owned()
    }
}

fn names(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.join(" ")
}

fn kill(signal: &str, process: &str) {
    assert!(Command::new("kill").args([signal, process]).status().unwrap().success());
}

#[test]
fn on_slurm_more_copies_than_nodes() {
    let cluster = Cluster::start(3);
    for isolation in ["auto", "copy", "overlay"] {
        let place = Place::new(&cluster);
        fs::write(place.path("work/notes"), "a note\n").unwrap();
        // Each waits until another one has begun, so that no node can run all
        // of them one after the other.
        let script = r#"
            mktemp $SHARED/begun-XXXXXXXX > /dev/null
            while [ $(ls $SHARED | wc -l) -lt 2 ]; do sleep 0.05; done
            echo recorded > $BACKTRAIL_DIR/record
            pwd; env | sort; echo "$0"; readlink /proc/$$/cwd
            echo heard $(cat); echo and $(cat notes)
            echo err >&2; rm notes; mkdir new; echo new > new/file
            exit 5"#;
        let program = place.script(script);
        fs::write(place.path("input"), "this\n").unwrap();
        let records = place.path("records");
        let mut command = place.command(&["--records", records.to_str().unwrap()]);
        command.args(["--isolate", isolation]).arg(&program).args(["--copies", "7"]);
        command.stdin(fs::File::open(place.path("input")).unwrap());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let ran = place.finish(child);
        assert_eq!((ran.code, &*ran.stderr), (Some(5), "err\n"), "{ran:?}");
        assert!(ran.stdout.ends_with("heard this\nand a note\n"), "{ran:?}");
        assert!(ran.stdout.starts_with(place.path("work").to_str().unwrap()), "{ran:?}");
        assert_eq!(names(&place.path("work")), "new");
        assert_eq!(fs::read_to_string(place.path("work/new/file")).unwrap(), "new\n");
        println!("{isolation}:\n{}", ran.report);
        let mut nodes = ran.nodes();
        assert_eq!(nodes.len(), 7);
        nodes.sort_unstable();
        nodes.dedup();
        assert!(nodes.len() > 1 && nodes.iter().all(|node| node.starts_with('n')), "{nodes:?}");
        for copy in 0..7 {
            let record = records.join(format!("records-{copy:03}/record"));
            assert_eq!(fs::read_to_string(record).unwrap(), "recorded\n");
        }
    }
}

#[test]
fn on_slurm_failed_tasks_are_run_again() {
    let cluster = Cluster::start(3);
    // Whoever is first says who and where it is, and goes no further.
    let script = r#"
        if mkdir $SHARED/first 2> /dev/null; then
            echo half
            touch half
            echo $$ > $SHARED/program
            echo $PPID > $SHARED/task
            exec sleep 600
        fi
        echo whole
        touch whole"#;
    for victim in ["program", "task"] {
        let place = Place::new(&cluster);
        let program = place.script(script);
        let child = place.start(&[program.to_str().unwrap(), "--copies", "4"]);
        place.wait_for_file("shared/task");
        kill("-KILL", &place.wait_for_file(&format!("shared/{victim}")));
        let ran = place.finish(child);
        assert_eq!((ran.code, &*ran.stdout), (Some(0), "whole\n"), "{ran:?}");
        assert!(ran.report.contains("repeated 1\n"), "{ran:?}");
        assert!(ran.stderr.contains(" is run again: "), "{ran:?}");
        assert_eq!(names(&place.path("work")), "whole");
        println!("{victim} was killed: {}{}", ran.stderr, ran.report);
    }
    // A node fails: Slurm itself starts its task elsewhere.
    let place = Place::new(&cluster);
    let program = place.script(script);
    let child = place.start(&[program.to_str().unwrap(), "--copies", "3"]);
    place.wait_for_file("shared/task");
    let process = place.wait_for_file("shared/program");
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("SLURM_JOB_ID="));
    let task = place.wait_for_file("shared/task");
    let environment = fs::read(format!("/proc/{task}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let node = environment.split('\0').find_map(|entry| entry.strip_prefix("SLURMD_NODENAME="));
    let node = node.unwrap();
    let update = [&format!("NodeName={node}")[..], "State=DOWN", "Reason=test"];
    cluster.output("scontrol", &[&["update"], &update[..]].concat());
    // It does so two minutes later, unless told otherwise.
    let requeued = || {
        let queue = cluster.output("squeue", &["--noheader", "--array", "--format=%i %T %r"]);
        let mut words = queue.lines().filter_map(|line| line.split_once(" PENDING BeginTime"));
        words.next().map(|(task, _)| task.to_owned())
    };
    cluster.wait_for("the task is in the queue again", |_| requeued().is_some());
    let update = format!("JobId={}", requeued().unwrap());
    cluster.output("scontrol", &["update", &update, "StartTime=now"]);
    let ran = place.finish(child);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), "whole\n"), "{ran:?}");
    assert_eq!(names(&place.path("work")), "whole");
    println!("node {node} was down: {}{}", ran.stderr, ran.report);
}

#[test]
fn on_slurm_what_goes_wrong_is_said() {
    let cluster = Cluster::start(3);
    // Copies differ.
    let place = Place::new(&cluster);
    let ran = place.copies(&[], 3, "echo $$ > file");
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.stderr.contains("differ: file has other contents"), "{ran:?}");
    let ran = place.copies(&[], 3, "date +%N");
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.stderr.contains("differ: standard output from byte "), "{ran:?}");
    // Slurm does not want the job.
    let ran = place.copies(&["--slurm-arg", "--partition=nowhere"], 2, "true");
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stderr.contains("slurm: sbatch rejected the job: "), "{ran:?}");
    assert!(ran.stderr.contains("invalid partition"), "{ran:?}");
    // Tasks that always fail, because the task itself is killed.
    let ran = place.copies(&["--slurm-retries", "1"], 1, "kill -KILL $PPID; sleep 600");
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stderr.contains("slurm: copy 1 failed 2 times"), "{ran:?}");
    // A program that kills itself does so in all copies.
    let ran = place.copies(&["--slurm-retries", "1"], 2, "echo x; kill -KILL $$");
    assert_eq!((ran.code, &*ran.stdout), (Some(128 + 9), "x\n"), "{ran:?}");
    assert!(ran.report.contains("repeated 2\n"), "{ran:?}");
    // There is no Slurm here.
    let program = place.script("true");
    let mut command = place.command(&[program.to_str().unwrap()]);
    let child = command.env("PATH", "/nonexistent").stderr(Stdio::piped()).spawn().unwrap();
    let ran = place.finish(child);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stderr.contains("slurm: sbatch cannot be started"), "{ran:?}");
}

#[test]
fn on_slurm_interruptions_cancel_and_staging_may_be_anywhere() {
    let cluster = Cluster::start(3);
    let place = Place::new(&cluster);
    let program = place.script("echo $$ > $SHARED/program; exec sleep 600");
    let child = place.start(&[program.to_str().unwrap(), "--copies", "5"]);
    let process = place.wait_for_file("shared/program");
    kill("-INT", &child.id().to_string());
    let ran = place.finish(child);
    assert_eq!(ran.code, Some(128 + 2), "{ran:?}");
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    assert_eq!(names(&place.path("work")), "");
    // In the working directory, and somewhere else.
    for folder in [".", "../shared"] {
        fs::write(place.path("work/notes"), "a\n").unwrap();
        let script = "ls -a; rm notes; echo x > left";
        let ran = place.copies(&["--slurm-dir", folder], 2, script);
        assert_eq!((ran.code, &*ran.stdout), (Some(0), ".\n..\nnotes\n"), "{ran:?}");
        assert_eq!(names(&place.path("work")), "left");
        fs::remove_file(place.path("work/left")).unwrap();
    }
    // All in the same directory.
    let ran = place.copies(&["--isolate", "none"], 4, "echo x >> all");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(fs::read_to_string(place.path("work/all")).unwrap(), "x\n".repeat(4));
}
