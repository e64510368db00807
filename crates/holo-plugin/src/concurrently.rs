//! Applies entities that do not depend on each other, several at a time.

use crate::{Applied, Entity, Host, Job, Output, SetAnswers, Sink, Stream};
use holo_protocol::Progress;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

/// A message of a thread about an entity.
enum News {
    Begin,
    Output(Stream, Vec<u8>),
    Progress(Option<(u64, u64)>, String),
    Send(String),
    End(Applied),
}

/// Applies each entity of a set by itself, with up to so many threads. Each is begun after all before it in the set have been.
pub fn apply<E: Entity + Sync>(host: &Host, set: &[Job<'_, E>], threads: usize, answers: &mut dyn SetAnswers) {
    let lanes: Vec<[usize; 1]> = (0..set.len()).map(|place| [place]).collect();
    apply_in_lanes(host, set, &lanes, threads, answers);
}

/// Applies entities lane by lane, with up to so many threads: those of a lane, which are given by their places in the set, one after the
/// other, and different lanes at the same time.
pub fn apply_in_lanes<E: Entity + Sync>(
    host: &Host,
    set: &[Job<'_, E>],
    lanes: &[impl AsRef<[usize]> + Sync],
    threads: usize,
    answers: &mut dyn SetAnswers,
) {
    let next = AtomicUsize::new(0);
    let threads = threads.min(lanes.len());
    if threads > 1 {
        apply_with_threads(host, set, lanes, threads, &next, answers);
    }
    let places = lanes.iter().skip(next.into_inner()).flat_map(AsRef::as_ref);
    for (place, job) in places.filter_map(|&place| Some((place, set.get(place)?))) {
        apply_here(host, job, place, answers);
    }
}

fn apply_with_threads<E: Entity + Sync>(
    host: &Host,
    set: &[Job<'_, E>],
    lanes: &[impl AsRef<[usize]> + Sync],
    threads: usize,
    next: &AtomicUsize,
    answers: &mut dyn SetAnswers,
) {
    thread::scope(|scope| {
        let (sender, news) = mpsc::channel();
        for _ in 0..threads {
            let sender = sender.clone();
            let work = move || {
                while let Some(lane) = lanes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for (place, job) in lane.as_ref().iter().filter_map(|&place| Some((place, set.get(place)?))) {
                        apply_one(host, job, place, &sender);
                    }
                }
            };
            // If no thread can be started, those that run do the work; without any, the caller does.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        drop(sender);
        for (place, news) in news {
            match news {
                News::Begin => answers.begin(place),
                News::Output(stream, bytes) => answers.output(place).relay(stream, &bytes),
                News::Progress(done_of, text) => answers.output(place).progress(&Progress { done_of, text: &text }),
                News::Send(text) => answers.output(place).send_text(&text),
                News::End(applied) => answers.end(place, applied),
            }
        }
    });
}

fn apply_here<E: Entity>(host: &Host, job: &Job<'_, E>, place: usize, answers: &mut dyn SetAnswers) {
    answers.begin(place);
    let applied = job.entity.apply(host, job.mode, &mut answers.output(place));
    answers.end(place, applied);
}

fn apply_one<E: Entity>(host: &Host, job: &Job<'_, E>, place: usize, news: &Sender<(usize, News)>) {
    // If nobody listens, the process is about to end.
    let _ = news.send((place, News::Begin));
    let mut sink = ThreadSink { place, news };
    let applied = job.entity.apply(host, job.mode, &mut Output::new(&mut sink));
    let _ = news.send((place, News::End(applied)));
}

/// Sends what is said to the thread that talks to the dispatcher.
struct ThreadSink<'a> {
    place: usize,
    news: &'a Sender<(usize, News)>,
}

impl Sink for ThreadSink<'_> {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let _ = self.news.send((self.place, News::Output(stream, bytes.to_vec())));
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        let _ = self.news.send((self.place, News::Progress(progress.done_of, progress.text.to_owned())));
    }

    fn send(&mut self, text: &str) {
        let _ = self.news.send((self.place, News::Send(text.to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntityReport, FilePair, Mode};
    use std::sync::Barrier;

    struct Meets<'a>(&'a Barrier, u8);

    impl Entity for Meets<'_> {
        fn report(&self) -> EntityReport {
            EntityReport::new(format!("meets:{}", self.1))
        }

        fn apply(&self, _: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
            assert!(mode.refresh);
            // Both are at work at the same time, or this never ends.
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
