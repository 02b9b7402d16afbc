//! Streams to a unit. [`super::write`] is its mirror, function by function.
//!
//! What is read may be out of range: the verifier sees to it afterwards. Here
//! only memory is at stake. Nothing is allocated for a length alone: lists grow
//! as their items are read, and every item takes a byte of some stream.

use backtrail_graph::{Index, IndexMap};

use super::columns::{Column, Reader};
use super::tags::{self, callee, op, symbol, value};
use crate::{
    Access, Block, BlockData, CallData, Callee, Comdat, Error, File, Func, Function, Inst,
    InstData, Loc, Location, Op, Sym, Symbol, SymbolKind, Unit, Value,
};

/// Reads a unit whose strings have at most `limit` bytes altogether.
pub(super) fn unit(reader: &mut Reader<'_>, limit: u64) -> Result<Unit, Error> {
    let mut length = || reader.take(Column::Length);
    let (files, comdats, symbols) = (length()?, length()?, length()?);
    let (locations, functions) = (length()?, length()?);
    let mut strings = Strings { list: Vec::new(), left: limit };
    let mut unit = Unit {
        name: strings.take(reader, Column::Name)?,
        module_asm: strings.take(reader, Column::Name)?,
        ..Unit::default()
    };
    for _ in 0..files {
        unit.files.push(strings.take(reader, Column::Name)?);
    }
    for _ in 0..comdats {
        unit.comdats.push(strings.take(reader, Column::Name)?);
    }
    for _ in 0..symbols {
        let name = strings.take(reader, Column::Name)?;
        let (mut symbol, has_section) = self::symbol(reader, name)?;
        if has_section {
            let SymbolKind::Data { section, .. } = &mut symbol.kind else { return Err(UNKNOWN) };
            *section = Some(strings.take(reader, Column::DataSection)?);
        }
        unit.symbols.push(symbol);
    }
    let mut before = (0, 0);
    for _ in 0..locations {
        let scope = strings.take(reader, Column::LocationScope)?;
        let loc = unit.locations.next_index();
        let location = self::location(reader, loc, scope, before)?;
        before = (location.file.position(), location.line as usize);
        unit.locations.push(location);
    }
    let mut state = State { loc: 0, from: Vec::new() };
    for _ in 0..functions {
        let function = state.function(reader)?;
        let func = unit.functions.next_index();
        // The verifier refuses a symbol that two functions claim.
        if unit.symbols.get(function.symbol).is_some_and(|it| is_function(&it.kind)) {
            unit.symbols[function.symbol].kind = SymbolKind::Function(func);
        }
        unit.functions.push(function);
    }
    Ok(unit)
}

fn is_function(kind: &SymbolKind) -> bool {
    matches!(kind, SymbolKind::Function(_))
}

const UNKNOWN: Error = Error::Corrupt { what: "a kind is unknown" };

/// The strings read so far.
struct Strings<'a> {
    list: Vec<&'a str>,
    /// How many bytes may still be made of them.
    left: u64,
}

impl<'a> Strings<'a> {
    fn take(&mut self, reader: &mut Reader<'a>, column: Column) -> Result<String, Error> {
        let back = reader.take(column)?;
        let text = if back == 0 {
            let length = reader.take(Column::StringLength)?;
            let bytes = reader.take_bytes(Column::StringBytes, length)?;
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Error::Corrupt { what: "a string is not UTF-8" })?;
            self.list.push(text);
            text
        } else {
            let number = (self.list.len() as u64).checked_sub(back);
            let text = number.and_then(|number| self.list.get(number as usize));
            text.ok_or(Error::Corrupt { what: "a string is out of range" })?
        };
        let left = self.left.checked_sub(text.len() as u64);
        self.left = left.ok_or(Error::Corrupt { what: "its strings are too long" })?;
        Ok(text.to_string())
    }
}

fn index<I: Index>(reader: &mut Reader<'_>, column: Column) -> Result<I, Error> {
    reader.take_u32(column).map(|number| I::new(number as usize))
}

