//! The modes of the entities of a request.

use crate::Mode;
use bstr::BString;
use holo_protocol::Text;
use holo_protocol::session::Request;
use std::collections::{HashMap, HashSet};

/// The parts of a request that concern single entities.
pub(super) struct Modes<'a> {
    /// The entities that are refreshed, or would be.
    refreshed: HashSet<&'a BString>,
    pending: HashSet<&'a BString>,
    received: HashMap<&'a BString, Vec<BString>>,
    wanted: HashMap<&'a BString, Vec<BString>>,
}

impl<'a> Modes<'a> {
    pub(super) fn from_request(request: &'a Request) -> Modes<'a> {
        let values = |values: &[Text]| values.iter().map(|value| value.0.clone()).collect();
        Modes {
            refreshed: request.refresh.iter().map(|id| &id.0).collect(),
            pending: request.pending.iter().map(|id| &id.0).collect(),
            received: request.received.iter().map(|received| (&received.entity.0, values(&received.values))).collect(),
            wanted: request.wanted.iter().map(|wanted| (&wanted.entity.0, values(&wanted.names))).collect(),
        }
    }

    pub(super) fn of_entity(&self, id: &BString, force: bool) -> Mode<'_> {
        let received = self.received.get(id).map(Vec::as_slice).unwrap_or_default();
        let (refresh, pending) = (self.refreshed.contains(id), self.pending.contains(id));
        Mode { force, refresh, pending, received, wanted: self.wanted_of(id) }
    }

    pub(super) fn wanted_of(&self, id: &BString) -> &[BString] {
        self.wanted.get(id).map(Vec::as_slice).unwrap_or_default()
    }
}
