//! Providers, the backends of a plugin, each in a file of its own, and the selection of one.

use crate::Host;
use crate::definitions::did_you_mean;

/// A backend of a plugin. Its operations are defined by a trait of the plugin that has this one as a supertrait.
pub trait Provider: Sync {
    /// Returns the name for definitions.
    fn name(&self) -> &'static str;

    /// Returns how well it suits a host; higher is better. `None` if it cannot be used there.
    fn rank(&self, host: &Host) -> Option<u8>;
}

/// All providers of a plugin. Of those with equal ranks, the first is used.
pub struct Providers<P: ?Sized + 'static>(&'static [&'static P]);

impl<P: Provider + ?Sized> Providers<P> {
    /// Creates the list, in the order in which providers are listed for users.
    #[must_use]
    pub const fn new(all: &'static [&'static P]) -> Providers<P> {
        Providers(all)
    }

    /// Returns all providers in order.
    pub fn iter(&self) -> impl Iterator<Item = &'static P> {
        self.0.iter().copied()
    }

    /// Returns the first provider.
    #[must_use]
    pub fn first(&self) -> Option<&'static P> {
        self.0.first().copied()
    }

    /// Returns the provider with this name.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn named(&self, name: &str) -> Result<&'static P, UnknownProviderError> {
        self.iter().find(|provider| provider.name() == name).ok_or_else(|| {
            let known: Vec<&str> = self.iter().map(Provider::name).collect();
            let hint = did_you_mean(name, known.iter().copied());
            let hint = hint.unwrap_or_else(|| format!("expected one of {}", known.join(", ")));
            UnknownProviderError { name: name.to_owned(), hint }
        })
    }

    /// Returns the provider that suits a host best, if any.
    pub fn best(&self, host: &Host) -> Option<&'static P> {
        let ranked = self.iter().filter_map(|provider| Some((provider.rank(host)?, provider)));
        // Of equal elements, `max_by_key` returns the last.
        ranked.collect::<Vec<_>>().into_iter().rev().max_by_key(|(rank, _)| *rank).map(|(_, provider)| provider)
    }
}

/// A definition names an unknown provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown provider {name:?}, {hint}")]
pub struct UnknownProviderError {
    name: String,
    hint: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ranked(&'static str, Option<u8>);

    impl Provider for Ranked {
        fn name(&self) -> &'static str {
            self.0
        }

        fn rank(&self, _: &Host) -> Option<u8> {
            self.1
        }
    }

    fn best(all: &'static [&'static Ranked]) -> Option<&'static str> {
        let host = Host::from_environment(|_| Some("x".into())).unwrap();
        Providers::new(all).best(&host).map(Provider::name)
    }

    #[test]
    fn the_best_is_the_first_of_the_highest_rank() {
        const ALL: &[&Ranked] =
            &[&Ranked("no", None), &Ranked("b", Some(1)), &Ranked("c", Some(2)), &Ranked("d", Some(2))];
        assert_eq!(best(ALL), Some("c"));
        assert_eq!(best(&ALL[..2]), Some("b"));
        assert_eq!(best(&ALL[..1]), None);
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_are_known() {
        let providers = Providers::new(&[&Ranked("apt", None), &Ranked("zypper", None)]);
        assert_eq!(providers.named("zypper").map(Provider::name), Ok("zypper"));
        let error = |name| providers.named(name).map(Provider::name).unwrap_err().to_string();
        assert_eq!(error("zyper"), "unknown provider \"zyper\", did you mean zypper?");
        assert_eq!(error("emerge"), "unknown provider \"emerge\", expected one of apt, zypper");
    }
}
