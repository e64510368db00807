//! The command line, the commands, and the notification of clock changes.

use crate::agenda::Rhythm;
use crate::child::{Holo, Launcher};
use crate::config::{ConfigFile, ConfigSource, Paths};
use crate::control::{self, ControlError, Socket};
use crate::daemon::{Daemon, Input, Parts, SystemClock, in_words};
use crate::metrics::Metrics;
use crate::request::{Answer, Request};
use crate::service::{Level, say};
use crate::spool::Spool;
use clap::{Args, Parser, Subcommand};
use holo_definitions::readers;
use holo_process::{Stream, become_program, beside, streams};
use rustix::io::{Errno, retry_on_intr};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use serde::Serialize;
use serde::de::{IntoDeserializer, value};
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs, thread};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// The maximum size of the event file in bytes.
const SPOOL_LIMIT: u64 = 4 << 20;
/// The capacity of the input queue.
const INPUTS: usize = 16;
/// The program for bundles.
const FLEET: &str = "holo-fleet";

type Outcome = Result<ExitCode, Box<dyn Error>>;

pub(crate) fn run(cli: &Cli) -> ExitCode {
    let paths = Paths::from_environment();
    let done = match &cli.verb {
        Verb::Run(arguments) => run_agent(&paths, arguments.once),
        Verb::Status(arguments) => status(&paths, arguments.json),
        Verb::Events(arguments) => events(&paths, arguments),
        Verb::RunNow(arguments) => run_now(&paths, arguments.wait),
        Verb::Pause(arguments) => pause(&paths, arguments),
        Verb::Resume => {
            control::ask(&paths, &Request::Resume { by: user() }).map(|_| ExitCode::SUCCESS).map_err(Into::into)
        }
        Verb::CheckConfig(arguments) => check_config(&paths, arguments),
        Verb::Bundle(BundleVerb::Show { json: false }) => ask_fleet(&["show"]),
        Verb::Bundle(BundleVerb::Show { json: true }) => ask_fleet(&["show", "--json"]),
        Verb::Bundle(BundleVerb::Rollback) => ask_fleet(&["rollback"]),
    };
    done.unwrap_or_else(|error| {
        say(Level::Error, format_args!("holo-agent: {error}"));
        ExitCode::FAILURE
    })
}

fn run_agent(paths: &Paths, once: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (sender, mut inputs) = mpsc::channel(INPUTS);
        listen_to_signals(&sender)?;
        listen(sender.clone())?;
        let machine_id = fs::read_to_string(paths.machine_id()).unwrap_or_default();
        let mut daemon = Daemon::new(Parts {
            source: Box::new(ConfigFile::of_system(paths)),
            launcher: Box::new(Holo::default()) as Box<dyn Launcher>,
            sink: Box::new(Spool::open(paths.spool(), SPOOL_LIMIT).with_refuge(paths.refuge())),
            clock: Box::new(SystemClock),
            rhythm: Rhythm::new(&machine_id),
            last: paths.last(),
            metrics: Metrics::new()?,
        })?;
        let _socket = Socket::open(paths, sender)?;
        if once {
            let is_well = daemon.go_once(&mut inputs).await;
            return Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        daemon.go(&mut inputs).await;
        Ok(ExitCode::SUCCESS)
    })
}

fn listen_to_signals(inputs: &mpsc::Sender<Input>) -> io::Result<()> {
    let signals = [
        (SignalKind::hangup(), (|| Input::Reload) as fn() -> Input),
        (SignalKind::terminate(), || Input::End),
        (SignalKind::interrupt(), || Input::End),
    ];
    for (kind, input) in signals {
        let (mut signals, inputs) = (signal(kind)?, inputs.clone());
        tokio::spawn(async move { while signals.recv().await.is_some() && inputs.send(input()).await.is_ok() {} });
    }
    Ok(())
}

fn status(paths: &Paths, json: bool) -> Outcome {
    let Answer::Status(status) = control::ask(paths, &Request::Status)? else { return Err(ControlError::Ended.into()) };
    if json { print_json(&status) } else { print(status) }?;
    Ok(ExitCode::SUCCESS)
}

