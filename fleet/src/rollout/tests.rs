use super::*;
use crate::names::{Host, Label};
use serde_json::Map;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn at(seconds: i64) -> Timestamp {
    NOW + SignedDuration::from_secs(1_000_000 + seconds)
}

fn bundle(version: &str) -> BundleId {
    BundleId { name: Label::new("site").unwrap(), version: version.to_owned(), digest: format!("digest of {version}") }
}

fn plan(waves: Vec<Rank>) -> Plan {
    Plan {
        id: "web-2".to_owned(),
        waves,
        first: None,
        soak: 10,
        max_failed: Share::Percent(2.0),
        silent_after: 180,
        auto_rollback: false,
        skip_waiting: false,
    }
}

fn record(waves: Vec<Rank>) -> ChannelRecord {
    ChannelRecord {
        channel: Label::new("web").unwrap(),
        serial: 2,
        bundle: bundle("2"),
        previous: Some(bundle("1")),
        rollout: plan(waves),
        operator: "anna".to_owned(),
        message: None,
        time: at(0),
    }
}

fn member(name: &str, version: &str, result: Option<Outcome>) -> Member {
    let report = HostReport {
        host: Host::new(name).unwrap(),
        machine: String::new(),
        channel: Some(Label::new("web").unwrap()),
        roles: Vec::new(),
        retry: 0,
        bundle: Some(bundle(version)),
        refused: None,
        result,
        reason: None,
        waiting: None,
        health: Health::Ok,
        drift: 0,
        facts: Map::new(),
        version: String::new(),
        time: at(0),
    };
    Member { report, seen: at(0), rank: Rank::of("web-2", name, false) }
}

/// Returns hosts in the order of their ranks.
fn members(number: usize) -> Vec<Member> {
    let mut members: Vec<Member> = (0..number).map(|index| member(&format!("host{index}"), "1", None)).collect();
    members.sort_by_key(|member| member.rank);
    members
}

fn waves(members: &[Member], waves: &str) -> Vec<Rank> {
    let waves: Vec<Share> = waves.split(',').map(|wave| wave.parse().unwrap()).collect();
    Plan::limits(members.iter().map(|member| member.rank).collect(), &waves).unwrap()
}

#[test]
fn waves_have_as_many_hosts_as_they_say() {
    let members = members(100);
    let plan = plan(waves(&members, "1,5%,25%,100%"));
    let of_wave = |wave| members.iter().filter(|member| plan.wave(member.rank) == wave).count();
    assert_eq!([0, 1, 2, 3].map(of_wave), [1, 4, 20, 75]);
    // A host that joins later has a wave, too.
    assert!(plan.wave(Rank::of("web-2", "new", false)) <= 3);
    assert_eq!(plan.waves.last(), Some(&Rank::LAST));
}

#[test]
fn small_channels_have_fewer_waves_and_none_is_empty() {
    for number in 0..8 {
        let members = members(number);
        let plan = plan(waves(&members, "1,5%,25%,100%"));
        let of_wave = |wave| members.iter().filter(|member| plan.wave(member.rank) == wave).count();
        assert_eq!((0..plan.waves.len()).map(of_wave).sum::<usize>(), number);
        assert!(number == 0 || (0..plan.waves.len()).all(|wave| of_wave(wave) > 0), "{number}");
    }
    assert!(
        Plan::limits(members(10).iter().map(|member| member.rank).collect(), &[Share::Hosts(5), Share::Hosts(2)])
            .is_err()
    );
    assert!(["-1", "101%", "x", "", "%"].iter().all(|text| text.parse::<Share>().is_err()));
}

#[test]
fn those_that_come_first_are_in_the_first_wave() {
    let mut members = members(50);
    members.iter_mut().skip(40).for_each(|member| member.rank = Rank::of("web-2", member.report.host.as_str(), true));
    let plan = plan(waves(&members, "10,100%"));
    assert!(members.iter().enumerate().all(|(index, member)| (plan.wave(member.rank) == 0) == (index >= 40)));
}

/// A host that is asked for changes becomes what it is told.
fn change(members: &mut [Member], record: &ChannelRecord, progress: &Progress, time: Timestamp, result: Outcome) {
    for member in members {
        let wanted = wanted(record, Some(progress), member.rank, true).cloned();
        if let Some(wanted) = wanted.filter(|wanted| member.report.bundle.as_ref() != Some(wanted)) {
            (member.report.bundle, member.report.result) = (Some(wanted), Some(result));
        }
        member.seen = time;
    }
}

#[test]
fn a_rollout_goes_from_wave_to_wave_after_its_soak_time() {
    let mut members = members(10);
    let record = record(waves(&members, "1,50%,100%"));
    let mut progress = Progress::begin(&record, at(0));
    let mut steps = Vec::new();
    for second in 0..120 {
        if let Some(next) = advance(&record, &progress, &members, at(second)) {
            if (next.wave, next.state) != (progress.wave, progress.state) {
                let with_it = members.iter().filter(|member| member.report.bundle == Some(bundle("2"))).count();
                steps.push((next.wave, next.state, with_it));
            }
            progress = next;
        }
        change(&mut members, &record, &progress, at(second), Outcome::Changed);
    }
    assert_eq!(steps, [(1, State::Running, 1), (2, State::Running, 5), (2, State::Complete, 10)]);
}

