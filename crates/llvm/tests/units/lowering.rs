//! The model of a unit agrees with LLVM's text form and with the source.

use backtrail_graph::Index;
use backtrail_ir::{
    Access, CallData, Callee, Function, Linkage, Op, Symbol, SymbolKind, Unit, Value, Visibility,
};

use crate::text_form::{self, Counts};
use crate::toolchain::{Workshop, lower, run};

fn counts(unit: &Unit, function: &Function) -> Counts {
    let of = |wanted: fn(&Op) -> bool| function.insts.values().filter(|it| wanted(&it.op)).count();
    Counts {
        name: unit.symbols[function.symbol].name.clone(),
        blocks: function.blocks.len(),
        edges: function.blocks.values().map(|it| it.successors.len()).sum(),
        instructions: function.insts.len(),
        calls: of(|op| matches!(op, Op::Call(_) | Op::Invoke(_) | Op::AsmGoto(_))),
        memory: of(|op| {
            matches!(op, Op::Load(_) | Op::Store(_) | Op::AtomicUpdate(_) | Op::Alloca { .. })
        }),
    }
}

fn check_counts(fixture: &str, flags: &[&str]) {
    let workshop = Workshop::new();
    let expected = text_form::functions(&workshop.text(fixture, flags));
    let unit = lower(&workshop.bitcode(fixture, flags));
    let found: Vec<_> = unit.functions.values().map(|it| counts(&unit, it)).collect();
    assert!(!expected.is_empty());
    assert_eq!(found, expected, "{fixture} {flags:?}");
}

#[test]
fn counts_agree_with_the_text_form() {
    for fixture in ["control.c", "linkage.c", "inlined.c"] {
        for flags in [&["-O0"][..], &["-O2"], &["-O2", "-g"], &["-O0", "-g"]] {
            check_counts(fixture, flags);
        }
    }
    for fixture in ["objects.cpp", "coroutine.cpp"] {
        for flags in [&["-O0"][..], &["-O2"], &["-O2", "-g"]] {
            check_counts(fixture, &[flags, &["-std=c++20"]].concat());
        }
    }
}

struct Lowered(Unit);

impl Lowered {
    fn new(fixture: &str, flags: &[&str]) -> Self {
        Self(lower(&Workshop::new().bitcode(fixture, flags)))
    }

    fn symbol(&self, name: &str) -> &Symbol {
        let mut found = self.0.symbols.values().filter(|it| it.name == name);
        let symbol = found.next().unwrap_or_else(|| panic!("no symbol {name}"));
        assert!(found.next().is_none(), "two symbols {name}");
        symbol
    }

    fn function(&self, name: &str) -> &Function {
        match self.symbol(name).kind {
            SymbolKind::Function(function) => &self.0.functions[function],
            ref other => panic!("{name} is {other:?}"),
        }
    }

    fn ops(&self, function: &str) -> impl Iterator<Item = &Op> {
        self.function(function).insts.values().map(|it| &it.op)
    }

    fn operands<'a>(&self, function: &'a Function, wanted: fn(&Op) -> bool) -> Vec<&'a [Value]> {
        let matching = function.insts.values().filter(|it| wanted(&it.op));
        matching
            .map(|it| &function.operands[it.operands as usize..][..it.operand_count as usize])
            .collect()
    }

    fn name(&self, symbol: backtrail_ir::Sym) -> &str {
        &self.0.symbols[symbol].name
    }

    /// The calls of a function, except of intrinsics.
    fn calls(&self, function: &str) -> Vec<&CallData> {
        let calls = self.ops(function).filter_map(|op| match op {
            Op::Call(data) | Op::Invoke(data) | Op::AsmGoto(data) => Some(data),
            _ => None,
        });
        calls.filter(|it| !matches!(it.callee, Callee::Intrinsic(_))).collect()
    }

    fn called(&self, function: &str) -> Vec<&str> {
        let name = |data: &CallData| match data.callee {
            Callee::Direct(symbol) => self.name(symbol),
            Callee::Indirect => "(indirect)",
            Callee::Asm => "(asm)",
            Callee::Intrinsic(_) => "(intrinsic)",
        };
        self.calls(function).into_iter().map(name).collect()
    }
}

