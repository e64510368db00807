//! Splits the output of a child into lines.

use super::ChildEvent;
use bstr::ByteSlice;
use holo_events::Line;

/// The maximum length of a line; longer ones are skipped.
const MAX_LINE: usize = 16 << 20;

/// Splits pieces of output into lines.
#[derive(Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
    is_too_long: bool,
}

impl Lines {
    pub(super) fn take(&mut self, bytes: &[u8], seen: &mut dyn FnMut(ChildEvent)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.begun.len() + piece.len() > MAX_LINE {
                self.is_too_long = true;
                self.begun = Vec::new();
            }
            if !self.is_too_long {
                self.begun.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                seen(self.end_line());
            }
        }
    }

    fn end_line(&mut self) -> ChildEvent {
        if std::mem::take(&mut self.is_too_long) {
            return ChildEvent::Garbage(format!("a line of more than {MAX_LINE} bytes"));
        }
        let line = std::mem::take(&mut self.begun);
        match Line::parse(&line) {
            Ok(line) => ChildEvent::Line(Box::new(line)),
            Err(error) => ChildEvent::Garbage(format!("{error}: {}", beginning(&line))),
        }
    }

    pub(super) fn rest(&mut self) -> Option<ChildEvent> {
        (!self.begun.is_empty() || self.is_too_long).then(|| self.end_line())
    }
}

/// Returns the start of the output on a single line.
fn beginning(text: &[u8]) -> String {
    text.trim().to_str_lossy().chars().take(80).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_pieces_and_garbage_is_told_from_them() {
        let mut said = Vec::new();
        let mut lines = Lines::default();
        let text = b"{\"version\":1,\"event\":\"watching\",\"entities\":3}\nnonsense\n{\"version\":1,\"event\":\"wat";
        for byte in text {
            lines.take(&[*byte], &mut |line| said.push(line));
        }
        said.extend(lines.rest());
        let [ChildEvent::Line(line), ChildEvent::Garbage(garbage), ChildEvent::Garbage(rest)] = &said[..] else {
            panic!("{said:?}")
        };
        assert!(matches!(**line, Line::Watching { entities: 3 }));
        assert!(garbage.ends_with(": nonsense") && rest.contains("EOF"), "{garbage} {rest}");
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let mut said = Vec::new();
        let mut lines = Lines::default();
        for _ in 0..40 {
            lines.take(&vec![b'x'; 1 << 20], &mut |line| said.push(line));
            assert!(lines.begun.len() <= MAX_LINE);
        }
        lines.take(b"x\n{\"version\":1,\"event\":\"watching\",\"entities\":3}\n", &mut |line| said.push(line));
        assert!(matches!(&said[..], [ChildEvent::Garbage(_), ChildEvent::Line(_)]), "{said:?}");
    }
}
