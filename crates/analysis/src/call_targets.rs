//! Who can be called by a call.
//!
//! A direct call means what its symbol means ([`backtrail_ir::program`]). An
//! indirect call can reach any function whose address is *taken*: mentioned by an
//! instruction other than as the one called, or by the initial value of data, or
//! under another name (an alias). Of those, the ones that take as many arguments
//! as the call gives, unless one of the two is variadic. A call that passes
//! another number of arguments than its callee declares is undefined, and not
//! thought of.
//!
//! Objects of which only symbols are known may call whatever they can see: if the
//! link has one, other than a shared library, the address of each function that is
//! visible outside of its unit counts as taken. Nothing is known of what data
//! flows where; that would make the sets smaller.
//!
//! Cost: O(instructions + symbols).

use std::collections::BTreeMap;

use backtrail_graph::{IndexMap, define_index};
use backtrail_ir::program::{Input, Object, Program, Resolution};
use backtrail_ir::{CallData, Callee, Func, Function, Inst, Linkage, Sym, SymbolKind, Value};

define_index!(
    /// A function whose code is in the program.
    Body, "fn"
);

/// Who is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// This function.
    Body(Body),
    /// Any of the functions whose address is taken and that take so many
    /// arguments.
    Taken {
        /// How many arguments the call gives; none if that says nothing.
        arguments: Option<u32>,
    },
    /// Something whose code is not in any unit, by its name in the calling unit.
    Unseen(Sym),
    /// Nobody: an intrinsic or assembly, which is part of the caller.
    Inline,
}

/// Who can be called in a program.
#[derive(Debug, Clone)]
pub struct CallTargets<'p, 'u> {
    program: &'p Program<'u>,
    bodies: IndexMap<Body, (Object, Func)>,
    numbers: BTreeMap<(Object, Func), Body>,
    taken: Vec<Body>,
}

impl<'p, 'u> CallTargets<'p, 'u> {
    /// Looks through the program.
    pub fn new(program: &'p Program<'u>) -> Self {
        let mut bodies = IndexMap::new();
        let mut numbers = BTreeMap::new();
        for (object, unit) in program.units() {
            for function in unit.functions.indices() {
                if program.kept(object, function) {
                    let body = bodies.push((object, function));
                    numbers.insert((object, function), body);
                }
            }
        }
        let mut found = Self { program, bodies, numbers, taken: Vec::new() };
        found.taken = found.find_taken();
        found
    }

    fn find_taken(&self) -> Vec<Body> {
        let is_native = |input: &Input<'_>| matches!(input, Input::Native(it) if !it.shared);
        let seen_by_others = self.program.inputs().values().any(is_native);
        let mut taken = vec![false; self.bodies.len()];
        let mut take = |object: Object, symbol: Sym| {
            if let Some(body) = self.body_of_symbol(object, symbol) {
                taken[backtrail_graph::Index::position(body)] = true;
            }
        };
        for (object, unit) in self.program.units() {
            for (symbol, data) in unit.symbols.iter() {
                match &data.kind {
                    SymbolKind::Data { refers_to, .. } => {
                        refers_to.iter().for_each(|&it| take(object, it));
                    }
                    SymbolKind::Alias { target } => target.iter().for_each(|&it| take(object, it)),
                    SymbolKind::IFunc { resolver } => {
                        resolver.iter().for_each(|&it| take(object, it));
                    }
                    SymbolKind::Function(_)
                        if seen_by_others && data.linkage != Linkage::Internal =>
                    {
                        take(object, symbol);
                    }
                    SymbolKind::Function(_) | SymbolKind::ExternalFunction(_) => {}
                }
            }
            for function in unit.functions.values() {
                for value in &function.operands {
                    match value {
                        Value::Symbol(symbol, _) => take(object, *symbol),
                        Value::Expr(symbols) => symbols.iter().for_each(|&it| take(object, it)),
                        _ => {}
                    }
                }
            }
        }
        self.bodies.indices().filter(|&it| taken[backtrail_graph::Index::position(it)]).collect()
    }

    /// The functions whose code is in the program.
    pub fn bodies(&self) -> &IndexMap<Body, (Object, Func)> {
        &self.bodies
    }

    /// The function of a body.
    pub fn function(&self, body: Body) -> &'u Function {
        let (object, function) = self.bodies[body];
        let unit = self.program.unit(object).expect("bodies are of units");
        &unit.functions[function]
    }

    /// The body of a function, if its code is in the program.
    pub fn body(&self, object: Object, function: Func) -> Option<Body> {
        self.numbers.get(&(object, function)).copied()
    }

    /// The body that a symbol of a unit means, if it means one.
    pub fn body_of_symbol(&self, object: Object, symbol: Sym) -> Option<Body> {
        match self.program.resolve(object, symbol) {
            Resolution::Function(object, function) => self.body(object, function),
            _ => None,
        }
    }

    /// The functions whose address is taken, in order.
    pub fn taken(&self) -> &[Body] {
        &self.taken
    }

    /// The functions whose address is taken and that take so many arguments, in
    /// order.
    pub fn taken_with(&self, arguments: Option<u32>) -> impl Iterator<Item = Body> + '_ {
        self.taken.iter().copied().filter(move |&body| {
            let function = self.function(body);
            let fits = |arguments| function.parameters == arguments || function.traits.variadic;
            arguments.is_none_or(fits)
        })
    }

    /// Who is called by the call `inst` of a function of `object`.
    pub fn target(
        &self,
        object: Object,
        function: &Function,
        inst: Inst,
        call: &CallData,
    ) -> Target {
        match call.callee {
            Callee::Asm | Callee::Intrinsic(_) => Target::Inline,
            Callee::Direct(symbol) => {
                self.body_of_symbol(object, symbol).map_or(Target::Unseen(symbol), Target::Body)
            }
            Callee::Indirect => {
                let given = function.insts[inst].operand_count.saturating_sub(1);
                Target::Taken { arguments: (!call.traits.variadic).then_some(given) }
            }
        }
    }
}
