//! Waiting for programs one event at a time, and terminating them early.

use holo_process::{Channel, Event, Exit, Interrupt, Process, Program, Status, while_nothing_starts};
use holo_testing::processes::{is_running, wait_until_gone};
use libtest_mimic::Trial;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        all_pipes_are_seen_and_requests_arrive,
        the_end_of_its_input_can_be_had_at_any_time,
        a_signal_is_passed_on_to_the_group_and_its_last_words_are_heard,
        what_ignores_the_signal_is_killed_after_the_grace,
        what_must_not_be_cut_off_is_waited_for_within_bounds,
        what_takes_too_long_is_asked_to_end_and_told_from_the_rest,
        what_is_confined_is_overdue_after_its_time_and_leaves_nothing,
        the_pipe_that_is_held_open_is_named,
        it_may_have_some_time_to_end,
        nothing_starts_while_starts_are_held_back,
        streams_can_be_files
    ]
}

fn shell(script: &str) -> Program {
    let mut program = Program::new("/bin/sh");
    program.args(["-c", script]);
    program
}

/// An interrupt that is triggered by a test.
struct Requested {
    wake: PipeReader,
    waker: PipeWriter,
    signal: Option<i32>,
}

impl Requested {
    fn new(signal: Option<i32>) -> Requested {
        let (wake, waker) = std::io::pipe().unwrap();
        Requested { wake, waker, signal }
    }

    fn request(&self) {
        (&self.waker).write_all(b"!").unwrap();
    }
}

impl AsFd for Requested {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Interrupt for Requested {
    fn signal(&self) -> Option<i32> {
        self.signal
    }
}

/// The observed end of a program.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Ended(Exit),
    Stopped(Status),
}

fn ended(code: i32) -> End {
    End::Ended(Exit { status: Status::Exited(code), held_open: None })
}

const KILLED: Status = Status::Signaled { signal: 9, core_dumped: false };

/// Waits for the end of a program. `seen` receives all chunks.
fn to_end(process: &mut Process, interrupt: Option<&dyn Interrupt>, mut seen: impl FnMut(Channel, &[u8])) -> End {
    let (begun, mut end) = (Instant::now(), None);
    while end.is_none() {
        assert!(begun.elapsed() < LONG);
        let waited = process.wait(interrupt, &mut |event| match event {
            Event::Chunk(channel, bytes) => seen(channel, bytes),
            Event::Waiting => {}
            Event::Ended(exit) => end = Some(End::Ended(exit)),
            Event::Stopped(status) => end = Some(End::Stopped(status)),
        });
        waited.unwrap();
    }
    end.unwrap()
}

fn number(bytes: &[u8]) -> u32 {
    std::str::from_utf8(bytes).unwrap().trim().parse().unwrap()
}

fn all_pipes_are_seen_and_requests_arrive() {
    let mut program = shell("read -r word; echo out $word; echo err >&2; echo extra >&3; exit 3");
    let mut process = program.requests().extra_pipe().start().unwrap();
    process.send(b"it\n");
    let mut said = [Vec::new(), Vec::new(), Vec::new()];
    let end = to_end(&mut process, None, |channel, bytes| said[channel as usize].extend_from_slice(bytes));
    assert_eq!(end, ended(3));
    assert_eq!(said.each_ref().map(|said| String::from_utf8_lossy(said)), ["out it\n", "err\n", "extra\n"]);
}

fn the_end_of_its_input_can_be_had_at_any_time() {
    let mut process = shell("cat; exit 4").requests().start().unwrap();
    process.send(b"one");
    process.close_input();
    process.send(b"two");
    let mut said = Vec::new();
    assert_eq!(to_end(&mut process, None, |_, bytes| said.extend_from_slice(bytes)), ended(4));
    assert_eq!(said, b"one");
}

fn a_signal_is_passed_on_to_the_group_and_its_last_words_are_heard() {
    for (signal, name) in [(Some(1), "HUP"), (Some(2), "INT"), (Some(15), "TERM"), (None, "TERM")] {
        let interrupt = Requested::new(signal);
        let script = format!("trap 'echo clean; exit 5' {name}; sleep 600 & echo $!; while :; do sleep 0.05; done");
        let mut process = shell(&script).start().unwrap();
        let (mut sleeper, mut said) = (None, Vec::new());
        let end = to_end(&mut process, Some(&interrupt), |_, bytes| {
            if sleeper.is_none() {
                sleeper = Some(number(bytes));
                interrupt.request();
            } else {
                said.extend_from_slice(bytes);
            }
        });
        assert_eq!(end, End::Stopped(Status::Exited(5)), "{name}");
        assert!(process.is_ending() && !process.is_late());
        // A shell may report other processes that have ended.
        let said = String::from_utf8(said).unwrap();
        assert!(said.lines().any(|line| line == "clean"), "{said:?}");
        wait_until_gone(sleeper.unwrap());
    }
}

