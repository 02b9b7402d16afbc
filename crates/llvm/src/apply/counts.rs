//! Counters, the sum of a path, and the check at a function's entry.
//!
//! See [`backtrail_abi::counts`] for where counters are. LLVM calls the `%gs`
//! segment address space 256: adding one to a counter is an ordinary load,
//! addition and store there, of which code generation makes one instruction, so
//! that a signal's handler that counts comes before it or behind it. Where code
//! is generated without optimisation it would be three; there it is assembly.
//!
//! The sum is a variable in the frame, which becomes a register afterwards. It
//! holds the address of a counter: adding to it costs what adding to a number
//! does, and the last step needs no base. Where a function jumps to computed
//! addresses it holds a number: in interpreters' loops, with many values alive,
//! small constants were measured to be cheaper (Lua's `luaV_execute`: 7 % more
//! instructions, against 10 %).
//!
//! The check is assembly: it needs no block of its own, so the function's shape
//! stays, and what it calls changes no register (nor does the way there: lazy
//! binding would change some). The red zone below the stack pointer is stepped
//! over.

use backtrail_abi::UnitId;
use backtrail_abi::counts::{
    ENTER_FUNCTION, MODULE_SYMBOL, ORDER_SYMBOL, OWNER_SYMBOL, UNIT_SYMBOL_PREFIX,
};
use backtrail_llvm_ffi::{Builder, Function, Global, Instruction, Module, Opcode, Type, Value};
use backtrail_plan::order::Turn;
use backtrail_plan::{Action, UnitPlan};

use super::{check_name, mark};
use crate::Error;

/// LLVM's number for addresses relative to `%gs`
/// (`X86AS::GS` in `llvm/lib/Target/X86/X86.h`).
const GS: u32 = 256;

/// What the counters of a unit have in common.
pub struct Counters<'m> {
    module: &'m Module<'m>,
    builder: Builder<'m>,
    counters: Option<Global<'m>>,
    check: String,
}

/// What is known of a function while probes are inserted.
pub struct Counting<'m> {
    /// Where its sum is.
    sum: Option<Sum<'m>>,
    /// Whether its code is generated with optimisation.
    optimised: bool,
}

impl Counting<'_> {
    /// Of a function to which no probe was added yet.
    pub fn new(optimised: bool) -> Self {
        Self { sum: None, optimised }
    }
}

/// A function's sum.
#[derive(Clone, Copy)]
struct Sum<'m> {
    /// Where it is in the frame.
    place: Value<'m>,
    /// Whether it is an address and not a number.
    is_address: bool,
}

impl<'m> Counters<'m> {
    /// Declares the counters, if `plan` has some.
    pub fn new(module: &'m Module<'m>, plan: &UnitPlan) -> Result<Self, Error> {
        let mut counters = None;
        let mut probes = plan.functions.iter().flat_map(|it| &it.probes);
        if probes.any(|it| matches!(it.action, Action::Enter | Action::Order(_))) {
            for name in [ENTER_FUNCTION, MODULE_SYMBOL, OWNER_SYMBOL, ORDER_SYMBOL] {
                check_name(module, name)?;
            }
        }
        if plan.counters > 0 {
            let name = format!("{UNIT_SYMBOL_PREFIX}{}", UnitId(plan.unit));
            check_name(module, &name)?;
            let content = module.array_type(module.int_type(64), plan.counters.into());
            counters = Some(module.declare_hidden(&name, content, GS)?);
        }
        // In `$0` the thread pointer, which the owner word should be.
        let check = format!(
            "movq %fs:0, $0\n\t\
             cmpq %gs:{OWNER_SYMBOL}(%rip), $0\n\t\
             je 1f\n\t\
             leaq -128(%rsp), %rsp\n\t\
             pushq %rdi\n\t\
             leaq {MODULE_SYMBOL}(%rip), %rdi\n\t\
             call *{ENTER_FUNCTION}@GOTPCREL(%rip)\n\t\
             popq %rdi\n\t\
             leaq 128(%rsp), %rsp\n\
             1:"
        );
        Ok(Self { module, builder: Builder::new(module), counters, check })
    }

