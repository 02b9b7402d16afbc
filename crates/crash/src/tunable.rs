//! Functions that can be switched after a program was shipped.
//!
//! A rule says, by glob of function names, which variants of a function an
//! executable is to hold besides the one that its scheme asks for:
//!
//! ```text
//! rule     = glob [ "=" mechanisms { "," mechanisms } ]
//! ```
//!
//! `parse_*=none,cc+pt` gives the functions of a parser three variants if the scheme
//! is `cc`. Without a list it is `none,cc,cc+pt`. Of several rules that a name
//! matches the last counts; a function that none matches has one variant and no
//! springboard. What cannot be recorded of a function is left out of its variants,
//! and those that are the same then are one.
//!
//! Each variant of a unit is planned as if it were a unit of its own, with bytes of
//! coverage of its own: one that was never on has executed nothing, which is not to
//! be taken for what the function did.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_ir::{Func, Function, Linkage, Op, Sym, SymbolKind, Unit, Value};
use backtrail_plan::{SwitchedFunction, UnitPlan};
use globset::{Glob, GlobMatcher};

use crate::Error;
use crate::placement::Wanted;
use crate::scheme::Mechanisms;
use crate::unit_plan::{Planning, UnitMeaning, left_out};

/// The variants of functions of which nothing else is said.
pub const DEFAULT_VARIANTS: &str = "none,cc,cc+pt";

/// The most variants that a function can have: what a byte can tell apart.
const MOST_VARIANTS: usize = 256;

/// Which variants functions are to have.
#[derive(Debug, Clone, Default)]
pub struct Tunable {
    rules: Vec<(GlobMatcher, Vec<Mechanisms>)>,
}

impl Tunable {
    /// Reads rules.
    pub fn parse(rules: &[String]) -> Result<Self, Error> {
        let mut found = Vec::new();
        for rule in rules {
            let (glob, list) = rule.split_once('=').unwrap_or((rule, DEFAULT_VARIANTS));
            let wrong = |why: String| Error::Scheme { word: glob.into(), why };
            if glob.is_empty() {
                return Err(wrong("expected GLOB or GLOB=SCHEME,SCHEME".to_owned()));
            }
            let matcher = Glob::new(glob).map_err(|error| wrong(error.to_string()))?;
            let list = list.split(',').map(Mechanisms::parse).collect::<Result<_, Error>>()?;
            found.push((matcher.compile_matcher(), list));
        }
        Ok(Self { rules: found })
    }

    /// Whether nothing is to be switched.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The globs by which its rules name functions.
    pub fn globs(&self) -> impl Iterator<Item = &Glob> {
        self.rules.iter().map(|(matcher, _)| matcher.glob())
    }

    /// What is asked for of the function with these names.
    fn of(&self, name: &str, plain: &str) -> &[Mechanisms] {
        let mut rules = self.rules.iter().rev();
        let found = rules.find(|(glob, _)| glob.is_match(name) || glob.is_match(plain));
        found.map_or(&[], |(_, list)| list)
    }
}

/// The plan of a unit of which functions can be switched.
pub struct TunablePlan {
    /// The plan, with those of variants.
    pub plan: UnitPlan,
    /// What the records of functions mean that cannot be switched.
    pub meaning: UnitMeaning,
    /// What those of variants mean.
    pub variants: Vec<UnitMeaning>,
}

