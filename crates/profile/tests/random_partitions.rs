//! Copies that each count a part, against one that counts everything: random
//! programs are walked at random, the probes of every copy are carried out
//! along the same walk, and what the copies counted is put together.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use backtrail_abi::UnitId;
use backtrail_abi::counts::ORDER_OFFSET;
use backtrail_analysis::calls::{has_call_that_returns_twice, is_in_tail_position, traits_of};
use backtrail_graph::{Edge, EdgeSet, Index};
use backtrail_ir::program::{Loaded, Surroundings};
use backtrail_ir::{Block, Func, Inst, Linkage, Op, Unit};
use backtrail_plan::counters::Layout;
use backtrail_plan::order::Entries;
use backtrail_plan::{Action, Place, UnitPlan};
use backtrail_profile::Error;
use backtrail_profile::decode::{Counters, Decoder, Origin};
use backtrail_profile::model::Profile;
use backtrail_profile::partition::bound::Bound;
use backtrail_profile::partition::copies::CopyDecoder;
use backtrail_profile::partition::cost::{self, CopyCost, Cost};
use backtrail_profile::partition::coverage::covers_every_path;
use backtrail_profile::partition::interest::Placing;
use backtrail_profile::partition::program::ModuleUnits;
use backtrail_profile::partition::{
    CountedFunction, Partition, ProgramPaths, Shares, Strategy, plan_copy,
};
use backtrail_profile::skeleton::Module;
use backtrail_profile::unit_plan::{Choice, UnitMeaning, Weights, plan_module};
use backtrail_testkit::random_unit::{self, Size};
use fastrand::Rng;

/// What happens in a run, in order.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// An activation begins; what was under way is forgotten.
    Begin,
    /// Control is here.
    At(Place),
    /// A call returned for the second time: registers are stale.
    Stale,
}

/// One run of one process: by module and unit, functions and their events.
type Run = Vec<(usize, usize, Func, Vec<Event>)>;

/// One activation of a function; it may be left anywhere.
fn activation(unit: &Unit, function: Func, rng: &mut Rng) -> Vec<Event> {
    let body = &unit.functions[function];
    let comes_back = has_call_that_returns_twice(unit, body);
    let mut events = vec![Event::Begin, Event::At(Place::Entry)];
    let mut block = Block::new(0);
    let mut from = 0;
    let mut returned: Option<(Block, Inst)> = None;
    for _ in 0..rng.usize(1..60) {
        let data = &body.blocks[block];
        for inst in data.insts().skip(std::mem::take(&mut from)) {
            events.push(Event::At(Place::Before(inst)));
            if let Op::Call(call) = &body.insts[inst].op {
                let traits = traits_of(unit, call);
                if traits.no_return || is_in_tail_position(body, inst) {
                    return events;
                }
                if traits.returns_twice && comes_back {
                    returned = Some((block, inst));
                }
            }
            if inst != data.terminator() {
                events.push(Event::At(Place::After(inst)));
            }
        }
        if data.successors.is_empty() {
            return events;
        }
        if let Some((back, call)) = returned
            && rng.u8(..8) == 0
        {
            events.extend([Event::Stale, Event::At(Place::After(call))]);
            block = back;
            from = call.position() + 1 - body.blocks[block].first as usize;
            continue;
        }
        let to = data.successors[rng.usize(..data.successors.len())];
        events.push(Event::At(Place::Edge { from: block, to }));
        block = to;
    }
    events
}

/// A module of a variant: its plans and layout.
struct Variant {
    id: [u8; 16],
    plans: Vec<UnitPlan>,
    layout: Layout,
}

impl Variant {
    fn new(id: u8, planned: Vec<(UnitPlan, UnitMeaning)>) -> Self {
        let units = planned.iter().map(|(plan, it)| (plan.unit, plan.counters, it.to_bytes()));
        let layout = Layout::new(units.collect::<Vec<_>>());
        Self { id: [id; 16], plans: planned.into_iter().map(|(plan, _)| plan).collect(), layout }
    }

