//! The work of Ansible's controller on a task before its module is run, as far as possible.

use crate::module::ModuleName;
use holo_bridge::Attributes;
use holo_plugin::Host;
use holo_plugin::definitions::ResourceDirs;
use holo_plugin::system::{Root, init_system};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Arguments of `service` that the module for systemd does not have.
const NOT_FOR_SYSTEMD: [&str; 5] = ["pattern", "runlevel", "sleep", "arguments", "args"];

/// A module and its arguments.
#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) module: ModuleName,
    pub(crate) args: Map<String, Value>,
    /// The content of a file whose path is passed to the module as `src`.
    pub(crate) content: Option<Value>,
    /// A path that makes the task unnecessary if it exists.
    pub(crate) creates: Option<PathBuf>,
    /// Remarks for the user.
    pub(crate) remarks: Vec<String>,
    /// True if no work of the controller is missing.
    pub(crate) is_complete: bool,
}

/// The system facts that determine names of modules.
pub(crate) struct Facts<'a> {
    pub(crate) init_system: &'a str,
    pub(crate) package_manager: &'a str,
    /// True if `dnf` is version 5.
    pub(crate) has_dnf_5: bool,
    /// The directories to which sources of files are relative.
    pub(crate) files: ResourceDirs,
}

impl Facts<'_> {
    /// Determines the facts.
    pub(crate) fn new(host: &Host) -> Facts<'static> {
        let dnf = std::fs::canonicalize(host.below_root(Path::new("/usr/bin/dnf")));
        Facts {
            init_system: init_system(&Root::new(host.root())),
            package_manager: host.system().package_manager().map_or("", |manager| manager.name),
            has_dnf_5: dnf.is_ok_and(|program| program.ends_with("dnf5")),
            files: host.resources().clone(),
        }
    }
}

impl Call {
    /// Prepares the call of a module with these arguments.
    pub(crate) fn new(module: &ModuleName, args: &Attributes, facts: &Facts<'_>) -> Call {
        let args = args.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let mut call =
            Call { module: module.clone(), args, content: None, creates: None, remarks: Vec::new(), is_complete: true };
        match module.as_builtin().unwrap_or_default() {
            "command" => call.name_command(),
            "shell" => call.use_shell(),
            "service" => call.choose_service(facts.init_system),
            "package" => call.choose_package_manager(facts),
            "dnf" | "yum" => call.choose_dnf(facts),
            "copy" => call.bring_file(facts),
            "assemble" => call.take_from_here(facts),
            "unarchive" => call.unpack(facts),
            _ => call.is_complete = false,
        }
        call
    }

    fn take_text(&mut self, name: &str) -> Option<String> {
        self.args.remove(name)?.as_str().map(str::to_owned)
    }

    fn become_builtin(&mut self, name: &str) {
        self.module = ModuleName::builtin(name);
    }

    /// Playbooks use another name than the module.
    fn name_command(&mut self) {
        if let Some(command) = self.args.remove("cmd") {
            self.args.insert("_raw_params".to_owned(), command);
        }
    }

    fn use_shell(&mut self) {
        self.become_builtin("command");
        self.name_command();
        self.args.insert("_uses_shell".to_owned(), true.into());
    }

    /// Returns the module named by `use`, unless that is automatic.
    fn chosen(&mut self) -> Option<ModuleName> {
        let chosen = self.take_text("use")?.to_lowercase();
        if chosen == "auto" { None } else { ModuleName::parse(&chosen).ok() }
    }

    fn choose_service(&mut self, init_system: &str) {
        let by_fact = match init_system {
            "systemd" => "systemd_service",
            "sysvinit" => "sysvinit",
            _ => "service",
        };
        self.module = self.chosen().unwrap_or_else(|| ModuleName::builtin(by_fact));
        if self.module.as_builtin().is_some_and(|name| name.starts_with("systemd")) {
            let unused = NOT_FOR_SYSTEMD.iter().filter(|name| self.args.remove(**name).is_some());
            self.remarks.extend(unused.map(|name| format!("{name} is ignored, as systemd has no use for it")));
        }
    }

