//! `holo completion`: generates completion scripts from the definition of the command line.

use crate::cli::{Cli, Shell};
use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;

/// The placeholders in the templates of the scripts.
const VERBS: &str = "@VERBS@";
const OPTIONS: &str = "@OPTIONS@";
const OPERANDS: &str = "@OPERANDS@";
/// Reduces lines of facts and data to their keys.
const ONLY_KEYS: &str = "sed 's/: .*//; s/:$//'";

/// The operands that can follow a command word.
enum Operand {
    Nothing,
    /// Selectors, which `holo selectors` lists at completion time.
    Selectors,
    Folders,
    /// The keys of facts or data, which the command itself lists at completion time.
    Keys,
    Words(String),
    /// One of these subcommands, followed by files.
    Verbs(String),
}

impl Operand {
    fn for_verb(verb: &Command) -> Operand {
        let takes_selectors = verb.get_positionals().any(|argument| {
            argument.get_value_names().is_some_and(|names| names.iter().any(|name| name == "SELECTOR"))
        });
        if verb.has_subcommands() && !takes_selectors {
            return Operand::Verbs(verb.get_subcommands().map(Command::get_name).collect::<Vec<_>>().join(" "));
        }
        let Some(argument) = verb.get_positionals().next() else { return Operand::Nothing };
        match argument.get_value_names() {
            Some([name]) if name == "SELECTOR" => Operand::Selectors,
            Some([name]) if name == "DIR" => Operand::Folders,
            Some([name]) if name == "QUERY" || name == "KEY" => Operand::Keys,
            _ => {
                let values = argument.get_possible_values();
                Operand::Words(values.iter().map(PossibleValue::get_name).collect::<Vec<_>>().join(" "))
            }
        }
    }
}

/// Returns the script for a shell.
pub(super) fn script(shell: Shell) -> String {
    let verbs: Vec<Command> = Cli::command().get_subcommands().cloned().collect();
    match shell {
        Shell::Bash => bash(&verbs),
        Shell::Zsh => zsh(&verbs),
        Shell::Fish => fish(&verbs),
    }
}

/// Returns the options of a verb and of its subcommands.
fn options(verb: &Command) -> impl Iterator<Item = &Arg> {
    let below = verb.get_subcommands().flat_map(Command::get_arguments);
    verb.get_arguments().chain(below).filter(|argument| !argument.is_positional())
}

/// Returns the spellings of an option: `-f` and `--force`.
fn spellings(option: &Arg) -> Vec<String> {
    let short = option.get_short().map(|short| format!("-{short}"));
    short.into_iter().chain(option.get_long().map(|long| format!("--{long}"))).collect()
}

fn about(verb: &Command) -> String {
    verb.get_about().map(ToString::to_string).unwrap_or_default()
}

fn help(option: &Arg) -> String {
    option.get_help().map(ToString::to_string).unwrap_or_default()
}

/// Concatenates the texts made of each item.
fn each<T>(items: impl IntoIterator<Item = T>, mut make: impl FnMut(&mut String, T) -> std::fmt::Result) -> String {
    let mut text = String::new();
    for item in items {
        // Writing to a string cannot fail.
        let _ = make(&mut text, item);
    }
    text
}

/// Quotes text with single quotes for bash and zsh.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

const BASH: &str = r#"# Completes the command lines of holo in bash.
_holo() {
    # Bash takes words apart at colons and leaves quotes in them, so this reads the line as the shell will.
    local line=${COMP_LINE:0:COMP_POINT} typed=$2 words=() word='' quote='' letter
    while [[ $line ]]; do
        letter=${line:0:1} line=${line:1}
        case $quote$letter in
            [[:space:]]) words+=(${word:+"$word"}) word='' ;;
            "'" | '"') quote=$letter ;;
            "''" | '""') quote='' ;;
            \\ | '"\')
                # One at the end is what completion itself left, where candidates begin to differ.
                if [[ ! $line ]]; then typed=${typed%\\}; fi
                word+=${line:0:1} line=${line:1}
                ;;
            *) word+=$letter ;;
        esac
    done
    local verb=${words[1]-} candidates=()
    COMPREPLY=()
    if [[ $word == -* ]]; then
        case $verb in
@OPTIONS@        esac
    else
        case $verb in
            '') candidates=(@VERBS@) ;;
@OPERANDS@        esac
    fi
    # What was typed stays as it is: candidates only add to it.
    local candidate rest
    for candidate in "${candidates[@]}"; do
        if [[ ! $candidate || $candidate != "$word"* ]]; then continue; fi
        rest=${candidate:${#word}}
        case $quote in
            "'") rest=${rest//"'"/"'\\''"} ;;
            '"') rest=${rest//\\/\\\\} rest=${rest//\"/\\\"} rest=${rest//\$/\\\$} rest=${rest//\`/\\\`} ;;
            *) if [[ $rest ]]; then printf -v rest %q "$rest"; fi ;;
        esac
        COMPREPLY+=("$typed$rest")
    done
}
complete -F _holo holo
"#;

