//! The process that becomes a copy.
//!
//! A process with threads cannot enter a user namespace, and the name a program
//! is started under is set by whoever starts it. So a copy begins as a process
//! of our own that has one thread. It
//!
//! 1. moves to the copy's cores;
//! 2. enters a mount namespace of its own (as an ordinary user: with a user
//!    namespace, in which it keeps its user and group), and mounts what the copy
//!    is to see: its view of the working directory, and its executable and its
//!    folder for records at paths that are the same for all copies;
//! 3. asks the kernel to be killed if whoever started it dies, and not to
//!    randomise addresses;
//! 4. executes the program, so that the process is the program's.
//!
//! Everything is said in a file. The program cannot be told from one
//! that was started directly, except that a user who is not root has no
//! supplementary groups in a user namespace and sees files of other users as
//! owned by nobody. In a namespace that has only mounts nothing of that holds.
//!
//! Source for what is allowed to whom: user_namespaces(7), mount_namespaces(7),
//! and Documentation/filesystems/overlayfs.rst of Linux, for `userxattr`.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::{CommandExt as _, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use backtrail_foreign::say;
use backtrail_interruption::{Environment, bind, give_back};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::sys::personality::{self, Persona};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getegid, geteuid};
use serde::{Deserialize, Serialize};

use super::watched::Watched;
use crate::bystander::BYSTANDER;

/// The first argument that makes the executable a copy.
pub const VERB: &str = "__copy";

/// The second argument: become the program of the file that follows.
pub(super) const BECOME: &str = "become";

/// The second argument: mount what the file that follows says, and leave.
pub(super) const PROBE: &str = "probe";

/// The second argument: run one task of what is staged in the folder that
/// follows.
pub(super) const TASK: &str = "task";

/// What a process leaves with that could not become a copy. Its reason is in
/// [`Spec::failure`]; a program may leave so, too.
const CANNOT: u8 = 126;

/// What a copy is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Spec {
    /// The executable, at the path the copy sees it at.
    pub executable: PathBuf,
    /// The name it is started under.
    pub name: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// All of its environment, if not this process's.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// Variables to set.
    pub variables: Vec<(OsString, OsString)>,
    /// Where it starts, at the path the copy sees it at.
    pub directory: PathBuf,
    /// The cores it may use; none for whichever.
    pub cores: Vec<usize>,
    /// What it sees that others do not; a namespace is entered if there is any.
    pub mounts: Vec<Mount>,
    /// The file that is written if it could not be started.
    pub failure: PathBuf,
    /// Whether what comes into it is written down, and how.
    pub watched: Option<Watched>,
}

/// One mount of a copy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Mount {
    /// A folder is also seen at another path.
    Bind {
        /// The folder.
        from: PathBuf,
        /// Where it is seen: a folder, too.
        to: PathBuf,
    },
    /// A folder is seen with changes.
    Overlay {
        /// The folder.
        lower: PathBuf,
        /// Where changes are kept.
        upper: PathBuf,
        /// The kernel's own, beside `upper`.
        work: PathBuf,
        /// Where it is seen.
        to: PathBuf,
    },
}

impl Spec {
    /// Writes the file that says it.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, serde_json::to_vec(self)?)
    }

    fn read(path: &Path) -> std::io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }
}

/// The whole of a process that was started with [`VERB`] as its first argument.
/// To be called before there is a second thread.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(2).collect();
    if words.first().is_some_and(|verb| verb == BYSTANDER) {
        return crate::bystander::main();
    }
    let (Some(verb), Some(path)) = (words.first().and_then(|it| it.to_str()), words.get(1)) else {
        say!("backtrail: {VERB} is not for you; see 'backtrail --help'");
        return ExitCode::from(2);
    };
    if verb == TASK {
        return if super::task::run(Path::new(path)) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let spec = match Spec::read(Path::new(path)) {
        Ok(spec) => spec,
        Err(error) => {
            say!("backtrail: {} cannot be read: {error}", Path::new(path).display());
            return ExitCode::from(2);
        }
    };
    let result = match verb {
        PROBE => enter(&spec.mounts),
        _ => match &spec.watched {
            Some(watched) => super::watched::run(&spec, watched),
            None => Err(become_program(&spec)),
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Whoever started us finds the file and knows that the program
            // did not run; without a file there is the status.
            let _ = std::fs::write(&spec.failure, why);
            ExitCode::from(CANNOT)
        }
    }
}

/// The command that becomes `spec`, which was written to `path`.
pub(super) fn command(entry: &Path, verb: &str, path: &Path) -> Command {
    let mut command = Command::new(entry);
    command.arg(VERB).arg(verb).arg(path).process_group(0);
    give_back(bind(&mut command));
    command
}

/// Whether such mounts are possible here; if not, why.
pub(super) fn probe(entry: &Path, mounts: Vec<Mount>, scratch: &Path) -> Result<(), String> {
    let spec = Spec {
        executable: PathBuf::new(),
        name: OsString::new(),
        arguments: Vec::new(),
        environment: None,
        variables: Vec::new(),
        directory: PathBuf::new(),
        cores: Vec::new(),
        mounts,
        failure: scratch.join("probe.failure"),
        watched: None,
    };
    let path = scratch.join("probe.json");
    spec.write(&path).map_err(|error| error.to_string())?;
    let mut command = command(entry, PROBE, &path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|error| format!("{}: {error}", entry.display()))?;
    let why = std::fs::read_to_string(&spec.failure);
    let _ = std::fs::remove_file(&spec.failure);
    let _ = std::fs::remove_file(&path);
    match why {
        Ok(why) => Err(why),
        Err(_) if !status.success() => Err(format!("{} ended with {status}", entry.display())),
        Err(_) => Ok(()),
    }
}

