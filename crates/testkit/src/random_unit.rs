//! Random units that verify, with everything in them that a unit may have.
//!
//! They mean nothing as programs: definitions need not dominate uses, and names
//! are chosen to be awkward.

use backtrail_graph::{Index, IndexMap};
use backtrail_ir::{
    Access, Block, BlockData, CallData, Callee, Comdat, Func, Function, Inst, InstData, Linkage,
    Loc, Location, Op, Sym, Symbol, SymbolKind, Tail, Traits, Unit, Value, Visibility,
};
use fastrand::Rng;

use crate::random_graph::{self, SHAPES};

/// How large a random unit is, roughly.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Functions with a body.
    pub functions: usize,
    /// Blocks of a function.
    pub blocks: usize,
    /// Instructions of a block, besides phis and terminator.
    pub insts: usize,
}

impl Size {
    /// Small enough for thousands of cases.
    pub const SMALL: Self = Self { functions: 4, blocks: 8, insts: 4 };
}

/// A unit that verifies, which depends on the seed and the size alone.
pub fn unit(seed: u64, size: Size) -> Unit {
    let mut rng = Rng::with_seed(seed);
    let rng = &mut rng;
    let functions = rng.usize(0..=size.functions);
    let mut unit = Unit {
        name: string(rng),
        comdats: (0..rng.usize(0..3)).map(|_| string(rng)).collect(),
        files: (0..rng.usize(1..4)).map(|_| string(rng)).collect(),
        module_asm: if rng.bool() { string(rng) } else { String::new() },
        ..Unit::default()
    };
    unit.locations = locations(rng, &unit, size);
    unit.symbols = symbols(rng, &unit, functions);

    let mut owners = vec![Sym::new(0); functions];
    for (sym, symbol) in unit.symbols.iter() {
        if let SymbolKind::Function(func) = symbol.kind {
            owners[func.position()] = sym;
        }
    }
    for symbol in owners {
        let function = Body::new(rng, &unit, size).finish(symbol);
        unit.functions.push(function);
    }
    block_addresses(rng, &mut unit);
    unit
}

/// A unit of about the size of one of the largest there are, in one file: 2,000
/// functions, 250,000 instructions.
pub fn large_unit(seed: u64) -> Unit {
    let mut unit = unit(seed, Size { functions: 0, blocks: 0, insts: 0 });
    while unit.functions.len() < 2_000 {
        let size = Size { functions: 1, blocks: 24, insts: 7 };
        let mut rng = Rng::with_seed(seed ^ unit.functions.len() as u64);
        let func = unit.functions.next_index();
        let kind = SymbolKind::Function(func);
        let symbol = Symbol { kind, ..defined(format!("function_{func}"), Linkage::Internal) };
        let symbol = unit.symbols.push(symbol);
        let function = Body::new(&mut rng, &unit, size).finish(symbol);
        unit.functions.push(function);
    }
    unit
}

fn string(rng: &mut Rng) -> String {
    const PARTS: [&str; 14] = [
        "main",
        "a.c",
        "_ZN3foo3barEv",
        " ",
        "\"",
        "\\",
        "\n",
        "\u{0}",
        "\u{1}",
        "é",
        "日本",
        ";",
        "\u{7f}\u{85}\u{2028}",
        "\u{10ffff}",
    ];
    (0..rng.usize(0..4)).map(|_| PARTS[rng.usize(0..PARTS.len())]).collect()
}

fn int(rng: &mut Rng) -> i64 {
    match rng.u8(0..4) {
        0 => i64::MIN,
        1 => rng.i64(..),
        _ => rng.i64(-10..100),
    }
}

fn size_in_bytes(rng: &mut Rng) -> u64 {
    if rng.u8(0..8) == 0 { rng.u64(..) } else { 1 << rng.u8(0..5) }
}

fn traits(rng: &mut Rng) -> Traits {
    let mut rarely = || rng.u8(0..5) == 0;
    Traits {
        no_return: rarely(),
        no_unwind: rarely(),
        returns_twice: rarely(),
        naked: rarely(),
        opt_none: rarely(),
        variadic: rarely(),
    }
}

