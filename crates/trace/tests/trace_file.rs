//! Trace files: what is written comes back, from anywhere, and nothing else does.

use std::io::Cursor;

use backtrail_trace::Error;
use backtrail_trace::file::{
    CHUNK_STEPS, Ending, FunctionName, Kind, Legend, PlaceName, Step, TraceFile, Writer,
};

/// Steps as a program of so many functions with four blocks each makes them.
fn walk(random: &mut fastrand::Rng, functions: u32, length: usize) -> Vec<Step> {
    let mut stack: Vec<u32> = Vec::new();
    let mut steps = Vec::new();
    while steps.len() < length {
        let enters = stack.is_empty() || random.u8(0..5) == 0 && stack.len() < 40;
        if enters {
            stack.push(random.u32(0..functions) * 4);
        } else {
            // Frames are left one by one, or by a jump.
            let left = if random.u8(0..50) == 0 { random.usize(0..stack.len()) } else { 0 };
            let left = if random.u8(0..4) == 0 { 1.min(stack.len() - 1) } else { left };
            stack.truncate(stack.len() - left);
            let top = stack.last_mut().expect("one was kept");
            *top = *top / 4 * 4 + random.u32(1..4);
        }
        let place = *stack.last().expect("something runs");
        steps.push(Step { place, depth: stack.len() as u32, enters });
    }
    steps
}

fn legend(places: u32) -> Legend {
    let name = |place| PlaceName { function: place / 4, label: 0, file: Some(1), line: place };
    Legend {
        program: "p".into(),
        build_id: "00ff".into(),
        kind: Kind::Blocks,
        functions: (0..places / 4 + 1).map(|it| FunctionName { name: format!("f{it}") }).collect(),
        files: ["unused.c", "a.c", "b.c"].map(str::to_owned).into(),
        places: (0..places).map(|place| (place, name(place))).collect(),
        incomplete: vec!["for a reason".into()],
        inlined: (0..places).step_by(3).map(|it| (it, vec![(1, it + 1), (2, 9)])).collect(),
    }
}

fn write(threads: &[Vec<Step>]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (number, steps) in threads.iter().enumerate() {
        writer.begin_thread(7, number as u32 + 1).unwrap();
        steps.iter().for_each(|&step| writer.push(step).unwrap());
        let ending = match number {
            0 => Ending::Whole,
            _ => Ending::Unknown("killed".into()),
        };
        writer.end_thread(ending).unwrap();
    }
    writer.finish(legend(1000)).unwrap()
}

#[test]
fn what_is_written_comes_back_from_anywhere() {
    let mut random = fastrand::Rng::with_seed(1);
    for functions in [1, 3, 200] {
        let threads: Vec<Vec<Step>> =
            (0..3).map(|it| walk(&mut random, functions, it * 5_000)).collect();
        let bytes = write(&threads);
        let mut file = TraceFile::open(Cursor::new(&bytes)).unwrap();
        assert_eq!(file.threads().len(), 3);
        for (number, steps) in threads.iter().enumerate() {
            let length = steps.len();
            assert_eq!(file.threads()[number].steps, length as u64);
            for from in [0, 1, length / 2, length.saturating_sub(1), length, length + 5] {
                let found: Vec<Step> =
                    file.steps(number, from as u64).unwrap().map(Result::unwrap).collect();
                assert_eq!(found, steps.get(from..).unwrap_or_default());
                // One frame for each level of depth, each where it was last.
                let before = &steps[..from.min(length)];
                let frames = file.frames(number, from as u64).unwrap();
                let depth = before.last().map_or(0, |step| step.depth);
                assert_eq!(frames.len(), depth as usize);
                for (level, frame) in frames.iter().enumerate() {
                    let at_level = |step: &&Step| step.depth as usize == level + 1;
                    assert_eq!(Some(frame.place), before.iter().rfind(at_level).map(|it| it.place));
                }
            }
        }
        assert_eq!(file.threads()[0].ending, Ending::Whole);
        assert_eq!(file.threads()[1].ending, Ending::Unknown("killed".into()));
        let legend = file.legend();
        assert_eq!(legend.incomplete, ["for a reason"]);
        for step in threads.iter().flatten() {
            let name = format!("f{}", step.place / 4);
            assert_eq!(legend.function(step.place), Some(&name[..]));
        }
        let used: std::collections::BTreeSet<u32> =
            threads.iter().flatten().map(|step| step.place).collect();
        assert_eq!(legend.places.len(), used.len(), "what is not used is not kept");
        assert_eq!(legend.files, ["a.c", "b.c"]);
        for &place in &used {
            let mut expected = Vec::new();
            expected.extend((place > 0).then_some(("a.c", place)));
            if place % 3 == 0 {
                expected.extend([("a.c", place + 1), ("b.c", 9)]);
            }
            assert_eq!(legend.lines(place).collect::<Vec<_>>(), expected);
        }
        assert!(legend.inlined.keys().all(|place| used.contains(place)));
    }
}

