//! Tests of completed ACLs and contexts.

use super::*;
use Tag::{Group, GroupObj, Mask, Other, User, UserObj};
use holo_change::acl::letters;

fn shown(acl: &Acl) -> String {
    acl.entries().map(|(tag, permissions)| format!("{tag}:{}", letters(permissions))).collect::<Vec<_>>().join(",")
}

#[test]
fn acl_is_completed_from_current_acl_or_mode() {
    let alice = [(User(7), 0o6, false)];
    let mut current = Acl::of_mode(0o640);
    for _ in 0..2 {
        current = access_acl(&alice, None, &current, false);
        assert_eq!(shown(&current), "user::rw-,user:7:rw-,group::r--,mask::rw-,other::---");
    }
    let by_mode = access_acl(&alice, Some(0o640), &current, false);
    assert_eq!(shown(&by_mode), "user::rw-,user:7:rw-,group::r--,mask::r--,other::---");
    assert_eq!(by_mode.mode(), 0o640);
    assert_eq!(shown(&access_acl(&[], None, &current, false)), "user::rw-,group::r--,other::---");
    let group = [(GroupObj, 0, false)];
    assert_eq!(shown(&access_acl(&group, Some(0o660), &current, false)), "user::rw-,group::---,mask::rw-,other::---");
    assert_eq!(
        shown(&access_acl(&[(Other, 0o4, false), (Mask, 0o4, false), alice[0]], None, &current, false)),
        "user::rw-,user:7:rw-,group::r--,mask::r--,other::r--"
    );
}

#[test]
fn capital_x_applies_to_directories_and_executables() {
    let staff = [(Group(7), 0o4, true)];
    for (mode, is_directory, expected) in [(0o640, false, 0o4), (0o740, false, 0o5), (0o640, true, 0o5)] {
        let acl = access_acl(&staff, None, &Acl::of_mode(mode), is_directory);
        assert_eq!(acl.get(Group(7)), Some(expected), "{mode:o}");
        assert_eq!(access_acl(&staff, None, &acl, is_directory), acl, "{mode:o}");
    }
}

#[test]
fn default_acl_is_completed_from_the_directory() {
    let own = Acl::of_mode(0o750);
    assert_eq!(
        shown(&default_acl(&[(User(7), 0o7, false)], &own)),
        "user::rwx,user:7:rwx,group::r-x,mask::rwx,other::---"
    );
    assert_eq!(shown(&default_acl(&[(UserObj, 0o4, false)], &own)), "user::r--,group::r-x,other::---");
    assert!(default_acl(&[], &own).is_empty());
}

#[test]
fn context_keeps_undeclared_parts() {
    let parts = [None, None, Some("etc_t"), None];
    assert_eq!(complete(&parts, "u:r:t:s0:c1"), "u:r:etc_t:s0:c1");
    assert_eq!(complete(&parts, ""), "system_u:object_r:etc_t:s0");
}

#[test]
fn recursive_mode_keeps_files_unexecutable() {
    for (mode, current, expected) in [(0o2755, 0o600, 0o644), (0o2755, 0o4700, 0o755), (0o750, 0o010, 0o750)] {
        assert_eq!(of_file(mode, current), expected, "{mode:o} {current:o}");
    }
}
