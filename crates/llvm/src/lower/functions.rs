//! Bodies of functions.

use backtrail_ir::{
    Access, Block, BlockData, CallData, Callee, Function, Inst, InstData, Op, Tail, Value,
};
use backtrail_ir::{Index, IndexMap};
use backtrail_llvm_ffi as ffi;
use backtrail_llvm_ffi::{Call, Instruction, Opcode, Type, ValueKind};

use super::constants::{Constants, address_offset};
use super::locations::Locations;
use super::{Attributes, symbols};
use crate::identity::ById;

/// Lowers one function that has a body.
pub fn lower<'m>(
    function: ffi::Function<'m>,
    attributes: &Attributes,
    blocks: &ById<Block>,
    constants: &mut Constants<'_>,
    locations: &mut Locations,
) -> Function {
    let mut body = Body {
        attributes,
        blocks,
        constants,
        values: ById::default(),
        sizes: ById::default(),
        operands: Vec::new(),
    };
    let parameters = function.parameters();
    let parameter_count = parameters.len() as u32;
    body.values.extend(
        parameters.enumerate().map(|(position, it)| (it.id(), Value::Param(position as u32))),
    );
    // Operands may name instructions of later blocks: number them all first.
    let instructions: Vec<Vec<Instruction<'m>>> = function
        .blocks()
        .map(|block| block.instructions().filter(|it| !body.is_debug_intrinsic(*it)).collect())
        .collect();
    for (position, instruction) in instructions.iter().flatten().enumerate() {
        body.values.insert(instruction.id(), Value::Inst(Inst::new(position)));
    }
    let mut insts = IndexMap::<Inst, InstData>::new();
    let lower_block = |block: &Vec<Instruction<'m>>| {
        let first = insts.len() as u32;
        for instruction in block {
            let operands = body.operands.len() as u32;
            let op = body.lower(*instruction);
            let location = instruction.debug_location().map(|it| locations.of_instruction(it));
            let operand_count = body.operands.len() as u32 - operands;
            insts.push(InstData { op, operands, operand_count, location });
        }
        BlockData {
            first,
            end: insts.len() as u32,
            successors: block.last().map(|it| body.successors(*it)).unwrap_or_default(),
            landing_pad: block.iter().any(|it| it.opcode().is_exception_pad()),
        }
    };
    let block_data = instructions.iter().map(lower_block).collect();
    let operands = body.operands;
    let symbol = constants.symbols().number(*function).expect("every function is a symbol");
    Function {
        symbol,
        parameters: parameter_count,
        traits: symbols::function_traits(function, attributes),
        location: locations.of_function(function),
        blocks: block_data,
        insts,
        operands,
    }
}

struct Body<'a, 'c> {
    attributes: &'a Attributes,
    blocks: &'a ById<Block>,
    constants: &'a mut Constants<'c>,
    /// Parameters and instructions as operands.
    values: ById<Value>,
    /// Bytes of types in memory.
    sizes: ById<u64>,
    operands: Vec<Value>,
}

impl Body<'_, '_> {
    fn is_debug_intrinsic(&self, instruction: Instruction<'_>) -> bool {
        instruction.opcode() == Opcode::CALL
            && instruction
                .as_call()
                .is_some_and(|it| self.constants.symbols().is_debug_intrinsic(it.callee().id()))
    }

    fn successors(&self, terminator: Instruction<'_>) -> Vec<Block> {
        terminator.successors().map(|it| self.block(it)).collect()
    }

    fn block(&self, block: ffi::Block<'_>) -> Block {
        *self.blocks.get(&block.id()).expect("blocks are those of the module's functions")
    }

    fn push(&mut self, value: ffi::Value<'_>) {
        let lowered = match self.values.get(&value.id()) {
            Some(known) => known.clone(),
            None => match value.kind() {
                ValueKind::Metadata | ValueKind::Asm | ValueKind::Block => Value::Opaque,
                _ => self.constants.lower(value),
            },
        };
        self.operands.push(lowered);
    }

    fn push_all(&mut self, instruction: Instruction<'_>) {
        instruction.operands().for_each(|it| self.push(it));
    }

