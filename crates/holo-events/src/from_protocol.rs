//! Conversions from the types of the plugin interface.

use crate::{Action, Asset, Controls, Edges, HealthState, Level, Stream, Text};
use bstr::BString;
use holo_protocol::session;

impl<'a> From<&'a holo_protocol::Action> for Action<'a> {
    fn from(action: &'a holo_protocol::Action) -> Self {
        Action { verb: (&action.verb).into(), reason: action.reason.as_ref().map(Text::from) }
    }
}

impl<'a> From<&'a holo_protocol::Edges> for Edges<'a> {
    fn from(edges: &'a holo_protocol::Edges) -> Self {
        let texts = |list: &'a [BString]| list.iter().map(Text::from).collect();
        let assets = |list: &'a [holo_protocol::Asset]| {
            list.iter().map(|asset| Asset { kind: (&asset.kind).into(), value: (&asset.value).into() }).collect()
        };
        Edges {
            after: texts(&edges.after),
            before: texts(&edges.before),
            requires: texts(&edges.requires),
            subscribes: texts(&edges.subscribes),
            notifies: texts(&edges.notifies),
            provides: assets(&edges.provides),
            needs: assets(&edges.needs),
            owns: assets(&edges.owns),
            watch: texts(&edges.watch),
            orphan: edges.orphan,
        }
    }
}

impl From<&holo_protocol::Controls> for Controls {
    fn from(controls: &holo_protocol::Controls) -> Self {
        Controls {
            noop: controls.noop,
            poll: controls.poll.map(|poll| poll.as_secs_f64()),
            limit: controls.limit.as_ref().map(ToString::to_string),
            semaphore: controls.semaphore.as_ref().map(ToString::to_string),
            schedule: controls.schedule.as_ref().map(ToString::to_string),
        }
    }
}

impl From<holo_protocol::Level> for Level {
    fn from(level: holo_protocol::Level) -> Self {
        match level {
            holo_protocol::Level::Ok => Level::Ok,
            holo_protocol::Level::Warning => Level::Warning,
            holo_protocol::Level::Error => Level::Error,
        }
    }
}

impl From<holo_protocol::HealthState> for HealthState {
    fn from(state: holo_protocol::HealthState) -> Self {
        match state {
            holo_protocol::HealthState::Ok => HealthState::Ok,
            holo_protocol::HealthState::Warning => HealthState::Warning,
            holo_protocol::HealthState::Unknown => HealthState::Unknown,
            holo_protocol::HealthState::Critical => HealthState::Critical,
        }
    }
}

impl From<session::Stream> for Stream {
    fn from(stream: session::Stream) -> Self {
        match stream {
            session::Stream::Stdout => Stream::Stdout,
            session::Stream::Stderr => Stream::Stderr,
        }
    }
}
