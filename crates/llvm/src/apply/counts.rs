//! Counters, the sum of a path, and the check at a function's entry.
//!
//! See [`backtrail_abi::counts`] for where counters are. LLVM calls the `%gs`
//! segment address space 256: adding one to a counter is an ordinary load,
//! addition and store there, of which code generation makes one instruction.
//!
//! The sum is a variable in the frame, which becomes a register afterwards.
//!
//! The check is assembly: it needs no block of its own, so the function's shape
//! stays, and what it calls changes no register. The red zone below the stack
//! pointer is stepped over.

use backtrail_abi::UnitId;
use backtrail_abi::counts::{ENTER_FUNCTION, MODULE_SYMBOL, OWNER_SYMBOL, UNIT_SYMBOL_PREFIX};
use backtrail_llvm_ffi::{Builder, Function, Global, Instruction, Module, Type, Value};
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

/// What is known of a function while probes are inserted: where its sum is.
#[derive(Default)]
pub struct Counting<'m> {
    sum: Option<Value<'m>>,
}

impl<'m> Counters<'m> {
    /// Declares the counters, if `plan` has some.
    pub fn new(module: &'m Module<'m>, plan: &UnitPlan) -> Result<Self, Error> {
        let mut counters = None;
        if plan.counters > 0 {
            let name = format!("{UNIT_SYMBOL_PREFIX}{}", UnitId(plan.unit));
            for name in [&name[..], ENTER_FUNCTION, MODULE_SYMBOL, OWNER_SYMBOL] {
                check_name(module, name)?;
            }
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
             call {ENTER_FUNCTION}@PLT\n\t\
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
            Action::SetSum(_) | Action::AddSum(_) | Action::CountPath { .. } => {
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
            (Action::Count { counter }, _) => self.count(self.number(counter.into()), None),
            (Action::SetSum(value), Some(sum)) => {
                self.builder.store(self.number(value), sum);
            }
            (Action::AddSum(value), Some(sum)) => {
                let old = self.builder.load(word, sum);
                let new = self.builder.add(old, self.number(value));
                self.builder.store(new, sum);
            }
            (Action::CountPath { first, add }, Some(sum)) => {
                let fixed = i64::from(first).wrapping_add(add);
                let path = self.builder.load(word, sum);
                self.count(self.number(fixed), Some(path));
            }
            _ => unreachable!("blocks are logged elsewhere, and sums were added"),
        }
    }

    fn word(&self) -> Type<'m> {
        self.module.int_type(64)
    }

    fn number(&self, value: i64) -> Value<'m> {
        self.module.const_int(64, value.cast_unsigned())
    }

    /// Adds one to the counter `fixed + variable`.
    fn count(&self, fixed: Value<'m>, variable: Option<Value<'m>>) {
        let word = self.word();
        let counters = self.counters.expect("a plan that counts has counters");
        let mut place = self.builder.element(word, *counters, fixed);
        if let Some(variable) = variable {
            place = self.builder.element(word, place, variable);
        }
        let old = self.builder.load(word, place);
        let new = self.builder.add(old, self.number(1));
        self.builder.store(new, place);
    }

    /// A place for the sum, at the start of the frame.
    fn add_sum(&self, function: Function<'m>) -> Value<'m> {
        let entry = function.blocks().next().expect("a probed function has a body");
        let first = entry.instructions().next().expect("a block is not empty");
        self.builder.go_before(first);
        self.builder.alloca(self.word())
    }
}
