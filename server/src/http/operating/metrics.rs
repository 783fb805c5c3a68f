//! Counts, in the text form of OpenMetrics. No label holds an org, an account or a def: their names tell of the
//! application's users, and their number has no bound.

use std::time::Duration;

use escale::codec::OpResult;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::figures::{Figures, seconds};
use crate::spans::kind_letter;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Route {
    route: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct End {
    end: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Use {
    purpose: &'static str,
}

/// The counts of an instance since its start.
pub(in crate::http) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<Route, Histogram, fn() -> Histogram>,
    operations: Family<End, Counter>,
    /// Sockets that are open and admitted.
    pub sockets: Gauge,
    /// Hints that were sent, one for each def and socket.
    pub hints: Counter,
    /// Pushes that were given to sockets (R41).
    pub pushes: Counter,
    /// Hints and confirmations that wait for their turn (R42).
    pub waiting: Gauge,
    /// Commits of this instance.
    pub commits: Counter,
    /// Looks at the feed that failed.
    pub feed_failures: Counter,
    /// Looks at the feed that found rows missing: every socket was hinted about everything.
    pub feed_resets: Counter,
    /// Connections to the database in use.
    connections: Family<Use, Gauge>,
    /// Checks of the database that failed.
    pub database_failures: Counter,
    /// Tombstones, departures, ended items and files that the purge removed.
    pub purged: Counter,
}

impl Metrics {
    /// With those of the engine.
    pub fn new(figures: &Figures) -> Self {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("escale"),
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds as fn() -> Histogram),
            operations: Family::default(),
            sockets: Gauge::default(),
            hints: Counter::default(),
            pushes: Counter::default(),
            waiting: Gauge::default(),
            commits: Counter::default(),
            feed_failures: Counter::default(),
            feed_resets: Counter::default(),
            connections: Family::default(),
            database_failures: Counter::default(),
            purged: Counter::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("requests", "Requests, by route and status", metrics.requests.clone());
        registry.register(
            "request_seconds",
            "Seconds until the answer begins, by route",
            metrics.seconds.clone(),
        );
        registry.register(
            "operations",
            "Operations, by their end: ok, or the kind of fault",
            metrics.operations.clone(),
        );
        registry.register("sockets", "Open sockets", metrics.sockets.clone());
        registry.register("hints", "Hints sent, one for each def and socket", metrics.hints.clone());
        registry.register("pushes", "Pushes, one for each def and socket", metrics.pushes.clone());
        registry.register(
            "hints_waiting",
            "Hints and confirmations that wait for their turn",
            metrics.waiting.clone(),
        );
        registry.register("commits", "Commits of this instance", metrics.commits.clone());
        registry.register("feed_failures", "Looks at the feed that failed", metrics.feed_failures.clone());
        registry.register(
            "feed_resets",
            "Times that everything was hinted to everybody",
            metrics.feed_resets.clone(),
        );
        registry.register(
            "connections",
            "Connections to the database in use, by purpose",
            metrics.connections.clone(),
        );
        let Figures { wait_seconds, write_seconds, commit_seconds, renewals, database_clock_ms } = figures;
        let wait = "Seconds until a write has its turn in its org";
        registry.register("wait_seconds", wait, wait_seconds.clone());
        registry.register("write_seconds", "Seconds from that turn to the commit", write_seconds.clone());
        registry.register("commit_seconds", "Seconds of commits", commit_seconds.clone());
        registry.register("renewals", "Times that all epochs were renewed", renewals.clone());
        let ahead = "Milliseconds by which the database's clock is ahead";
        registry.register("database_clock_ms", ahead, database_clock_ms.clone());
        registry.register(
            "database_failures",
            "Checks of the database that failed",
            metrics.database_failures.clone(),
        );
        registry.register(
            "purged",
            "Tombstones, departures, ended items and files removed",
            metrics.purged.clone(),
        );
        metrics
    }

    /// So many connections to the database are in use.
    pub fn connected(&self, connections: Vec<(&'static str, usize)>) {
        for (purpose, count) in connections {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.connections.get_or_create(&Use { purpose }).set(count);
        }
    }

    /// A request was answered.
    pub fn answered(&self, route: &'static str, status: u16, after: Duration) {
        self.requests.get_or_create(&Answered { route, status }).inc();
        self.seconds.get_or_create(&Route { route }).observe(after.as_secs_f64());
    }

    /// Operations of a request have ended.
    pub fn ended(&self, results: &[OpResult]) {
        for result in results {
            let end = match &result.fault {
                None => "ok",
                Some(fault) => kind_letter(fault.kind),
            };
            self.operations.get_or_create(&End { end }).inc();
        }
    }

    /// All counts as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry) {
            tracing::error!(%error, "the counts cannot be written");
        }
        text
    }
}

/// The route of a path, for a label.
pub(in crate::http) fn route_of(path: &str) -> &'static str {
    let mut parts = path.rsplit('/');
    match (parts.next(), parts.next()) {
        (Some("sync"), Some(_)) => "sync",
        (Some("live"), Some(_)) => "live",
        (Some("files"), Some(_)) => "files",
        (Some(_), Some("file")) => "file",
        _ => "other",
    }
}
