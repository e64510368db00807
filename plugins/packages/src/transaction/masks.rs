//! Units that must not run are masked while packages are installed: packages of Debian start their daemons.

use holo_change::claims;
use holo_plugin::process::Program;
use holo_plugin::system::{Root, UNIT_DIRECTORIES, is_run_by_systemd};
use holo_plugin::{Host, Output, reason};
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// An empty file in this directory masks a unit until the next boot.
const DIRECTORY: &str = "/run/systemd/system";
/// The names of the masked units, one per line. After a kill, the next apply removes their masks.
const LIST: &str = "/run/holo-masks";

/// The masks of units that do not exist yet. They are removed when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Masks(Vec<String>);

impl Masks {
    /// Masks the units that are defined as stopped and do not exist yet.
    pub(super) fn of_stopped_units(host: &Host, output: &mut Output<'_>) -> Masks {
        if !is_live(host) {
            return Masks::default();
        }
        let root = Root::new(host.root());
        let mut units: Vec<String> = claims::stopped(host.locations()).into_iter().collect();
        units.retain(|unit| !exists(&root, unit));
        let masks = Masks(units);
        if let Err(error) = masks.create() {
            let units = masks.0.join(", ");
            output.warning(format!("cannot keep packages from starting {units}: {}", reason(&error)));
        }
        masks
    }

    /// Returns the masks that a killed run has left.
    pub(super) fn left(host: &Host) -> Masks {
        let list = if is_live(host) { fs::read_to_string(LIST).unwrap_or_default() } else { String::new() };
        Masks(list.lines().map(str::to_owned).collect())
    }

    fn create(&self) -> io::Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        fs::write(LIST, self.0.iter().map(|unit| format!("{unit}\n")).collect::<String>())?;
        self.0.iter().try_for_each(|unit| File::create_new(Path::new(DIRECTORY).join(unit)).map(drop))
    }
}

impl Drop for Masks {
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        for mask in self.0.iter().map(|unit| Path::new(DIRECTORY).join(unit)) {
            // A package may have put its own file there.
            if mask.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == 0) {
                let _ = fs::remove_file(mask);
            }
        }
        let _ = fs::remove_file(LIST);
        // systemd may have loaded the masks. If this fails, the files are reloaded when services are applied.
        let root = Root::new(Path::new("/"));
        if self.0.iter().any(|unit| exists(&root, unit)) {
            let _ = Program::new("systemctl").arg("daemon-reload").output();
        }
    }
}

/// Returns true if packages start their daemons now.
fn is_live(host: &Host) -> bool {
    !host.test_mode() && !host.is_offline() && is_run_by_systemd()
}

/// Returns true if a unit has a file, or is the instance of a template with one.
fn exists(root: &Root, unit: &str) -> bool {
    let template = unit.split_once('@').and_then(|(name, rest)| Some(format!("{name}@.{}", rest.rsplit_once('.')?.1)));
    let has = |file: &str| UNIT_DIRECTORIES.iter().any(|directory| root.has(Path::new(directory).join(file)));
    has(unit) || template.is_some_and(|template| has(&template))
}