/// A symbol, and whether its section follows.
fn symbol(reader: &mut Reader<'_>, name: String) -> Result<(Symbol, bool), Error> {
    let tag = reader.take(Column::Symbol)?;
    let (kind, linkage, flags) = (tag & 7, tag >> 3 & 7, tag >> 6);
    let visibility = usize::try_from(flags >> 3).ok().and_then(|it| tags::VISIBILITIES.get(it));
    let comdat = match flags >> 1 & 1 {
        0 => None,
        _ => Some(index::<Comdat>(reader, Column::SymbolComdat)?),
    };
    let mut data = |defined, constant| {
        let size = reader.take(Column::DataSize)?;
        let refers_to = symbols(reader, Column::Reference)?;
        Ok(SymbolKind::Data { defined, constant, size, refers_to, section: None })
    };
    let kind = match kind {
        // The functions tell which.
        symbol::FUNCTION => SymbolKind::Function(Func::new(u32::MAX as usize)),
        symbol::EXTERNAL_FUNCTION => {
            SymbolKind::ExternalFunction(tags::traits(reader.take(Column::Traits)?))
        }
        symbol::DATA => data(true, false)?,
        symbol::DECLARED_DATA => data(false, false)?,
        symbol::CONSTANT_DATA => data(true, true)?,
        symbol::DECLARED_CONSTANT_DATA => data(false, true)?,
        other => {
            let number = reader.take_u32(Column::Reference)?;
            let to = number.checked_sub(1).map(|number| Sym::new(number as usize));
            match other {
                symbol::ALIAS => SymbolKind::Alias { target: to },
                _ => SymbolKind::IFunc { resolver: to },
            }
        }
    };
    let symbol = Symbol {
        name,
        kind,
        linkage: tags::LINKAGES[linkage as usize],
        visibility: *visibility.ok_or(UNKNOWN)?,
        comdat,
        thread_local: flags & 1 == 1,
    };
    Ok((symbol, flags >> 2 & 1 == 1))
}

fn symbols(reader: &mut Reader<'_>, column: Column) -> Result<Vec<Sym>, Error> {
    let mut symbols = Vec::new();
    let mut before = 0;
    for _ in 0..reader.take(column)? {
        before = reader.take_step(column, before)? as usize;
        symbols.push(Sym::new(before));
    }
    Ok(symbols)
}

fn location(
    reader: &mut Reader<'_>,
    loc: Loc,
    scope: String,
    (file, line): (usize, usize),
) -> Result<Location, Error> {
    let file = File::new(reader.take_step(Column::LocationFile, file)? as usize);
    let line = reader.take_step(Column::LocationLine, line)?;
    let column = reader.take_u32(Column::LocationText)?;
    let scope_line = reader.take_u32(Column::LocationScopeLine)?;
    let back = reader.take_signed(Column::LocationOuter)?;
    let outer = (loc.position() as i64).checked_sub(back).and_then(|it| u32::try_from(it).ok());
    let outer = outer.ok_or(Error::Corrupt { what: "an index is out of range" })?;
    let inlined_at = (back != 0).then(|| Loc::new(outer as usize));
    Ok(Location { file, line, column, scope, scope_line, inlined_at })
}

/// What goes on from function to function.
struct State {
    /// The position read last.
    loc: usize,
    /// Where the values of the phi before come from.
    from: Vec<Block>,
}

