//! Failpoints in a scenario: which of them fail, when, on which machine, and how. An error is returned; a crash cuts the
//! machine's power at exactly that step; a delay passes in virtual time. Outside of a task, where nothing can wait, the
//! machine is paused.

use crate::{
    armed_point::{Act, ArmedPoint},
    host::{self, Crashed},
    plan::StoryPlan,
    trace,
    world::World,
};
use fairhold_types::failpoint::{Reached, set_judge};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::panic::resume_unwind;

/// From now on, and until another story begins, the points of this thread fail as the plan says.
pub(crate) fn judge(world: &World, plan: &StoryPlan) {
    let (world, mut armed) = (world.clone(), plan.points.clone());
    set_judge(Some(Box::new(move |point, blocking| {
        let Some(host) = host::current().filter(|host| !host.is_dead()) else { return Reached::Nothing };
        let now = trace::since_start();
        let meant =
            |armed: &ArmedPoint| armed.point == point && armed.at <= now && armed.whom.is_none_or(|whom| whom == host.name().0);
        let due = armed.iter_mut().position(|armed| {
            let due = meant(armed) && armed.passes == 0;
            armed.passes -= u32::from(meant(armed) && !due);
            due
        });
        world.tally.point(point.name(), due.is_some());
        let Some(due) = due else { return Reached::Nothing };
        let act = armed.remove(due).act;
        trace::event(&format!("{host:?} reaches {}: {act:?}", point.name()));
        match act {
            Act::Error => {
                world.spoil(host.name());
                Reached::Error
            }
            Act::Crash => {
                world.down_at_once(host.name().0, &host);
                resume_unwind(Box::new(Crashed))
            }
            Act::Delay(delay) if blocking => {
                host.pause();
                drop(SimRuntime::spawn(async move {
                    SimRuntime::sleep(delay).await;
                    host.resume();
                }));
                Reached::Nothing
            }
            Act::Delay(delay) => Reached::Delay(delay),
        }
    })));
}
