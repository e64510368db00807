//! The header of a module: its name, version, protocol and features.

/// The header sent to modules. Their libraries require a version of CFEngine that supports promise modules.
pub(crate) const GREETING: &str = "cf-agent 3.21.0 v1\n\n";
const PROTOCOL: &str = "v1";

/// The two forms of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Json,
    Lines,
}

/// The header of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) protocol: Protocol,
    /// True if the module can do a dry run.
    pub(crate) has_action_policy: bool,
    /// The reason why the protocol had to be guessed.
    pub(crate) doubt: Option<&'static str>,
}

/// An invalid header, worded to follow the module's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The line is not a header.
    NoHeader(String),
    /// The version of the protocol is unknown.
    Protocol(String),
}

impl Header {
    /// Parses the line.
    pub(crate) fn parse(line: &str) -> Result<Header, HeaderError> {
        let no_header = || HeaderError::NoHeader(line.to_owned());
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, _, version, flags @ ..] = words.as_slice() else { return Err(no_header()) };
        let digits = version.strip_prefix('v').unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) || flags.is_empty() {
            return Err(no_header());
        }
        if *version != PROTOCOL {
            return Err(HeaderError::Protocol((*version).to_owned()));
        }
        let protocols: Vec<Protocol> = flags.iter().filter_map(|flag| protocol(flag)).collect();
        let doubt = match protocols.iter().all(|protocol| Some(protocol) == protocols.first()) {
            _ if protocols.is_empty() => Some("does not say which protocol it has; line_based is assumed"),
            false => Some("says that it has both protocols; the last one counts"),
            true => None,
        };
        let protocol = protocols.last().copied().unwrap_or(Protocol::Lines);
        Ok(Header { protocol, has_action_policy: flags.contains(&"action_policy"), doubt })
    }
}

fn protocol(flag: &str) -> Option<Protocol> {
    match flag {
        "json_based" => Some(Protocol::Json),
        "line_based" => Some(Protocol::Lines),
        _ => None,
    }
}

impl std::fmt::Display for HeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeaderError::NoHeader(line) => write!(f, ": {line:?} is no header"),
            HeaderError::Protocol(version) => write!(f, " asks for protocol {version}, and v1 is the highest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_how_a_module_talks() {
        for (line, protocol, has_action_policy, has_doubt) in [
            ("git_promise_module 0.0.1 v1 json_based", Protocol::Json, false, false),
            ("git 1 v1 line_based action_policy", Protocol::Lines, true, false),
            ("git 1 v1 action_policy odd json_based", Protocol::Json, true, false),
            ("git 1 v1 json_based json_based", Protocol::Json, false, false),
            ("git 1 v1 action_policy", Protocol::Lines, true, true),
            ("git 1 v1 line_based json_based", Protocol::Json, false, true),
            ("git 1 v1 json_based line_based", Protocol::Lines, false, true),
            ("  git  1\tv1 json_based \r", Protocol::Json, false, false),
        ] {
            let header = Header::parse(line).unwrap();
            assert_eq!(
                (header.protocol, header.has_action_policy, header.doubt.is_some()),
                (protocol, has_action_policy, has_doubt),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_no_header_is_shown() {
        for line in ["", "hello", "git 1 v1", "git 1 v json_based", "git 1 1 json_based", "git 1 vx json_based"] {
            let error = Header::parse(line).unwrap_err();
            assert_eq!(error.to_string(), format!(": {line:?} is no header"));
        }
        let error = Header::parse("git 1 v9 json_based").unwrap_err();
        assert_eq!(error.to_string(), " asks for protocol v9, and v1 is the highest");
    }
}
