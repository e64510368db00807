//! Connections to D-Bus that can call methods and receive signals, for those of systemd. The format is that of the D-Bus
//! Specification.

use holo_change::hex;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The maximum length of a message in bytes, and how deep the types in it can be nested.
const LONGEST: usize = 1 << 27;
const DEEPEST: u8 = 64;

/// The numbers of header fields, with the types of their values.
const PATH: (u8, &str) = (1, "o");
const INTERFACE: (u8, &str) = (2, "s");
const MEMBER: (u8, &str) = (3, "s");
const ERROR: (u8, &str) = (4, "s");
const REPLY_TO: (u8, &str) = (5, "u");
const DESTINATION: (u8, &str) = (6, "s");
const SIGNATURE: (u8, &str) = (8, "g");

const METHOD_CALL: u8 = 1;

/// A connection to a bus, or to a service without one.
pub(super) struct Connection {
    stream: BufReader<UnixStream>,
    /// The number of the last message that was sent.
    serial: u32,
}

/// The recipient of a call.
pub(super) struct Callee {
    /// The name on the bus; `None` without one.
    pub(super) destination: Option<&'static str>,
    pub(super) path: &'static str,
    pub(super) interface: &'static str,
}

impl Connection {
    /// Connects to a socket as the user of this process.
    pub(super) fn open(socket: &Path) -> io::Result<Connection> {
        let mut stream = BufReader::new(UnixStream::connect(socket)?);
        // The user ID is sent as the hexadecimal form of its decimal digits.
        let user = hex(rustix::process::geteuid().as_raw().to_string().as_bytes());
        // Sent at once, as systemd's own client does it: systemd loses a message that it reads together with `BEGIN`, and
        // has read `BEGIN` by the time it answers.
        stream.get_mut().write_all(format!("\0AUTH EXTERNAL {user}\r\nBEGIN\r\n").as_bytes())?;
        let mut answer = String::new();
        (&mut stream).take(LONGEST as u64).read_line(&mut answer)?;
        if !answer.starts_with("OK ") {
            return Err(io::Error::other("this user is rejected"));
        }
        Ok(Connection { stream, serial: 0 })
    }

    /// Calls a method with a string or without arguments, and waits for the reply. Drops signals that arrive before it.
    pub(super) fn call(&mut self, callee: &Callee, member: &str, argument: Option<&str>) -> io::Result<()> {
        self.serial += 1;
        let mut body = Vec::new();
        if let Some(text) = argument {
            push_text(&mut body, text);
        }
        let mut fields = Vec::new();
        push_field(&mut fields, PATH, callee.path);
        push_field(&mut fields, INTERFACE, callee.interface);
        push_field(&mut fields, MEMBER, member);
        if let Some(destination) = callee.destination {
            push_field(&mut fields, DESTINATION, destination);
        }
        if argument.is_some() {
            push_field(&mut fields, SIGNATURE, "s");
        }
        let mut message = vec![b'l', METHOD_CALL, 0, 1];
        push_number(&mut message, length(&body));
        push_number(&mut message, self.serial);
        push_number(&mut message, length(&fields));
        message.extend(fields);
        pad(&mut message, 8);
        message.extend(body);
        self.stream.get_mut().write_all(&message)?;
        loop {
            let answer = self.receive()?;
            if answer.reply_to == Some(self.serial) {
                return answer.error.map_or(Ok(()), |name| Err(io::Error::other(format!("{member}: {name}"))));
            }
        }
    }

    /// Waits for the next message.
    pub(super) fn receive(&mut self) -> io::Result<Message> {
        Message::read(&mut self.stream)
    }
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn pad(bytes: &mut Vec<u8>, alignment: usize) {
    bytes.resize(bytes.len().next_multiple_of(alignment), 0);
}

fn push_number(bytes: &mut Vec<u8>, number: u32) {
    pad(bytes, 4);
    bytes.extend(number.to_le_bytes());
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    push_number(bytes, length(text.as_bytes()));
    bytes.extend(text.as_bytes());
    bytes.push(0);
}

fn push_signature(bytes: &mut Vec<u8>, signature: &str) {
    bytes.extend(u8::try_from(signature.len()));
    bytes.extend(signature.as_bytes());
    bytes.push(0);
}

fn push_field(bytes: &mut Vec<u8>, (number, signature): (u8, &str), text: &str) {
    pad(bytes, 8);
    bytes.push(number);
    push_signature(bytes, signature);
    match signature {
        "g" => push_signature(bytes, text),
        _ => push_text(bytes, text),
    }
}

/// A received message.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) path: String,
    pub(super) interface: String,
    pub(super) member: String,
    /// The types of the values in the body.
    pub(super) signature: String,
    /// Whether it is addressed to this process, and not to all that listen.
    pub(super) is_addressed: bool,
    /// The name of an error.
    error: Option<String>,
    /// The number of the message that this answers.
    reply_to: Option<u32>,
    body: Vec<u8>,
    is_little: bool,
}

