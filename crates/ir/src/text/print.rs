//! Printing. See [`super`] for the form.

use std::fmt::{self, Display, Write};

use super::{LINKAGES, TRAITS, opcode};
use crate::{
    Access, Block, BlockData, CallData, Callee, Func, Function, Inst, Loc, Op, Symbol, SymbolKind,
    Tail, Traits, Unit, Value, Visibility,
};

/// Prints `unit`, which must be one that verifies.
pub fn print(unit: &Unit) -> String {
    let mut out = String::new();
    write_unit(&mut out, unit).expect("writing to a string does not fail");
    out
}

fn write_unit(out: &mut String, unit: &Unit) -> fmt::Result {
    writeln!(out, "unit {}", Quoted(&unit.name))?;
    if !unit.module_asm.is_empty() {
        writeln!(out, "asm {}", Quoted(&unit.module_asm))?;
    }
    for (file, name) in unit.files.iter() {
        writeln!(out, "{file} = {}", Quoted(name))?;
    }
    for (comdat, name) in unit.comdats.iter() {
        writeln!(out, "{comdat} = comdat {}", Quoted(name))?;
    }
    for (sym, symbol) in unit.symbols.iter() {
        write!(out, "{sym} = ")?;
        write_symbol(out, symbol)?;
        out.push('\n');
    }
    for (loc, location) in unit.locations.iter() {
        let (file, line, column) = (location.file, location.line, location.column);
        write!(out, "{loc} = {file}:{line}:{column} in {}", Quoted(&location.scope))?;
        if location.scope_line != 0 {
            write!(out, " from {}", location.scope_line)?;
        }
        if let Some(outer) = location.inlined_at {
            write!(out, " at {outer}")?;
        }
        out.push('\n');
    }
    unit.functions.iter().try_for_each(|(func, function)| write_function(out, unit, func, function))
}

fn write_symbol(out: &mut String, symbol: &Symbol) -> fmt::Result {
    match &symbol.kind {
        SymbolKind::Function(func) => write!(out, "function {func}")?,
        SymbolKind::ExternalFunction(_) => out.push_str("declare"),
        SymbolKind::Data { defined: true, .. } => out.push_str("data"),
        SymbolKind::Data { defined: false, .. } => out.push_str("declare_data"),
        SymbolKind::Alias { .. } => out.push_str("alias"),
        SymbolKind::IFunc { .. } => out.push_str("ifunc"),
    }
    let linkage = LINKAGES.iter().find(|(_, linkage)| *linkage == symbol.linkage);
    let (linkage, _) = linkage.expect("every linkage has a word");
    write!(out, " {} {linkage}", Quoted(&symbol.name))?;
    match symbol.visibility {
        Visibility::Default => {}
        Visibility::Hidden => out.push_str(" hidden"),
        Visibility::Protected => out.push_str(" protected"),
    }
    if let Some(comdat) = symbol.comdat {
        write!(out, " comdat {comdat}")?;
    }
    if symbol.thread_local {
        out.push_str(" thread_local");
    }
    match &symbol.kind {
        SymbolKind::Function(_) => {}
        SymbolKind::ExternalFunction(traits) => write_traits(out, *traits),
        SymbolKind::Data { constant, size, refers_to, section, .. } => {
            if *constant {
                out.push_str(" constant");
            }
            write!(out, " size {size}")?;
            if let Some(section) = section {
                write!(out, " section {}", Quoted(section))?;
            }
            if !refers_to.is_empty() {
                write!(out, " refers {}", Bracketed(refers_to))?;
            }
        }
        SymbolKind::Alias { target: Some(target) } => write!(out, " to {target}")?,
        SymbolKind::IFunc { resolver: Some(resolver) } => write!(out, " by {resolver}")?,
        SymbolKind::Alias { target: None } | SymbolKind::IFunc { resolver: None } => {}
    }
    Ok(())
}

fn write_traits(out: &mut String, mut traits: Traits) {
    for (word, field) in TRAITS {
        if *field(&mut traits) {
            out.push(' ');
            out.push_str(word);
        }
    }
}

fn write_function(out: &mut String, unit: &Unit, func: Func, function: &Function) -> fmt::Result {
    let symbol = function.symbol;
    write!(out, "\nfunction {func} {symbol} parameters {}", function.parameters)?;
    write_traits(out, function.traits);
    if let Some(loc) = function.location {
        write!(out, " at {loc}")?;
    }
    write!(out, " {{ ; {}", unit.symbols[symbol].name.escape_debug())?;
    if let Some(loc) = function.location {
        write!(out, " {}", Position(unit, loc))?;
    }
    out.push('\n');
    for (block, data) in function.blocks.iter() {
        let mark = if data.landing_pad { " landing_pad" } else { "" };
        writeln!(out, "{block}{mark}:")?;
        for inst in data.insts() {
            write_inst(out, unit, function, data, inst)?;
        }
    }
    out.push_str("}\n");
    Ok(())
}