#[test]
fn failures_halt_a_rollout_before_others_change() {
    for (auto_rollback, expected) in [(false, State::Halted), (true, State::RolledBack)] {
        let mut members = members(10);
        let mut record = record(waves(&members, "1,100%"));
        record.rollout.auto_rollback = auto_rollback;
        let progress = Progress::begin(&record, at(0));
        change(&mut members, &record, &progress, at(1), Outcome::Failed);
        let next = advance(&record, &progress, &members, at(2)).unwrap();
        assert_eq!(next.state, expected);
        assert!(next.message.as_ref().unwrap().starts_with("1 of 1 hosts failed: host"), "{next:?}");
        change(&mut members, &record, &next, at(3), Outcome::Changed);
        let with = |version| members.iter().filter(|member| member.report.bundle == Some(bundle(version))).count();
        assert_eq!((with("1"), with("2")), if auto_rollback { (10, 0) } else { (9, 1) });
        assert_eq!(advance(&record, &next, &members, at(4)), None);
    }
}

#[test]
fn silence_and_bad_health_are_failures_and_waiting_is_not() {
    let mut members = members(2);
    let record = record(waves(&members, "100%"));
    let progress = Progress::begin(&record, at(0));
    change(&mut members, &record, &progress, at(1), Outcome::Changed);
    // It was off before the rollout began.
    members[0].seen = at(-1000);
    members[0].report.bundle = Some(bundle("1"));
    let well = advance(&record, &progress, &members, at(2)).unwrap();
    assert_eq!((well.state, well.well_since), (State::Running, Some(at(2))));
    // It went silent.
    members[0].seen = at(0);
    assert_eq!(advance(&record, &progress, &members, at(200)).unwrap().state, State::Halted);
    members[0].seen = at(2);
    members[1].report.health = Health::Critical;
    assert_eq!(advance(&record, &progress, &members, at(3)).unwrap().state, State::Halted);
    members[1].report.health = Health::Ok;
    members[0].report.waiting = Some("paused".to_owned());
    assert_eq!(advance(&record, &progress, &members, at(3)), None);
    assert_eq!(advance(&record, &well, &members, at(30)).unwrap().well_since, None);
    let mut skips = record.clone();
    skips.rollout.skip_waiting = true;
    assert_eq!(advance(&skips, &well, &members, at(30)).unwrap().state, State::Complete);
}

#[test]
fn a_host_takes_what_its_channel_runs_and_nothing_in_between() {
    let members = members(3);
    let record = record(waves(&members, "1,100%"));
    let begun = Progress::begin(&record, at(0));
    let last = members[2].rank;
    // Its wave has not come: a new host begins with what the others run.
    assert_eq!(wanted(&record, Some(&begun), last, false), record.previous.as_ref());
    assert_eq!(wanted(&record, Some(&begun), last, true), None);
    assert_eq!(wanted(&record, None, last, true), None);
    for state in [State::Paused, State::Halted, State::Aborted] {
        assert_eq!(wanted(&record, Some(&begun.with(state, "anna", None)), members[0].rank, true), None);
    }
    let complete = begun.with(State::Complete, "controller", None);
    assert_eq!(wanted(&record, Some(&complete), last, true), Some(&record.bundle));
    // The progress of another rollout, and a return that the operator did not permit.
    assert_eq!(wanted(&record, Some(&Progress { serial: 1, ..complete }), last, true), None);
    assert_eq!(wanted(&record, Some(&begun.with(State::RolledBack, "x", None)), last, true), None);
}

#[test]
fn hosts_that_failed_are_waited_for_after_a_resumption() {
    let mut members = [member("web1", "2", Some(Outcome::Failed)), member("web2", "1", None)];
    members[1].report.refused = Some(bundle("2"));
    let record = record(vec![Rank::LAST]);
    let next = |progress: &Progress, members: &[Member]| advance(&record, progress, members, at(20));
    let halted = next(&Progress::begin(&record, at(0)), &members).unwrap();
    assert_eq!(halted.state, State::Halted);
    let resumed = halted.try_again("anna", None, at(10));
    assert!(resumed.state == State::Running && resumed.retry > 0);
    assert_eq!(next(&resumed, &members), None);
    // One of them has tried again, and fails.
    members[0].report.retry = resumed.retry;
    let again = next(&resumed, &members).unwrap();
    assert!(again.state == State::Halted && again.message.unwrap().ends_with("1 of 2 hosts failed: web1"));
    // Both are well, but that of one is not known yet.
    (members[0].report.result, members[1].report.retry) = (Some(Outcome::Unchanged), resumed.retry);
    (members[1].report.bundle, members[1].report.refused) = (Some(bundle("2")), None);
    assert_eq!(next(&resumed, &members), None);
    members[1].report.result = Some(Outcome::Changed);
    assert_eq!(next(&resumed, &members).unwrap().well_since, Some(at(20)));
    // A later rollout has no host that waits for its first resumption.
    assert!(next_serial(Some(0)) >= resumed.retry && resumed.try_again("anna", None, at(20)).retry > resumed.retry);
}

#[test]
fn an_unhealthy_host_is_waited_for_after_a_resumption() {
    let mut members = [member("web1", "2", Some(Outcome::Changed))];
    members[0].report.health = Health::Critical;
    let record = record(vec![Rank::LAST]);
    let resumed = Progress::begin(&record, at(0)).try_again("anna", None, at(10));
    assert_eq!(advance(&record, &resumed, &members, at(20)), None);
    members[0].report.retry = resumed.retry;
    assert_eq!(advance(&record, &resumed, &members, at(20)).unwrap().state, State::Halted);
}

#[test]
fn a_host_that_is_silent_at_a_resumption_is_not_waited_for() {
    let record = record(vec![Rank::LAST]);
    let silent = [member("web1", "1", None)];
    let begun = Progress::begin(&record, at(0));
    let halted = advance(&record, &begun, &silent, at(200)).unwrap();
    assert_eq!(halted.state, State::Halted);
    let resumed = halted.try_again("anna", None, at(210));
    assert_eq!(advance(&record, &resumed, &silent, at(211)).unwrap().well_since, Some(at(211)));
}
