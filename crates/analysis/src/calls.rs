//! What is known of calls that end an activation, or do not come back once; and of
//! functions within which nothing can be observed.

use std::collections::BTreeSet;

use backtrail_graph::Index;
use backtrail_ir::{
    Block, CallData, Callee, Func, Function, Inst, InstData, Op, Sym, Symbol, SymbolKind, Tail,
    Traits, Unit, Value,
};

/// The functions of a unit that choose what an ifunc is, and what they call: the loader
/// calls them before threads have storage, and so before anything can be observed.
pub fn resolving(unit: &Unit) -> BTreeSet<Func> {
    let function_of = |symbol: Sym| match unit.symbols[symbol].kind {
        SymbolKind::Function(function) => Some(function),
        _ => None,
    };
    let resolver = |symbol: &Symbol| match symbol.kind {
        SymbolKind::IFunc { resolver } => resolver,
        _ => None,
    };
    let resolvers = unit.symbols.values().filter_map(resolver);
    let mut pending: Vec<Func> = resolvers.filter_map(function_of).collect();
    let mut found = BTreeSet::new();
    while let Some(function) = pending.pop() {
        if found.insert(function) {
            pending.extend(direct_callees(unit, function).filter_map(function_of));
        }
    }
    found
}

/// The symbols that a function calls directly.
pub fn direct_callees(unit: &Unit, function: Func) -> impl Iterator<Item = Sym> + '_ {
    let calls = unit.functions[function].insts.values().filter_map(|inst| inst.op.call());
    calls.filter_map(|call| match call.callee {
        Callee::Direct(symbol) => Some(symbol),
        _ => None,
    })
}

/// Whether an instruction counts as a call: of a function, by name or address.
pub fn is_call(op: &Op) -> bool {
    let call = op.call();
    call.is_some_and(|call| !matches!(call.callee, Callee::Intrinsic(_) | Callee::Asm))
}

/// What is known of a call: of itself and of its callee.
pub fn traits_of(unit: &Unit, call: &CallData) -> Traits {
    let callee = match call.callee {
        Callee::Direct(symbol) | Callee::Intrinsic(symbol) => symbol_traits(unit, symbol),
        Callee::Indirect | Callee::Asm => Traits::default(),
    };
    Traits {
        no_return: call.traits.no_return || callee.no_return,
        no_unwind: call.traits.no_unwind || callee.no_unwind,
        returns_twice: call.traits.returns_twice || callee.returns_twice,
        ..call.traits
    }
}

fn symbol_traits(unit: &Unit, symbol: Sym) -> Traits {
    match &unit.symbols[symbol].kind {
        SymbolKind::Function(function) => unit.functions[*function].traits,
        SymbolKind::ExternalFunction(traits) => *traits,
        _ => Traits::default(),
    }
}

/// Whether a function calls something that can return twice.
pub fn has_call_that_returns_twice(unit: &Unit, function: &Function) -> bool {
    function
        .insts
        .values()
        .any(|inst| inst.op.call().is_some_and(|call| traits_of(unit, call).returns_twice))
}

/// Whether a call may reuse the frame, and nothing but a return follows in its
/// block: of nothing, or of what the call gives. With another value there is
/// something left to do, and the activation is still there.
pub fn is_in_tail_position(function: &Function, call: Inst) -> bool {
    match function.insts[call].op.call().map(|call| call.tail) {
        // What may stand between is a conversion of the result.
        Some(Tail::Must) => true,
        Some(Tail::May) => {
            let next = Inst::new(call.position() + 1);
            let is_return = |data: &InstData| matches!(data.op, Op::Return);
            function.insts.get(next).is_some_and(is_return)
                && function
                    .operands_of(&function.insts[next])
                    .iter()
                    .all(|it| *it == Value::Inst(call))
        }
        Some(Tail::No) | None => false,
    }
}

/// The call at the end of `block` that may reuse the frame, if nothing but a
/// jump to a shared return follows, which gives back what the call gives or
/// nothing: code generation gives each such call a return of its own.
pub fn call_before_shared_return(function: &Function, block: Block) -> Option<Inst> {
    let data = &function.blocks[block];
    let (jump, call) = (data.terminator(), data.insts().nth_back(1)?);
    let [target] = data.successors[..] else { return None };
    let last = function.blocks[target].terminator();
    // What the phis of the target are, coming from here.
    let gives_result = |value: &Value| match *value {
        Value::Inst(inst) => match &function.insts[inst].op {
            Op::Phi { from } => {
                let values = from.iter().zip(function.operands_of(&function.insts[inst]));
                let mut here = values.filter(|(from, _)| **from == block);
                here.all(|(_, value)| *value == Value::Inst(call))
            }
            _ => false,
        },
        _ => false,
    };
    let returns_only = |inst: Inst| matches!(function.insts[inst].op, Op::Phi { .. } | Op::Return);
    let is_tail =
        |call: &CallData| call.tail == Tail::May && !matches!(call.callee, Callee::Intrinsic(_));
    (matches!(function.insts[jump].op, Op::Jump)
        && matches!(&function.insts[call].op, Op::Call(call) if is_tail(call))
        && function.blocks[target].insts().all(returns_only)
        && function.operands_of(&function.insts[last]).iter().all(gives_result))
    .then_some(call)
}
