//! The JSON Schema of definition files, which editors complete and check them by.

use super::{Kind, is_common, keys};
use holo_plugin::definitions::CommonKeys;
use schemars::JsonSchema;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Definitions of users and groups.
#[derive(JsonSchema)]
#[schemars(title = "Definition files of holo-users-groups", deny_unknown_fields)]
#[expect(dead_code, reason = "it only describes")]
struct File {
    /// Groups.
    #[serde(default)]
    group: Vec<Group>,
    /// Users.
    #[serde(default)]
    user: Vec<User>,
}

/// A group as it is defined.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "it only describes")]
struct Group {
    /// Its name.
    name: String,
    /// Its number.
    gid: Option<u32>,
    /// True if it is one of the system's own; counts only when it is made.
    system: Option<bool>,
}

/// A user as it is defined.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "it only describes")]
struct User {
    /// The login name.
    name: String,
    /// The comment, mostly the full name.
    comment: Option<String>,
    /// The number.
    uid: Option<u32>,
    /// True if it is one of the system's own; counts only when it is made.
    system: Option<bool>,
    /// The home directory.
    home: Option<String>,
    /// The login group.
    group: Option<String>,
    /// Other groups that it is in.
    groups: Option<Vec<String>>,
    /// The login shell.
    shell: Option<String>,
    /// True if groups that it was in before are taken away.
    #[serde(rename = "skipBaseGroups")]
    skip_base_groups: Option<bool>,
    /// True if the home directory is made with the user, as a copy of `/etc/skel`; counts only when the user is made.
    create_home: Option<bool>,
}

#[test]
fn the_schema_has_all_keys_and_is_up_to_date() {
    let mut schema = schemars::schema_for!(File).to_value();
    let mut common = schemars::schema_for!(CommonKeys).to_value();
    let mut part = |name: &str| -> Map<String, Value> { serde_json::from_value(common[name].take()).unwrap() };
    let (types, mut common) = (part("$defs"), part("properties"));
    common.retain(|key, _| is_common(key));
    schema["$defs"].as_object_mut().unwrap().extend(types);
    for (kind, name) in [(Kind::Group, "Group"), (Kind::User, "User")] {
        let properties = schema["$defs"][name]["properties"].as_object_mut().unwrap();
        let described: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(described, keys(kind).iter().copied().collect());
        properties.extend(common.clone());
    }
    holo_testing::schema_is_kept("holo-users-groups.schema.json", &schema);
}
