//! What a log adds up to when it says what the program cannot do.

use backtrail_abi::UnitId;
use backtrail_ir::program::{Loaded, Surroundings};
use backtrail_ir::{Block, Func, Index, Inst, text};
use backtrail_plan::counters::Layout;
use backtrail_profile::decode::{Decoder, Origin};
use backtrail_profile::file::{read_profile, write_profile};
use backtrail_profile::log_walk::{LogWalk, Logged};
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

/// A block of an activation of a function.
fn block(activation: u64, function: usize, block: usize) -> Logged {
    Logged::Block(activation, (ID, Func::new(function)), Block::new(block))
}

/// `stop`, up to its call.
fn stopped(activation: u64) -> [Logged; 2] {
    [block(activation, 0, 0), Logged::Comes(activation, Inst::new(0))]
}

/// `choose`, by these blocks.
fn chose(activation: u64, blocks: &[usize]) -> Vec<Logged> {
    let mut logged: Vec<Logged> = blocks.iter().map(|it| block(activation, 1, *it)).collect();
    logged.push(Logged::Ended(activation));
    logged
}

/// The profile of processes, each of which logged this.
fn walk(processes: &[&[Logged]]) -> Profile {
    let exports = ["stop", "choose"].map(str::to_owned).into();
    walk_loaded(processes, Loaded { exports, ..Loaded::default() })
}

/// The same of a module that is this to others.
fn walk_loaded(processes: &[&[Logged]], loaded: Loaded) -> Profile {
    let unit = text::parse(PROGRAM).unwrap();
    let choice =
        Choice { wants: &|_| true, limit: DEFAULT_LIMIT, weights: None, surroundings: None };
    let planned = plan_module(&[(ID.0, &unit)], &choice).into_iter();
    let layout =
        Layout::new(planned.map(|(plan, meaning)| (plan.unit, plan.counters, meaning.to_bytes())));
    let module = Module {
        id: [1; 16],
        layout,
        units: vec![(ID, &unit)],
        surroundings: Surroundings { loaded, ..Surroundings::default() },
    };
    let mut walk = LogWalk::new(Decoder::new("program", "00", &[module]));
    for logged in processes {
        let logged = logged.iter().map(|it| Ok::<_, std::convert::Infallible>(*it));
        walk.add_thread(logged).unwrap();
        walk.end_process(Origin::Started, None).unwrap();
    }
    walk.finish().unwrap()
}

#[test]
fn paths_that_the_program_has_are_counted() {
    let all = [&chose(1, &[0, 1, 2])[..], &chose(2, &[0, 2]), &stopped(3)].concat();
    let profile = walk(&[&all]);
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
    let killed = [chose(1, &[0, 1, 2]), vec![block(2, 1, 0)]].concat();
    let profile = walk(&[&killed, &killed, &[block(1, 1, 0), block(1, 1, 1)]]);
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
    let beyond = |number: u64| {
        let stop = [block(number, 0, 0), block(number, 0, 1), Logged::Ended(number)];
        [&stop[..], &chose(number + 1, &[0, 2])].concat()
    };
    let profile = walk(&[&beyond(1), &chose(1, &[0, 2]), &[beyond(1), beyond(3)].concat()]);
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

/// Nobody outside knows of them, and nothing calls them.
#[test]
fn functions_that_nothing_can_enter_are_named() {
    let profile = walk_loaded(&[&chose(1, &[0, 2])], Loaded::default());
    let [why] = &profile.incomplete[..] else { panic!("{:?}", profile.incomplete) };
    assert!(why.starts_with("choose ran, which the model of the program holds impossible"));
    let profile = walk_loaded(&[&chose(1, &[0, 2]), &stopped(1)], Loaded::default());
    let [why] = &profile.incomplete[..] else { panic!("{:?}", profile.incomplete) };
    assert!(why.starts_with("stop and another function ran"));
}

/// What stands in a log that was damaged may be of another function.
#[test]
fn events_of_other_functions_are_not_followed() {
    let wild = [
        block(1, 1, 0),
        Logged::Comes(1, Inst::new(1 << 27)),
        Logged::Returned(1, Inst::new(1 << 27)),
        block(2, 0, 0),
        block(2, 1, 2),
        Logged::Comes(2, Inst::new(5)),
        block(2, 0, 1),
        Logged::Ended(2),
        Logged::Ended(7),
    ];
    for end in 0..=wild.len() {
        let profile = walk(&[&wild[..end]]);
        write_profile(&profile).unwrap();
    }
}

/// An activation in its last block that did not end has not returned, whatever follows;
/// and of several the one ends that is said to.
#[test]
fn what_did_not_end_is_unfinished() {
    let logged = [
        block(1, 1, 0),
        block(1, 1, 2),
        block(2, 1, 0),
        block(3, 1, 0),
        block(3, 1, 2),
        block(2, 1, 1),
        Logged::Left(3),
        block(2, 1, 2),
        Logged::Ended(2),
    ];
    let profile = walk(&[&logged]);
    let choose = &profile.functions[1];
    assert_eq!((choose.entries, choose.unfinished), (3, 2));
    let paths: Vec<_> = choose.paths.iter().map(|path| (&path.blocks[..], path.count)).collect();
    assert_eq!(paths, [(&[0, 1, 2][..], 1)]);
    let counts: Vec<_> =
        profile.partial.iter().map(|path| (&path.blocks[..], path.count)).collect();
    assert_eq!(counts, [(&[0, 2][..], 2)]);
}

#[test]
fn what_a_fork_inherits_is_walked_without_counting() {
    let unit = text::parse(PROGRAM).unwrap();
    let choice =
        Choice { wants: &|_| true, limit: DEFAULT_LIMIT, weights: None, surroundings: None };
    let planned = plan_module(&[(ID.0, &unit)], &choice).into_iter();
    let layout =
        Layout::new(planned.map(|(plan, meaning)| (plan.unit, plan.counters, meaning.to_bytes())));
    let exports = ["stop", "choose"].map(str::to_owned).into();
    let loaded = Loaded { exports, ..Loaded::default() };
    let surroundings = Surroundings { loaded, ..Surroundings::default() };
    let module = Module { id: [1; 16], layout, units: vec![(ID, &unit)], surroundings };
    let mut walk = LogWalk::new(Decoder::new("program", "00", &[module]));
    let ok = |logged: &[Logged]| -> Vec<Result<Logged, std::convert::Infallible>> {
        logged.iter().map(|it| Ok(*it)).collect()
    };
    // One that ended; one that a jump left; two that are under way, of which the child
    // ends one.
    let before =
        [&chose(1, &[0, 2])[..], &[block(2, 1, 0), block(3, 1, 0), block(4, 1, 0)]].concat();
    let begun = walk.walk_before(ok(&before)).unwrap();
    let behind = [block(4, 1, 2), Logged::Ended(4)];
    walk.add_thread_behind(begun, &[4, 3], ok(&behind)).unwrap();
    walk.end_process(Origin::Forked, None).unwrap();
    let profile = walk.finish().unwrap();
    let choose = &profile.functions[1];
    assert_eq!((choose.entries, choose.inherited, choose.unfinished), (0, 2, 1));
    assert_eq!(choose.paths.iter().map(|path| path.count).collect::<Vec<_>>(), [1]);
    let left: Vec<_> = profile.partial.iter().map(|it| (&it.blocks[..], it.count)).collect();
    assert_eq!(left, [(&[0][..], 1)]);
    assert_eq!(profile.incomplete, [""; 0]);
}
