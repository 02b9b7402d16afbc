//! What was measured, on the terminal and in `docs/bench-build.md`.

use std::fmt::Write;

use super::anatomy::Anatomy;
use super::build::{Derived, Pair, Row};
use crate::terminal;

/// How many times clang's CPU time a compilation may take.
const COMPILE_LIMIT: f64 = 1.25;

/// How many times clang's CPU time for compiling it a variant may take.
const DERIVE_LIMIT: f64 = 1.2;

/// How many seconds a variant from the cache may take.
const AGAIN_LIMIT: f64 = 1.0;

type Table = Vec<Vec<String>>;

fn table<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> Table {
    rows.into_iter().map(|row| row.to_vec()).collect()
}

fn seconds(value: f64) -> String {
    format!("{value:.2}")
}

fn milliseconds(value: f64) -> String {
    format!("{:.0}", value * 1e3)
}

fn kilobytes(value: u64) -> String {
    format!("{:.0}", value as f64 / 1e3)
}

fn verdict(value: f64, limit: f64) -> &'static str {
    if value <= limit { "met" } else { "missed" }
}

/// Everything that was compiled, taken together.
fn together(rows: &[Row]) -> (usize, Pair, Pair) {
    rows.iter().fold((0, Pair::default(), Pair::default()), |(units, compile, link), row| {
        (units + row.units, compile.plus(row.compile), link.plus(row.link))
    })
}

fn times(rows: &[Row]) -> Table {
    let heading = [
        "program",
        "version",
        "units",
        "clang s",
        "ours s",
        "ratio",
        "ms more per unit",
        "links",
        "clang link s",
        "our link s",
        "ratio with links",
    ]
    .map(str::to_owned);
    let line = |name: &str, version: &str, counts: (usize, usize), compile: Pair, link: Pair| {
        [
            name.to_owned(),
            version.to_owned(),
            counts.0.to_string(),
            seconds(compile.plain),
            seconds(compile.ours),
            format!("{:.2}", compile.ratio()),
            milliseconds((compile.ours - compile.plain) / counts.0 as f64),
            counts.1.to_string(),
            seconds(link.plain),
            seconds(link.ours),
            format!("{:.2}", compile.plus(link).ratio()),
        ]
    };
    let mut lines = vec![heading];
    for row in rows {
        let counts = (row.units, row.links);
        lines.push(line(&row.name, &row.version, counts, row.compile, row.link));
    }
    let (units, compile, link) = together(rows);
    let links = rows.iter().map(|row| row.links).sum();
    lines.push(line("all", "", (units, links), compile, link));
    table(lines)
}

fn sizes(rows: &[Row]) -> Table {
    let heading = [
        "program",
        "executable kB",
        "with IR kB",
        "bitcode kB",
        "model kB",
        "carried / executable",
    ]
    .map(str::to_owned);
    let lines = rows.iter().map(|row| {
        let more = row.carrying_bytes.saturating_sub(row.plain_bytes);
        [
            row.name.clone(),
            kilobytes(row.plain_bytes),
            kilobytes(row.carrying_bytes),
            kilobytes(row.bitcode_bytes),
            kilobytes(row.model_bytes),
            format!("{:.2}", more as f64 / row.plain_bytes as f64),
        ]
    });
    table(std::iter::once(heading).chain(lines))
}

