//! The metrics.

use crate::event::{RunEvent, RunResult};
use holo_events::{HealthState, Outcome};
use prometheus::{
    Gauge, GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    register_gauge_vec_with_registry, register_gauge_with_registry, register_histogram_vec_with_registry,
    register_int_counter_vec_with_registry, register_int_counter_with_registry, register_int_gauge_vec_with_registry,
    register_int_gauge_with_registry,
};
use std::collections::{BTreeMap, BTreeSet};

/// The upper bounds of the duration buckets in seconds.
const DURATIONS: [f64; 10] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1200.0, 3600.0];
const VERBS: [&str; 2] = ["apply", "check"];

/// The metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    runs: IntCounterVec,
    durations: HistogramVec,
    entities: IntGaugeVec,
    failed: IntGaugeVec,
    health: IntGaugeVec,
    refreshes_due: IntGauge,
    generation: IntGauge,
    drifts: IntCounter,
    repairs: IntCounter,
    last_good: Gauge,
    last_run: GaugeVec,
    watching: IntGaugeVec,
    watch_up: IntGauge,
    paused: IntGauge,
}

/// The number of entities by plugin and outcome.
pub type Outcomes = BTreeMap<(String, &'static str), i64>;

impl Metrics {
    /// Creates the metrics with zero values.
    ///
    /// # Errors
    /// If two metrics have the same name, or a name is invalid.
    pub fn new() -> prometheus::Result<Metrics> {
        let registry = Registry::new();
        let all = &registry;
        let gauge = |name: &str, help: &str| register_int_gauge_with_registry!(name, help, all);
        let gauges = |name: &str, help: &str, label| register_int_gauge_vec_with_registry!(name, help, &[label], all);
        let counter = |name: &str, help: &str| register_int_counter_with_registry!(name, help, all);
        gauges("holo_agent_info", "The version of holo-agent.", "version")?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        let metrics = Metrics {
            runs: register_int_counter_vec_with_registry!(
                "holo_runs_total",
                "Whole runs by result.",
                &["verb", "result"],
                all
            )?,
            durations: register_histogram_vec_with_registry!(
                "holo_run_duration_seconds",
                "The time that whole runs took.",
                &["verb"],
                DURATIONS.into(),
                all
            )?,
            entities: register_int_gauge_vec_with_registry!(
                "holo_entities",
                "Entities of the last whole run by plugin and result.",
                &["plugin", "result"],
                all
            )?,
            failed: gauges("holo_entity_failed", "1 for each entity that has failed and is not well again.", "entity")?,
            health: gauges(
                "holo_entity_health",
                "The health of an entity: 0 ok, 1 warning, 2 critical, 3 unknown.",
                "entity",
            )?,
            refreshes_due: gauge(
                "holo_refreshes_due",
                "Entities that are to be refreshed, as of the end of the last run.",
            )?,
            generation: gauge("holo_generation", "The generation of the inputs of the last run, 0 if none are kept.")?,
            drifts: counter("holo_drift_events_total", "Entities that were found to have drifted.")?,
            repairs: counter("holo_repairs_total", "Entities that were brought back by a watch.")?,
            last_good: register_gauge_with_registry!(
                "holo_last_good_run_timestamp_seconds",
                "The time at which the last whole run ended in which nothing failed or was refused.",
                all
            )?,
            last_run: register_gauge_vec_with_registry!(
                "holo_last_run_timestamp_seconds",
                "The time at which the last whole run ended.",
                &["verb"],
                all
            )?,
            watch_up: gauge("holo_watch_up", "1 if holo watch has checked all entities, and waits for events.")?,
            watching: gauges("holo_watching", "1 if holo watch runs, by what is done about drift.", "mode")?,
            paused: gauge("holo_agent_paused", "1 if the agent makes no changes, on request.")?,
            registry,
        };
        // Counters without events are zero rather than missing.
        for verb in VERBS {
            RunResult::ALL.iter().for_each(|result| metrics.runs.with_label_values(&[verb, result.name()]).reset());
        }
        metrics.set_watching(None);
        Ok(metrics)
    }

    /// Counts a complete run.
    pub(crate) fn ran(&self, run: &RunEvent, ended: jiff::Timestamp) {
        self.runs.with_label_values(&[run.verb.as_str(), run.result.name()]).inc();
        self.durations.with_label_values(&[&run.verb]).observe(run.duration);
        self.last_run.with_label_values(&[&run.verb]).set(holo_metrics::seconds(ended));
    }

    /// Sets the time of the last successful run.
    pub(crate) fn set_last_good(&self, ended: jiff::Timestamp) {
        self.last_good.set(holo_metrics::seconds(ended));
    }

    /// Sets the number of entities of a complete run by result.
    pub(crate) fn set_entities(&self, outcomes: &Outcomes) {
        self.entities.reset();
        for ((plugin, result), number) in outcomes {
            self.entities.with_label_values(&[plugin.as_str(), result]).set(*number);
        }
    }

    /// Sets the failed entities.
    pub(crate) fn set_failed<'a>(&self, entities: impl Iterator<Item = &'a String>) {
        let entities: BTreeSet<&String> = entities.collect();
        self.failed.reset();
        entities.iter().for_each(|entity| self.failed.with_label_values(&[entity]).set(1));
    }

    /// Sets the health of entities.
    pub(crate) fn set_health<'a>(&self, health: impl Iterator<Item = (&'a String, HealthState)>) {
        self.health.reset();
        for (entity, state) in health {
            self.health.with_label_values(&[entity]).set(state_number(state));
        }
    }

    /// Sets the values of a run that do not concern single entities.
    pub(crate) fn set_standing(&self, run: &RunEvent) {
        self.refreshes_due.set(i64::try_from(run.refreshes_due).unwrap_or(i64::MAX));
        self.generation.set(i64::from(run.generation.unwrap_or_default()));
    }

    pub(crate) fn drifted(&self) {
        self.drifts.inc();
    }

    pub(crate) fn repaired(&self) {
        self.repairs.inc();
    }

    /// Sets whether a watch runs, and whether it repairs drift.
    pub(crate) fn set_watching(&self, applies: Option<bool>) {
        for (mode, applied) in [("apply", true), ("report", false)] {
            self.watching.with_label_values(&[mode]).set(i64::from(applies == Some(applied)));
        }
    }

    /// Sets whether a watch notices drift.
    pub(crate) fn set_watch_up(&self, is_up: bool) {
        self.watch_up.set(i64::from(is_up));
    }

    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.paused.set(i64::from(is_paused));
    }

    /// Returns the metrics as text.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        holo_metrics::text(&self.registry)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }
}

/// Returns the name of a result, as in the lines of holo.
pub(crate) fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unchanged => "unchanged",
        Outcome::Changed => "changed",
        Outcome::Pending => "pending",
        Outcome::Refused => "refused",
        Outcome::Skipped => "skipped",
        Outcome::Failed => "failed",
    }
}

/// Returns the word for a state.
pub(crate) fn state_name(state: HealthState) -> &'static str {
    match state {
        HealthState::Ok => "ok",
        HealthState::Warning => "warning",
        HealthState::Critical => "critical",
        HealthState::Unknown => "unknown",
    }
}

/// Returns the number of a state, which is Nagios's exit status.
fn state_number(state: HealthState) -> i64 {
    match state {
        HealthState::Ok => 0,
        HealthState::Warning => 1,
        HealthState::Critical => 2,
        HealthState::Unknown => 3,
    }
}