fn what_ignores_the_signal_is_killed_after_the_grace() {
    let interrupt = Requested::new(None);
    let mut process = shell("trap '' TERM; echo ready; while :; do sleep 600; done").grace(SHORT).start().unwrap();
    let mut asked = None;
    let end = to_end(&mut process, Some(&interrupt), |_, _| {
        asked = Some(Instant::now());
        interrupt.request();
    });
    assert_eq!(end, End::Stopped(KILLED));
    assert!(asked.unwrap().elapsed() >= SHORT);
    assert!(!is_running(process.id()));
}

fn what_must_not_be_cut_off_is_waited_for_within_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let script = "trap '' TERM; exec 9>\"$0\"; flock 9; echo ready; sleep 1.5; echo done; exec 9>&-; exec sleep 600";
    for (within, goes_on) in [(LONG, true), (SHORT, false)] {
        let mut program = shell(script);
        program.arg(&lock).grace(SHORT).uninterrupted_while_locked(&lock, within);
        let (interrupt, mut said) = (Requested::new(None), Vec::new());
        let end = to_end(&mut program.start().unwrap(), Some(&interrupt), |_, bytes| {
            said.extend_from_slice(bytes);
            interrupt.request();
        });
        assert_eq!(end, End::Stopped(KILLED));
        assert_eq!(said, if goes_on { &b"ready\ndone\n"[..] } else { b"ready\n" });
    }
}

fn what_takes_too_long_is_asked_to_end_and_told_from_the_rest() {
    let mut process = shell("trap 'exit 6' TERM; while :; do sleep 0.05; done").start().unwrap();
    process.set_alarm(Instant::now().checked_add(Duration::from_secs(1)));
    assert_eq!(to_end(&mut process, None, |_, _| {}), End::Stopped(Status::Exited(6)));
    assert!(process.is_late());
    let mut process = shell("exit 6").start().unwrap();
    process.set_alarm(Instant::now().checked_add(LONG));
    assert_eq!(to_end(&mut process, None, |_, _| {}), ended(6));
    assert!(!process.is_late());
}

fn what_is_confined_is_overdue_after_its_time_and_leaves_nothing() {
    let mut process = shell("exec sleep 600").start().unwrap();
    process.confine(SHORT);
    while !process.is_overdue() {
        process.wait(None, &mut |event| assert!(!matches!(event, Event::Ended(_) | Event::Stopped(_)))).unwrap();
    }
    let id = process.id();
    drop(process);
    assert!(!is_running(id));
    // The group is also killed if the program exits in time.
    let mut process = shell("sleep 600 >&- 2>&- & echo $!").start().unwrap();
    process.confine(LONG);
    let mut sleeper = None;
    assert_eq!(to_end(&mut process, None, |_, bytes| sleeper = Some(number(bytes))), ended(0));
    wait_until_gone(sleeper.unwrap());
}

fn the_pipe_that_is_held_open_is_named() {
    for (channel, redirection) in [
        (Channel::Stdout, "2>/dev/null 3>&-"),
        (Channel::Stderr, ">/dev/null 3>&-"),
        (Channel::Extra, ">/dev/null 2>/dev/null"),
    ] {
        let mut program = shell(&format!("sleep 600 {redirection} & exit 1"));
        let mut process = program.extra_pipe().leave_nothing().linger(SHORT).start().unwrap();
        let end = to_end(&mut process, None, |_, _| {});
        assert_eq!(end, End::Ended(Exit { status: Status::Exited(1), held_open: Some(channel) }));
    }
}

fn it_may_have_some_time_to_end() {
    let mut process = shell("cat; exit 0").requests().start().unwrap();
    let (id, begun) = (process.id(), Instant::now());
    process.close_input();
    process.end_within(LONG);
    assert!(!is_running(id) && begun.elapsed() < LONG);
    let mut process = shell("trap '' TERM; exec sleep 600").start().unwrap();
    let id = process.id();
    process.end_within(SHORT);
    assert!(!is_running(id));
}

fn nothing_starts_while_starts_are_held_back() {
    let guard = while_nothing_starts();
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        shell("exit 0").run(|_, _| {}).unwrap();
        sender.send(()).unwrap();
    });
    assert!(receiver.recv_timeout(SHORT).is_err());
    drop(guard);
    assert!(receiver.recv_timeout(LONG).is_ok());
    thread.join().unwrap();
}

fn streams_can_be_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| File::create(folder.path().join(name)).unwrap();
    let mut program = shell("echo out; echo err >&2");
    program.stdout_file(file("out")).stderr_file(file("err"));
    assert_eq!(to_end(&mut program.start().unwrap(), None, |_, _| {}), ended(0));
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!((text("out"), text("err")), ("out\n".to_owned(), "err\n".to_owned()));
}
