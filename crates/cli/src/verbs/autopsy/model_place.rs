//! Functions and lines by the program model, for executables that have no debug
//! information or no symbols.
//!
//! The table of frames tells the block that a frame is in. Which of its
//! instructions that is follows where only one fits: of a frame that calls, the
//! call of the function above it; of the innermost, what can fail.

use backtrail_ir::{Callee, Func, Inst, Loc, Op, Unit};
use backtrail_machine::symbolise::Place;

/// Where a frame is.
pub struct ModelPlace {
    /// Inlined functions first.
    pub places: Vec<Place>,
    /// The lines that it may be, if it is not clear which.
    pub unclear: Vec<u32>,
}

/// The call that a frame of `function` in `block` is at, which calls `called`; if
/// there are several, the last of them.
pub fn call_under_way(
    unit: &Unit,
    function: Func,
    block: backtrail_ir::Block,
    called: Option<&str>,
) -> Option<Inst> {
    let body = &unit.functions[function];
    let insts: Vec<Inst> = body.blocks[block].insts().collect();
    let last = |fits: &dyn Fn(&Callee) -> bool| {
        let fits = |inst: &Inst| body.insts[*inst].op.call().is_some_and(|it| fits(&it.callee));
        insts.iter().copied().rfind(fits)
    };
    last(&|callee| calls(unit, callee, called)).or_else(|| last(&is_code))
}

/// Whether a call is of the function of this name.
fn calls(unit: &Unit, callee: &Callee, name: Option<&str>) -> bool {
    matches!(callee, Callee::Direct(symbol) if Some(&*unit.symbols[*symbol].name) == name)
}

/// Whether a call is one in the code.
fn is_code(callee: &Callee) -> bool {
    !matches!(callee, Callee::Intrinsic(_) | Callee::Asm)
}

/// Where a frame of `function` is that is in `block`: at a call of `called`, if it
/// calls.
pub fn find(
    unit: &Unit,
    function: Func,
    block: backtrail_ir::Block,
    is_call: bool,
    called: Option<&str>,
) -> ModelPlace {
    let body = &unit.functions[function];
    let last = if is_call { call_under_way(unit, function, block, called) } else { None };
    let insts = body.blocks[block].insts();
    let insts: Vec<Inst> = insts.take_while(|&inst| last.is_none_or(|last| inst <= last)).collect();
    let located = |wanted: &dyn Fn(&Op) -> bool| -> Vec<Loc> {
        let fits = insts.iter().filter(|&&inst| wanted(&body.insts[inst].op));
        let mut found: Vec<Loc> = fits.filter_map(|&inst| body.insts[inst].location).collect();
        found.retain(|&location| unit.locations[location].line > 0);
        found.dedup();
        found
    };
    let is_real = |op: &Op| op.call().is_some_and(|call| is_code(&call.callee));
    let calls_it = |op: &Op| op.call().is_some_and(|it| calls(unit, &it.callee, called));
    let can_fail = |op: &Op| {
        matches!(op, Op::Load(_) | Op::Store(_) | Op::AtomicUpdate(_)) || op.call().is_some()
    };
    let choices: [&dyn Fn(&Op) -> bool; 3] = match is_call {
        true => [&calls_it, &is_real, &|_| true],
        false => [&can_fail, &|_| true, &|_| true],
    };
    let found = choices.iter().map(|choice| located(choice)).find(|found| !found.is_empty());
    let found = found.unwrap_or_default();
    let name = unit.symbols[body.symbol].name.clone();
    let Some(&last) = found.last() else {
        let place = Place { function: Some(name), ..Place::default() };
        return ModelPlace { places: vec![place], unclear: Vec::new() };
    };
    let mut lines: Vec<u32> = found.iter().map(|&it| outermost(unit, it).1).collect();
    lines.sort_unstable();
    lines.dedup();
    let all_same = found.iter().all(|&it| same(unit, it, last));
    let places = match all_same {
        true => chain(unit, last, &name),
        // Only the function itself is certain.
        false => {
            let (file, line) = outermost(unit, last);
            let (file, line) = (Some(file), Some(line));
            vec![Place { function: Some(name), file, line, ..Place::default() }]
        }
    };
    ModelPlace { places, unclear: if lines.len() > 1 { lines } else { Vec::new() } }
}

/// Whether two positions are the same line of the same inlined functions.
fn same(unit: &Unit, a: Loc, b: Loc) -> bool {
    let (mut a, mut b) = (Some(a), Some(b));
    while let (Some(x), Some(y)) = (a, b) {
        if x == y {
            return true;
        }
        let (x, y) = (&unit.locations[x], &unit.locations[y]);
        if (x.file, x.line, &x.scope) != (y.file, y.line, &y.scope) {
            return false;
        }
        (a, b) = (x.inlined_at, y.inlined_at);
    }
    a == b
}

/// The file and line in the function itself.
fn outermost(unit: &Unit, location: Loc) -> (String, u32) {
    let mut location = &unit.locations[location];
    while let Some(outer) = location.inlined_at {
        location = &unit.locations[outer];
    }
    (unit.files[location.file].clone(), location.line)
}

/// A position and those it was inlined at.
fn chain(unit: &Unit, location: Loc, name: &str) -> Vec<Place> {
    let mut places = Vec::new();
    let mut next = Some(location);
    while let Some(at) = next {
        let data = &unit.locations[at];
        next = data.inlined_at;
        let own = next.is_none();
        places.push(Place {
            function: Some(if own { name.to_owned() } else { data.scope.clone() }),
            file: Some(unit.files[data.file].clone()),
            folder: None,
            line: (data.line > 0).then_some(data.line),
            inlined: !own,
        });
    }
    places
}
