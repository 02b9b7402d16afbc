//! Records in frames: see [`backtrail_abi::record`].
//!
//! A record is right at every instruction that can fail. So whatever changes it
//! is assembly that declares to touch memory: neither optimiser nor scheduler
//! moves an access of memory or a call past it, as they do past stores whose
//! effect nobody reads, and past volatile ones. Adding to the sum is one
//! instruction, and so is the end of a path, if the record has one word, and so is
//! a mark.
//!
//! The compiler puts the record where it puts variables, and says where that is
//! ([`super::block_lines`]).

use backtrail_abi::record::WORD_BYTES;
use backtrail_llvm_ffi::{Builder, Function, Instruction, Module, Type, Value};
use backtrail_plan::{FrameRecord, RecordAction};

use super::mark;

/// What records of a module have in common.
pub struct Records<'m> {
    module: &'m Module<'m>,
    builder: Builder<'m>,
}

/// The record of a function.
#[derive(Clone, Copy)]
pub struct Record<'m> {
    /// Where it is.
    pub place: Value<'m>,
    /// What it holds.
    pub content: FrameRecord,
}

impl<'m> Records<'m> {
    /// For records of functions of `module`.
    pub fn new(module: &'m Module<'m>) -> Self {
        Self { module, builder: Builder::new(module) }
    }

    /// Adds a record to the frame of a function.
    pub fn add(&self, function: Function<'m>, content: FrameRecord) -> Record<'m> {
        let entry = function.blocks().next().expect("a probed function has a body");
        let first = entry.instructions().next().expect("a block is not empty");
        self.builder.go_before(first);
        let words = self.module.array_type(self.word(), content.all_words().into());
        let place = self.builder.aligned_alloca(words, WORD_BYTES as u32);
        Record { place, content }
    }

    /// Inserts what `action` says before an instruction of `function`.
    pub fn insert(
        &self,
        function: Function<'m>,
        to: Record<'m>,
        before: Instruction<'m>,
        action: RecordAction,
    ) {
        self.builder.go_before(before);
        match action {
            RecordAction::Begin(sum) => self.change_first(function, to, &["movq", &number(sum)]),
            RecordAction::Add(add) => self.change_first(function, to, &["addq", &number(add)]),
            RecordAction::End { add, bits, next } => {
                self.end_path(function, to, (add, bits, next));
            }
            RecordAction::ClearMarks => self.clear_marks(function, to),
            RecordAction::Mark { byte, bits, alone } => {
                let content = self.module.int_type(8);
                let first = u64::from(to.content.words) * WORD_BYTES;
                let number = self.module.const_int(64, first + u64::from(byte));
                let place = self.builder.element(content, to.place, number);
                let verb = if alone { "movb" } else { "orb" };
                let text = format!("{verb} $${bits}, $0");
                mark(function, self.builder.assembly_on(&[(place, content)], None, &text));
            }
        }
    }

    /// Inserts an instruction that changes the first word.
    fn change_first(&self, function: Function<'m>, to: Record<'m>, words: &[&str; 2]) {
        let text = format!("{} {}, $0", words[0], words[1]);
        mark(function, self.builder.assembly_on(&[(to.place, self.word())], None, &text));
    }

    /// Inserts the end of a path. In the text, `$$` is a dollar sign.
    fn end_path(&self, function: Function<'m>, to: Record<'m>, (add, bits, next): (i32, u32, i32)) {
        let words = to.content.words;
        let mut lines = Vec::new();
        if words == 1 {
            lines.extend((add != 0).then(|| format!("addq {}, $0", number(add))));
            lines.push(format!("shlq $${bits}, $0"));
            lines.extend((next != 0).then(|| format!("addq {}, $0", number(next))));
            let memory = [(to.place, self.word())];
            mark(function, self.builder.assembly_on(&memory, None, &lines.join("\n\t")));
            return;
        }
        let memory: Vec<_> = (0..words).map(|word| (self.at(to, word), self.word())).collect();
        lines.extend((add != 0).then(|| format!("addq {}, $1", number(add))));
        // The oldest first: each word gets the upper bits of the one before it. Two
        // instructions less would do with `shld`, but that is microcode on some
        // processors: SQLite's interpreter took half as long again with it.
        for word in (1..words).rev() {
            lines.push(format!("movq ${word}, $0"));
            lines.push(format!("shrq $${}, $0", u64::BITS - bits));
            lines.push(format!("shlq $${bits}, ${}", word + 1));
            lines.push(format!("orq $0, ${}", word + 1));
        }
        lines.push(format!("shlq $${bits}, $1"));
        lines.extend((next != 0).then(|| format!("addq {}, $1", number(next))));
        let text = lines.join("\n\t");
        mark(function, self.builder.assembly_on(&memory, Some(self.word()), &text));
    }

    /// Inserts what makes all marks 0.
    fn clear_marks(&self, function: Function<'m>, to: Record<'m>) {
        for word in to.content.words..to.content.all_words() {
            let memory = [(self.at(to, word), self.word())];
            mark(function, self.builder.assembly_on(&memory, None, "movq $$0, $0"));
        }
    }

    fn word(&self) -> Type<'m> {
        self.module.int_type(64)
    }

    fn at(&self, record: Record<'m>, word: u32) -> Value<'m> {
        let number = self.module.const_int(64, word.into());
        self.builder.element(self.word(), record.place, number)
    }
}

/// A number in assembly.
fn number(value: i32) -> String {
    format!("$${value}")
}
