//! Names of units according to systemd's rules.

use crate::unit::{UnitName, UnitNameError};

/// The types of units; a name without one of these is that of a service.
const TYPES: [&str; 11] =
    ["service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"];
const LONGEST: usize = 255;

/// Completes a name from a definition: `nginx` is `nginx.service`.
pub(super) fn complete(name: &str) -> Result<UnitName, UnitNameError> {
    let error = |problem: String| Err(UnitNameError::new(name, problem));
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || ":-_.\\@".contains(letter);
    if let Some(letter) = name.chars().find(|letter| !is_allowed(*letter)) {
        return error(format!("is not a valid unit name, as {letter:?} is in it"));
    }
    let has_type = name.rsplit_once('.').is_some_and(|(_, kind)| TYPES.contains(&kind));
    let whole = if has_type { name.to_owned() } else { format!("{name}.service") };
    let stem = whole.rsplit_once('.').map_or("", |(stem, _)| stem);
    if stem.is_empty() || stem.starts_with('@') || whole.len() > LONGEST {
        return error("is not a valid unit name".to_owned());
    }
    if let Some(template) = stem.strip_suffix('@').filter(|prefix| !prefix.contains('@')) {
        return error(format!("is a template; its instances have names such as {template}@x"));
    }
    Ok(UnitName::from_whole(whole))
}

/// Returns the part of the name before the type and the instance.
pub(super) fn stem(name: &UnitName) -> &str {
    let stem = name.as_str().rsplit_once('.').map_or("", |(stem, _)| stem);
    stem.split('@').next().unwrap_or(stem)
}

/// Returns the name of the template if this is an instance: `getty@.service`.
pub(super) fn template(name: &UnitName) -> Option<String> {
    let (prefix, instance) = name.as_str().split_once('@')?;
    let (_, kind) = instance.rsplit_once('.')?;
    Some(format!("{prefix}@.{kind}"))
}

/// Returns the part of the name between the `@` and the type if this is an instance.
pub(super) fn instance(name: &UnitName) -> Option<&str> {
    let (_, instance) = name.as_str().split_once('@')?;
    instance.rsplit_once('.').map(|(instance, _)| instance)
}

/// Returns the names of the files that may define a unit.
pub(super) fn files(name: &UnitName) -> Vec<String> {
    std::iter::once(name.as_str().to_owned()).chain(template(name)).collect()
}

/// Returns the names of the files and directories that affect a unit, or the service that it starts.
pub(super) fn own_files(name: &UnitName) -> Vec<String> {
    let whole = name.as_str();
    let starts_another = [".timer", ".socket", ".path"].iter().any(|kind| whole.ends_with(kind));
    let other = whole.rsplit_once('.').filter(|_| starts_another).map(|(stem, _)| format!("{stem}.service"));
    let other = other.map(UnitName::from_whole);
    let both = || std::iter::once(name).chain(&other);
    let own = both().flat_map(files).flat_map(|file| [format!("{file}.d"), file]);
    own.chain(both().flat_map(shared_drop_ins)).collect()
}

/// Returns the names of drop-in directories shared by several units: `a-b.service` also uses those in `a-.service.d`
/// and `service.d`.
fn shared_drop_ins(name: &UnitName) -> Vec<String> {
    let Some((stem, kind)) = name.as_str().rsplit_once('.') else { return Vec::new() };
    let prefixes = stem.match_indices('-').filter_map(|(at, _)| stem.get(..=at));
    prefixes.map(|prefix| format!("{prefix}.{kind}.d")).chain([format!("{kind}.d")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(name: &str) -> String {
        complete(name).unwrap().to_string()
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
            assert!(complete(name).is_err(), "{name}");
        }
        assert!(
            complete("getty@")
                .unwrap_err()
                .to_string()
                .contains("is a template; its instances have names such as getty@x")
        );
        assert!(complete("getty@.service").is_err());
        assert!(complete("a b").unwrap_err().to_string().contains("' ' is in it"));
    }

    #[test]
    fn an_instance_may_stand_in_its_templates_file() {
        let files = |name: &str| files(&complete(name).unwrap());
        assert_eq!(files("getty@tty1"), ["getty@tty1.service", "getty@.service"]);
        assert_eq!(files("a@b@c.socket"), ["a@b@c.socket", "a@.socket"]);
        assert_eq!(files("nginx"), ["nginx.service"]);
        let own_files = |name: &str| own_files(&complete(name).unwrap());
        assert_eq!(own_files("nginx"), ["nginx.service.d", "nginx.service", "service.d"]);
        assert_eq!(
            own_files("a-b.timer"),
            [
                "a-b.timer.d",
                "a-b.timer",
                "a-b.service.d",
                "a-b.service",
                "a-.timer.d",
                "timer.d",
                "a-.service.d",
                "service.d"
            ]
        );
        assert_eq!(stem(&complete("getty@tty1").unwrap()), "getty");
        assert_eq!(stem(&complete("a.b.timer").unwrap()), "a.b");
    }
}
