//! `holo-fleet report`: the page shows channels and hosts, and no browser interprets what hosts say.

use crate::harness::{NATS, Server, as_server, prepared, put};
use futures_util::future::join_all;
use holo_testing::require::{HTML_VALIDATE, trial_of};
use holo_testing::{Need, page_is_valid};
use jiff::Timestamp;
use libtest_mimic::Trial;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [NATS, Need::Program("ssh-keygen"), HTML_VALIDATE];
    vec![
        trial_of("a page shows channels and hosts", &needs, shown),
        trial_of("a page of 1000 hosts is made within a second", &needs, thousand),
    ]
}

/// Stores the reports of hosts, by the names of their keys.
fn report(server: &Server, reports: impl IntoIterator<Item = (String, Value)>) {
    let complete = |mut changes: Value| {
        let mut report = json!({
            "host": "", "machine": "x", "channel": "web", "roles": [], "bundle": null, "refused": null, "result": null,
            "reason": null, "waiting": null, "health": "none", "drift": 0, "facts": {}, "version": "4.0.0",
            "time": Timestamp::now(),
        });
        report.as_object_mut().unwrap().append(changes.as_object_mut().unwrap());
        report.to_string().into_bytes()
    };
    let reports: Vec<(String, Vec<u8>)> = reports.into_iter().map(|(key, report)| (key, complete(report))).collect();
    as_server(server, async |context| {
        join_all(reports.iter().map(|(key, report)| put(context, "holo-hosts", key, report.clone()))).await;
    });
}

/// Returns the part of a page between two texts.
#[track_caller]
fn between<'p>(page: &'p str, begin: &str, end: &str) -> &'p str {
    let part = page.split_once(begin).and_then(|(_, rest)| rest.split_once(end));
    part.unwrap_or_else(|| panic!("no {begin} and {end}: {page}")).0
}

fn shown() {
    let (server, operator) = prepared();
    let page = || operator.must(&["report", "--output", "-"]);
    let empty = page();
    assert!(empty.contains("No host has reported."), "{empty}");
    page_is_valid(&empty);

    let bundle = operator.publish("site", "1", "port 80");
    let digest = operator.json(&["bundle", "list", "--json"])[0]["digest"].clone();
    let installed = json!({ "name": "site", "version": "1", "digest": digest });
    let good = |name: &str| {
        (name.to_owned(), json!({ "host": name, "bundle": installed, "result": "changed", "health": "ok" }))
    };
    report(&server, ["web1", "web2"].map(good));
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "100%", "--soak", "0s", "--follow"]);
    let calm = page();
    assert!(calm.contains("All hosts are in order.") && calm.contains("2 of 2"), "{calm}");
    page_is_valid(&calm);

    let hostile = "<script>alert(1)</script>\u{202e}\u{1b}[31m";
    let failed = json!({ "host": "a<b>", "bundle": installed, "result": "failed", "reason": hostile });
    let unhealthy =
        json!({ "host": "web2", "bundle": installed, "result": "changed", "health": "critical", "drift": 3 });
    let alone = json!({ "host": "zoo", "channel": null, "waiting": "paused: {{ 7 * 7 }}" });
    let all = [("a=3Cb=3E", failed), ("web2", unhealthy), ("zoo", alone)];
    report(&server, all.map(|(key, report)| (key.to_owned(), report)));
    let second = operator.publish("site", "2", "port 81");
    operator.must(&["rollout", "start", "web", &second, "-m", "\"quoted\" & <b>bold</b>"]);
    operator.must(&["rollout", "abort", "web", "-m", "not now"]);
    let page = page();
    page_is_valid(&page);
    let body = page.split_once("</style>").unwrap().1;
    for bad in ["<script", "<b>", "\u{202e}", "\u{1b}", "=\"javascript", "src="] {
        assert!(!body.contains(bad), "{bad}: {body}");
    }
    for text in ["a&lt;b&gt;", "&lt;script&gt;alert(1)", "{{ 7 * 7 }}", "&lt;b&gt;bold", "not now", "site@2", "aborted"]
    {
        assert!(body.contains(text), "{text}: {body}");
    }
    // With the second bundle, nothing is known of the host that has failed with the first one.
    operator.must(&["rollback", "web", "--waves", "100%", "--soak", "0s"]);
    let file = operator.root.join("page.html");
    operator.must(&["report", "--output", &file.to_string_lossy()]);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let page = operator.root.read("page.html").to_string();
    let attention = between(&page, "id=\"attention\"", "</section>");
    let hosts: Vec<usize> = ["a&lt;b&gt;", "web2"].map(|host| attention.find(host).unwrap()).into();
    assert!(hosts.is_sorted() && !attention.contains("web1"), "{attention}");
    for text in [">failed</span>", ">unhealthy</span>", "health critical, 3 drifted"] {
        assert!(attention.contains(text), "{text}: {attention}");
    }
    let others = between(&page, "id=\"hosts\"", "</section>");
    assert!(others.contains("web1") && others.contains("zoo") && others.contains(">waiting</span>"), "{others}");
    assert!(page.contains("2 of 4 hosts need attention"), "{page}");

    let wrong = operator.run(&["report", "--output", "/proc/none/page.html"]);
    assert!(wrong.status == Some(1) && wrong.stderr_lossy().contains("/proc/none/page.html: "), "{wrong}");
}

fn thousand() {
    let (server, operator) = prepared();
    let host = |number: usize| {
        let name = format!("host{number:04}");
        let result = if number.is_multiple_of(100) { "failed" } else { "changed" };
        (name.clone(), json!({ "host": name, "result": result, "reason": "its disk is full" }))
    };
    report(&server, (0..1000).map(host));
    let file = operator.root.join("page.html");
    // The machine may be busy.
    let best = (0..3).map(|_| {
        let begun = Instant::now();
        operator.must(&["report", "--output", &file.to_string_lossy()]);
        begun.elapsed()
    });
    let best = best.min().unwrap();
    assert!(best < Duration::from_secs(1), "{best:?}");
    let page = operator.root.read("page.html").to_string();
    assert!(page.contains("10 of 1,000 hosts need attention") && page.contains("host0999"), "{best:?}");
    page_is_valid(&page);
}