    /// The counters after `run`, and what the probes cost.
    fn count(&self, module: usize, run: &Run) -> (Vec<u8>, CopyCost) {
        let mut cost = CopyCost::default();
        let mut area = vec![0u8; self.layout.bytes as usize];
        let mut order = 0;
        for (_, unit, function, events) in run.iter().filter(|it| it.0 == module) {
            let plan = &self.plans[*unit];
            let Some(planned) = plan.functions.iter().find(|it| it.function == *function) else {
                continue;
            };
            let unit = self.layout.units.iter().find(|it| it.unit == plan.unit).unwrap();
            let mut add = |counter: i64| {
                assert!((0..i64::from(unit.counters)).contains(&counter), "counter {counter}");
                let at = unit.offset as usize + counter as usize * 8;
                let bytes = area[at..].first_chunk_mut::<8>().unwrap();
                *bytes = (u64::from_le_bytes(*bytes) + 1).to_le_bytes();
            };
            let mut sum: Option<i64> = None;
            for event in events {
                let place = match *event {
                    Event::Begin => {
                        sum = None;
                        continue;
                    }
                    Event::Stale => {
                        sum = sum.map(|_| 0x5a5a_5a5a);
                        continue;
                    }
                    Event::At(place) => place,
                };
                for probe in planned.probes.iter().filter(|probe| probe.at == place) {
                    match probe.action {
                        Action::SetSum(value) => sum = Some(value),
                        Action::AddSum(value) => {
                            sum = Some(sum.unwrap().wrapping_add(value));
                            cost.hits += 1;
                        }
                        Action::CountSum(value) => {
                            cost.updates += 1;
                            add(sum.take().unwrap().wrapping_add(value));
                        }
                        Action::Count { counter } => add(counter.into()),
                        Action::Enter => {}
                        Action::Order(turn) => order = turn.apply(order),
                        ref other => panic!("{other:?} in a plan that counts"),
                    }
                }
            }
        }
        area[ORDER_OFFSET as usize..][..8].copy_from_slice(&order.to_le_bytes());
        (area, cost)
    }
}

/// A program: modules of units.
type Modules = Vec<Vec<([u8; 16], Unit)>>;

fn random_program(rng: &mut Rng) -> Modules {
    let mut id = 0u8;
    let size = Size { functions: 4, blocks: rng.usize(2..24), insts: 2 };
    let mut unit = || {
        id += 1;
        ([id; 16], random_unit::unit(rng.u64(..), size))
    };
    (0..2).map(|_| (0..2).map(|_| unit()).collect()).collect()
}

/// The same, with functions that others may enter: runs are drawn without callers.
fn entered_by_anybody(mut modules: Modules) -> Modules {
    for (number, (_, unit)) in modules.iter_mut().flatten().enumerate() {
        for (func, function) in unit.functions.iter() {
            let symbol = &mut unit.symbols[function.symbol];
            symbol.linkage = Linkage::External;
            symbol.name = format!("{func}_of_{number}");
        }
    }
    modules
}

fn random_run(modules: &Modules, rng: &mut Rng) -> Run {
    let mut run = Run::new();
    for (module, units) in modules.iter().enumerate() {
        for (number, (_, unit)) in units.iter().enumerate() {
            for function in unit.functions.indices() {
                for _ in 0..rng.usize(0..12) {
                    run.push((module, number, function, activation(unit, function, rng)));
                }
            }
        }
    }
    run
}

fn borrowed(units: &[([u8; 16], Unit)]) -> Vec<([u8; 16], &Unit)> {
    units.iter().map(|(id, unit)| (*id, unit)).collect()
}

/// Each of the first paths of a function to one of the copies.
fn random_sets(function: &CountedFunction<'_>, copies: usize, rng: &mut Rng) -> Vec<EdgeSet> {
    let edges = function.dag().graph().edge_count();
    let mut sets: Vec<EdgeSet> = vec![EdgeSet::none(edges); copies];
    for path in 0..function.plan().count().min(64) {
        let set = &mut sets[rng.usize(..copies)];
        let path = function.plan().edges_of_path(path).unwrap();
        path.into_iter().for_each(|edge| set.insert(edge));
    }
    sets
}