impl Message {
    fn read(stream: &mut impl Read) -> io::Result<Message> {
        let mut start = [0; 16];
        stream.read_exact(&mut start)?;
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "invalid message");
        let is_little = start.starts_with(b"l");
        let mut reader = Values { bytes: &start, at: 4, is_little };
        let mut number = || reader.number().and_then(|number| usize::try_from(number).ok());
        let (Some(body), Some(_), Some(fields)) = (number(), number(), number()) else { return Err(invalid()) };
        if !matches!(start.first(), Some(b'l' | b'B')) || fields > LONGEST || body > LONGEST {
            return Err(invalid());
        }
        let mut header = vec![0; fields.next_multiple_of(8)];
        stream.read_exact(&mut header)?;
        header.truncate(fields);
        let mut message = Message { body: vec![0; body], is_little, ..Message::default() };
        stream.read_exact(&mut message.body)?;
        message.take_fields(&header).ok_or_else(invalid)?;
        Ok(message)
    }

    fn take_fields(&mut self, header: &[u8]) -> Option<()> {
        let mut values = Values { bytes: header, at: 0, is_little: self.is_little };
        while values.at < header.len() {
            values.align(8);
            let &[number] = values.take(1)? else { return None };
            let signature = values.signature()?;
            match (number, signature) {
                PATH => self.path = values.text()?.to_owned(),
                INTERFACE => self.interface = values.text()?.to_owned(),
                MEMBER => self.member = values.text()?.to_owned(),
                ERROR => self.error = Some(values.text()?.to_owned()),
                DESTINATION => {
                    values.text()?;
                    self.is_addressed = true;
                }
                REPLY_TO => self.reply_to = Some(values.number()?),
                SIGNATURE => self.signature = values.signature()?.to_owned(),
                _ => {
                    values.skip(signature.as_bytes(), DEEPEST)?;
                }
            }
        }
        Some(())
    }

    /// Returns the values in the body.
    pub(super) fn values(&self) -> Values<'_> {
        Values { bytes: &self.body, at: 0, is_little: self.is_little }
    }
}

/// Values one after the other. Each method reads one, and returns `None` where there is no such value.
pub(super) struct Values<'a> {
    bytes: &'a [u8],
    at: usize,
    is_little: bool,
}

impl<'a> Values<'a> {
    fn align(&mut self, alignment: usize) {
        self.at = self.at.next_multiple_of(alignment);
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    /// Reads a number of 32 bits, or a Boolean value.
    pub(super) fn number(&mut self) -> Option<u32> {
        self.align(4);
        let bytes = self.take(4)?.try_into().ok()?;
        Some(if self.is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = self.number()?;
        self.terminated(usize::try_from(length).ok()?)
    }

    fn signature(&mut self) -> Option<&'a str> {
        let &[length] = self.take(1)? else { return None };
        self.terminated(length.into())
    }

    fn terminated(&mut self, length: usize) -> Option<&'a str> {
        let text = self.take(length)?;
        self.take(1)?;
        std::str::from_utf8(text).ok()
    }

    /// Reads a map from names to values of any type, and returns the value of a name if it is a string.
    pub(super) fn text_of(&mut self, name: &str) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        self.align(8);
        let end = self.at.checked_add(length)?;
        while self.at < end {
            self.align(8);
            let key = self.text()?;
            let signature = self.signature()?;
            if key == name && signature == "s" {
                return self.text();
            }
            self.skip(signature.as_bytes(), DEEPEST)?;
        }
        None
    }

    /// Skips a value of the first type of a signature, and returns the other types.
    fn skip<'s>(&mut self, signature: &'s [u8], depth: u8) -> Option<&'s [u8]> {
        let depth = depth.checked_sub(1)?;
        let (&kind, mut others) = signature.split_first()?;
        self.align(alignment(kind));
        match kind {
            b's' | b'o' => {
                self.text()?;
            }
            b'g' => {
                self.signature()?;
            }
            b'v' => {
                let inner = self.signature()?;
                self.skip(inner.as_bytes(), depth)?;
            }
            b'a' => {
                let length = self.number()?;
                self.align(alignment(*others.first()?));
                self.take(usize::try_from(length).ok()?)?;
                others = without_first(others)?;
            }
            b'(' | b'{' => {
                while !matches!(others.first()?, b')' | b'}') {
                    others = self.skip(others, depth)?;
                }
                others = others.get(1..)?;
            }
            b'y' | b'n' | b'q' | b'b' | b'i' | b'u' | b'h' | b'x' | b't' | b'd' => {
                self.take(alignment(kind))?;
            }
            _ => return None,
        }
        Some(others)
    }
}

/// Returns the alignment of a type in bytes, which is the size of a number.
fn alignment(kind: u8) -> usize {
    match kind {
        b'y' | b'g' | b'v' => 1,
        b'n' | b'q' => 2,
        b'x' | b't' | b'd' | b'(' | b'{' => 8,
        _ => 4,
    }
}