impl Planning<'_> {
    /// As [`Self::plan`], with variants of functions.
    pub fn plan_tunable(
        &self,
        tunable: &Tunable,
        id: [u8; 16],
        unit: &Unit,
        place: usize,
    ) -> TunablePlan {
        // What variants of the unit record; they are numbered from 1.
        let mut kinds: Vec<Mechanisms> = Vec::new();
        let mut functions = Vec::new();
        let fixed = match tunable.is_empty() {
            true => BTreeSet::new(),
            false => with_shared_labels(unit),
        };
        for function in unit.functions.indices().filter(|it| !fixed.contains(it)) {
            let choices = self.variants(tunable, unit, function, place);
            if choices.len() < 2 {
                continue;
            }
            let mut number = |choice: Mechanisms| {
                let known = kinds.iter().position(|it| *it == choice);
                let position = known.unwrap_or_else(|| {
                    kinds.push(choice);
                    kinds.len() - 1
                });
                (position as u32 + 1, choice.name())
            };
            let variants = choices.into_iter().map(&mut number).collect();
            let name = unit.symbols[unit.functions[function].symbol].name.clone();
            functions.push(SwitchedFunction { function, name, variants });
        }
        let of = |function: Func| {
            functions
                .binary_search_by_key(&function, |it| it.function)
                .ok()
                .map(|it| &functions[it])
        };
        let (mut plan, meaning) =
            self.plan_for(id, unit, place, &|function, own| of(function).is_none().then_some(own));
        let (mut plans, mut variants) = (Vec::new(), Vec::new());
        for (kind, number) in kinds.iter().zip(1..) {
            let (mut plan, meaning) = self.plan_for(id, unit, place, &|function, _| {
                let has = of(function)?.variants.iter().any(|it| it.0 == number);
                has.then_some(*kind)
            });
            plan.variant = number;
            plans.push(plan);
            variants.push(meaning);
        }
        plan.switched.variants = plans;
        plan.switched.functions = functions;
        TunablePlan { plan, meaning, variants }
    }

    /// The variants of a function, the one that the scheme asks for first.
    fn variants(
        &self,
        tunable: &Tunable,
        unit: &Unit,
        function: Func,
        place: usize,
    ) -> Vec<Mechanisms> {
        let name = &unit.symbols[unit.functions[function].symbol].name;
        let plain = (self.demangle)(name);
        let listed = tunable.of(name, &plain);
        if listed.is_empty() || left_out(unit, function).is_some() {
            return Vec::new();
        }
        let asked: Vec<Mechanisms> =
            std::iter::once(self.scheme.of(name, &plain)).chain(listed.iter().copied()).collect();
        let (all, any) =
            (Wanted { entered: true, ..Wanted::default() }, |it: &Mechanisms| it.paths);
        let has_paths = asked.iter().any(any)
            && self.paths(unit, function, Mechanisms { paths: true, coverage: all }).is_ok();
        let can_cover = |it: &Mechanisms| {
            it.coverage != Wanted::default() && self.coverage(unit, function, *it, place).is_ok()
        };
        let mut found: Vec<Mechanisms> = Vec::new();
        for wanted in asked {
            let coverage = if can_cover(&wanted) { wanted.coverage } else { Wanted::default() };
            let possible = Mechanisms { paths: wanted.paths && has_paths, coverage };
            if !found.contains(&possible) && found.len() < MOST_VARIANTS {
                found.push(possible);
            }
        }
        found
    }
}