/// A partition of any shape: some edges of each function to each copy.
fn random_partition(program: &ProgramPaths<'_>, copies: usize, rng: &mut Rng) -> Partition {
    let mut shares = Vec::new();
    for function in program.functions() {
        let sets = random_sets(function, copies, rng);
        let placing = if rng.bool() { Placing::Moved } else { Placing::Published };
        shares.push(Shares::of_edges(function, &sets, placing));
    }
    Partition::of_shares(program, Strategy::Adaptive, copies, shares)
}

/// What is to be compared with a variant that counts everything.
enum Divided {
    By(Strategy),
    AtRandom,
}

struct Outcome {
    parts: usize,
    made_whole: usize,
    /// Copies whose cost could be compared.
    exact: usize,
}

fn check(seed: u64, divided: &Divided, copies: usize) -> Outcome {
    let mut rng = Rng::with_seed(seed);
    let modules = random_program(&mut rng);
    let runs: Vec<Run> = (0..rng.usize(1..3)).map(|_| random_run(&modules, &mut rng)).collect();
    let limit = 1 << rng.u32(1..12);
    let weights = rng.bool().then(|| earlier_profile(&modules, limit, &runs[0]));
    let weights = weights.as_ref().map(Weights::of);
    let choice = Choice {
        wants: &|name| name.len() % 7 != 0,
        limit,
        weights: weights.as_ref(),
        surroundings: None,
    };
    let units: Vec<_> = modules.iter().map(|it| borrowed(it)).collect();
    let whole = whole_variants(&units, &choice);
    let decoder = || Decoder::new("random", "", &decoded_modules(&units, &whole));
    let mut sbl = decoder();
    for run in &runs {
        add(&whole, run, |files| sbl.add_process(files, Origin::Started, None).unwrap());
    }
    let expected = sbl.finish().unwrap();

    let program = ProgramPaths::new(&surrounded(&units), &choice);
    let partition = match divided {
        Divided::By(strategy) => Partition::new(&program, *strategy, copies),
        Divided::AtRandom => random_partition(&program, copies, &mut rng),
    };
    assert_eq!(partition.copies(), copies);
    let known = cost::Run::of(&expected);
    let priced = Cost::of(&program, &partition, &known);
    let counted = expected.functions.iter().filter(|it| it.is_instrumented()).count();
    let functions: usize = modules.iter().flatten().map(|(_, unit)| unit.functions.len()).sum();
    let is_all_kept = expected.functions.len() == functions && counted == program.functions().len();
    let mut exact = 0;
    let mut merging = CopyDecoder::new(decoder());
    let mut parts = 0;
    for copy in 0..copies {
        let plan = |(number, units): (usize, &Vec<_>)| {
            Variant::new(100 + number as u8, plan_copy(units, &choice, &partition, copy))
        };
        let variants: Vec<Variant> = units.iter().enumerate().map(plan).collect();
        for unit in variants.iter().flat_map(|it| &it.layout.units) {
            let meaning = UnitMeaning::from_bytes(&unit.meaning).unwrap();
            parts += meaning.functions.iter().filter(|it| it.part.is_some()).count();
        }
        let layouts: Vec<_> = variants.iter().map(|it| (it.id, &it.layout)).collect();
        let number = merging.add_copy(&layouts).unwrap();
        let mut executed = (0, 0);
        for run in &runs {
            let more = add(&variants, run, |files| {
                merging.add_process(number, None, files, Origin::Started, None).unwrap()
            });
            executed = (executed.0 + more.0, executed.1 + more.1);
        }
        // What is not kept by the linker is not in the profile, and not priced.
        if known.is_exact() && is_all_kept {
            let computed = priced.copies[copy];
            assert_eq!((computed.hits, computed.updates), executed, "seed {seed} copy {copy}");
            exact += 1;
        }
    }
    if known.is_exact() && matches!(divided, Divided::By(_)) {
        let bound = Bound::new(&program, &known);
        assert!(bound.worst_copy(1) <= bound.total);
        // What is proved holds of every plan.
        let at = |place: usize| bound.functions.get(place).map_or(0, |it| it.hits);
        assert!(at(0).max(at(copies - 1) + at(copies)) <= priced.worst_hits(), "seed {seed}");
        for (sum, widest) in bound.functions.iter().map(|it| it.parted) {
            let together: u64 = priced.copies.iter().map(|it| it.hits).sum();
            assert!(priced.worst_hits() >= sum - widest || together >= sum, "seed {seed}");
        }
        let most = (copies - 1) as f64 / copies as f64;
        assert!(bound.saving(copies) <= most + 1e-9, "seed {seed}");
    }
    let (found, entries) = merging.finish().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert!(found == expected, "seed {seed}: the profiles differ");
    assert!(matches!(entries, Entries::Alike(_)), "seed {seed}");
    Outcome { parts, made_whole: partition.made_whole(), exact }
}

