//! Random small programs in which everything can happen that ends, leaves or
//! enters functions in an unusual way.

use std::collections::BTreeSet;

use backtrail_crash::active::Code;
use backtrail_graph::{Index as _, IndexMap};
use backtrail_ir::{
    Block, BlockData, CallData, Callee, Func, Function, Inst, InstData, Linkage, Op, Sym, Symbol,
    SymbolKind, Tail, Traits, Unit, Value, Visibility, verify,
};
use backtrail_testkit::joined;
use fastrand::Rng;

/// The id of the only unit.
pub const UNIT: [u8; 16] = [9; 16];

/// How large programs are, and what they may do.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub functions: usize,
    pub blocks: usize,
    pub calls: usize,
    /// Whether there is unseen code.
    pub unseen: bool,
}

/// Unseen functions, and how often they are chosen. Each does what its name says,
/// and "anything" everything.
pub const UNSEEN: [&str; 8] =
    ["printf", "anything", "qsort", "exit", "longjmp", "setjmp", "pthread_create", "sigaction"];

/// A program.
pub struct RandomProgram {
    pub unit: Unit,
}

impl RandomProgram {
    pub fn new(rng: &mut Rng, size: Size) -> Self {
        let functions = rng.usize(1..=size.functions);
        let mut unit = Unit::default();
        for number in 0..functions {
            let name = if number == 0 { "main".to_owned() } else { format!("f{number}") };
            let linkage = if number == 0 { Linkage::External } else { Linkage::Internal };
            symbol(&mut unit, name, SymbolKind::Function(Func::new(number)), linkage);
        }
        // Leave some out, so that not everything can happen in every program.
        let may_leave_anywhere = rng.u8(0..4) == 0;
        let mut unseen = Vec::new();
        for name in UNSEEN.into_iter().filter(|_| size.unseen) {
            let is_rare = ["sigaction", "longjmp", "setjmp"].contains(&name);
            if rng.bool() || (is_rare && !may_leave_anywhere) {
                continue;
            }
            let traits = Traits {
                no_return: ["exit", "longjmp"].contains(&name),
                returns_twice: name == "setjmp",
                ..Traits::default()
            };
            let kind = SymbolKind::ExternalFunction(traits);
            unseen.push(symbol(&mut unit, name.to_owned(), kind, Linkage::External));
        }
        if functions > 1 && rng.bool() {
            let taken = (1..functions).filter(|_| rng.bool()).map(Sym::new).collect();
            let kind = SymbolKind::Data {
                defined: true,
                constant: true,
                size: 8,
                refers_to: taken,
                section: None,
            };
            symbol(&mut unit, "table".to_owned(), kind, Linkage::Internal);
        }
        for number in 0..functions {
            let function = function(rng, size, number, functions, &unseen);
            unit.functions.push(function);
        }
        verify::verify(&unit).unwrap();
        Self { unit }
    }

    pub fn code(&self) -> Code {
        Code::new(&joined([&self.unit]), &[UNIT], &BTreeSet::new())
    }
}

fn symbol(unit: &mut Unit, name: String, kind: SymbolKind, linkage: Linkage) -> Sym {
    unit.symbols.push(Symbol {
        name,
        kind,
        linkage,
        visibility: Visibility::Default,
        comdat: None,
        thread_local: false,
    })
}

fn function(
    rng: &mut Rng,
    size: Size,
    number: usize,
    functions: usize,
    unseen: &[Sym],
) -> Function {
    let blocks = rng.usize(1..=size.blocks);
    let mut function = Function {
        symbol: Sym::new(number),
        parameters: 0,
        traits: Traits::default(),
        location: None,
        blocks: IndexMap::new(),
        insts: IndexMap::new(),
        operands: Vec::new(),
    };
    // Blocks at the end are landing pads, each of one invoke.
    let pads = if blocks > 2 && rng.u8(0..4) == 0 { 1 } else { 0 };
    let plain = blocks - pads;
    let thrower = rng.usize(0..plain);
    for block in 0..blocks {
        let first = function.insts.len() as u32;
        let is_pad = block >= plain;
        if is_pad {
            push(&mut function, Op::LandingPad, &[]);
        }
        for _ in 0..rng.usize(0..=size.calls) {
            call(rng, &mut function, functions, unseen, false);
        }
        // Never back to the entry.
        let any = |rng: &mut Rng| Block::new(rng.usize(1.min(plain - 1)..plain));
        let mut successors = Vec::new();
        if pads == 1 && block == thrower && plain > 1 {
            call(rng, &mut function, functions, unseen, true);
            successors = vec![any(rng), Block::new(plain)];
        } else if plain == 1 || rng.u8(0..4) == 0 {
            let op = match rng.u8(0..8) {
                0 => Op::Unreachable,
                1 if is_pad => Op::Resume,
                _ => Op::Return,
            };
            let values = if op == Op::Resume { vec![Value::Opaque] } else { Vec::new() };
            push(&mut function, op, &values);
        } else if rng.bool() {
            successors.push(any(rng));
            push(&mut function, Op::Jump, &[]);
        } else {
            successors = vec![any(rng), any(rng)];
            push(&mut function, Op::Branch, &[Value::Opaque]);
        }
        if plain == 1 {
            successors.clear();
        }
        let end = function.insts.len() as u32;
        function.blocks.push(BlockData { first, end, successors, landing_pad: is_pad });
    }
    if pads == 1 && plain == 1 {
        // Nothing throws to it.
        function.blocks[Block::new(1)].landing_pad = false;
    }
    function
}

fn push(function: &mut Function, op: Op, values: &[Value]) -> Inst {
    let operands = function.operands.len() as u32;
    function.operands.extend(values.iter().cloned());
    let operand_count = values.len() as u32;
    function.insts.push(InstData { op, operands, operand_count, location: None })
}

fn call(rng: &mut Rng, function: &mut Function, functions: usize, unseen: &[Sym], invoke: bool) {
    let other = Sym::new(rng.usize(0..functions));
    let mut values = Vec::new();
    let callee = match rng.u8(0..8) {
        0 => {
            values.push(Value::Param(0));
            Callee::Indirect
        }
        1..=4 if !unseen.is_empty() => {
            let symbol = unseen[rng.usize(0..unseen.len())];
            // What `qsort` and `pthread_create` call.
            values = vec![Value::Int(0); 4];
            for value in &mut values[2..] {
                *value = if rng.bool() { Value::Symbol(other, 0) } else { Value::Opaque };
            }
            Callee::Direct(symbol)
        }
        _ => Callee::Direct(other),
    };
    if callee == Callee::Indirect {
        values = vec![Value::Opaque];
    }
    let tail = if rng.u8(0..3) == 0 && !invoke { Tail::May } else { Tail::No };
    let call = CallData { callee, traits: Traits::default(), tail };
    let op = if invoke { Op::Invoke(call) } else { Op::Call(call) };
    push(function, op, &values);
}