impl State {
    fn function(&mut self, reader: &mut Reader<'_>) -> Result<Function, Error> {
        let symbol = index(reader, Column::Function)?;
        let parameters = reader.take_u32(Column::Function)?;
        let traits = tags::traits(reader.take(Column::Traits)?);
        let location = self.location(reader)?;
        let mut function = Function {
            symbol,
            parameters,
            traits,
            location,
            blocks: IndexMap::new(),
            insts: IndexMap::new(),
            operands: Vec::new(),
        };
        for _ in 0..reader.take(Column::Length)? {
            let block = function.blocks.next_index();
            let length = reader.take(Column::Block)?;
            let landing_pad = length & 1 == 1;
            let first = function.insts.len() as u32;
            self.from.clear();
            for _ in 0..length >> 1 {
                self.inst(reader, &mut function, block)?;
            }
            let terminator = function.insts.values().next_back().map(|it| &it.op);
            let successors = match terminator {
                Some(op) => successors(reader, block, op)?,
                None => Vec::new(),
            };
            let end = function.insts.len() as u32;
            function.blocks.push(BlockData { first, end, successors, landing_pad });
        }
        Ok(function)
    }

    fn location(&mut self, reader: &mut Reader<'_>) -> Result<Option<Loc>, Error> {
        let Some(step) = reader.take(Column::Location)?.checked_sub(1) else {
            return Ok(None);
        };
        let step = (step >> 1) as i64 ^ -((step & 1) as i64);
        let loc = (self.loc as i64).checked_add(step).and_then(|it| u32::try_from(it).ok());
        self.loc = loc.ok_or(Error::Corrupt { what: "an index is out of range" })? as usize;
        Ok(Some(Loc::new(self.loc)))
    }

    fn inst(
        &mut self,
        reader: &mut Reader<'_>,
        function: &mut Function,
        block: Block,
    ) -> Result<(), Error> {
        let inst = function.insts.next_index();
        let op = self.op(reader, block)?;
        let location = self.location(reader)?;
        let operand_count = match tags::operand_count(&op) {
            Some(count) => count,
            None => reader.take_u32(Column::OperandCount)?,
        };
        let operands = function.operands.len() as u32;
        for _ in 0..operand_count {
            function.operands.push(operand(reader, inst)?);
        }
        function.insts.push(InstData { op, operands, operand_count, location });
        Ok(())
    }

    fn op(&mut self, reader: &mut Reader<'_>, block: Block) -> Result<Op, Error> {
        let tag = reader.take(Column::Op)?;
        Ok(match tag {
            op::FENCE => Op::Fence,
            op::ADDRESS => Op::Address { offset: None },
            op::SELECT => Op::Select,
            op::COMPARE => Op::Compare,
            op::LANDING_PAD => Op::LandingPad,
            op::RETURN => Op::Return,
            op::JUMP => Op::Jump,
            op::BRANCH => Op::Branch,
            op::INDIRECT_JUMP => Op::IndirectJump,
            op::RESUME => Op::Resume,
            op::UNREACHABLE => Op::Unreachable,
            op::ALLOCA => Op::Alloca { size: reader.take(Column::Size)? },
            op::LOAD => Op::Load(access(reader, 0)?),
            op::STORE => Op::Store(access(reader, 0)?),
            op::ATOMIC_UPDATE => Op::AtomicUpdate(access(reader, 0)?),
            op::FLAGGED_LOAD..op::FLAGGED_STORE => Op::Load(access(reader, tag)?),
            op::FLAGGED_STORE..op::FLAGGED_ATOMIC_UPDATE => Op::Store(access(reader, tag)?),
            op::FLAGGED_ATOMIC_UPDATE..op::CALL => Op::AtomicUpdate(access(reader, tag)?),
            op::CONSTANT_ADDRESS => {
                Op::Address { offset: Some(reader.take_signed(Column::Distance)?) }
            }
            op::SAME_PHI => {
                // Each value is an operand: what is not there is not copied.
                if self.from.len() > reader.left(Column::Operand) {
                    return Err(Error::Corrupt { what: "a column is too short" });
                }
                Op::Phi { from: self.from.clone() }
            }
            op::PHI => {
                self.from.clear();
                for _ in 0..reader.take(Column::Length)? {
                    let back = reader.take_signed(Column::PhiFrom)?;
                    let from = (block.position() as i64).checked_sub(back);
                    let from = from.and_then(|from| u32::try_from(from).ok());
                    let from = from.ok_or(Error::Corrupt { what: "an index is out of range" })?;
                    self.from.push(Block::new(from as usize));
                }
                Op::Phi { from: self.from.clone() }
            }
            op::SWITCH => {
                let mut cases = Vec::new();
                let mut before = 0i64;
                for _ in 0..reader.take(Column::Length)? {
                    before = before.wrapping_add(reader.take_signed(Column::Case)?);
                    cases.push(before);
                }
                Op::Switch { cases }
            }
            op::OTHER_TERMINATOR => {
                let opcode = u16::try_from(reader.take(Column::Size)?).map_err(|_| UNKNOWN)?;
                Op::OtherTerminator { opcode }
            }
            op::CALL..op::INVOKE => Op::Call(call(reader, tag - op::CALL)?),
            op::INVOKE..op::ASM_GOTO => Op::Invoke(call(reader, tag - op::INVOKE)?),
            op::ASM_GOTO..op::COMPUTE => Op::AsmGoto(call(reader, tag - op::ASM_GOTO)?),
            op::COMPUTE.. => {
                let opcode = u16::try_from(tag - op::COMPUTE).map_err(|_| UNKNOWN)?;
                Op::Compute { opcode }
            }
        })
    }
}

