//! The file `steps` of a scenario: commands with their expected output.
//!
//! The format is that of cram tests: a line that is indented by two blanks and starts with `$ ` is a command, one that
//! starts with `> ` continues it, and the other indented lines below it are its output. `[N]` at the end is an exit
//! status other than 0. Lines that are not indented are prose.

use bstr::{BString, ByteSlice};

const INDENT: &[u8] = b"  ";
const COMMAND: &[u8] = b"  $ ";
const CONTINUATION: &[u8] = b"  > ";
const NO_NEWLINE: &[u8] = b" (no-eol)";

/// A part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A line of prose without its newline.
    Prose(BString),
    /// A command: its lines, without indentation and prompts, joined by newlines.
    Command(BString),
}

/// Returns the parts of a file. The expected output is left out: the whole file is compared with the
/// [`transcript`](Transcript) of a run.
///
/// # Errors
///
/// The number, counted from 1, of the first indented line that belongs to no command.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Part>, usize> {
    let mut parts = Vec::new();
    let mut has_output = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(command) = line.strip_prefix(COMMAND) {
            parts.push(Part::Command(command.into()));
            has_output = false;
        } else if line.starts_with(INDENT) {
            let Some(Part::Command(command)) = parts.last_mut() else { return Err(index + 1) };
            match line.strip_prefix(CONTINUATION).filter(|_| !has_output) {
                Some(more) => {
                    command.push(b'\n');
                    command.extend_from_slice(more);
                }
                None => has_output = true,
            }
        } else {
            parts.push(Part::Prose(line.into()));
        }
    }
    Ok(parts)
}

/// A text in the format of the file, built part by part.
#[derive(Debug, Default)]
pub(super) struct Transcript(Vec<u8>);

impl Transcript {
    /// Appends a line of prose.
    pub(super) fn prose(&mut self, line: &[u8]) {
        self.line(&[], line);
    }

    /// Appends a command with its output and exit status.
    pub(super) fn command(&mut self, command: &[u8], output: &[u8], status: i32) {
        let prompts = std::iter::once(COMMAND).chain(std::iter::repeat(CONTINUATION));
        command.split_str("\n").zip(prompts).for_each(|(line, prompt)| self.line(prompt, line));
        output.lines().for_each(|line| self.line(INDENT, line));
        if !output.is_empty() && !output.ends_with(b"\n") {
            self.0.pop();
            self.0.extend_from_slice(NO_NEWLINE);
            self.0.push(b'\n');
        }
        if status != 0 {
            self.line(INDENT, format!("[{status}]").as_bytes());
        }
    }

    /// Returns the text.
    pub(super) fn into_text(self) -> BString {
        self.0.into()
    }

    fn line(&mut self, prefix: &[u8], line: &[u8]) {
        for bytes in [prefix, line, b"\n"] {
            self.0.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_continue_and_prose_stays() {
        let text = "Says hello.\n\n  $ for x in 1 2; do\n  >   echo $x\n  > done\n  1\n  > no prompt\n\nEnd.\n";
        let parts = parse(text.as_bytes()).unwrap();
        let prose = |line: &str| Part::Prose(line.into());
        let command = Part::Command("for x in 1 2; do\n  echo $x\ndone".into());
        assert_eq!(parts, [prose("Says hello."), prose(""), command, prose(""), prose("End.")]);
        assert_eq!(parse(b"prose\n  output\n"), Err(2));
    }

    #[test]
    fn a_transcript_is_what_was_parsed() {
        let text = "Prose.\n\n  $ a\n  > b\n  \n  output\n    more\n  [3]\n  $ c\n  end (no-eol)\n";
        let mut transcript = Transcript::default();
        let mut results = [(&b"\noutput\n  more\n"[..], 3), (b"end", 0)].into_iter();
        for part in parse(text.as_bytes()).unwrap() {
            match part {
                Part::Prose(line) => transcript.prose(&line),
                Part::Command(command) => {
                    let (output, status) = results.next().unwrap();
                    transcript.command(&command, output, status);
                }
            }
        }
        assert_eq!(transcript.into_text(), text);
    }
}
