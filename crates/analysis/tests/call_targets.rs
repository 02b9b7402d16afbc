//! Calls are resolved across units.

use backtrail_analysis::{Body, CallTargets, Target};
use backtrail_ir::program::Program;
use backtrail_ir::{Op, Unit};

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
    let program = Program::of_units([&one, &two]);
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
                Target::Unseen(symbol) => format!("unseen {}", one.symbols[symbol].name),
                Target::Inline => "inline".to_owned(),
            });
        }
    }
    assert_eq!(found, ["visit", "unseen qsort", "any of compare", "any of visit"]);
}
