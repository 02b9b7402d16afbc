//! Constants as operands.
//!
//! LLVM keeps one copy of each constant, so each is lowered once.

use backtrail_ir::{Block, Sym, Value};
use backtrail_llvm_ffi as ffi;
use backtrail_llvm_ffi::{Opcode, Type, TypeKind, ValueKind};

use super::symbols::Symbols;
use crate::identity::{ById, Ids};

/// Lowers constants.
pub struct Constants<'a> {
    symbols: &'a Symbols,
    blocks: &'a ById<Block>,
    known: ById<Value>,
}

impl<'a> Constants<'a> {
    pub fn new(symbols: &'a Symbols, blocks: &'a ById<Block>) -> Self {
        Self { symbols, blocks, known: ById::default() }
    }

    /// The symbols of the unit.
    pub fn symbols(&self) -> &'a Symbols {
        self.symbols
    }

    /// A constant as an operand.
    pub fn lower(&mut self, value: ffi::Value<'_>) -> Value {
        if let Some(known) = self.known.get(&value.id()) {
            return known.clone();
        }
        let lowered = self.lower_new(value);
        self.known.insert(value.id(), lowered.clone());
        lowered
    }

    fn lower_new(&self, value: ffi::Value<'_>) -> Value {
        if let Some(int) = value.int() {
            return Value::Int(int);
        }
        if let Some((function, block)) = value.block_address() {
            return match (self.symbols.number(*function), self.blocks.get(&block.id())) {
                (Some(symbol), Some(block)) => Value::BlockAddress(symbol, *block),
                _ => Value::Opaque,
            };
        }
        if let Some((symbol, offset)) = self.symbol_and_offset(value) {
            return Value::Symbol(symbol, offset);
        }
        match self.mentioned(value) {
            symbols if symbols.is_empty() => Value::Opaque,
            symbols => Value::Expr(symbols),
        }
    }

    /// The symbol whose address, plus a constant, the value is.
    pub fn symbol_and_offset(&self, value: ffi::Value<'_>) -> Option<(Sym, i64)> {
        let (mut value, mut offset) = (value, 0i64);
        loop {
            if let Some(global) = value.as_global() {
                return Some((self.symbols.number(global)?, offset));
            }
            let opcode = value.expression_opcode()?;
            let mut operands = value.constant_operands();
            let base = operands.next()?;
            match opcode {
                Opcode::GET_ELEMENT_PTR => {
                    let element = value.expression_element()?;
                    offset = offset.wrapping_add(address_offset(element, operands)?);
                }
                Opcode::BIT_CAST | Opcode::ADDR_SPACE_CAST => {}
                Opcode::PTR_TO_INT | Opcode::INT_TO_PTR
                    if value.ty().store_size() == base.ty().store_size() => {}
                _ => return None,
            }
            value = base;
        }
    }

    /// The symbols a constant mentions, in order, each once.
    pub fn mentioned(&self, value: ffi::Value<'_>) -> Vec<Sym> {
        let mut symbols = Vec::new();
        let (mut seen, mut left) = (Ids::default(), vec![value]);
        while let Some(value) = left.pop() {
            match value.kind() {
                ValueKind::Expression | ValueKind::Aggregate | ValueKind::OtherConstant => {
                    if seen.insert(value.id()) {
                        let start = left.len();
                        left.extend(value.constant_operands());
                        left[start..].reverse();
                    }
                }
                ValueKind::BlockAddress => {
                    left.extend(value.block_address().map(|(function, _)| **function));
                }
                _ => {
                    let symbol = value.as_global().and_then(|it| self.symbols.number(it));
                    symbols.extend(symbol.filter(|_| seen.insert(value.id())));
                }
            }
        }
        symbols
    }
}

/// How far `indices` lead into memory that holds `element`s, if they are
/// constant.
pub fn address_offset<'m>(
    element: Type<'m>,
    mut indices: impl Iterator<Item = ffi::Value<'m>>,
) -> Option<i64> {
    let step = |ty: Type<'_>, index: i64| Some(index.wrapping_mul(ty.stride()? as i64));
    let mut offset = step(element, indices.next()?.int()?)?;
    let mut ty = element;
    for index in indices {
        let index = index.int()?;
        let by = if ty.kind() == TypeKind::Struct {
            let field = u32::try_from(index).ok()?;
            let by = ty.field_offset(field)? as i64;
            ty = ty.fields().nth(field as usize)?;
            by
        } else {
            ty = ty.element()?;
            step(ty, index)?
        };
        offset = offset.wrapping_add(by);
    }
    Some(offset)
}
