//! The base system: packages that are essential, required or important, and their dependencies.

use std::collections::{BTreeMap, BTreeSet};

/// One line for each package, also for packages that are not installed.
pub(super) const FORMAT: &str =
    "--showformat=${db:Status-Status}\\t${Package}\\t${Essential}\\t${Priority}\\t${Pre-Depends}, ${Depends}\\n";

/// The names of packages of the base system.
#[derive(Debug, Default)]
pub(super) struct Base<'t>(BTreeSet<&'t str>);

impl<'t> Base<'t> {
    /// Parses the output of dpkg-query in this format.
    pub(super) fn read(text: &'t str) -> Base<'t> {
        let mut dependencies: BTreeMap<&str, &str> = BTreeMap::new();
        let mut pending: Vec<&str> = Vec::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [status, name, essential, priority, depends] = fields[..] else { continue };
            if ["not-installed", "config-files"].contains(&status) {
                continue;
            }
            dependencies.insert(name, depends);
            if essential == "yes" || ["required", "important"].contains(&priority) {
                pending.push(name);
            }
        }
        let mut base = BTreeSet::new();
        while let Some(name) = pending.pop() {
            let Some(depends) = dependencies.get(name) else { continue };
            if base.insert(name) {
                pending.extend(first_choices(depends));
            }
        }
        Base(base)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

/// Returns the names in a list of dependencies such as `a (>= 1), b:any | c`. Only the first alternative counts, as another one is
/// installed only by choice.
fn first_choices(list: &str) -> impl Iterator<Item = &str> {
    let choices = list.split(',').filter_map(|part| part.split('|').next()?.split_whitespace().next());
    choices.filter_map(|name| name.split(':').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = "installed\tdpkg\tyes\trequired\tlibc6 (>= 2.3), tar | ed\n\
                          installed\tlibc6\t\toptional\t, libgcc-s1\n\
                          installed\tlibgcc-s1\t\toptional\t\n\
                          installed\ted\t\toptional\t\n\
                          installed\tnginx\t\toptional\tlibc6, libpcre2-8-0:any\n\
                          installed\tlibpcre2-8-0\t\toptional\tlibc6\n\
                          installed\tcron\t\timportant\tcron-daemon-common:any, exim4 | mail-transport-agent\n\
                          installed\tcron-daemon-common\t\toptional\t, \n\
                          installed\tpostfix\t\toptional\t\n\
                          config-files\tbusybox\t\trequired\tnginx\n";

    #[test]
    fn base_has_required_packages_and_their_dependencies() {
        let base = Base::read(SYSTEM);
        let all: Vec<&str> = base.0.iter().copied().collect();
        assert_eq!(all, ["cron", "cron-daemon-common", "dpkg", "libc6", "libgcc-s1"]);
        assert!(!base.contains("nginx") && !base.contains("ed") && !base.contains("postfix"));
    }

    #[test]
    fn dependencies_are_parsed_without_versions_and_architectures() {
        let list = "a (>= 1:2.0~), b:any | c (= 1) , , libc6";
        assert_eq!(first_choices(list).collect::<Vec<_>>(), ["a", "b", "libc6"]);
    }
}
