//! Functions of which a unit has several variants.
//!
//! Such a function becomes a *springboard*: one jump to the variant that is on
//! ([`backtrail_abi::tune`]). It keeps its symbol, linkage and group, so that its
//! address is one, whoever asks for it, and every call and alias leads through it.
//! The springboard has no frame: arguments, the return address and what is thrown
//! past it are none of its business.
//!
//! Variants are functions of the module's own. Each comes out of another copy of
//! the unit, which gets the probes of that variant; LLVM links them:
//!
//! - what a variant refers to is what the unit has: of a copy, all but the variants
//!   is a mere reference (`available_externally`), and while copies are linked,
//!   what is local to the unit is not;
//! - only constants whose address is insignificant are copied, and those that hold
//!   addresses of labels of a variant, which are its own;
//! - variants call each other, and take addresses, through springboards. A local
//!   function that calls itself stays in its variant, which is the same.
//!
//! A variant is in the group and the section of its function, so it goes where that
//! goes. Nothing refers to those that are not on but the springboard, by relocations
//! that do nothing (`R_X86_64_NONE`): linkers that drop what is not used keep them.

use backtrail_abi::UnitId;
use backtrail_abi::tune::{JUMP, UNIT_SYMBOL_PREFIX, VARIANT_INFIX};
use backtrail_ir::Index;
use backtrail_llvm_ffi::{
    Builder, Function, Global, Linkage, Module, Value, ValueKind, Visibility,
};
use backtrail_plan::{Switched, SwitchedFunction, UnitPlan};

use crate::Error;
use crate::apply::{self, Generation};
use crate::identity::Ids;
use crate::lower::linkage_name;

/// Makes springboards of the functions that `plan`, which has been applied to
/// `module`, says are switched. `read` reads the unit again. The result should be
/// verified.
pub fn apply<'c>(
    module: &mut Module<'c>,
    plan: &UnitPlan,
    generation: Generation,
    read: &dyn Fn() -> Result<Module<'c>, Error>,
) -> Result<(), Error> {
    let switched = &plan.switched;
    if switched.functions.is_empty() {
        return Ok(());
    }
    name_all(module);
    let bodies: Vec<Function<'_>> = module.functions().filter(|it| !it.is_declaration()).collect();
    let mut names = Vec::new();
    for wanted in &switched.functions {
        names.push(find(&bodies, wanted)?.name().into_owned());
    }
    drop(bodies);
    let locals = open(module);
    for variant in &switched.variants {
        let mut copy = read()?;
        if variant.block_lines.is_some() {
            copy.strip_debug_info();
        }
        apply::apply(&mut copy, variant, generation)?;
        reduce(&mut copy, variant.variant, switched)?;
        module.link(copy)?;
    }
    for (name, linkage) in locals {
        let global = global(module, &name).ok_or(Error::Lost(name))?;
        global.set_linkage(linkage);
    }
    let bytes = format!("{UNIT_SYMBOL_PREFIX}{}", UnitId(plan.unit));
    apply::check_name(module, &bytes)?;
    for (wanted, name) in switched.functions.iter().zip(&names) {
        module.clear_body(name);
        make_springboard(module, wanted, name, &bytes)?;
    }
    let springboards = names.iter().filter_map(|name| module.function(name));
    let springboards: Ids = springboards.map(|it| it.id()).collect();
    apply::forget_purity(module, &springboards);
    Ok(())
}

/// The function that is wanted, if the plan is for this unit.
fn find<'m>(bodies: &[Function<'m>], wanted: &SwitchedFunction) -> Result<Function<'m>, Error> {
    let (function, count) = (wanted.function, bodies.len());
    let body = *bodies.get(function.position()).ok_or(Error::NoSuchFunction { function, count })?;
    let found = linkage_name(*body);
    // What had no name has one now.
    if found != wanted.name && !wanted.name.is_empty() {
        return Err(Error::OtherName { function, expected: wanted.name.clone(), found });
    }
    Ok(body)
}

/// Everything that has a symbol.
fn globals<'m>(module: &'m Module<'m>) -> impl Iterator<Item = Global<'m>> {
    let functions = module.functions().map(|it| *it);
    functions.chain(module.variables()).chain(module.aliases()).chain(module.ifuncs())
}

fn global<'m>(module: &'m Module<'m>, name: &str) -> Option<Global<'m>> {
    let known = module.function(name).map(|it| *it).or_else(|| module.variable(name));
    known.or_else(|| module.aliases().chain(module.ifuncs()).find(|it| it.name() == name))
}

/// Names what has no name, in all copies of a unit alike.
fn name_all(module: &Module<'_>) {
    for (number, global) in globals(module).filter(|it| it.name().is_empty()).enumerate() {
        global.set_name(&format!("backtrail.unnamed.{number}"));
    }
}

fn is_local(linkage: Linkage) -> bool {
    matches!(linkage, Linkage::Internal | Linkage::Private)
}

/// Makes local definitions known to other copies of the unit; gives their names and
/// what they were.
fn open(module: &Module<'_>) -> Vec<(String, Linkage)> {
    let mut locals = Vec::new();
    for global in globals(module).filter(|it| is_local(it.linkage())) {
        locals.push((global.name().into_owned(), global.linkage()));
        global.set_linkage(Linkage::External);
    }
    locals
}

