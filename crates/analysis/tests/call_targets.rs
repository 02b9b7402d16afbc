//! Calls are resolved across units.

use backtrail_analysis::{Body, CallTargets, Externals, Target, reachable};
use backtrail_graph::Index;
use backtrail_ir::program::{Input, Link, NativeObject, Program};
use backtrail_ir::{Op, Sym, Unit};
use backtrail_outside::Class;
use backtrail_testkit::joined;

fn unit(text: &str) -> Unit {
    backtrail_ir::text::parse(text).expect("the text of a unit")
}

fn name<'u>(targets: &CallTargets<'_, 'u>, program: &Program<'u>, body: Body) -> &'u str {
    let (object, function) = targets.bodies()[body];
    let unit = program.unit(object).unwrap();
    &unit.symbols[unit.functions[function].symbol].name
}

#[test]
fn direct_indirect_and_unseen_calls_are_told_apart() {
    let (one, two) = (unit(include_str!("one.unit")), unit(include_str!("two.unit")));
    let program = joined([&one, &two]);
    let targets = CallTargets::new(&program);
    let taken: Vec<&str> =
        targets.taken().iter().map(|&body| name(&targets, &program, body)).collect();
    assert_eq!(taken, ["compare", "visit"]);
    let main = targets.bodies().indices().find(|&it| name(&targets, &program, it) == "main");
    let (object, _) = targets.bodies()[main.unwrap()];
    let function = targets.function(main.unwrap());
    let mut found = Vec::new();
    for (inst, data) in function.insts.iter() {
        if let Op::Call(call) = &data.op {
            found.push(match targets.target(object, function, inst, call) {
                Target::Body(body) => name(&targets, &program, body).to_owned(),
                Target::Taken { arguments } => {
                    let fitting = targets.taken_with(arguments);
                    let fitting = fitting.map(|body| name(&targets, &program, body));
                    format!("any of {}", fitting.collect::<Vec<_>>().join(" "))
                }
                Target::Unseen(symbol) | Target::Native(symbol) => {
                    format!("unseen {}", one.symbols[symbol].name)
                }
                Target::Inline => "inline".to_owned(),
            });
        }
    }
    assert_eq!(found, ["visit", "unseen qsort", "any of compare visit", "any of visit"]);
}

/// What the loader calls, what that calls, and naked functions are no bodies: an ifunc may
/// be any function whose address is taken.
#[test]
fn functions_that_hide_what_they_do_are_as_of_another_object() {
    let unit = unit(
        r#"
        unit "a.c"
        s0 = function f0 "main" external
        s1 = function f1 "slow" internal
        s2 = function f2 "resolve" internal
        s3 = function f3 "level" internal
        s4 = function f4 "bare" external
        s5 = ifunc "chosen" external by s2
        s6 = function f5 "asked" external
        function f0 s0 parameters 0 {
        b0:
          i0 = call s5 (1)
          i1 = call s3 ()
          i2 = call s4 ()
          i3 return (0)
        }
        function f1 s1 parameters 1 { b0: i0 return (0) }
        function f2 s2 parameters 0 { b0: i0 = call s3 () i1 return (s1) }
        function f3 s3 parameters 0 { b0: i0 return (0) }
        function f4 s4 parameters 0 naked { b0: i0 unreachable }
        function f5 s6 parameters 0 { b0: i0 return (0) }
        "#,
    );
    let other = self::unit(
        r#"
        unit "b.c"
        s0 = function f0 "choose" internal
        s1 = declare "asked" external
        s2 = ifunc "other" external by s0
        function f0 s0 parameters 0 { b0: i0 = call s1 () i1 return (0) }
        "#,
    );
    let program = joined([&unit, &other]);
    let targets = CallTargets::new(&program);
    let bodies: Vec<&str> =
        targets.bodies().indices().map(|it| name(&targets, &program, it)).collect();
    assert_eq!(bodies, ["main", "slow", "asked"]);
    let main = targets.bodies().indices().next().unwrap();
    let (object, _) = targets.bodies()[main];
    let function = targets.function(main);
    let of_calls: Vec<Target> = function
        .insts
        .iter()
        .filter_map(|(inst, data)| Some(targets.target(object, function, inst, data.op.call()?)))
        .collect();
    let native = |place| Target::Native(Sym::new(place));
    assert_eq!(of_calls, [Target::Taken { arguments: Some(1) }, native(3), native(4)]);
    let taken: Vec<&str> = targets.taken().iter().map(|&it| name(&targets, &program, it)).collect();
    assert_eq!(taken, ["slow"]);
    // Called by a function that hides it, and by nothing else.
    let by_name = |place| targets.by_name(targets.bodies().indices().nth(place).unwrap());
    assert!(by_name(2).object && !by_name(1).is_any());
    let externals = Externals::new(&program, &targets);
    assert_eq!(
        externals.named().map(|it| name(&targets, &program, it)).collect::<Vec<_>>(),
        ["asked"]
    );
    let reached = reachable(&targets);
    assert!(reached.values().all(|it| *it));
}

/// What only the unwinder calls leaves nothing: hooks that libraries could leave stay unknown
/// of where something is called of which nothing is known.
#[test]
fn personalities_are_nothing_unknown() {
    let of = |name: &str| {
        let text = format!(
            r#"
            unit "a.c"
            s0 = function f0 "main" external
            s1 = declare "{name}" external
            s2 = function f1 "hook" external
            function f0 s0 parameters 0 {{ b0: i0 = call s2 () i1 return (0) }}
            function f1 s2 parameters 0 {{ b0: i0 return (0) }}
            "#
        );
        let unit = unit(&text);
        let library = NativeObject {
            name: "libown.so".to_owned(),
            shared: true,
            system: true,
            references: vec!["atexit".to_owned()],
            ..NativeObject::default()
        };
        let inputs = vec![Input::Unit(&unit), Input::Native(library)];
        let program = Program::new(Link { inputs, ..Link::default() });
        let targets = CallTargets::new(&program);
        Externals::new(&program, &targets).has_hooks(Class::AtExit)
    };
    assert!(of("something"));
    for name in ["__gxx_personality_v0", "__gcc_personality_v0", "rust_eh_personality"] {
        assert!(!of(name), "{name}");
    }
}
