//! Packages, and the state that each shall be in.

use crate::intent::Intent;
use crate::model::{Answers, Key, PackageFile};
use crate::pattern::VersionPattern;
use holo_download::Checksum;
use holo_plugin::Kept;
use std::time::Duration;

/// The key of the value that says which version there is.
pub(crate) const VERSION: &str = "version";
/// That of the one which says which version we have installed.
pub(crate) const OURS: &str = "installed";

/// The desired state of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ensure {
    /// Some version of it is installed.
    Present,
    /// It is not installed.
    Absent,
    /// Neither it nor what was configured is there.
    Purged,
    /// The newest version that is offered is installed.
    Latest,
    /// One of these versions is installed.
    Version(VersionPattern),
}

impl Ensure {
    pub(crate) fn parse(text: &str) -> Ensure {
        match text {
            "present" => Ensure::Present,
            "absent" => Ensure::Absent,
            "purged" => Ensure::Purged,
            "latest" => Ensure::Latest,
            version => Ensure::Version(VersionPattern::parse(version)),
        }
    }

    /// Returns true if it shall not be there.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Ensure::Absent | Ensure::Purged)
    }
}

/// A package, and what it shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) id: String,
    pub(crate) key: Key,
    pub(crate) ensure: Ensure,
    /// True if its installation need not be complete, as it was not before us.
    pub(crate) may_be_unfinished: bool,
    /// The versions that we have installed last, or set out to, if the system is brought back to an earlier state: they may be replaced by
    /// older ones.
    pub(crate) ours: Vec<String>,
    /// The version to install if any would do, and this one can be had.
    pub(crate) preferred: Option<String>,
    pub(crate) hold: Option<bool>,
    /// True if it shall be there for others only.
    pub(crate) automatic: Option<bool>,
    pub(crate) is_orphan: bool,
    pub(crate) timeout: Option<Duration>,
    /// True if packages come along that are only recommended; none for what the manager does by itself.
    pub(crate) recommends: Option<bool>,
    /// The greatest age of the index that decides about a version.
    pub(crate) refresh: Option<Duration>,
    /// The names of packages that came along with it, if it is to go.
    pub(crate) brought: Vec<String>,
    pub(crate) answers: Option<Answers>,
    /// The path or URL of a file that it comes from, and the digest that this has to have.
    pub(crate) source: Option<String>,
    pub(crate) checksum: Option<Checksum>,
    /// The package in that file, once it has been read.
    pub(crate) file: Option<PackageFile>,
    /// The address, as it may be shown, from where it would be fetched, where nothing is fetched.
    pub(crate) fetches: Option<String>,
    /// The reason why it cannot be as it is wanted.
    pub(crate) problem: Option<String>,
}

impl Wanted {
    /// Asks for the version that there was in the state that the system is brought back to, unless the definition asks for another.
    pub(crate) fn recall(&mut self, kept: &Kept, intent: &Intent) {
        self.recall_ours(kept, intent);
        let is_open = match &self.ensure {
            Ensure::Present | Ensure::Latest => true,
            Ensure::Version(pattern) => pattern.is_open(),
            Ensure::Absent | Ensure::Purged => false,
        };
        if let Some(version) = kept.then(&self.id, VERSION).filter(|_| is_open) {
            self.ensure = Ensure::Version(VersionPattern::Exact(version));
        }
    }

    /// The same for a package that nothing defines there: if what we did to it is undone, it gets the version back that it was found in.
    pub(crate) fn recall_orphan(&mut self, kept: &Kept, intent: &Intent) {
        self.recall_ours(kept, intent);
        if let (false, Some(found)) = (self.ours.is_empty(), &self.preferred) {
            self.ensure = Ensure::Version(VersionPattern::Exact(found.clone()));
        }
    }

    fn recall_ours(&mut self, kept: &Kept, intent: &Intent) {
        let intended = intent.version(&self.id).filter(|_| !kept.is_empty()).map(str::to_owned);
        self.ours = kept.last(&self.id, OURS).into_iter().chain(intended).collect();
    }
}
