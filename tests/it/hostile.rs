//! Control characters in everything that comes from files, plugins and the command line: visible on a terminal, and
//! unchanged in a pipe.

use bstr::{BString, ByteSlice};
use clap::CommandFactory;
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// What a terminal must not receive: a title, an erased screen, hidden text, C1 controls in both encodings, DEL, a
/// backspace, an overwritten line, reversed text, and bytes that are not UTF-8.
const HOSTILE: &[u8] = b"\x1b]0;title\x07\x1b[2J\x1b[8m\x9b2J\xc2\x9b2Jrm\x7frm\x08rm\rls\xe2\x80\xae\xff\xfe";
/// Its beginning, which is valid UTF-8.
const BEGINNING: &str = "\x1b]0;title\x07\x1b[2J\x1b[8m";
const VISIBLE: &str = r"\x1b]0;title\x07\x1b[2J\x1b[8m";

/// A plugin with hostile bytes in every field of its answers.
const PLUGIN: &str = r#"#!/bin/sh
h=$(cat "$HOLO_ROOT_DIR/hostile")
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\nHEALTH=1\nDOCTOR=1\nADOPT=1\nBLAME=1\n' ;;
scan)
    printf 'ENTITY: bad:%s\nACTION: Verb%s (reason%s)\nSOURCE: /source%s\nkey%s: value%s\n' "$h" "$h" "$h" "$h" "$h" "$h"
    printf 'NEEDS: path /needs%s\nAFTER: bad:other%s\n' "$h" "$h"
    printf '>> warning %s\n' "$h" >&2 ;;
check|apply|force-apply)
    printf 'output %s\n!! error %s\n' "$h" "$h"
    printf '!! error %s\n>> warning %s\n' "$h" "$h" >&2
    printf 'progress: 1/2 %s\nchanged: changed %s\nwould change: would %s\n' "$h" "$h" "$h" >&3
    [ ! -e "$HOLO_ROOT_DIR/fails" ] || exit 1 ;;
diff) printf '%s\0%s\0' "$HOLO_ROOT_DIR/old" "$HOLO_ROOT_DIR/hostile" >&3; printf '%s\n' "$h" >&2 ;;
*) printf 'output %s\n' "$h"; printf '!! error %s\n' "$h" >&2; exit 1 ;;
esac
"#;

/// What a pipe gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The bytes.
    Bytes,
    /// A text in which invalid UTF-8, and in tables newlines, are replaced.
    Text,
    /// A format that has its own way to write control characters, or to leave them out.
    Encoded,
}
use Form::{Bytes, Encoded, Text};

