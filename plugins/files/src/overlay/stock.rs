//! Stock files and saved files that package managers leave next to changed targets, depending on the family of the distribution.

use holo_change::error::Result;
use holo_change::tracked::is_made_by_others;
use holo_change::{Durability, Image, PathHandle, copy_in_one_step};
use holo_plugin::system::OsRelease;
use holo_plugin::{Host, Output};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A new stock file next to a target.
#[derive(Debug)]
pub(crate) struct Stock {
    pub(crate) place: PathHandle,
    /// The message about it.
    pub(crate) reported: String,
}

impl Distribution {
    /// Looks for a new stock file. If the package manager has saved the target and installed the stock file in its place, moves both back:
    /// the target to its path, the stock file next to it.
    pub(crate) fn find_stock(
        &self,
        target: &PathHandle,
        host: &Host,
        output: &mut Output<'_>,
    ) -> Result<Option<Stock>> {
        if let Distribution::Unknown(ids) = self {
            output.error(format!("Running on an unrecognized distribution. Distribution IDs: {}", ids.join(",")));
            output.warning("Package managers of it may leave new versions of configuration files that are not found;");
            output.warning("please report this, together with the contents of your /etc/os-release.");
        }
        match self.suffixes_at(target, host)? {
            [stock] => beside(target, stock),
            [saved, stock] => swapped_or_beside(target, saved, stock),
            _ => Ok(None),
        }
    }

    /// Looks for a new stock file without moving files. Returns its handle, and that of the current target. `is_restored` means that
    /// there will be a target when the entity is applied, even if there is none now.
    pub(crate) fn peek(
        &self,
        target: &PathHandle,
        host: &Host,
        is_restored: bool,
    ) -> Result<Option<(PathHandle, PathHandle)>> {
        let suffixes = self.suffixes_at(target, host)?;
        if let [saved, _] = suffixes {
            let saved = target.with_suffix(saved);
            if saved.is_file_or_symlink()? && (is_restored || target.is_file_or_symlink()?) {
                return Ok(Some((target.clone(), saved)));
            }
        }
        let Some(suffix) = suffixes.last() else { return Ok(None) };
        let stock = target.with_suffix(suffix);
        Ok(stock.is_file_or_symlink()?.then(|| (stock, target.clone())))
    }

    /// Returns the suffixes of saved targets, if the package manager uses one, and of new stock files.
    pub(super) fn suffixes(&self) -> &'static [&'static str] {
        match self {
            Distribution::Arch => &[".pacnew"],
            Distribution::Alpine => &[".apk-new"],
            Distribution::Debian => &[".dpkg-old", ".dpkg-dist"],
            Distribution::Rpm => &[".rpmsave", ".rpmnew"],
            Distribution::Unittest | Distribution::Unknown(_) => &[],
        }
    }

    /// Returns the suffixes that count for a target. There are none if no file has one, or if another entity makes the file below the
    /// overlay: that entity decides what the base is.
    fn suffixes_at(&self, target: &PathHandle, host: &Host) -> Result<&'static [&'static str]> {
        let path = Path::new("/").join(target.path());
        let counts = self.leaves_files(target)? && !is_made_by_others(&path, host.locations())?;
        Ok(if counts { self.suffixes() } else { &[] })
    }

    fn leaves_files(&self, target: &PathHandle) -> Result<bool> {
        self.suffixes()
            .iter()
            .try_fold(false, |found, suffix| Ok(found || target.with_suffix(suffix).is_file_or_symlink()?))
    }

    /// Returns true if [`Distribution::find_stock`] would certainly find, move and report nothing.
    pub(crate) fn leaves_alone(&self, target: &PathHandle) -> Result<bool> {
        Ok(!matches!(self, Distribution::Unknown(_)) && !self.leaves_files(target)?)
    }

    /// Returns the saved copies of a deleted target that equal its provisioned image.
    pub(crate) fn saved_copies(&self, target: &PathHandle, provisioned: Option<&Image>) -> Result<Vec<PathHandle>> {
        let (Distribution::Arch, Some(provisioned)) = (self, provisioned) else { return Ok(Vec::new()) };
        let name = target.path().file_name().unwrap_or_default();
        let prefix = [name.as_bytes(), b".pacsave"].concat();
        let is_saved = |rest: &[u8]| {
            rest.is_empty()
                || rest.strip_prefix(b".").is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit))
        };
        let mut saved = Vec::new();
        for sibling in target.siblings()? {
            if sibling.as_bytes().strip_prefix(&prefix[..]).is_some_and(is_saved) {
                let place = target.sibling(&sibling);
                let image = Image::load(&place).ok().flatten();
                if let Some(image) = image
                    && image.equals(provisioned)?
                {
                    saved.push(place);
                }
            }
        }
        Ok(saved)
    }
}