fn write_inst(
    out: &mut String,
    unit: &Unit,
    function: &Function,
    block: &BlockData,
    inst: Inst,
) -> fmt::Result {
    let data = &function.insts[inst];
    let equals = if data.op.may_have_result() { " =" } else { "" };
    write!(out, "  {inst}{equals} ")?;
    write_op(out, &data.op)?;

    let operands = function.operands_of(data);
    let labels: &[Block] = if let Op::Phi { from } = &data.op { from } else { &[] };
    for (number, value) in operands.iter().enumerate() {
        out.push_str(if number == 0 { " (" } else { ", " });
        if let Some(from) = labels.get(number) {
            write!(out, "{from}: ")?;
        }
        write_value(out, value)?;
    }
    if !operands.is_empty() {
        out.push(')');
    }

    let cases: &[i64] = if let Op::Switch { cases } = &data.op { cases } else { &[] };
    if inst == block.terminator() {
        for (number, to) in block.successors.iter().enumerate() {
            out.push_str(if number == 0 { " -> " } else { ", " });
            if let Some(case) = number.checked_sub(1).and_then(|number| cases.get(number)) {
                write!(out, "{case}: ")?;
            }
            write!(out, "{to}")?;
        }
    }
    if let Some(loc) = data.location {
        write!(out, " @{loc}")?;
    }
    write_comment(out, unit, &data.op, data.location)?;
    out.push('\n');
    Ok(())
}

fn write_comment(out: &mut String, unit: &Unit, op: &Op, location: Option<Loc>) -> fmt::Result {
    let callee = op.call().and_then(|call| match call.callee {
        Callee::Direct(sym) | Callee::Intrinsic(sym) => Some(&unit.symbols[sym].name),
        Callee::Indirect | Callee::Asm => None,
    });
    if callee.is_some() || location.is_some() {
        out.push_str(" ;");
    }
    if let Some(name) = callee {
        write!(out, " {}", name.escape_debug())?;
    }
    if let Some(loc) = location {
        write!(out, " {}", Position(unit, loc))?;
    }
    Ok(())
}

fn write_op(out: &mut String, op: &Op) -> fmt::Result {
    match op {
        Op::Alloca { size } => write!(out, "alloca {size}")?,
        Op::Load(access) => write_access(out, "load", access)?,
        Op::Store(access) => write_access(out, "store", access)?,
        Op::AtomicUpdate(access) => write_access(out, "atomic_update", access)?,
        Op::Fence => out.push_str("fence"),
        Op::Address { offset: Some(offset) } => write!(out, "address offset {offset}")?,
        Op::Address { offset: None } => out.push_str("address"),
        Op::Phi { .. } => out.push_str("phi"),
        Op::Select => out.push_str("select"),
        Op::Compare => out.push_str("compare"),
        Op::Compute { opcode } => write_opcode(out, "compute", *opcode)?,
        Op::Call(call) => write_call(out, "call", call)?,
        Op::LandingPad => out.push_str("landing_pad"),
        Op::Return => out.push_str("return"),
        Op::Jump => out.push_str("jump"),
        Op::Branch => out.push_str("branch"),
        Op::Switch { .. } => out.push_str("switch"),
        Op::IndirectJump => out.push_str("indirect_jump"),
        Op::Invoke(call) => write_call(out, "invoke", call)?,
        Op::AsmGoto(call) => write_call(out, "asm_goto", call)?,
        Op::Resume => out.push_str("resume"),
        Op::Unreachable => out.push_str("unreachable"),
        Op::OtherTerminator { opcode } => write_opcode(out, "other_terminator", *opcode)?,
    }
    Ok(())
}

fn write_access(out: &mut String, word: &str, access: &Access) -> fmt::Result {
    write!(out, "{word} {}", access.size)?;
    if access.volatile {
        out.push_str(" volatile");
    }
    if access.atomic {
        out.push_str(" atomic");
    }
    Ok(())
}

fn write_opcode(out: &mut String, word: &str, number: u16) -> fmt::Result {
    match opcode::name(number) {
        Some(name) => write!(out, "{word} {name}"),
        None => write!(out, "{word} {number}"),
    }
}

fn write_call(out: &mut String, word: &str, call: &CallData) -> fmt::Result {
    match call.callee {
        Callee::Direct(sym) => write!(out, "{word} {sym}")?,
        Callee::Intrinsic(sym) => write!(out, "{word} intrinsic {sym}")?,
        Callee::Indirect => write!(out, "{word} indirect")?,
        Callee::Asm => write!(out, "{word} asm")?,
    }
    write_traits(out, call.traits);
    out.push_str(match call.tail {
        Tail::No => "",
        Tail::May => " may_tail",
        Tail::Must => " must_tail",
    });
    Ok(())
}

fn write_value(out: &mut String, value: &Value) -> fmt::Result {
    match value {
        Value::Inst(inst) => write!(out, "{inst}"),
        Value::Param(number) => write!(out, "p{number}"),
        Value::Int(number) => write!(out, "{number}"),
        Value::Symbol(sym, 0) => write!(out, "{sym}"),
        Value::Symbol(sym, offset) => write!(out, "{sym}{offset:+}"),
        Value::Expr(symbols) => write!(out, "expr {}", Bracketed(symbols)),
        Value::BlockAddress(sym, block) => write!(out, "block_address {sym} {block}"),
        Value::Opaque => write!(out, "opaque"),
    }
}

/// A string between quotes, with what would not read well escaped.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                // Controls, and separators that some readers take for line ends.
                c if c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c) => {
                    write!(f, "\\u{{{:x}}}", c as u32)?;
                }
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// Entities between brackets.
struct Bracketed<'a, T>(&'a [T]);

impl<T: Display> Display for Bracketed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('[')?;
        for (number, item) in self.0.iter().enumerate() {
            let space = if number == 0 { "" } else { " " };
            write!(f, "{space}{item}")?;
        }
        f.write_char(']')
    }
}

/// A source position for a comment.
struct Position<'a>(&'a Unit, Loc);

impl Display for Position<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = &self.0.locations[self.1];
        let file = self.0.files[location.file].escape_debug();
        write!(f, "{file}:{}:{}", location.line, location.column)
    }
}
