//! HTTP requests.

use crate::answer::Answer;
use std::io::Read;
use std::time::Duration;
use ureq::http::StatusCode;
use ureq::{Agent, Error};

/// The number of bytes of a response that are searched for a text.
const MAX_BODY: u64 = 1 << 20;

/// Sends a single request. Redirects are not followed: they are a valid response.
pub(crate) fn ask(url: &str, status: Option<u16>, contains: Option<&str>, limit: Duration) -> Result<Answer, Answer> {
    let mut config = Agent::config_builder()
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("holo-probe/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(limit))
        // Probes are for this machine or its local network.
        .proxy(None);
    if url.starts_with("https:") {
        config = config.tls_config(holo_download::system_tls().map_err(|error| Answer::unknown(error.to_string()))?);
    }
    let response = config.build().new_agent().get(url).call().map_err(|error| failure(&error, limit))?;
    let found = response.status();
    match status {
        Some(expected) if found != expected => {
            return Err(Answer::critical(format!("the server reports {found}, where {expected} is expected")));
        }
        None if !(200..400).contains(&found.as_u16()) => {
            return Err(Answer::critical(format!("the server reports {found}")));
        }
        _ => {}
    }
    let Some(text) = contains else { return Ok(good(found)) };
    let mut body = Vec::new();
    let read = response.into_body().into_reader().take(MAX_BODY).read_to_end(&mut body);
    let is_there = body.windows(text.len().max(1)).any(|piece| piece == text.as_bytes()) || text.is_empty();
    match read {
        _ if is_there => Ok(good(found)),
        Err(error) => Err(Answer::critical(format!("the answer breaks off: {error}"))),
        Ok(_) => Err(Answer::critical(format!("the answer does not contain {text:?}"))),
    }
}

fn good(status: StatusCode) -> Answer {
    Answer::ok(format!("the server reports {status}"))
}

fn failure(error: &Error, limit: Duration) -> Answer {
    match error {
        Error::Timeout(_) => Answer::critical(format!("no answer within {limit:?}")),
        Error::BadUri(_) | Error::Http(_) => Answer::unknown(error.to_string()),
        Error::HostNotFound => Answer::critical("the host is not known"),
        Error::Io(error) => Answer::critical(error.to_string()),
        error => Answer::critical(error.to_string()),
    }
}