fn beside(target: &PathHandle, suffix: &str) -> Result<Option<Stock>> {
    let place = target.with_suffix(suffix);
    let reported = place.shown().display().to_string();
    Ok(place.is_file_or_symlink()?.then_some(Stock { place, reported }))
}

fn swapped_or_beside(target: &PathHandle, saved_suffix: &str, stock_suffix: &str) -> Result<Option<Stock>> {
    let saved = target.with_suffix(saved_suffix);
    let stock = target.with_suffix(stock_suffix);
    // A missing target was deleted manually, because neither holo nor a package manager leaves that state. Files saved earlier are ignored.
    if !saved.is_file_or_symlink()? || !target.is_file_or_symlink()? {
        return beside(target, stock_suffix);
    }
    copy_in_one_step(target, &stock)?;
    // From here on the stock file is safe. After a crash in this state, only the rename is left to do.
    saved.rename_to(target)?;
    Durability::Each.sync([], [target])?;
    let reported = format!("{} (with {saved_suffix})", target.shown().display());
    Ok(Some(Stock { place: stock, reported }))
}

/// A family of distributions whose package managers use the same suffixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    Alpine,
    Arch,
    Debian,
    /// Fedora and SUSE.
    Rpm,
    /// The simulated distribution of scenarios, which has no suffixes.
    Unittest,
    /// An unknown distribution, with the IDs from os-release.
    Unknown(Vec<String>),
}

impl Distribution {
    /// Returns the family that `os-release(5)` names.
    pub(crate) fn of(release: &OsRelease) -> Distribution {
        let ids = release.ids();
        let known = ids.iter().find_map(|id| match *id {
            "alpine" => Some(Distribution::Alpine),
            "arch" => Some(Distribution::Arch),
            "debian" => Some(Distribution::Debian),
            "fedora" | "suse" => Some(Distribution::Rpm),
            "unittest" => Some(Distribution::Unittest),
            _ => None,
        });
        known.unwrap_or_else(|| Distribution::Unknown(ids.into_iter().map(str::to_owned).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_is_found_by_id_or_id_like() {
        let of = |text: &str| Distribution::of(&OsRelease::parse(text));
        assert_eq!(of("NAME=x\nID=debian\n"), Distribution::Debian);
        assert_eq!(of("ID=ubuntu\nID_LIKE=debian"), Distribution::Debian);
        assert_eq!(of("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\""), Distribution::Rpm);
        assert_eq!(of("ID='rhel'\nID_LIKE=\"fedora\""), Distribution::Rpm);
        assert_eq!(of("ID_LIKE=arch\nID=manjaro"), Distribution::Arch);
        assert_eq!(of("ID=alpine\nID_LIKE=arch"), Distribution::Alpine);
        assert_eq!(of("ID=unittest"), Distribution::Unittest);
        assert_eq!(
            of("ID=haiku\nID_LIKE=\"be os\""),
            Distribution::Unknown(vec!["haiku".into(), "be".into(), "os".into()])
        );
        assert_eq!(of(""), Distribution::Unknown(vec![]));
    }
}
