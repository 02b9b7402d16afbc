//! What was measured, on the terminal and in `docs/bench-crash.md`.

use std::fmt::Write;

use super::Row;
use super::subject::{LEVELS, find};
use super::variant::Variant;
use crate::terminal;

type Table = Vec<Vec<String>>;

/// What the scheme `realistic` may cost, as ratios: on average, and any program.
const REALISTIC: (f64, f64) = (1.02, 1.05);

/// What `pt` may cost on average at -O2.
const PATHS: f64 = 1.08;

/// All but the original, which they are compared with.
const COMPARED: [Variant; 8] = [
    Variant::Empty,
    Variant::Functions,
    Variant::Calls,
    Variant::Blocks,
    Variant::Paths,
    Variant::Realistic,
    Variant::Tunable,
    Variant::Full,
];

fn percent(ratio: f64) -> String {
    let shown = format!("{:.1}", (ratio - 1.0) * 100.0);
    if shown == "-0.0" { "0.0".to_owned() } else { shown }
}

fn verdict(met: bool) -> String {
    if met { "met" } else { "missed" }.to_owned()
}

/// The geometric mean.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value.ln(), count + 1));
    (sum / f64::from(count)).exp()
}

fn at<'a>(rows: &'a [Row], level: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.level == level).collect()
}

fn heading(first: &[&str]) -> Vec<String> {
    let titles = COMPARED.iter().map(|variant| variant.title());
    first.iter().copied().chain(titles).map(str::to_owned).collect()
}

fn instructions(rows: &[&Row]) -> Table {
    let mut table = vec![heading(&["program", "million"])];
    for row in rows {
        let million = row.of(Variant::Original).instructions as f64 / 1e6;
        let mut line = vec![row.name.clone(), format!("{million:.0}")];
        line.extend(COMPARED.map(|variant| percent(row.instructions(variant))));
        table.push(line);
    }
    let mut line = vec!["geometric mean".to_owned(), String::new()];
    line.extend(
        COMPARED.map(|variant| percent(mean(rows.iter().map(|row| row.instructions(variant))))),
    );
    table.push(line);
    table
}

fn times(rows: &[&Row]) -> Table {
    let mut table = vec![heading(&["program", "original s"])];
    for row in rows {
        let original = super::least(&row.of(Variant::Original).user);
        let mut line = vec![row.name.clone(), format!("{original:.2}")];
        line.extend(COMPARED.map(|variant| percent(row.time(variant))));
        table.push(line);
    }
    let mut line = vec!["geometric mean".to_owned(), String::new()];
    line.extend(COMPARED.map(|variant| percent(mean(rows.iter().map(|row| row.time(variant))))));
    table.push(line);
    table
}

fn memory(rows: &[&Row]) -> Table {
    let mut table = vec![heading(&["program", "original kB"])];
    for row in rows {
        let original = row.of(Variant::Original).memory;
        let mut line = vec![row.name.clone(), original.to_string()];
        line.extend(COMPARED.map(|variant| {
            let more = row.of(variant).memory as i64 - original as i64;
            format!("{more:+}")
        }));
        table.push(line);
    }
    table
}

fn sizes(rows: &[&Row]) -> Table {
    let mut table = vec![heading(&["program", "original kB"])];
    for row in rows {
        let original = row.of(Variant::Original).bytes.loaded;
        let mut line = vec![row.name.clone(), (original / 1000).to_string()];
        line.extend(COMPARED.map(|variant| {
            let bytes = row.of(variant).bytes;
            let more = percent(bytes.loaded as f64 / original as f64);
            format!("{more}, {}", bytes.table / 1000)
        }));
        table.push(line);
    }
    table
}

fn autopsies(rows: &[&Row]) -> Table {
    let titles = ["program", "core MB", "seconds", "MB"];
    let mut table = vec![titles.map(str::to_owned).to_vec()];
    for row in rows {
        let Some(autopsy) = row.autopsy else { continue };
        let (core, memory) = (autopsy.core as f64 / 1e6, autopsy.memory as f64 / 1e3);
        table.push(vec![
            row.name.clone(),
            format!("{core:.1}"),
            format!("{:.2}", autopsy.seconds),
            format!("{memory:.0}"),
        ]);
    }
    table
}

fn verdicts(rows: &[Row]) -> Table {
    let titles = ["what", "wanted", "measured", ""];
    let mut table = vec![titles.map(str::to_owned).to_vec()];
    let rows = at(rows, "-O2");
    if rows.is_empty() {
        return table;
    }
    let all = |variant| mean(rows.iter().map(|row| row.instructions(variant)));
    let realistic = all(Variant::Realistic);
    let ratio = |row: &&&Row| row.instructions(Variant::Realistic);
    let worst = rows.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b))).expect("there are rows");
    let paths = all(Variant::Paths);
    let mut add = |what: &str, wanted: f64, measured: f64, note: String| {
        table.push(vec![
            what.to_owned(),
            format!("≤ {} %", percent(wanted)),
            format!("{} %{note}", percent(measured)),
            verdict(measured <= wanted),
        ]);
    };
    add("instructions, `realistic`, on average", REALISTIC.0, realistic, String::new());
    let note = format!(" ({})", worst.name);
    add("the same, any program", REALISTIC.1, ratio(&worst), note);
    add("instructions, `pt`, on average", PATHS, paths, String::new());
    let sqlite = rows.iter().find(|row| row.name == "sqlite3").and_then(|row| row.autopsy);
    if let Some(autopsy) = sqlite {
        let memory = autopsy.memory as f64 / 1024.0;
        table.push(vec![
            "autopsy of sqlite3".to_owned(),
            "< 5 s, < 1024 MiB".to_owned(),
            format!("{:.2} s, {memory:.0} MiB", autopsy.seconds),
            verdict(autopsy.seconds < 5.0 && memory < 1024.0),
        ]);
    }
    table
}

