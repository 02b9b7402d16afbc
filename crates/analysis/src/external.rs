//! What calls do that lead out of the units.
//!
//! Code that is not of the units is of three kinds: libraries, of which it is known by
//! name what they do ([`backtrail_outside`]), libraries of which it is not, and objects of
//! the program's own that were linked as they are. The latter two may do everything: call
//! any function they can reach, end the run, leave frames.
//!
//! They can reach what is passed to them, what was left for them as a hook, what has its
//! address taken, and what they refer to by name ([`backtrail_ir::program::ByName`]): a
//! program's own `malloc` is called by the C library, its `operator new` by that of C++. A
//! function that a module exports can be reached by whoever looks names up; so if anything
//! does that, it counts as taken.
//!
//! An indirect call leads out of the units if the address of something else is known to
//! them: it is taken, it comes from an object, from a library of which nothing is known,
//! from a table of virtual functions that is elsewhere, or it is looked up by name.
//!
//! Asynchronous signals are not thought of: they are nondeterminism.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_ir::program::{Input, NativeObject, Object, Program, Resolution};
use backtrail_ir::{
    Callee, Function, Inst, Linkage, Op, Sym, Symbol, SymbolKind, Traits, Unit, Value,
};
use backtrail_outside::{self as outside, Class, Family, Member as _, Set, Source, Whom};

use crate::{Body, CallTargets, Target};

/// What code that is not of the units may do on behalf of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// Whom it may call.
    pub calls: CalledBack,
    /// Whom it keeps, to call them at some time.
    pub installs: CalledBack,
    /// Whether the run may end in it.
    pub ends: bool,
    /// Whether it may leave frames for a landing, by itself: not what it calls.
    pub leaves: bool,
    /// Whether it may return.
    pub returns: bool,
}

/// Which functions code that is not of the units may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CalledBack {
    /// These, which may be none.
    These(BTreeSet<Body>),
    /// All that it can reach ([`Externals::anyone`]).
    Anyone,
}

impl CalledBack {
    const NOBODY: Self = Self::These(BTreeSet::new());

    /// Whether it is nobody.
    pub fn is_nobody(&self) -> bool {
        *self == Self::NOBODY
    }

    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::These(mut these), Self::These(others)) => {
                these.extend(others);
                Self::These(these)
            }
            _ => Self::Anyone,
        }
    }
}

impl External {
    /// It returns, and does nothing else.
    pub const PLAIN: Self = Self {
        calls: CalledBack::NOBODY,
        installs: CalledBack::NOBODY,
        ends: false,
        leaves: false,
        returns: true,
    };

    /// Of which nothing is known.
    pub fn unknown(traits: Traits) -> Self {
        Self {
            calls: CalledBack::Anyone,
            installs: CalledBack::Anyone,
            ends: true,
            leaves: true,
            returns: !traits.no_return,
        }
    }

    /// Whether it is but a step.
    pub fn is_plain(&self) -> bool {
        self.calls.is_nobody() && !self.ends && !self.leaves && self.returns
    }

    fn or(self, other: Self) -> Self {
        Self {
            calls: self.calls.with(other.calls),
            installs: self.installs.with(other.installs),
            ends: self.ends || other.ends,
            leaves: self.leaves || other.leaves,
            returns: self.returns || other.returns,
        }
    }
}

