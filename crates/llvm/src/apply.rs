//! Applying a plan to a module.
//!
//! Everything the plan says is checked against the module first, before
//! anything changes: a module that is refused is as it was. Then edges get room
//! where they have none (`places`), every place is found, and the probes are
//! inserted (`log`, `counts`, `cover`, `record`). Last, if that is asked for, all code is
//! described by blocks (`block_lines`).
//!
//! What is inserted has the source position of the instruction it precedes. A
//! probed function is no longer what some attributes claim: `memory(…)` and
//! `speculatable` are taken from it and from calls that may reach it, so that
//! code generation does not drop or move such a call. Calls of functions defined
//! elsewhere keep them: code generation expands some library functions by them,
//! and moves no calls.

mod block_lines;
mod counts;
mod cover;
mod guard;
mod log;
mod places;
mod record;

use std::collections::BTreeMap;

use backtrail_abi::record::WORD_BYTES;
use backtrail_ir::{Func, Index, Inst};
use backtrail_llvm_ffi::{Call, Function, Instruction, Module, ValueKind};
use backtrail_plan::{Action, FrameRecord, FunctionPlan, Place, RecordAction, UnitPlan};

use crate::Error;
use crate::identity::Ids;
use crate::lower::linkage_name;

/// How code will be generated from a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// With optimisation, but for functions that are marked `optnone`.
    AsMarked,
    /// Without.
    Unoptimised,
}

/// Applies `plan` to `module`. The result should be verified.
pub fn apply(
    module: &mut Module<'_>,
    plan: &UnitPlan,
    generation: Generation,
) -> Result<(), Error> {
    let planned = find_functions(module, plan)?;
    let has_probes = plan.functions.iter().any(|function| !function.probes.is_empty());
    if !has_probes && plan.block_lines.is_none() && !plan.distinct_calls {
        return Ok(());
    }
    if plan.distinct_calls {
        let functions: Vec<Function<'_>> = module.functions().collect();
        planned.iter().for_each(|&position| keep_calls_apart(functions[position]));
    }
    let records: BTreeMap<Func, FrameRecord> = plan.records.iter().copied().collect();
    check_records(plan, &records)?;
    let with_record =
        |(_, wanted): &(&usize, &FunctionPlan)| records.contains_key(&wanted.function);
    let recording = planned.iter().zip(&plan.functions).filter(with_record);
    guard::decide(module, &recording.map(|(position, _)| *position).collect::<Vec<_>>())?;
    let mut rooms = Vec::new();
    for (&position, wanted) in planned.iter().zip(&plan.functions) {
        rooms.push(places::make_room(module, position, wanted)?);
    }
    insert(module, plan, &planned, &rooms, generation)?;
    // A sum of its own function becomes a register. What is not optimised is
    // left alone: there the sum stays in memory, as all variables do.
    if plan.functions.iter().flat_map(|it| &it.probes).any(|it| uses_sum(it.action)) {
        module.run_passes("function(mem2reg)")?;
    }
    Ok(())
}

