//! The block log.
//!
//! A unit gets one [`Descriptor`](backtrail_abi::log::Descriptor), and each
//! logged block a call of [`LOG_FUNCTION`] with it, as early as LLVM allows:
//! behind phis and landing pads and, in the entry block, behind the allocas that
//! stand at its start, which thereby stay at the start of the frame. Where numbers
//! are given before the program runs, a probe takes a slot of the log by itself. What
//! says which activations blocks are of are calls, too ([`Activations`]).

use backtrail_abi::frames::{
    ALIGNMENT_BITS, BEGIN_FUNCTION, END_FUNCTION, RESUME_FUNCTION, SAY_FUNCTION,
};
use backtrail_abi::log::{
    COUNT, INTERRUPT_FUNCTION, LAND_FUNCTION, LOG_FUNCTION, NOTE_FUNCTION, PATH_BITS, SEGMENT,
    STATE_DEPTH, STATE_WORD, THREAD_VARIABLE,
};
use backtrail_llvm_ffi::{Builder, Function, Global, Instruction, Module, Type, Value};
use backtrail_plan::{Action, UnitPlan};

use super::{check_name, mark};
use crate::Error;

/// The name of a unit's descriptor.
const DESCRIPTOR: &str = "__backtrail_descriptor";

/// What calls of the log function have in common, if there are any.
pub struct LogCalls<'m>(Option<Calls<'m>>);

struct Calls<'m> {
    module: &'m Module<'m>,
    builder: Builder<'m>,
    function: Function<'m>,
    land: Option<Function<'m>>,
    interrupt: Option<Function<'m>>,
    descriptor: Global<'m>,
    first_event: Option<u32>,
}

impl<'m> LogCalls<'m> {
    /// Adds what the calls need, if `plan` has such probes.
    pub fn new(module: &'m Module<'m>, plan: &UnitPlan) -> Result<Self, Error> {
        let mut probes = plan.functions.iter().flat_map(|it| &it.probes);
        if !probes.any(|it| is_logged(it.action)) {
            return Ok(Self(None));
        }
        let function = declare(module, LOG_FUNCTION, signature(module))?;
        let mut probes = plan.functions.iter().flat_map(|it| &it.probes);
        let land = match probes.any(|it| matches!(it.action, Action::Land { .. })) {
            true => Some(declare(module, LAND_FUNCTION, land_signature(module))?),
            false => None,
        };
        let mut probes = plan.functions.iter().flat_map(|it| &it.probes);
        let interrupt = match probes.any(|it| matches!(it.action, Action::Interrupt { .. })) {
            true => Some(declare(module, INTERRUPT_FUNCTION, interrupt_signature(module))?),
            false => None,
        };
        // Laid out as `backtrail_abi::log::Descriptor`.
        let content = module.const_struct(&[
            module.const_bytes(&plan.unit),
            module.const_int(32, plan.events.unwrap_or(plan.blocks).into()),
            module.const_int(32, plan.first_event.unwrap_or(0).into()),
        ]);
        let descriptor = module.add_variable(DESCRIPTOR, content.ty())?;
        descriptor.set_initializer(content);
        descriptor.set_internal();
        descriptor.set_alignment(align_of::<backtrail_abi::log::Descriptor>() as u32);
        let (builder, first_event) = (Builder::new(module), plan.first_event);
        let calls = Calls { module, builder, function, land, interrupt, descriptor, first_event };
        Ok(Self(Some(calls)))
    }

    /// Inserts a call that logs block `number`.
    pub fn insert(&self, function: Function<'m>, before: Instruction<'m>, number: u32) {
        let calls = self.0.as_ref().expect("the plan was searched for such probes");
        if let Some(first) = calls.first_event {
            let event = calls.module.const_int(64, (first + number).into());
            return calls.take_slot(function, before, event);
        }
        let arguments = [*calls.descriptor, calls.module.const_int(32, number.into())];
        let signature = signature(calls.module);
        let call = calls.builder.call_before(before, calls.function, signature, &arguments);
        mark(function, call);
    }

