//! Modules that only exist in Ansible's controller, which is missing here, with replacements.

use crate::module::ModuleName;

const TASKS_ARE_FILES: &str = "all definition files are read, and `if` or a .toml.jinja leaves tasks out";
const FACTS: &str = "facts and data are those of holo-facts(7), in a .toml.jinja";
const WAITING: &str = "`health_check` and `retries` wait, and so does the module wait_for";

/// Modules that only exist in the controller, and have a counterpart here.
pub(crate) const EMULATED: [&str; 5] = ["assert", "debug", "fail", "include_vars", "set_fact"];

/// Names or prefixes, and their replacements.
const INSTEAD: [(&str, &str); 14] = [
    ("add_host", "the only host is this one"),
    ("async_", "`timeout` is how long a task may take, and `before` and `after` what it waits for"),
    ("fetch", "the file is on this machine already"),
    ("gather_facts", FACTS),
    ("group_by", FACTS),
    ("import_", TASKS_ARE_FILES),
    ("include_", TASKS_ARE_FILES),
    ("meta", "`notifies` and `subscribes` are what handlers are in a playbook"),
    ("pause", WAITING),
    ("raw", "use the module command or shell, or the plugin exec"),
    ("reboot", "use the plugin exec"),
    ("set_stats", "`send` tells what an answer says to the entities that are refreshed"),
    ("validate_argument_spec", "the arguments of each module are looked at when it is run"),
    ("wait_for_connection", WAITING),
];

/// Returns the reason why a module cannot be used, if it only exists in the controller.
pub(crate) fn refusal(module: &ModuleName) -> Option<String> {
    let name = module.as_builtin().filter(|name| !EMULATED.contains(name))?;
    let is_meant =
        |known: &&(&str, &str)| if known.0.ends_with('_') { name.starts_with(known.0) } else { name == known.0 };
    let (_, instead) = INSTEAD.iter().find(is_meant)?;
    Some(format!("{name} is a part of Ansible's controller, which there is none of: {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<String> {
        refusal(&ModuleName::parse(text).unwrap())
    }

    #[test]
    fn each_names_something_to_be_used_instead() {
        assert_eq!(
            refused("ansible.builtin.raw").unwrap(),
            "raw is a part of Ansible's controller, which there is none of: use the module command or shell, or the plugin exec"
        );
        assert!(refused("include_tasks").unwrap().contains("definition files"));
    }

    #[test]
    fn all_that_are_only_actions_are_refused_and_no_others() {
        let actions = "include_tasks include_role import_playbook import_role import_tasks meta add_host group_by \
            pause fetch raw reboot gather_facts wait_for_connection validate_argument_spec \
            set_stats async_status async_wrapper";
        for name in actions.split_whitespace() {
            assert!(refused(name).is_some(), "{name}");
            assert!(refused(&format!("local.test.{name}")).is_none(), "{name}");
        }
        for name in ["copy", "command", "wait_for", "setup", "service", "shell", "failed", "tempfile", "template"] {
            assert!(refused(name).is_none(), "{name}");
        }
    }
}