fn bash(verbs: &[Command]) -> String {
    let names: Vec<&str> = verbs.iter().map(Command::get_name).collect();
    let options = each(verbs, |text, verb| {
        let spellings: Vec<String> = options(verb).flat_map(spellings).collect();
        if spellings.is_empty() {
            return Ok(());
        }
        writeln!(text, "            {}) candidates=({}) ;;", verb.get_name(), spellings.join(" "))
    });
    let operands = each(verbs, |text, verb| {
        let candidates = match Operand::for_verb(verb) {
            Operand::Nothing => return Ok(()),
            Operand::Selectors => {
                r#"mapfile -t candidates < <(holo selectors --prefix="$word" 2>/dev/null)"#.to_owned()
            }
            Operand::Folders => "compopt -o dirnames".to_owned(),
            Operand::Keys => format!("mapfile -t candidates < <(holo {} 2>/dev/null | {ONLY_KEYS})", verb.get_name()),
            Operand::Words(words) => format!("candidates=({words})"),
            Operand::Verbs(words) => {
                format!("if ((${{#words[@]}} > 2)); then compopt -o default; else candidates=({words}); fi")
            }
        };
        writeln!(text, "            {}) {candidates} ;;", verb.get_name())
    });
    BASH.replace(VERBS, &names.join(" ")).replace(OPTIONS, &options).replace(OPERANDS, &operands)
}

const ZSH: &str = r#"#compdef holo
# Completes the command lines of holo in zsh.
_holo_selectors() {
    # Of IDs there may be very many, and those that begin otherwise are not needed.
    local -a prefix=()
    if [[ $PREFIX == *:* ]]; then prefix=(--prefix=${(Q)PREFIX}); fi
    local -a selectors=(${(f)"$(holo selectors $prefix 2>/dev/null)"})
    local expl
    _wanted selectors expl selector compadd -a selectors
}
_holo_keys() {
    local -a keys=(${(f)"$(holo $argv[-1] 2>/dev/null | @ONLY_KEYS@)"})
    local expl
    _wanted keys expl key compadd -a keys
}
_holo() {
    if ((CURRENT == 2)); then
        local -a verbs=(
@VERBS@        )
        _describe command verbs
        return
    fi
    shift words
    ((CURRENT--))
    case $words[1] in
@OPERANDS@    esac
}
if [[ $funcstack[1] == _holo ]]; then _holo "$@"; else compdef _holo holo; fi
"#;

fn zsh(verbs: &[Command]) -> String {
    let described = each(verbs, |text, verb| {
        let described = format!("{}:{}", verb.get_name(), about(verb));
        writeln!(text, "            {}", quoted(&described))
    });
    let operands = each(verbs, |text, verb| {
        let operands = match Operand::for_verb(verb) {
            Operand::Nothing => return Ok(()),
            Operand::Selectors => quoted("*:selector:_holo_selectors"),
            Operand::Folders => quoted("*:folder:_files -/"),
            Operand::Keys => quoted(&format!("1:key:_holo_keys {}", verb.get_name())),
            Operand::Words(words) => quoted(&format!("1:word:({words})")),
            Operand::Verbs(words) => format!("{} {}", quoted(&format!("1:word:({words})")), quoted("*:file:_files")),
        };
        let specifications: String = options(verb).map(|option| format!("{} ", zsh_option(option))).collect();
        writeln!(text, "        {}) _arguments -s {specifications}{operands} ;;", verb.get_name())
    });
    ZSH.replace("@ONLY_KEYS@", ONLY_KEYS).replace(VERBS, &described).replace(OPERANDS, &operands)
}

/// Formats an option as an argument of `_arguments`; its spellings exclude one another.
fn zsh_option(option: &Arg) -> String {
    let spellings = spellings(option);
    let help = help(option).replace('[', r"\[").replace(']', r"\]").replace(':', r"\:");
    let value = if option.get_action().takes_values() { ":value: " } else { "" };
    let rest = quoted(&format!("[{help}]{value}"));
    match spellings.as_slice() {
        [one] => format!("{one}{rest}"),
        _ => format!("'({})'{{{}}}{rest}", spellings.join(" "), spellings.join(",")),
    }
}

const FISH: &str = r#"# Completes the command lines of holo in fish.
function __holo_after
    set -l words (commandline -opc)
    test "$words[2]" = "$argv"
end
function __holo_selectors
    # Of IDs there may be very many, and those that begin otherwise are not needed.
    set -l word (commandline -ct | string unescape)
    if string match -q "*:*" -- "$word"
        holo selectors --prefix="$word" 2>/dev/null
    else
        holo selectors 2>/dev/null
    end
end
complete -c holo -f
"#;

fn fish(verbs: &[Command]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"));
    let lines = each(verbs, |text, verb| {
        let name = verb.get_name();
        writeln!(text, "complete -c holo -n __holo_after -a {name} -d {}", quoted(&about(verb)))?;
        let after = format!("complete -c holo -n '__holo_after {name}'");
        for option in options(verb) {
            let short = option.get_short().map_or_else(String::new, |short| format!(" -s {short}"));
            let long = option.get_long().map_or_else(String::new, |long| format!(" -l {long}"));
            let value = if option.get_action().takes_values() { " -x" } else { "" };
            writeln!(text, "{after}{short}{long}{value} -d {}", quoted(&help(option)))?;
        }
        match Operand::for_verb(verb) {
            Operand::Nothing => Ok(()),
            Operand::Selectors => writeln!(text, "{after} -a '(__holo_selectors)'"),
            Operand::Folders => writeln!(text, "{after} -a '(__fish_complete_directories)'"),
            Operand::Keys => {
                let keys = format!("(holo {name} 2>/dev/null | {ONLY_KEYS})");
                writeln!(text, "{after} -a {}", quoted(&keys))
            }
            Operand::Words(words) => writeln!(text, "{after} -a {}", quoted(&words)),
            Operand::Verbs(words) => {
                let seen = format!("__fish_seen_subcommand_from {words}");
                writeln!(text, "complete -c holo -n '__holo_after {name}; and not {seen}' -a {}", quoted(&words))?;
                writeln!(text, "complete -c holo -n '__holo_after {name}; and {seen}' -F")
            }
        }
    });
    format!("{FISH}{lines}")
}