    /// Inserts what `action` says before an instruction of `function`.
    pub fn insert(
        &self,
        function: Function<'m>,
        counting: &mut Counting<'m>,
        before: Instruction<'m>,
        action: Action,
    ) {
        let sum = match action {
            Action::SetSum(_) | Action::AddSum(_) | Action::CountSum(_) => {
                Some(*counting.sum.get_or_insert_with(|| self.add_sum(function)))
            }
            _ => None,
        };
        self.builder.go_before(before);
        let word = self.word();
        match (action, sum) {
            (Action::Enter, _) => {
                let clobbered = "=&r,~{memory},~{dirflag},~{fpsr},~{flags}";
                mark(function, self.builder.assembly(word, &self.check, clobbered));
            }
            (Action::Order(turn), _) => {
                let clobbered = "~{memory},~{dirflag},~{fpsr},~{flags}";
                let nothing = self.module.void_type();
                mark(function, self.builder.assembly(nothing, &order(turn), clobbered));
            }
            (Action::Count { counter }, _) => {
                self.count(function, counting, self.counter(counter.into()));
            }
            (Action::SetSum(value), Some(sum)) => {
                let new = if sum.is_address { self.counter(value) } else { self.number(value) };
                self.builder.store(new, sum.place);
            }
            (Action::AddSum(value), Some(sum)) => {
                let old = self.load(sum);
                let new = match sum.is_address {
                    true => self.builder.element(word, old, self.number(value)),
                    false => self.builder.add(old, self.number(value)),
                };
                self.builder.store(new, sum.place);
            }
            (Action::CountSum(value), Some(sum)) => {
                let old = self.load(sum);
                let place = match sum.is_address {
                    true => self.builder.element(word, old, self.number(value)),
                    false => self.builder.element(word, self.counter(value), old),
                };
                self.count(function, counting, place);
            }
            _ => unreachable!("other probes are inserted elsewhere, and sums were added"),
        }
    }

    /// The sum of the path under way and `add`, in a unit that does not count.
    pub fn sum(
        &self,
        function: Function<'m>,
        counting: &mut Counting<'m>,
        before: Instruction<'m>,
        add: i64,
    ) -> Value<'m> {
        let sum = *counting.sum.get_or_insert_with(|| self.add_sum(function));
        self.builder.go_before(before);
        let old = self.load(sum);
        if add == 0 { old } else { self.builder.add(old, self.number(add)) }
    }

    fn word(&self) -> Type<'m> {
        self.module.int_type(64)
    }

    fn number(&self, value: i64) -> Value<'m> {
        self.module.const_int(64, value.cast_unsigned())
    }

    /// The type of counters' addresses.
    fn address(&self) -> Type<'m> {
        self.module.pointer_type_in(GS)
    }

    /// The address of a counter.
    fn counter(&self, number: i64) -> Value<'m> {
        let counters = self.counters.expect("a plan that counts has counters");
        self.builder.element(self.word(), *counters, self.number(number))
    }

    /// Adds one to the counter at `place`.
    fn count(&self, function: Function<'m>, counting: &Counting<'m>, place: Value<'m>) {
        if !counting.optimised {
            let clobbered = "r,~{memory},~{dirflag},~{fpsr},~{flags}";
            mark(function, self.builder.assembly_with(place, "incq %gs:($0)", clobbered));
            return;
        }
        let word = self.word();
        let old = self.builder.load(word, place);
        let new = self.builder.add(old, self.number(1));
        self.builder.store(new, place);
    }

    fn load(&self, sum: Sum<'m>) -> Value<'m> {
        let content = if sum.is_address { self.address() } else { self.word() };
        self.builder.load(content, sum.place)
    }

    /// A place for the sum, at the start of the frame.
    fn add_sum(&self, function: Function<'m>) -> Sum<'m> {
        let is_computed = |it: Instruction<'m>| it.opcode() == Opcode::INDIRECT_BR;
        let mut ends = function.blocks().filter_map(|block| block.terminator());
        let is_address = self.counters.is_some() && !ends.any(is_computed);
        let entry = function.blocks().next().expect("a probed function has a body");
        let first = entry.instructions().next().expect("a block is not empty");
        self.builder.go_before(first);
        let content = if is_address { self.address() } else { self.word() };
        Sum { place: self.builder.alloca(content), is_address }
    }
}

/// What a function does to the order of entries. In place, so that no register is needed.
fn order(turn: Turn) -> String {
    let place = format!("%gs:{ORDER_SYMBOL}(%rip)");
    match turn {
        Turn::Add(add) => format!("addq $$0x{add:x}, {place}"),
        Turn::Flip(bits) => format!("xorq $$0x{bits:x}, {place}"),
        Turn::FlipAdd(bits, add) => {
            format!("xorq $$0x{bits:x}, {place}\n\taddq $$0x{add:x}, {place}")
        }
    }
}
