//! The JSON Schema of definition files for editors.

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

/// A group.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "it only describes")]
struct Group {
    /// The name of the group.
    name: String,
    /// The GID.
    gid: Option<u32>,
    /// Whether to create a system group. Used only when the group is created.
    system: Option<bool>,
}

/// A user.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "it only describes")]
struct User {
    /// The login name.
    name: String,
    /// The comment, usually the full name.
    comment: Option<String>,
    /// The UID.
    uid: Option<u32>,
    /// Whether to create a system user. Used only when the user is created.
    system: Option<bool>,
    /// The home directory.
    home: Option<String>,
    /// The login group.
    group: Option<String>,
    /// The supplementary groups.
    groups: Option<Vec<String>>,
    /// The login shell.
    shell: Option<String>,
    /// Whether to remove the user from supplementary groups that it was in before.
    #[serde(rename = "skipBaseGroups")]
    skip_base_groups: Option<bool>,
    /// Whether to remove the user from all supplementary groups that are not defined. If a definition has this key or any other that
    /// version 3 does not know, the user is at least removed from groups that an earlier definition has added.
    exact_groups: Option<bool>,
    /// Whether to create the home directory as a copy of `/etc/skel`. Used only when the user is created.
    create_home: Option<bool>,
}

#[test]
fn schema_has_all_keys_and_is_up_to_date() {
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
