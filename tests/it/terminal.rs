//! Output that only appears on a terminal, in one created by `script`.

use holo_testing::{Need, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;

/// A plugin with one operation per process.
const IN_PROCESSES: &str = r#"#!/bin/sh
progress() { echo "progress: $1" >&3; }
message() { echo "$1" >&3; }
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\n' ;;
scan) echo 'ENTITY: slow:load' ;;
apply) . "$HOLO_ROOT_DIR/apply" ;;
esac
"#;

/// The same in a session. If there is a resource `quick`, an entity that takes no time is applied after the slow one.
const IN_A_SESSION: &str = r#"#!/bin/sh
answer() { printf '{"answer":"%s","request":%s%s}\n' "$1" "$number" "$2" >&3; }
progress() { answer progress ',"entity":"slow:load","text":"'"$1"'"'; }
message() { messages="\"$1\""; }
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\nSESSION=1\n' ;;
session)
    while read -r request; do
        number=$(expr "$request" : '.*"request":\([0-9]*\)')
        case $request in
        *'"scan"'*)
            [ -e "$HOLO_RESOURCE_DIR/quick" ] && quick='ENTITY: quick:one\n'
            answer report ',"text":"'"$quick"'ENTITY: slow:load\n"' ;;
        *'"apply"'*)
            answer begin ',"entity":"slow:load"'
            . "$HOLO_ROOT_DIR/apply"
            answer result ',"entity":"slow:load","messages":['"$messages"'],"result":"done"'
            [ -z "$quick" ] || answer result ',"entity":"quick:one","messages":["not changed"],"result":"done"' ;;
        esac
        answer end ',"result":"done"'
    done ;;
esac
"#;

/// Reports progress until it is shown; without a terminal, once.
const TELLING: &str = r#"
until_shown() {
    progress "$1"
    while [ -e "$HOLO_ROOT_DIR/shown" ] && ! grep -q "$2" "$HOLO_ROOT_DIR/shown"; do sleep 0.1; progress "$1"; done
}
until_shown '2/8 unpacking' '25%'
until_shown 'nearly there' 'nearly there'
message 'changed: unpacked'
"#;

/// Reports nothing until two times have been shown; without a terminal, for the same period.
const SILENT: &str = r#"
times_shown() { grep -o 'slow:load ([0-9]* s)' "$HOLO_ROOT_DIR/shown" | sort -u | wc -l; }
if [ -e "$HOLO_ROOT_DIR/shown" ]; then while [ "$(times_shown)" -lt 2 ]; do sleep 0.1; done; else sleep 2.2; fi
message 'not changed'
"#;

const MANNERS: [(&str, &str); 2] = [("processes", IN_PROCESSES), ("a session", IN_A_SESSION)];

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [Need::Program("script")];
    let told = MANNERS.map(|(manner, plugin)| {
        trial_of(&format!("a plugin in {manner} says how far it has come"), &needs, || progress(plugin))
    });
    let silent = MANNERS.map(|(manner, plugin)| {
        let name = format!("the entity at work is named where a plugin in {manner} says nothing");
        trial_of(&name, &needs, || silence(plugin))
    });
    let as_user = [Need::Program("script"), Need::Root, Need::Program("setpriv")];
    let hints = [
        trial_of("hints say what to do about files", &needs, hints_about_files),
        trial_of("hints say what to do about programs", &needs, hints_about_programs),
        trial_of("hints say how a manual change is kept", &needs, hint_about_manual_changes),
        trial_of("hints say what was probably meant", &needs, hints_about_words),
        trial_of("help opens the manual page", &needs, help_opens_the_page),
        trial_of("hints say who may apply", &as_user, hints_about_users),
        trial_of("what was done is said where version 3 says nothing", &needs, quiet_changes),
    ];
    told.into_iter().chain(silent).chain(hints).collect()
}

