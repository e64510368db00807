//! Random lives of a machine: definitions come, change and go, people and package managers write, people adopt what they
//! wrote and roll back, applies are forced, collide, run out of space and are killed. A small [model](machine) of who wrote what judges every step:
//!
//! 1. A check predicts what an apply does to each entity, and changes no file.
//! 2. After a clean apply, there is nothing to do.
//! 3. An apply only changes paths that its entities are about.
//! 4. What people wrote is only overwritten by force, and then it is in the history.
//! 5. After a clean apply or rollback, files are as defined, and what is said of them agrees with that.
//! 6. After an adoption, there is nothing to do for the file.
//! 7. When all definitions are gone, an apply restores everything, and leaves no trace.
//! 8. A second name of a file keeps its content, unless files are written in place.
//! 9. The records of a run, and what is said of an entity's last change, are what the run has reported.
//!
//! A life that fails is shrunk to the steps that matter. [`kept`] contains those that have failed once.

mod kept;
mod machine;
mod steps;

use holo_testing::random::{Random, cases_of};
use holo_testing::{Need, trial_of};
use libtest_mimic::Trial;
use machine::{Machine, Verdict};
use std::panic::{AssertUnwindSafe, catch_unwind};
use steps::Step;

/// The variable with the number of lives.
const LIVES: &str = "HOLO_TEST_LIVES";
const USUAL: u64 = 100;
const STEPS: usize = 24;
const NEEDS: [Need; 3] = [Need::Root, Need::ExtendedAttributes, Need::Program("strace")];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![trial_of("random lives", &NEEDS, || {
        cases_of(LIVES, USUAL, random_life);
    })];
    trials.extend(kept::LIVES.iter().map(|(name, steps)| {
        trial_of(name, &NEEDS, move || {
            let verdict = lived(steps);
            assert!(verdict.is_ok(), "{}", verdict.unwrap_err());
        })
    }));
    trials
}

fn random_life(random: &mut Random) {
    let steps: Vec<Step> = (0..STEPS).map(|number| Step::random(random, number)).collect();
    if let Err(why) = lived(&steps) {
        let (steps, why) = shrunk(steps, why);
        let listed: String = steps.iter().map(|step| format!("    {step:?},\n")).collect();
        panic!("{why}\nThe life, as short as possible:\n[\n{listed}]");
    }
}

/// Lives through all steps, and removes all definitions in the end.
fn lived(steps: &[Step]) -> Verdict {
    let life = || {
        let mut machine = Machine::new();
        for (number, step) in steps.iter().enumerate() {
            machine.live(*step).map_err(|why| format!("step {number}, {step:?}: {why}"))?;
        }
        machine.end()
    };
    catch_unwind(AssertUnwindSafe(life)).unwrap_or_else(|panicked| {
        let text = panicked.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panicked.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    })
}

/// Removes steps as long as the life still fails, first many at once. Returns the rest, and why it fails.
fn shrunk(mut steps: Vec<Step>, mut why: String) -> (Vec<Step>, String) {
    let mut size = steps.len() / 2;
    while size > 0 {
        let (mut start, before) = (0, steps.len());
        while start < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(start..(start + size).min(steps.len()));
            match lived(&fewer) {
                Err(reason) => (steps, why) = (fewer, reason),
                Ok(()) => start += size,
            }
        }
        if size > 1 || steps.len() == before {
            size /= 2;
        }
    }
    (steps, why)
}