/// Prints what decides.
pub fn print(rows: &[Row]) {
    for level in LEVELS {
        let rows = at(rows, level);
        if !rows.is_empty() {
            println!("instructions at {level}, percent more");
            print!("{}", terminal::table(&instructions(&rows)));
        }
    }
    print!("{}", terminal::table(&verdicts(rows)));
}

fn write_table(page: &mut String, table: &Table) {
    for (number, line) in table.iter().enumerate() {
        let _ = writeln!(page, "| {} |", line.join(" | "));
        if number == 0 {
            let _ = writeln!(page, "|{}", " --- |".repeat(line.len()));
        }
    }
    page.push('\n');
}

/// The page.
pub fn page(rows: &[Row], missing: &[String]) -> String {
    let mut page = INTRODUCTION.to_owned();
    if !missing.is_empty() {
        let _ = writeln!(page, "Yet to be measured: {}.\n", missing.join(", "));
    }
    write_table(&mut page, &verdicts(rows));
    for level in LEVELS {
        let rows = at(rows, level);
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(page, "## {level}\n\nPercent more instructions than the original:\n");
        write_table(&mut page, &instructions(&rows));
        let rounds = rows.iter().map(|row| row.of(Variant::Original).user.len()).min();
        let rounds = match rounds.unwrap_or_default() {
            1 => "of one round, so with all the noise of the machine".to_owned(),
            count => format!("the least of {count} rounds"),
        };
        let _ = writeln!(page, "Percent more user time, {rounds}:\n");
        write_table(&mut page, &times(&rows));
        let _ = writeln!(page, "The greatest resident set, kB more:\n");
        write_table(&mut page, &memory(&rows));
        let _ = writeln!(
            page,
            "What is loaded, percent more bytes, and kB of the table of frames, which is not \
             loaded and can be detached:\n"
        );
        write_table(&mut page, &sizes(&rows));
        if rows.iter().any(|row| row.autopsy.is_some()) {
            let _ = writeln!(
                page,
                "What it takes to read a core of `full`, which a signal ended in the midst of its \
                 work (`backtrail autopsy --json`): seconds of processor time, and the greatest \
                 resident set:\n"
            );
            write_table(&mut page, &autopsies(&rows));
        }
    }
    page.push_str("## Programs\n\n| program | version | does | traced by `realistic` |\n");
    page.push_str("| --- | --- | --- | --- |\n");
    for row in at(rows, LEVELS[0]) {
        let Some(traced) = find(&row.name) else { continue };
        let functions: Vec<String> =
            traced.functions.iter().map(|name| format!("`{name}`")).collect();
        let does = traced.subject.does;
        let _ =
            writeln!(page, "| {} | {} | {does} | {} |", row.name, row.version, functions.join(" "));
    }
    page
}

const INTRODUCTION: &str = "\
# What it costs to have crashes tell

This page is written by

```
cargo xtask bench crash
```

which fetches programs as Debian packages them, builds each by clang and by Backtrail, derives a \
variant for each scheme, makes inputs by rule, and runs everything in turns. `--only NAME` takes \
some of the programs, `--levels O2` some of the levels, `--rounds N` says how often they are timed \
(5). What has been measured is kept, and measured again when the tool has changed or with \
`--again`. Every run of every variant has to write the same as the original.

| column | records |
| --- | --- |
| empty | nothing: the program rebuilt from its IR |
| fc | which functions were entered |
| cc | which calls were made, by all activations and by each live one |
| bc | the same of blocks |
| pt | the last ten paths of each live activation |
| realistic | `cc`, and `pt` for the functions listed below, which were chosen before measuring |
| realistic, tunable | the same, and every function can be switched later to `none`, `cc` or `cc+pt` (`--tunable '*'`): what a springboard at each function costs |
| full | `bc+cc+pt` |

";

#[cfg(test)]
mod tests {
    use super::super::Measured;
    use super::super::autopsy::Autopsy;
    use super::super::variant::Bytes;
    use super::*;

    #[test]
    fn a_page_says_what_was_met() {
        let measured = |variant: Variant| Measured {
            variant,
            instructions: 1000 + 10 * variant as u64,
            user: vec![1.0, 2.0],
            memory: 100,
            bytes: Bytes { code: 10, loaded: 1000, table: 0 },
        };
        let row = Row {
            name: "gzip".into(),
            level: "-O2".into(),
            version: "1".into(),
            variants: Variant::ALL.map(measured).to_vec(),
            autopsy: Some(Autopsy { seconds: 0.25, memory: 64_000, core: 3_000_000 }),
        };
        let page = page(&[row], &["sed -O2".into()]);
        assert!(page.contains("Yet to be measured: sed -O2."));
        assert!(
            page.contains("| instructions, `realistic`, on average | ≤ 2.0 % | 6.0 % | missed |")
        );
        assert!(page.contains("| instructions, `pt`, on average | ≤ 8.0 % | 5.0 % | met |"));
        assert!(page.contains("| gzip | 3.0 | 0.25 | 64 |"));
        assert!(page.contains("`huft_build`"));
    }
}
