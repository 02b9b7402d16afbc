//! A unit to streams. [`super::read`] is its mirror, function by function.

use std::collections::HashMap;

use backtrail_graph::Index;

use super::columns::{Column, Writer};
use super::tags::{self, op, symbol, value};
use crate::{
    Access, Block, BlockData, CallData, Callee, Function, Inst, InstData, Loc, Location, Op, Sym,
    Symbol, SymbolKind, Unit, Value,
};

/// Writes `unit`, which verifies, and tells how many bytes its strings have if
/// each is counted as often as it is mentioned.
pub(super) fn unit<'u>(unit: &'u Unit, writer: &mut Writer, mut strings: Strings<'u>) -> u64 {
    for length in [
        unit.files.len(),
        unit.comdats.len(),
        unit.symbols.len(),
        unit.locations.len(),
        unit.functions.len(),
    ] {
        writer.put(Column::Length, length as u64);
    }
    let names = [&unit.name, &unit.module_asm].into_iter();
    let names = names.chain(unit.files.values()).chain(unit.comdats.values());
    names.for_each(|name| strings.put(writer, Column::Name, name));
    for symbol in unit.symbols.values() {
        strings.put(writer, Column::Name, &symbol.name);
        self::symbol(writer, symbol);
        if let Some(section) = section(symbol) {
            strings.put(writer, Column::DataSection, section);
        }
    }
    let mut before = None;
    for (loc, location) in unit.locations.iter() {
        strings.put(writer, Column::LocationScope, &location.scope);
        self::location(writer, loc, location, before);
        before = Some(location);
    }
    let mut state = State { loc: 0 };
    for function in unit.functions.values() {
        state.function(writer, function);
    }
    strings.finish(writer)
}

/// The strings, each written once.
pub(super) struct Strings<'u> {
    numbers: HashMap<&'u str, u64>,
    list: Vec<&'u str>,
    /// Whether to write each string as often as it is mentioned.
    repeated: bool,
    mentioned: u64,
}

impl<'u> Strings<'u> {
    pub(super) fn new(repeated: bool) -> Self {
        Self { numbers: HashMap::new(), list: Vec::new(), repeated, mentioned: 0 }
    }

    fn put(&mut self, writer: &mut Writer, column: Column, text: &'u str) {
        self.mentioned += text.len() as u64;
        let next = self.list.len() as u64;
        let number = match self.repeated {
            true => next,
            false => *self.numbers.entry(text).or_insert(next),
        };
        if number == next {
            self.list.push(text);
        }
        // A new string is 0; others count back from the newest.
        writer.put(column, if number == next { 0 } else { next - number });
    }

    fn finish(self, writer: &mut Writer) -> u64 {
        for text in &self.list {
            writer.put(Column::StringLength, text.len() as u64);
            writer.put_bytes(Column::StringBytes, text.as_bytes());
        }
        self.mentioned
    }
}

fn symbol(writer: &mut Writer, symbol: &Symbol) {
    let kind = match &symbol.kind {
        SymbolKind::Function(_) => symbol::FUNCTION,
        SymbolKind::ExternalFunction(_) => symbol::EXTERNAL_FUNCTION,
        SymbolKind::Data { defined: true, constant: false, .. } => symbol::DATA,
        SymbolKind::Data { defined: false, constant: false, .. } => symbol::DECLARED_DATA,
        SymbolKind::Data { defined: true, constant: true, .. } => symbol::CONSTANT_DATA,
        SymbolKind::Data { defined: false, constant: true, .. } => symbol::DECLARED_CONSTANT_DATA,
        SymbolKind::Alias { .. } => symbol::ALIAS,
        SymbolKind::IFunc { .. } => symbol::IFUNC,
    };
    let number = |found: Option<usize>| found.expect("every one is listed") as u64;
    let linkage = number(tags::LINKAGES.iter().position(|&it| it == symbol.linkage));
    let visibility = number(tags::VISIBILITIES.iter().position(|&it| it == symbol.visibility));
    let has_comdat = u64::from(symbol.comdat.is_some());
    let has_section = u64::from(section(symbol).is_some());
    let flags =
        visibility << 3 | has_section << 2 | has_comdat << 1 | u64::from(symbol.thread_local);
    writer.put(Column::Symbol, kind | linkage << 3 | flags << 6);
    if let Some(comdat) = symbol.comdat {
        writer.put(Column::SymbolComdat, comdat.position() as u64);
    }
    match &symbol.kind {
        // Which function it is follows from the functions.
        SymbolKind::Function(_) => {}
        SymbolKind::ExternalFunction(traits) => {
            writer.put(Column::Traits, tags::trait_bits(*traits));
        }
        SymbolKind::Data { size, refers_to, .. } => {
            writer.put(Column::DataSize, *size);
            symbols(writer, Column::Reference, refers_to);
        }
        SymbolKind::Alias { target: other } | SymbolKind::IFunc { resolver: other } => {
            writer.put(Column::Reference, other.map_or(0, |sym| sym.position() as u64 + 1));
        }
    }
}