/// Runs holo on a terminal, where this hint must follow the error with this prefix, and into a pipe, where it must not.
#[track_caller]
fn hint(root: &ScratchRoot, arguments: &str, error: &str, hint: &str) {
    let shown = on_a_terminal(root, arguments).stdout_lossy().into_owned();
    let lines: Vec<String> = shown.lines().map(without_colours).collect();
    let at =
        lines.iter().rposition(|line| line.contains(error)).unwrap_or_else(|| panic!("{error:?} is not in {shown:?}"));
    assert!(
        lines[at..].iter().any(|line| line.starts_with(">> ") && line.contains(hint)),
        "{hint:?} is not in {shown:?}"
    );
    let run = root.holo(&arguments.split(' ').collect::<Vec<_>>());
    let streams = format!("{}{}", run.stdout_lossy(), run.stderr_lossy());
    assert!(streams.contains(error) && !streams.contains(">> "), "{run}");
}

fn without_colours(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest)).trim_end().to_owned()
}

fn files() -> ScratchRoot {
    ScratchRoot::new().binary(built("holo")).file("etc/os-release", "ID=unittest\n").plugin("files")
}

fn hints_about_files() {
    let error = "!! skipping target: not a manageable file";
    let root = files().resource("files/10-x/etc/missing", "x\n");
    for verb in ["apply", "check"] {
        hint(&root, verb, error, "/etc/missing does not exist: install its package first");
    }
    let root = files().resource("files/etc/motd", "x\n").file("etc/motd", "stock\n");
    hint(&root, "apply", error, "put the file below");
    let root = files().resource("files/10-x/etc/motd~", "x\n").file("etc/motd", "stock\n");
    hint(&root, "apply", error, "motd~ looks like a backup: remove it");
}

fn hint_about_manual_changes() {
    let root = files().resource("files/10-x/etc/motd", "x\n").file("etc/motd", "stock\n");
    assert!(root.holo(&["apply"]).success());
    let root = root.file("etc/motd", "edited\n");
    let error = "Entity has been modified by user (use --force to overwrite)";
    hint(&root, "apply", error, "to keep the change: holo adopt file:/etc/motd");
}

fn hints_about_programs() {
    let script = "usr/share/holo/files/10-x/etc/motd.holoscript";
    let root = files().file("etc/motd", "stock\n").file(script, "#!/bin/sh\ncat\n");
    hint(
        &root,
        "apply",
        "permission denied",
        &format!("to make it executable: chmod +x {}", root.join(script).display()),
    );
    let root = files().file("etc/motd", "stock\n").script(script, "#!/usr/bin/no-such-python\n");
    hint(&root, "apply", "no such file or directory", "requires /usr/bin/no-such-python, which does not exist");
    let generator = "usr/share/holo/generators/10-lost";
    let root = files().script(generator, "#!/usr/bin/no-such-python\n");
    hint(&root, "scan", "!! could not run", "/usr/bin/no-such-python, which does not exist");
}

fn hints_about_words() {
    let root = files().resource("files/10-x/etc/motd", "x\n").file("etc/motd", "stock\n");
    hint(&root, "apply --forec", "Unrecognized argument: --forec", "did you mean --force?");
    hint(&root, "diff file:/etc/mtod", "Unrecognized argument: file:/etc/mtod", "did you mean file:/etc/motd?");
    hint(&root, "check flies", "Unrecognized argument: flies", "did you mean files?");
    let root = root.file("etc/holorc.d/10-x", "\nplugn files\n");
    hint(&root, "scan", "unknown command: plugn files", "etc/holorc.d/10-x, line 2: ");
}

fn hints_about_users() {
    let root = files().resource("files/10-x/etc/motd", "x\n").file("etc/motd", "stock\n");
    let open = "chmod 0755 . && chmod 0777 tmp && chmod 0755 run var/lib/holo && mkdir -p var/lib/holo/files";
    assert!(root.run("sh", &["-ec", open]).success());
    let user = format!("setpriv --reuid=4321 --regid=4321 --clear-groups {} apply", built("holo").display());
    let shown = root.run("script", &["-qec", &user, "/dev/null"]);
    let shown = shown.stdout_lossy();
    assert!(shown.contains("Cannot create lock file") && shown.contains("apply must be run as root"), "{shown}");
    let piped = root.run("sh", &["-c", &user]);
    assert!(!piped.stderr_lossy().contains("as root"), "{piped}");
}

/// Returns a root with a plugin that runs this script.
fn slow(plugin: &str, apply: &str) -> ScratchRoot {
    ScratchRoot::new()
        .binary(built("holo"))
        .holorc("plugin slow\n")
        .script("usr/lib/holo/holo-slow", plugin)
        .file("apply", apply)
        .dir("usr/share/holo/slow")
}