/// The functions whose labels are known outside of them: their addresses are in
/// data that can change or that others use, or in other functions. Such an address
/// is that of one place, so there can be no variants. More functions than that do no
/// harm.
fn with_shared_labels(unit: &Unit) -> BTreeSet<Func> {
    let has_labels = |data: &Function| {
        let mut ends = data.blocks.values().map(|block| &data.insts[block.terminator()].op);
        ends.any(|op| matches!(op, Op::IndirectJump))
    };
    let labelled: BTreeMap<Sym, Func> = unit
        .functions
        .iter()
        .filter(|(_, data)| has_labels(data))
        .map(|(function, data)| (data.symbol, function))
        .collect();
    if labelled.is_empty() {
        return BTreeSet::new();
    }
    // Data that may hold labels of a function, and whether it may be copied.
    let mut holders: BTreeMap<Sym, Vec<Func>> = BTreeMap::new();
    let mut shared = BTreeSet::new();
    for (symbol, data) in unit.symbols.iter() {
        let SymbolKind::Data { defined: true, constant, refers_to, .. } = &data.kind else {
            continue;
        };
        let held: Vec<Func> = refers_to.iter().filter_map(|it| labelled.get(it)).copied().collect();
        if !constant || data.linkage != Linkage::Internal {
            shared.extend(held);
        } else if !held.is_empty() {
            holders.insert(symbol, held);
        }
    }
    for data in unit.symbols.values() {
        if let SymbolKind::Data { refers_to, .. } = &data.kind {
            shared.extend(refers_to.iter().filter_map(|it| holders.get(it)).flatten());
        }
    }
    for (function, data) in unit.functions.iter() {
        let mentioned = data.insts.values().flat_map(|inst| data.operands_of(inst));
        for value in mentioned {
            let (symbols, labels): (&[Sym], &[Sym]) = match value {
                Value::Symbol(symbol, _) => (std::slice::from_ref(symbol), &[]),
                Value::BlockAddress(symbol, _) => (&[], std::slice::from_ref(symbol)),
                Value::Expr(symbols) => (symbols, symbols),
                _ => continue,
            };
            let held = symbols.iter().filter_map(|it| holders.get(it)).flatten();
            let own = labels.iter().filter_map(|it| labelled.get(it));
            shared.extend(held.chain(own).filter(|it| **it != function));
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use backtrail_graph::Index as _;

    use super::*;

    fn names(rules: &[&str], function: &str) -> Vec<String> {
        let rules: Vec<String> = rules.iter().map(|it| (*it).to_owned()).collect();
        let tunable = Tunable::parse(&rules).unwrap();
        tunable.of(function, function).iter().map(|it| it.name()).collect()
    }

    #[test]
    fn the_last_rule_that_matches_counts() {
        assert_eq!(names(&["parse_*"], "parse_x"), ["none", "cc", "cc+pt"]);
        assert_eq!(names(&["*", "parse_*=bc,none"], "parse_x"), ["bc", "none"]);
        assert!(names(&["parse_*"], "main").is_empty() && names(&[], "main").is_empty());
    }

    /// A function with two labels, in whose unit there is also what is said.
    fn labelled(data: &str, operand: &str) -> Vec<usize> {
        let text = format!(
            "unit \"a.c\"
             s0 = function f0 \"run\" external
             s1 = function f1 \"other\" external
             s2 = data \"labels\" {data} refers [s0]
             s3 = data \"list\" internal constant size 8 refers [s1]
             function f0 s0 parameters 1 {{
             b0: i0 = load 8 (s2) i1 indirect_jump (i0) -> b1, b2
             b1: i2 return
             b2: i3 return
             }}
             function f1 s1 parameters 1 {{ b0: i0 = load 8 ({operand}) i1 return }}"
        );
        let unit = backtrail_ir::text::parse(&text).unwrap();
        with_shared_labels(&unit).into_iter().map(|it| it.position()).collect()
    }

    #[test]
    fn labels_that_others_know_are_of_one_place() {
        let none: [usize; 0] = [];
        assert_eq!(labelled("internal constant size 16", "s3"), none);
        assert_eq!(labelled("internal size 16", "s3"), [0]);
        assert_eq!(labelled("external constant size 16", "s3"), [0]);
        assert_eq!(labelled("internal constant size 16", "s2"), [0]);
        assert_eq!(labelled("internal constant size 16", "block_address s0 b1"), [0]);
        assert_eq!(labelled("internal constant size 16", "s0"), none);
    }

    #[test]
    fn what_is_no_rule() {
        let why = |text: &str| Tunable::parse(&[text.to_owned()]).unwrap_err().to_string();
        assert!(why("f=turbo").contains("expected pt, fc"));
        assert!(why("=cc").contains("expected GLOB"));
        assert!(why("a[=cc").starts_with("\"a[\" is no scheme: "));
        assert!(why("f=").contains("expected pt, fc"));
    }
}
