//! Decides which failpoints fail in a scenario, when, on which machine, and how. An error is returned, a crash cuts the
//! machine's power at exactly that step, and a delay passes in virtual time. Outside a task, which could not wait, the
//! machine is paused instead.

use crate::{
    armed_failpoint::{ArmedFailpoint, FailpointAction},
    host::{self, Crashed},
    plan::ScenarioPlan,
    trace,
    world::World,
};
use fairhold_types::failpoint::{Reached, set_judge};
use openraft_rt::AsyncRuntime;
use openraft_rt_sim::SimRuntime;
use std::panic::resume_unwind;

/// Makes the failpoints of this thread fail as planned, until the next scenario starts.
pub(crate) fn judge(world: &World, plan: &ScenarioPlan) {
    let (world, mut armed) = (world.clone(), plan.failpoints.clone());
    set_judge(Some(Box::new(move |point, blocking| {
        let Some(host) = host::current().filter(|host| !host.is_dead()) else { return Reached::Nothing };
        let now = trace::since_start();
        let meant = |armed: &ArmedFailpoint| {
            armed.point == point && armed.at <= now && armed.target.is_none_or(|target| target == host.name().0)
        };
        let due = armed.iter_mut().position(|armed| {
            let due = meant(armed) && armed.passes == 0;
            armed.passes -= u32::from(meant(armed) && !due);
            due
        });
        world.coverage.point(point.name(), due.is_some());
        let Some(due) = due else { return Reached::Nothing };
        let action = armed.remove(due).action;
        trace::event(&format!("{host:?} reaches {}: {action:?}", point.name()));
        match action {
            FailpointAction::Error => {
                world.spoil(host.name());
                Reached::Error
            }
            FailpointAction::Crash => {
                world.crash_and_restart(host.name().0, &host);
                resume_unwind(Box::new(Crashed))
            }
            FailpointAction::Delay(delay) if blocking => {
                host.pause();
                drop(SimRuntime::spawn(async move {
                    SimRuntime::sleep(delay).await;
                    host.resume();
                }));
                Reached::Nothing
            }
            FailpointAction::Delay(delay) => Reached::Delay(delay),
        }
    })));
}
