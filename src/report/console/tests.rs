//! Tests of the console.

use super::*;
use std::sync::{Arc, Mutex};

/// Both streams in one, with stderr in brackets.
#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

struct Side(Screen, bool);

impl Write for Side {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut screen = self.0.0.lock().unwrap();
        if self.1 {
            screen.push(b'[');
        }
        screen.extend_from_slice(bytes);
        if self.1 {
            screen.push(b']');
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn shown(colours: bool, actions: impl FnOnce(&mut Console)) -> String {
    shown_on([false; 2], colours, actions)
}

fn shown_on(terminals: [bool; 2], colours: bool, actions: impl FnOnce(&mut Console)) -> String {
    let screen = Screen::default();
    let sides = (Box::new(Side(screen.clone(), false)), Box::new(Side(screen.clone(), true)));
    let mut console = Console::new(sides.0, sides.1, terminals, colours);
    actions(&mut console);
    console.finish().unwrap();
    let bytes = screen.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn both_streams_share_their_paragraphs() {
    let text = shown(false, |console| {
        console.end_paragraph();
        console.write(Stream::Stderr, b"no newline");
        console.end_paragraph();
        console.write(Stream::Stdout, b"one\n");
        console.write(Stream::Stderr, b"\n");
        console.end_paragraph();
        console.write(Stream::Stdout, b"\n\n\n");
        console.end_paragraph();
        console.marked(Severity::Error, b"last");
    });
    assert_eq!(text, "\n[no newline]\n\none\n[\n]\n\n\n[!! last\n]");
}

#[test]
fn raw_output_begins_no_paragraph() {
    let text = shown(false, |console| {
        console.raw(Stream::Stdout, b"raw\n");
        console.end_paragraph();
        console.marked(Severity::Warning, b"careful");
        console.end_paragraph();
    });
    assert_eq!(text, "raw\n\n[>> careful\n]\n");
}

#[test]
fn mark_split_over_writes_is_coloured() {
    let whole = shown(true, |console| console.write(Stream::Stderr, b"!! bad\n>> odd\n!!\nplain\n> x\n"));
    let bytewise = shown(true, |console| {
        for byte in b"!! bad\n>> odd\n!!\nplain\n> x\n" {
            console.write(Stream::Stderr, &[*byte]);
        }
    });
    let expected = "\n[\x1b[1;31m!! bad\x1b[0m\n\x1b[1;33m>> odd\x1b[0m\n!!\nplain\n> x\n]";
    assert_eq!(whole, expected);
    assert_eq!(bytewise, expected);
    let unfinished = shown(true, |console| {
        console.write(Stream::Stderr, b"!");
        console.end_paragraph();
        console.write(Stream::Stderr, b"!! x");
    });
    assert_eq!(unfinished, "\n[!]\n\n[\x1b[1;31m!! x\x1b[0m]");
}

#[test]
fn diffs_are_coloured_by_line() {
    let text = shown(true, |console| console.raw_diff(b"diff --holo a b\n@@ -1 +1 @@\n-a\n+b\n c"));
    let expected =
        "\x1b[1mdiff --holo a b\x1b[0m\n\x1b[36m@@ -1 +1 @@\x1b[0m\n\x1b[31m-a\x1b[0m\n\x1b[32m+b\x1b[0m\n c";
    assert_eq!(text, expected);
}

#[test]
fn terminal_gets_colours_of_the_console_only() {
    let actions = |console: &mut Console| {
        console.marked(Severity::Error, b"\x1b[1m");
        console.raw_diff(b"+\x1b[0m\xff");
        console.write(Stream::Stderr, b"!! \xe2\x82");
        console.write(Stream::Stderr, b"\xac\xe2\n");
        console.write_styled(&Styled::bold(b"\xe2"));
    };
    let shown_on = |terminals| shown_on(terminals, true, actions);
    let text = shown_on([true; 2]);
    let lines = [
        "\n[\x1b[1;31m!! \\x1b[1m\x1b[0m\n]",
        "\x1b[32m+\\x1b[0m\\xff\x1b[0m",
        "[\x1b[1;31m!! \u{20ac}\\xe2\x1b[0m\n]",
        "\x1b[1m\\xe2\x1b[0m",
    ];
    assert_eq!(text, lines.concat());
}

#[test]
fn broken_pipe_is_not_an_error() {
    struct Gone(io::ErrorKind);
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for (kind, ends_well) in [(io::ErrorKind::BrokenPipe, true), (io::ErrorKind::StorageFull, false)] {
        let mut console = Console::new(Box::new(Gone(kind)), Box::new(io::sink()), [false; 2], false);
        console.write(Stream::Stdout, b"x");
        console.flush();
        console.write(Stream::Stdout, b"y");
        assert_eq!(console.reader_is_gone(), ends_well);
        assert_eq!(console.finish().is_ok(), ends_well);
    }
}

#[test]
fn burst_is_written_at_once() {
    let screen = Screen::default();
    let sides = (Box::new(Side(screen.clone(), false)), Box::new(Side(screen.clone(), true)));
    let mut console = Console::new(sides.0, sides.1, [false; 2], false);
    let seen = || String::from_utf8(screen.0.lock().unwrap().clone()).unwrap();
    console.hold(true);
    console.raw(Stream::Stdout, b"one ");
    console.flush();
    assert_eq!(seen(), "");
    // The order between the streams is kept.
    console.raw(Stream::Stderr, b"two");
    console.flush();
    assert_eq!(seen(), "one ");
    console.hold(false);
    assert_eq!(seen(), "one [two]");
    console.raw(Stream::Stdout, b" three");
    console.flush();
    assert_eq!(seen(), "one [two] three");
    console.hold(true);
    console.raw(Stream::Stdout, b" four");
    console.finish().unwrap();
    assert_eq!(seen(), "one [two] three four");
}
