//! Shapes of control flow.

use super::profile_program::{LEVELS, Profile, Program, Scheme};

/// A function that decides on `bits` bits of its argument, one after another.
fn deciding(bits: u32) -> String {
    let decide = |bit: u32| format!("  if (x >> {bit} & 1) set[{bit}]++;\n");
    let decisions: String = (0..bits).map(decide).collect();
    format!(
        "volatile unsigned set[{bits}];\n\
         __attribute__((noinline)) void decide(unsigned __int128 x) {{\n{decisions}}}\n\
         int main(void) {{\n\
           for (unsigned long i = 0; i < 1000; i++)\n\
             decide((unsigned __int128)i * i << 40 | i * 0x9e3779b97f4a7c15);\n\
         }}\n"
    )
}

/// How often the decision on each bit is yes, worked out here.
fn decisions(bits: u32) -> u64 {
    let value = |i: u64| (u128::from(i * i) << 40) | u128::from(i.wrapping_mul(0x9e3779b97f4a7c15));
    (0..1000).map(|i| u64::from((value(i) & ((1 << bits) - 1)).count_ones())).sum()
}

fn too_many_paths(bits: u32) {
    for level in LEVELS {
        let program = Program::c(&deciding(bits), &[level]);
        let (ran, profile) = program.equal(&[]);
        assert_eq!(ran.status, 0);
        let decide = profile.function("decide");
        assert_eq!(decide.instrumented, "cut", "{level}");
        assert_eq!(decide.acyclic_paths, (1u128 << bits).to_string(), "{level}");
        assert_eq!(decide.activations(), (1000, 0, 0), "{level}");
        // Pieces, each counted exactly: together they are whole executions.
        assert_eq!(decide.count("entry", ""), 1000, "{level}");
        assert_eq!(decide.count("", "exit"), 1000, "{level}");
        assert_eq!(decide.count("cut", ""), decide.count("", "cut"), "{level}");
        assert!(decide.count("", "cut") >= 1000, "{level}");
        assert!(decide.edges_exact);
        let (yes, no) = (decide.decided("true"), decide.decided("false"));
        assert_eq!(yes + no, 1000 * u64::from(bits), "{level}");
        // The optimiser may have turned a condition around, at -O0 nobody has.
        if level == "-O0" {
            assert_eq!(yes, decisions(bits));
        }
    }
}

#[test]
fn more_paths_than_a_counter_array_should_hold() {
    too_many_paths(20);
}

#[test]
fn more_paths_than_2_to_the_63() {
    too_many_paths(100);
}

#[test]
fn computed_goto_whose_edges_cannot_be_split() {
    // An interpreter: 300 rounds of nine instructions and one to stop.
    let source = r#"
        enum { PUSH, ADD, DROP, NEXT, STOP };
        static const unsigned char code[] = {PUSH, PUSH, ADD, PUSH, DROP, DROP, PUSH, DROP, NEXT, STOP};
        __attribute__((noinline)) long interpret(long rounds) {
          static const void *const labels[] = {&&push, &&add, &&drop, &&next, &&stop};
          const unsigned char *at = code;
          long stack[8], *top = stack, sum = 0;
          goto *labels[*at];
        push: *top++ = at - code; at++; goto *labels[*at];
        add: top--; top[-1] += top[0]; at++; goto *labels[*at];
        drop: sum += *--top; at++; goto *labels[*at];
        next: at = --rounds ? code : at + 1; goto *labels[*at];
        stop: return sum;
        }
        int main(void) { return interpret(300) == 300 * (0 + 1 + 3 + 6) ? 0 : 1; }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).equal(&[]);
        assert_eq!(ran.status, 0);
        let interpret = profile.function("interpret");
        assert_eq!(interpret.activations(), (1, 0, 0), "{level}");
        // A path ends before each jump and another begins with it.
        let jumps = 300 * 9 + 1;
        assert_eq!(interpret.count("", "cut"), jumps, "{level}");
        assert_eq!(interpret.count("cut", ""), jumps, "{level}");
        let computed: u64 = interpret.decided("computed");
        assert_eq!(computed, jumps, "{level}: {:?}", interpret.edges);
    }
}