fn locations(rng: &mut Rng, unit: &Unit, size: Size) -> IndexMap<Loc, Location> {
    let count = rng.usize(0..=4 * size.functions);
    // A position is inlined only at one of a lower rank: no cycle, any order.
    let mut ranks: Vec<usize> = (0..count).collect();
    rng.shuffle(&mut ranks);
    let location = |at: usize| {
        let outer = rng.usize(0..count);
        Location {
            file: Index::new(rng.usize(0..unit.files.len())),
            line: if rng.u8(0..9) == 0 { rng.u32(..) } else { rng.u32(0..2000) },
            column: rng.u32(0..80),
            scope: string(rng),
            scope_line: rng.u32(0..3),
            inlined_at: (ranks[outer] < ranks[at]).then(|| Loc::new(outer)),
        }
    };
    (0..count).map(location).collect()
}

fn defined(name: String, linkage: Linkage) -> Symbol {
    Symbol {
        name,
        kind: SymbolKind::Alias { target: None },
        linkage,
        visibility: Visibility::Default,
        comdat: None,
        thread_local: false,
    }
}

fn symbols(rng: &mut Rng, unit: &Unit, functions: usize) -> IndexMap<Sym, Symbol> {
    let others = rng.usize(0..6);
    let mut kinds: Vec<SymbolKind> =
        (0..functions).map(|func| SymbolKind::Function(Func::new(func))).collect();
    let count = functions + others + 1;
    for _ in 0..others {
        let any = rng.bool().then(|| Sym::new(rng.usize(0..count)));
        kinds.push(match rng.u8(0..5) {
            0 => SymbolKind::ExternalFunction(traits(rng)),
            1 => SymbolKind::Alias { target: any },
            2 => SymbolKind::IFunc { resolver: any },
            _ => data(rng, count),
        });
    }
    // At least one that can be called: an intrinsic.
    kinds.push(SymbolKind::ExternalFunction(Traits::default()));
    rng.shuffle(&mut kinds);

    let mut symbols: IndexMap<Sym, Symbol> =
        kinds.into_iter().map(|kind| symbol(rng, unit, kind)).collect();
    for sym in symbols.indices() {
        let to_alias = |target: Sym| matches!(symbols[target].kind, SymbolKind::Alias { .. });
        match symbols[sym].kind {
            SymbolKind::Alias { target: Some(target) } if to_alias(target) && target >= sym => {
                symbols[sym].kind = SymbolKind::Alias { target: None };
            }
            _ => {}
        }
    }
    symbols
}

fn data(rng: &mut Rng, symbols: usize) -> SymbolKind {
    let defined = rng.bool();
    let mut refers_to: Vec<Sym> = (0..symbols).map(Sym::new).collect();
    rng.shuffle(&mut refers_to);
    refers_to.truncate(if defined { rng.usize(0..4) } else { 0 });
    let (constant, size) = (rng.bool(), size_in_bytes(rng));
    let section = (rng.u8(0..4) == 0).then(|| string(rng));
    SymbolKind::Data { defined, constant, size, refers_to, section }
}

fn symbol(rng: &mut Rng, unit: &Unit, kind: SymbolKind) -> Symbol {
    use Linkage::*;
    let linkages: &[Linkage] = match kind {
        SymbolKind::ExternalFunction(_) | SymbolKind::Data { defined: false, .. } => {
            &[External, ExternWeak]
        }
        SymbolKind::Data { .. } => {
            &[External, Weak, WeakOdr, Common, Internal, AvailableExternally, Appending]
        }
        _ => &[External, Weak, WeakOdr, Internal, AvailableExternally],
    };
    let linkage = linkages[rng.usize(0..linkages.len())];
    let mut symbol = defined(string(rng), linkage);
    if matches!(kind, SymbolKind::ExternalFunction(_)) && rng.bool() {
        symbol.name = format!("llvm.{}", symbol.name);
    }
    let is_declared = linkages.contains(&ExternWeak);
    if linkage != Internal {
        let visibilities = [Visibility::Default, Visibility::Hidden, Visibility::Protected];
        symbol.visibility = visibilities[rng.usize(0..3)];
    }
    if !is_declared && !unit.comdats.is_empty() && rng.bool() {
        symbol.comdat = Some(Comdat::new(rng.usize(0..unit.comdats.len())));
    }
    symbol.thread_local = rng.u8(0..4) == 0;
    symbol.kind = kind;
    symbol
}

