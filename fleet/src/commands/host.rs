//! `holo-fleet host`: what a host does for itself.

use super::{Outcome, print, print_json};
use crate::bundle::{self, Bundle, Installed, Record};
use crate::config::Root;
use crate::host;
use crate::session::runtime;
use crate::signing::Signers;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// The commands for a host. They need no server.
#[derive(Debug, Subcommand)]
pub(crate) enum HostVerb {
    /// Show the bundle that is installed, and the previous one
    Show(Show),
    /// Install a bundle from a file
    Install(Install),
    /// Install the previous bundle again
    Rollback,
    /// Follow the channel of this host; holo-agent runs this
    Run,
}

/// Options of `host show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
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

pub(crate) fn run(verb: &HostVerb, root: &Root) -> Outcome {
    match verb {
        HostVerb::Show(Show { json }) => show(&Record::read(root)?, *json),
        HostVerb::Install(Install { file, allow_unsigned }) => {
            let bundle = Bundle::open(file, &Signers::new(root.allowed_signers()), *allow_unsigned)?;
            show(&bundle::install(&bundle, root)?, false)
        }
        HostVerb::Run => {
            runtime()?.block_on(host::run(root))?;
            Ok(ExitCode::SUCCESS)
        }
        HostVerb::Rollback => {
            // An interrupted installation is what is rolled back then.
            bundle::resume(root)?;
            show(&bundle::rollback(root)?, false)
        }
    }
}

/// The output of `host show --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Shown<'a> {
    installed: Option<&'a Installed>,
    previous: Option<&'a Installed>,
}

fn show(record: &Record, json: bool) -> Outcome {
    let (installed, previous) = (record.installed.as_ref(), record.previous.as_ref());
    if json {
        return print_json(&Shown { installed, previous });
    }
    let line = |bundle: Option<&Installed>| {
        let Some(Installed { name, version, digest, signed_by }) = bundle else { return "none".to_owned() };
        let signer = signed_by.as_deref().map_or("not signed".to_owned(), |signer| format!("signed by {signer}"));
        format!("{name} {version}, {signer}, sha256:{digest}")
    };
    let mut text = format!("installed: {}\nprevious:  {}", line(installed), line(previous));
    if record.incoming.is_some() {
        text += &format!("\nunfinished: {}", line(record.incoming.as_ref()));
    }
    print(&text)
}