fn successors(reader: &mut Reader<'_>, block: Block, terminator: &Op) -> Result<Vec<Block>, Error> {
    let count = match terminator.successor_count() {
        Some(count) => count as u64,
        None => reader.take(Column::Length)?,
    };
    let mut successors = Vec::new();
    for _ in 0..count {
        let to = reader.take_step(Column::Successor, block.position())?;
        successors.push(Block::new(to as usize));
    }
    Ok(successors)
}

fn access(reader: &mut Reader<'_>, tag: u64) -> Result<Access, Error> {
    let size = reader.take(Column::Size)?;
    Ok(Access { size, volatile: tag >> 1 & 1 == 1, atomic: tag & 1 == 1 })
}

fn call(reader: &mut Reader<'_>, kind: u64) -> Result<CallData, Error> {
    let bits = reader.take(Column::Traits)?;
    let callee = match kind {
        callee::DIRECT => Callee::Direct(index(reader, Column::Callee)?),
        callee::INTRINSIC => Callee::Intrinsic(index(reader, Column::Callee)?),
        callee::INDIRECT => Callee::Indirect,
        _ => Callee::Asm,
    };
    Ok(CallData { callee, traits: tags::traits(bits), tail: tags::tail(bits) })
}

fn operand(reader: &mut Reader<'_>, inst: Inst) -> Result<Value, Error> {
    let tag = reader.take(Column::Operand)?;
    Ok(match tag {
        value::PARAM => Value::Param(reader.take_u32(Column::Constant)?),
        value::INT => Value::Int(reader.take_signed(Column::Constant)?),
        value::SYMBOL => Value::Symbol(index(reader, Column::OperandSymbol)?, 0),
        value::SYMBOL_AND_OFFSET => {
            let sym = index(reader, Column::OperandSymbol)?;
            Value::Symbol(sym, reader.take_signed(Column::Constant)?)
        }
        value::EXPR => Value::Expr(symbols(reader, Column::OperandSymbol)?),
        value::BLOCK_ADDRESS => {
            let sym = index(reader, Column::OperandSymbol)?;
            Value::BlockAddress(sym, index(reader, Column::Constant)?)
        }
        value::OPAQUE => Value::Opaque,
        value::INST.. => {
            let step = tag - value::INST;
            let step = (step >> 1) as i64 ^ -((step & 1) as i64);
            let other = (inst.position() as i64).checked_sub(step);
            let other = other.and_then(|other| u32::try_from(other).ok());
            let other = other.ok_or(Error::Corrupt { what: "an index is out of range" })?;
            Value::Inst(Inst::new(other as usize))
        }
    })
}
