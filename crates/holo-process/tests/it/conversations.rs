//! Conversations with programs of any behaviour.

use holo_process::{Conversation, ConversationError, Deadline, Limits, Program, Status, end_together};
use holo_testing::processes::{Signal, is_running, members, send, wait_until_gone};
use holo_testing::write_script;
use libtest_mimic::Trial;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        requests_are_answered_one_after_the_other,
        standard_error_is_heard_before_the_answer_that_follows_it,
        both_sides_may_write_much_before_they_read,
        a_flood_on_standard_error_holds_up_nothing,
        a_flood_of_answers_is_limited,
        an_endless_standard_error_ends_the_conversation,
        what_is_answered_counts_from_the_last_request,
        a_line_of_two_megabytes_is_too_long_unless_allowed,
        silence_has_its_deadline_and_ends_the_whole_group,
        who_ignores_sigterm_is_killed_after_the_grace,
        what_is_complete_counts_though_nothing_was_read,
        an_early_end_is_told_from_one_within_an_answer,
        who_closes_its_output_and_goes_on_is_ended,
        a_child_that_holds_the_output_is_heard_for_a_while_and_lives_on,
        conversations_end_together_within_one_deadline,
        a_conversation_that_is_dropped_is_killed,
        it_gets_signals_descriptors_and_environment_as_they_should_be,
        what_names_no_interpreter_is_run_by_the_shell_and_what_is_not_there_is_named,
    ]
}

/// The argument with which this binary checks its inherited descriptors and signals.
pub(crate) const HEIR: &str = "heir";
/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
/// Long enough for a script without delays.
const SHORT: Duration = Duration::from_secs(1);

fn shell(script: &str) -> Program {
    let mut program = Program::new("/bin/sh");
    program.args(["-c", script]);
    program
}

fn converse(script: &str) -> Conversation {
    shell(script).converse().unwrap()
}

/// Returns the next line, or the text of the error.
fn line(conversation: &mut Conversation) -> Result<String, String> {
    line_within(conversation, LONG)
}

fn line_within(conversation: &mut Conversation, limit: Duration) -> Result<String, String> {
    shown(conversation.line(Deadline::after(limit), &mut |_| {})).map(|line| String::from_utf8(line).unwrap())
}

/// Returns a comparable result.
fn shown<T>(result: Result<T, ConversationError>) -> Result<T, String> {
    result.map_err(|error| match error {
        ConversationError::Ended { is_answering: true, .. } => format!("while it answers: {error}"),
        error => error.to_string(),
    })
}

/// Returns the error of a program that ended between two answers.
fn ended(how: &str) -> String {
    format!("ended before its answer was complete: {how}")
}

/// Returns the next line, and the standard error up to then.
fn heard(conversation: &mut Conversation) -> (Result<Vec<u8>, String>, Vec<String>) {
    let mut heard = Vec::new();
    let line =
        conversation.line(Deadline::after(LONG), &mut |line| heard.push(String::from_utf8(line.to_vec()).unwrap()));
    (shown(line), heard)
}

fn number(text: &str) -> u32 {
    text.trim().parse().unwrap()
}

fn requests_are_answered_one_after_the_other() {
    let mut conversation = converse("while read -r word; do echo \"got $word\"; echo; done; exit 3");
    for word in ["one", "two", "three"] {
        conversation.send(format!("{word}\n").as_bytes());
        let answer = conversation.answer(Deadline::after(LONG), &mut |_| {}).unwrap();
        assert_eq!(answer, [format!("got {word}").into_bytes()]);
        assert!(!conversation.is_over(&mut |_| {}));
    }
    assert_eq!(conversation.end(LONG, &mut |_| {}).unwrap(), Status::Exited(3));
}

fn standard_error_is_heard_before_the_answer_that_follows_it() {
    let mut conversation =
        converse("echo a >&2; echo b >&2; printf c >&2; echo 1; read -r _; echo d >&2; printf e >&2; exit 1");
    assert_eq!(heard(&mut conversation), (Ok(b"1".to_vec()), vec!["a".to_owned(), "b".to_owned()]));
    conversation.send(b"\n");
    let (end, said) = heard(&mut conversation);
    assert_eq!(end, Err(ended("exit status 1")));
    assert_eq!(said, ["cd", "e"]);
    assert_eq!(conversation.last_lines(2), ["cd", "e"]);
}

