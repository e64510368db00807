//! The packages of holo with the real package managers: they are installed, used, upgraded, and removed without a trace.
//!
//! Instead of the programs they contain scripts that call those of this build, which are too large to compress in each test.
#![expect(clippy::unwrap_used, reason = "a test reports an error by panicking")]

mod booted;
mod image;
mod life;
mod table;

use holo_testing::{Overlay, ScratchRoot, binaries};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let code = holo_testing::run_modules([
        ("booted", booted::trials()),
        ("image", image::trials()),
        ("life", life::trials()),
        ("table", table::trials()),
    ]);
    image::remove_base();
    code
}

/// The programs in the package `holo`.
const PLUGINS: [&str; 10] = [
    "holo-archives",
    "holo-exec",
    "holo-files",
    "holo-packages",
    "holo-probe",
    "holo-run-scripts",
    "holo-scaffold",
    "holo-services",
    "holo-ssh-keys",
    "holo-users-groups",
];

/// The root of the repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The formats of packages: `packaging/package` calls them by these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Deb,
    Rpm,
    Arch,
}

impl Format {
    fn target(self) -> &'static str {
        match self {
            Format::Deb => "deb",
            Format::Rpm => "rpm",
            Format::Arch => "arch",
        }
    }

    /// Returns the name of the format for `holo-build`.
    fn name(self) -> &'static str {
        match self {
            Format::Deb => "debian",
            Format::Rpm => "rpm",
            Format::Arch => "pacman",
        }
    }

    /// Returns the program that installs packages.
    fn manager(self) -> &'static str {
        match self {
            Format::Deb => "dpkg",
            Format::Rpm => "rpm",
            Format::Arch => "pacman",
        }
    }

    /// Returns the shell pattern of a package's file.
    fn file(self, package: &str) -> String {
        match self {
            Format::Deb => format!("{package}_[0-9]*.deb"),
            Format::Rpm => format!("{package}-[0-9]*.rpm"),
            Format::Arch => format!("{package}-[0-9]*.pkg.tar.xz"),
        }
    }

    fn install(self) -> &'static str {
        match self {
            Format::Deb => "dpkg --install",
            Format::Rpm => "rpm -U",
            Format::Arch => "pacman -U --noconfirm",
        }
    }

    fn remove(self) -> &'static str {
        match self {
            Format::Deb => "dpkg --remove",
            Format::Rpm => "rpm -e",
            Format::Arch => "pacman -R --noconfirm",
        }
    }

    fn purge(self) -> &'static str {
        match self {
            Format::Deb => "dpkg --purge",
            Format::Rpm => "rpm -e",
            Format::Arch => "pacman -Rn --noconfirm",
        }
    }
}

/// Writes scripts that take the places of the programs in packages.
fn programs(directory: &Path) {
    let script = |name: &str, text: String| {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    fs::create_dir_all(directory).unwrap();
    for name in ["holo-agent", "holo-build", "holo-fleet"] {
        let program = binaries::built(name);
        script(name, format!("#!/bin/sh\nexec '{}' \"$@\"\n", program.display()));
    }
    let build = binaries::built("holo").parent().unwrap().display().to_string();
    let bridges = ["holo-ansible", "holo-promises", "holo-ral"];
    PLUGINS.iter().chain(&bridges).for_each(|plugin| drop(binaries::built(plugin)));
    // They are called through links with the names of the plugins.
    let by_name = format!("exec '{build}'/\"${{0##*/}}\" \"$@\"\n");
    script("holo-bundle", format!("#!/bin/sh\n{by_name}"));
    script("holo-bridges", format!("#!/bin/sh\n{by_name}"));
    script("holo-secret", "#!/bin/sh\n".to_owned());
}

/// Builds the packages in a format, and returns the directory with them.
#[track_caller]
fn packages(scratch: &ScratchRoot, format: Format) -> PathBuf {
    let (build, out) = (scratch.path().join("build"), scratch.path().join(format.target()));
    programs(&build);
    let script = format!(
        "BUILD='{}' SOURCE_DATE_EPOCH=1764000000 '{}/packaging/package' {} '{}'",
        build.display(),
        repository().display(),
        format.target(),
        out.display()
    );
    let run = scratch.run("bash", &["-c", &script]);
    assert!(run.success(), "{run}");
    out
}

/// Makes the package managers of another distribution usable.
fn set_up(system: &Overlay) {
    system.write("/etc/pacman.conf", "[options]\nArchitecture = auto\nSigLevel = Never\n");
    system.must("mkdir -p /var/lib/pacman/local");
}