    /// Inserts a call that logs block `number`, with which an activation begins whose
    /// eight bytes are at `frame`.
    pub fn begin(
        &self,
        function: Function<'m>,
        before: Instruction<'m>,
        number: u32,
        frame: Value<'m>,
    ) -> Result<(), Error> {
        let calls = self.0.as_ref().expect("the plan was searched for such probes");
        let module = calls.module;
        let number = module.const_int(32, number.into());
        let arguments = [*calls.descriptor, number, frame];
        let kinds = arguments.map(|it| it.ty());
        let signature = module.function_type(module.void_type(), &kinds);
        let begin = declare(module, BEGIN_FUNCTION, signature)?;
        mark(function, calls.builder.call_before(before, begin, signature, &arguments));
        Ok(())
    }

    /// Inserts what logs an event that is computed.
    pub fn insert_event(&self, function: Function<'m>, before: Instruction<'m>, event: Value<'m>) {
        let calls = self.0.as_ref().expect("the plan was searched for such probes");
        calls.take_slot(function, before, event);
    }

    /// Inserts what logs a count of iterations and a path, both in one sum.
    pub fn insert_counted(
        &self,
        function: Function<'m>,
        before: Instruction<'m>,
        sum: Value<'m>,
        first: u32,
    ) {
        let calls = self.0.as_ref().expect("the plan was searched for such probes");
        calls.take_slots(function, before, sum, first);
    }

    /// Inserts a call that logs where a frame resumes, which remembers its depth
    /// at `depth`.
    pub fn land(
        &self,
        function: Function<'m>,
        before: Instruction<'m>,
        (number, depths): (u32, u32),
        depth: Value<'m>,
    ) {
        let calls = self.0.as_ref().expect("the plan was searched for such probes");
        let land = calls.land.expect("the plan was searched for such probes");
        let module = calls.module;
        calls.builder.go_before(before);
        let depth = calls.builder.load(module.int_type(64), depth);
        let numbers = [number, depths].map(|it| module.const_int(32, it.into()));
        let arguments = [*calls.descriptor, numbers[0], numbers[1], depth];
        let call = calls.builder.call_before(before, land, land_signature(module), &arguments);
        mark(function, call);
    }
}

/// Says where it is kept where a function returns to.
const RETURN_ADDRESS: &str = "llvm.addressofreturnaddress.p0";

impl<'m> LogCalls<'m> {
    /// Inserts a call that logs `number` if the kernel called the function.
    pub fn interrupt(
        &self,
        function: Function<'m>,
        before: Instruction<'m>,
        number: u32,
    ) -> Result<(), Error> {
        let calls = self.0.as_ref().expect("the plan was searched for such probes");
        let interrupt = calls.interrupt.expect("the plan was searched for such probes");
        let module = calls.module;
        let kind = module.function_type(module.pointer_type(), &[]);
        let address = match module.function(RETURN_ADDRESS) {
            Some(address) => address,
            None => module.add_function(RETURN_ADDRESS, kind)?,
        };
        let address = calls.builder.call_before(before, address, kind, &[]);
        mark(function, address);
        let number = module.const_int(32, number.into());
        let arguments = [*calls.descriptor, number, **address];
        let signature = interrupt_signature(module);
        let call = calls.builder.call_before(before, interrupt, signature, &arguments);
        mark(function, call);
        Ok(())
    }
}

/// Takes a slot of the log in registers 0 and 1, the last of which is its address
/// then, or goes to `slow`.
fn take_slot(slow: &str) -> String {
    format!(
        "movq %fs:{THREAD_VARIABLE}@tpoff, $0\n\t\
         testq $0, $0\n\t\
         je {slow}\n\t\
         movl $$4, ${{1:k}}\n\t\
         xaddq $1, {STATE_WORD}($0)\n\t\
         testl $${SEGMENT}, ${{1:k}}\n\t\
         je {slow}"
    )
}

/// Logs what `set` puts into `%edi`, without a slot.
fn note(set: &str) -> String {
    format!(
        "leaq -128(%rsp), %rsp\n\t\
         pushq %rdi\n\t\
         {set}\n\t\
         call {NOTE_FUNCTION}\n\t\
         popq %rdi\n\t\
         leaq 128(%rsp), %rsp"
    )
}

/// What such assembly changes besides its registers.
const CHANGED: &str = "~{memory},~{dirflag},~{fpsr},~{flags}";