fn wanted(rows: &[Row]) -> Table {
    let mut lines = vec![["what", "wanted", "measured", ""].map(str::to_owned)];
    let mut compare = |what: &str, limit: String, value: String, verdict: &str| {
        lines.push([what.to_owned(), limit, value, verdict.to_owned()]);
    };
    let whole = together(rows).1.ratio();
    let limit = format!("≤ {COMPILE_LIMIT}x");
    let value = format!("{whole:.2}x");
    compare("compiling, all programs", limit.clone(), value, verdict(whole, COMPILE_LIMIT));
    for row in rows {
        let ratio = row.compile.ratio();
        let what = format!("compiling {}", row.name);
        compare(&what, limit.clone(), format!("{ratio:.2}x"), verdict(ratio, COMPILE_LIMIT));
    }
    for (row, derived) in derivations(rows) {
        let ratio = derived.cpu / row.compile.plain;
        compare(
            &format!("deriving a block-log variant of {} / compiling it", row.name),
            format!("≤ {DERIVE_LIMIT}x"),
            format!("{ratio:.2}x ({:.2} s / {:.2} s)", derived.cpu, row.compile.plain),
            verdict(ratio, DERIVE_LIMIT),
        );
        compare(
            "the same again, from the cache",
            format!("≤ {AGAIN_LIMIT} s"),
            format!("{:.2} s", derived.again),
            verdict(derived.again, AGAIN_LIMIT),
        );
    }
    table(lines)
}

fn derivations(rows: &[Row]) -> impl Iterator<Item = (&Row, Derived)> {
    rows.iter().filter_map(|row| row.derived.map(|derived| (row, derived)))
}

fn parts(anatomy: &Anatomy) -> Table {
    let share = |value: f64| format!("{:.2}", value / anatomy.plain);
    let line = |what: &str, value: f64| [what.to_owned(), milliseconds(value), share(value)];
    let worker = match anatomy.worker_calls {
        1 => "· worker: program model, bitcode without line tables".to_owned(),
        calls => format!("· worker, called {calls} times: program model, bitcode for each step"),
    };
    table([
        ["step", "CPU ms", "/ clang"].map(str::to_owned),
        line("clang, in one step", anatomy.plain),
        line("backtrail cc", anatomy.ours),
        line("· first step: clang, to bitcode with line tables", anatomy.first),
        line("· · of which line tables", (anatomy.first - anatomy.first_without_lines).max(0.0)),
        line(&worker, anatomy.worker),
        line("· second step: clang, code from bitcode", anatomy.second),
        line("· rest: compressing, attaching, clang once more where loops need it", anatomy.rest()),
        line("backtrail cc, when clang has to be asked first", anatomy.asking),
        line("· clang -###", anatomy.question),
        line("clang on an empty source", anatomy.start),
        line("backtrail cc on an empty source", anatomy.ours_start),
    ])
}

/// What the numbers of one unit say about the ratio.
fn conclusion(anatomy: &Anatomy) -> String {
    let two_steps = anatomy.first_without_lines + anatomy.second;
    let more = anatomy.ours - anatomy.plain;
    let floor = (anatomy.ours_start - anatomy.start).max(0.0);
    format!(
        "clang's own two steps without line tables take {:.2} times its one step: they start clang \
         a second time ({:.0} ms on an empty source) and write and read bitcode. Of the {:.0} ms \
         that `backtrail cc` takes more than clang, that is {:.0} ms, line tables are {:.0} ms, the \
         worker is {:.0} ms and the rest {:.0} ms.\n\n\
         What bounds the ratio is the size of units. On an empty source `backtrail cc` takes {:.0} ms \
         more than clang: another start of clang, and a worker that loads the same library. No unit \
         takes less, so {COMPILE_LIMIT}x is out of reach for all that clang compiles in less than \
         {:.0} ms. Units whose loops need not end (see [cc.md](cc.md)) start clang a third time \
         and write and read bitcode once more, with names of values that clang otherwise does without.",
        two_steps / anatomy.plain,
        anatomy.start * 1e3,
        more * 1e3,
        (two_steps - anatomy.plain) * 1e3,
        (anatomy.first - anatomy.first_without_lines) * 1e3,
        anatomy.worker * 1e3,
        anatomy.rest() * 1e3,
        floor * 1e3,
        floor / (COMPILE_LIMIT - 1.0) * 1e3,
    )
}