/// Inserts the probes of `plan` into the functions at the positions `planned`.
fn insert(
    module: &Module<'_>,
    plan: &UnitPlan,
    planned: &[usize],
    rooms: &[places::Rooms],
    generation: Generation,
) -> Result<(), Error> {
    let functions: Vec<Function<'_>> = module.functions().collect();
    let optimised = optimised(module, generation);
    let records: BTreeMap<Func, FrameRecord> = plan.records.iter().copied().collect();
    let splits: BTreeMap<Func, &[Inst]> =
        plan.block_lines.iter().flatten().map(|(function, it)| (*function, &it[..])).collect();
    let mut located = Vec::new();
    let mut before = Vec::new();
    for ((&position, wanted), room) in planned.iter().zip(&plan.functions).zip(rooms) {
        let function = functions[position];
        located.push((function, places::locate(function, wanted, room)?));
        before.extend(plan.block_lines.as_ref().map(|_| {
            let splits = splits.get(&wanted.function).copied().unwrap_or_default();
            block_lines::Before::new(function, wanted.blocks as usize, splits)
        }));
    }
    let log = log::LogCalls::new(module, plan)?;
    let counts = counts::Counters::new(module, plan)?;
    let cover = cover::Covered::new(module, plan)?;
    let keeping = record::Records::new(module);
    let depths = log::Depths::new(module);
    let activations = log::Activations::new(module);
    let mut added = Vec::new();
    for ((function, probes), wanted) in located.iter().zip(&plan.functions) {
        let mut counting = counts::Counting::new(optimised(*function));
        let content = records.get(&wanted.function);
        let record = content.map(|&content| keeping.add(*function, content));
        let is_deep = |probe: &Located<'_>| {
            matches!(probe.action, Action::Deepen | Action::Surface | Action::Land { .. })
        };
        let depth = probes.iter().any(is_deep).then(|| depths.place(*function));
        let tells_activations = |probe: &Located<'_>| matches!(probe.action, Action::Begin { .. });
        let frame = probes.iter().any(tells_activations).then(|| activations.place(*function));
        for probe in probes {
            let frame = || frame.ok_or_else(|| Error::NoRecord(wanted.name.clone()));
            match (probe.action, record) {
                (Action::Begin { number }, _) => {
                    log.begin(*function, probe.before, number, frame()?)?;
                }
                (Action::Resume, _) => activations.resume(*function, probe.before, frame()?)?,
                (Action::End, _) => activations.end(*function, probe.before, frame()?)?,
                (Action::Say { word }, _) => activations.say(*function, probe.before, word)?,
                (Action::Log { number }, _) => log.insert(*function, probe.before, number),
                (Action::LogSum(add), _) => {
                    let event = counts.sum(*function, &mut counting, probe.before, add);
                    log.insert_event(*function, probe.before, event);
                }
                (Action::LogCountedSum { add, first }, _) => {
                    let sum = counts.sum(*function, &mut counting, probe.before, add);
                    log.insert_counted(*function, probe.before, sum, first);
                }
                (Action::Cover { byte }, _) => cover.insert(*function, probe.before, byte),
                (Action::Deepen, _) => {
                    let place = depth.expect("the probes were searched for it");
                    depths.deepen(*function, probe.before, place);
                }
                (Action::Surface, _) => depths.surface(*function, probe.before),
                (Action::Land { number, depths }, _) => {
                    let place = depth.expect("the probes were searched for it");
                    log.land(*function, probe.before, (number, depths), place);
                }
                (Action::Interrupt { number }, _) => {
                    log.interrupt(*function, probe.before, number)?;
                }
                (Action::Record(action), Some(record)) => {
                    keeping.insert(*function, record, probe.before, action);
                }
                (action, _) => counts.insert(*function, &mut counting, probe.before, action),
            }
        }
        added.push(record);
    }
    let probed = located.iter().filter(|(_, probes)| !probes.is_empty());
    forget_purity(module, &probed.map(|(it, _)| it.id()).collect());
    if plan.block_lines.is_some() {
        let mut probed = BTreeMap::new();
        for (index, wanted) in plan.functions.iter().enumerate() {
            let (before, rooms) = (&before[index], &rooms[index]);
            let (probes, record) = (&located[index].1[..], added[index]);
            let it = block_lines::Probed { plan: wanted, before, rooms, probes, record };
            probed.insert(wanted.function, it);
        }
        block_lines::describe(module, plan, &probed);
    }
    Ok(())
}

/// Marks calls so that code generation does not make one of several.
fn keep_calls_apart(function: Function<'_>) {
    let Some(apart) = function.module().context().attribute("nomerge") else { return };
    let instructions = function.blocks().flat_map(|block| block.instructions());
    for call in instructions.filter_map(|it| it.as_call()) {
        let callee = call.callee().as_global().and_then(Function::from_global);
        if !callee.is_some_and(|it| it.is_intrinsic()) {
            call.add(apart);
        }
    }
}

/// Checks that there is a record wherever one is written to.
fn check_records(plan: &UnitPlan, records: &BTreeMap<Func, FrameRecord>) -> Result<(), Error> {
    for function in &plan.functions {
        let record = records.get(&function.function).copied().unwrap_or_default();
        let is_sound = |action: Action| match action {
            Action::Record(RecordAction::End { bits, .. }) => {
                record.words > 0 && (1..64).contains(&bits)
            }
            Action::Record(RecordAction::Begin(_) | RecordAction::Add(_)) => record.words > 0,
            Action::Record(RecordAction::ClearMarks) => record.mark_words > 0,
            Action::Record(RecordAction::Mark { byte, .. }) => {
                u64::from(byte) < u64::from(record.mark_words) * WORD_BYTES
            }
            Action::Cover { byte } => byte < plan.covered,
            _ => true,
        };
        if !function.probes.iter().all(|probe| is_sound(probe.action)) {
            return Err(Error::NoRecord(function.name.clone()));
        }
    }
    Ok(())
}

