//! The metrics of a controller.

use crate::controller::Controller;
use crate::rollout::{Standing, State};
use jiff::Timestamp;
use prometheus::core::Collector;
use prometheus::{Gauge, GaugeVec, IntGauge, IntGaugeVec, Opts, Registry};
use std::collections::BTreeMap;

/// The metrics.
pub(crate) struct Metrics {
    registry: Registry,
    hosts: IntGaugeVec,
    state: IntGaugeVec,
    wave: IntGaugeVec,
    waves: IntGaugeVec,
    last_report: GaugeVec,
    lease: IntGauge,
    last_contact: Gauge,
}

impl Metrics {
    /// Creates the metrics.
    ///
    /// # Errors
    /// If two metrics have the same name, or a name is invalid.
    pub(crate) fn new() -> prometheus::Result<Metrics> {
        let of_channel = ["channel"];
        let metrics = Metrics {
            registry: Registry::new(),
            hosts: IntGaugeVec::new(
                Opts::new("holo_fleet_hosts", "Hosts of a channel, by what they are to its rollout."),
                &["channel", "state"],
            )?,
            state: IntGaugeVec::new(
                Opts::new("holo_fleet_rollout_state", "1 for the state of the last rollout of a channel."),
                &["channel", "state"],
            )?,
            wave: IntGaugeVec::new(
                Opts::new("holo_fleet_rollout_wave", "The current wave of the last rollout of a channel, from 1."),
                &of_channel,
            )?,
            waves: IntGaugeVec::new(
                Opts::new("holo_fleet_rollout_waves", "The number of waves of the last rollout of a channel."),
                &of_channel,
            )?,
            last_report: GaugeVec::new(
                Opts::new(
                    "holo_fleet_last_report_timestamp_seconds",
                    "The time of the last report of a host of a channel.",
                ),
                &of_channel,
            )?,
            lease: IntGauge::new("holo_fleet_controller_lease", "1 if this controller decides on rollouts.")?,
            last_contact: Gauge::new(
                "holo_fleet_controller_last_contact_timestamp_seconds",
                "The time at which the controller has heard from the server.",
            )?,
        };
        let all: [Box<dyn Collector>; 7] = [
            Box::new(metrics.hosts.clone()),
            Box::new(metrics.state.clone()),
            Box::new(metrics.wave.clone()),
            Box::new(metrics.waves.clone()),
            Box::new(metrics.last_report.clone()),
            Box::new(metrics.lease.clone()),
            Box::new(metrics.last_contact.clone()),
        ];
        all.into_iter().try_for_each(|collector| metrics.registry.register(collector))?;
        Ok(metrics)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Sets the metrics to what a controller knows.
    pub(crate) fn set(&self, controller: &Controller) {
        let view = controller.view();
        self.lease.set(i64::from(controller.has_lease()));
        self.last_contact.set(seconds(view.last_contact()));
        [&self.hosts, &self.state, &self.wave, &self.waves].iter().for_each(|gauge| gauge.reset());
        self.last_report.reset();
        let now = view.now();
        for channel in view.channels() {
            let name = channel.record.channel.as_str();
            let mut counts: BTreeMap<Standing, i64> = Standing::ALL.map(|standing| (standing, 0)).into();
            let mut last: Option<Timestamp> = None;
            for (member, standing) in channel.standings(view.hosts(), now) {
                *counts.entry(standing).or_default() += 1;
                last = last.max(Some(member.seen));
            }
            for (standing, count) in counts {
                self.hosts.with_label_values(&[name, standing.name()]).set(count);
            }
            for state in State::ALL {
                let is_current = channel.state() == state;
                self.state.with_label_values(&[name, state.name()]).set(i64::from(is_current));
            }
            self.wave.with_label_values(&[name]).set(channel.wave() as i64);
            self.waves.with_label_values(&[name]).set(channel.record.rollout.waves.len() as i64);
            if let Some(last) = last {
                self.last_report.with_label_values(&[name]).set(seconds(last));
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time of these centuries has digits to spare")]
fn seconds(time: Timestamp) -> f64 {
    time.as_second() as f64
}