/// Leaves of a copy of the unit the variants with this number.
fn reduce(copy: &mut Module<'_>, number: u32, switched: &Switched) -> Result<(), Error> {
    copy.clear_inline_asm();
    let lists = copy.variables().filter(|it| it.linkage() == Linkage::Appending);
    let lists: Vec<String> = lists.map(|it| it.name().into_owned()).collect();
    for list in lists {
        if !copy.delete_variable(&list) {
            return Err(Error::Constructors(list));
        }
    }
    name_all(copy);
    let bodies: Vec<Function<'_>> = copy.functions().filter(|it| !it.is_declaration()).collect();
    let has = |wanted: &&SwitchedFunction| wanted.variants.iter().any(|it| it.0 == number);
    let mut kept = Vec::new();
    for wanted in switched.functions.iter().filter(has) {
        kept.push(find(&bodies, wanted)?);
    }
    let ids: Ids = kept.iter().map(|it| it.id()).collect();
    for variable in copy.variables().filter(|it| !it.is_declaration()) {
        let holds_labels = holds_labels(variable, &ids);
        let is_own = is_local(variable.linkage())
            && variable.is_constant()
            && (variable.has_insignificant_address() || holds_labels);
        if holds_labels && !is_own {
            return Err(Error::Labels(linkage_name(variable)));
        }
        if !is_own {
            refer_to(variable);
        }
    }
    bodies.iter().filter(|it| !ids.contains(&it.id())).for_each(|it| refer_to(**it));
    // These cannot be references; but linkers take the first of such.
    copy.aliases().chain(copy.ifuncs()).for_each(|it| it.set_linkage(Linkage::LinkOnceAny));
    let mut springboards = Ids::default();
    for function in kept {
        let stays = is_local(function.linkage()) || function.visibility() != Visibility::Default;
        let springboard = function.set_aside(&variant_name(&function.name(), number));
        springboards.insert(springboard.id());
        function.leave_comdat();
        // What is local is linked only if something refers to it.
        function.set_linkage(Linkage::External);
        if stays {
            call_itself(function, springboard);
        }
    }
    apply::forget_purity(copy, &springboards);
    Ok(())
}

/// What a variant of the function `name` is called. A springboard names it to the
/// assembler, which LLVM gives a quotation mark and a line end escaped, but takes as
/// they stand (`MCSymbol::print`, `AsmParser::parseIdentifier`): a variant has none.
fn variant_name(name: &str, number: u32) -> String {
    let name = name.replace('"', "$22$").replace('\n', "$0a$");
    format!("{name}{VARIANT_INFIX}{number}")
}

/// Makes a definition a mere reference to that of another copy.
fn refer_to(global: Global<'_>) {
    global.leave_comdat();
    global.set_linkage(Linkage::AvailableExternally);
}

/// Whether a variable holds addresses of blocks of these functions.
fn holds_labels(variable: Global<'_>, functions: &Ids) -> bool {
    let (mut seen, mut left) = (Ids::default(), Vec::from_iter(variable.initializer()));
    while let Some(value) = left.pop() {
        if value.block_address().is_some_and(|(function, _)| functions.contains(&function.id())) {
            return true;
        }
        if value.kind() != ValueKind::Plain && seen.insert(value.id()) {
            left.extend(value.constant_operands());
        }
    }
    false
}

/// Has a variant call itself without a springboard.
fn call_itself<'m>(variant: Function<'m>, springboard: Function<'m>) {
    let instructions = variant.blocks().flat_map(|block| block.instructions());
    for call in instructions.filter_map(|it| it.as_call()) {
        let is_own = Value::id(call.callee()) == springboard.id();
        if is_own && call.signature().id() == variant.content().id() {
            call.set_callee(variant);
        }
    }
}

/// Gives the function `name`, whose body was cleared, a jump to the first of its variants.
fn make_springboard(
    module: &Module<'_>,
    wanted: &SwitchedFunction,
    name: &str,
    bytes: &str,
) -> Result<(), Error> {
    let lost = || Error::Lost(name.to_owned());
    let function = module.function(name).ok_or_else(lost)?;
    let mut named: Vec<Global<'_>> = Vec::new();
    for (number, _) in &wanted.variants {
        let variant = module.function(&variant_name(name, *number));
        let variant = variant.filter(|it| !it.is_declaration()).ok_or_else(lost)?;
        variant.set_internal();
        function.comdat().into_iter().for_each(|it| variant.set_comdat(it));
        named.push(*variant);
    }
    named.push(match module.variable(bytes) {
        Some(bytes) => bytes,
        None => module.declare_hidden(bytes, module.int_type(8), 0)?,
    });
    // What is not for code without a frame, or wants to be told of arguments.
    for attribute in ["ssp", "sspstrong", "sspreq", "safestack", "alwaysinline"] {
        let attribute = module.context().attribute(attribute);
        attribute.into_iter().for_each(|it| function.remove(it));
    }
    for attribute in ["naked", "noinline"] {
        let attribute = module.context().attribute(attribute);
        attribute.into_iter().for_each(|it| function.add(it));
    }
    let mut lines: Vec<String> = (1..named.len())
        .map(|operand| format!(".reloc ., R_X86_64_NONE, ${{{operand}:c}}"))
        .collect();
    // By hand, since an assembler would choose a shorter one for what is near.
    lines.push(format!(".byte {JUMP}"));
    lines.push(".long ${0:c} - . - 4".to_owned());
    let builder = Builder::new(module);
    builder.go_to_end(function.blocks().next().ok_or_else(lost)?);
    apply::mark(function, builder.assembly_naming(&named, &lines.join("\n\t")));
    builder.unreachable();
    Ok(())
}