/// The section that data says it is in.
fn section(symbol: &Symbol) -> Option<&str> {
    match &symbol.kind {
        SymbolKind::Data { section, .. } => section.as_deref(),
        _ => None,
    }
}

/// A list of symbols, each by its distance from the one before.
fn symbols(writer: &mut Writer, column: Column, symbols: &[Sym]) {
    writer.put(column, symbols.len() as u64);
    let mut before = 0;
    for sym in symbols {
        writer.put_step(column, before, sym.position());
        before = sym.position();
    }
}

fn location(writer: &mut Writer, loc: Loc, location: &Location, before: Option<&Location>) {
    let (file, line) = before.map_or((0, 0), |it| (it.file.position(), it.line));
    writer.put_step(Column::LocationFile, file, location.file.position());
    writer.put_step(Column::LocationLine, line as usize, location.line as usize);
    writer.put(Column::LocationText, u64::from(location.column));
    writer.put(Column::LocationScopeLine, u64::from(location.scope_line));
    // None is 0, which is the distance of no other position.
    let outer = location.inlined_at.map_or(loc, |outer| outer);
    writer.put_step(Column::LocationOuter, outer.position(), loc.position());
}

/// What goes on from function to function.
struct State {
    /// The position written last.
    loc: usize,
}

impl State {
    fn function(&mut self, writer: &mut Writer, function: &Function) {
        writer.put(Column::Function, function.symbol.position() as u64);
        writer.put(Column::Function, u64::from(function.parameters));
        writer.put(Column::Traits, tags::trait_bits(function.traits));
        self.location(writer, function.location);
        writer.put(Column::Length, function.blocks.len() as u64);
        for (block, data) in function.blocks.iter() {
            let length = u64::from(data.end - data.first);
            writer.put(Column::Block, length << 1 | u64::from(data.landing_pad));
            let mut phi_before: Option<&[Block]> = None;
            for inst in data.insts() {
                let inst_data = &function.insts[inst];
                self.inst(writer, function, block, inst, inst_data, phi_before);
                if let Op::Phi { from } = &inst_data.op {
                    phi_before = Some(from);
                }
            }
            successors(writer, block, data, &function.insts[data.terminator()].op);
        }
    }

    /// 0 for none, otherwise how far from the last.
    fn location(&mut self, writer: &mut Writer, location: Option<Loc>) {
        let Some(loc) = location else {
            return writer.put(Column::Location, 0);
        };
        let step = loc.position() as i64 - self.loc as i64;
        let step = (step << 1 ^ step >> 63) as u64;
        writer.put(Column::Location, step + 1);
        self.loc = loc.position();
    }

    fn inst(
        &mut self,
        writer: &mut Writer,
        function: &Function,
        block: Block,
        inst: Inst,
        data: &InstData,
        phi_before: Option<&[Block]>,
    ) {
        op(writer, block, &data.op, phi_before);
        self.location(writer, data.location);
        if tags::operand_count(&data.op).is_none() {
            writer.put(Column::OperandCount, u64::from(data.operand_count));
        }
        for operand in function.operands_of(data) {
            self::operand(writer, inst, operand);
        }
    }
}

fn successors(writer: &mut Writer, block: Block, data: &BlockData, terminator: &Op) {
    if terminator.successor_count().is_none() {
        writer.put(Column::Length, data.successors.len() as u64);
    }
    for to in &data.successors {
        writer.put_step(Column::Successor, block.position(), to.position());
    }
}