fn both_sides_may_write_much_before_they_read() {
    let script = "head -c 1000000 /dev/zero | tr '\\0' x; echo; wc -c";
    let mut conversation = converse(script);
    conversation.send(&vec![b'y'; 3_000_000]);
    assert_eq!(line(&mut conversation).unwrap().len(), 1_000_000);
    let mut said = None;
    // The count is printed only after the end of the input.
    let late = line_within(&mut conversation, SHORT);
    assert_eq!(late, Err("did not answer within 1s".to_owned()));
    let mut conversation = shell(script).converse().unwrap();
    conversation.send(&vec![b'y'; 3_000_000]);
    let status = conversation.end(LONG, &mut |line| said = Some(line.to_vec()));
    assert_eq!((status.unwrap(), said), (Status::Exited(0), None));
}

fn a_flood_on_standard_error_holds_up_nothing() {
    let mut conversation = converse("(yes flood | head -c 18000000) >&2; read -r word; echo \"got $word\"");
    conversation.send(b"it\n");
    let mut length = 0;
    let answer = conversation.line(Deadline::after(LONG), &mut |line| length += line.len() + 1);
    assert_eq!(answer.unwrap(), b"got it");
    assert!(length >= 18_000_000, "{length}");
    // An endless flood does not delay the deadline.
    let mut endless = shell("while :; do echo flood; done >&2").grace(SHORT).converse().unwrap();
    let id = endless.id();
    assert_eq!(line_within(&mut endless, SHORT), Err("did not answer within 1s".to_owned()));
    assert!(!is_running(id));
    let mut endless = shell("while printf %05000d 0; do sleep 0.001; done >&2").grace(SHORT).converse().unwrap();
    let mut longest = 0;
    let late = endless.line(Deadline::after(SHORT), &mut |line| longest = longest.max(line.len()));
    assert_eq!(shown(late), Err("did not answer within 1s".to_owned()));
    assert!(longest > 1000 && longest < 1 << 20, "{longest}");
}

fn a_flood_of_answers_is_limited() {
    let mut conversation = shell("exec yes flood").grace(SHORT).converse().unwrap();
    conversation.set_limits(Limits { answer: 100_000, ..Limits::default() });
    let end = conversation.answer(Deadline::after(LONG), &mut |_| {});
    assert_eq!(end.unwrap_err().to_string(), "answered with more than 100000 bytes");
    assert!(!is_running(conversation.id()));
}

fn what_is_answered_counts_from_the_last_request() {
    let mut conversation = converse("while read -r word; do echo \"$word\"; done");
    conversation.set_limits(Limits { line: 6, answer: 10 });
    for _ in 0..5 {
        conversation.send(b"123456\n");
        assert_eq!(line(&mut conversation).unwrap(), "123456");
    }
    conversation.send(b"1234567\n");
    assert_eq!(line(&mut conversation), Err("answered with a line of more than 6 bytes".to_owned()));
}

fn an_endless_standard_error_ends_the_conversation() {
    let mut conversation = converse("yes >&2");
    let mut size = 0;
    let end = conversation.line(Deadline::after(Duration::from_secs(60)), &mut |line| size += line.len() + 1);
    assert_eq!(end.unwrap_err().to_string(), "wrote more than 32 MiB to its standard error");
    assert!(size <= 32 << 20 && !is_running(conversation.id()), "{size}");
}

fn a_line_of_two_megabytes_is_too_long_unless_allowed() {
    let script = "head -c 2000000 /dev/zero | tr '\\0' x; echo; exec sleep 600";
    let mut conversation = converse(script);
    let end = line(&mut conversation).unwrap_err();
    assert_eq!(end, "answered with a line of more than 1048576 bytes");
    assert!(!is_running(conversation.id()));
    let mut conversation = converse(script);
    conversation.set_limits(Limits { line: 2_000_000, ..Limits::default() });
    assert_eq!(line(&mut conversation).unwrap().len(), 2_000_000);
}