#[test]
fn control_flow_is_lowered() {
    for flag in ["-O0", "-O2"] {
        let unit = Lowered::new("control.c", &[flag]);
        let switch = unit.function("switches");
        let cases = unit.ops("switches").find_map(|op| match op {
            Op::Switch { cases } => Some(cases.clone()),
            _ => None,
        });
        let mut cases = cases.expect("a switch");
        cases.sort_unstable();
        assert_eq!(cases, [-5, 1, 2, 100, i64::from(i32::MAX)], "{flag}");
        let successors = &switch.blocks.values().find(|it| it.successors.len() == 6);
        let distinct: std::collections::BTreeSet<_> =
            successors.expect("a block of a switch").successors.iter().collect();
        assert!(distinct.len() < 6, "three cases share a block");

        let jumps = unit.ops("interpret").filter(|op| matches!(op, Op::IndirectJump)).count();
        assert!(jumps >= 1, "{flag}");
        let widest = unit.function("interpret").blocks.values().map(|it| it.successors.len()).max();
        assert_eq!(widest, Some(4), "{flag}");

        let setjmp = unit.calls("jumps").into_iter().find(|it| it.traits.returns_twice);
        assert!(setjmp.is_some(), "{flag}");
        assert!(unit.calls("deep").iter().any(|it| it.traits.no_return), "{flag}");

        assert!(unit.function("sum_of").traits.variadic);
        assert_eq!(unit.function("sum_of").parameters, 1);
        let sums: Vec<_> = unit.calls("main").into_iter().filter(|it| it.traits.variadic).collect();
        assert_eq!(sums.len(), 12, "eleven prints and sum_of");

        assert_eq!(unit.called("assembly"), ["(asm)"]);
        let goto = unit.ops("assembly_jump").find(|op| matches!(op, Op::AsmGoto(_)));
        assert!(matches!(goto, Some(Op::AsmGoto(CallData { callee: Callee::Asm, .. }))));

        assert_eq!(unit.called("indirect"), ["(indirect)"]);
        // Optimised, it is a loop.
        let has_tail_call =
            unit.calls("counted").iter().any(|it| it.tail == backtrail_ir::Tail::Must);
        assert_eq!(has_tail_call, flag == "-O0");
        assert!(unit.function("bare").traits.naked);
        assert_eq!(unit.function("loops").traits.opt_none, flag == "-O0");
    }
}

#[test]
fn memory_accesses_are_lowered() {
    let unit = Lowered::new("control.c", &["-O2"]);
    let accesses: Vec<_> = unit
        .ops("atomics")
        .filter_map(|op| match op {
            Op::Load(access) => Some(("load", *access)),
            Op::Store(access) => Some(("store", *access)),
            Op::AtomicUpdate(access) => Some(("update", *access)),
            Op::Fence => Some(("fence", Access { size: 0, volatile: false, atomic: true })),
            _ => None,
        })
        .collect();
    let plain = Access { size: 4, volatile: false, atomic: false };
    let atomic = Access { atomic: true, ..plain };
    let volatile = Access { volatile: true, ..plain };
    let expected = [
        ("store", atomic),
        ("update", atomic),
        ("update", atomic),
        ("fence", Access { size: 0, ..atomic }),
        ("load", volatile),
        ("store", volatile),
        ("load", atomic),
    ];
    assert_eq!(accesses, expected);

    let memory = unit.function("memory");
    let offsets: Vec<_> = unit
        .ops("memory")
        .filter_map(|op| if let Op::Address { offset } = op { Some(*offset) } else { None })
        .collect();
    assert!(offsets.contains(&Some(8)), "`second` is behind the padding: {offsets:?}");
    assert!(offsets.contains(&Some(18)), "`third[1]` is behind `second`: {offsets:?}");
    assert!(offsets.contains(&None), "`third[index]` is not constant: {offsets:?}");
    let sizes: Vec<_> = unit
        .ops("memory")
        .filter_map(|op| if let Op::Store(access) = op { Some(access.size) } else { None })
        .collect();
    assert_eq!(sizes, [8, 2]);
    assert_eq!(memory.parameters, 2);
    let stored = unit.operands(memory, |op| matches!(op, Op::Store(Access { size: 2, .. })));
    assert_eq!(stored[0][0], Value::Int(7));
}