/// What is known of the code that is not of the units.
#[derive(Debug, Clone)]
pub struct Externals<'p, 'u> {
    program: &'p Program<'u>,
    targets: &'p CallTargets<'p, 'u>,
    /// By kind of hook: what the program leaves.
    hooks: BTreeMap<Class, CalledBack>,
    /// What libraries call by name, with the names.
    replaced: Vec<(Body, &'p str)>,
    /// Of which families of functions some are defined by code of the program's own that
    /// is not of the units, and may call anyone.
    replaced_by_natives: Set<Family>,
    anyone: Vec<Body>,
    /// What code does that a pointer leads to out of the units, if there is any.
    pointers: Option<External>,
    /// Functions of the program's that stand for intrinsics on memory, by name.
    intrinsics: BTreeMap<&'static str, Body>,
    /// Functions of the program's that code generation calls for instructions.
    implied: BTreeSet<Body>,
    /// Functions of the program's that code generation calls where others begin or end.
    inserted: Vec<Body>,
}

/// Intrinsics that are calls of functions of these names, if nothing better is found.
const INTRINSICS: [&str; 3] = ["memcpy", "memmove", "memset"];

/// What intrinsics begin with that are no code.
const NO_CODE: [&str; 5] = ["dbg", "lifetime", "assume", "invariant", "experimental"];

/// Variables that are places in the linked file.
const MADE_BY_LINKERS: [&str; 21] = [
    "_DYNAMIC",
    "_GLOBAL_OFFSET_TABLE_",
    "__TMC_END__",
    "__bss_start",
    "__data_start",
    "__dso_handle",
    "__ehdr_start",
    "__etext",
    "__executable_start",
    "__fini_array_end",
    "__fini_array_start",
    "__init_array_end",
    "__init_array_start",
    "__preinit_array_end",
    "__preinit_array_start",
    "_edata",
    "_end",
    "_etext",
    "data_start",
    "edata",
    "end",
];

/// A function of the C++ library that does all that functions of it do.
const OF_CXX: &str = "_ZNSt8ios_base4InitC1Ev";

impl<'p, 'u> Externals<'p, 'u> {
    /// Looks through the program.
    pub fn new(program: &'p Program<'u>, targets: &'p CallTargets<'p, 'u>) -> Self {
        let mut found = Self {
            program,
            targets,
            hooks: BTreeMap::new(),
            replaced: Vec::new(),
            replaced_by_natives: replaced_by_natives(program),
            anyone: targets.taken().to_vec(),
            pointers: None,
            intrinsics: BTreeMap::new(),
            implied: BTreeSet::new(),
            inserted: Vec::new(),
        };
        for body in targets.bodies().indices() {
            let by_name = targets.by_name(body);
            if by_name.library || found.is_found_later(body) {
                found.replaced.extend(targets.names(body).map(|name| (body, name)));
            }
            if by_name.library || by_name.object || found.is_found_later(body) {
                found.anyone.push(body);
            }
            for name in targets.names(body) {
                if let Some(intrinsic) = INTRINSICS.into_iter().find(|it| *it == name) {
                    found.intrinsics.insert(intrinsic, body);
                }
                let row = outside::of(name).filter(|_| found.is_for_others(body, name));
                found.implied.extend(row.is_some_and(|it| it.implied).then_some(body));
                if row.is_some_and(|it| it.inserted) && found.inserted.last() != Some(&body) {
                    found.inserted.push(body);
                }
            }
        }
        found.anyone.sort_unstable();
        found.anyone.dedup();
        found.hooks = found.find_hooks();
        found.pointers = found.find_pointers();
        found
    }

    /// The functions that code which is not of the units can reach, in order.
    pub fn anyone(&self) -> &[Body] {
        &self.anyone
    }

    /// What is called back, spelled out.
    pub fn called(&self, calls: &CalledBack) -> BTreeSet<Body> {
        match calls {
            CalledBack::These(these) => these.clone(),
            CalledBack::Anyone => self.anyone.iter().copied().collect(),
        }
    }

    /// What the program leaves as hooks of this kind.
    pub fn hooks(&self, class: Class) -> BTreeSet<Body> {
        self.hooks.get(&class).map_or_else(BTreeSet::new, |calls| self.called(calls))
    }

    /// Whether the program may leave hooks of this kind.
    pub fn has_hooks(&self, class: Class) -> bool {
        self.hooks.contains_key(&class)
    }

    /// What other code refers to by name: it may run whenever other code does.
    pub fn named(&self) -> impl Iterator<Item = Body> + '_ {
        self.anyone.iter().copied().filter(|&body| {
            let by_name = self.targets.by_name(body);
            by_name.library || by_name.object || self.is_found_later(body)
        })
    }

    /// What is known of the functions of libraries that the units call or mention.
    pub fn rows(&self) -> impl Iterator<Item = &'static outside::Function> + '_ {
        self.program.units().flat_map(move |(object, unit)| {
            let externals = unit.symbols.iter();
            let externals =
                externals.filter(|(_, it)| matches!(it.kind, SymbolKind::ExternalFunction(_)));
            externals.filter_map(move |(symbol, _)| {
                outside::of(&self.program.external_name(object, symbol))
            })
        })
    }

