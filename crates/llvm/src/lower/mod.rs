//! Lowering: a module to the program model.
//!
//! Numbers follow the module: functions with bodies in order, blocks in order,
//! instructions in order. Symbols are the functions, then the variables, then
//! the aliases, then the ifuncs.
//!
//! What is left out: debug intrinsics (`llvm.dbg.*`) and their declarations,
//! which LLVM keeps as instructions or beside them depending on its version;
//! operand bundles; the clauses of landing pads.
//!
//! Constant integers are sign-extended from their width, so `true` is -1. The
//! values of a switch on more than 64 bits are cut to their low 64.
//!
//! The cost is linear in the size of the module: each instruction, operand,
//! constant, type and piece of debug information is looked at once.

mod constants;
mod functions;
mod locations;
mod symbols;

use backtrail_ir::{Block, Unit};
use backtrail_llvm_ffi::{Attribute, Context, Module};

use crate::identity::ById;
use constants::Constants;
use locations::Locations;
use symbols::Symbols;

pub(crate) use symbols::{is_debug_intrinsic_name, linkage_name};

/// The program model of `module`, which is to be known as `name`.
pub fn lower(module: &Module<'_>, name: &str) -> Unit {
    let attributes = Attributes::of(module.context());
    let mut symbols = Symbols::collect(module, &attributes);
    let blocks = block_numbers(module);
    let mut constants = Constants::new(&symbols, &blocks);
    let links = symbols::links(module, &symbols, &mut constants);
    let mut locations = Locations::of(module);
    let bodies: Vec<_> = module.functions().filter(|it| !it.is_declaration()).collect();
    let functions = bodies
        .iter()
        .map(|function| {
            functions::lower(*function, &attributes, &blocks, &mut constants, &mut locations)
        })
        .collect();
    symbols.add_links(links);
    let (files, locations) = locations.finish();
    Unit {
        name: name.to_owned(),
        symbols: symbols.list,
        functions,
        comdats: symbols.comdats,
        files,
        locations,
        module_asm: module.inline_asm().into_owned(),
    }
}

/// The number of every block within its function. Block addresses may name
/// blocks of other functions.
fn block_numbers(module: &Module<'_>) -> ById<Block> {
    let mut numbers = ById::default();
    for function in module.functions() {
        numbers.extend(
            function
                .blocks()
                .enumerate()
                .map(|(position, block)| (block.id(), backtrail_ir::Index::new(position))),
        );
    }
    numbers
}

/// The attributes the model knows, by this LLVM's numbers.
struct Attributes {
    no_return: Option<Attribute>,
    no_unwind: Option<Attribute>,
    returns_twice: Option<Attribute>,
    naked: Option<Attribute>,
    opt_none: Option<Attribute>,
}

impl Attributes {
    fn of(context: &Context<'_>) -> Self {
        Self {
            no_return: context.attribute("noreturn"),
            no_unwind: context.attribute("nounwind"),
            returns_twice: context.attribute("returns_twice"),
            naked: context.attribute("naked"),
            opt_none: context.attribute("optnone"),
        }
    }

    /// The traits that `has` tells.
    fn traits(&self, has: impl Fn(Attribute) -> bool) -> backtrail_ir::Traits {
        let is = |attribute: Option<Attribute>| attribute.is_some_and(&has);
        backtrail_ir::Traits {
            no_return: is(self.no_return),
            no_unwind: is(self.no_unwind),
            returns_twice: is(self.returns_twice),
            naked: is(self.naked),
            opt_none: is(self.opt_none),
            variadic: false,
        }
    }
}