fn run_now(paths: &Paths, wait: bool) -> Outcome {
    let Answer::Run(run) = control::ask(paths, &Request::RunNow { wait })? else { return Ok(ExitCode::SUCCESS) };
    print(format_args!("{}\n", in_words(&run)))?;
    Ok(if run.result.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn pause(paths: &Paths, Pause { period, reason }: &Pause) -> Outcome {
    let request = Request::Pause { seconds: period.map(|period| period.as_secs()), reason: reason.clone(), by: user() };
    control::ask(paths, &request)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of the user, who may have become root with `sudo`.
fn user() -> String {
    let named = |variable| env::var(variable).ok().filter(|name| !name.is_empty() && !name.contains(char::is_control));
    ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(named).unwrap_or_else(|| "root".to_owned())
}

/// Parses the length of a pause.
fn period(text: &str) -> Result<Duration, value::Error> {
    readers::interval(text.into_deserializer()).map(Option::unwrap_or_default)
}

/// Parses a reason, which is shown on a line.
fn reason(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Err("is empty; say why, for those who find the agent paused"),
        text if text.contains(char::is_control) => Err("must be a single line"),
        text => Ok(text.to_owned()),
    }
}

fn events(paths: &Paths, arguments: &Events) -> Outcome {
    let path = paths.spool();
    let events = Spool::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    for event in events {
        if arguments.json { print_json(&event) } else { print(format_args!("{event}\n")) }?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check_config(paths: &Paths, arguments: &CheckConfig) -> Outcome {
    let file = arguments.file.as_ref().map_or_else(|| ConfigFile::of_system(paths), ConfigFile::new);
    if arguments.file.is_some() && !file.path().exists() {
        return Err(format!("{}: no such file", file.path().display()).into());
    }
    file.load()?;
    Ok(ExitCode::SUCCESS)
}

/// Becomes the program that knows the bundles of this host, beside this one or in `PATH`.
fn ask_fleet(command: &[&str]) -> Outcome {
    let error = become_program(beside(FLEET), &[&["host"], command].concat());
    if error.kind() == io::ErrorKind::NotFound {
        return Err(format!("{FLEET} is not installed; install it to use bundles").into());
    }
    Err(format!("{FLEET}: {error}").into())
}

/// Prints a text. A closed pipe is not an error.
fn print(text: impl Display) -> io::Result<()> {
    match streams::write(Stream::Stdout, text.to_string().as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

fn print_json(value: &impl Serialize) -> io::Result<()> {
    print(format_args!("{}\n", serde_json::to_string(value)?))
}

/// A time that is never reached, in seconds.
const NEVER: i64 = 1 << 40;
/// The stack size of the waiting thread.
const STACK: usize = 64 << 10;

/// Reports whenever the clock is set, without polling.
pub(crate) fn listen(inputs: mpsc::Sender<Input>) -> io::Result<()> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
    arm(&timer)?;
    let wait = move || {
        // This error means that the clock was set; rearm before reporting it, so that later changes are not missed.
        while retry_on_intr(|| rustix::io::read(&timer, &mut [0; 8])) == Err(Errno::CANCELED) && arm(&timer).is_ok() {
            if inputs.blocking_send(Input::ClockSet).is_err() {
                return;
            }
        }
    };
    // In a separate thread, as the runtime does not support such a descriptor.
    thread::Builder::new().name("clock".to_owned()).stack_size(STACK).spawn(wait)?;
    Ok(())
}

fn arm(timer: &OwnedFd) -> Result<(), Errno> {
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    let (never, once) = (Timespec { tv_sec: NEVER, tv_nsec: 0 }, Timespec { tv_sec: 0, tv_nsec: 0 });
    timerfd_settime(timer, flags, &Itimerspec { it_interval: once, it_value: never }).map(drop)
}

/// Keeps this machine in its desired state
#[derive(Debug, Parser)]
#[command(name = "holo-agent", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run in the foreground and start holo as configured
    Run(Run),
    /// Show the status of the agent and the machine
    Status(Status),
    /// Show recorded events
    Events(Events),
    /// Begin a complete run immediately
    RunNow(RunNow),
    /// Make no changes for now
    Pause(Pause),
    /// End a pause
    Resume,
    /// Check the configuration for errors
    CheckConfig(CheckConfig),
    /// Show the bundle of this host, or go back to the previous one
    #[command(subcommand)]
    Bundle(BundleVerb),
}

/// `holo-agent bundle`
#[derive(Debug, Subcommand)]
pub(crate) enum BundleVerb {
    /// Show the bundle that is installed, and the previous one
    Show {
        /// Print a JSON value
        #[arg(long)]
        json: bool,
    },
    /// Install the previous bundle again
    Rollback,
}

/// `holo-agent run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Exit after one complete run and one round of health checks
    #[arg(long)]
    pub(crate) once: bool,
}

/// `holo-agent status`
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print a JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

/// `holo-agent events`
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Print JSON Lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// `holo-agent run-now`
#[derive(Debug, Args)]
pub(crate) struct RunNow {
    /// Wait for the run, and show its result
    #[arg(long)]
    pub(crate) wait: bool,
}

/// `holo-agent pause`
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// Resume after this time, such as 2h [default: only on request]
    #[arg(long = "for", value_name = "DURATION", value_parser = period)]
    pub(crate) period: Option<Duration>,
    /// The reason, which is shown to others
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub(crate) reason: String,
}

/// `holo-agent check-config`
#[derive(Debug, Args)]
pub(crate) struct CheckConfig {
    /// The configuration file [default: /etc/holo/agent.toml]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}
