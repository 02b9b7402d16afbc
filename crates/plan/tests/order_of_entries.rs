//! What functions do to the number that says in which order they were entered.

use backtrail_analysis::CallTargets;
use backtrail_graph::Index as _;
use backtrail_ir::Func;
use backtrail_plan::order::{Turn, Turns};
use backtrail_testkit::joined;

#[test]
fn those_that_one_function_calls_do_not_commute() {
    let text = r#"
        unit "a.c"
        s0 = function f0 "main" external
        s1 = function f1 "one" internal
        s2 = function f2 "other" internal
        s3 = function f3 "third" internal
        s4 = function f4 "elsewhere" internal
        s5 = function f5 "caller" internal
        s6 = function f6 "pointed_at" internal
        s7 = declare "puts" external
        function f0 s0 parameters 1 {
        b0:
          i0 = call s1 ()
          i1 = call s2 ()
          i2 = call s3 ()
          i3 = call s5 ()
          i4 = call s7 (s6)
          i5 return (0)
        }
        function f1 s1 parameters 0 { b0: i0 return (0) }
        function f2 s2 parameters 0 { b0: i0 return (0) }
        function f3 s3 parameters 0 { b0: i0 return (0) }
        function f4 s4 parameters 0 { b0: i0 return (0) }
        function f5 s5 parameters 0 { b0: i0 = call s4 () i1 return (0) }
        function f6 s6 parameters 0 { b0: i0 return (0) }
    "#;
    let unit = backtrail_ir::text::parse(text).unwrap();
    let program = joined([&unit]);
    let turns = Turns::new(&program, &CallTargets::new(&program));
    let (object, _) = program.units().next().unwrap();
    let of = |number: usize| turns.of([7; 16], (object, Func::new(number)));
    assert!(matches!(of(1), Turn::Add(_)));
    assert!(matches!(of(2), Turn::Flip(_)));
    assert!(matches!(of(4), Turn::Add(_)));
    // Both are taken; it calls; nobody knows what calls it.
    for number in [0, 3, 5, 6] {
        assert!(matches!(of(number), Turn::FlipAdd(..)), "{number}");
    }
    for left in 0..7 {
        for right in (0..7).filter(|it| *it != left) {
            // One of each, in both orders, again and again.
            let twice =
                |first: usize, second: usize, number| of(second).apply(of(first).apply(number));
            let (mut there, mut back) = (0u64, 0u64);
            for _ in 0..100 {
                (there, back) = (twice(left, right, there), twice(right, left, back));
                let commute = [left, right].iter().all(|it| [1, 4].contains(it));
                assert_eq!(there == back, commute, "{left} {right}");
            }
        }
    }
}