fn whole_variants(units: &[Vec<([u8; 16], &Unit)>], choice: &Choice<'_>) -> Vec<Variant> {
    let plan =
        |(number, units): (usize, &Vec<_>)| Variant::new(number as u8, plan_module(units, choice));
    units.iter().enumerate().map(plan).collect()
}

/// Modules of which no more is known than their units.
fn surrounded<'u>(modules: &[ModuleUnits<'u>]) -> Vec<(ModuleUnits<'u>, &'static Surroundings)> {
    static UNKNOWN: LazyLock<Surroundings> = LazyLock::new(Surroundings::default);
    modules.iter().map(|units| (units.clone(), &*UNKNOWN)).collect()
}

fn decoded_modules<'u>(
    units: &[Vec<([u8; 16], &'u Unit)>],
    variants: &[Variant],
) -> Vec<Module<'u>> {
    let module = |(units, variant): (&Vec<([u8; 16], &'u Unit)>, &Variant)| Module {
        id: variant.id,
        layout: variant.layout.clone(),
        units: units.iter().map(|(id, unit)| (UnitId(*id), *unit)).collect(),
        surroundings: exporting(units),
    };
    units.iter().zip(variants).map(module).collect()
}

/// Random runs enter what they like.
fn exporting(units: &[([u8; 16], &Unit)]) -> Surroundings {
    let symbols = units.iter().flat_map(|(_, unit)| unit.symbols.values());
    let exports = symbols.map(|symbol| symbol.name.clone()).collect();
    let loaded = Loaded { exports, ..Loaded::default() };
    Surroundings { loaded, ..Surroundings::default() }
}

/// Carries a run out under probes and hands the counters on; hits and updates.
fn add(variants: &[Variant], run: &Run, mut take: impl FnMut(&[Counters<'_>])) -> (u64, u64) {
    let counted = variants.iter().enumerate().map(|(module, it)| it.count(module, run));
    let counted: Vec<(Vec<u8>, CopyCost)> = counted.collect();
    let files = variants.iter().zip(&counted);
    let files = files.map(|(it, (area, _))| Counters { layout: it.id, area });
    take(&files.collect::<Vec<_>>());
    let costs = counted.iter().map(|(_, cost)| (cost.hits, cost.updates));
    costs.fold((0, 0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1))
}

/// A profile of one of the runs, to weigh edges with.
fn earlier_profile(modules: &Modules, limit: u64, run: &Run) -> Profile {
    let units: Vec<_> = modules.iter().map(|it| borrowed(it)).collect();
    let choice = Choice { wants: &|_| true, limit, weights: None, surroundings: None };
    let variants = whole_variants(&units, &choice);
    let mut decoder = Decoder::new("random", "", &decoded_modules(&units, &variants));
    add(&variants, run, |files| decoder.add_process(files, Origin::Started, None).unwrap());
    decoder.finish().unwrap()
}

const COPIES: [usize; 5] = [1, 2, 3, 4, 8];

#[test]
fn what_copies_count_together_is_what_one_counts() {
    let mut parts: BTreeMap<Strategy, usize> = BTreeMap::new();
    let mut exact = 0;
    for seed in 0..300 {
        for strategy in Strategy::ALL {
            for copies in COPIES {
                let outcome = check(seed, &Divided::By(strategy), copies);
                *parts.entry(strategy).or_default() += outcome.parts;
                exact += outcome.exact;
            }
        }
    }
    assert_eq!((parts[&Strategy::Sbl], parts[&Strategy::Pbl]), (0, 0));
    assert!(exact > 100, "{exact}");
    assert!(parts[&Strategy::P3] > 500, "{parts:?}");
    assert!(parts[&Strategy::Adaptive] > 100, "{parts:?}");
}

#[test]
fn any_parts_that_cover_the_paths_will_do() {
    let (mut parts, mut whole) = (0, 0);
    for seed in 0..600 {
        let outcome = check(seed, &Divided::AtRandom, COPIES[seed as usize % COPIES.len()]);
        parts += outcome.parts;
        whole += outcome.made_whole;
    }
    // Both happen.
    assert!(parts > 1000 && whole > 10, "{parts} parts, {whole} made whole");
}

/// Two copies that count the same, and ran differently.
#[test]
fn copies_that_disagree_are_not_merged() {
    let mut differed = 0;
    for seed in 0..240 {
        let mut rng = Rng::with_seed(seed);
        let modules = entered_by_anybody(random_program(&mut rng));
        let run = random_run(&modules, &mut rng);
        let mut other = run.clone();
        if other.pop().is_none() {
            continue;
        }
        let units: Vec<_> = modules.iter().map(|it| borrowed(it)).collect();
        let choice = Choice { wants: &|_| true, limit: 1 << 12, weights: None, surroundings: None };
        let whole = whole_variants(&units, &choice);
        let layouts: Vec<_> = whole.iter().map(|it| (it.id, &it.layout)).collect();
        let merged = |runs: [&[&Run]; 2]| {
            let decoder = Decoder::new("random", "", &decoded_modules(&units, &whole));
            let mut merging = CopyDecoder::new(decoder);
            for runs in runs {
                let copy = merging.add_copy(&layouts).unwrap();
                for run in runs {
                    add(&whole, run, |files| {
                        merging.add_process(copy, None, files, Origin::Started, None).unwrap()
                    });
                }
            }
            merging.finish()
        };
        assert!(merged([&[&run], &[&run]]).is_ok());
        let error = merged([&[&run], &[&run, &other]]).unwrap_err();
        // Random programs also run what nothing is known to call.
        if matches!(error, Error::Impossible { .. }) {
            continue;
        }
        assert!(matches!(error, Error::Diverged { .. }), "seed {seed}: {error}");
        // The last activation may have ended before any path did.
        if let Err(error) = merged([&[&run], &[&other]]) {
            let is_told =
                matches!(&error, Error::Diverged { what } if what.contains(" times, copy 2 "));
            assert!(is_told, "seed {seed}: {error}");
            differed += 1;
        }
    }
    assert!(differed > 25, "{differed}");
}

/// The proof that parts are all there is, against enumeration.
#[test]
fn what_is_not_counted_by_any_copy_is_found() {
    let mut answers = [0; 2];
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let modules = random_program(&mut rng);
        let units: Vec<_> = modules.iter().map(|it| borrowed(it)).collect();
        let choice = Choice { wants: &|_| true, limit: 256, weights: None, surroundings: None };
        let program = ProgramPaths::new(&surrounded(&units), &choice);
        for function in program.functions() {
            let copies = rng.usize(1..9);
            let mut sets = random_sets(function, copies, &mut rng);
            if rng.bool() {
                let edge = Edge::new(rng.usize(..sets[0].edge_count()));
                sets[rng.usize(..copies)].remove(edge);
            }
            let shares = Shares::of_edges(function, &sets, Placing::Moved);
            let interests: Vec<_> = shares.interests.iter().map(Option::as_ref).collect();
            let mut paths = (0..function.plan().count())
                .map(|path| function.plan().edges_of_path(path).unwrap());
            let expected =
                paths.all(|path| interests.iter().flatten().any(|it| it.contains(&path)));
            assert_eq!(covers_every_path(function.dag(), &interests), Some(expected));
            answers[usize::from(expected)] += 1;
        }
    }
    assert!(answers[0] > 100 && answers[1] > 100, "{answers:?}");
}