#[test]
fn symbols_are_lowered() {
    for flag in ["-O0", "-O2"] {
        let unit = Lowered::new("linkage.c", &[flag]);
        let data = |name: &str| match &unit.symbol(name).kind {
            SymbolKind::Data { defined, constant, size, refers_to, .. } => {
                let refers_to: Vec<_> = refers_to.iter().map(|it| unit.name(*it)).collect();
                (*defined, *constant, *size, refers_to)
            }
            other => panic!("{name} is {other:?}"),
        };
        assert_eq!(data("exported"), (true, false, 4, vec![]));
        assert_eq!(data("constant"), (true, true, 20, vec![]));
        assert_eq!(data("data_elsewhere"), (false, false, 4, vec![]));
        assert_eq!(data("unknown_size"), (false, false, 0, vec![]));
        let section = |name: &str| match &unit.symbol(name).kind {
            SymbolKind::Data { section, .. } => section.clone(),
            other => panic!("{name} is {other:?}"),
        };
        assert_eq!((section("placed"), section("self")), (Some("somewhere".to_owned()), None));
        assert_eq!(data("self"), (true, false, 8, vec!["self"]));
        let table = data("table");
        assert_eq!(table.2, 48);
        assert_eq!(
            table.3,
            ["real_name", "constant", ".str", "overridable", "exported"],
            "in order, each once"
        );

        let linkage = |name: &str| unit.symbol(name).linkage;
        assert_eq!(linkage("exported"), Linkage::External);
        assert_eq!(linkage("internal"), Linkage::Internal);
        assert_eq!(linkage("tentative"), Linkage::Common);
        assert_eq!(linkage("overridable"), Linkage::Weak);
        assert_eq!(linkage("perhaps"), Linkage::ExternWeak);
        assert_eq!(linkage("elsewhere"), Linkage::External);
        assert!(unit.symbol("per_thread").thread_local);
        assert!(!unit.symbol("exported").thread_local);
        assert_eq!(unit.symbol("hidden_data").visibility, Visibility::Hidden);
        assert_eq!(unit.symbol("protected_data").visibility, Visibility::Protected);

        let target = |name: &str| match unit.symbol(name).kind {
            SymbolKind::Alias { target } => unit.name(target.expect("a target")),
            SymbolKind::IFunc { resolver } => unit.name(resolver.expect("a resolver")),
            ref other => panic!("{name} is {other:?}"),
        };
        assert_eq!(target("other_name"), "real_name");
        assert_eq!(target("weak_name"), "real_name");
        assert_eq!(linkage("weak_name"), Linkage::Weak);
        assert_eq!(target("chosen"), "choose");
        assert_eq!(unit.called("uses").first(), Some(&"chosen"), "called by its own name");
        assert_eq!(unit.function("spelled_differently").parameters, 1, "without LLVM's prefix");
        assert!(unit.0.module_asm.contains("from_assembly = 17"));
    }
    let unit = Lowered::new("linkage.c", &["-O1", "-Xclang", "-disable-llvm-passes"]);
    assert_eq!(unit.symbol("only_for_inlining").linkage, Linkage::AvailableExternally);
}

#[test]
fn constants_that_mention_symbols_are_lowered() {
    let unit = Lowered::new("linkage.c", &["-O2"]);
    let uses = unit.function("uses");
    let loads = unit.operands(uses, |op| matches!(op, Op::Load(_)));
    let addresses: Vec<_> = loads
        .iter()
        .filter_map(|it| match it[0] {
            Value::Symbol(symbol, offset) => Some((unit.name(symbol), offset)),
            _ => None,
        })
        .collect();
    assert!(addresses.contains(&("tentative", 4)), "{addresses:?}");
    assert!(addresses.contains(&("data_elsewhere", 0)), "{addresses:?}");
}