#[test]
fn unwind_edges() {
    // Three calls that share one landing pad; the second throws for odd numbers
    // and the third for multiples of four.
    let source = r#"
        struct Guard { ~Guard(); };
        volatile int alive;
        __attribute__((noinline)) Guard::~Guard() { alive = alive - 1; }
        __attribute__((noinline)) void calm(int x) { alive = alive + x - x; }
        __attribute__((noinline)) void odd(int x) { if (x % 2) throw x; }
        __attribute__((noinline)) void four(int x) { if (x % 4 == 0) throw 1L; }
        __attribute__((noinline)) int guarded(int x) {
          Guard guard;
          calm(x); odd(x); four(x);
          return x;
        }
        __attribute__((noinline)) int caught(int x) {
          try { return guarded(x); } catch (int value) { return -value; } catch (long) { return 0; }
        }
        int main() { int sum = 0; for (int i = 0; i < 100; i++) sum += caught(i); return sum == 25 * 50 - 50 * 50 ? 0 : 1; }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::cxx(source, &[level]).equal(&[]);
        assert_eq!(ran.status, 0);
        let guarded = profile.function("_Z7guardedi");
        assert_eq!(
            guarded.activations(),
            (100, 0, 0),
            "{level}: the pad resumes, which ends a path"
        );
        assert!(guarded.edges_exact);
        // One edge per call that may unwind, though they lead to one pad.
        let unwound: Vec<u64> =
            guarded.edges.iter().filter(|edge| edge.1 == "unwound").map(|edge| edge.2).collect();
        assert_eq!(unwound.iter().sum::<u64>(), 75, "{level}");
        assert!(unwound.contains(&50) && unwound.contains(&25), "{level}: {unwound:?}");
        assert_eq!(profile.function("_Z6caughti").activations(), (100, 0, 0), "{level}");
        // `throw` is a call that does not return.
        assert_eq!(profile.function("_Z3oddi").count("", "call"), 50, "{level}");
        assert_eq!(profile.function("_ZN5GuardD2Ev").entries, 100, "{level}");
    }
}

#[test]
fn switch_with_several_cases_to_one_block() {
    let source = r#"
        volatile int low, high, other;
        __attribute__((noinline)) void sort(int x) {
          switch (x) {
            case 1: case 3: case 5: case 7: low++; break;
            case 100: case 200: high++; break;
            default: other++;
          }
        }
        int main(void) { for (int i = 0; i < 250; i++) sort(i); return low + high == 6 ? 0 : 1; }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).equal(&[]);
        assert_eq!(ran.status, 0);
        let sort = profile.function("sort");
        let mut counts: Vec<u64> = sort.paths.values().map(|path| path.count).collect();
        counts.sort();
        assert_eq!((sort.entries, counts), (250, vec![2, 4, 244]), "{level}");
        if level == "-O0" {
            // The cases that lead to one block are one edge and three paths in all.
            assert_eq!(sort.acyclic_paths, "3");
            assert_eq!(sort.decided("case 1,3,5,7"), 4, "{:?}", sort.edges);
        }
    }
}

#[test]
fn irreducible_loops() {
    // Entered in the middle by even numbers.
    let source = r#"
        volatile int heads, middles;
        __attribute__((noinline)) int loop(int x, int rounds) {
          if (x % 2 == 0) goto middle;
        head:
          heads++;
          if (x % 3 == 0) x++;
        middle:
          middles++;
          if (--rounds) goto head;
          return x;
        }
        int main(void) { int sum = 0; for (int i = 0; i < 60; i++) sum += loop(i, 1 + i % 7); return sum ? 0 : 1; }
    "#;
    let heads: u64 = (0..60u64).map(|i| i % 7 + i % 2).sum();
    let middles: u64 = (0..60u64).map(|i| 1 + i % 7).sum();
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).equal(&[]);
        assert_eq!(ran.status, 0);
        let function = profile.function("loop");
        assert_eq!(function.activations(), (60, 0, 0));
        assert_eq!(function.count("", "exit"), 60);
        assert!(function.edges_exact && function.count("", "loop") > 0, "{level}");
        if level == "-O0" {
            assert_eq!(function.executed("program.c:6"), heads, "heads++");
            assert_eq!(function.executed("program.c:9"), middles, "middles++");
        }
    }
}

