//! The calls of a trace: as a tree, as a page, for other tools.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use backtrail_build::output::{Mode, WholeFile, write_whole};
use backtrail_collect::local::signal_name;
use backtrail_foreign::text::shown;
use backtrail_report::flame::{self, Bar};
use backtrail_report::name::{Names, shortened};
use backtrail_trace::call_tree::CallTree;
use backtrail_trace::file::{Ending, Legend, Step};

use super::trace::{check, open};
use crate::alike;
use crate::args;
use crate::exit::Unreadable;
use crate::json;
use crate::named::Named;
use crate::style::{Detail, Style, demangle, detail, dim, number, terminal};

/// Gives each step of each thread to `step`, and begins threads with `begin`.
fn walk(
    args: &args::Show,
    mut begin: impl FnMut(&Legend, (u32, u32)) -> anyhow::Result<()>,
    mut step: impl FnMut(&Legend, (u32, u32), u64, Option<Step>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut file = open(&args.record)?;
    let legend = file.legend().clone();
    let threads = file.threads().to_vec();
    for (position, thread) in threads.iter().enumerate() {
        let ids = (thread.process, thread.thread);
        begin(&legend, ids)?;
        let unreadable = |error: backtrail_trace::Error| {
            Unreadable(format!("{}: {error}", args.record.display()))
        };
        let steps = file.steps(position, args.from).map_err(unreadable)?;
        let mut at = args.from;
        for found in steps.take(usize::try_from(args.count.unwrap_or(u64::MAX))?) {
            step(&legend, ids, at, Some(found.map_err(unreadable)?))?;
            at += 1;
        }
        step(&legend, ids, at, None)?;
    }
    Ok(())
}

/// The bars of a trace's call tree.
fn bars(args: &args::Show) -> anyhow::Result<(Legend, Vec<String>, Vec<Bar>)> {
    let file = open(&args.record)?;
    let legend = file.legend().clone();
    let mut notes = legend.incomplete.clone();
    notes.extend(file.ended_by().map(|it| format!("ended by {}", signal_name(it))));
    for (what, said) in file.merged().iter().flat_map(|it| alike::view(it).lines(Style::PLAIN)) {
        notes.push(format!("{what}: {said}"));
    }
    for thread in file.threads() {
        if let Ending::Unknown(why) = &thread.ending {
            notes.push(format!(
                "process {} thread {}: what followed is not known: {why}",
                thread.process, thread.thread
            ));
        }
    }
    let tree = std::cell::RefCell::new(CallTree::new(&legend));
    let mut names = Vec::new();
    walk(
        args,
        |_, (process, thread)| {
            tree.borrow_mut().begin_thread();
            names.push(format!("process {process} thread {thread}"));
            Ok(())
        },
        |_, _, _, step| {
            step.into_iter().for_each(|step| tree.borrow_mut().push(step));
            Ok(())
        },
    )?;
    let (nodes, totals) = tree.into_inner().finish();
    let mut threads = names.into_iter();
    let bars = nodes.iter().zip(totals).map(|(node, total)| {
        let name = match node.function {
            u32::MAX => threads.next().unwrap_or_default(),
            function => {
                let known = legend.functions.get(function as usize);
                known.map_or("?".to_owned(), |it| demangle(&it.name))
            }
        };
        Bar { name, parent: node.parent, calls: node.calls, own: node.own, total }
    });
    let bars = bars.collect();
    Ok((legend, notes, bars))
}

/// What the functions of a trace are called in short, by the names that people write.
fn short_names(legend: &Legend) -> BTreeMap<String, String> {
    let full: Vec<(&str, String)> =
        legend.functions.iter().map(|it| (&*it.name, demangle(&it.name))).collect();
    let names = Names::new(full.iter().map(|(name, plain)| (*name, &**plain)), Detail::Short);
    full.iter().map(|(name, plain)| (plain.clone(), names.of(name, plain))).collect()
}

/// Prints the call tree.
pub fn tree(args: &args::Show, filter: Option<&Named>, out: &mut impl Write) -> anyhow::Result<()> {
    let (legend, notes, bars) = bars(args)?;
    check(filter, &legend)?;
    for note in notes {
        writeln!(out, "{}", dim(&note))?;
    }
    let named =
        legend.functions.iter().filter(|it| filter.is_none_or(|filter| filter.has(&it.name)));
    let named: BTreeSet<String> = named.map(|it| demangle(&it.name)).collect();
    let style = terminal();
    let short = short_names(&legend);
    let name = |name: &str, depth: usize| match detail(args.full) {
        Detail::Short => {
            let name = short.get(name).map_or(name, String::as_str);
            shortened(&shown(name), style.room(37 + 2 * depth, 24))
        }
        Detail::Full => shown(name),
    };
    let mut children = vec![Vec::new(); bars.len()];
    let mut waiting = Vec::new();
    let mut all = 0;
    for (position, bar) in bars.iter().enumerate() {
        if bar.parent as usize == position {
            waiting.push((position, 0));
            all += bar.total;
        } else {
            children[bar.parent as usize].push(position);
        }
    }
    waiting.reverse();
    writeln!(out, "{:>14} {:>7} {:>12}  function", "blocks", "share", "calls")?;
    while let Some((position, depth)) = waiting.pop() {
        let bar = &bars[position];
        let share = bar.total as f64 * 100.0 / (all.max(1)) as f64;
        if share < args.least_share {
            continue;
        }
        if filter.is_none() || named.contains(&bar.name) {
            writeln!(
                out,
                "{:>14} {share:>6.1}% {:>12}  {:indent$}{}",
                number(bar.total),
                number(bar.calls),
                "",
                name(&bar.name, depth),
                indent = 2 * depth
            )?;
        }
        let mut below = children[position].clone();
        below.sort_by_key(|&child| (bars[child].total, std::cmp::Reverse(child)));
        waiting.extend(below.into_iter().map(|child| (child, depth + 1)));
    }
    Ok(())
}

/// Writes the call tree as a page.
pub fn page(args: &args::Show, folder: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let (legend, notes, bars) = bars(args)?;
    std::fs::create_dir_all(folder).map_err(backtrail_build::Error::write(folder))?;
    let page = folder.join("index.html");
    write_whole(&page, flame::render(&legend.program, &notes, &bars).as_bytes(), Mode::Data)?;
    writeln!(out, "{}", shown(&page.display().to_string()))?;
    Ok(())
}

/// Writes the calls as trace events.
pub fn perfetto(args: &args::Show, out: &mut impl Write) -> anyhow::Result<()> {
    match &args.output {
        Some(path) => {
            let mut file = WholeFile::create(path, Mode::Data)?;
            write_events(args, &mut file)?;
            Ok(file.finish()?)
        }
        None => write_events(args, out),
    }
}

/// The "JSON Array Format" of trace events, with `B` and `E` for calls.
fn write_events(args: &args::Show, out: &mut impl Write) -> anyhow::Result<()> {
    let out = std::cell::RefCell::new(out);
    let mut depth = 0u32;
    write!(out.borrow_mut(), "[")?;
    let mut is_first = true;
    walk(
        args,
        |legend, (process, thread)| {
            let separator = if std::mem::take(&mut is_first) { "\n" } else { ",\n" };
            let name = json::text(&legend.program);
            write!(
                out.borrow_mut(),
                "{separator}{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{process},\
                 \"tid\":{thread},\"args\":{{\"name\":{name}}}}}"
            )?;
            Ok(())
        },
        |legend, (process, thread), at, step| {
            let mut out = out.borrow_mut();
            let below = match step {
                Some(step) if step.enters => step.depth.saturating_sub(1),
                Some(step) => step.depth,
                None => 0,
            };
            while depth > below {
                write!(out, ",\n{{\"ph\":\"E\",\"ts\":{at},\"pid\":{process},\"tid\":{thread}}}")?;
                depth -= 1;
            }
            if let Some(step) = step.filter(|step| step.depth > depth) {
                let name = legend.function(step.place).unwrap_or("?");
                let name = json::text(&demangle(name));
                write!(
                    out,
                    ",\n{{\"name\":{name},\"ph\":\"B\",\"ts\":{at},\"pid\":{process},\
                     \"tid\":{thread}}}"
                )?;
                depth += 1;
            }
            Ok(())
        },
    )?;
    let out = out.into_inner();
    writeln!(out, "\n]")?;
    Ok(())
}
