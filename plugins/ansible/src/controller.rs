//! Modules that only exist in Ansible's controller, which is missing here, with replacements.

use crate::module::ModuleName;

const TASKS_ARE_FILES: &str = "all definition files are read, and `if` or a .toml.jinja leaves tasks out";
const FACTS: &str = "facts and data are those of holo-facts(7), in a .toml.jinja";
const CONDITIONS: &str = "`if`, `unless` and `requires` say under which conditions a task is applied";
const WAITING: &str = "`health_check` and `retries` wait, and so does the module wait_for";

/// Names or prefixes, and their replacements.
const INSTEAD: [(&str, &str); 19] = [
    ("add_host", "the only host is this one"),
    ("assert", CONDITIONS),
    ("async_", "`timeout` is how long a task may take, and `before` and `after` what it waits for"),
    ("debug", "`holo facts`, `holo data` and `holo scan` show what is known"),
    ("fail", CONDITIONS),
    ("fetch", "the file is on this machine already"),
    ("gather_facts", FACTS),
    ("group_by", FACTS),
    ("import_", TASKS_ARE_FILES),
    ("include_vars", FACTS),
    ("include_", TASKS_ARE_FILES),
    ("meta", "`notifies` and `subscribes` are what handlers are in a playbook"),
    ("pause", WAITING),
    ("raw", "use the module command or shell, or the plugin exec"),
    ("reboot", "use the plugin exec"),
    ("set_fact", FACTS),
    ("set_stats", "`send` tells what an answer says to the entities that are refreshed"),
    ("validate_argument_spec", "the arguments of each module are looked at when it is run"),
    ("wait_for_connection", WAITING),
];

/// Returns the reason why a module cannot be used, if it only exists in the controller.
pub(crate) fn refusal(module: &ModuleName) -> Option<String> {
    let name = module.as_builtin()?;
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
        assert!(refused("include_vars").unwrap().contains("holo-facts(7)"));
        assert!(refused("include_tasks").unwrap().contains("definition files"));
    }

    #[test]
    fn all_that_are_only_actions_are_refused_and_no_others() {
        let actions = "debug set_fact include_tasks include_role import_playbook import_role import_tasks meta add_host group_by \
            pause fail assert fetch raw reboot gather_facts wait_for_connection validate_argument_spec \
            include_vars set_stats async_status async_wrapper";
        for name in actions.split_whitespace() {
            assert!(refused(name).is_some(), "{name}");
            assert!(refused(&format!("local.test.{name}")).is_none(), "{name}");
        }
        for name in ["copy", "command", "wait_for", "setup", "service", "shell", "failed", "tempfile", "template"] {
            assert!(refused(name).is_none(), "{name}");
        }
    }
}
