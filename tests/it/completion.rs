//! Completes command lines in real shells, and checks the meaning of the finished line.
//!
//! A shell runs in a terminal created by `script`, reads keys as if they were typed, and runs a program in place of
//! holo that records its arguments. So the test covers the shell's own word splitting and quoting.

use clap::CommandFactory;
use holo::cli::Cli;
use holo_testing::{Need, ScratchRoot, binaries::built, trial};
use libtest_mimic::{Failed, Trial};
use std::env;

/// The key that inserts all candidates, in place of the word at the cursor.
const ALL: &str = "\x18";
/// The key that moves the cursor back.
const BACK: &str = "\x02";

/// A shell, and how to set up its completion.
struct Shell {
    name: &'static str,
    program: &'static str,
    command: &'static str,
    /// Its configuration file, relative to the root.
    configuration: &'static str,
    /// The commands that enable completion, and bind the key [`ALL`].
    commands: &'static str,
}

const SHELLS: [Shell; 4] = [
    Shell {
        name: "bash",
        program: "bash",
        command: "bash --rcfile tmp/configuration -i",
        configuration: "tmp/configuration",
        commands: "PS1='$ '\nbind '\"\\C-x\": insert-completions'\n. tmp/completion\n",
    },
    Shell {
        name: "bash, where colons are no word breaks",
        program: "bash",
        command: "bash --rcfile tmp/configuration -i",
        configuration: "tmp/configuration",
        commands: "PS1='$ '\nbind '\"\\C-x\": insert-completions'\n. tmp/completion\nCOMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n",
    },
    Shell {
        name: "zsh",
        program: "zsh",
        command: "zsh -d -i",
        configuration: "tmp/home/.zshrc",
        commands: r"PS1='$ '
autoload -U compinit
compinit -D -u
zle -C insert-all complete-word _generic
bindkey '^X' insert-all
zstyle ':completion:insert-all::::' completer _all_matches _complete
zstyle ':completion:insert-all:*' insert yes
. tmp/completion
",
    },
    Shell {
        name: "fish",
        program: "fish",
        command: "fish -N -i -C '. tmp/configuration'",
        configuration: "tmp/configuration",
        commands: r#"function insert_all
    set -l candidates (complete -C (commandline) | string replace -r "\t.*" "")
    commandline -t -- (string join -- " " (string escape -- $candidates))
end
bind \cx insert_all
. tmp/completion
"#,
    },
];

/// The typed keys, and the arguments that holo then receives; their order does not matter if [`ALL`] was typed.
type Case = (String, &'static [&'static str]);

/// A statement, and the cases that prove it.
struct Promise {
    name: &'static str,
    cases: fn() -> Vec<Case>,
}

const PROMISES: [Promise; 8] = [
    Promise { name: "completes command words", cases: command_words },
    Promise { name: "completes options of the command alone", cases: options },
    Promise { name: "completes selectors", cases: selectors },
    Promise { name: "quotes what has a meaning to the shell", cases: special },
    Promise { name: "goes on where quotes are open", cases: quotes },
    Promise { name: "completes folders of scenarios, and shells", cases: words },
    Promise { name: "completes keys of facts and data", cases: keys },
    Promise { name: "says nothing to what it does not know", cases: unknown },
];

fn command_words() -> Vec<Case> {
    vec![
        ("holo app\t".into(), &["apply"]),
        ("holo v\t".into(), &["version"]),
        // A plugin ID is not a command.
        ("holo fil\t".into(), &["fil"]),
    ]
}

fn options() -> Vec<Case> {
    vec![
        ("holo apply --fo\t".into(), &["apply", "--force"]),
        ("holo apply files --e\t".into(), &["apply", "files", "--exit-zero"]),
        ("holo scan --f\t".into(), &["scan", "--f"]),
        (
            format!("holo scan -{ALL}"),
            &["scan", "-s", "--short", "-p", "--porcelain", "--root", "--json", "--exit-zero"],
        ),
        // Options of another command, whose name is only an argument here.
        ("holo scan apply --fo\t".into(), &["scan", "apply", "--fo"]),
    ]
}