fn silence_has_its_deadline_and_ends_the_whole_group() {
    let mut conversation =
        shell("sleep 600 & echo $!; trap 'echo asked >&2; exit 0' TERM; read -r _; wait").converse().unwrap();
    let sleeper = number(&line(&mut conversation).unwrap());
    conversation.send(b"\n");
    let mut said = Vec::new();
    let limit = SHORT;
    let end = conversation.line(Deadline::after(limit), &mut |line| said.push(line.to_vec()));
    assert_eq!(end.unwrap_err().to_string(), "did not answer within 1s");
    assert_eq!(said, [b"asked"]);
    wait_until_gone(sleeper);
    // No further lines arrive.
    assert_eq!(line(&mut conversation), Err(ended("exit status 0")));
    assert_eq!(conversation.end(LONG, &mut |_| {}).unwrap(), Status::Exited(0));
}

fn who_ignores_sigterm_is_killed_after_the_grace() {
    let begin = Instant::now();
    let mut conversation = shell("trap '' TERM; echo $$; while :; do sleep 600; done").grace(SHORT).converse().unwrap();
    assert_eq!(number(&line(&mut conversation).unwrap()), conversation.id());
    let group = members(conversation.id());
    assert_eq!(line_within(&mut conversation, SHORT), Err("did not answer within 1s".to_owned()));
    assert!(begin.elapsed() >= 2 * SHORT);
    group.into_iter().for_each(wait_until_gone);
}

fn what_is_complete_counts_though_nothing_was_read() {
    let mut conversation = converse("exec <&-; echo one; echo; echo two; echo; exit 0");
    for word in ["one", "two"] {
        conversation.send(&vec![b'x'; 1 << 20]);
        assert!(!conversation.is_over(&mut |_| {}));
        let answer = conversation.answer(Deadline::after(LONG), &mut |_| {}).unwrap();
        assert_eq!(answer, [word.as_bytes()]);
    }
    while !conversation.is_over(&mut |_| {}) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let end = line(&mut conversation);
    assert_eq!(end, Err(ended("exit status 0")));
}

fn an_early_end_is_told_from_one_within_an_answer() {
    let mut conversation = converse("read -r _; printf 'half a line'; kill -KILL $$");
    conversation.send(b"\n");
    assert_eq!(line(&mut conversation), Err(format!("while it answers: {}", ended("signal: killed"))));
    let mut conversation = converse("echo whole; exit 0");
    let end = conversation.answer(Deadline::after(LONG), &mut |_| {}).unwrap_err();
    assert_eq!(end.to_string(), "ended before its answer was complete: exit status 0");
}

fn who_closes_its_output_and_goes_on_is_ended() {
    let mut conversation = shell("echo one; exec >&-; exec sleep 600").converse().unwrap();
    assert_eq!(line(&mut conversation).unwrap(), "one");
    assert_eq!(line(&mut conversation), Err("closed its standard output before its answer was complete".to_owned()));
    assert!(!is_running(conversation.id()));
}

fn a_child_that_holds_the_output_is_heard_for_a_while_and_lives_on() {
    // Output right after the exit is still received.
    let script = "sh -c 'sleep 0.2; echo late; exec sleep 600' & echo $!; exit 4";
    let mut program = shell(script);
    let mut conversation = program.linger(Duration::from_secs(2)).converse().unwrap();
    let begin = Instant::now();
    let left = number(&line(&mut conversation).unwrap());
    assert_eq!(line(&mut conversation).unwrap(), "late");
    let end = line(&mut conversation);
    assert_eq!(end, Err(format!("while it answers: {}", ended("exit status 4"))));
    assert!(begin.elapsed() >= Duration::from_secs(2));
    assert!(is_running(left));
    send(left, Signal::KILL);
    wait_until_gone(left);
}