    /// Whether activations may end anywhere, not only at calls: a handler of signals may
    /// leave for a landing, a thread be cancelled, and in the child of a fork there is
    /// nothing left of the other threads. A library that does this behind the program's
    /// back is not thought of.
    pub fn may_end_anywhere(&self) -> bool {
        let any = |is_wanted: fn(&outside::Function) -> bool| self.rows().any(is_wanted);
        let mut symbols = self.program.units().flat_map(|(_, unit)| unit.symbols.values());
        any(|row| row.cancels)
            || symbols.any(|symbol| symbol.name == "llvm.eh.sjlj.longjmp")
            || (any(|row| row.forks && !row.vforks) && any(|row| row.starts_threads))
            || (self.has_hooks(Class::Signal) && any(jumps))
    }

    /// What the code that is not of the units may do when `inst` of a function of `object`
    /// calls `target`; none if no such code is called.
    pub fn of_call(
        &self,
        object: Object,
        function: &Function,
        inst: Inst,
        target: &Target,
        traits: Traits,
    ) -> Option<External> {
        match target {
            Target::Body(_) => None,
            Target::Inline => self.of_intrinsic(object, function, inst),
            Target::Native(_) => Some(External::unknown(traits)),
            Target::Unseen(symbol) => {
                let name = self.program.external_name(object, *symbol);
                Some(self.of_row(&name, traits, Some((object, function, inst))))
            }
            // What remembers where it was called does nothing else.
            Target::Taken { .. } if traits.returns_twice => Some(External::PLAIN),
            Target::Taken { arguments } => match &self.pointers {
                Some(pointers) => Some(External { returns: !traits.no_return, ..pointers.clone() }),
                None if self.targets.taken_with(*arguments).next().is_some() => None,
                None => Some(External::unknown(traits)),
            },
        }
    }

    /// What an instruction does that is no call in the program, if code generation may make
    /// a call of it that leads to a function of the program's own.
    ///
    /// Which instructions those are depends on their types and the machine, which the model
    /// does not have: any that computes, or works on memory as a whole.
    pub fn of_instruction(&self, op: &Op) -> Option<External> {
        let may_call = match op {
            Op::Compute { .. } | Op::Compare | Op::AtomicUpdate(_) => true,
            Op::Load(access) | Op::Store(access) => access.atomic,
            _ => false,
        };
        (may_call && !self.implied.is_empty()).then(|| self.implied())
    }

    fn implied(&self) -> External {
        External { calls: CalledBack::These(self.implied.clone()), ..External::PLAIN }
    }

    /// What code generation calls where functions begin or end: it may run anywhere.
    pub fn inserted(&self) -> &[Body] {
        &self.inserted
    }

