//! The picture of a terminal in the README: what these commands print on the example root.

use crate::transcript::blesses;
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, iter};

const PICTURE: &str = "docs/terminal.svg";
/// The commands as shown. Those of holo are run on a terminal.
const COMMANDS: [&str; 4] = ["holo check --diff", "holo apply", "echo 'Back at noon.' >>/etc/motd", "holo apply"];

/// Sizes in pixels: of the letters, from one line to the next, and around the text.
const LETTER: f32 = 7.8;
const LINE: usize = 18;
const MARGIN: usize = 16;
const STYLE: &str = "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d4d4d4;white-space:pre}\
    .bold{font-weight:bold}.red{fill:#f48771}.green{fill:#89d185}.yellow{fill:#e5c07b}.cyan{fill:#56b6c2}";

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial_of(
        "the picture in the README shows what holo prints",
        &[Need::Program("script")],
        picture_is_up_to_date,
    )]
}

fn picture_is_up_to_date() {
    let root = ScratchRoot::new().binary(built("holo")).plugin("files").env("TERM", "xterm");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in ["etc/motd", "etc/os-release", "usr/share/holo/files/10-site/etc/motd"] {
        root.write(file, fs::read(here.join("examples/root").join(file)).unwrap());
    }
    let script = "usr/share/holo/files/20-notice/etc/motd.holoscript";
    let root = root.script(script, fs::read(here.join("examples/root").join(script)).unwrap());
    let mut lines: Vec<String> = COMMANDS.iter().flat_map(|command| transcript(&root, command)).collect();
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    let picture = svg(&lines);
    let kept = here.join(PICTURE);
    if blesses() {
        fs::write(&kept, &picture).unwrap();
    }
    let is_kept = fs::read_to_string(kept).is_ok_and(|kept| kept == picture);
    assert!(is_kept, "{PICTURE} does not show what the commands print; HOLO_BLESS=1 rewrites it:\n{picture}");
}

/// Runs a command as if the root were that of the machine. Returns what a person types and sees.
fn transcript(root: &ScratchRoot, command: &str) -> Vec<String> {
    let typed = iter::once(format!("$ \x1b[1m{command}\x1b[0m"));
    let Some(arguments) = command.strip_prefix("holo ") else {
        let below = command.replace(">>/", &format!(">>{}/", root.path().display()));
        assert!(root.run("sh", &["-c", &below]).success());
        return typed.chain([String::new()]).collect();
    };
    let shown = super::terminal::on_a_terminal(root, arguments).stdout_lossy().replace(['\r'], "");
    let shown = shown.replace(&root.path().display().to_string(), "");
    // The time that it took is another one each time.
    let lines = shown.lines().map(|line| match line.rsplit_once(" in ") {
        Some((count, time)) if count.contains("entity: ") && time.ends_with(" s") => count.to_owned(),
        _ => line.to_owned(),
    });
    typed.chain(lines).chain([String::new()]).collect()
}

/// Draws lines with colours as on a terminal.
fn svg(lines: &[String]) -> String {
    let longest = lines.iter().map(|line| spans(line).iter().map(|(text, _)| text.chars().count()).sum()).max();
    let width = (longest.unwrap_or(0_usize) as f32 * LETTER) as usize + 2 * MARGIN;
    let height = (lines.len() - 1) * LINE + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#1e1e1e\"/>\n"
    );
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let _ = write!(svg, "<text x=\"{MARGIN}\" y=\"{}\" xml:space=\"preserve\">", MARGIN + 13 + number * LINE);
        for (text, classes) in spans(line) {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let _ = match classes.is_empty() {
                true => write!(svg, "{text}"),
                false => write!(svg, "<tspan class=\"{}\">{text}</tspan>", classes.join(" ")),
            };
        }
        svg.push_str("</text>\n");
    }
    svg + "</svg>\n"
}

/// Returns the parts of a line with the classes of their escape sequences.
fn spans(line: &str) -> Vec<(&str, Vec<&'static str>)> {
    let mut parts = line.split("\x1b[");
    let first = parts.next().map(|text| (text, Vec::new()));
    let rest = parts.map(|part| {
        let (codes, text) = part.split_once('m').unwrap_or_else(|| panic!("{line:?} does not only set colours"));
        (text, codes.split(';').filter(|code| *code != "0").map(class).collect())
    });
    first.into_iter().chain(rest).filter(|(text, _)| !text.is_empty()).collect()
}

fn class(code: &str) -> &'static str {
    match code {
        "1" => "bold",
        "31" => "red",
        "32" => "green",
        "33" => "yellow",
        "36" => "cyan",
        _ => panic!("the colour {code} is not drawn"),
    }
}
