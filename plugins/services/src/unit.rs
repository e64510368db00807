//! Names of units, as systemd allows them.

use std::fmt::{self, Display};

/// The types of units; a name without one of these is a service's.
const TYPES: [&str; 11] =
    ["service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"];
const LONGEST: usize = 255;

/// The whole name of a unit, such as `nginx.service` or `getty@tty1.service`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitName(String);

impl UnitName {
    /// Completes a name as people write it.
    ///
    /// # Errors
    /// Why systemd would not take it, in words that read after "name: ".
    pub(crate) fn new(name: &str) -> Result<UnitName, String> {
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || ":-_.\\@".contains(letter);
        if let Some(letter) = name.chars().find(|letter| !is_allowed(*letter)) {
            return Err(format!("{name:?} is not a valid unit name, as {letter:?} is in it"));
        }
        let has_type = name.rsplit_once('.').is_some_and(|(_, kind)| TYPES.contains(&kind));
        let whole = if has_type { name.to_owned() } else { format!("{name}.service") };
        let stem = whole.rsplit_once('.').map_or("", |(stem, _)| stem);
        if stem.is_empty() || stem.starts_with('@') || whole.len() > LONGEST {
            return Err(format!("{name:?} is not a valid unit name"));
        }
        if let Some(template) = stem.strip_suffix('@').filter(|prefix| !prefix.contains('@')) {
            return Err(format!("{name:?} is a template; its instances have names such as {template}@x"));
        }
        Ok(UnitName(whole))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part of the name before the type and the instance.
    pub(crate) fn stem(&self) -> &str {
        let stem = self.0.rsplit_once('.').map_or("", |(stem, _)| stem);
        stem.split('@').next().unwrap_or(stem)
    }

    /// The name of its template, if it is an instance: `getty@.service`.
    pub(crate) fn template(&self) -> Option<String> {
        let (prefix, instance) = self.0.split_once('@')?;
        let (_, kind) = instance.rsplit_once('.')?;
        Some(format!("{prefix}@.{kind}"))
    }

    /// Returns the part of the name between the `@` and the type, if it is an instance.
    pub(crate) fn instance(&self) -> Option<&str> {
        let (_, instance) = self.0.split_once('@')?;
        instance.rsplit_once('.').map(|(instance, _)| instance)
    }

    /// The names of the files in which it may stand.
    pub(crate) fn files(&self) -> Vec<String> {
        std::iter::once(self.0.clone()).chain(self.template()).collect()
    }
}

impl Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(name: &str) -> String {
        UnitName::new(name).unwrap().to_string()
    }

    #[test]
    fn a_name_without_a_type_is_a_services() {
        assert_eq!(whole("nginx"), "nginx.service");
        assert_eq!(whole("nginx.service"), "nginx.service");
        assert_eq!(whole("nginx.conf"), "nginx.conf.service");
        assert_eq!(whole("fstrim.timer"), "fstrim.timer");
        assert_eq!(whole("getty@tty1"), "getty@tty1.service");
        assert_eq!(whole(r"dev-disk-by\x2duuid-1.swap"), r"dev-disk-by\x2duuid-1.swap");
        assert_eq!(whole("a:b_c-d@e@f.socket"), "a:b_c-d@e@f.socket");
        assert_eq!(whole("-.mount"), "-.mount");
    }

    #[test]
    fn what_systemd_would_not_take_is_refused() {
        for name in ["", ".service", "@x", "@", "a b", "a/b", "a*", "a\n", "ä", "$(x)", &"x".repeat(255)] {
            assert!(UnitName::new(name).is_err(), "{name}");
        }
        assert!(
            UnitName::new("getty@").unwrap_err().contains("is a template; its instances have names such as getty@x")
        );
        assert!(UnitName::new("getty@.service").is_err());
        assert!(UnitName::new("a b").unwrap_err().contains("' ' is in it"));
    }

    #[test]
    fn an_instance_may_stand_in_its_templates_file() {
        let files = |name: &str| UnitName::new(name).unwrap().files();
        assert_eq!(files("getty@tty1"), ["getty@tty1.service", "getty@.service"]);
        assert_eq!(files("a@b@c.socket"), ["a@b@c.socket", "a@.socket"]);
        assert_eq!(files("nginx"), ["nginx.service"]);
        assert_eq!(UnitName::new("getty@tty1").unwrap().stem(), "getty");
        assert_eq!(UnitName::new("a.b.timer").unwrap().stem(), "a.b");
    }
}
