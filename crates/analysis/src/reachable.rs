//! Which functions something can enter, if the model of the program is right.
//!
//! A coarse answer, over all runs: what starts a program enters `main`; whoever knows an
//! address may call it; other code calls what it refers to by name or finds by name, and
//! code that compilers make calls what has the name of a function of a library; and what
//! is entered enters whom it calls. What is left has no caller at all. If it ran all the
//! same, the model is wrong.
//!
//! Cost: O(instructions).

use backtrail_graph::IndexMap;

use crate::{Body, CallTargets, Target};

/// By body: whether something can enter it.
pub fn reachable(targets: &CallTargets<'_, '_>) -> IndexMap<Body, bool> {
    let mut reached: IndexMap<Body, bool> = targets.bodies().values().map(|_| false).collect();
    let mut pending: Vec<Body> = targets.entered_from_outside().into_iter().collect();
    while let Some(body) = pending.pop() {
        if std::mem::replace(&mut reached[body], true) {
            continue;
        }
        let (object, _) = targets.bodies()[body];
        let function = targets.function(body);
        for (inst, data) in function.insts.iter() {
            let Some(call) = data.op.call() else { continue };
            if let Target::Body(callee) = targets.target(object, function, inst, call) {
                pending.push(callee);
            }
        }
    }
    reached
}