impl<'m> Calls<'m> {
    /// Inserts what takes a slot of the log and fills it. What happens when there
    /// is none is out of the way, in another part of the section.
    fn take_slot(&self, function: Function<'m>, before: Instruction<'m>, event: Value<'m>) {
        let (take, note) = (take_slot("2f"), note("movl ${2:k}, %edi"));
        let text = format!(
            "{take}\n\t\
             movl ${{2:k}}, ($1)\n\
             1:\n\t\
             .subsection 1\n\
             2:\n\t\
             {note}\n\t\
             jmp 1b\n\t\
             .subsection 0"
        );
        self.assemble(function, before, (event, 2), &text, "=&r,=&r,ri");
    }

    /// Inserts the same for what a sum has in its lower bits, and before it for
    /// what it has above them, if that is something.
    fn take_slots(
        &self,
        function: Function<'m>,
        before: Instruction<'m>,
        sum: Value<'m>,
        first: u32,
    ) {
        let (take, note_path) = (take_slot("2f"), note("movl ${2:k}, %edi"));
        let take_digit = take_slot("7f");
        let note_digit = note(&format!("movl ${{2:k}}, %edi\n\torl $${COUNT}, %edi"));
        let text = format!(
            "movq $3, $2\n\t\
             shrq $${PATH_BITS}, $2\n\t\
             jne 4f\n\
             5:\n\t\
             movzwl ${{3:w}}, ${{2:k}}\n\t\
             addl $${first}, ${{2:k}}\n\t\
             {take}\n\t\
             movl ${{2:k}}, ($1)\n\
             1:\n\t\
             .subsection 1\n\
             2:\n\t\
             {note_path}\n\t\
             jmp 1b\n\
             4:\n\t\
             {take_digit}\n\t\
             movl ${{2:k}}, ${{0:k}}\n\t\
             orl $${COUNT}, ${{0:k}}\n\t\
             movl ${{0:k}}, ($1)\n\
             6:\n\t\
             shrq $$31, $2\n\t\
             jne 4b\n\t\
             jmp 5b\n\
             7:\n\t\
             {note_digit}\n\t\
             jmp 6b\n\t\
             .subsection 0"
        );
        const _: () = assert!(PATH_BITS == 16, "the lower half of a register's lower half");
        self.assemble(function, before, (sum, 3), &text, "=&r,=&r,=&r,r");
    }

    fn assemble(
        &self,
        function: Function<'m>,
        before: Instruction<'m>,
        (value, results): (Value<'m>, usize),
        text: &str,
        operands: &str,
    ) {
        let words = vec![self.module.const_int(64, 0); results];
        let results = self.module.const_struct(&words).ty();
        let constraints = format!("{operands},{CHANGED}");
        self.builder.go_before(before);
        mark(function, self.builder.assembly_between(value, results, text, &constraints));
    }
}

/// Whether a probe logs something.
fn is_logged(action: Action) -> bool {
    matches!(
        action,
        Action::Log { .. }
            | Action::Begin { .. }
            | Action::Land { .. }
            | Action::Interrupt { .. }
            | Action::LogSum(_)
            | Action::LogCountedSum { .. }
    )
}

/// What tells activations apart: see [`backtrail_abi::frames`].
pub struct Activations<'m> {
    module: &'m Module<'m>,
    builder: Builder<'m>,
}

impl<'m> Activations<'m> {
    /// For functions of `module`.
    pub fn new(module: &'m Module<'m>) -> Self {
        Self { module, builder: Builder::new(module) }
    }

    /// The eight bytes in a function's frame.
    pub fn place(&self, function: Function<'m>) -> Value<'m> {
        place_in_frame(&self.builder, function, self.module.int_type(64), 1 << ALIGNMENT_BITS)
    }

    /// Inserts a call that says that the activation goes on.
    pub fn resume(
        &self,
        function: Function<'m>,
        before: Instruction<'m>,
        frame: Value<'m>,
    ) -> Result<(), Error> {
        self.call(function, before, RESUME_FUNCTION, frame)
    }

    /// Inserts a call that says that the activation ends.
    pub fn end(
        &self,
        function: Function<'m>,
        before: Instruction<'m>,
        frame: Value<'m>,
    ) -> Result<(), Error> {
        self.call(function, before, END_FUNCTION, frame)
    }

    /// Inserts a call that logs a word.
    pub fn say(
        &self,
        function: Function<'m>,
        before: Instruction<'m>,
        word: u32,
    ) -> Result<(), Error> {
        self.call(function, before, SAY_FUNCTION, self.module.const_int(32, word.into()))
    }

    fn call(
        &self,
        function: Function<'m>,
        before: Instruction<'m>,
        name: &str,
        argument: Value<'m>,
    ) -> Result<(), Error> {
        let module = self.module;
        let signature = module.function_type(module.void_type(), &[argument.ty()]);
        let callee = declare(module, name, signature)?;
        mark(function, self.builder.call_before(before, callee, signature, &[argument]));
        Ok(())
    }
}

/// A variable in a function's frame, aligned to so many bytes.
fn place_in_frame<'m>(
    builder: &Builder<'m>,
    function: Function<'m>,
    content: Type<'m>,
    alignment: u32,
) -> Value<'m> {
    let entry = function.blocks().next().expect("a probed function has a body");
    let first = entry.instructions().next().expect("a block is not empty");
    builder.go_before(first);
    builder.aligned_alloca(content, alignment)
}