fn conversations_end_together_within_one_deadline() {
    let scripts = [
        "cat >/dev/null; echo bye >&2; exit 1",
        // This program needs a signal.
        "trap 'exit 2' TERM; echo ready; while :; do sleep 0.05; done",
        // These programs ignore the signal.
        "trap '' TERM; echo ready; while :; do sleep 600; done",
        "trap '' TERM; echo ready; while :; do echo flood; done",
    ];
    let mut conversations: Vec<_> = scripts.iter().map(|script| converse(script)).collect();
    for conversation in &mut conversations[1..] {
        assert_eq!(line(conversation).unwrap(), "ready");
    }
    let groups: Vec<u32> = conversations.iter().flat_map(|conversation| members(conversation.id())).collect();
    let (begin, mut said) = (Instant::now(), Vec::new());
    let ends =
        end_together(conversations, Duration::from_secs(4), &mut |index, line| said.push((index, line.to_vec())));
    assert!(begin.elapsed() >= Duration::from_secs(4) && begin.elapsed() < LONG);
    let killed = Status::Signaled { signal: 9, core_dumped: false };
    let ends: Vec<Status> = ends.into_iter().map(Result::unwrap).collect();
    assert_eq!(ends, [Status::Exited(1), Status::Exited(2), killed, killed]);
    // A shell may report other processes that have ended.
    assert!(said.contains(&(0, b"bye".to_vec())), "{said:?}");
    groups.into_iter().for_each(wait_until_gone);
    assert!(end_together(Vec::new(), LONG, &mut |_, _| {}).is_empty());
}

fn a_conversation_that_is_dropped_is_killed() {
    let mut conversation = converse("trap '' TERM; sleep 600 & echo $!; wait");
    let (id, sleeper) = (conversation.id(), number(&line(&mut conversation).unwrap()));
    drop(conversation);
    assert!(!is_running(id));
    wait_until_gone(sleeper);
}

fn it_gets_signals_descriptors_and_environment_as_they_should_be() {
    // The parent of the test may have extra descriptors and signal settings. Run the test in a process that certainly
    // has both.
    let test = std::env::current_exe().unwrap();
    let mut outer = shell(&format!("exec 9</; trap '' PIPE USR1; exec \"$0\" {HEIR}"));
    let output = outer.arg(test).timeout(LONG).output().unwrap();
    assert_eq!(output.ended.failure(), None, "{}", String::from_utf8_lossy(&output.stderr));
}

/// Asserts that a program of a process with an open descriptor and ignored signals inherits the right ones.
pub(crate) fn heir() {
    assert!(Path::new("/proc/self/fd/9").exists());
    let script = "grep -E '^Sig(Blk|Ign)' /proc/self/status; pwd; ls /proc/$$/fd; echo \"$A-${B-unset}\"; \
                  cut -d' ' -f5 /proc/$$/stat; echo";
    let mut program = shell(script);
    program.current_dir("/usr").clear_env().env("A", "a").env("PATH", "/usr/bin:/bin").env("B", "b").env_remove("B");
    let mut conversation = program.converse().unwrap();
    let answer = conversation.answer(Deadline::after(LONG), &mut |_| {}).unwrap();
    let answer: Vec<String> = answer.into_iter().map(|line| String::from_utf8(line).unwrap()).collect();
    let id = conversation.id().to_string();
    let (signals, rest) = answer.split_at(2);
    assert_eq!(signals[0], format!("SigBlk:\t{}", "0".repeat(16)));
    // Ignored signals remain ignored, as usual, but SIGPIPE must not be inherited.
    let ignored = u64::from_str_radix(signals[1].trim_start_matches("SigIgn:\t"), 16).unwrap();
    let is_ignored = |signal: Signal| ignored & (1 << (signal.as_raw() - 1)) != 0;
    assert!(is_ignored(Signal::USR1) && !is_ignored(Signal::PIPE), "{ignored:x}");
    assert_eq!(rest, ["/usr", "0", "1", "2", "a-unset", &id]);
}

fn what_names_no_interpreter_is_run_by_the_shell_and_what_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("module");
    write_script(&path, "read -r word; echo \"$0 $word\"\n");
    let mut conversation = Program::new(&path).converse().unwrap();
    conversation.send(b"it\n");
    assert_eq!(line(&mut conversation).unwrap(), format!("{} it", path.display()));
    let error = Program::new("/no/such").converse().unwrap_err();
    assert_eq!(error.to_string(), "fork/exec /no/such: no such file or directory");
}
