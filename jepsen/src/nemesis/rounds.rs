//! Fixed rounds for a campaign.

use super::{Fault, Rhythm, World, upgrade};
use crate::history::FaultSpan;

/// The maximum number of attempts of a fault without effect.
const TRIES: usize = 3;
/// The name of a period without a fault.
pub(crate) const NO_FAULT: &str = "nothing";

impl World {
    /// Runs these rounds in sequence. Repeats a fault that is injected alone if it had no effect.
    pub(crate) async fn rounds(&mut self, rounds: &[Vec<Fault>], rhythm: Rhythm) {
        self.quiet(rhythm.quiet).await;
        for chosen in rounds {
            // Rounds that change programs come first.
            if !chosen.iter().any(|fault| fault.changes_program()) {
                upgrade::finish(self).await;
            }
            if chosen.is_empty() {
                self.control(rhythm).await;
                continue;
            }
            let tries = if chosen.len() == 1 { TRIES } else { 1 };
            for _ in 0..tries {
                if chosen.iter().any(|fault| self.not_covered.contains_key(fault.name())) || self.round(chosen, rhythm).await {
                    break;
                }
            }
        }
        upgrade::finish(self).await;
    }

    /// A period without a fault, for comparison.
    async fn control(&mut self, rhythm: Rhythm) {
        let start = self.recorder.now();
        self.quiet(rhythm.fault).await;
        let (fault, detail, end) = (NO_FAULT, String::new(), self.recorder.now());
        self.recorder.fault(FaultSpan {
            fault,
            detail,
            start,
            end,
            bends_time: false,
            effect: Ok("nothing was wrong".to_owned()),
        });
        self.quiet(rhythm.quiet).await;
    }
}