/// Declares a function of the runtime.
fn declare<'m>(
    module: &'m Module<'m>,
    name: &str,
    signature: Type<'m>,
) -> Result<Function<'m>, Error> {
    check_name(module, name)?;
    let function = match module.function(name) {
        Some(function) => function,
        None => module.add_function(name, signature)?,
    };
    module.context().attribute("nounwind").into_iter().for_each(|it| function.add(it));
    Ok(function)
}

/// The count of frames that may be come back to: see [`backtrail_plan::Action`].
/// It is changed by assembly, which needs no declaration of the variable.
pub struct Depths<'m> {
    module: &'m Module<'m>,
    builder: Builder<'m>,
}

impl<'m> Depths<'m> {
    /// For functions of `module`.
    pub fn new(module: &'m Module<'m>) -> Self {
        Self { module, builder: Builder::new(module) }
    }

    /// Where a function's frame remembers its depth.
    pub fn place(&self, function: Function<'m>) -> Value<'m> {
        place_in_frame(&self.builder, function, self.word(), 8)
    }

    /// One more frame, which remembers at `place` how many there are.
    pub fn deepen(&self, function: Function<'m>, before: Instruction<'m>, place: Value<'m>) {
        self.builder.go_before(before);
        let attend = note("xorl %edi, %edi");
        // Without a state nothing is logged, and a depth is never asked for.
        let text = format!(
            "movq {THREAD_VARIABLE}@gottpoff(%rip), $0\n\t\
             movq %fs:($0), $0\n\t\
             testq $0, $0\n\t\
             je 2f\n\
             1:\n\t\
             incq {STATE_DEPTH}($0)\n\t\
             movq {STATE_DEPTH}($0), $0\n\
             3:\n\t\
             movq $0, $1\n\t\
             .subsection 1\n\
             2:\n\t\
             {attend}\n\t\
             movq {THREAD_VARIABLE}@gottpoff(%rip), $0\n\t\
             movq %fs:($0), $0\n\t\
             testq $0, $0\n\t\
             jne 1b\n\t\
             jmp 3b\n\t\
             .subsection 0"
        );
        let memory = [(place, self.word())];
        mark(function, self.builder.assembly_on(&memory, Some(self.word()), &text));
    }

    /// One frame less.
    pub fn surface(&self, function: Function<'m>, before: Instruction<'m>) {
        self.builder.go_before(before);
        let text = format!(
            "movq {THREAD_VARIABLE}@gottpoff(%rip), $0\n\t\
             movq %fs:($0), $0\n\t\
             testq $0, $0\n\t\
             je 1f\n\t\
             decq {STATE_DEPTH}($0)\n\
             1:"
        );
        mark(function, self.builder.assembly_on(&[], Some(self.word()), &text));
    }

    fn word(&self) -> Type<'m> {
        self.module.int_type(64)
    }
}

fn land_signature<'m>(module: &'m Module<'m>) -> Type<'m> {
    let number = module.int_type(32);
    let arguments = [module.pointer_type(), number, number, module.int_type(64)];
    module.function_type(module.void_type(), &arguments)
}

fn interrupt_signature<'m>(module: &'m Module<'m>) -> Type<'m> {
    let arguments = [module.pointer_type(), module.int_type(32), module.pointer_type()];
    module.function_type(module.void_type(), &arguments)
}

fn signature<'m>(module: &'m Module<'m>) -> Type<'m> {
    module.function_type(module.void_type(), &[module.pointer_type(), module.int_type(32)])
}
