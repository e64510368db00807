//! Running programs: output, timeouts, identities, and the cleanup when this process ends.

use holo_process::{Ended, Identity, Program, ProgramError, SYSTEM_PATH, Status, Stream};
use holo_testing::processes::{Signal, is_running, members, parent, send, wait_until_gone};
use holo_testing::{Need, copy_program, trial_of, write_script};
use libtest_mimic::Trial;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A case: the property that it proves, its requirements, and the test.
type Case = (&'static str, &'static [Need], fn());

/// The argument with which this binary runs programs, for the cases in which it is ended.
pub(crate) const CALLER: &str = "caller";
/// The variable that makes a caller add a key to its session keyring.
const WITH_KEY: &str = "WITH_KEY";
/// The variable with the user for the scripts of a caller.
const USER_OF_SCRIPTS: &str = "USER_OF_SCRIPTS";
/// Long enough for a script to set its traps.
const READY: Duration = Duration::from_secs(3);
/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
const ROOT: &[Need] = &[Need::Root];
const KEYS: &[Need] = &[Need::Root, Need::Path("/proc/keys")];
const SETSID: &[Need] = &[Need::Program("setsid")];
const ROOT_AND_SETSID: &[Need] = &[Need::Root, Need::Program("setsid")];
const ON_TERMINAL: &[Need] = &[Need::Root, Need::Program("script"), Need::Program("perl")];

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 49] = [
        ("both streams are seen in order of arrival, as they come", &[], streams),
        ("what is said without a newline is seen at once", &[], prompts),
        ("statuses and signals are told apart", &[], statuses),
        ("it reads nothing unless given something", &[], reads_nothing),
        ("it reads what it is given, however much, while it writes", &[], reads_much),
        ("it need not read what it is given", &[], reads_not),
        ("files are its standard streams", &[], files),
        ("it gets no descriptors but the three", &[], descriptors),
        ("it leads a process group of its own unless told not to", &[], groups),
        ("when its time is over its whole group is asked to end", &[], asked_to_end),
        ("what does not want to end is killed, with its children", &[], killed),
        ("what has left the group, or lost its parent, ends with it", SETSID, escaped),
        ("what has left the group and does not want to end is killed", SETSID, escaped_and_stubborn),
        ("what has left the group lives on if the program ends in time", SETSID, escaped_in_time),
        ("it has been too late even if it then ends well", &[], late_but_well),
        ("it may clean up, and is heard while it does", &[], cleans_up),
        ("a time limit that is not reached changes nothing", &[], in_time),
        ("its end is the end, whoever holds its pipes", &[], held_open),
        ("what it left in the background lives on", &[], daemon),
        ("what is said just before the end is seen", &[], said_last),
        ("a program that is not there, or cannot be run, is named", &[], not_there),
        ("what names no interpreter is run by the shell", &[], no_interpreter),
        ("what names no interpreter is run by the shell as someone else, too", ROOT, no_interpreter_as_someone_else),
        ("a directory that is not there is named", &[], no_directory),
        ("it is looked up in its path, and so are those that it calls", &[], path),
        ("its path may be relative to its directory", &[], relative),
        ("its environment is ours with changes, or cleared", &[], environment),
        ("output is captured within a bound", &[], captured),
        ("a program that says too much is ended", &[], too_much),
        ("of much output the last lines are kept", &[], tail),
        ("it can be run again", &[], again),
        ("umask", &[], umask),
        ("it runs as someone else, with that user's groups and home", ROOT, identity),
        ("it runs with another group", ROOT, group),
        ("another user's program cannot reach the terminal", ON_TERMINAL, no_terminal),
        ("another user's program has no privileges, nor ways to gain any", ROOT, no_privileges),
        ("another user's program cannot use the keys in our keyring", KEYS, no_keys),
        ("another user's program gets a listed environment, and the launcher none", ROOT, listed_environment),
        ("another user's program gets no descriptors but the three", ROOT, descriptors_of_user),
        (
            "the time limit of another user's program reaches what has left its session",
            ROOT_AND_SETSID,
            escaped_as_user,
        ),
        ("what keeps the launcher from becoming the program is no output of it", ROOT, launcher_fails),
        ("who may not become someone else is told so", ROOT, not_permitted),
        ("a signal to the caller reaches its programs' groups before it ends", &[], caller_asked),
        ("a signal to the caller reaches programs of another user", ROOT, caller_asked_as_root),
        ("what does not heed the signal is killed", &[], caller_insists),
        ("a caller that is killed leaves nothing behind", &[], caller_killed),
        ("what is let finish is waited for when a signal comes, and goes on after a kill", &[], let_finish),
        ("what is let finish may take longer than its timeout, but not for ever", &[], overtime),
        ("what is let finish is ended when it takes too long", &[], never_finishes),
    ];
    cases.map(|(name, needs, test)| trial_of(name, needs, test)).into()
}

