//! What can have run, and the functions that did not: by function, those of one shown name
//! told together, with how many of that name they are of.

use std::collections::BTreeMap;

use backtrail_foreign::text::shown;

use super::super::{Conclusion, Counted, FunctionCode};
use super::Text;
use crate::name::compact;
use crate::terminal::{self, Detail, Extent, number};

/// Rows of names of functions on a screen.
const ROWS_OF_NAMES: usize = 4;

/// Functions of one shown name.
struct Word {
    text: String,
    /// How many they are.
    functions: u64,
}

impl Text {
    /// What can have run of the whole program.
    pub(super) fn conclusion(&mut self, found: &Conclusion, title: &str) {
        self.line("");
        self.line(&self.style.bold(title));
        let mut row = |what: &str, now: u64, total: u64, stack_only: Option<u64>| {
            let (now, total) = (number(now), number(total));
            let by_stack = stack_only.map_or_else(String::new, |it| {
                format!("  {}", self.style.dim(&format!("({} by the stack alone)", number(it))))
            });
            let line = format!("  {what:<10} {now:>9} of {total:>9}{by_stack}");
            self.out.push_str(line.trim_end());
            self.out.push('\n');
        };
        let all = |it: Counted| (it.now, it.total, Some(it.stack_only));
        for (what, counted) in
            [("functions", found.functions), ("blocks", found.nodes), ("edges", found.edges)]
        {
            let (now, total, stack_only) = all(counted);
            row(what, now, total, stack_only);
        }
        let lines = found.all_lines - found.impossible_lines.len() as u64;
        row("lines", lines, found.all_lines, None);
        self.did_not_run(found);
    }

    /// The functions that cannot have run, those of one shown name together.
    fn did_not_run(&mut self, found: &Conclusion) {
        let shown_name = |it: &FunctionCode| match self.detail {
            Detail::Short => shown(&compact(&it.demangled)),
            Detail::Full => shown(&it.demangled),
        };
        let mut of_name: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for function in found.impossible_functions() {
            of_name.entry(shown_name(function)).or_default().0 += 1;
        }
        for function in &found.code {
            if let Some((_, all)) = of_name.get_mut(&shown_name(function)) {
                *all += 1;
            }
        }
        let words: Vec<Word> = of_name
            .into_iter()
            .map(|(name, (not_run, all))| Word {
                functions: not_run,
                text: match (not_run, all) {
                    (1, 1) => name,
                    (not_run, all) if not_run == all => format!("{name} (all {})", number(all)),
                    _ => format!("{name} ({} of {})", number(not_run), number(all)),
                },
            })
            .collect();
        if words.is_empty() {
            return;
        }
        let room = self.style.page().saturating_sub(15).max(40);
        let names: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
        let rows = terminal::broken(&names, "  ", room);
        let is_bounded = self.style.screen.is_some() && self.extent == Extent::Screenful;
        let listed = if is_bounded { rows.len().min(ROWS_OF_NAMES) } else { rows.len() };
        let kept: usize = rows[..listed].iter().map(|row| row.len()).sum();
        let more: u64 = words[kept..].iter().map(|word| word.functions).sum();
        let mut rows: Vec<String> = rows[..listed].iter().map(|row| row.join("  ")).collect();
        if more > 0 {
            rows.push(self.style.dim(&format!("… {} more (--all)", number(more))));
        }
        for (place, row) in rows.iter().enumerate() {
            let label = if place == 0 { "did not run" } else { "" };
            self.line(&format!("  {label:<11}  {row}"));
        }
    }
}