fn selectors() -> Vec<Case> {
    vec![
        ("holo apply file:/etc/mo\t".into(), &["apply", "file:/etc/motd"]),
        ("holo apply file:\t/mo\t".into(), &["apply", "file:/etc//mo"]),
        ("holo diff file:/etc/c:\t".into(), &["diff", "file:/etc/c:d:e"]),
        ("holo scan files file:/etc/c\t".into(), &["scan", "files", "file:/etc/c:d:e"]),
        ("holo apply --force file:/etc/mo\t".into(), &["apply", "--force", "file:/etc/motd"]),
        // The cursor is after the first selector.
        (format!("holo apply file:/etc/mo files{}\t", BACK.repeat(6)), &["apply", "file:/etc/motd", "files"]),
        (
            format!("holo scan fi{ALL}"),
            &[
                "scan",
                "file:/etc/a b",
                "file:/etc/a&b",
                "file:/etc/c:d:e",
                "file:/etc/dol$lar",
                "file:/etc/grüße",
                "file:/etc/motd",
                "file:/etc/o'clock",
                "file:/etc/sla\\sh",
                "file:/etc/sta*r",
                "file:/etc/ti\"tle",
                "files",
            ],
        ),
    ]
}

fn special() -> Vec<Case> {
    vec![
        (r"holo scan file:/etc/a\ ".to_owned() + "\t", &["scan", "file:/etc/a b"]),
        ("holo scan file:/etc/d\t".into(), &["scan", "file:/etc/dol$lar"]),
        (r"holo scan file:/etc/dol\$l".to_owned() + "\t", &["scan", "file:/etc/dol$lar"]),
        ("holo scan file:/etc/g\t".into(), &["scan", "file:/etc/grüße"]),
        ("holo scan file:/etc/grü\t".into(), &["scan", "file:/etc/grüße"]),
        ("holo scan file:/etc/o\t".into(), &["scan", "file:/etc/o'clock"]),
        ("holo scan file:/etc/sl\t".into(), &["scan", "file:/etc/sla\\sh"]),
        ("holo scan file:/etc/st\t".into(), &["scan", "file:/etc/sta*r"]),
        ("holo scan file:/etc/t\t".into(), &["scan", "file:/etc/ti\"tle"]),
    ]
}

fn quotes() -> Vec<Case> {
    vec![
        ("holo scan \"file:/etc/a \t".into(), &["scan", "file:/etc/a b"]),
        ("holo scan 'file:/etc/a \t".into(), &["scan", "file:/etc/a b"]),
        ("holo scan \"file:/etc/d\t".into(), &["scan", "file:/etc/dol$lar"]),
        ("holo scan 'file:/etc/d\t".into(), &["scan", "file:/etc/dol$lar"]),
        ("holo scan \"file:/etc/t\t".into(), &["scan", "file:/etc/ti\"tle"]),
        ("holo scan 'file:/etc/o\t".into(), &["scan", "file:/etc/o'clock"]),
        ("holo scan \"file:/etc/sl\t".into(), &["scan", "file:/etc/sla\\sh"]),
        ("holo scan 'a b' \"c d\" file:/etc/mo\t".into(), &["scan", "a b", "c d", "file:/etc/motd"]),
    ]
}

fn words() -> Vec<Case> {
    vec![
        ("holo completion z\t".into(), &["completion", "zsh"]),
        (format!("holo completion {ALL}"), &["completion", "bash", "zsh", "fish"]),
        ("holo test usr/sh\tho\tx".into(), &["test", "usr/share/holo/x"]),
        ("holo test --b\tusr/sh\tx".into(), &["test", "--bless", "usr/share/x"]),
        // A subcommand, then a file.
        ("holo plugin c\ttmp/argu\t".into(), &["plugin", "check", "tmp/arguments"]),
        ("holo plugin check --ti\t3 tmp/argu\t".into(), &["plugin", "check", "--timeout", "3", "tmp/arguments"]),
    ]
}

fn keys() -> Vec<Case> {
    vec![
        ("holo facts os.pretty\t".into(), &["facts", "os.pretty_name"]),
        ("holo data web.po\t".into(), &["data", "web.port"]),
        ("holo data --expl\tweb.po\t".into(), &["data", "--explain", "web.port"]),
    ]
}

