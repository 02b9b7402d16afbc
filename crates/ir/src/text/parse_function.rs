//! Parsing functions. See [`super`] for the form.

use backtrail_graph::IndexMap;

use super::opcode;
use super::parse::Parser;
use crate::{
    Access, Block, BlockData, CallData, Callee, Error, Function, Inst, InstData, Op, Sym, Tail,
    Traits, Value,
};

impl Parser<'_> {
    /// A function, from its symbol on.
    pub(super) fn function(&mut self) -> Result<Function, Error> {
        let symbol = self.index()?;
        self.word("parameters")?;
        let mut function = Function {
            symbol,
            parameters: self.number()?,
            traits: Traits::default(),
            location: None,
            blocks: IndexMap::new(),
            insts: IndexMap::new(),
            operands: Vec::new(),
        };
        while self.accept_trait(&mut function.traits)? {}
        if self.accept("at")? {
            function.location = Some(self.index()?);
        }
        self.sign('{')?;
        while !self.accept_sign('}')? {
            self.next_index(&function.blocks)?;
            let landing_pad = self.accept("landing_pad")?;
            self.sign(':')?;
            let first = self.length(function.insts.len())?;
            let mut successors = Vec::new();
            while self.peek_index::<Inst>().is_some() {
                self.next_index(&function.insts)?;
                self.accept_sign('=')?;
                let inst = self.inst(&mut function.operands, &mut successors)?;
                function.insts.push(inst);
            }
            let end = self.length(function.insts.len())?;
            function.blocks.push(BlockData { first, end, successors, landing_pad });
        }
        Ok(function)
    }

    fn length(&self, length: usize) -> Result<u32, Error> {
        u32::try_from(length).map_err(|_| self.error("the function is too long"))
    }

    fn inst(
        &mut self,
        operands: &mut Vec<Value>,
        successors: &mut Vec<Block>,
    ) -> Result<InstData, Error> {
        let mut op = self.op()?;
        let first = self.length(operands.len())?;
        if self.accept_sign('(')? {
            while !self.accept_sign(')')? {
                if operands.len() > first as usize {
                    self.sign(',')?;
                }
                if let Op::Phi { from } = &mut op {
                    from.push(self.index()?);
                    self.sign(':')?;
                }
                operands.push(self.value()?);
            }
        }
        if self.accept_arrow()? {
            if !successors.is_empty() {
                return Err(self.error("two instructions of one block have successors"));
            }
            self.successors(&mut op, successors)?;
        }
        let location = if self.accept_sign('@')? { Some(self.index()?) } else { None };
        let operand_count = self.length(operands.len())? - first;
        Ok(InstData { op, operands: first, operand_count, location })
    }

    fn successors(&mut self, op: &mut Op, successors: &mut Vec<Block>) -> Result<(), Error> {
        loop {
            if let Op::Switch { cases } = op
                && !successors.is_empty()
            {
                cases.push(self.number()?);
                self.sign(':')?;
            }
            successors.push(self.index()?);
            if !self.accept_sign(',')? {
                return Ok(());
            }
        }
    }

    fn op(&mut self) -> Result<Op, Error> {
        let Some(word) = self.peek_word() else {
            return self.expected("an operation");
        };
        let plain = match word {
            "fence" => Some(Op::Fence),
            "phi" => Some(Op::Phi { from: Vec::new() }),
            "select" => Some(Op::Select),
            "compare" => Some(Op::Compare),
            "landing_pad" => Some(Op::LandingPad),
            "return" => Some(Op::Return),
            "jump" => Some(Op::Jump),
            "branch" => Some(Op::Branch),
            "switch" => Some(Op::Switch { cases: Vec::new() }),
            "indirect_jump" => Some(Op::IndirectJump),
            "resume" => Some(Op::Resume),
            "unreachable" => Some(Op::Unreachable),
            "alloca" | "load" | "store" | "atomic_update" | "address" | "compute" => None,
            "other_terminator" | "call" | "invoke" | "asm_goto" => None,
            _ => return self.expected("an operation"),
        };
        self.word(word)?;
        if let Some(op) = plain {
            return Ok(op);
        }
        Ok(match word {
            "alloca" => Op::Alloca { size: self.number()? },
            "load" => Op::Load(self.access()?),
            "store" => Op::Store(self.access()?),
            "atomic_update" => Op::AtomicUpdate(self.access()?),
            "address" if self.accept("offset")? => Op::Address { offset: Some(self.number()?) },
            "address" => Op::Address { offset: None },
            "compute" => Op::Compute { opcode: self.opcode()? },
            "other_terminator" => Op::OtherTerminator { opcode: self.opcode()? },
            "call" => Op::Call(self.call()?),
            "invoke" => Op::Invoke(self.call()?),
            _ => Op::AsmGoto(self.call()?),
        })
    }

    fn access(&mut self) -> Result<Access, Error> {
        let size = self.number()?;
        Ok(Access { size, volatile: self.accept("volatile")?, atomic: self.accept("atomic")? })
    }

    fn opcode(&mut self) -> Result<u16, Error> {
        let Some(word) = self.peek_word() else {
            return self.number();
        };
        let Some(number) = opcode::number(word) else {
            return self.expected("an opcode");
        };
        self.word(word)?;
        Ok(number)
    }

    fn call(&mut self) -> Result<CallData, Error> {
        let callee = if self.accept("intrinsic")? {
            Callee::Intrinsic(self.index()?)
        } else if self.accept("indirect")? {
            Callee::Indirect
        } else if self.accept("asm")? {
            Callee::Asm
        } else {
            Callee::Direct(self.index()?)
        };
        let mut call = CallData { callee, traits: Traits::default(), tail: Tail::No };
        loop {
            if call.tail == Tail::No && self.accept("may_tail")? {
                call.tail = Tail::May;
            } else if call.tail == Tail::No && self.accept("must_tail")? {
                call.tail = Tail::Must;
            } else if !self.accept_trait(&mut call.traits)? {
                return Ok(call);
            }
        }
    }

    fn value(&mut self) -> Result<Value, Error> {
        if self.peek_number().is_some() {
            return Ok(Value::Int(self.number()?));
        }
        if let Some(parameter) = self.accept_parameter()? {
            return Ok(Value::Param(parameter));
        }
        if self.peek_index::<Inst>().is_some() {
            return Ok(Value::Inst(self.index()?));
        }
        if self.peek_index::<Sym>().is_some() {
            let sym = self.index()?;
            let is_offset = self.peek_number().is_some_and(|text| text.starts_with(['+', '-']));
            return Ok(Value::Symbol(sym, if is_offset { self.number()? } else { 0 }));
        }
        if self.accept("expr")? {
            return Ok(Value::Expr(self.symbols()?));
        }
        if self.accept("block_address")? {
            return Ok(Value::BlockAddress(self.index()?, self.index()?));
        }
        if self.accept("opaque")? {
            return Ok(Value::Opaque);
        }
        self.expected("a value")
    }
}