    fn choose_package_manager(&mut self, facts: &Facts<'_>) {
        match (self.chosen(), facts.package_manager) {
            (Some(chosen), _) => self.module = chosen,
            (None, "dnf") => self.choose_dnf(facts),
            (None, "apt") => self.become_builtin("apt"),
            (None, "") => {
                self.remarks.push("no package manager is known here: say which module is meant by `use`".to_owned());
            }
            // The others are not part of Ansible itself.
            (None, other) => {
                let general = ModuleName::parse(&format!("community.general.{other}"));
                self.module = general.unwrap_or_else(|_| self.module.clone());
            }
        }
    }

    fn choose_dnf(&mut self, facts: &Facts<'_>) {
        let chosen = [self.take_text("use"), self.take_text("use_backend")].into_iter().flatten().next();
        let is_5 = match chosen.as_deref() {
            Some("dnf5") => true,
            Some("dnf" | "dnf4" | "yum4") => false,
            _ => facts.has_dnf_5,
        };
        self.become_builtin(if is_5 { "dnf5" } else { "dnf" });
    }

    /// Provides the file on this machine, from content in the definition or a local path.
    fn bring_file(&mut self, facts: &Facts<'_>) {
        self.content = self.args.remove("content").filter(|content| !content.is_null());
        if self.content.is_some() {
            // The module moves it to its destination, like a file sent by a controller.
            self.args.remove("remote_src");
        } else {
            self.take_from_here(facts);
        }
    }

    fn unpack(&mut self, facts: &Facts<'_>) {
        self.args.remove("copy");
        self.creates = self.take_text("creates").map(PathBuf::from);
        self.take_from_here(facts);
    }