    /// Lowers an instruction and appends its operands.
    fn lower(&mut self, instruction: Instruction<'_>) -> Op {
        let op = match instruction.opcode() {
            Opcode::ALLOCA => {
                Op::Alloca { size: instruction.allocated().and_then(Type::stride).unwrap_or(0) }
            }
            Opcode::LOAD => Op::Load(self.access(instruction, Some(instruction.ty()))),
            Opcode::STORE => {
                let stored = instruction.operand(0).map(ffi::Value::ty);
                Op::Store(self.access(instruction, stored))
            }
            Opcode::ATOMIC_RMW | Opcode::ATOMIC_CMPXCHG => {
                let stored = instruction.operand(1).map(ffi::Value::ty);
                Op::AtomicUpdate(self.access(instruction, stored))
            }
            // Reads an argument and moves the list on: how far is the target's
            // affair.
            Opcode::VA_ARG => Op::AtomicUpdate(Access { size: 0, volatile: false, atomic: false }),
            Opcode::FENCE => Op::Fence,
            Opcode::GET_ELEMENT_PTR => {
                let indices = instruction.operands().skip(1);
                let offset = instruction.element().and_then(|it| address_offset(it, indices));
                Op::Address { offset }
            }
            Opcode::PHI => {
                Op::Phi { from: instruction.incoming_blocks().map(|it| self.block(it)).collect() }
            }
            Opcode::SELECT => Op::Select,
            Opcode::ICMP | Opcode::FCMP => Op::Compare,
            Opcode::RET => Op::Return,
            Opcode::RESUME => Op::Resume,
            _ => return self.lower_without_plain_operands(instruction),
        };
        self.push_all(instruction);
        op
    }

    /// Lowers the instructions whose operands are not simply all of LLVM's.
    fn lower_without_plain_operands(&mut self, instruction: Instruction<'_>) -> Op {
        if let Some(call) = instruction.as_call() {
            let data = self.call(call);
            return match instruction.opcode() {
                Opcode::CALL => Op::Call(data),
                Opcode::INVOKE => Op::Invoke(data),
                _ => Op::AsmGoto(data),
            };
        }
        match instruction.opcode() {
            Opcode::BR => match instruction.condition() {
                Some(condition) => {
                    self.push(condition);
                    Op::Branch
                }
                None => Op::Jump,
            },
            Opcode::SWITCH => {
                instruction.operand(0).into_iter().for_each(|it| self.push(it));
                let cases = instruction.cases().map(|it| it.int_low().unwrap_or(0)).collect();
                Op::Switch { cases }
            }
            Opcode::INDIRECT_BR => {
                instruction.operand(0).into_iter().for_each(|it| self.push(it));
                Op::IndirectJump
            }
            Opcode::UNREACHABLE => Op::Unreachable,
            Opcode::LANDING_PAD | Opcode::CATCH_PAD | Opcode::CLEANUP_PAD => Op::LandingPad,
            opcode if opcode.is_terminator() => Op::OtherTerminator { opcode: opcode.number() },
            opcode => {
                self.push_all(instruction);
                Op::Compute { opcode: opcode.number() }
            }
        }
    }

    fn access(&mut self, instruction: Instruction<'_>, accessed: Option<Type<'_>>) -> Access {
        let size = accessed.map_or(0, |ty| {
            *self.sizes.entry(ty.id()).or_insert_with(|| ty.store_size().unwrap_or(0))
        });
        Access { size, volatile: instruction.is_volatile(), atomic: instruction.is_atomic() }
    }

    fn call(&mut self, call: Call<'_>) -> CallData {
        call.arguments().for_each(|it| self.push(it));
        let callee = self.callee(call.callee());
        if callee == Callee::Indirect {
            self.push(call.callee());
        }
        // What assembly names it may call or jump to.
        let named = call.callee().assembly().map(|text| self.constants.symbols().in_text(&text));
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            self.operands.push(Value::Expr(named));
        }
        let traits = self.attributes.traits(|attribute| call.has(attribute));
        CallData {
            callee,
            traits: backtrail_ir::Traits { variadic: call.signature().is_variadic(), ..traits },
            tail: match (call.is_must_tail(), call.may_be_tail()) {
                (true, _) => Tail::Must,
                (false, true) => Tail::May,
                (false, false) => Tail::No,
            },
        }
    }

    /// Who is called. An alias or ifunc is itself a symbol, and what it leads
    /// to may be another one once the linker has resolved it.
    fn callee(&self, callee: ffi::Value<'_>) -> Callee {
        let symbols = self.constants.symbols();
        match callee.kind() {
            ValueKind::Asm => Callee::Asm,
            ValueKind::Function => match callee.as_global() {
                Some(global) if symbols.is_intrinsic(global) => {
                    symbols.number(global).map_or(Callee::Indirect, Callee::Intrinsic)
                }
                Some(global) => symbols.number(global).map_or(Callee::Indirect, Callee::Direct),
                None => Callee::Indirect,
            },
            ValueKind::Alias | ValueKind::IFunc | ValueKind::Expression => {
                match self.constants.symbol_and_offset(callee) {
                    Some((symbol, 0)) if symbols.is_code(symbol) => Callee::Direct(symbol),
                    _ => Callee::Indirect,
                }
            }
            _ => Callee::Indirect,
        }
    }
}
