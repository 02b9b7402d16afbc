//! Who can be called by a call.
//!
//! A direct call means what its symbol means ([`backtrail_ir::program`]). An
//! indirect call can reach any function whose address is *taken*: mentioned by an
//! instruction other than as the one called, or by the initial value of data, or
//! under another name (an alias). Of those, the ones that take as many arguments
//! as the call gives, or less, unless one of the two is variadic. To give more than a
//! callee declares is undefined, and done wherever a callback has no use for its last
//! arguments; that goes well by the conventions for calls. To give less is not thought of.
//!
//! An ifunc means what its resolver chose, which has its address taken, too. Resolvers and
//! naked functions, within which nothing can be observed, are like functions of an object
//! without a unit.
//!
//! An object without a unit can hand out the address of a function that it refers to by
//! name, and whoever looks names up that of one that is exported: they count as taken.
//! Nothing is known of what data flows where; that would make the sets smaller.
//!
//! Cost: O(instructions + symbols).

use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::{IndexMap, define_index};
use backtrail_ir::program::{ByName, Input, Object, Program, Resolution};
use backtrail_ir::{CallData, Callee, Func, Function, Inst, Linkage, Sym, SymbolKind, Unit};
use backtrail_outside as outside;

use crate::calls::{direct_callees, resolving};
use crate::external::mentioned;

/// Data whose functions run before `main`, or may: what is kept though nothing of its unit
/// refers to it may be in a section that something else gathers.
const BEFORE_MAIN: [&str; 3] = ["llvm.global_ctors", "llvm.used", "llvm.compiler.used"];

/// Data whose functions run after it.
const AFTER_MAIN: [&str; 1] = ["llvm.global_dtors"];

/// Sections whose functions run before `main`: the linker gathers what has these names, and
/// what has them with a dot and something behind it.
const SECTIONS_BEFORE_MAIN: [&str; 3] = [".preinit_array", ".init_array", ".ctors"];

/// Sections whose functions run after it.
const SECTIONS_AFTER_MAIN: [&str; 2] = [".fini_array", ".dtors"];

define_index!(
    /// A function whose code is in the program, and within which it can be observed.
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
    /// Something of a library, by its name in the calling unit.
    Unseen(Sym),
    /// Something in an object or library of the program's that has no unit, or that is as
    /// if it were there.
    Native(Sym),
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
    called_by_hidden: BTreeSet<Body>,
    looks_up: bool,
}

impl<'p, 'u> CallTargets<'p, 'u> {
    /// Looks through the program.
    pub fn new(program: &'p Program<'u>) -> Self {
        let mut bodies = IndexMap::new();
        let mut numbers = BTreeMap::new();
        let mut hidden = Vec::new();
        for (object, unit) in program.units() {
            let resolving = resolving(unit);
            for (function, data) in unit.functions.iter() {
                if !program.kept(object, function) {
                    continue;
                }
                if data.traits.naked || resolving.contains(&function) {
                    hidden.push((object, function));
                } else {
                    let body = bodies.push((object, function));
                    numbers.insert((object, function), body);
                }
            }
        }
        let looks_up = looks_up(program);
        let (taken, called_by_hidden) = (Vec::new(), BTreeSet::new());
        let mut found = Self { program, bodies, numbers, taken, called_by_hidden, looks_up };
        found.taken = found.find_taken();
        for (object, function) in hidden {
            let unit = program.unit(object).expect("functions are of units");
            let callees = direct_callees(unit, function);
            let callees: Vec<Body> =
                callees.filter_map(|it| found.body_of_symbol(object, it)).collect();
            found.called_by_hidden.extend(callees);
        }
        found
    }

    fn find_taken(&self) -> Vec<Body> {
        let is_named = |&(object, function): &(Object, Func)| {
            let by_name = self.program.by_name(object, function);
            by_name.object || (by_name.exported && self.looks_up)
        };
        let mut taken: Vec<bool> = self.bodies.values().map(is_named).collect();
        let mut take = |object: Object, symbol: Sym| {
            if let Some(body) = self.body_of_symbol(object, symbol) {
                taken[backtrail_graph::Index::position(body)] = true;
            }
        };
        for (object, unit) in self.program.units() {
            mentioned(unit).into_iter().for_each(|symbol| take(object, symbol));
        }
        self.bodies.indices().filter(|&it| taken[backtrail_graph::Index::position(it)]).collect()
    }