/// Command lines for a shell, in which `$h` are the hostile bytes.
const COMMANDS: &[(&str, Form)] = &[
    ("holo scan", Bytes),
    ("holo status", Bytes),
    ("holo status --json", Encoded),
    ("holo scan --json", Encoded),
    ("holo check --diff", Bytes),
    ("holo check --json", Encoded),
    ("holo apply", Bytes),
    ("touch fails; holo apply --force; status=$?; rm fails; exit $status", Bytes),
    ("cp etc/edited \"etc/$h\"; holo diff", Bytes),
    ("holo apply", Bytes),
    ("holo adopt --dry-run \"etc/$h\"", Bytes),
    ("holo adopt \"bad:$h\"", Text),
    ("holo health \"$h\"", Bytes),
    ("holo watch --for 100ms", Bytes),
    ("holo doctor", Text),
    ("holo why \"bad:$h\"", Text),
    ("holo why \"etc/$h\"", Text),
    ("holo blame \"etc/$h\"", Bytes),
    ("holo history", Encoded),
    ("holo history \"bad:$h\"", Encoded),
    ("holo history edited \"bad:$h\"", Text),
    ("holo state export", Encoded),
    ("holo graph", Encoded),
    ("holo report", Encoded),
    ("holo selectors", Bytes),
    ("holo facts", Encoded),
    ("holo data --explain", Encoded),
    ("holo definitions files", Encoded),
    ("holo plugin check usr/lib/holo/holo-bad", Encoded),
    ("holo apply \"$h\"", Bytes),
    ("holo blame \"$h\"", Text),
    ("holo completion \"$h\"", Encoded),
    ("holo definitions \"$h\"", Encoded),
    ("holo facts \"$h\"", Encoded),
    ("holo data \"$h\"", Encoded),
    ("holo generations \"$h\"", Text),
    ("holo rollback \"$h\"", Encoded),
    ("holo scrub --all \"$h\"", Encoded),
    ("holo forget \"$h\"", Bytes),
    ("holo test \"$h\"", Text),
    ("holo plugin check \"$h\"", Text),
    ("holo help \"$h\"", Encoded),
    ("holo version \"$h\"", Encoded),
    ("holo \"--$h\"", Encoded),
    ("printf 'plugin %s\\n' \"$h\" >>etc/holorc; holo scan", Text),
    ("holo-secret \"$h\"", Encoded),
    ("holo-secret decrypt --root \"$h\" <hostile", Encoded),
    ("holo-agent \"$h\"", Encoded),
    ("holo-agent check-config \"$h\"", Text),
    ("holo-build \"$h\"", Text),
    ("holo-build --no-check <hostile", Encoded),
    ("holo-fleet \"$h\"", Encoded),
    ("holo-fleet bundle build \"$h\"", Text),
    ("holo-fleet bundle verify \"$h\"", Text),
    ("holo-fleet bundle build --name \"$h\" .", Encoded),
    ("holo-fleet host install --allow-unsigned hostile", Encoded),
    ("holo-fleet host show \"$h\"", Encoded),
    ("holo-probe \"$h\"", Encoded),
    (
        "HOLO_API_VERSION=4 HOLO_RESOURCE_DIR=usr/share/holo/files HOLO_STATE_DIR=tmp HOLO_CACHE_DIR=tmp holo-files scan",
        Bytes,
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [Need::Program("script")];
    vec![
        Trial::test("every verb has a command line with hostile bytes", || {
            let tested: BTreeSet<&str> =
                COMMANDS.iter().filter_map(|(line, _)| line.split("holo ").nth(1)?.split(' ').next()).collect();
            let command = holo::cli::Cli::command();
            let verbs: BTreeSet<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
            assert_eq!(verbs.difference(&tested).collect::<Vec<_>>(), Vec::<&&str>::new());
            Ok(())
        }),
        trial_of("control characters are visible on a terminal and unchanged in a pipe", &needs, hostile_bytes),
    ]
}

fn root() -> ScratchRoot {
    let name = |before: &str| OsString::from_vec([before.as_bytes(), HOSTILE].concat());
    let content = |text: &str| [text.as_bytes(), HOSTILE, b"\n"].concat();
    let data = br#"key = "\u001b]0;title\u0007\u001b[2J\u009b2J\u007f\u0008\r\u202e""#;
    ScratchRoot::new()
        .env("HOLO_HISTORY", "1")
        .plugin("files")
        .holorc("plugin files\nplugin bad\n")
        .script("usr/lib/holo/holo-bad", PLUGIN)
        .dir("usr/share/holo/bad")
        .file("hostile", HOSTILE)
        .file("old", "old\n")
        .file("etc/os-release", "ID=debian\n")
        .file(name("etc/"), content("stock"))
        .file("etc/edited", content("edited"))
        .resource(name("files/10-x/etc/"), content("wanted"))
        .resource("files/20-x.toml", [b"[[file]]\nbad = '", HOSTILE, b"'\n"].concat())
        .file("etc/holo/data/common.toml", data)
        .script(
            "etc/holo/facts.d/site",
            "#!/bin/sh\nprintf '{\"site\": \"%s\"}' '\\u001b]0;title\\u0007\\u009b2J\\u202e'\n",
        )
}

/// Returns true if there are no control characters except those that the dispatcher itself sends to a terminal.
fn is_harmless(shown: &BString) -> bool {
    let own =
        ["\r\x1b[K", "\r\n", "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[32m", "\x1b[36m", "\x1b[31m", "\x1b[0m"];
    let rest = own.iter().fold(shown.clone(), |rest, own| rest.replace(own, "\n").into());
    rest.to_str().is_ok_and(|text| !text.contains(|letter: char| letter.is_control() && !"\n\t".contains(letter)))
        && !rest.contains_str("\u{202e}")
}

fn hostile_bytes() {
    let programs =
        ["holo", "holo-secret", "holo-agent", "holo-build", "holo-fleet", "holo-probe", "holo-files"].map(built);
    let folder = programs.iter().find_map(|program| program.parent()).unwrap().display();
    // Each has its own root, so that every command finds the same state in both.
    let outputs = |command: &str| -> Vec<BString> {
        let root = root();
        let output = |(line, _): &(&str, Form)| {
            root.write("case", format!("PATH='{folder}':$PATH\nh=$(cat hostile)\n{line}\n"));
            root.run("sh", &["-c", command]).stdout
        };
        COMMANDS.iter().map(output).collect()
    };
    let (shown, piped) = std::thread::scope(|scope| {
        let shown = scope.spawn(|| outputs("script -qec 'sh case' /dev/null </dev/null"));
        let piped = outputs("sh case 2>&1 | cat");
        (shown.join().unwrap(), piped)
    });
    let mut failures = String::new();
    for (((line, form), shown), piped) in COMMANDS.iter().zip(&shown).zip(&piped) {
        let mut fail = |problem: &str| failures += &format!("{line}: {problem}, but {shown:?}, and piped {piped:?}\n");
        if !is_harmless(shown) {
            fail("a terminal must not get control characters");
        }
        match form {
            Bytes if !piped.contains_str(HOSTILE) => fail("a pipe must get the bytes"),
            Text if !piped.contains_str(BEGINNING) => fail("a pipe must get the text"),
            Bytes | Text if !shown.contains_str(VISIBLE) => fail("they must be visible on a terminal"),
            _ => {}
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