    /// Files on Ansible's controller are on this machine as well. Without `remote_src`, modules would move them.
    fn take_from_here(&mut self, facts: &Facts<'_>) {
        self.args.remove("decrypt");
        let is_relative = |path: &str| !path.starts_with(['/', '~']) && !path.contains("://");
        let is_said = self.args.insert("remote_src".to_owned(), true.into()) == Some(true.into());
        if let Some(Value::String(source)) = self.args.get_mut("src")
            && is_relative(source)
            && !is_said
        {
            let path = facts.files.shown(Path::new(source));
            *source = std::path::absolute(&path).unwrap_or(path).display().to_string();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn arranged(module: &str, args: &Value, init_system: &str, package_manager: &str, has_dnf_5: bool) -> Call {
        let facts =
            Facts { init_system, package_manager, has_dnf_5, files: PathBuf::from("/usr/share/holo/ansible").into() };
        let mut attributes = Attributes::default();
        for (name, value) in args.as_object().unwrap() {
            attributes.insert(name.as_str(), value.clone());
        }
        Call::new(&ModuleName::parse(module).unwrap(), &attributes, &facts)
    }

    /// Returns the module and the arguments on a Debian machine.
    fn call(module: &str, args: &Value) -> (String, Value) {
        let call = arranged(module, args, "systemd", "apt", false);
        (call.module.to_string(), call.args.into())
    }

    #[test]
    fn commands_are_called_as_the_module_has_it() {
        let command = "ansible.builtin.command".to_owned();
        assert_eq!(call("command", &json!({"cmd": "a b"})), (command.clone(), json!({"_raw_params": "a b"})));
        assert_eq!(call("command", &json!({"argv": ["a"]})), (command.clone(), json!({"argv": ["a"]})));
        let shell = json!({"_raw_params": "a | b", "_uses_shell": true});
        assert_eq!(call("shell", &json!({"cmd": "a | b"})), (command.clone(), shell.clone()));
        assert_eq!(call("shell", &json!({"_raw_params": "a | b"})), (command, shell));
    }

    #[test]
    fn the_init_system_says_which_module_services_have() {
        let service = |init, args| {
            let call = arranged("service", args, init, "", false);
            (call.module.to_string(), call.args.keys().cloned().collect::<Vec<_>>(), call.remarks)
        };
        let args = &json!({"name": "x", "sleep": 1, "use": "auto"});
        let remark = "sleep is ignored, as systemd has no use for it".to_owned();
        assert_eq!(
            service("systemd", args),
            ("ansible.builtin.systemd_service".to_owned(), vec!["name".to_owned()], vec![remark])
        );
        let both = || vec!["name".to_owned(), "sleep".to_owned()];
        assert_eq!(service("sysvinit", args), ("ansible.builtin.sysvinit".to_owned(), both(), Vec::new()));
        assert_eq!(service("openrc", args), ("ansible.builtin.service".to_owned(), both(), Vec::new()));
        let args = &json!({"name": "x", "use": "community.general.runit"});
        assert_eq!(service("systemd", args).0, "community.general.runit");
    }

    #[test]
    fn the_package_manager_says_which_module_packages_have() {
        let module = |name: &str, manager, has_dnf_5, args: &Value| {
            let call = arranged(name, args, "", manager, has_dnf_5);
            assert!(!call.args.contains_key("use") && !call.args.contains_key("use_backend"));
            call.module.to_string()
        };
        let args = &json!({"name": "x"});
        assert_eq!(module("package", "apt", false, args), "ansible.builtin.apt");
        assert_eq!(module("package", "dnf", false, args), "ansible.builtin.dnf");
        assert_eq!(module("package", "dnf", true, args), "ansible.builtin.dnf5");
        assert_eq!(module("package", "pacman", false, args), "community.general.pacman");
        assert_eq!(module("package", "", false, args), "ansible.builtin.package");
        assert_eq!(module("package", "apt", false, &json!({"use": "dnf"})), "ansible.builtin.dnf");
        assert_eq!(module("yum", "dnf", true, args), "ansible.builtin.dnf5");
        assert_eq!(module("dnf", "dnf", true, &json!({"use_backend": "dnf4"})), "ansible.builtin.dnf");
    }

    #[test]
    fn files_are_on_this_machine() {
        let args = |module, args: &Value| call(module, args).1;
        assert_eq!(
            args("copy", &json!({"src": "files/a", "dest": "/b", "decrypt": false, "remote_src": false})),
            json!({"src": "/usr/share/holo/ansible/files/a", "dest": "/b", "remote_src": true})
        );
        assert_eq!(args("assemble", &json!({"src": "/a"})), json!({"src": "/a", "remote_src": true}));
        assert_eq!(
            args("copy", &json!({"src": "a", "remote_src": true})),
            json!({"src": "a", "remote_src": true}),
            "as the module has it"
        );
        let url = &json!({"src": "https://example.org/a.tar", "copy": true, "creates": "/x"});
        assert_eq!(args("unarchive", url), json!({"src": "https://example.org/a.tar", "remote_src": true}));
        assert_eq!(arranged("unarchive", url, "", "", false).creates, Some("/x".into()));
    }

    #[test]
    fn content_becomes_a_file() {
        let call = arranged("copy", &json!({"content": "x", "dest": "/b", "remote_src": true}), "", "", false);
        assert_eq!((Value::Object(call.args), call.content), (json!({"dest": "/b"}), Some(json!("x"))));
    }

    #[test]
    fn other_modules_get_what_is_written() {
        let args = json!({"src": "a", "use": "b", "cmd": "c", "content": "d"});
        assert_eq!(call("local.test.copy", &args), ("local.test.copy".to_owned(), args.clone()));
        assert!(!arranged("local.test.copy", &args, "", "", false).is_complete);
        assert!(arranged("copy", &args, "", "", false).is_complete);
    }
}
