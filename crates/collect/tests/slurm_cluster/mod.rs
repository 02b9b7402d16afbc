//! A real Slurm cluster of several nodes on this machine.
//!
//! Everything is its own: a munged with a key and a socket of its own, ports that
//! were free a moment ago, configuration, state and logs in a temporary folder.
//! The system's own Slurm, if there is one, is not touched, because all commands
//! are given `SLURM_CONF`. The daemons stay children of this process; they are
//! ended by their process numbers, and by the kernel if this process is killed.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long anything may take on a machine that is busy otherwise.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Cluster {
    folder: TempDir,
    /// The last started first.
    daemons: Vec<Child>,
}

impl Cluster {
    /// Starts one, and waits until all nodes can be used.
    pub fn start(nodes: usize) -> Self {
        let folder = tempfile::Builder::new().prefix("slurm-").tempdir().unwrap();
        // munged looks who else could have changed its files.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut cluster = Self { folder, daemons: Vec::new() };
        for name in ["munge", "state", "spool", "log", "run"] {
            fs::create_dir(cluster.path(name)).unwrap();
        }
        cluster.start_munged();
        cluster.write_configuration(nodes);
        let configuration = cluster.configuration();
        let slurm = |name: &str| {
            let mut daemon = daemon(name);
            daemon.arg("-D").arg("-f").arg(&configuration);
            daemon
        };
        let mut controller = slurm("slurmctld");
        let mut workers: Vec<Command> = (1..=nodes).map(|_| slurm("slurmd")).collect();
        cluster.spawn("slurmctld", &mut controller);
        for (index, worker) in workers.iter_mut().enumerate() {
            let name = format!("n{}", index + 1);
            cluster.spawn(&name, worker.args(["-N", &name]));
        }
        cluster.wait_for("all nodes are idle", |cluster| {
            let states = cluster.output("sinfo", &["--noheader", "--Node", "--format=%T"]);
            states.lines().filter(|state| *state == "idle").count() == nodes
        });
        cluster
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What `SLURM_CONF` is to be.
    pub fn configuration(&self) -> PathBuf {
        self.path("slurm.conf")
    }

    /// A command that talks to this cluster.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("SLURM_CONF", self.configuration()).stdin(Stdio::null());
        command
    }

    /// What such a command prints.
    pub fn output(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output();
        let output = output.unwrap_or_else(|error| {
            panic!("{program}: {error}; packages slurmctld slurmd slurm-client munge are needed")
        });
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What is in the queue.
    pub fn queue(&self) -> String {
        self.output("squeue", &["--noheader"])
    }

    fn start_munged(&mut self) {
        let random = fs::File::open("/dev/urandom").unwrap();
        let mut key = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(random, 128), &mut key).unwrap();
        let folder = self.path("munge");
        fs::write(folder.join("key"), key).unwrap();
        fs::set_permissions(folder.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut munged = daemon("munged");
        munged.arg("--foreground").arg("--num-threads=2");
        for (option, name) in
            [("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("seed-file", "seed")]
        {
            munged.arg(format!("--{option}={}", folder.join(name).display()));
        }
        self.spawn("munged", &mut munged);
        self.wait_for("munged listens", |_| folder.join("socket").exists());
    }

    fn write_configuration(&self, nodes: usize) {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap();
        let user = Command::new("id").arg("-un").output().unwrap();
        let user = String::from_utf8(user.stdout).unwrap();
        let user = user.trim();
        let ports = free_ports(nodes + 1);
        let root = self.folder.path().display();
        let mut text = format!(
            "ClusterName=backtrail\n\
             SlurmctldHost={host}(127.0.0.1)\n\
             SlurmctldPort={}\n\
             AuthType=auth/munge\n\
             AuthInfo=socket={root}/munge/socket\n\
             SlurmUser={user}\n\
             SlurmdUser={user}\n\
             StateSaveLocation={root}/state\n\
             SlurmdSpoolDir={root}/spool/%n\n\
             SlurmctldPidFile={root}/run/slurmctld\n\
             SlurmdPidFile={root}/run/%n\n\
             SlurmctldLogFile={root}/log/slurmctld.log\n\
             SlurmdLogFile={root}/log/%n.log\n\
             ProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\n\
             SelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\n\
             MpiDefault=none\n\
             ReturnToService=2\n\
             KillWait=2\n\
             PartitionName=main Nodes=ALL Default=YES State=UP\n",
            ports[nodes]
        );
        for (index, port) in ports[..nodes].iter().enumerate() {
            let name = index + 1;
            text.push_str(&format!(
                "NodeName=n{name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 \
                 State=UNKNOWN\n"
            ));
        }
        fs::write(self.configuration(), text).unwrap();
    }

    fn spawn(&mut self, name: &str, command: &mut Command) {
        let log = fs::File::create(self.path("log").join(format!("{name}.out"))).unwrap();
        command.env("SLURM_CONF", self.configuration());
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn();
        let child = child.unwrap_or_else(|error| panic!("setpriv cannot be started: {error}"));
        self.daemons.insert(0, child);
    }

    /// Waits for something to become true.
    pub fn wait_for(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_true(self) {
            if begun.elapsed() > PATIENCE {
                panic!("{what}: not after {PATIENCE:?}\n{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The ends of what the daemons logged.
    fn logs(&self) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(self.path("log")).unwrap() {
            let path = entry.unwrap().path();
            let log = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(20)..].join("\n");
            text.push_str(&format!("--- {}\n{end}\n", path.display()));
        }
        text
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A test that failed may have left something running on the nodes.
        if self.daemons.len() > 2 && !self.queue().is_empty() {
            let user = Command::new("id").arg("-un").output().unwrap().stdout;
            self.output("scancel", &["--user", String::from_utf8_lossy(&user).trim()]);
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE / 4 && !self.queue().is_empty() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        // Controllers save their state when asked to end; it is not wanted.
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A daemon that does not outlive this process. Daemons are where an ordinary
/// user's path does not lead.
fn daemon(name: &str) -> Command {
    let folders = ["/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/bin"];
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(name));
    let path = paths.find(|path| path.exists()).unwrap_or_else(|| {
        panic!("no {name}: install slurmctld slurmd slurm-client munge (cargo xtask setup)")
    });
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(path);
    command
}

/// Ports nobody uses, all different.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
