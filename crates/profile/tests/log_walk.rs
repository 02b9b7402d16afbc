//! What a log adds up to when it says what the program cannot do.

use backtrail_abi::UnitId;
use backtrail_ir::{Block, Func, Index, text};
use backtrail_plan::counters::Layout;
use backtrail_profile::decode::Decoder;
use backtrail_profile::file::{read_profile, write_profile};
use backtrail_profile::log_walk::LogWalk;
use backtrail_profile::merge::merge;
use backtrail_profile::model::{End, PartialPath, Profile, Start};
use backtrail_profile::skeleton::Module;
use backtrail_profile::unit_plan::{Choice, DEFAULT_LIMIT, plan_module};

const ID: UnitId = UnitId([3; 16]);

/// `stop` ends before its call, so no path goes on behind it; in `choose` all
/// ways are possible.
const PROGRAM: &str = r#"
unit "a.c"
file0 = "a.c"
s0 = function f0 "stop" external
s1 = declare "exit" external no_return
s2 = function f1 "choose" external

function f0 s0 parameters 0 {
b0:
  i0 = call s1 ()
  i1 jump -> b1
b1:
  i2 return ()
}

function f1 s2 parameters 1 {
b0:
  i0 branch (p0) -> b1, b2
b1:
  i1 jump -> b2
b2:
  i2 return ()
}
"#;

/// The profile of processes, each of which logged these functions' blocks.
fn walk(processes: &[&[(usize, usize)]]) -> Profile {
    let unit = text::parse(PROGRAM).unwrap();
    let choice = Choice {
        wants: &|_| true,
        limit: DEFAULT_LIMIT,
        weights: None,
        is_executable: true,
        referred_to: None,
    };
    let planned = plan_module(&[(ID.0, &unit)], &choice).into_iter();
    let layout =
        Layout::new(planned.map(|(plan, meaning)| (plan.unit, plan.counters, meaning.to_bytes())));
    let module = Module { id: [1; 16], layout, units: vec![(ID, &unit)] };
    let mut walk = LogWalk::new(Decoder::new("program", "00", &[module]));
    for blocks in processes {
        let step = |&(function, block): &(usize, usize)| {
            Ok::<_, std::convert::Infallible>((ID, Func::new(function), Block::new(block)))
        };
        walk.add_thread(blocks.iter().map(step)).unwrap();
        walk.end_process(None).unwrap();
    }
    walk.finish().unwrap()
}

#[test]
fn paths_that_the_program_has_are_counted() {
    let profile = walk(&[&[(1, 0), (1, 1), (1, 2), (1, 0), (1, 2), (0, 0)]]);
    assert_eq!(profile.incomplete, [""; 0]);
    let [stop, choose] = &profile.functions[..] else { panic!("{profile:?}") };
    assert_eq!((choose.entries, choose.unfinished, choose.paths.len()), (2, 0, 2));
    assert_eq!(
        stop.paths.iter().map(|path| (path.ends, path.count)).collect::<Vec<_>>(),
        [(End::Call, 1)]
    );
}

#[test]
fn paths_that_were_left_on_the_way_are_known() {
    // Three activations of `choose`, one of which is cut off in b0 by a kill,
    // twice in a row.
    let killed: &[_] = &[(1, 0), (1, 1), (1, 2), (1, 0)];
    let profile = walk(&[killed, killed, &[(1, 0), (1, 1)]]);
    let choose = &profile.functions[1];
    assert_eq!((choose.entries, choose.unfinished, choose.edges_exact), (5, 3, false));
    let partial = |blocks: &[u32], count| PartialPath {
        function: 1,
        starts: Start::Entry,
        blocks: blocks.to_vec(),
        count,
    };
    assert_eq!(profile.partial, [partial(&[0], 2), partial(&[0, 1], 1)]);
    let written = write_profile(&profile).unwrap();
    assert_eq!(read_profile(&written).unwrap(), profile);
    let sum = merge(profile.clone(), &profile).unwrap();
    assert_eq!(sum.partial, [partial(&[0], 4), partial(&[0, 1], 2)]);
}

#[test]
fn paths_that_it_does_not_have_are_named_with_their_number() {
    let beyond: &[_] = &[(0, 0), (0, 1), (1, 0), (1, 2)];
    let profile = walk(&[beyond, &[(1, 0), (1, 2)], &[beyond, beyond].concat()]);
    assert_eq!(
        profile.incomplete,
        [1, 2].map(|count| format!(
            "{count} paths of stop are missing: the log has steps the program cannot take"
        ))
    );
    let [stop, choose] = &profile.functions[..] else { panic!("{profile:?}") };
    assert_eq!((stop.entries, stop.paths.len()), (3, 0));
    assert_eq!((choose.entries, choose.unfinished), (4, 0));
    write_profile(&profile).unwrap();
}