#[test]
fn a_long_trace_is_found_by_chunks() {
    let round: Vec<Step> = walk(&mut fastrand::Rng::with_seed(2), 5, 1000);
    let length = CHUNK_STEPS + CHUNK_STEPS / 2;
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.begin_thread(1, 1).unwrap();
    for number in 0..length {
        writer.push(round[number % round.len()]).unwrap();
    }
    assert_eq!(writer.steps(), length as u64);
    writer.end_thread(Ending::Whole).unwrap();
    let bytes = writer.finish(legend(100)).unwrap();
    // What repeats is predicted.
    assert!(bytes.len() * 8 < length / 20, "{} bytes", bytes.len());
    let mut file = TraceFile::open(Cursor::new(&bytes)).unwrap();
    for from in [0, CHUNK_STEPS - 3, CHUNK_STEPS, CHUNK_STEPS + 77] {
        let found = file.steps(0, from as u64).unwrap().take(2000);
        for (number, step) in found.enumerate() {
            assert_eq!(step.unwrap(), round[(from + number) % round.len()]);
        }
    }
}

#[test]
fn what_is_cut_or_changed_is_noticed() {
    let steps = walk(&mut fastrand::Rng::with_seed(3), 4, 300);
    let bytes = write(std::slice::from_ref(&steps));
    for length in 0..bytes.len() {
        match TraceFile::open(Cursor::new(&bytes[..length])) {
            Err(Error::NotOurs { .. } | Error::UnfinishedTrace | Error::CorruptTrace(_)) => {}
            other => panic!("{length} of {} bytes: {other:?}", bytes.len()),
        }
    }
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 0x15;
        let Ok(mut file) = TraceFile::open(Cursor::new(&changed)) else { continue };
        let read: Result<Vec<Step>, Error> = file.steps(0, 0).unwrap().collect();
        assert!(read.is_err(), "byte {place} of {} was changed", bytes.len());
    }
    let mut other = bytes.clone();
    other[8] = 9;
    let found = TraceFile::open(Cursor::new(&other)).unwrap_err();
    assert!(matches!(found, Error::UnsupportedTrace(9)), "{found}");
    let elf = TraceFile::open(Cursor::new(b"\x7fELF\x02\x01\x01\0rest")).unwrap_err();
    assert!(matches!(elf, Error::NotOurs { .. }), "{elf}");
}

#[test]
fn places_are_of_functions_that_are_there() {
    let open = |change: &dyn Fn(&mut Legend)| {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.begin_thread(1, 1).unwrap();
        for place in 0..3 {
            writer.push(Step { place, depth: 1, enters: place == 0 }).unwrap();
        }
        writer.end_thread(Ending::Whole).unwrap();
        let mut legend = legend(3);
        change(&mut legend);
        TraceFile::open(Cursor::new(writer.finish(legend).unwrap()))
    };
    assert!(open(&|_| ()).is_ok());
    let changes: [&dyn Fn(&mut Legend); 3] =
        [&|it| it.places[1].1.function = 66, &|it| it.places[1].1.function = u32::MAX, &|it| {
            it.functions.clear()
        }];
    for (number, change) in changes.iter().enumerate() {
        assert!(matches!(open(change), Err(Error::CorruptTrace(_))), "{number}");
    }
}