    /// Functions of the program's that code generation calls, wherever.
    pub fn by_code_generation(&self) -> impl Iterator<Item = Body> + '_ {
        self.implied.iter().chain(&self.inserted).copied()
    }

    /// Code generators call the program's own functions for some intrinsics.
    fn of_intrinsic(&self, object: Object, function: &Function, inst: Inst) -> Option<External> {
        let call = function.insts[inst].op.call()?;
        let symbol = match call.callee {
            Callee::Intrinsic(symbol) => symbol,
            Callee::Asm => return self.of_assembly(object, function, inst),
            _ => return None,
        };
        let name = &self.unit(object).symbols[symbol].name;
        let name = name.strip_prefix("llvm.")?.split('.').next()?;
        if INTRINSICS.contains(&name) {
            let body = *self.intrinsics.get(name)?;
            return Some(External { calls: CalledBack::These([body].into()), ..External::PLAIN });
        }
        (!self.implied.is_empty() && !NO_CODE.contains(&name)).then(|| self.implied())
    }

    /// Assembly may call what it names.
    fn of_assembly(&self, object: Object, function: &Function, inst: Inst) -> Option<External> {
        let mut named = BTreeSet::new();
        for operand in function.operands_of(&function.insts[inst]) {
            let symbols = match operand {
                Value::Symbol(symbol, _) => std::slice::from_ref(symbol),
                Value::Expr(symbols) => &symbols[..],
                _ => continue,
            };
            named.extend(symbols.iter().filter_map(|&it| self.targets.body_of_symbol(object, it)));
        }
        let calls = CalledBack::These(named);
        (!calls.is_nobody()).then_some(External { calls, ..External::PLAIN })
    }

    /// What a function of a library does, by its name; where it is called, if it is.
    fn of_row(
        &self,
        name: &str,
        traits: Traits,
        place: Option<(Object, &Function, Inst)>,
    ) -> External {
        let row = outside::of(name);
        if traits.returns_twice || row.is_some_and(|row| row.returns_twice) {
            // `setjmp` and `vfork` remember where they were called, no more.
            return External::PLAIN;
        }
        let Some(row) = row.filter(|row| !row.anything) else { return External::unknown(traits) };
        let sources = |from: &mut dyn Iterator<Item = Source>| {
            from.fold(CalledBack::NOBODY, |found, source| found.with(self.source(source, place)))
        };
        let mut calls = match &row.calls {
            Whom::Nobody => CalledBack::NOBODY,
            Whom::Arguments(all) => sources(&mut all.iter().map(|&it| Source::Argument(it))),
            Whom::Taken => self.taken(),
            Whom::Anyone => CalledBack::Anyone,
        };
        for class in row.runs.iter() {
            // Handlers come anywhere, and are seen by themselves.
            if class == Class::Signal && !row.signals {
                continue;
            }
            if let Some(hooks) = self.hooks.get(&class) {
                calls = calls.with(hooks.clone());
            }
        }
        let replaced = self.replaced.iter().filter(|(_, name)| row.may_call_by_name(name));
        calls = calls.with(CalledBack::These(replaced.map(|(body, _)| *body).collect()));
        if !row.by_name.common(self.replaced_by_natives).is_empty() {
            calls = CalledBack::Anyone;
        }
        let mut from = row.installs.iter().flat_map(|it| it.from.iter().copied());
        External {
            installs: sources(&mut from),
            calls,
            ends: row.ends || row.execs || row.signals,
            // What a handler does, it does here.
            leaves: row.leaves || (row.signals && self.has_hooks(Class::Signal)),
            returns: row.returns && !traits.no_return,
        }
    }

    fn taken(&self) -> CalledBack {
        CalledBack::These(self.targets.taken().iter().copied().collect())
    }

    /// The functions that come by way of an argument of a call, or that may.
    fn source(&self, source: Source, place: Option<(Object, &Function, Inst)>) -> CalledBack {
        let (Source::Argument(number), Some((object, function, inst))) = (source, place) else {
            return self.taken();
        };
        let operands = function.operands_of(&function.insts[inst]);
        match operands.get(usize::from(number)) {
            // A null pointer.
            None | Some(Value::Opaque | Value::Int(_)) => CalledBack::NOBODY,
            Some(Value::Symbol(symbol, _)) => self.passed(object, *symbol),
            Some(_) => {
                // It may have been given anything whose address is known.
                let pointers = self.pointers.as_ref().map(|it| it.calls.clone());
                self.taken().with(pointers.unwrap_or(CalledBack::NOBODY))
            }
        }
    }

    /// What a call of the function that a symbol means runs of the units.
    fn passed(&self, object: Object, symbol: Sym) -> CalledBack {
        if let Some(body) = self.targets.body_of_symbol(object, symbol) {
            return CalledBack::These([body].into());
        }
        match self.targets.of_symbol(object, symbol) {
            Target::Unseen(symbol) => {
                let name = self.program.external_name(object, symbol);
                self.of_row(&name, Traits::default(), None).calls
            }
            Target::Native(_) => CalledBack::Anyone,
            _ => self.taken(),
        }
    }

    /// What the program leaves for libraries to call.
    fn find_hooks(&self) -> BTreeMap<Class, CalledBack> {
        let mut hooks: BTreeMap<Class, CalledBack> = BTreeMap::new();
        let mut add = |class: Class, more: CalledBack| {
            let known = hooks.remove(&class).unwrap_or(CalledBack::NOBODY);
            hooks.insert(class, known.with(more));
        };
        for &(object, function) in self.targets.bodies().values() {
            let unit = self.unit(object);
            let function = &unit.functions[function];
            for (inst, data) in function.insts.iter() {
                let Some(Callee::Direct(symbol)) = data.op.call().map(|call| &call.callee) else {
                    continue;
                };
                let Target::Unseen(symbol) = self.targets.of_symbol(object, *symbol) else {
                    continue;
                };
                let name = self.program.external_name(object, symbol);
                let Some(row) = outside::of(&name) else { continue };
                for installs in &row.installs {
                    for &source in &installs.from {
                        let place = Some((object, function, inst));
                        add(installs.class, self.source(source, place));
                    }
                }
            }
        }
        // What is installed otherwise than by calling a function of a library by its name.
        for (object, unit) in self.program.units() {
            for symbol in mentioned(unit) {
                let data = &unit.symbols[symbol];
                let name = self.program.external_name(object, symbol);
                match (&data.kind, self.targets.of_symbol(object, symbol)) {
                    (SymbolKind::ExternalFunction(_), Target::Unseen(_)) => {
                        if let Some(row) = outside::of(&name) {
                            let classes = row.installs.iter().map(|it| it.class);
                            classes.for_each(|class| add(class, self.taken()));
                        }
                    }
                    (SymbolKind::Data { defined: false, .. }, _) => {
                        let variable = outside::hooks_through(&name);
                        let installs = variable.into_iter().flat_map(|it| &it.installs);
                        installs.for_each(|it| add(it.class, self.taken()));
                    }
                    _ => {}
                }
            }
        }
        let calls_unknown = self.calls_unknown();
        for native in self.program.inputs().values().filter_map(native) {
            // A library that runs the program's code in threads of its own, or when
            // signals come, is met as what it is: something that was not thought of.
            let is_own = !native.system;
            let classes = native.references.iter().flat_map(|name| installed_by(name));
            for class in classes {
                let is_apart = matches!(class, Class::Thread | Class::Signal);
                if is_own || (calls_unknown && !is_apart) {
                    add(class, CalledBack::Anyone);
                }
            }
        }
        if calls_unknown && self.program.has_unknown() {
            let all = Class::ALL.iter().filter(|it| !matches!(it, Class::Thread | Class::Signal));
            all.for_each(|&class| add(class, CalledBack::Anyone));
        }
        for body in self.targets.bodies().indices() {
            for class in self.targets.names(body).filter_map(outside::entered) {
                add(class, CalledBack::These([body].into()));
            }
        }
        hooks
    }

    /// Whether a library is called of which nothing is known.
    fn calls_unknown(&self) -> bool {
        self.program.units().any(|(object, unit)| {
            unit.symbols.iter().any(|(symbol, data)| {
                matches!(data.kind, SymbolKind::ExternalFunction(_))
                    && !data.name.starts_with("llvm.")
                    && self.targets.of_symbol(object, symbol) == Target::Unseen(symbol)
                    && self.is_unknown(object, symbol)
            })
        })
    }

    fn is_unknown(&self, object: Object, symbol: Sym) -> bool {
        let name = self.program.external_name(object, symbol);
        outside::of(&name).is_none_or(|row| row.anything)
    }

    /// What code does that a pointer leads to out of the units.
    fn find_pointers(&self) -> Option<External> {
        // One that knows a variable of the units may put the address of its own code there.
        let defined = self.defined();
        let knows = |name: &String| defined.contains(name.as_str());
        let is_met = |it: &NativeObject| {
            !it.system && (!it.definitions.is_empty() || it.references.iter().any(knows))
        };
        let has_natives = self.program.inputs().values().filter_map(native).any(is_met);
        if has_natives || self.targets.looks_up() || self.calls_unknown() {
            return Some(External::unknown(Traits::default()));
        }
        let mut found: Option<External> = None;
        for (object, unit) in self.program.units() {
            for symbol in mentioned(unit) {
                let data = &unit.symbols[symbol];
                let more = match &data.kind {
                    SymbolKind::ExternalFunction(traits) => {
                        match self.targets.of_symbol(object, symbol) {
                            Target::Unseen(_) => {
                                let name = self.program.external_name(object, symbol);
                                self.of_row(&name, *traits, None)
                            }
                            Target::Native(_) => External::unknown(*traits),
                            _ => continue,
                        }
                    }
                    // What it does is not seen.
                    SymbolKind::Function(function)
                        if self.targets.body(object, *function).is_none()
                            && self.targets.body_of_symbol(object, symbol).is_none() =>
                    {
                        External::unknown(Traits::default())
                    }
                    SymbolKind::Data { .. } if self.is_elsewhere(object, symbol) => {
                        match self.code_behind(&self.program.external_name(object, symbol)) {
                            None => continue,
                            Some(more) => more,
                        }
                    }
                    _ => continue,
                };
                found = Some(match found {
                    None => more,
                    Some(found) => found.or(more),
                });
            }
        }
        found
    }

    /// What the code does whose addresses a variable of others may hold.
    fn code_behind(&self, name: &str) -> Option<External> {
        // Places that linkers name, and what only the C++ library's own code looks into.
        let harmless = ["__start_", "__stop_", "_ZTI", "_ZTS", "_ZTVN10__cxxabiv1"];
        if MADE_BY_LINKERS.contains(&name)
            || harmless.iter().any(|it| name.starts_with(it))
            || outside::variable(name).is_some()
        {
            return None;
        }
        // Streams and locales of the C++ library have tables of its functions.
        let is_of_library = !name.starts_with("_ZTV") && Family::Cxx.has(name);
        Some(match is_of_library {
            true => self.of_row(OF_CXX, Traits::default(), None),
            false => External::unknown(Traits::default()),
        })
    }

    /// The names that units define for others.
    fn defined(&self) -> BTreeSet<&'u str> {
        let symbols = self.program.units().flat_map(|(_, unit)| unit.symbols.values());
        let is_defined = |it: &&Symbol| {
            it.linkage != Linkage::Internal
                && match it.kind {
                    SymbolKind::Data { defined, .. } => defined,
                    SymbolKind::ExternalFunction(_) => false,
                    _ => true,
                }
        };
        symbols.filter(is_defined).map(|it| &*it.name).collect()
    }

    /// Whether what the C library loads while the program runs, for encodings, names of
    /// hosts or unwinding, finds a function that it asks for by name: it asks for what
    /// libraries have, and nothing of it is known when the program is linked.
    fn is_found_later(&self, body: Body) -> bool {
        let mut names = self.targets.names(body);
        self.targets.by_name(body).exported && names.any(|name| outside::of(name).is_some())
    }

    /// Whether other objects can call a function by one of its names.
    fn is_for_others(&self, body: Body, name: &str) -> bool {
        let (object, function) = self.targets.bodies()[body];
        let unit = self.unit(object);
        let own = &unit.symbols[unit.functions[function].symbol];
        own.name != name || own.linkage != Linkage::Internal
    }

    fn is_elsewhere(&self, object: Object, symbol: Sym) -> bool {
        !matches!(
            self.program.resolve(object, symbol),
            Resolution::Data(..) | Resolution::Function(..) | Resolution::Discarded
        )
    }

    fn unit(&self, object: Object) -> &'u Unit {
        self.program.unit(object).expect("bodies are of units")
    }
}

