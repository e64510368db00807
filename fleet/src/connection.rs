//! The connection to NATS.

use crate::accounts::inbox;
use crate::config::Link;
use crate::error::FleetError;
use async_nats::{Client, ConnectOptions, Event};
use nkeys::KeyPair;
use semver::Version;
use std::time::Duration;
use tokio::sync::mpsc;

/// The timeout for a connection, and for the answer to a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The first version of the server whose streams have what is needed.
const MIN_SERVER: Version = Version::new(2, 10, 0);

/// The longest pause between two attempts to connect.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// What the server has refused: it does not answer what a user may not ask for.
pub(crate) type Refusals = mpsc::UnboundedReceiver<FleetError>;

/// Connects for a command, which fails if the server cannot be reached.
pub(crate) async fn connect(link: &Link) -> Result<(Client, Refusals), FleetError> {
    let (refusals, refused) = mpsc::unbounded_channel();
    let options = options(link)?.event_callback(move |event| {
        refusal(&event).map(|error| refusals.send(error));
        async {}
    });
    let client = options.connect(addresses(link)).await.map_err(|error| unreachable(link, &error))?;
    check_version(&client)?;
    Ok((client, refused))
}

fn refusal(event: &Event) -> Option<FleetError> {
    match event {
        Event::ServerError(error) => Some(FleetError(format!("the server refuses this: {error}"))),
        _ => None,
    }
}

/// Connects for a host, which waits until the server can be reached. `changed` is told each time whether it is connected.
pub(crate) async fn keep_connected(
    link: &Link,
    changed: impl Fn(bool) + Send + Sync + 'static,
) -> Result<(Client, Refusals), FleetError> {
    let changed = std::sync::Arc::new(changed);
    let (refusals, refused) = mpsc::unbounded_channel();
    let options = options(link)?.retry_on_initial_connect().max_reconnects(None).reconnect_delay_callback(pause);
    let options = options.event_callback(move |event| {
        let changed = std::sync::Arc::clone(&changed);
        refusal(&event).map(|error| refusals.send(error));
        async move {
            match event {
                Event::Connected => changed(true),
                Event::Disconnected => changed(false),
                _ => {}
            }
        }
    });
    let client = options.connect(addresses(link)).await.map_err(|error| unreachable(link, &error))?;
    Ok((client, refused))
}

/// Returns the pause before an attempt to connect. The first one is made at once.
fn pause(attempts: usize) -> Duration {
    let Some(doublings) = attempts.checked_sub(2) else { return Duration::ZERO };
    // Hosts that lost the same server do not come back at the same moment.
    let spread = 500 + u64::from(std::process::id() % 1000);
    Duration::from_millis(spread << doublings.min(7)).min(MAX_PAUSE)
}

/// Fails if the server is too old.
pub(crate) fn check_version(client: &Client) -> Result<(), FleetError> {
    let version = client.server_info().version;
    match Version::parse(&version) {
        Ok(found) if found < MIN_SERVER => Err(FleetError(format!(
            "the server is nats-server {version}, and holo-fleet needs {MIN_SERVER} or newer; Debian 13 has it"
        ))),
        _ => Ok(()),
    }
}

fn options(link: &Link) -> Result<ConnectOptions, FleetError> {
    let mut options =
        ConnectOptions::new().name("holo-fleet").connection_timeout(PATIENCE).request_timeout(Some(PATIENCE));
    if let Some(ca) = &link.ca {
        options = options.add_root_certificates(ca.clone());
    }
    let Some(text) = link.read_credentials()? else { return Ok(options) };
    if text.contains("BEGIN NATS USER JWT") {
        return options.credentials(&text).map_err(|error| about_credentials(link, &error));
    }
    match text.lines().map(str::trim).find(|line| line.starts_with("SU")) {
        Some(seed) => {
            let pair = KeyPair::from_seed(seed).map_err(|error| about_credentials(link, &error))?;
            Ok(options.nkey(seed.to_owned()).custom_inbox_prefix(inbox(&pair.public_key())))
        }
        None => Err(about_credentials(link, &"neither an nkey seed, which begins with SU, nor a .creds file")),
    }
}

fn about_credentials(link: &Link, reason: &dyn std::fmt::Display) -> FleetError {
    FleetError::about(link.credentials.as_deref().unwrap_or("".as_ref()).display(), reason)
}

fn addresses(link: &Link) -> Vec<String> {
    link.urls.clone()
}

fn unreachable(link: &Link, error: &dyn std::fmt::Display) -> FleetError {
    FleetError(format!("no connection to {}: {error}", link.urls.join(", ")))
}