/// Prints everything.
pub fn print(rows: &[Row]) {
    terminal::heading("wanted and measured (CPU time; least of all rounds)");
    print!("{}", terminal::table(&wanted(rows)));
    terminal::heading("compiling and linking");
    print!("{}", terminal::table(&times(rows)));
    terminal::heading("what is carried");
    print!("{}", terminal::table(&sizes(rows)));
    for anatomy in rows.iter().filter_map(|row| row.anatomy.as_ref()) {
        terminal::heading(&format!("one unit, {}", anatomy.unit));
        print!("{}", terminal::table(&parts(anatomy)));
        println!("{}", conclusion(anatomy));
    }
}

fn markdown(table: &Table) -> String {
    let mut text = String::new();
    for (index, row) in table.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if index == 0 {
            let _ =
                writeln!(text, "| {} |", row.iter().map(|_| "---").collect::<Vec<_>>().join(" | "));
        }
    }
    text
}

/// The page for `docs/`.
pub fn page(rows: &[Row]) -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str(&markdown(&wanted(rows)));
    page.push_str("\n## Compiling and linking\n\n");
    page.push_str(&markdown(&times(rows)));
    page.push_str(TIMES);
    page.push_str(&markdown(&sizes(rows)));
    page.push_str(SIZES);
    for anatomy in rows.iter().filter_map(|row| row.anatomy.as_ref()) {
        let _ = write!(page, "\n## One unit, {}\n\n", anatomy.unit);
        page.push_str(&markdown(&parts(anatomy)));
        let _ = write!(page, "\n{}\n", conclusion(anatomy));
    }
    page
}

const INTRODUCTION: &str = "# What the build costs

This page is written by

```
cargo xtask bench build
```

which fetches programs as Debian packages them, builds each with `clang-19` and with `backtrail cc` (`c++`), notes the compiler's command lines, and runs these again in turns. `--only NAME` takes some of the programs, `--rounds N` says how often (3).

Times are CPU time, in user mode and in the kernel, of the compiler and all processes it starts; of each command line the least of all rounds. make, configure, libtool and `ar` are not in them. Every round begins with an empty cache.

";

const TIMES: &str = "
- *clang s*, *ours s*: all command lines that compile a unit. *ratio* is the second over the first.
- *clang link s*, *our link s*: all that link an executable or a shared library.

## What is carried

";

const SIZES: &str = "
- *executable*: the executables and shared libraries of the program as clang makes them, not stripped; *with IR*: as `backtrail cc` makes them.
- *bitcode*, *model*: the units' IR with line tables, and the program model, both compressed. A unit that is linked into two executables is in both.
- *carried / executable*: by how much the files are larger.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            name: "p".into(),
            version: "1".into(),
            units: 4,
            links: 1,
            compile: Pair { plain: 1.0, ours: 1.5 },
            link: Pair { plain: 1.0, ours: 1.0 },
            plain_bytes: 1000,
            carrying_bytes: 1500,
            bitcode_bytes: 400,
            model_bytes: 100,
            derived: Some(Derived { cpu: 1.1, again: 2.0 }),
            anatomy: None,
        }
    }

    #[test]
    fn what_is_wanted_stands_beside_what_was_measured() {
        let lines: Vec<String> = wanted(&[row()]).iter().map(|line| line.join(" | ")).collect();
        let expected = [
            "what | wanted | measured | ",
            "compiling, all programs | ≤ 1.25x | 1.50x | missed",
            "compiling p | ≤ 1.25x | 1.50x | missed",
            "deriving a block-log variant of p / compiling it | ≤ 1.2x | 1.10x (1.10 s / 1.00 s) | met",
            "the same again, from the cache | ≤ 1 s | 2.00 s | missed",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn sums_and_ratios() {
        let all = times(&[row(), row()]);
        let sum = "all |  | 8 | 2.00 | 3.00 | 1.50 | 125 | 2 | 2.00 | 2.00 | 1.25";
        assert_eq!(all[3].join(" | "), sum);
        assert_eq!(sizes(&[row()])[1].join(" "), "p 1 2 0 0 0.50");
        assert!(markdown(&all).starts_with("| program | version |"));
    }
}
