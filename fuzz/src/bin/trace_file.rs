//! Trace files: as they are (0), an index and chunks in a valid container (1), or
//! the table and the decisions of one chunk (2). Steps are the same wherever one
//! begins to read, and written again they are read again.

#![no_main]

use std::io::Cursor;

use backtrail_foreign::text::shown;
use backtrail_fuzz::{choose, chosen, container, fixtures, joined, parts};
use backtrail_report::flame::{self, Bar};
use backtrail_report::name::compact;
use backtrail_trace::call_tree::CallTree;
use backtrail_trace::file::{Ending, Legend, Step, TraceFile, Writer};
use libfuzzer_sys::fuzz_target;

/// As many steps of a thread as are read more than once.
const MOST_STEPS: u64 = 4096;

fuzz_target!(init: fixtures::write_if_asked(first_inputs), |data: &[u8]| {
    let Some((form, rest)) = choose(data, 3) else { return };
    let file = match form {
        0 => rest.to_vec(),
        1 => {
            let [index, chunks] = parts::<2>(rest);
            container::trace_file(index, chunks)
        }
        _ => {
            let [steps, table, decisions] = parts::<3>(rest);
            let steps = steps.iter().fold(0, |sum, &it| sum << 8 | u64::from(it)) % MOST_STEPS;
            container::trace_of_chunk(steps, table, decisions)
        }
    };
    let Ok(mut file) = TraceFile::open(Cursor::new(file)) else { return };
    // Used as `show --tree` and `--html` do.
    let mut tree = CallTree::new(file.legend());
    for thread in 0..file.threads().len().min(4) {
        let count = file.threads()[thread].steps;
        let Ok(steps) = file.steps(thread, 0) else { continue };
        let Ok(steps) = steps.take(MOST_STEPS as usize).collect::<Result<Vec<Step>, _>>() else {
            continue;
        };
        // A chunk without steps is not looked at.
        if steps.is_empty() {
            continue;
        }
        tree.begin_thread();
        for &step in &steps {
            tree.push(step);
            if let Some((name, _)) = file.legend().name(step.place) {
                assert!(!shown(&compact(name)).contains(char::is_control));
            }
            let _ = file.legend().line(step.place);
        }
        let middle = steps.len() as u64 / 2;
        let later = file.steps(thread, middle).expect("its chunk was read");
        let later: Result<Vec<Step>, _> = later.take(steps.len() - middle as usize).collect();
        assert_eq!(later.expect("they were read"), steps[middle as usize..]);
        let frames = file.frames(thread, middle).expect("its chunk was read");
        if let Some(before) = middle.checked_sub(1) {
            assert_eq!(frames.len() as u32, steps[before as usize].depth);
        }
        if count <= MOST_STEPS && begins_with_no_frame(&steps) {
            write_again(&steps, &file);
        }
    }
    render(tree, file.legend());
});

/// The page of a call tree.
fn render(tree: CallTree, legend: &Legend) {
    let (nodes, totals) = tree.finish();
    let name = |function: u32| match function {
        u32::MAX => "thread",
        _ => legend.functions.get(function as usize).map_or("?", |it| &it.name),
    };
    let bars: Vec<Bar> = nodes
        .iter()
        .zip(totals)
        .map(|(node, total)| Bar {
            name: name(node.function).to_owned(),
            parent: node.parent,
            calls: node.calls,
            own: node.own,
            total,
        })
        .collect();
    flame::render(&legend.program, &legend.incomplete, &bars);
}

/// Whether no step is in a frame that none of the others made.
fn begins_with_no_frame(steps: &[Step]) -> bool {
    let mut before = 0;
    steps.iter().all(|step| {
        step.depth <= std::mem::replace(&mut before, step.depth) + u32::from(step.enters)
    })
}

fn write_again(steps: &[Step], file: &TraceFile<Cursor<Vec<u8>>>) {
    let mut writer = Writer::new(Vec::new()).expect("memory can be written");
    writer.begin_thread(1, 1).expect("memory can be written");
    for &step in steps {
        writer.push(step).expect("memory can be written");
    }
    writer.end_thread(Ending::Whole).expect("memory can be written");
    let bytes = writer.finish(file.legend().clone()).expect("memory can be written");
    let mut again = TraceFile::open(Cursor::new(bytes)).expect("it was just written");
    let read: Result<Vec<Step>, _> = again.steps(0, 0).expect("it was just written").collect();
    assert_eq!(read.expect("it was just written"), steps);
}

fn first_inputs(from: &fixtures::Fixtures) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for name in ["program.bttrace", "code.bttrace"] {
        let file = from.read(name);
        let (index, chunks) = container::parts_of_trace(&file);
        inputs.push(chosen(1, &joined(&[&index, chunks])));
        for (steps, table, decisions) in container::chunks_of_trace(&file) {
            let steps = (steps as u16).to_be_bytes();
            inputs.push(chosen(2, &joined(&[&steps, &table, decisions])));
        }
        inputs.push(chosen(0, &file));
    }
    inputs
}