/// Returns the types after the first one.
fn without_first(signature: &[u8]) -> Option<&[u8]> {
    let start = signature.iter().position(|&kind| kind != b'a')?;
    let mut depth = 0_usize;
    for (index, kind) in signature.iter().enumerate().skip(start) {
        match kind {
            b'(' | b'{' => depth += 1,
            b')' | b'}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return signature.get(index + 1..);
        }
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::thread;

    /// Messages as another implementation writes them: two signals, a call, and an error and a success as its answers.
    pub(in super::super) type Recorded = [Vec<u8>; 5];

    /// Returns the messages in both byte orders.
    pub(in super::super) fn recorded() -> Vec<Recorded> {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let messages = include_str!("bus/messages.txt").lines().map(|line| {
            let (_, digits) = line.split_once(' ').unwrap();
            digits.as_bytes().chunks(2).map(byte).collect()
        });
        let messages: Vec<Vec<u8>> = messages.collect();
        messages.chunks(5).map(|chunk| Recorded::try_from(chunk.to_vec()).unwrap()).collect()
    }

    pub(in super::super) fn read(bytes: &[u8]) -> Message {
        Message::read(&mut &*bytes).unwrap()
    }

    #[test]
    fn recorded_messages_are_read() {
        assert_eq!(recorded().len(), 2);
        for messages in recorded() {
            let [changed, reloading, call, error, answer] = messages.map(|bytes| read(&bytes));
            assert_eq!(changed.path, "/org/freedesktop/systemd1/unit/nginx_2eservice");
            assert_eq!(changed.interface, "org.freedesktop.DBus.Properties");
            assert_eq!(changed.member, "PropertiesChanged");
            assert_eq!(changed.signature, "sa{sv}as");
            let text_of = |name| {
                let mut values = changed.values();
                assert_eq!(values.text(), Some("org.freedesktop.systemd1.Unit"));
                values.text_of(name)
            };
            // Everything before it is skipped, and only names of which the value is a string are found.
            assert_eq!((text_of("ActiveState"), text_of("SubState")), (Some("failed"), Some("failed")));
            assert_eq!((text_of("A_list"), text_of("A_bool"), text_of("Active")), (None, None, None));
            assert_eq!((reloading.member.as_str(), reloading.values().number()), ("Reloading", Some(0)));
            assert_eq!((changed.is_addressed, call.is_addressed), (false, true));
            assert_eq!((call.signature.as_str(), call.values().text()), ("s", Some("type='signal'")));
            assert_eq!(error.error.as_deref(), Some("org.freedesktop.DBus.Error.AccessDenied"));
            assert!(error.reply_to.is_some());
            assert_eq!((answer.error, answer.reply_to), (None, error.reply_to));
        }
    }

    #[test]
    fn a_body_is_skipped_completely() {
        for [changed, ..] in recorded() {
            let message = read(&changed);
            let mut values = message.values();
            assert_eq!(values.skip(b"sa{sv}as", DEEPEST), Some(&b"a{sv}as"[..]));
            assert_eq!(values.skip(b"a{sv}as", DEEPEST), Some(&b"as"[..]));
            assert_eq!(values.skip(b"as", DEEPEST), Some(&b""[..]));
            assert_eq!(values.at, message.body.len());
        }
    }

    #[test]
    fn damaged_messages_are_errors() {
        for bytes in recorded().concat() {
            for length in 0..bytes.len() {
                assert!(Message::read(&mut &bytes[..length]).is_err());
            }
            for index in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[index] = value;
                    // A message that seems to be longer ends early.
                    if let Ok(message) = Message::read(&mut damaged.as_slice()) {
                        message.values().skip(message.signature.as_bytes(), DEEPEST);
                        message.values().text_of("ActiveState");
                    }
                }
            }
        }
    }

    #[test]
    fn deeply_nested_values_are_errors() {
        let body: Vec<u8> = b"\x01v\0".repeat(1000);
        let mut values = Values { bytes: &body, at: 0, is_little: true };
        assert_eq!(values.skip(b"v", DEEPEST), None);
    }

    #[test]
    fn a_call_is_written_as_another_implementation_does() {
        let [_, _, call, error, answer] = recorded().swap_remove(0);
        for (reply, expected) in [(answer, None), (error, Some("AddMatch: org.freedesktop.DBus.Error.AccessDenied"))] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut heard = vec![0; call.len()];
            let other = thread::spawn(move || {
                theirs.read_exact(&mut heard).unwrap();
                theirs.write_all(&reply).unwrap();
                heard
            });
            let bus = "org.freedesktop.DBus";
            let callee = Callee { destination: Some(bus), path: "/org/freedesktop/DBus", interface: bus };
            // The recorded call is the third message.
            let mut connection = Connection { stream: BufReader::new(ours), serial: 2 };
            let result = connection.call(&callee, "AddMatch", Some("type='signal'"));
            assert_eq!(result.err().map(|error| error.to_string()).as_deref(), expected);
            assert_eq!(other.join().unwrap(), call);
        }
    }
}
