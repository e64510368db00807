//! TCP connections.

use crate::answer::Answer;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Instant;

/// Connects to any address of a host and closes the connection.
pub(crate) fn connect(address: &str, deadline: Instant) -> Result<Answer, Answer> {
    let host = address.rsplit_once(':').map(|(host, _)| host);
    let addresses = address.to_socket_addrs().map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => Answer::unknown(format!("{address} is not a host and a port")),
        _ => Answer::critical(format!("{} is not known: {error}", host.unwrap_or(address))),
    })?;
    let mut failed = Answer::critical(format!("{address} has no address"));
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Answer::critical("no response in time"));
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(_) => return Ok(Answer::ok(format!("{address} takes connections"))),
            Err(error) => failed = Answer::critical(format!("{address}: {error}")),
        }
    }
    Err(failed)
}