fn progress(plugin: &str) {
    let root = slow(plugin, TELLING);
    let run = on_a_terminal(&root, "apply");
    let shown = run.stdout_lossy();
    for line in ["\r\x1b[K[#####               ]  25% slow:load: unpacking", "\r\x1b[Kslow:load: nearly there"] {
        assert!(shown.contains(line), "{line:?} is not in {shown:?}");
    }
    // The status line is erased before any other output.
    let rest = shown.rsplit_once("\x1b[K").unwrap().1;
    assert!(rest.contains("unpacked") && rest.contains(": 1 changed"), "{shown:?}");
    // It does not appear without a terminal.
    let run = root.holo(&["apply"]);
    assert_eq!((run.stdout_lossy(), run.stderr_lossy()), ("\nWorking on slow:load\n\nunpacked\n\n".into(), "".into()));
    let run = root.holo(&["apply", "--json"]);
    assert!(run.success() && !run.stdout_lossy().contains("there"), "{run}");
    root.write("apply", "progress 'too early'; message 'not changed'");
    assert!(on_a_terminal(&root, "apply --json").stdout_lossy().starts_with('{'));
}

fn quiet_changes() {
    let root = || {
        let root = ScratchRoot::new().binary(built("holo")).plugin("files").file("etc/os-release", "ID=unittest\n");
        root.file("etc/motd", "stock\n").resource("files/01-x/etc/motd", "wanted\n")
    };
    let (terminal, pipe) = (root(), root());
    let target = terminal.join("etc/motd").display().to_string();
    let shown = |arguments| on_a_terminal(&terminal, arguments).stdout_lossy().into_owned();
    assert!(shown("apply").contains(&format!("wrote {target}\r\n")));
    let paragraphs = pipe.holo(&["apply"]).stdout_lossy().into_owned();
    assert!(paragraphs.ends_with("01-x/etc/motd\n\n") && !paragraphs.contains("wrote"), "{paragraphs:?}");
    for root in [&terminal, &pipe] {
        std::fs::remove_file(root.join("usr/share/holo/files/01-x/etc/motd")).unwrap();
    }
    assert!(shown("check").contains(&format!("would restore {target}\r\n")));
    assert!(shown("apply").contains(&format!("restored {target}\r\n")));
    let paragraphs = pipe.holo(&["apply"]).stdout_lossy().into_owned();
    assert!(paragraphs.ends_with("base/etc/motd\n\n") && !paragraphs.contains("restored"), "{paragraphs:?}");
}

/// Runs holo on a terminal. While it runs, the file `shown` contains the output so far.
pub(crate) fn on_a_terminal(root: &ScratchRoot, arguments: &str) -> Run {
    let command = format!("script -qefc '{} {arguments}' shown </dev/null", built("holo").display());
    let run = root.run("sh", &["-c", &command]);
    std::fs::remove_file(root.join("shown")).unwrap();
    run
}

fn help_opens_the_page() {
    let man = "#!/bin/sh\n[ $1 = -w ] && exec test $3 != holo-watch\necho page $*\n";
    let root = ScratchRoot::new().script("bin/man", man);
    let path = format!("{}:{}", root.join("bin").display(), std::env::var("PATH").unwrap());
    let root = root.env("PATH", path);
    assert_eq!(on_a_terminal(&root, "help diff").stdout_lossy(), "page 8 holo-check\r\n");
    assert_eq!(on_a_terminal(&root, "help plugin check").stdout_lossy(), "page 8 holo-plugin\r\n");
    let usage = root.holo(&["help", "watch"]).stdout_lossy().into_owned();
    assert!(usage.contains("--settle"), "{usage}");
    assert_eq!(on_a_terminal(&root, "help watch").stdout_lossy().replace('\r', ""), usage);
}

fn silence(plugin: &str) {
    let root = slow(plugin, SILENT).resource("slow/quick", "");
    let run = on_a_terminal(&root, "apply");
    let shown = run.stdout_lossy();
    let times = shown.matches("\r\x1b[Kslow:load (").count();
    assert!(times >= 2, "{times} times in {shown:?}");
    assert!(shown.rsplit_once("\x1b[K").unwrap().1.contains("unchanged"), "{shown:?}");
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
}