#[test]
fn exceptions_virtual_calls_and_groups_are_lowered() {
    for flag in ["-O0", "-O2"] {
        let unit = Lowered::new("objects.cpp", &[flag]);
        let guarded = "_Z7guardedRK4Basei";
        let function = unit.function(guarded);
        let invokes: Vec<_> = function
            .blocks
            .values()
            .filter(|block| {
                let last = backtrail_ir::Inst::new(block.end as usize - 1);
                matches!(function.insts[last].op, Op::Invoke(_))
            })
            .collect();
        assert!(!invokes.is_empty());
        for block in invokes {
            let [normal, unwind] = block.successors[..] else { panic!("two successors") };
            assert!(!function.blocks[normal].landing_pad);
            assert!(function.blocks[unwind].landing_pad);
        }
        assert!(unit.called(guarded).contains(&"(indirect)"), "the virtual call");
        let thrower = unit.calls("_Z7unwindsi");
        assert!(thrower.iter().any(|it| it.traits.no_return), "{flag}: __cxa_throw");
        assert!(unit.ops("_Z7unwindsi").any(|op| matches!(op, Op::Resume)), "{flag}");

        assert!(unit.symbol("per_thread").thread_local);
        let vtable = unit.symbol("_ZTV7Derived");
        assert_eq!(vtable.linkage, Linkage::WeakOdr);
        let group = vtable.comdat.expect("a group");
        assert_eq!(unit.0.comdats[group], "_ZTV7Derived");
        let SymbolKind::Data { refers_to, .. } = &vtable.kind else { panic!("data") };
        let refers_to: Vec<_> = refers_to.iter().map(|it| unit.name(*it)).collect();
        assert!(refers_to.contains(&"_ZNK7Derived5valueEi"), "{refers_to:?}");
        if flag == "-O0" {
            let groups: Vec<_> = unit.0.comdats.values().collect();
            let twin = |it: &&&String| it.contains("C2") || it.contains("C5");
            assert!(groups.iter().any(|it| twin(&it)), "{groups:?}");
        }
        let constructors = unit.symbol("llvm.global_ctors");
        assert_eq!(constructors.linkage, Linkage::Appending);
        let SymbolKind::Data { refers_to, .. } = &constructors.kind else { panic!("data") };
        assert!(refers_to.len() >= 3, "two priorities and the ordinary ones");
    }
}

#[test]
fn groups_that_are_not_made_unique_are_none() {
    let workshop = Workshop::new();
    let (text, bitcode) = (workshop.path("groups.ll"), workshop.path("groups.bc"));
    let module = "target triple = \"x86_64-pc-linux-gnu\"\n\
                  $kept = comdat any\n\
                  $held = comdat nodeduplicate\n\
                  @kept = linkonce_odr global i32 1, comdat\n\
                  @held = global i32 2, comdat\n\
                  define void @body() comdat($held) { ret void }\n";
    std::fs::write(&text, module).expect("a file");
    run(std::process::Command::new("clang-19")
        .args(["-c", "-emit-llvm", "-o"])
        .args([&bitcode, &text]));
    let unit = lower(&bitcode);
    let group = |name: &str| {
        let symbol = unit.symbols.values().find(|it| it.name == name).expect("a symbol");
        symbol.comdat.map(|it| unit.comdats[it].as_str())
    };
    assert_eq!([group("kept"), group("held"), group("body")], [Some("kept"), None, None]);
    assert_eq!(unit.comdats.len(), 1);
}

#[test]
fn block_addresses_name_their_blocks() {
    let unit = Lowered::new("control.c", &["-O0"]);
    let SymbolKind::Data { refers_to, .. } = &unit.symbol("interpret.table").kind else {
        panic!("data")
    };
    assert_eq!(refers_to.iter().map(|it| unit.name(*it)).collect::<Vec<_>>(), ["interpret"]);
}