fn op(writer: &mut Writer, block: Block, op: &Op, phi_before: Option<&[Block]>) {
    let plain = match op {
        Op::Fence => op::FENCE,
        Op::Address { offset: None } => op::ADDRESS,
        Op::Select => op::SELECT,
        Op::Compare => op::COMPARE,
        Op::LandingPad => op::LANDING_PAD,
        Op::Return => op::RETURN,
        Op::Jump => op::JUMP,
        Op::Branch => op::BRANCH,
        Op::IndirectJump => op::INDIRECT_JUMP,
        Op::Resume => op::RESUME,
        Op::Unreachable => op::UNREACHABLE,
        Op::Compute { opcode } => op::COMPUTE + u64::from(*opcode),
        Op::Alloca { size } => {
            writer.put(Column::Size, *size);
            op::ALLOCA
        }
        Op::Load(it) => access(writer, it, op::LOAD, op::FLAGGED_LOAD),
        Op::Store(it) => access(writer, it, op::STORE, op::FLAGGED_STORE),
        Op::AtomicUpdate(it) => access(writer, it, op::ATOMIC_UPDATE, op::FLAGGED_ATOMIC_UPDATE),
        Op::Address { offset: Some(offset) } => {
            writer.put_signed(Column::Distance, *offset);
            op::CONSTANT_ADDRESS
        }
        Op::Phi { from } if phi_before == Some(from) => op::SAME_PHI,
        Op::Phi { from } => {
            writer.put(Column::Length, from.len() as u64);
            for other in from {
                writer.put_step(Column::PhiFrom, other.position(), block.position());
            }
            op::PHI
        }
        Op::Switch { cases } => {
            writer.put(Column::Length, cases.len() as u64);
            let mut before = 0;
            for &case in cases {
                writer.put_signed(Column::Case, case.wrapping_sub(before));
                before = case;
            }
            op::SWITCH
        }
        Op::OtherTerminator { opcode } => {
            writer.put(Column::Size, u64::from(*opcode));
            op::OTHER_TERMINATOR
        }
        Op::Call(it) => call(writer, it, op::CALL),
        Op::Invoke(it) => call(writer, it, op::INVOKE),
        Op::AsmGoto(it) => call(writer, it, op::ASM_GOTO),
    };
    writer.put(Column::Op, plain);
}

fn access(writer: &mut Writer, access: &Access, plain: u64, flagged: u64) -> u64 {
    writer.put(Column::Size, access.size);
    let flags = u64::from(access.volatile) << 1 | u64::from(access.atomic);
    if flags == 0 { plain } else { flagged + flags }
}

fn call(writer: &mut Writer, call: &CallData, tag: u64) -> u64 {
    writer.put(Column::Traits, tags::trait_bits(call.traits) | tags::tail_bits(call.tail));
    if let Callee::Direct(sym) | Callee::Intrinsic(sym) = call.callee {
        writer.put(Column::Callee, sym.position() as u64);
    }
    tag + tags::callee_kind(call)
}

fn operand(writer: &mut Writer, inst: Inst, operand: &Value) {
    let tag = match operand {
        Value::Inst(other) => {
            let step = inst.position() as i64 - other.position() as i64;
            value::INST + (step << 1 ^ step >> 63) as u64
        }
        Value::Param(number) => {
            writer.put(Column::Constant, u64::from(*number));
            value::PARAM
        }
        Value::Int(number) => {
            writer.put_signed(Column::Constant, *number);
            value::INT
        }
        Value::Symbol(sym, 0) => {
            writer.put(Column::OperandSymbol, sym.position() as u64);
            value::SYMBOL
        }
        Value::Symbol(sym, offset) => {
            writer.put(Column::OperandSymbol, sym.position() as u64);
            writer.put_signed(Column::Constant, *offset);
            value::SYMBOL_AND_OFFSET
        }
        Value::Expr(list) => {
            symbols(writer, Column::OperandSymbol, list);
            value::EXPR
        }
        Value::BlockAddress(sym, block) => {
            writer.put(Column::OperandSymbol, sym.position() as u64);
            writer.put(Column::Constant, block.position() as u64);
            value::BLOCK_ADDRESS
        }
        Value::Opaque => value::OPAQUE,
    };
    writer.put(Column::Operand, tag);
}
