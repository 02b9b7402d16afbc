//! Ends without warning, signals, and disks that are full.

use super::profile_program::{LEVELS, Profile, Program, Ran, Scheme, fixture};

/// Counts to 1000 and ends in the way that it is told.
const COUNTING: &str = r#"
    #define _GNU_SOURCE
    #include <signal.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    volatile int work;
    __attribute__((noinline)) void step(int x) { if (x % 2) work++; }
    __attribute__((noinline)) void end(const char *how) {
      if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
      if (!strcmp(how, "_exit")) _exit(9);
      if (!strcmp(how, "exit_group")) syscall(SYS_exit_group, 9);
      puts("done");
    }
    int main(int argc, char **argv) {
      for (int i = 0; i < 1000; i++) step(i);
      end(argv[1]);
      return 0;
    }
"#;

fn survives(how: &str, status: i32, end_unfinished: u64) {
    for level in LEVELS {
        let (ran, profile) = Program::c(COUNTING, &[level]).equal(&[how]);
        assert_eq!(ran.status, status, "{level}");
        assert_eq!(profile.incomplete, None, "{level}");
        let step = profile.function("step");
        assert_eq!(step.activations(), (1000, 0, 0), "{level}");
        let counts: Vec<u64> = step.paths.values().map(|path| path.count).collect();
        assert_eq!(counts, [500, 500], "{level}");
        assert_eq!(profile.function("end").activations(), (1, end_unfinished, 0), "{level}");
        assert_eq!(profile.function("main").activations(), (1, 1, 0), "{level}");
    }
}

#[test]
fn kill_9() {
    survives("kill", 128 + 9, 1);
}

#[test]
fn an_exit_that_tells_nobody() {
    // _exit is known not to return; the system call is not.
    survives("_exit", 9, 0);
    survives("exit_group", 9, 1);
}

#[test]
fn signal_handlers() {
    // Signals come at any instruction of the loop; the handler counts, too.
    let source = r#"
        #include <signal.h>
        #include <stdio.h>
        #include <sys/time.h>
        volatile int work;
        volatile sig_atomic_t handled;
        __attribute__((noinline)) void step(unsigned x) { if (x & 1) work++; if (x & 2) work += 2; if (x & 4) work++; }
        static void handler(int signal) { (void)signal; handled++; step(handled); step(handled); }
        int main(void) {
          struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
          sigaction(SIGALRM, &action, 0);
          struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
          setitimer(ITIMER_REAL, &often, 0);
          unsigned long i = 0;
          while (handled < 300) step(i++);
          setitimer(ITIMER_REAL, &never, 0);
          printf("%lu %d\n", i, (int)handled);
          return 0;
        }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).profile(&[]);
        assert_eq!((ran.status, profile.incomplete.as_deref()), (0, None));
        let numbers: Vec<u64> =
            ran.stdout.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [steps, handled] = numbers[..] else { panic!("{}", ran.stdout) };
        assert_eq!(profile.function("handler").activations(), (handled, 0, 0), "{level}");
        // Where a handler interrupts an addition to a counter, neither is lost.
        let step = profile.function("step");
        assert_eq!(step.activations(), (steps + 2 * handled, 0, 0), "{level}");
        assert_eq!(step.count("entry", "exit"), steps + 2 * handled, "{level}");
        let main = profile.function("main");
        assert_eq!(main.activations(), (1, 0, 0));
        assert!(main.edges_exact);
    }
}

#[test]
fn a_full_disk() {
    let program = Program::c(COUNTING, &["-O1"]);
    let plain = Ran::of(&program.command("./program").arg("on").output().unwrap());
    let variant = program.variant(Scheme::Profile);
    let records = program.records(Scheme::Profile);
    // Files may grow to 4 KiB, so that neither counters nor anything else has room.
    let script = format!("ulimit -f 8; exec '{}' on", variant.display());
    let output =
        program.command("sh").arg("-c").arg(script).env("BACKTRAIL_DIR", &records).output();
    assert_eq!(Ran::of(&output.unwrap()), plain, "the program does not notice");
    let words = ["paths", "--json", records.to_str().unwrap()];
    let output = program.command(super::profile_program::BACKTRAIL).args(words).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    match output.status.code() {
        // Either there is a record that says what is missing,
        Some(0) => {
            let profile = Profile::read(&String::from_utf8(output.stdout).unwrap());
            let why = profile.incomplete.expect("nothing was recorded");
            assert!(why.contains("room") || why.contains("disk"), "{why}");
        }
        // or there is none, which is said.
        code => assert_eq!(code, Some(3), "{said}"),
    }
    // With room again, the same folder takes records.
    let (ran, _) = program.profile(&["on"]);
    assert_eq!(ran, plain);
}

#[test]
fn adding_to_a_counter_is_one_instruction() {
    for level in ["-O0", "-Og", "-O1", "-O2", "-O3", "-Os", "-Oz"] {
        let program = Program::c(&fixture("words.c"), &[level]);
        let variant = program.variant(Scheme::Profile);
        let output = program.command("llvm-objdump-19").arg("-d").arg(variant).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let code = String::from_utf8(output.stdout).unwrap();
        let mut added = 0;
        for line in code.lines().filter(|line| line.contains("%gs:")) {
            let is_check = line.contains("cmpq\t%gs:");
            assert!(is_check || line.contains("incq\t%gs:"), "{level}: {line}");
            added += usize::from(!is_check);
        }
        assert!(added > 20, "{level}: only {added} counts");
    }
}