#[test]
fn musttail_calls() {
    let source = r#"
        int down(int n, int odd);
        __attribute__((noinline)) int up(int n, int odd) {
          if (n == 0) return odd;
          __attribute__((musttail)) return down(n - 1, odd + n % 2);
        }
        __attribute__((noinline)) int down(int n, int odd) {
          if (n % 5 == 0 && n) __attribute__((musttail)) return down(n - 1, odd + n % 2);
          __attribute__((musttail)) return up(n, odd);
        }
        int main(void) { return up(1000000, 0) == 500000 ? 0 : 1; }
    "#;
    for level in LEVELS {
        let program = Program::c(source, &[level]);
        let (ran, profile) = program.profile(&[]);
        assert_eq!(ran.status, 0);
        let (up, down) = (profile.function("up"), profile.function("down"));
        // up for 1 000 000 and all that follow but multiples of five, where down
        // calls itself; the optimiser makes a loop of that.
        assert_eq!(up.activations(), (1_000_001 - 199_999, 0, 0), "{level}");
        let downs = if level == "-O0" { 1_000_000 } else { up.entries - 1 };
        assert_eq!(down.activations(), (downs, 0, 0), "{level}");
        assert_eq!(up.count("entry", "exit"), up.entries, "{level}");
        // The walk over a log sees the same, on a smaller scale.
        let small = source.replace("1000000", "1000").replace("500000", "500");
        Program::c(&small, &[level]).equal(&[]);
    }
}

#[test]
fn calls_in_tail_position() {
    let ping = r#"
        int atoi(const char *); int pong(int, int); int pang(int, int);
        __attribute__((noinline)) int ping(int n, int sum) { if (n <= 0) return sum; return n % 4 == 0 ? pang(n - 1, sum + 2) : pong(n - 1, sum + 1); }
        int main(int argc, char **argv) { return ping(atoi(argv[1]), 0) > 0 ? 0 : 1; }
    "#;
    let pong = r#"
        int ping(int, int);
        __attribute__((noinline)) int pong(int n, int sum) { return ping(n - 1, sum ^ 1); }
        __attribute__((noinline)) int pang(int n, int sum) { if (n % 3) return ping(n - 3, sum); return pong(n, sum + 1); }
    "#;
    // Entries of ping, pong and pang.
    let walk = |mut n: i64| {
        let mut entries = (1, 0, 0);
        while n > 0 {
            let is_pang = n % 4 == 0;
            n -= 1;
            if is_pang {
                entries.2 += 1;
            }
            if is_pang && n % 3 != 0 {
                n -= 3;
            } else {
                entries.1 += 1;
                n -= 1;
            }
            entries.0 += 1;
        }
        entries
    };
    for level in LEVELS {
        let files = [("program.c", ping), ("pong.c", pong)];
        let program = Program::new("cc", &["pong.c", level], &files);
        let (ran, profile) = program.equal(&["1000"]);
        assert_eq!(ran.status, 0);
        let entries = |profile: &Profile| {
            let of = |name: &str| profile.function(name).activations();
            let (ping, pong, pang) = (of("ping"), of("pong"), of("pang"));
            assert_eq!((ping.1, pong.1, pang.1), (0, 0, 0), "{level}");
            (ping.0, pong.0, pang.0)
        };
        assert_eq!(entries(&profile), walk(1000), "{level}");
        if level == "-O2" {
            // Frames are reused as they were: else this would need 100 MB of stack.
            std::fs::remove_dir_all(program.records(Scheme::Profile)).unwrap();
            let (ran, profile) = program.profile(&["9000000"]);
            assert_eq!(ran.status, 0);
            assert_eq!(entries(&profile), walk(9_000_000));
        }
    }
}