    /// The functions whose code is in the program, but for those that hide what they do.
    pub fn bodies(&self) -> &IndexMap<Body, (Object, Func)> {
        &self.bodies
    }

    /// The function of a body.
    pub fn function(&self, body: Body) -> &'u Function {
        let (object, function) = self.bodies[body];
        let unit = self.program.unit(object).expect("bodies are of units");
        &unit.functions[function]
    }

    /// The linkage name of a body.
    pub fn name(&self, body: Body) -> Option<&'u str> {
        let (object, function) = self.bodies[body];
        let unit = self.program.unit(object)?;
        Some(&unit.symbols[unit.functions[function].symbol].name)
    }

    /// All names under which what is linked with it finds a body: its linkage name, and
    /// others ([`Program::names`]).
    pub fn names(&self, body: Body) -> impl Iterator<Item = &'p str> + use<'p, 'u> {
        let (object, function) = self.bodies[body];
        self.program.names(object, function)
    }

    /// Whether a call of a body may mean another function of one of these names, which are
    /// what other modules may define and be asked for first.
    pub fn is_preemptible(&self, body: Body, preemptible: &BTreeSet<String>) -> bool {
        let (object, function) = self.bodies[body];
        let unit = self.program.unit(object).expect("bodies are of units");
        let own = &unit.symbols[unit.functions[function].symbol];
        let is_shared = |name: &str| name != own.name || own.linkage != Linkage::Internal;
        self.names(body).any(|name| is_shared(name) && preemptible.contains(name))
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

    /// What a call of a symbol of a unit reaches.
    pub fn of_symbol(&self, object: Object, symbol: Sym) -> Target {
        match self.program.resolve(object, symbol) {
            Resolution::Function(found, function) => match self.body(found, function) {
                Some(body) => Target::Body(body),
                None => Target::Native(symbol),
            },
            Resolution::IFunc(..) => Target::Taken { arguments: None },
            Resolution::Native(native) => match &self.program.inputs()[native] {
                Input::Native(it) if !it.system => Target::Native(symbol),
                _ => Target::Unseen(symbol),
            },
            Resolution::Data(..)
            | Resolution::Elsewhere
            | Resolution::Null
            | Resolution::Discarded => Target::Unseen(symbol),
        }
    }

    /// Which code that cannot be observed refers to `body` by its name: what is not of the
    /// units ([`Program::by_name`]), and functions that hide what they do.
    pub fn by_name(&self, body: Body) -> ByName {
        let (object, function) = self.bodies[body];
        let by_name = self.program.by_name(object, function);
        ByName { object: by_name.object || self.called_by_hidden.contains(&body), ..by_name }
    }

    /// The function that the program begins with, if a unit has it.
    pub fn main(&self) -> Option<Body> {
        let seen = |(object, unit): (Object, &'u Unit)| {
            let symbols = unit
                .symbols
                .iter()
                .filter(|(_, it)| it.name == "main" && it.linkage != Linkage::Internal);
            symbols.filter_map(|(symbol, _)| self.body_of_symbol(object, symbol)).min()
        };
        self.program.units().find_map(seen)
    }

    /// The functions that what starts the program runs before `main`, or may.
    pub fn before_main(&self) -> BTreeSet<Body> {
        self.listed(&BEFORE_MAIN, &SECTIONS_BEFORE_MAIN)
    }

    /// The functions that run when the program ends, because a list says so.
    pub fn after_main(&self) -> BTreeSet<Body> {
        self.listed(&AFTER_MAIN, &SECTIONS_AFTER_MAIN)
    }

    /// The functions that data in these sections mentions, or data of these names, or data
    /// that the latter mentions and that is in no section that says when.
    fn listed(&self, names: &[&str], sections: &[&str]) -> BTreeSet<Body> {
        let mut found = BTreeSet::new();
        for (object, unit) in self.program.units() {
            let mut add = |listed: &[Sym]| {
                found.extend(listed.iter().filter_map(|&it| self.body_of_symbol(object, it)));
            };
            for list in unit.symbols.values() {
                let SymbolKind::Data { refers_to, .. } = &list.kind else { continue };
                if is_in(&list.kind, sections) {
                    add(refers_to);
                }
                if !names.contains(&&*list.name) {
                    continue;
                }
                for symbol in refers_to {
                    let kind = &unit.symbols[*symbol].kind;
                    match kind {
                        _ if is_in(kind, &SECTIONS_BEFORE_MAIN) => {}
                        _ if is_in(kind, &SECTIONS_AFTER_MAIN) => {}
                        SymbolKind::Data { refers_to, .. } => add(refers_to),
                        _ => add(std::slice::from_ref(symbol)),
                    }
                }
            }
        }
        found
    }

    /// The functions that code may enter which is not of the units or cannot be observed:
    /// what starts the program, whoever has the address, who refers to the name. What has
    /// the name of a library's function may be called by code that compilers make.
    pub fn entered_from_outside(&self) -> BTreeSet<Body> {
        let is_entered = |&body: &Body| {
            self.by_name(body).is_any() || self.names(body).any(|name| outside::of(name).is_some())
        };
        let mut found: BTreeSet<Body> = self.bodies.indices().filter(is_entered).collect();
        found.extend(self.taken());
        found.extend(self.main());
        found
    }

    /// Whether anything looks names up while the program runs, or loads code that does.
    pub fn looks_up(&self) -> bool {
        self.looks_up
    }

    /// The functions whose address is taken, in order.
    pub fn taken(&self) -> &[Body] {
        &self.taken
    }

    /// The functions whose address is taken and that take so many arguments, or less, in
    /// order.
    pub fn taken_with(&self, arguments: Option<u32>) -> impl Iterator<Item = Body> + '_ {
        self.taken.iter().copied().filter(move |&body| self.takes(body, arguments))
    }

    /// Whether a call by pointer with so many arguments may mean a function.
    pub fn takes(&self, body: Body, arguments: Option<u32>) -> bool {
        let function = self.function(body);
        let fits = |arguments| function.parameters <= arguments || function.traits.variadic;
        arguments.is_none_or(fits)
    }

    /// Who is called by the call `inst` of a function of `object`.
    pub fn target(
        &self,
        object: Object,
        function: &Function,
        inst: Inst,
        call: &CallData,
    ) -> Target {
        let taken = |given| Target::Taken { arguments: (!call.traits.variadic).then_some(given) };
        match call.callee {
            Callee::Asm | Callee::Intrinsic(_) => Target::Inline,
            Callee::Direct(symbol) => match self.of_symbol(object, symbol) {
                Target::Taken { .. } => taken(function.insts[inst].operand_count),
                target => target,
            },
            Callee::Indirect => taken(function.insts[inst].operand_count.saturating_sub(1)),
        }
    }
}

/// Whether it is data in one of these sections.
fn is_in(data: &SymbolKind, sections: &[&str]) -> bool {
    let SymbolKind::Data { section: Some(section), .. } = data else { return false };
    let is_one = |name: &&str| {
        section.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    sections.iter().any(is_one)
}

/// Whether a unit or an object refers to what looks names up (`dlsym`), or loads code that
/// may.
fn looks_up(program: &Program<'_>) -> bool {
    let is_one = |name: &str| outside::of(name).is_some_and(|row| row.looks_up || row.loads);
    program.inputs().iter().any(|(object, input)| match input {
        Input::Unit(unit) => unit.symbols.iter().any(|(symbol, data)| {
            matches!(data.kind, SymbolKind::ExternalFunction(_))
                && is_one(&program.external_name(object, symbol))
        }),
        Input::Native(native) => {
            !native.system && native.references.iter().any(|name| is_one(name))
        }
    })
}
