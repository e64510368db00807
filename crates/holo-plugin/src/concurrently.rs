//! Applying or checking single entities, independent entities concurrently, and the subsets of a set.

use crate::index::{Table, define_index};
use crate::{Applied, Entity, Host, Job, Mode, Output, SetAnswers, Sink, Stream, Verdict};
use holo_protocol::{Progress, Sent};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// A message from a thread about an entity.
enum News<R> {
    Begin,
    Output(Stream, Vec<u8>),
    Progress(Option<(u64, u64)>, String),
    Send(Sent),
    Keep(String),
    Replaced(String),
    End(R),
}

/// Applies the entities of a set with at most this number of threads. They are begun in the order of the set.
pub fn apply<E: Entity + Sync>(host: &Host, set: &[Job<'_, E>], threads: usize, answers: &mut dyn SetAnswers) {
    each(set, threads, answers, &|job, output| job.entity.apply(host, job.mode, output));
}

/// Checks the entities of a set with at most this number of threads.
pub fn check<E: Entity + Sync>(host: &Host, set: &[Job<'_, E>], threads: usize, answers: &mut dyn SetAnswers<Verdict>) {
    each(set, threads, answers, &|job, output| job.entity.check(host, job.mode, output));
}

/// Processes the entities of a set with at most this number of threads.
fn each<'e, E: Sync, R: Send>(
    set: &[Job<'e, E>],
    threads: usize,
    answers: &mut dyn SetAnswers<R>,
    work: &(dyn Fn(&Job<'e, E>, &mut Output<'_>) -> R + Sync),
) {
    in_threads(set.iter().enumerate().collect(), threads, answers, &|(place, job), answers| {
        answers.begin(place);
        let result = work(job, &mut answers.output(place));
        answers.end(place, result);
    });
}

/// Applies entities by lanes, with at most this number of threads. A lane is a list of indexes of the set: its entities
/// are applied in order, and different lanes concurrently.
pub fn apply_in_lanes<E: Entity + Sync>(
    host: &Host,
    set: &[Job<'_, E>],
    lanes: &[impl AsRef<[usize]> + Sync],
    threads: usize,
    answers: &mut dyn SetAnswers,
) {
    in_threads(lanes.iter().collect(), threads, answers, &|lane, answers| {
        for (place, job) in lane.as_ref().iter().filter_map(|&place| Some((place, set.get(place)?))) {
            answers.begin(place);
            let applied = job.entity.apply(host, job.mode, &mut answers.output(place));
            answers.end(place, applied);
        }
    });
}

/// Processes parts of a set with at most this number of threads. The answers of a thread are passed on immediately.
pub fn in_threads<T: Send, R: Send>(
    parts: Vec<T>,
    threads: usize,
    answers: &mut dyn SetAnswers<R>,
    work: &(dyn Fn(T, &mut dyn SetAnswers<R>) + Sync),
) {
    let threads = threads.min(parts.len());
    let pending = Mutex::new(parts.into_iter());
    let next = || pending.lock().unwrap_or_else(PoisonError::into_inner).next();
    if threads > 1 {
        thread::scope(|scope| {
            let (sender, news) = mpsc::channel();
            for _ in 0..threads {
                let mut answers = ThreadAnswers { place: 0, news: sender.clone() };
                let worker = move || {
                    while let Some(part) = next() {
                        work(part, &mut answers);
                    }
                };
                // If a thread cannot be started, the others do the work; if none was started, the caller does it.
                if thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                    break;
                }
            }
            drop(sender);
            news.into_iter().for_each(|(place, news)| news.hand_on(place, answers));
        });
    }
    while let Some(part) = next() {
        work(part, answers);
    }
}

impl<R> News<R> {
    fn hand_on(self, place: usize, answers: &mut dyn SetAnswers<R>) {
        match self {
            News::Begin => answers.begin(place),
            News::Output(stream, bytes) => answers.output(place).relay(stream, &bytes),
            News::Progress(done_of, text) => answers.output(place).progress(&Progress { done_of, text: &text }),
            News::Send(sent) => drop(answers.output(place).send_value(&sent)),
            News::Keep(text) => answers.output(place).keep_text(&text),
            News::Replaced(text) => answers.output(place).replaced_text(&text),
            News::End(result) => answers.end(place, result),
        }
    }
}

/// Sends answers to the thread that communicates with the dispatcher. If that thread has ended, the process is about to
/// exit.
struct ThreadAnswers<R> {
    place: usize,
    news: Sender<(usize, News<R>)>,
}

impl<R> ThreadAnswers<R> {
    fn tell(&self, place: usize, news: News<R>) {
        let _ = self.news.send((place, news));
    }
}

impl<R> SetAnswers<R> for ThreadAnswers<R> {
    fn begin(&mut self, place: usize) {
        self.tell(place, News::Begin);
    }

    fn output(&mut self, place: usize) -> Output<'_> {
        self.place = place;
        Output::new(self)
    }

    fn end(&mut self, place: usize, result: R) {
        self.tell(place, News::End(result));
    }
}

impl<R> Sink for ThreadAnswers<R> {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        self.tell(self.place, News::Output(stream, bytes.to_vec()));
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.tell(self.place, News::Progress(progress.done_of, progress.text.to_owned()));
    }

    fn send(&mut self, sent: &Sent) {
        self.tell(self.place, News::Send(sent.clone()));
    }

    fn replaced(&mut self, text: &str) {
        self.tell(self.place, News::Replaced(text.to_owned()));
    }

    fn keep(&mut self, text: &str) {
        self.tell(self.place, News::Keep(text.to_owned()));
    }
}

