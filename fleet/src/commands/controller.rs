//! `holo-fleet controller`: advances rollouts as a service.

use super::rollout::Done;
use crate::controller::{Change, Controller, LOOK};
use crate::error::FleetError;
use crate::metrics::Metrics;
use crate::names::NameError;
use crate::registry::Sweep;
use crate::rollout::State;
use crate::session::{Output, Session};
use clap::Args;
use holo_metrics::Endpoint;
use holo_process::{Program, streams};
use jiff::Timestamp;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// `holo-fleet controller`
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A shell command to run when a rollout halts or is rolled back, with the details in HOLO_FLEET_* variables
    #[arg(long, value_name = "COMMAND")]
    on_halt: Option<String>,
    /// Serve metrics for Prometheus at this address, with the path /metrics
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    metrics: Option<SocketAddr>,
}

fn address(text: &str) -> Result<SocketAddr, NameError> {
    text.parse().map_err(|_| NameError::new(text, "an address and a port, such as 127.0.0.1:9190 or [::1]:9190"))
}

/// The time limit for the command.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn run(arguments: &Arguments, session: &Session) -> Result<ExitCode, FleetError> {
    let signals = |kind| signal(kind).map_err(|error| FleetError(error.to_string()));
    let (mut terminate, mut interrupt) = (signals(SignalKind::terminate())?, signals(SignalKind::interrupt())?);
    let metrics = Metrics::new().map_err(|error| FleetError::about("metrics", error))?;
    let _endpoint = match arguments.metrics {
        Some(address) => {
            let endpoint = Endpoint::open(address, metrics.registry());
            Some(endpoint.map_err(|error| FleetError(format!("no metrics at {address}: {error}")))?)
        }
        None => None,
    };
    let mut controller = Controller::new(session.store.clone(), arguments.metrics.is_some());
    let (mut trouble, mut sweep) = (None, Sweep::default());
    loop {
        let worked = controller.step(None).await;
        let swept = sweep.step(&session.store).await;
        match swept.and(worked) {
            Ok(changes) => {
                trouble = None;
                for change in changes {
                    announce(&change, controller.view().now(), session.output)?;
                    halted(arguments, &change);
                }
            }
            // The server comes back.
            Err(error) => {
                let error = error.to_string();
                if trouble.as_ref() != Some(&error) {
                    streams::complain(format_args!("holo-fleet: {error}"));
                }
                trouble = Some(error);
            }
        }
        metrics.set(&controller);
        tokio::select! {
            () = controller.wait(LOOK) => {}
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    let _ = tokio::time::timeout(Duration::from_secs(5), controller.release()).await;
    Ok(ExitCode::SUCCESS)
}

fn announce(Change { channel, progress }: &Change, now: Timestamp, output: Output) -> Result<(), FleetError> {
    let record = &channel.record;
    if channel.progress.as_ref().is_some_and(|before| (before.state, before.wave) == (progress.state, progress.wave)) {
        return Ok(());
    }
    let message = progress.message.as_ref().map(|message| format!(" ({message})")).unwrap_or_default();
    let (name, wave, waves) = (&record.channel, progress.wave.saturating_add(1), record.rollout.waves.len());
    let text = format!("channel {name}: {} {}, wave {wave} of {waves}{message}", record.bundle, progress.state.name());
    output.show(&Done::new(now, record, progress.clone(), false), text)
}

fn halted(arguments: &Arguments, Change { channel, progress }: &Change) {
    let Some(command) = &arguments.on_halt else { return };
    if !matches!(progress.state, State::Halted | State::RolledBack) {
        return;
    }
    let record = &channel.record;
    let mut program = Program::new("/bin/sh");
    program.arg("-c").arg(command).timeout(COMMAND_LIMIT);
    program.env("HOLO_FLEET_CHANNEL", record.channel.as_str()).env("HOLO_FLEET_ROLLOUT", &record.rollout.id);
    program.env("HOLO_FLEET_BUNDLE", record.bundle.to_string()).env("HOLO_FLEET_STATE", progress.state.name());
    program.env("HOLO_FLEET_MESSAGE", progress.message.clone().unwrap_or_default());
    let failure = match program.output() {
        Ok(output) => output.ended.failure(),
        Err(error) => Some(error.to_string()),
    };
    failure.iter().for_each(|failure| streams::complain(format_args!("holo-fleet: --on-halt: {failure}")));
}
