//! A Rust program that logs.

#[repr(C)]
struct Unit {
    id: [u8; 16],
    blocks: u32,
    base: std::sync::atomic::AtomicU32,
}

unsafe extern "C" {
    fn __backtrail_log(unit: *const Unit, block: u32);
}

static UNIT: Unit = Unit { id: [1; 16], blocks: 10, base: std::sync::atomic::AtomicU32::new(0) };

fn main() {
    for round in 0..1000 {
        // SAFETY: a descriptor as instrumented units have it.
        unsafe { __backtrail_log(&raw const UNIT, round % 10) };
    }
    let threads = (0..4).map(|number| {
        std::thread::spawn(move || {
            // SAFETY: as above.
            (0..number).for_each(|block| unsafe { __backtrail_log(&raw const UNIT, block) });
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    let panicked = std::panic::catch_unwind(|| {
        // SAFETY: as above.
        unsafe { __backtrail_log(&raw const UNIT, 7) };
        panic!("caught");
    });
    std::process::exit(if panicked.is_err() { 3 } else { 4 });
}