/// Which functions code is generated for with optimisation.
fn optimised<'m>(
    module: &'m Module<'m>,
    generation: Generation,
) -> impl Fn(Function<'m>) -> bool + use<'m> {
    let [none, inline] = ["optnone", "alwaysinline"].map(|name| module.context().attribute(name));
    let is = move |function: Function<'m>, what| {
        Option::is_some_and(what, |attribute| function.has(attribute))
    };
    // Of what clang compiles with -O0, functions that are always inlined are not
    // marked, since both marks exclude each other.
    let bodies = module.functions().filter(|it| !it.is_declaration());
    let all = bodies.into_iter().all(|it| is(it, none) || is(it, inline));
    let unoptimised = all || generation == Generation::Unoptimised;
    move |function| !unoptimised && !is(function, none)
}

fn uses_sum(action: Action) -> bool {
    matches!(
        action,
        Action::SetSum(_)
            | Action::AddSum(_)
            | Action::CountSum(_)
            | Action::LogSum(_)
            | Action::LogCountedSum { .. }
    )
}

/// A probe and its place in the module.
struct Located<'m> {
    at: Place,
    before: Instruction<'m>,
    action: Action,
}

/// Finds the planned functions, by position among all of the module, and checks
/// that they are those the plan was made for.
fn find_functions(module: &Module<'_>, plan: &UnitPlan) -> Result<Vec<usize>, Error> {
    let bodies: Vec<_> =
        module.functions().enumerate().filter(|(_, it)| !it.is_declaration()).collect();
    let total = bodies.iter().map(|(_, it)| it.block_count()).sum();
    if plan.blocks != total {
        return Err(Error::OtherTotal { expected: plan.blocks, found: total });
    }
    let naked = module.context().attribute("naked");
    let mut found = Vec::new();
    for wanted in &plan.functions {
        let (position, function) = *bodies
            .get(wanted.function.position())
            .ok_or(Error::NoSuchFunction { function: wanted.function, count: bodies.len() })?;
        check(function, wanted)?;
        if !wanted.probes.is_empty() && naked.is_some_and(|it| function.has(it)) {
            return Err(Error::Naked(wanted.name.clone()));
        }
        places::check(function, wanted)?;
        found.push(position);
    }
    Ok(found)
}

/// Checks that a function is the one the plan was made for.
fn check(function: Function<'_>, wanted: &FunctionPlan) -> Result<(), Error> {
    let found = linkage_name(*function);
    if found != wanted.name {
        let (function, expected): (Func, _) = (wanted.function, wanted.name.clone());
        return Err(Error::OtherName { function, expected, found });
    }
    let count = function.block_count();
    if count != wanted.blocks {
        return Err(Error::OtherBlocks { name: found, expected: wanted.blocks, found: count });
    }
    Ok(())
}

/// A unit that defines a name of ours would use its own.
pub(crate) fn check_name(module: &Module<'_>, name: &str) -> Result<(), Error> {
    let is_taken = match module.function(name) {
        Some(function) => !function.is_declaration(),
        None => {
            let mut others = module.variables().chain(module.aliases()).chain(module.ifuncs());
            others.any(|it| linkage_name(it) == name)
        }
    };
    if is_taken { Err(Error::NameTaken(name.to_owned())) } else { Ok(()) }
}

/// Gives an inserted call what every call of ours has: it cannot unwind, so it
/// needs no landing pad, and sanitizers leave it alone.
pub(crate) fn mark(function: Function<'_>, call: Call<'_>) {
    let context = call.module().context();
    context.attribute("nounwind").into_iter().for_each(|it| call.add(it));
    // Every call in a `strictfp` function has to be `strictfp`.
    let strict = context.attribute("strictfp").filter(|it| function.has(*it));
    strict.into_iter().for_each(|it| call.add(it));
    call.mark("nosanitize");
}

/// Takes the attributes that probes make untrue from probed functions and from
/// calls that may reach them.
pub(crate) fn forget_purity(module: &Module<'_>, probed: &Ids) {
    let untrue: Vec<_> = ["memory", "speculatable"]
        .into_iter()
        .filter_map(|name| module.context().attribute(name))
        .collect();
    for function in module.functions() {
        for attribute in &untrue {
            if probed.contains(&function.id()) && function.has(*attribute) {
                function.remove(*attribute);
            }
        }
        let instructions = function.blocks().flat_map(|block| block.instructions());
        for call in instructions.filter_map(|it| it.as_call()) {
            for attribute in &untrue {
                if call.has(*attribute) && may_reach(call.callee(), probed) {
                    call.remove(*attribute);
                }
            }
        }
    }
}

/// Whether a call may reach a probed function of this unit.
fn may_reach(callee: backtrail_llvm_ffi::Value<'_>, probed: &Ids) -> bool {
    match callee.kind() {
        ValueKind::Function => probed.contains(&callee.id()),
        ValueKind::Asm => false,
        _ => true,
    }
}