fn script_without_interpreter() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    write_script(&path, "echo \"$0 $* $(id -u)\"; exit 3\n");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    (folder, path)
}

fn no_interpreter() {
    let (folder, path) = script_without_interpreter();
    for name in [path.clone().into_os_string(), "./script".into(), "script".into()] {
        let mut program = Program::new(&name);
        program.args(["a", "b c"]).current_dir(folder.path()).timeout(LONG);
        if name == "script" {
            program.path(format!("{}:/usr/bin:/bin", folder.path().display()));
        }
        let output = program.output().unwrap();
        assert_eq!(output.ended.code(), Some(3), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("script a b c "), "{name:?}: {said}");
    }
    write_script(&path, "");
    assert_eq!(Program::new(&path).output().unwrap().ended.code(), Some(0));
}

fn no_interpreter_as_someone_else() {
    let (_folder, path) = script_without_interpreter();
    let mut program = Program::new(&path);
    let nobody = Identity {
        user: Some("54321".to_owned()),
        group: Some("54321".to_owned()),
        umask: None,
        may_gain_privileges: false,
    };
    program.arg("a").identity(nobody).timeout(LONG);
    let output = program.output().unwrap();
    assert_eq!(output.ended.code(), Some(3), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{} a 54321\n", path.display()));
}

fn shell(script: &str) -> Program {
    let mut program = Program::new("/bin/sh");
    program.args(["-c", script]).timeout(LONG);
    program
}

fn run(program: &Program) -> (Ended, String) {
    let mut seen = String::new();
    let ended = program.run(|_, bytes| seen.push_str(std::str::from_utf8(bytes).unwrap())).unwrap();
    (ended, seen)
}

fn said(script: &str) -> String {
    let (ended, seen) = run(&shell(script));
    assert_eq!(ended.failure(), None, "{seen}");
    seen
}

fn not_started(program: &Program) -> String {
    match program.run(|_, bytes| panic!("it said {bytes:?}")) {
        Err(ProgramError::NotStarted(error) | ProgramError::NotFound(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn number(text: &str) -> u32 {
    text.trim().parse().unwrap()
}

fn streams() {
    let scratch = tempfile::tempdir().unwrap();
    let mut program = shell("echo one; wait_for one; echo two >&2; wait_for two; echo three; exit 3");
    // Each word is printed only after the previous one was received.
    program.arguments_for_waiting(scratch.path());
    let mut seen = Vec::new();
    let ended = program.run(|stream, bytes| {
        let word = String::from_utf8_lossy(bytes).trim().to_owned();
        fs::write(scratch.path().join(&word), "").unwrap();
        seen.push((stream, word));
    });
    let words = [(Stream::Stdout, "one"), (Stream::Stderr, "two"), (Stream::Stdout, "three")];
    assert_eq!(seen, words.map(|(stream, word)| (stream, word.to_owned())));
    let ended = ended.unwrap();
    assert_eq!(ended.status, Status::Exited(3));
    assert_eq!(ended.tail, b"one\ntwo\nthree\n");
}

/// Provides the shell function `wait_for` to a script.
trait Waiting {
    fn arguments_for_waiting(&mut self, directory: &Path);
}

impl Waiting for Program {
    fn arguments_for_waiting(&mut self, directory: &Path) {
        let bin = directory.join("bin");
        fs::create_dir(&bin).unwrap();
        let script = format!("#!/bin/sh\nwhile ! [ -e {}/$1 ]; do sleep 0.01; done\n", directory.display());
        write_script(bin.join("wait_for"), script);
        self.path(format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    }
}

fn prompts() {
    let scratch = tempfile::tempdir().unwrap();
    let mut program = shell("printf 'Go on? '; wait_for yes; echo yes");
    program.arguments_for_waiting(scratch.path());
    let mut seen = String::new();
    let ended = program.run(|_, bytes| {
        seen.push_str(std::str::from_utf8(bytes).unwrap());
        if seen == "Go on? " {
            fs::write(scratch.path().join("yes"), "").unwrap();
        }
    });
    assert_eq!((ended.unwrap().failure(), &*seen), (None, "Go on? yes\n"));
}

fn statuses() {
    let ended = |script| run(&shell(script)).0;
    assert_eq!(ended("exit 0").failure(), None);
    assert_eq!(ended("exit 7").failure().unwrap(), "exit status 7");
    assert_eq!(ended("exit 143").failure().unwrap(), "exit status 143");
    assert_eq!(ended("kill -KILL $$").failure().unwrap(), "signal: killed");
    assert_eq!(ended("kill -TERM $$").status, Status::Signaled { signal: 15, core_dumped: false });
}

fn reads_nothing() {
    assert_eq!(said("cat; readlink /proc/self/fd/0"), "/dev/null\n");
}

fn reads_much() {
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut program = Program::new("cat");
    let output = program.stdin(bytes.clone()).timeout(LONG).output().unwrap();
    assert!(output.stdout == bytes && output.stderr.is_empty());
    let nothing = Program::new("cat").stdin("").timeout(LONG).output().unwrap();
    assert!(nothing.stdout.is_empty() && nothing.ended.failure().is_none());
}

fn reads_not() {
    let mut program = shell("exec <&-; echo done; exit 4");
    let (ended, seen) = run(program.stdin(vec![b'x'; 1 << 20]));
    assert_eq!((ended.code(), &*seen), (Some(4), "done\n"));
}

fn files() {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(b"what is read").unwrap();
    input.seek(SeekFrom::Start(0)).unwrap();
    let mut written = tempfile::tempfile().unwrap();
    let mut program = shell("cat; echo seen >&2");
    let (_, seen) = run(program.stdin_file(input).stdout_file(written.try_clone().unwrap()));
    assert_eq!(seen, "seen\n");
    let mut text = String::new();
    written.seek(SeekFrom::Start(0)).unwrap();
    written.read_to_string(&mut text).unwrap();
    assert_eq!(text, "what is read");
}

fn descriptors() {
    let _open = File::open("/").unwrap();
    let (_reader, _writer) = std::io::pipe().unwrap();
    // Descriptor 3 belongs to ls itself.
    assert_eq!(said("ls /proc/self/fd").lines().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    let mut program = shell("ls /proc/self/fd");
    program.identity(Identity { umask: Some(0o22), ..Identity::default() });
    assert_eq!(run(&program).1.lines().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
}

fn groups() {
    let script = "cut -d' ' -f5 /proc/$$/stat; echo $$";
    let own: Vec<u32> = said(script).lines().map(number).collect();
    assert_eq!(own[0], own[1]);
    let ours = fs::read_to_string("/proc/self/stat").unwrap();
    let ours = number(ours.rsplit_once(") ").unwrap().1.split(' ').nth(2).unwrap());
    let (_, shared) = run(shell(script).in_our_group());
    assert_eq!(number(shared.lines().next().unwrap()), ours);
}

fn asked_to_end() {
    // The grandchild prints its PID, and that it received the signal.
    let child = "trap 'echo asked; exit' TERM; echo $$; while :; do sleep 0.05; done";
    let mut program = shell(&format!("sh -c \"{}\" & wait", child.replace('$', "\\$")));
    let (ended, seen) = run(program.timeout(READY).grace(LONG));
    let lines: Vec<&str> = seen.lines().collect();
    // A shell may report other processes that have ended.
    assert!(lines.contains(&"asked"), "{seen}");
    assert_eq!(ended.failure().unwrap(), "timed out after 3s");
    wait_until_gone(number(lines[0]));
}

/// Returns a script that starts two processes that print their PIDs: one in another session, and one that has also lost
/// its parent.
fn leaving(trap: &str) -> String {
    let sleeper = format!("{trap} echo \\$\\$; while :; do sleep 0.05; done");
    format!("setsid sh -c \"{sleeper}\" & (setsid setsid -f sh -c \"{sleeper}\" &) ; wait; sleep 600")
}

fn escaped() {
    all_end_with(&mut shell(&leaving("")));
}

fn escaped_as_user() {
    all_end_with(shell(&leaving("")).identity(as_user(Some("nobody"), None)));
}

/// Asserts that the timeout of a [`leaving`] script ends all its processes.
fn all_end_with(program: &mut Program) {
    let (ended, seen) = run(program.timeout(READY).grace(LONG));
    assert_eq!(ended.timed_out, Some(READY));
    let numbers: Vec<u32> = seen.lines().map(number).collect();
    assert_eq!(numbers.len(), 2, "{seen}");
    assert!(numbers.iter().all(|&number| !is_running(number)), "{seen}");
}

fn escaped_and_stubborn() {
    let (ended, seen) = run(shell(&leaving("trap '' TERM;")).timeout(READY).grace(Duration::from_millis(500)));
    assert_eq!(ended.timed_out, Some(READY));
    let numbers: Vec<u32> = seen.lines().map(number).collect();
    assert_eq!(numbers.len(), 2, "{seen}");
    assert!(numbers.iter().all(|&number| !is_running(number)), "{seen}");
}

fn escaped_in_time() {
    let scratch = tempfile::tempdir().unwrap();
    let mut program =
        shell("setsid -f sh -c 'echo $$; : >begun; exec sleep 600'; while ! [ -e begun ]; do sleep 0.01; done");
    let (ended, seen) = run(program.current_dir(scratch.path()).linger(Duration::from_millis(100)));
    assert_eq!(ended.failure(), None);
    let left = number(seen.trim());
    assert!(is_running(left));
    send(left, Signal::KILL);
    wait_until_gone(left);
}

fn killed() {
    let stubborn = "trap '' TERM; echo $$; (echo $$; sleep 600) & while :; do sleep 600; done";
    let mut program = shell(&format!("{stubborn} & sleep 601 & echo $!; wait"));
    let (ended, seen) = run(program.timeout(READY).grace(Duration::from_millis(100)));
    assert_eq!(ended.status, Status::Signaled { signal: 9, core_dumped: false });
    assert_eq!(ended.timed_out, Some(READY));
    assert!(!ended.held_open || seen.lines().count() >= 2);
    seen.lines().map(number).for_each(wait_until_gone);
}

fn late_but_well() {
    let mut program = shell("trap 'exit 0' TERM; while :; do sleep 0.05; done");
    let (ended, _) = run(program.timeout(READY).grace(LONG));
    assert_eq!((ended.status, ended.code()), (Status::Exited(0), None));
    assert_eq!(ended.failure().unwrap(), "timed out after 3s");
}

fn cleans_up() {
    let mut program = shell("trap 'sleep 0.2; echo clean; exit 5' TERM; while :; do sleep 0.05; done");
    let (ended, seen) = run(program.timeout(READY).grace(LONG));
    assert_eq!(ended.status, Status::Exited(5));
    assert!(seen.ends_with("clean\n"), "{seen}");
    assert_eq!(ended.last_lines(1), ["clean"]);
}

fn in_time() {
    let (ended, _) = run(shell("sleep 0.1; exit 2").timeout(Duration::MAX));
    assert_eq!((ended.timed_out, ended.code()), (None, Some(2)));
}

fn held_open() {
    for linger in [Duration::ZERO, Duration::from_millis(50)] {
        let mut program = shell("echo one; sleep 600 & echo $!; exit 3");
        let (ended, seen) = run(program.linger(linger));
        assert_eq!((ended.code(), ended.held_open), (Some(3), true));
        let sleeper = number(seen.lines().nth(1).unwrap());
        assert!(is_running(sleeper));
        send(sleeper, Signal::TERM);
    }
    let (ended, seen) = run(shell("(sleep 0.1; echo late) & echo early").linger(LONG));
    assert_eq!((ended.held_open, &*seen), (false, "early\nlate\n"));
}

fn daemon() {
    let seen = said("sleep 600 >/dev/null 2>&1 & echo $!");
    assert!(is_running(number(&seen)));
    send(number(&seen), Signal::TERM);
    wait_until_gone(number(&seen));
}

fn said_last() {
    for _ in 0..50 {
        let mut program = shell("head -c 60000 /dev/zero; echo last >&2");
        let output = program.linger(Duration::ZERO).output().unwrap();
        assert_eq!((output.stdout.len(), &*output.stderr), (60000, &b"last\n"[..]));
    }
}

fn not_there() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("plain");
    let shown = path.display();
    assert_eq!(not_started(&Program::new(&path)), format!("fork/exec {shown}: no such file or directory"));
    fs::write(&path, "").unwrap();
    assert_eq!(not_started(&Program::new(&path)), format!("fork/exec {shown}: permission denied"));
    assert!(matches!(Program::new(&path).output(), Err(ProgramError::NotStarted(_))), "it is there");
    assert!(matches!(Program::new("no such").output(), Err(ProgramError::NotFound(_))));
    assert!(matches!(Program::new("/no/such").output(), Err(ProgramError::NotFound(_))));
    assert!(matches!(Program::new("true").current_dir("/no/such").output(), Err(ProgramError::NotStarted(_))));
    let name = "exec: \"no such\": executable file not found in $PATH";
    assert_eq!(not_started(&Program::new("no such")), name);
    assert!(not_started(Program::new("sh").arg("a\0b")).contains("fork/exec /"));
}

fn no_directory() {
    let program = |directory: &str| not_started(shell("exit").current_dir(directory));
    assert_eq!(program("/no/such"), "chdir /no/such: no such file or directory");
    assert_eq!(program("/etc/passwd"), "chdir /etc/passwd: not a directory");
}

fn path() {
    let scratch = tempfile::tempdir().unwrap();
    for (name, script) in [("tool", "#!/bin/sh\nhelper\n"), ("helper", "#!/bin/sh\necho \"$PATH\"\n")] {
        write_script(scratch.path().join(name), script);
    }
    let list = format!("/no/such:{}", scratch.path().display());
    assert_eq!(run(Program::new("tool").path(&list)).1, format!("{list}\n"));
    assert_eq!(run(Program::new("tool").clear_env().path(&list)).1, format!("{list}\n"));
    assert!(not_started(Program::new("sh").path("/no/such")).contains("not found"));
    assert!(not_started(Program::new("sh").path("")).contains("not found"));
}

fn relative() {
    let scratch = tempfile::tempdir().unwrap();
    write_script(scratch.path().join("tool"), "#!/bin/sh\npwd -P\n");
    let (_, seen) = run(Program::new("./tool").current_dir(scratch.path()));
    assert_eq!(seen.trim(), fs::canonicalize(scratch.path()).unwrap().to_str().unwrap());
    assert!(not_started(Program::new("tool").current_dir(scratch.path())).contains("not found"));
}

fn environment() {
    let lines = |program: &mut Program| {
        let mut lines: Vec<String> = run(program).1.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let ours = lines(&mut Program::new("env"));
    assert!(ours.iter().any(|line| line.starts_with("PATH=")));
    let changed = lines(
        Program::new("env").env("ONE", "1").env("TWO", "x").env("TWO", "2").env_remove("PATH").path("/usr/bin:/bin"),
    );
    assert!(changed.contains(&"ONE=1".to_owned()) && changed.contains(&"TWO=2".to_owned()));
    assert!(changed.contains(&"PATH=/usr/bin:/bin".to_owned()));
    assert!(lines(Program::new("env").clear_env()).is_empty());
    assert_eq!(lines(Program::new("env").clear_env().env("A", "b")), ["A=b"]);
    assert!(not_started(Program::new("env").env_remove("PATH")).contains("not found"));
    assert_eq!(lines(Program::new("env").clear_env().plain_locale()), ["LC_ALL=C"]);
}

fn captured() {
    let output = shell("echo out; echo err >&2; exit 1").output().unwrap();
    assert_eq!((&*output.stdout, &*output.stderr, output.ended.code()), (&b"out\n"[..], &b"err\n"[..], Some(1)));
    assert_eq!(shell("printf 12345; printf 67890 >&2").output_limit(10).output().unwrap().stdout, b"12345");
}

fn too_much() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("pid");
    let mut program = shell(&format!("echo $$ >{}; yes", file.display()));
    let error = program.output_limit(100_000).output().unwrap_err().to_string();
    assert_eq!(error, "/bin/sh printed more than 100000 bytes");
    wait_until_gone(number(&fs::read_to_string(file).unwrap()));
}

fn tail() {
    let mut lines = 0;
    let ended = shell("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i + 1)); done")
        .run(|_, bytes| lines += bytes.iter().filter(|&&byte| byte == b'\n').count())
        .unwrap();
    assert_eq!(lines, 5000);
    assert!(ended.tail.len() <= 8192 && ended.tail.starts_with(b"line 4"));
    assert_eq!(ended.last_lines(2), ["line 4998", "line 4999"]);
}

fn again() {
    let mut program = Program::new("cat");
    program.stdin("same");
    for _ in 0..3 {
        assert_eq!(program.output().unwrap().stdout, b"same");
    }
}

fn umask() {
    let mut program = shell("umask; exit 3");
    program.identity(Identity { umask: Some(0o027), ..Identity::default() });
    let (ended, seen) = run(&program);
    assert_eq!((ended.code(), &*seen), (Some(3), "0027\n"));
    // The name remains argument zero.
    let mut program = Program::new("sh");
    program.args(["-c", "cat /proc/$$/cmdline", "x y", ""]);
    program.identity(Identity { umask: Some(0o22), ..Identity::default() });
    assert_eq!(run(&program).1, "sh\0-c\0cat /proc/$$/cmdline\0x y\0\0");
}

fn as_user(user: Option<&str>, group: Option<&str>) -> Identity {
    Identity { user: user.map(str::to_owned), group: group.map(str::to_owned), umask: None, may_gain_privileges: false }
}

fn identity() {
    let script = "id -u; id -g; id -G; echo $HOME; echo $USER; echo $LOGNAME";
    let (_, seen) = run(shell(script).identity(as_user(Some("nobody"), None)));
    let account = fs::read_to_string("/etc/passwd").unwrap();
    let account = account.lines().find(|line| line.starts_with("nobody:")).unwrap();
    let fields: Vec<&str> = account.split(':').collect();
    let groups = Program::new("id").args(["-G", "nobody"]).output().unwrap().stdout;
    let groups = String::from_utf8(groups).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), [fields[2], fields[3], groups.trim(), fields[5], "nobody", "nobody"]);
    let (_, by_number) = run(shell(script).identity(as_user(Some(fields[2]), None)));
    assert_eq!(by_number, seen);
    let (_, home) = run(shell("echo $HOME").identity(as_user(Some("nobody"), None)).env("HOME", "/srv"));
    assert_eq!(home, "/srv\n");
    let (_, without_account) = run(shell("id -u; id -G").identity(as_user(Some("54321"), Some("54322"))));
    assert_eq!(without_account, "54321\n54322\n");
    // The program can neither regain privileges nor read protected files.
    let (ended, _) = run(shell("head -c 1 /etc/shadow").identity(as_user(Some("nobody"), None)));
    assert!(ended.failure().is_some());
    let mut slow = shell("sleep 600");
    let (ended, _) = run(slow.identity(as_user(Some("nobody"), None)).timeout(Duration::from_millis(200)));
    assert_eq!(ended.failure().unwrap(), "timed out after 200ms");
}

fn group() {
    let (_, seen) = run(shell("id -u; id -g").identity(as_user(None, Some("54321"))));
    assert_eq!(seen, "0\n54321\n");
}

/// Tries to type into the terminal, through its path and through each descriptor.
const TYPE: &str = r#"
open(my $terminal, "+<", "/dev/tty") and print "opened\n";
ioctl($terminal, 0x5412, my $key = "x") and print "typed\n";
my @kept;
for (0..9) {
    open(my $file, "<&=$_") or next;
    push @kept, $file;
    ioctl($file, 0x5412, my $key = "x") and print "typed into $_\n";
}
print "done\n";
"#;

fn no_terminal() {
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let typist = scratch.path().join("type");
    fs::write(&typist, TYPE).unwrap();
    let on_terminal = |user: &str| {
        let caller =
            format!("{} {CALLER} as {user} 'perl {}'", std::env::current_exe().unwrap().display(), typist.display());
        run(Program::new("script").args(["-qec", &caller, "/dev/null"]).timeout(LONG)).1
    };
    // As root, the script can type into the terminal.
    assert!(on_terminal("root").contains("opened\r\n"));
    assert_eq!(on_terminal("nobody"), "done\r\n");
}

fn no_privileges() {
    let script = "grep -E '^(NoNewPrivs|Cap[A-Z][a-z]*|Groups):' /proc/self/status; umask; pwd";
    for limit in [None, Some(LONG)] {
        let mut program = shell(script);
        let (_, seen) = run(program.identity(as_user(Some("54321"), Some("54322"))).timeout(limit));
        let none = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}:\t0000000000000000\n")).concat();
        assert_eq!(seen, format!("Groups:\t54322 \n{none}NoNewPrivs:\t1\n0022\n/\n"), "{limit:?}");
    }
    let mut program = shell("umask; pwd");
    let identity = Identity { umask: Some(0o77), ..as_user(Some("nobody"), None) };
    assert_eq!(run(program.identity(identity).current_dir("/tmp")).1, "0077\n/tmp\n");
}

/// A process with a key in its session keyring runs the programs.
fn no_keys() {
    let keys_of = |user: &str| {
        let mut program = Program::new(std::env::current_exe().unwrap());
        program.args([CALLER, "as", user, "grep -c holo-test-key /proc/keys"]).env(WITH_KEY, "1").timeout(LONG);
        run(&program).1
    };
    assert_eq!(keys_of("root"), "1\n");
    assert_eq!(keys_of("nobody"), "0\n");
}

fn listed_environment() {
    let hostile = ["BASH_ENV", "CDPATH", "ENV", "IFS", "LD_LIBRARY_PATH", "PERL5LIB", "PYTHONPATH", "XDG_RUNTIME_DIR"];
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // It also replaces the shell that is run by name.
    write_script(folder.path().join("sh"), "#!/bin/sh\necho hostile\nexec /bin/sh \"$@\"\n");
    let caller = |user: &str| {
        let mut program = Program::new(std::env::current_exe().unwrap());
        program.clear_env().path(format!("{}:/usr/bin:/bin", folder.path().display()));
        program.envs(hostile.map(|name| (name, "/tmp")));
        program.envs([("HOLO_X", "y"), ("LANG", "C"), ("LC_TIME", "C.UTF-8"), ("TERM", "vt100"), ("LCX", "z")]);
        let (_, seen) = run(program.args([CALLER, "as", user, "exec env"]));
        let mut lines: Vec<String> = seen.lines().map(str::to_owned).filter(|line| !line.starts_with("PWD=")).collect();
        lines.sort();
        lines
    };
    let of_root = caller("root");
    assert!(["BASH_ENV=/tmp", "hostile"].iter().all(|line| of_root.iter().any(|other| other == line)), "{of_root:?}");
    let [home, shell_of_nobody] = ["6", "7"].map(|field| said(&format!("getent passwd nobody | cut -d: -f{field}")));
    let (home, shell_of_nobody) = (format!("HOME={}", home.trim()), format!("SHELL={}", shell_of_nobody.trim()));
    let path = format!("PATH={SYSTEM_PATH}");
    let expected = ["HOLO_X=y", &*home, "LANG=C", "LC_TIME=C.UTF-8", "LOGNAME=nobody", &*path];
    assert_eq!(caller("nobody"), [&expected[..], &[&*shell_of_nobody, "TERM=dumb", "USER=nobody"]].concat());
    // Variables that are set for the program reach it, but not the launcher, which starts as root.
    let mut preloaded = Program::new("true");
    preloaded.identity(as_user(Some("nobody"), None)).env("LD_PRELOAD", "/no/such.so").timeout(LONG);
    let (ended, seen) = run(&preloaded);
    assert_eq!((ended.failure(), seen.matches("/no/such.so").count()), (None, 1), "{seen}");
}

fn descriptors_of_user() {
    let (_reader, _writer) = std::io::pipe().unwrap();
    let mut program = shell("ls /proc/self/fd");
    program.identity(as_user(Some("nobody"), None));
    assert_eq!(run(&program).1.lines().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
}

fn launcher_fails() {
    let mut program = Program::new("/no/such");
    program.identity(as_user(Some("nobody"), None));
    assert_eq!(not_started(&program), "fork/exec /no/such: no such file or directory");
    let scratch = tempfile::tempdir().unwrap();
    let private = scratch.path().join("private");
    fs::write(&private, "#!/bin/sh\necho never\n").unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    let mut program = Program::new(&private);
    program.identity(as_user(Some("nobody"), None));
    assert_eq!(not_started(&program), format!("fork/exec {}: permission denied", private.display()));
    assert_eq!(not_started(shell("").identity(as_user(Some("no such"), None))), "there is no user \"no such\"");
    let nowhere = not_started(shell("").identity(as_user(Some("nobody"), None)).current_dir("/no/such"));
    assert_eq!(nowhere, "chdir /no/such: no such file or directory");
}

fn not_permitted() {
    // User nobody can execute this binary anywhere it is readable.
    let scratch = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = scratch.path().join("caller");
    copy_program(std::env::current_exe().unwrap(), &copy);
    let run_as = |user: &str| {
        let mut program = Program::new(&copy);
        program.args([CALLER, "as", user, "id -u"]).identity(as_user(Some("nobody"), None)).timeout(LONG);
        run(&program).1
    };
    assert!(run_as("0").contains(": operation not permitted"), "{}", run_as("0"));
    let nobody = said("id -u nobody");
    assert_eq!(run_as("nobody"), nobody);
}

/// Runs programs: one script per argument, concurrently; or one script as a user.
pub(crate) fn caller(arguments: Vec<String>) -> ExitCode {
    if let [word, user, script] = &arguments[..]
        && word == "as"
    {
        if std::env::var_os(WITH_KEY).is_some() {
            keyutils_raw::keyctl_join_session_keyring(None).unwrap();
            keyutils_raw::add_key("user", "holo-test-key", b"secret", keyutils_raw::KEY_SPEC_SESSION_KEYRING).unwrap();
        }
        match Program::from_words(["sh", "-c", script]).identity(as_user(Some(user), None)).timeout(LONG).output() {
            Ok(output) => std::io::stdout().write_all(&output.stdout).unwrap(),
            Err(error) => std::io::stdout().write_all(error.to_string().as_bytes()).unwrap(),
        }
        return ExitCode::SUCCESS;
    }
    if let [word, limit, script] = &arguments[..]
        && word == "finish"
    {
        let ended = shell(script).let_finish(Duration::from_millis(limit.parse().unwrap())).run(|_, _| {});
        std::io::stdout().write_all(format!("went on: {ended:?}").as_bytes()).unwrap();
        return ExitCode::SUCCESS;
    }
    let user = std::env::var(USER_OF_SCRIPTS).ok();
    let threads: Vec<_> = arguments
        .into_iter()
        .map(|script| {
            let identity = as_user(user.as_deref(), None);
            std::thread::spawn(move || {
                let ended =
                    shell(&script).identity(identity).run(|_, bytes| std::io::stdout().write_all(bytes).unwrap());
                // A program that was told to terminate prints no more output.
                std::io::stdout().write_all(format!("went on: {ended:?}").as_bytes()).unwrap();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    ExitCode::SUCCESS
}

/// Runs a caller with these scripts, and sends it a signal when each script has printed its PID. Returns the caller's
/// outcome, the PIDs, whether each process was still running then, and the output after the PIDs.
fn interrupted(signal: Signal, user: Option<&str>, scripts: &[&str]) -> (Ended, Vec<u32>, Vec<bool>, String) {
    let mut program = Program::new(std::env::current_exe().unwrap());
    program.arg(CALLER).args(scripts).envs(user.map(|user| (USER_OF_SCRIPTS, user))).timeout(LONG);
    let mut seen = Vec::new();
    let mut is_sent = false;
    let numbers = |seen: &[u8]| -> Vec<u32> {
        BufReader::new(seen).lines().map_while(Result::ok).filter_map(|line| line.parse().ok()).collect()
    };
    let ended = program
        .linger(Duration::from_millis(100))
        .run(|_, bytes| {
            seen.extend_from_slice(bytes);
            let whole = &seen[..seen.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1)];
            if !is_sent && numbers(whole).len() == scripts.len() {
                is_sent = true;
                // The supervisor of the script is between them.
                let supervisor = parent(numbers(whole)[0]).unwrap();
                send(parent(supervisor).unwrap(), signal);
            }
        })
        .unwrap();
    let numbers = numbers(&seen);
    let alive = numbers.iter().map(|&number| is_running(number)).collect();
    let rest = String::from_utf8(seen).unwrap().lines().filter(|line| line.parse::<u32>().is_err()).collect();
    (ended, numbers, alive, rest)
}

fn caller_asked() {
    reaches_programs_of(None);
}

fn caller_asked_as_root() {
    reaches_programs_of(Some("nobody"));
}

fn reaches_programs_of(user: Option<&str>) {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let sleeper = "echo $$; sleep 600 & sleep 601; echo never";
        let (ended, numbers, alive, rest) = interrupted(signal, user, &[sleeper, sleeper]);
        assert_eq!(ended.status, Status::Signaled { signal: signal.as_raw(), core_dumped: false });
        assert_eq!((alive, &*rest), (vec![false, false], ""));
        // The groups are empty too, although background processes of a shell ignore SIGINT.
        numbers.into_iter().flat_map(members).for_each(wait_until_gone);
    }
}

fn caller_insists() {
    let stubborn = "trap '' TERM; echo $$; while :; do sleep 600; done";
    let (ended, _, alive, rest) = interrupted(Signal::TERM, None, &[stubborn]);
    assert_eq!(ended.status, Status::Signaled { signal: 15, core_dumped: false });
    assert_eq!((alive, &*rest), (vec![false], ""));
}

fn caller_killed() {
    let (ended, numbers, ..) =
        interrupted(Signal::KILL, None, &["echo $$; sleep 600 & wait", "echo $$; exec sleep 601"]);
    assert_eq!(ended.status, Status::Signaled { signal: 9, core_dumped: false });
    numbers.into_iter().for_each(wait_until_gone);
}

fn let_finish() {
    for (signal, number) in [("TERM", 15), ("INT", 2), ("KILL", 9)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let script =
            format!("kill -{signal} $PPID; sleep 0.3; echo said; echo said >&2; echo whole >'{}'", file.display());
        let mut program = Program::new(std::env::current_exe().unwrap());
        let (ended, seen) = run(program.args([CALLER, "finish", "60000", &script]).timeout(LONG));
        assert_eq!(ended.status, Status::Signaled { signal: number, core_dumped: false });
        if number == 9 {
            let end = Instant::now() + LONG;
            while !file.exists() && Instant::now() < end {
                sleep(Duration::from_millis(10));
            }
        } else {
            assert_eq!(seen, ">> /bin/sh is completed first, which may take up to 60s\n");
        }
        assert!(file.exists(), "{signal}");
    }
}

fn overtime() {
    let (ended, seen) =
        run(shell("sleep 0.3; echo out; echo err >&2").timeout(Duration::from_millis(50)).let_finish(LONG));
    assert_eq!((ended.failure(), &*seen), (None, "out\nerr\n"));
    assert_eq!(ended.last_lines(5), ["out", "err"]);
    // Long output stays neither in memory nor in the result.
    let long = "head -c 300000000 /dev/zero; echo; echo end; sleep 0.3; stat -Lc %b /proc/self/fd/1";
    let output = shell(long).let_finish(LONG).output().unwrap();
    let (length, end) = (output.stdout.len(), output.stdout.rsplit(|&byte| byte == 0).next().unwrap());
    assert_eq!((output.ended.failure(), length > 17 << 20, length < (17 << 20) + 100), (None, true, true), "{length}");
    let end = String::from_utf8_lossy(end);
    let blocks: u64 = end.strip_prefix("\nend\n").unwrap().trim().parse().unwrap();
    assert!((30_000..50_000).contains(&blocks), "{blocks} blocks of 512 bytes");
    let mut endless = shell("echo out; sleep 600; echo never");
    let (ended, seen) = run(endless.timeout(Duration::from_secs(1)).let_finish(Duration::from_secs(1)));
    assert_eq!((ended.failure().as_deref(), &*seen), (Some("timed out after 2s"), "out\n"));
}

fn never_finishes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let script = format!("kill -TERM $PPID; while :; do sleep 0.05; done; echo never >'{}'", file.display());
    let mut program = Program::new(std::env::current_exe().unwrap());
    let (ended, seen) = run(program.args([CALLER, "finish", "200", &script]).timeout(LONG));
    assert_eq!(ended.status, Status::Signaled { signal: 15, core_dumped: false });
    assert_eq!(seen, ">> /bin/sh is completed first, which may take up to 200ms\n");
    assert!(!file.exists());
}