/// The families of functions of libraries that the program's own objects and libraries
/// without units define, or assembly at module level.
fn replaced_by_natives(program: &Program<'_>) -> Set<Family> {
    let own = program.inputs().values().filter_map(native).filter(|native| !native.system);
    // What the linker is told that a name means is looked for by that name.
    let defined = own.flat_map(|it| &it.definitions).filter(|it| it.means.is_none());
    let defined: Vec<&str> = defined.map(|it| &*it.name).collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
    let assembly = program.units().flat_map(|(_, unit)| unit.module_asm.split(|c| !is_name(c)));
    let names: Vec<&str> =
        defined.into_iter().chain(assembly).filter(|it| !it.is_empty()).collect();
    let has = |family: &Family| names.iter().any(|name| family.has(name));
    Family::ALL.iter().copied().filter(has).collect()
}

fn native<'a>(input: &'a Input<'_>) -> Option<&'a NativeObject> {
    match input {
        Input::Native(native) => Some(native),
        Input::Unit(_) => None,
    }
}

/// The kinds of hooks that the function of a library of this name leaves, or that come
/// through the variable.
fn installed_by(name: &str) -> impl Iterator<Item = Class> {
    let function = outside::of(name).into_iter().flat_map(|it| &it.installs);
    let variable = outside::hooks_through(name).into_iter().flat_map(|it| &it.installs);
    function.chain(variable).map(|it| it.class)
}

/// The symbols that a unit mentions otherwise than by calling them, or by having the loader
/// call them.
pub(crate) fn mentioned(unit: &Unit) -> BTreeSet<Sym> {
    let mut found = BTreeSet::new();
    for symbol in unit.symbols.values() {
        match &symbol.kind {
            SymbolKind::Data { refers_to, .. } => found.extend(refers_to),
            SymbolKind::Alias { target } => found.extend(*target),
            _ => {}
        }
    }
    for value in unit.functions.values().flat_map(|function| &function.operands) {
        match value {
            Value::Symbol(symbol, _) => drop(found.insert(*symbol)),
            Value::Expr(symbols) => found.extend(symbols),
            _ => {}
        }
    }
    found
}

/// What jumps to a landing or ends its thread: so can handlers of signals, which exceptions
/// cannot leave.
pub fn jumps(row: &outside::Function) -> bool {
    row.leaves && (row.anything || row.cancels || !row.returns && !row.runs.has(Class::Exception))
}
