//! D-Bus signals of systemd about units.

use super::bus::{Callee, Connection, Message};
use crate::providers::{ManagerError, UnitEvent};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use std::{env, io, thread};

/// The address of the bus, and the variable that names another one.
const BUS: &str = "unix:path=/run/dbus/system_bus_socket";
const BUS_VARIABLE: &str = "DBUS_SYSTEM_BUS_ADDRESS";
/// The socket of systemd itself, for machines without a bus.
const PRIVATE: &str = "/run/systemd/private";

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
fn subscribed() -> io::Result<Connection> {
    let (mut connection, destination) = match on_bus() {
        Ok(connection) => (connection, Some(SYSTEMD)),
        Err(_) => (Connection::open(Path::new(PRIVATE))?, None),
    };
    connection.call(&Callee { destination, path: OBJECT, interface: MANAGER }, "Subscribe", None)?;
    Ok(connection)
}

fn on_bus() -> io::Result<Connection> {
    let bus = Callee {
        destination: Some("org.freedesktop.DBus"),
        path: "/org/freedesktop/DBus",
        interface: "org.freedesktop.DBus",
    };
    let address = env::var(BUS_VARIABLE).unwrap_or_else(|_| BUS.to_owned());
    let path = address.strip_prefix("unix:path=").and_then(|path| path.split([',', ';']).next()).unwrap_or_default();
    let mut connection = Connection::open(Path::new(path))?;
    connection.call(&bus, "Hello", None)?;
    for wanted in WANTED {
        connection.call(&bus, "AddMatch", Some(wanted))?;
    }
    Ok(connection)
}

/// Processes messages until the connection ends. Returns false if `hear` does.
fn follow(
    mut connection: Connection,
    states: &mut HashMap<String, String>,
    hear: &mut dyn FnMut(UnitEvent<'_>) -> bool,
) -> bool {
    // After an invalid message, the connection is of no use any more.
    while let Ok(message) = connection.receive() {
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

/// Returns the signal in a message, if it is a wanted one. systemd sends signals to all; any user can send one to this
/// process.
fn signal(message: &Message) -> Option<Signal> {
    if message.is_addressed {
        return None;
    }
    let mut values = message.values();
    match (message.interface.as_str(), message.member.as_str(), message.signature.as_str()) {
        ("org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as") => {
            let unit = unescaped(message.path.strip_prefix(UNITS)?)?;
            let interface = values.text()?;
            let state = values.text_of("ActiveState").filter(|_| interface == UNIT)?;
            Some(Signal::State { unit, state: state.to_owned() })
        }
        (MANAGER, "UnitFilesChanged", _) => Some(Signal::Any("a unit was enabled, disabled or masked")),
        // The value tells whether it begins or ends.
        (MANAGER, "Reloading", "b") => {
            (values.number()? == 0).then_some(Signal::Any("systemd has read its units anew"))
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

#[cfg(test)]
mod tests {
    use super::super::bus::tests::{read, recorded};
    use super::*;
    use bstr::ByteSlice;

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
        let failed = || Some(Signal::State { unit: "nginx.service".to_owned(), state: "failed".to_owned() });
        for [changed, reloading, others @ ..] in recorded() {
            let other = |change: &dyn Fn(&mut Message)| {
                let mut message = read(&changed);
                change(&mut message);
                signal(&message)
            };
            assert_eq!(signal(&read(&changed)), failed());
            assert_eq!(other(&|message| message.path = "/".to_owned()), None);
            assert_eq!(other(&|message| message.signature = "sas".to_owned()), None);
            assert_eq!(other(&|message| message.is_addressed = true), None);
            let of_service = changed.replace("systemd1.Unit", "systemd1.Timr");
            assert_eq!(signal(&read(&of_service)), None);

            assert_eq!(signal(&read(&reloading)), Some(Signal::Any("systemd has read its units anew")));
            // The value is the whole body.
            let begins = [&reloading[..reloading.len() - 4], &[1; 4]].concat();
            assert_eq!(signal(&read(&begins)), None);
            let of_manager = |member: &str| {
                other(&|message| (message.interface, message.member) = (MANAGER.to_owned(), member.to_owned()))
            };
            assert_eq!(of_manager("UnitFilesChanged"), Some(Signal::Any("a unit was enabled, disabled or masked")));
            assert_eq!(of_manager("JobNew"), None);
            assert!(others.iter().all(|bytes| signal(&read(bytes)).is_none()));
        }
    }
}
