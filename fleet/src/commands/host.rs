//! `holo-fleet host`: what a host does for itself.

use super::Outcome;
use crate::bundle::{self, Bundle, Installed, Record};
use crate::config::Root;
use crate::host;
use crate::session::{Output, runtime};
use crate::signing::Signers;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// The commands for a host. They need no server.
#[derive(Debug, Subcommand)]
pub(crate) enum HostVerb {
    /// Show the bundle that is installed, and the previous one
    Show,
    /// Install a bundle from a file
    Install(Install),
    /// Install the previous bundle again
    Rollback,
    /// Follow the channel of this host; holo-agent runs this
    Run,
}

/// Options of `host install`.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The bundle; its signature is FILE.sig
    file: PathBuf,
    /// Install it even if it is not signed
    #[arg(long)]
    allow_unsigned: bool,
}

pub(crate) fn run(verb: &HostVerb, output: Output, root: &Root) -> Outcome {
    match verb {
        HostVerb::Show => show(&Record::read(root)?, output),
        HostVerb::Install(Install { file, allow_unsigned }) => {
            let bundle = Bundle::open(file, &Signers::new(root.allowed_signers()), *allow_unsigned)?;
            show(&bundle::install(&bundle, root)?, output)
        }
        HostVerb::Run => {
            runtime()?.block_on(host::run(root))?;
            Ok(ExitCode::SUCCESS)
        }
        HostVerb::Rollback => {
            // An interrupted installation is what is rolled back then.
            bundle::resume(root)?;
            show(&bundle::rollback(root)?, output)
        }
    }
}

/// The line of `holo-fleet host --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Shown<'a> {
    installed: Option<&'a Installed>,
    previous: Option<&'a Installed>,
}

fn show(record: &Record, output: Output) -> Outcome {
    let (installed, previous) = (record.installed.as_ref(), record.previous.as_ref());
    let line = |bundle: Option<&Installed>| {
        let Some(Installed { name, version, digest, signed_by }) = bundle else { return "none".to_owned() };
        let signer = signed_by.as_deref().map_or("not signed".to_owned(), |signer| format!("signed by {signer}"));
        format!("{name} {version}, {signer}, sha256:{digest}")
    };
    let mut text = format!("installed: {}\nprevious:  {}", line(installed), line(previous));
    if record.incoming.is_some() {
        text += &format!("\nunfinished: {}", line(record.incoming.as_ref()));
    }
    output.show(&Shown { installed, previous }, text)?;
    Ok(ExitCode::SUCCESS)
}