fn unknown() -> Vec<Case> {
    vec![
        ("holo xyz\t".into(), &["xyz"]),
        ("holo xyz \t".into(), &["xyz"]),
        ("holo xyz fi\t".into(), &["xyz", "fi"]),
        ("holo version \tfi\t".into(), &["version", "fi"]),
        ("holo apply usr/sh\t".into(), &["apply", "usr/sh"]),
    ]
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for shell in &SHELLS {
        let needs = [Need::Program(shell.program), Need::Program("script")];
        for promise in &PROMISES {
            let name = format!("{} {}", shell.name, promise.name);
            trials.push(trial(&name, &needs, || check(shell, &(promise.cases)())));
        }
        let name = format!("{} knows every command word", shell.name);
        trials.push(trial(&name, &needs, || knows_every_command_word(shell)));
        let name = format!("{} is quiet when there are no selectors", shell.name);
        trials.push(trial(&name, &needs, || is_quiet_without_selectors(shell)));
    }
    let needs = [Need::Program("bash"), Need::Program("script")];
    let name = "bash goes on from where quoted candidates begin to differ";
    let cases = vec![("holo scan file:/etc/a\t&\t".into(), &["scan", "file:/etc/a&b"][..])];
    trials.push(trial(name, &needs, move || check(&SHELLS[0], &cases)));
    let needs = [Need::Program("bash")];
    trials.push(trial("bash is told what stands after the last word break", &needs, bash_replies));
    let needs = [Need::Program("zsh"), Need::Program("make")];
    trials.push(trial("zsh finds what is installed", &needs, zsh_finds_what_is_installed));
    trials
}

/// The directory depends on the distribution.
fn zsh_finds_what_is_installed() -> Result<(), Failed> {
    let root = ScratchRoot::new();
    let directories = root.run("zsh", &["-fc", "print -l $fpath"]);
    let build = built("holo");
    let make = format!(
        "make -s -C '{}' install DESTDIR='{}' BUILD='{}'",
        env!("CARGO_MANIFEST_DIR"),
        root.path().display(),
        build.parent().ok_or("no parent")?.display()
    );
    for prefix in ["", " PREFIX=/usr/local"] {
        let run = root.run("sh", &["-c", &format!("{make}{prefix}")]);
        if !run.success() {
            return Err(run.to_string().into());
        }
        let found = directories.stdout_lossy().lines().any(|directory| {
            directory.starts_with(prefix.trim_start_matches(" PREFIX="))
                && root.exists(format!("{}/_holo", directory.trim_start_matches('/')))
        });
        if !found {
            return Err(format!("_holo is not in any of\n{directories}").into());
        }
    }
    Ok(())
}

fn root() -> ScratchRoot {
    let root = ScratchRoot::new().plugin("files").file("etc/holo/data/common.toml", "web.port = 80\n");
    ["a b", "a&b", "c:d:e", "dol$lar", "grüße", "motd", "o'clock", "sla\\sh", "sta*r", "ti\"tle"]
        .into_iter()
        .fold(root, |root, name| root.resource(format!("files/01-x/etc/{name}"), "wanted\n"))
}

/// Types lines, each to its end. Returns the arguments that holo received for each, and the output of the terminal.
fn type_lines(shell: &Shell, root: ScratchRoot, lines: &[&str]) -> (Vec<Vec<String>>, String) {
    let completion = root.holo(&["completion", shell.program]);
    assert!(completion.success() && completion.stderr.is_empty(), "{completion}");
    let holo = built("holo");
    let substitute = format!(
        "#!/bin/sh\ncase \"$*\" in selectors* | facts | data) exec '{}' \"$@\" ;; esac\n{{ printf '%s\\n' \"$@\"; echo; }} >>tmp/arguments\n",
        holo.display()
    );
    let path = env::join_paths(
        std::iter::once(root.join("tmp/bin")).chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    );
    let home = root.join("tmp/home");
    let root = root
        .env("PATH", path.unwrap())
        .env("HOME", &home)
        .env("ZDOTDIR", &home)
        .env("TERM", "dumb")
        .env("LC_ALL", "C.UTF-8")
        .dir("tmp/home")
        .script("tmp/bin/holo", substitute)
        .file("tmp/completion", &completion.stdout)
        .file("tmp/arguments", "")
        .file(shell.configuration, shell.commands)
        .file("tmp/keys", lines.join("\n") + "\nexit 0\n");
    let terminal = format!("exec script -qec \"{}\" /dev/null <tmp/keys", shell.command);
    let run = root.run("sh", &["-c", &terminal]);
    let arguments = root.read("tmp/arguments").to_string();
    let given = arguments.split_terminator("\n\n").map(|given| given.split('\n').map(str::to_owned).collect());
    (given.collect(), run.to_string())
}

