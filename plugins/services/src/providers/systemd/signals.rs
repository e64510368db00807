//! D-Bus signals of systemd about units.

use crate::providers::{ManagerError, UnitEvent};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;
use zbus::blocking::connection::Builder;
use zbus::blocking::{Connection, MessageIterator};
use zbus::message::Message;
use zbus::zvariant::Value;

const SYSTEMD: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";
const UNITS: &str = "/org/freedesktop/systemd1/unit/";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
/// The match rules for the wanted signals.
const WANTED: [&str; 3] = [
    "type='signal',sender='org.freedesktop.systemd1',interface='org.freedesktop.DBus.Properties',\
     member='PropertiesChanged',path_namespace='/org/freedesktop/systemd1/unit',arg0='org.freedesktop.systemd1.Unit'",
    "type='signal',sender='org.freedesktop.systemd1',member='UnitFilesChanged'",
    "type='signal',sender='org.freedesktop.systemd1',member='Reloading'",
];

/// The maximum number of reconnections after an error, and the delay between them.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_secs(1);

/// Reports events of units as long as `hear` returns true. Reconnects if the connection ends because systemd or the bus
/// is restarted.
///
/// # Errors
/// If no connection can be established.
pub(super) fn listen(hear: &mut dyn FnMut(UnitEvent<'_>) -> bool) -> Result<(), ManagerError> {
    let mut failures = 0;
    loop {
        match subscribed() {
            Ok(messages) => {
                failures = 0;
                let mut states = HashMap::new();
                if !hear(UnitEvent::Listening) || !follow(messages, &mut states, hear) {
                    return Ok(());
                }
            }
            Err(error) if failures == TRIES => {
                return Err(ManagerError::Failed(format!("cannot listen to systemd: {error}")));
            }
            Err(_) => failures += 1,
        }
        thread::sleep(PAUSE);
    }
}

/// Connects to systemd, over the bus or directly, and subscribes to its signals.
fn subscribed() -> zbus::Result<MessageIterator> {
    let connection = Connection::system().or_else(|_| Builder::async_io_unix_stream(connect()?).p2p().build())?;
    let messages = MessageIterator::from(&connection);
    if connection.is_bus() {
        let bus = zbus::blocking::fdo::DBusProxy::new(&connection)?;
        for wanted in WANTED {
            bus.add_match_rule(wanted.try_into()?)?;
        }
    }
    let destination = connection.is_bus().then_some(SYSTEMD);
    connection.call_method(destination, OBJECT, Some(MANAGER), "Subscribe", &())?;
    Ok(messages)
}

/// Processes messages until the connection ends. Returns false if `hear` does.
fn follow(
    messages: MessageIterator,
    states: &mut HashMap<String, String>,
    hear: &mut dyn FnMut(UnitEvent<'_>) -> bool,
) -> bool {
    for message in messages {
        // Invalid messages are not those that systemd sends about units.
        let Ok(message) = message else { break };
        let is_heard = match signal(&message) {
            Some(Signal::State { unit, state }) if states.get(&unit) != Some(&state) => {
                let words = format!("it is {state} now");
                let is_heard = hear(UnitEvent::State { unit: &unit, words: &words });
                states.insert(unit, state);
                is_heard
            }
            Some(Signal::Any(words)) => hear(UnitEvent::Any { words }),
            Some(Signal::State { .. }) | None => true,
        };
        if !is_heard {
            return false;
        }
    }
    true
}

#[derive(Debug, PartialEq, Eq)]
enum Signal {
    State { unit: String, state: String },
    Any(&'static str),
}

/// Returns the signal in a message, if it is a wanted one.
fn signal(message: &Message) -> Option<Signal> {
    let header = message.header();
    let member = header.member()?;
    match (header.interface()?.as_str(), member.as_str()) {
        ("org.freedesktop.DBus.Properties", "PropertiesChanged") => {
            let unit = unescaped(header.path()?.as_str().strip_prefix(UNITS)?)?;
            let body = message.body();
            let (interface, changed, _): (&str, HashMap<&str, Value<'_>>, Vec<&str>) = body.deserialize().ok()?;
            let state = changed.get("ActiveState").filter(|_| interface == UNIT)?;
            Some(Signal::State { unit, state: String::try_from(state.try_clone().ok()?).ok()? })
        }
        (MANAGER, "UnitFilesChanged") => Some(Signal::Any("a unit was enabled, disabled or masked")),
        (MANAGER, "Reloading") => {
            let is_begun: bool = message.body().deserialize().ok()?;
            (!is_begun).then_some(Signal::Any("systemd has read its units anew"))
        }
        _ => None,
    }
}

/// Returns the name of a unit from the last component of its path, in which all characters except letters and digits
/// are escaped.
fn unescaped(label: &str) -> Option<String> {
    let mut name = Vec::new();
    let mut rest = label.as_bytes();
    while let Some((&byte, others)) = rest.split_first() {
        rest = others;
        if byte == b'_' {
            let (digits, others) = rest.split_at_checked(2)?;
            name.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = others;
        } else {
            name.push(byte);
        }
    }
    String::from_utf8(name).ok()
}

const SOCKET: &str = "/run/systemd/private";
/// The start of the header field of the sender: its code and signature, the length (in native byte order), and the
/// first letter of the name. Its first byte does not occur again in it.
const SENDER: [&[u8]; 3] = [b"\x07\x01s\0", &24_u32.to_ne_bytes(), b"o"];
/// The first letter of all unique names, which replaces that of the well-known name.
const UNIQUE: u8 = b':';

/// Connects to systemd.
pub(super) fn connect() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    let systemd = UnixStream::connect(SOCKET)?;
    let (to, from) = (systemd.try_clone()?, theirs.try_clone()?);
    thread::spawn(move || relay(from, to, <[u8]>::to_vec));
    let mut renaming = Renaming::new();
    thread::spawn(move || relay(systemd, theirs, move |bytes| renaming.rename(bytes)));
    Ok(ours)
}

/// Forwards data from one stream to the other until either ends.
fn relay(mut from: UnixStream, mut to: UnixStream, mut change: impl FnMut(&[u8]) -> Vec<u8>) {
    let mut buffer = [0; 1 << 13];
    while let Ok(length @ 1..) = from.read(&mut buffer)
        && let Some(bytes) = buffer.get(..length)
        && to.write_all(&change(bytes)).is_ok()
    {}
    // The other direction ends with this one.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Replaces the name of the sender in a stream of chunks.
struct Renaming {
    sender: Vec<u8>,
    /// The number of bytes of the pattern that matched last.
    seen: usize,
}

impl Renaming {
    fn new() -> Renaming {
        Renaming { sender: SENDER.concat(), seen: 0 }
    }

    /// Returns the bytes with the first letter of the name replaced.
    fn rename(&mut self, bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|&byte| if self.ends_with(byte) { UNIQUE } else { byte }).collect()
    }

    /// Processes a byte, and returns true if it completes the pattern.
    fn ends_with(&mut self, byte: u8) -> bool {
        let continues = self.sender.get(self.seen) == Some(&byte);
        self.seen = if continues { self.seen + 1 } else { usize::from(self.sender.first() == Some(&byte)) };
        self.seen == self.sender.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(
        path: &str,
        interface: &str,
        member: &str,
        body: &(impl serde::Serialize + zbus::zvariant::DynamicType),
    ) -> Message {
        Message::signal(path, interface, member).unwrap().build(body).unwrap()
    }

    #[test]
    fn names_of_units_are_read_from_paths() {
        assert_eq!(unescaped("nginx_2eservice").unwrap(), "nginx.service");
        assert_eq!(unescaped("a_40b_5fc_2dd_2eservice").unwrap(), "a@b_c-d.service");
        for label in ["a_", "a_2", "a_zz", "a_ff"] {
            assert_eq!(unescaped(label), None, "{label}");
        }
    }

    #[test]
    fn signals_are_understood() {
        let path = "/org/freedesktop/systemd1/unit/nginx_2eservice";
        let properties = "org.freedesktop.DBus.Properties";
        let changed = |interface: &str| {
            let values = HashMap::from([("ActiveState", Value::from("failed")), ("SubState", Value::from("x"))]);
            message(path, properties, "PropertiesChanged", &(interface, values, vec!["Job"]))
        };
        let failed = Signal::State { unit: "nginx.service".to_owned(), state: "failed".to_owned() };
        assert_eq!(signal(&changed(UNIT)), Some(failed));
        assert_eq!(signal(&changed("org.freedesktop.systemd1.Service")), None);
        assert_eq!(signal(&message(path, properties, "PropertiesChanged", &("odd",))), None);
        let of_manager = |member, body: &bool| signal(&message(OBJECT, MANAGER, member, body));
        assert_eq!(of_manager("Reloading", &true), None);
        assert!(matches!(of_manager("Reloading", &false), Some(Signal::Any(_))));
        assert!(matches!(signal(&message(OBJECT, MANAGER, "UnitFilesChanged", &())), Some(Signal::Any(_))));
        assert_eq!(signal(&message(OBJECT, MANAGER, "JobNew", &(1u32,))), None);
    }
}

#[cfg(test)]
mod private_tests {
    use super::*;

    #[test]
    fn the_name_of_the_sender_becomes_a_unique_one() {
        let message = |name: &[u8]| [b"l\x07\x07\x01", SENDER[0], SENDER[1], name, b"\0\x07\x01s\0 and so on"].concat();
        let said = [message(b"org.freedesktop.systemd1"), message(b"org.freedesktop.systemd1")].concat();
        let expected = [message(b":rg.freedesktop.systemd1"), message(b":rg.freedesktop.systemd1")].concat();
        for size in [1, 3, 7, 1000] {
            let mut renaming = Renaming::new();
            let heard: Vec<u8> = said.chunks(size).flat_map(|piece| renaming.rename(piece)).collect();
            assert_eq!(bstr::BString::from(heard), bstr::BString::from(expected.clone()), "in pieces of {size}");
        }
    }
}
