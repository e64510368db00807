//! `holo completion`: scripts that complete command lines, made from the definition of the command line.

use crate::cli::{Cli, Shell};
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;

/// The command words after which a selector can stand.
fn takes_selectors(verb: &Command) -> bool {
    verb.get_positionals().any(|argument| argument.get_id() == "selectors")
}

/// The command words after which a folder can stand.
fn takes_folders(verb: &Command) -> bool {
    verb.get_positionals().any(|argument| argument.get_id() == "scenarios")
}

/// The words that one of its arguments can be.
fn values(verb: &Command) -> Vec<String> {
    let positionals = verb.get_positionals().flat_map(Arg::get_possible_values);
    positionals.map(|value| value.get_name().to_owned()).collect()
}

fn options(verb: &Command) -> Vec<String> {
    let long = |argument: &Arg| argument.get_long().map(|long| format!("--{long}"));
    let short = |argument: &Arg| argument.get_short().map(|short| format!("-{short}"));
    verb.get_opts().chain(flags(verb)).flat_map(|argument| [short(argument), long(argument)]).flatten().collect()
}

fn flags(verb: &Command) -> impl Iterator<Item = &Arg> {
    verb.get_arguments().filter(|argument| !argument.is_positional() && !argument.get_action().takes_values())
}

fn about(verb: &Command) -> String {
    verb.get_about().map(ToString::to_string).unwrap_or_default()
}

fn words(verbs: &[Command]) -> String {
    verbs.iter().map(Command::get_name).collect::<Vec<_>>().join(" ")
}

/// The script for a shell. Selectors come from `holo selectors`, so they are always those of the system as it is.
pub(super) fn script(shell: Shell) -> String {
    let verbs: Vec<Command> = Cli::command().get_subcommands().cloned().collect();
    match shell {
        Shell::Bash => bash(&verbs),
        Shell::Zsh => zsh(&verbs),
        Shell::Fish => fish(&verbs),
    }
}

fn bash(verbs: &[Command]) -> String {
    let mut cases = String::new();
    for verb in verbs {
        let words = [options(verb), values(verb)].concat().join(" ");
        let more = if takes_selectors(verb) {
            "; mapfile -t more < <(holo selectors 2>/dev/null)"
        } else if takes_folders(verb) {
            "; mapfile -t more < <(compgen -d -- \"$word\")"
        } else {
            ""
        };
        let _ = writeln!(cases, "        {}) words='{words}'{more} ;;", verb.get_name());
    }
    format!(
        r#"# Completes the command lines of holo in bash.
_holo() {{
    local word words verb candidate more=()
    COMPREPLY=()
    # Bash takes words apart at colons, but entity IDs have them: the word is what stands after the last blank.
    local line=${{COMP_LINE:0:COMP_POINT}}
    word=${{line##*[[:blank:]]}}
    verb=${{COMP_WORDS[1]-}}
    if ((COMP_CWORD == 1)); then verb=; fi
    case $verb in
        '') words='{}' ;;
{cases}        *) return ;;
    esac
    for candidate in $words "${{more[@]}}"; do
        if [[ $candidate == "$word"* ]]; then COMPREPLY+=("${{candidate:${{#word}}}}"); fi
    done
    # What stands before the last colon is there already, and stays there.
    local last=${{COMP_WORDS[COMP_CWORD]}}
    if [[ $last == : ]]; then last=; fi
    COMPREPLY=("${{COMPREPLY[@]/#/$last}}")
}}
complete -F _holo holo
"#,
        words(verbs)
    )
}

fn zsh(verbs: &[Command]) -> String {
    let (mut described, mut cases) = (String::new(), String::new());
    for verb in verbs {
        let name = verb.get_name();
        let _ = writeln!(described, "            '{name}:{}'", about(verb).replace('\'', "'\\''"));
        let words = [options(verb), values(verb)].concat().join(" ");
        let more = if takes_selectors(verb) {
            " ${(f)\"$(holo selectors 2>/dev/null)\"}"
        } else if takes_folders(verb) {
            "; _files -/"
        } else {
            ""
        };
        let _ = writeln!(cases, "        {name}) compadd -- {words}{more} ;;");
    }
    format!(
        r#"#compdef holo
# Completes the command lines of holo in zsh.
_holo() {{
    local -a verbs
    if ((CURRENT == 2)); then
        verbs=(
{described}        )
        _describe 'command' verbs
        return
    fi
    case $words[2] in
{cases}    esac
}}
if [[ $funcstack[1] == _holo ]]; then _holo "$@"; else compdef _holo holo; fi
"#
    )
}

fn fish(verbs: &[Command]) -> String {
    let mut script = "# Completes the command lines of holo in fish.\ncomplete -c holo -f\n".to_owned();
    for verb in verbs {
        let name = verb.get_name();
        let described = about(verb).replace('\'', "\\'");
        let _ = writeln!(script, "complete -c holo -n __fish_use_subcommand -a {name} -d '{described}'");
        let seen = format!("complete -c holo -n '__fish_seen_subcommand_from {name}'");
        for option in verb.get_opts().chain(flags(verb)) {
            let short = option.get_short().map_or_else(String::new, |short| format!(" -s {short}"));
            let long = option.get_long().map_or_else(String::new, |long| format!(" -l {long}"));
            let help = option.get_help().map(ToString::to_string).unwrap_or_default().replace('\'', "\\'");
            let _ = writeln!(script, "{seen}{short}{long} -d '{help}'");
        }
        for value in values(verb) {
            let _ = writeln!(script, "{seen} -a {value}");
        }
        if takes_selectors(verb) {
            let _ = writeln!(script, "{seen} -a '(holo selectors 2>/dev/null)'");
        } else if takes_folders(verb) {
            let _ = writeln!(script, "{seen} -a '(__fish_complete_directories)'");
        }
    }
    script
}