fn check(shell: &Shell, cases: &[Case]) -> Result<(), Failed> {
    let lines: Vec<&str> = cases.iter().map(|(line, _)| line.as_str()).collect();
    let (mut given, terminal) = type_lines(shell, root(), &lines);
    let mut wanted: Vec<Vec<String>> =
        cases.iter().map(|(_, arguments)| arguments.iter().map(ToString::to_string).collect()).collect();
    for ((line, _), (given, wanted)) in cases.iter().zip(given.iter_mut().zip(&mut wanted)) {
        // Shells order candidates differently.
        if line.contains(ALL) {
            given.sort();
            wanted.sort();
        }
    }
    if given == wanted {
        return Ok(());
    }
    Err(format!("wanted: {wanted:#?}\ngiven: {given:#?}\n{terminal}").into())
}

fn knows_every_command_word(shell: &Shell) -> Result<(), Failed> {
    let (mut given, terminal) = type_lines(shell, root(), &[&format!("holo {ALL}")]);
    let mut wanted: Vec<String> = Cli::command().get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    wanted.sort();
    given.iter_mut().for_each(|words| words.sort());
    assert_eq!(given, [wanted], "{terminal}");
    Ok(())
}

fn is_quiet_without_selectors(shell: &Shell) -> Result<(), Failed> {
    let root = root().holorc("no configuration\n");
    let selectors = root.holo(&["selectors"]);
    assert!(!selectors.success(), "{selectors}");
    let reason = "unknown command: no configuration";
    assert!(selectors.stderr_lossy().contains(reason), "{selectors}");
    let (given, terminal) = type_lines(shell, root, &["holo apply fi\t", "holo apply \t", "holo app\t"]);
    assert_eq!(given, [&["apply", "fi"][..], &["apply"], &["apply"]], "{terminal}");
    assert!(!terminal.contains(reason), "{terminal}");
    Ok(())
}

/// Calls bash's function like readline does, with the line and its words.
fn bash_replies() -> Result<(), Failed> {
    let cases = [
        ("holo apply file:/etc/mo", "holo apply file : /etc/mo", "/etc/mo", "/etc/motd\n"),
        ("holo apply file:", "holo apply file :", "", "/etc/motd\n"),
        ("holo apply fil", "holo apply fil", "fil", "file:/etc/motd\nfiles\n"),
        ("holo completion ", "holo completion ''", "", "bash\nzsh\nfish\n"),
        ("holo xyz ", "holo xyz ''", "", ""),
    ];
    let root = ScratchRoot::new().plugin("files").resource("files/01-x/etc/motd", "wanted\n");
    root.write("tmp/completion", &root.holo(&["completion", "bash"]).stdout);
    let holo = built("holo");
    for (line, words, word, wanted) in cases {
        let call = format!(
            ". tmp/completion\nholo() {{ '{}' \"$@\"; }}\nCOMP_LINE='{line}' COMP_POINT={} COMP_WORDS=({words})\n\
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n_holo holo '{word}' ''\n\
             for reply in \"${{COMPREPLY[@]}}\"; do if [[ $reply != *usr/share* ]]; then echo \"$reply\"; fi; done",
            holo.display(),
            line.len(),
        );
        let run = root.run("bash", &["-c", &call]);
        assert_eq!((run.stdout_lossy().as_ref(), run.stderr_lossy().as_ref()), (wanted, ""), "{line}");
    }
    Ok(())
}
