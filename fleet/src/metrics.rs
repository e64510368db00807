//! The metrics of a controller.

use crate::controller::Controller;
use crate::rollout::{Standing, State};
use jiff::Timestamp;
use prometheus::{
    Gauge, GaugeVec, IntGauge, IntGaugeVec, Registry, register_gauge_vec_with_registry, register_gauge_with_registry,
    register_int_gauge_vec_with_registry, register_int_gauge_with_registry,
};
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
        let registry = Registry::new();
        let all = &registry;
        let gauges =
            |name: &str, help: &str, labels: &[&str]| register_int_gauge_vec_with_registry!(name, help, labels, all);
        Ok(Metrics {
            hosts: gauges(
                "holo_fleet_hosts",
                "Hosts of a channel, by what they are to its rollout.",
                &["channel", "state"],
            )?,
            state: gauges(
                "holo_fleet_rollout_state",
                "1 for the state of the last rollout of a channel.",
                &["channel", "state"],
            )?,
            wave: gauges(
                "holo_fleet_rollout_wave",
                "The current wave of the last rollout of a channel, from 1.",
                &["channel"],
            )?,
            waves: gauges(
                "holo_fleet_rollout_waves",
                "The number of waves of the last rollout of a channel.",
                &["channel"],
            )?,
            last_report: register_gauge_vec_with_registry!(
                "holo_fleet_last_report_timestamp_seconds",
                "The time of the last report of a host of a channel.",
                &["channel"],
                all
            )?,
            lease: register_int_gauge_with_registry!(
                "holo_fleet_controller_lease",
                "1 if this controller decides on rollouts.",
                all
            )?,
            last_contact: register_gauge_with_registry!(
                "holo_fleet_controller_last_contact_timestamp_seconds",
                "The time at which the controller has heard from the server.",
                all
            )?,
            registry,
        })
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Sets the metrics to what a controller knows.
    pub(crate) fn set(&self, controller: &Controller) {
        let view = controller.view();
        self.lease.set(i64::from(controller.has_lease()));
        self.last_contact.set(holo_metrics::seconds(view.last_contact()));
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
                self.last_report.with_label_values(&[name]).set(holo_metrics::seconds(last));
            }
        }
    }
}