/// Applies one entity as a set of its own, and returns its result.
pub fn apply_one<'e, E>(
    entity: &'e E,
    mode: Mode<'e>,
    output: &mut Output<'_>,
    apply: impl FnOnce(&[Job<'e, E>], &mut dyn SetAnswers),
) -> Applied {
    let mut answer = Answer { output: output.again(), applied: Applied::FAILED };
    apply(&[Job { entity, mode }], &mut answer);
    answer.applied
}

/// Receives the answer for a set of one entity.
struct Answer<'a> {
    output: Output<'a>,
    applied: Applied,
}

impl SetAnswers for Answer<'_> {
    fn begin(&mut self, _: usize) {}

    fn output(&mut self, _: usize) -> Output<'_> {
        self.output.again()
    }

    fn end(&mut self, _: usize, applied: Applied) {
        self.applied = applied;
    }
}

define_index! {
    /// The index of an entity in a subset.
    pub PartIndex
}

/// Receives the answers for a subset, by the index of the entity in the subset.
pub struct Part<'a, R> {
    /// The index in the set for each entity of the subset.
    pub places: Table<PartIndex, usize>,
    /// Receives the answers for the set.
    pub answers: &'a mut dyn SetAnswers<R>,
}

impl<R> SetAnswers<R> for Part<'_, R> {
    fn begin(&mut self, place: usize) {
        self.answers.begin(self.places[PartIndex::from(place)]);
    }

    fn output(&mut self, place: usize) -> Output<'_> {
        self.answers.output(self.places[PartIndex::from(place)])
    }

    fn end(&mut self, place: usize, result: R) {
        self.answers.end(self.places[PartIndex::from(place)], result);
    }

    fn hold_back(&mut self) {
        self.answers.hold_back();
    }

    fn flush(&mut self) {
        self.answers.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Applied;
    use crate::{EntityReport, FilePair, Mode};
    use std::sync::Barrier;

    struct Meets<'a>(&'a Barrier, u8);

    impl Entity for Meets<'_> {
        fn report(&self) -> EntityReport {
            EntityReport::new(format!("meets:{}", self.1))
        }

        fn apply(&self, _: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
            assert!(mode.refresh);
            // Blocks forever unless both run at the same time.
            self.0.wait();
            output.print([self.1]);
            Applied::Changed(vec![self.1.to_string()])
        }

        fn diff(&self, _: &Host) -> Option<FilePair> {
            None
        }
    }

    #[derive(Default)]
    struct Heard {
        begun: Vec<usize>,
        said: Vec<(usize, Vec<u8>)>,
        ended: Vec<(usize, Applied)>,
        speaker: usize,
    }

    impl SetAnswers for Heard {
        fn begin(&mut self, place: usize) {
            self.begun.push(place);
        }

        fn output(&mut self, place: usize) -> Output<'_> {
            self.speaker = place;
            Output::new(self)
        }

        fn end(&mut self, place: usize, applied: Applied) {
            self.ended.push((place, applied));
        }
    }

    impl Sink for Heard {
        fn write(&mut self, _: Stream, bytes: &[u8]) {
            self.said.push((self.speaker, bytes.to_vec()));
        }
    }

    #[test]
    fn works_on_several_at_a_time_and_answers_for_each() {
        let host = Host::from_environment(|_| Some("x".into())).unwrap();
        let barrier = Barrier::new(2);
        let entities: Vec<Meets<'_>> = (0..4).map(|number| Meets(&barrier, number)).collect();
        let mode = Mode { refresh: true, ..Mode::default() };
        let set: Vec<Job<'_, Meets<'_>>> = entities.iter().map(|entity| Job { entity, mode }).collect();
        let mut heard = Heard::default();
        apply(&host, &set, 2, &mut heard);
        heard.begun.sort_unstable();
        heard.said.sort();
        heard.ended.sort_by_key(|(place, _)| *place);
        assert_eq!(heard.begun, [0, 1, 2, 3]);
        assert_eq!(heard.said, [(0, vec![0]), (1, vec![1]), (2, vec![2]), (3, vec![3])]);
        let texts: Vec<Applied> = (0..4).map(|number| Applied::Changed(vec![format!("{number}")])).collect();
        assert_eq!(heard.ended.into_iter().map(|(_, applied)| applied).collect::<Vec<_>>(), texts);
    }

    #[test]
    fn those_of_a_lane_are_applied_in_its_order_and_lanes_meet() {
        let host = Host::from_environment(|_| Some("x".into())).unwrap();
        let barrier = Barrier::new(2);
        let entities: Vec<Meets<'_>> = (0..4).map(|number| Meets(&barrier, number)).collect();
        let mode = Mode { refresh: true, ..Mode::default() };
        let set: Vec<Job<'_, Meets<'_>>> = entities.iter().map(|entity| Job { entity, mode }).collect();
        let mut heard = Heard::default();
        apply_in_lanes(&host, &set, &[vec![3, 0], vec![2, 1]], 9, &mut heard);
        let order = |lane: [usize; 2]| {
            let ended = heard.ended.iter().map(|(place, _)| *place);
            ended.filter(|place| lane.contains(place)).collect::<Vec<_>>()
        };
        assert_eq!((order([3, 0]), order([2, 1]), heard.ended.len()), (vec![3, 0], vec![2, 1], 4));
    }

    #[test]
    fn with_one_thread_lanes_follow_one_another() {
        let host = Host::from_environment(|_| Some("x".into())).unwrap();
        let barrier = Barrier::new(1);
        let entities: Vec<Meets<'_>> = (0..4).map(|number| Meets(&barrier, number)).collect();
        let mode = Mode { refresh: true, ..Mode::default() };
        let set: Vec<Job<'_, Meets<'_>>> = entities.iter().map(|entity| Job { entity, mode }).collect();
        let mut heard = Heard::default();
        apply_in_lanes(&host, &set, &[vec![3, 0], vec![2, 1]], 1, &mut heard);
        assert_eq!(heard.begun, [3, 0, 2, 1]);
        assert_eq!(heard.ended.len(), 4);
    }
}