/// A function in the making.
struct Body<'a> {
    rng: &'a mut Rng,
    unit: &'a Unit,
    size: Size,
    successors: Vec<Vec<Block>>,
    /// For each block the blocks that lead to it, once per edge.
    predecessors: Vec<Vec<Block>>,
    landing_pads: Vec<bool>,
}

impl<'a> Body<'a> {
    fn new(rng: &'a mut Rng, unit: &'a Unit, size: Size) -> Self {
        let shape = SHAPES[rng.usize(0..SHAPES.len())];
        let budget = rng.usize(1..=size.blocks);
        let (blocks, edges) = random_graph::edges(rng, shape, budget);
        let mut successors = vec![Vec::new(); blocks];
        let mut predecessors = vec![Vec::new(); blocks];
        for (from, to) in edges {
            successors[from].push(Block::new(to));
            predecessors[to].push(Block::new(from));
        }
        let mut body =
            Self { rng, unit, size, successors, predecessors, landing_pads: vec![false; blocks] };
        body.choose_landing_pads();
        body
    }

    /// Makes landing pads of some blocks that can only be reached by unwinding,
    /// if the blocks before them end with an invoke.
    fn choose_landing_pads(&mut self) {
        for block in 1..self.successors.len() {
            let by_unwinding = |from: &Block| {
                let successors = &self.successors[from.position()];
                successors.len() == 2
                    && successors[1] == Block::new(block)
                    && successors[0] != successors[1]
            };
            let fits = self.predecessors[block].iter().all(by_unwinding);
            self.landing_pads[block] = fits && self.rng.bool();
        }
    }

    fn finish(mut self, symbol: Sym) -> Function {
        let mut function = Function {
            symbol,
            parameters: self.rng.u32(0..4),
            traits: traits(self.rng),
            location: self.location(),
            blocks: IndexMap::new(),
            insts: IndexMap::new(),
            operands: Vec::new(),
        };
        for block in 0..self.successors.len() {
            let first = function.insts.len() as u32;
            for op in self.ops(block) {
                let location = self.location();
                function.insts.push(InstData { op, operands: 0, operand_count: 0, location });
            }
            function.blocks.push(BlockData {
                first,
                end: function.insts.len() as u32,
                successors: self.successors[block].clone(),
                landing_pad: self.landing_pads[block],
            });
        }
        // Operands come last: they may name any instruction.
        let has_result = |&inst: &Inst| function.insts[inst].op.may_have_result();
        let values: Vec<Inst> = function.insts.indices().filter(has_result).collect();
        for inst in function.insts.indices() {
            let count = self.operand_count(&function.insts[inst].op);
            function.insts[inst].operands = function.operands.len() as u32;
            function.insts[inst].operand_count = count;
            for _ in 0..count {
                let value = self.value(&values, function.parameters);
                function.operands.push(value);
            }
        }
        function
    }

    fn location(&mut self) -> Option<Loc> {
        let count = self.unit.locations.len();
        (count > 0 && self.rng.u8(0..4) > 0).then(|| Loc::new(self.rng.usize(0..count)))
    }

    fn ops(&mut self, block: usize) -> Vec<Op> {
        let mut ops = Vec::new();
        for _ in 0..self.rng.usize(0..3) {
            let mut from = self.predecessors[block].clone();
            self.rng.shuffle(&mut from);
            ops.push(Op::Phi { from });
        }
        if self.landing_pads[block] {
            let funclet = self.rng.u8(0..4) == 0;
            ops.push(if funclet { Op::Compute { opcode: 64 } } else { Op::LandingPad });
        }
        for _ in 0..self.rng.usize(0..=self.size.insts) {
            let op = self.op();
            ops.push(op);
        }
        let terminator = self.terminator(block);
        ops.push(terminator);
        ops
    }

    fn op(&mut self) -> Op {
        let access = Access {
            size: size_in_bytes(self.rng),
            volatile: self.rng.u8(0..8) == 0,
            atomic: self.rng.u8(0..8) == 0,
        };
        match self.rng.u8(0..12) {
            0 => Op::Alloca { size: access.size },
            1 | 2 => Op::Load(access),
            3 => Op::Store(access),
            4 => Op::AtomicUpdate(access),
            5 => Op::Fence,
            6 => Op::Address { offset: self.rng.bool().then(|| int(self.rng)) },
            7 => Op::Select,
            8 => Op::Compare,
            9 | 10 => Op::Call(self.call()),
            _ => Op::Compute { opcode: if self.rng.bool() { 8 } else { self.rng.u16(..) } },
        }
    }

