//! A small program and a profile of it, counted by hand, for everything that
//! shows or exports profiles.

use backtrail_profile::model::{
    Block, Decision, Edge, End, Function, Instrumented, Location, Path, PathTotal, Profile, Start,
};

/// The program, a C file.
pub const SOURCE: &str = "\
#include <stdio.h>

static inline int weigh(int x) {
    if (x % 3 == 0)
        return x / 3;
    return 1;
}

int scan(const char *text, int limit) {
    int sum = 0;
    for (int i = 0; text[i] && i < limit; i++) {
        switch (text[i]) {
        case 'a': sum += weigh(i); break;
        case 'b': sum -= 1; break;
        default: sum += 2;
        }
    }
    return sum;
}

static int never(int x) {
    return x + 1;
}

int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < 100000; i++)
        sum += scan(\"aaaaabacaaaaaaa\", 1000 - i % 7);
    if (argc > 5)
        sum = never(sum);
    printf(\"%d\\n\", sum);
    return 0;
}
";

/// The profile of a run, as if the program had been built from `file` with
/// `weigh` inlined into `scan`.
pub fn profile(file: &str) -> Profile {
    let mut profile = Profile {
        program: "scan".to_owned(),
        build_id: "5ca0".to_owned(),
        layout: *b"sixteen bytes so",
        processes: 1,
        files: vec![file.to_owned()],
        ..Profile::default()
    };
    let functions = [scan(&mut profile), main(&mut profile), never(&mut profile)];
    profile.functions.extend(functions);
    profile
}

/// The same program in another run, with more of `b` and an early end.
pub fn other_profile(file: &str) -> Profile {
    let mut profile = profile(file);
    let scan = &mut profile.functions[0];
    scan.paths[3].count += 300_000;
    scan.unfinished = 1;
    scan.entries += 1;
    scan.edges_exact = false;
    profile
}

fn locate(profile: &mut Profile, line: u32, scope: &str, inlined_at: Option<u32>) -> u32 {
    let column = 5;
    let scope = scope.to_owned();
    profile.locations.push(Location { file: 0, line, column, scope, scope_line: 0, inlined_at });
    profile.locations.len() as u32 - 1
}

fn edge(from: u32, to: u32, decision: Decision) -> Edge {
    Edge { from, to, decision }
}

fn case(values: &[i64], default: bool) -> Decision {
    Decision::Cases { values: values.to_vec(), default }
}

fn path(id: u64, count: u64, starts: Start, ends: End, blocks: &[u32]) -> Path {
    Path { id, count, starts, ends, blocks: blocks.to_vec() }
}

/// Blocks: 0 start, 1 condition, 2 switch, 3 weigh's condition, 4 and 5 its
/// results, 6 `b`, 7 default, 8 next round, 9 end.
fn scan(profile: &mut Profile) -> Function {
    let location = locate(profile, 9, "scan", None);
    let start = [10, 11].map(|line| locate(profile, line, "scan", None));
    let condition = locate(profile, 11, "scan", None);
    let switch = locate(profile, 12, "scan", None);
    let call = locate(profile, 13, "scan", None);
    let weigh = [4, 5, 6].map(|line| locate(profile, line, "weigh", Some(call)));
    let others = [14, 15, 11, 18].map(|line| locate(profile, line, "scan", None));
    let blocks = [
        start.to_vec(),
        vec![condition],
        vec![switch],
        vec![weigh[0]],
        vec![weigh[1], call],
        vec![weigh[2], call],
        vec![others[0]],
        vec![others[1]],
        vec![others[2]],
        vec![others[3]],
    ];
    Function {
        name: "scan".to_owned(),
        unit: profile.files[0].clone(),
        location: Some(location),
        acyclic_paths: PathTotal { count: 10, exact: true },
        instrumented: Instrumented::Whole,
        entries: 100_000,
        inherited: 0,
        unfinished: 0,
        edges_exact: true,
        blocks: blocks.map(|locations| Block { locations }).to_vec(),
        edges: vec![
            edge(0, 1, Decision::Always),
            edge(1, 2, Decision::True),
            edge(1, 9, Decision::False),
            edge(2, 3, case(&[97], false)),
            edge(2, 6, case(&[98], false)),
            edge(2, 7, case(&[], true)),
            edge(3, 4, Decision::True),
            edge(3, 5, Decision::False),
            edge(4, 8, Decision::Always),
            edge(5, 8, Decision::Always),
            edge(6, 8, Decision::Always),
            edge(7, 8, Decision::Always),
            edge(8, 1, Decision::Always),
        ],
        paths: vec![
            path(0, 100_000, Start::Entry, End::Loop(1), &[0, 1, 2, 3, 4, 8]),
            path(5, 400_000, Start::Loop, End::Loop(1), &[1, 2, 3, 4, 8]),
            path(6, 800_000, Start::Loop, End::Loop(1), &[1, 2, 3, 5, 8]),
            path(7, 100_000, Start::Loop, End::Loop(1), &[1, 2, 6, 8]),
            path(8, 100_000, Start::Loop, End::Loop(1), &[1, 2, 7, 8]),
            path(9, 100_000, Start::Loop, End::Exit, &[1, 9]),
        ],
    }
}

/// Blocks: 0 start, 1 condition, 2 body, 3 behind the loop, 4 the call of
/// `never`, 5 end.
fn main(profile: &mut Profile) -> Function {
    let location = locate(profile, 25, "main", None);
    let lines: [&[u32]; 6] = [&[26, 27], &[27], &[28, 27], &[29], &[30], &[31, 32]];
    let blocks = lines.map(|lines| Block {
        locations: lines.iter().map(|&line| locate(profile, line, "main", None)).collect(),
    });
    Function {
        name: "main".to_owned(),
        unit: profile.files[0].clone(),
        location: Some(location),
        acyclic_paths: PathTotal { count: 6, exact: true },
        instrumented: Instrumented::Whole,
        entries: 1,
        inherited: 0,
        unfinished: 0,
        edges_exact: true,
        blocks: blocks.to_vec(),
        edges: vec![
            edge(0, 1, Decision::Always),
            edge(1, 2, Decision::True),
            edge(1, 3, Decision::False),
            edge(2, 1, Decision::Always),
            edge(3, 4, Decision::True),
            edge(3, 5, Decision::False),
            edge(4, 5, Decision::Always),
        ],
        paths: vec![
            path(0, 1, Start::Entry, End::Loop(1), &[0, 1, 2]),
            path(3, 99_999, Start::Loop, End::Loop(1), &[1, 2]),
            path(5, 1, Start::Loop, End::Exit, &[1, 3, 5]),
        ],
    }
}

fn never(profile: &mut Profile) -> Function {
    let location = locate(profile, 21, "never", None);
    let line = locate(profile, 22, "never", None);
    Function {
        name: "never".to_owned(),
        unit: profile.files[0].clone(),
        location: Some(location),
        acyclic_paths: PathTotal { count: 1, exact: true },
        instrumented: Instrumented::Whole,
        entries: 0,
        inherited: 0,
        unfinished: 0,
        edges_exact: true,
        blocks: vec![Block { locations: vec![line] }],
        edges: vec![],
        paths: vec![],
    }
}
