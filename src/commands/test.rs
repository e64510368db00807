//! `holo test`

use crate::cli::Test;
use crate::diff;
use crate::error::{FatalError, exit};
use crate::host::interrupt::Interrupt;
use crate::report::{Event, Remarks, Reporter};
use bstr::{BString, ByteSlice};
use holo_protocol::session::Stream;
use holo_testing::scenario::{Deviation, Error as ScenarioError, Options, Outcome, Scenario, set_umask};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// The result of a scenario, or the reason for which it could not be run.
type Ran = Result<Outcome, ScenarioError>;

pub(super) fn run(arguments: &Test, reporter: &mut dyn Reporter) -> Result<u8, FatalError> {
    let binary = std::env::current_exe().map_err(|error| FatalError::io("find", Path::new("holo"), error))?;
    let options = Options::new(binary);
    let jobs = arguments.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    // Expectations are written for the usual umask, which is a property of the whole process.
    set_umask();
    end_children_when_interrupted()?;
    let mut failed = 0;
    run_all(&arguments.scenarios, &options, jobs, |scenario, ran| {
        let passed = match ran {
            Ok(outcome) if arguments.bless => bless(scenario, &outcome, reporter),
            Ok(outcome) => judge(scenario, &outcome, reporter),
            Err(reason) => {
                reporter.error(reason.to_string());
                false
            }
        };
        failed += usize::from(!passed);
        reporter.end_paragraph();
    });
    let passed = arguments.scenarios.len() - failed;
    reporter.event(Event::Text(format!("{passed} passed, {failed} failed\n").as_bytes()));
    Ok(if failed == 0 { exit::DONE } else { exit::FAILED })
}

/// Ends child processes when a signal ends this process.
fn end_children_when_interrupted() -> Result<(), FatalError> {
    let interrupt = Interrupt::install().map_err(FatalError::could_not_run)?;
    std::thread::spawn(move || {
        let signal = interrupt.wait();
        holo_process::end_all();
        std::process::exit(exit::interrupted(signal).into());
    });
    Ok(())
}

/// Runs several scenarios concurrently, and delivers the results in order.
fn run_all(scenarios: &[PathBuf], options: &Options, jobs: NonZeroUsize, mut ended: impl FnMut(&Path, Ran)) {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.get().min(scenarios.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some((index, path)) = take(next, scenarios) {
                    let ran = Scenario::new(path).run(options);
                    // The receiver is gone only if this process is about to end.
                    let _ = sender.send((index, ran));
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut next = scenarios.iter().enumerate().peekable();
        for (index, ran) in results {
            waiting.insert(index, ran);
            while let Some((_, scenario, ran)) =
                next.peek().and_then(|(index, scenario)| Some((*index, *scenario, waiting.remove(index)?)))
            {
                ended(scenario, ran);
                next.next();
            }
        }
    });
}

fn take<'a>(next: &AtomicUsize, scenarios: &'a [PathBuf]) -> Option<(usize, &'a PathBuf)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    scenarios.get(index).map(|path| (index, path))
}

fn bless(scenario: &Path, outcome: &Outcome, reporter: &mut dyn Reporter) -> bool {
    match outcome.bless() {
        Ok(()) => {
            for deviation in &outcome.deviations {
                reporter.warning(format!("{}: {} is what is expected now", scenario.display(), deviation.name));
            }
            true
        }
        Err(error) => {
            reporter.error(format!("{}: {error}", scenario.display()));
            false
        }
    }
}

fn judge(scenario: &Path, outcome: &Outcome, reporter: &mut dyn Reporter) -> bool {
    for deviation in &outcome.deviations {
        reporter.error(format!("{}: {} is not what is expected", scenario.display(), deviation.name));
        reporter.event(Event::Diff(&difference(scenario, deviation)));
    }
    if !outcome.passed() && !outcome.env_output.is_empty() {
        reporter.warning(format!("{}: env.sh said", scenario.display()));
        reporter.output(Stream::Stderr, &outcome.env_output);
    }
    outcome.passed()
}

fn difference(scenario: &Path, deviation: &Deviation) -> Vec<u8> {
    let name = |file: &str| BString::from(scenario.join(file).into_os_string().into_encoded_bytes());
    let (expected, actual) = (name(&deviation.expected_name()), name(deviation.name));
    let text = deviation.actual.clone().unwrap_or_default();
    diff::render_texts(expected.as_bstr(), &deviation.expected, actual.as_bstr(), &text)
}