/// Comes back only if it failed.
fn become_program(spec: &Spec) -> String {
    let parent = parent_id();
    if let Err(why) = move_to_cores(&spec.cores) {
        return why;
    }
    if !spec.mounts.is_empty()
        && let Err(why) = enter(&spec.mounts)
    {
        return why;
    }
    // Only now: a change of user namespace takes it back.
    if let Err(why) = end_with(parent) {
        return why;
    }
    execute(spec)
}

/// This process is killed when its parent, which has been `parent`, dies.
pub(super) fn end_with(parent: u32) -> Result<(), String> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("prctl: {error}"))?;
    // It may have died meanwhile.
    match parent_id() == parent {
        true => Ok(()),
        false => Err("whoever started it is gone".to_owned()),
    }
}

/// Executes the program. Comes back only if it failed.
pub(super) fn execute(spec: &Spec) -> String {
    // What depends on addresses should do the same in all copies as far as it
    // can. Where this is forbidden, copies that differ are noticed all the same.
    if let Ok(persona) = personality::get() {
        let _ = personality::set(persona | Persona::ADDR_NO_RANDOMIZE);
    }
    if let Err(error) = std::env::set_current_dir(&spec.directory) {
        return format!("{} cannot be entered: {error}", spec.directory.display());
    }
    let mut command = Command::new(&spec.executable);
    let given = spec.environment.as_deref();
    let mut environment = given.map_or_else(Environment::own, Environment::of);
    spec.variables.iter().for_each(|(name, value)| environment.set(name, value));
    environment.give(&mut command);
    command.arg0(&spec.name).args(&spec.arguments);
    give_back(&mut command).exec().to_string()
}

fn move_to_cores(cores: &[usize]) -> Result<(), String> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core).map_err(|error| format!("core {core}: {error}"))?;
    }
    sched_setaffinity(Pid::this(), &set).map_err(|error| format!("sched_setaffinity: {error}"))
}

/// Which namespaces this process entered.
#[derive(Clone, Copy, PartialEq)]
enum Entered {
    Mounts,
    UserAndMounts,
}

/// Enters a mount namespace of its own and mounts.
pub(super) fn enter(mounts: &[Mount]) -> Result<(), String> {
    let entered = enter_namespace()?;
    // What is mounted here is not to be seen outside; what is unmounted outside
    // is not to be kept here.
    let none = None::<&Path>;
    mount(none, Path::new("/"), none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)
        .map_err(|error| format!("mounts cannot be made private: {error}"))?;
    // Before anything is covered by a mount, and after the namespace was entered:
    // what is open from another one cannot be mounted.
    let opened = mounts.iter().map(Opened::new).collect::<Result<Vec<_>, _>>()?;
    opened.iter().try_for_each(|opened| opened.mount(entered))
}

fn enter_namespace() -> Result<Entered, String> {
    match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => return Ok(Entered::Mounts),
        Err(Errno::EPERM) => {}
        Err(error) => return Err(format!("the kernel allows no mount namespace: {error}")),
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(|error| {
        format!(
            "the kernel allows no user namespace ({error}); it is allowed by \
             user.max_user_namespaces above 0, on some systems also by \
             kernel.unprivileged_userns_clone=1 or \
             kernel.apparmor_restrict_unprivileged_userns=0"
        )
    })?;
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ];
    for (file, text) in maps {
        std::fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| format!("/proc/self/{file} cannot be written: {error}"))?;
    }
    Ok(Entered::UserAndMounts)
}

/// A mount whose folders are open. By descriptor they are found wherever the
/// other mounts cover them, and whatever characters their names have.
enum Opened {
    Bind { from: File, to: PathBuf },
    Overlay { lower: File, upper: File, work: File, to: PathBuf },
}

impl Opened {
    fn new(mount: &Mount) -> Result<Self, String> {
        Ok(match mount {
            Mount::Bind { from, to } => Opened::Bind { from: open(from)?, to: to.clone() },
            Mount::Overlay { lower, upper, work, to } => Opened::Overlay {
                lower: open(lower)?,
                upper: open(upper)?,
                work: open(work)?,
                to: to.clone(),
            },
        })
    }

    fn mount(&self, entered: Entered) -> Result<(), String> {
        let none = None::<&Path>;
        let failed = |what: &str, to: &Path, error: Errno| {
            format!("the kernel refuses {what} at {}: {error}", to.display())
        };
        match self {
            Opened::Bind { from, to } => {
                mount(Some(&by_descriptor(from)), to, none, MsFlags::MS_BIND, none)
                    .map_err(|error| failed("to show a folder", to, error))
            }
            Opened::Overlay { lower, upper, work, to } => {
                let [lower, upper, work] = [lower, upper, work].map(by_descriptor);
                let (lower, upper, work) = (lower.display(), upper.display(), work.display());
                let mut options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
                if entered == Entered::UserAndMounts {
                    options.push_str(",userxattr");
                }
                let overlay = Path::new("overlay");
                let flags = MsFlags::empty();
                mount(Some(overlay), to, Some(overlay), flags, Some(Path::new(&options)))
                    .map_err(|error| failed("an overlay", to, error))
            }
        }
    }
}

fn open(path: &Path) -> Result<File, String> {
    OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_PATH)
        .open(path)
        .map_err(|error| format!("{} cannot be opened: {error}", path.display()))
}

fn by_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