    fn call(&mut self) -> CallData {
        let sym = Sym::new(self.rng.usize(0..self.unit.symbols.len()));
        let symbol = &self.unit.symbols[sym];
        let callee = match (self.rng.u8(0..6), &symbol.kind) {
            (0, _) => Callee::Asm,
            (1, _) | (_, SymbolKind::Data { .. }) => Callee::Indirect,
            (_, SymbolKind::ExternalFunction(_)) if symbol.name.starts_with("llvm.") => {
                Callee::Intrinsic(sym)
            }
            _ => Callee::Direct(sym),
        };
        CallData {
            callee,
            traits: traits(self.rng),
            tail: *self
                .rng
                .choice(&[Tail::No, Tail::No, Tail::May, Tail::Must])
                .unwrap_or(&Tail::No),
        }
    }

    fn terminator(&mut self, block: usize) -> Op {
        let successors = self.successors[block].len();
        let unwinds = |to: Option<&Block>| to.is_some_and(|to| self.landing_pads[to.position()]);
        if unwinds(self.successors[block].get(1)) {
            return match self.rng.u8(0..6) {
                0 => Op::OtherTerminator { opcode: 65 },
                _ => Op::Invoke(self.call()),
            };
        }
        let choice = self.rng.u8(0..6);
        match (successors, choice) {
            (_, 0) => Op::IndirectJump,
            (_, 1) if successors > 0 => Op::AsmGoto(self.call()),
            (_, 1) => Op::OtherTerminator { opcode: self.rng.u16(..) },
            (0, 2) => Op::Resume,
            (0, 3) => Op::Unreachable,
            (0, _) => Op::Return,
            (1, 2..5) => Op::Jump,
            (2, 2..5) => Op::Branch,
            _ => Op::Switch { cases: (1..successors).map(|_| int(self.rng)).collect() },
        }
    }

    fn operand_count(&mut self, op: &Op) -> u32 {
        match op {
            Op::Fence | Op::Jump | Op::Unreachable => 0,
            Op::Return => self.rng.u32(0..2),
            Op::Alloca { .. } | Op::Load(_) | Op::Branch | Op::Switch { .. } => 1,
            Op::IndirectJump | Op::Resume => 1,
            Op::Store(_) | Op::Compare => 2,
            Op::AtomicUpdate(_) => self.rng.u32(2..4),
            Op::Select => 3,
            Op::Phi { from } => from.len() as u32,
            Op::Address { .. } => self.rng.u32(1..4),
            _ => self.rng.u32(1..4),
        }
    }

    fn value(&mut self, values: &[Inst], parameters: u32) -> Value {
        let symbols = self.unit.symbols.len();
        let sym = Sym::new(self.rng.usize(0..symbols));
        match self.rng.u8(0..12) {
            0 if parameters > 0 => Value::Param(self.rng.u32(0..parameters)),
            1 => Value::Int(int(self.rng)),
            2 => Value::Symbol(sym, if self.rng.bool() { 0 } else { int(self.rng) }),
            3 => Value::Expr(
                (0..self.rng.usize(0..3)).map(|_| Sym::new(self.rng.usize(0..symbols))).collect(),
            ),
            4.. if !values.is_empty() => Value::Inst(values[self.rng.usize(0..values.len())]),
            _ => Value::Opaque,
        }
    }
}

/// Turns some operands into addresses of blocks, of any function.
fn block_addresses(rng: &mut Rng, unit: &mut Unit) {
    let targets: Vec<(Sym, usize)> =
        unit.functions.values().map(|function| (function.symbol, function.blocks.len())).collect();
    for func in unit.functions.indices() {
        for operand in &mut unit.functions[func].operands {
            if *operand == Value::Opaque && rng.bool() {
                let (sym, blocks) = targets[rng.usize(0..targets.len())];
                *operand = Value::BlockAddress(sym, Block::new(rng.usize(0..blocks)));
            }
        }
    }
}
