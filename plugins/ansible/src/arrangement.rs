//! The work of Ansible's controller on a task before its module is run, as far as possible.

use crate::library::ModuleName;
use holo_plugin::Host;
use holo_plugin::definitions::ResourceDirs;
use holo_plugin::system::{Root, init_system, installed_init_system};
use serde_json::{Map, Value};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Arguments of `service` that the module for systemd does not have.
const NOT_FOR_SYSTEMD: [&str; 5] = ["pattern", "runlevel", "sleep", "arguments", "args"];

/// Arguments of `copy` that its action plugin passes on to `file`.
const FILE_ARGS: [&str; 10] =
    ["mode", "owner", "group", "seuser", "serole", "selevel", "setype", "attributes", "attr", "unsafe_writes"];
/// In an argument, the path of the temporary file.
const SOURCE: char = '\0';
/// Options of templates that only Ansible's controller has.
const NOT_FOR_TEMPLATES: [&str; 8] = [
    "block_start_string",
    "block_end_string",
    "variable_start_string",
    "variable_end_string",
    "comment_start_string",
    "comment_end_string",
    "newline_sequence",
    "output_encoding",
];
/// Modules whose `src` is a file of the controller, and which can read it here.
const READ_SOURCE: [&str; 2] = ["ansible.builtin.uri", "ansible.posix.patch"];

/// The modules to run for a task.
#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) module: ModuleName,
    pub(crate) args: Map<String, Value>,
    /// The temporary file for the module.
    pub(crate) source: Option<Source>,
    /// The files and directories of a tree, instead of the module above.
    pub(crate) tree: Vec<Step>,
    /// A path that makes the task unnecessary if it exists.
    pub(crate) creates: Option<PathBuf>,
    /// Remarks for the user.
    pub(crate) remarks: Vec<String>,
    /// True if no work of the controller is missing.
    pub(crate) is_complete: bool,
}

/// A module to run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) module: ModuleName,
    pub(crate) args: Map<String, Value>,
    pub(crate) source: Option<Source>,
}

/// A temporary file for a module, which receives its path in an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) content: Content,
    pub(crate) argument: &'static str,
    pub(crate) mode: Option<u32>,
}

/// The content of a temporary file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Bytes(Vec<u8>),
    /// The content of another file.
    File(PathBuf),
    /// A Jinja template, and the directory of the templates that it includes.
    Template {
        text: String,
        folder: PathBuf,
        trims: bool,
        lstrips: bool,
    },
}

impl Source {
    fn new(content: Content) -> Source {
        Source { content, argument: "src", mode: None }
    }
}

/// The reason why a task cannot be arranged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArrangementError {
    #[error("cannot use content when dest is a directory: {dest}")]
    ContentForDirectory { dest: String },
    #[error("cannot read {path}: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("there is no {path} in {}", folder.display())]
    NoSource { path: String, folder: PathBuf },
    #[error("{name} is not supported for templates")]
    TemplateOption { name: &'static str },
    #[error("{name} is missing")]
    Missing { name: &'static str },
}

/// The system facts that determine names of modules.
pub(crate) struct Facts<'a> {
    pub(crate) init_system: &'a str,
    pub(crate) package_manager: &'a str,
    /// True if `dnf` is version 5.
    pub(crate) has_dnf_5: bool,
    /// The directories to which sources of files are relative.
    pub(crate) files: ResourceDirs,
    /// True if the module runs as another user, who may be unable to read the sources.
    pub(crate) is_other_user: bool,
}

impl Facts<'_> {
    /// Determines the facts.
    pub(crate) fn new(host: &Host, is_other_user: bool) -> Facts<'static> {
        let dnf = std::fs::canonicalize(host.below_root(Path::new("/usr/bin/dnf")));
        let root = Root::new(host.root());
        Facts {
            // In a container without an init system, Ansible uses the module of the one that is installed.
            init_system: Some(init_system(&root))
                .filter(|name| !name.is_empty())
                .unwrap_or(installed_init_system(&root)),
            package_manager: host.system().package_manager().map_or("", |manager| manager.name),
            has_dnf_5: dnf.is_ok_and(|program| program.ends_with("dnf5")),
            files: host.resources().clone(),
            is_other_user,
        }
    }

    /// Finds a source, which is relative to the definitions or to a directory beside them, as in a role.
    pub(crate) fn find(&self, written: &str, beside: &str) -> Result<PathBuf, ArrangementError> {
        if written.starts_with('~') {
            return Ok(PathBuf::from(written));
        }
        let found = [Path::new(beside).join(written), PathBuf::from(written)].into_iter().find_map(|path| {
            let path = self.files.shown(&path);
            let path = std::path::absolute(&path).unwrap_or(path);
            path.symlink_metadata().is_ok().then_some(path)
        });
        let missing =
            || ArrangementError::NoSource { path: written.to_owned(), folder: self.files.shown(Path::new(beside)) };
        found.ok_or_else(missing)
    }

    fn content_of(&self, path: PathBuf) -> Result<Content, ArrangementError> {
        if !self.is_other_user {
            return Ok(Content::File(path));
        }
        std::fs::read(&path).map(Content::Bytes).map_err(|error| unreadable(&path, &error))
    }
}

impl Call {
    /// Prepares the call of a module with these arguments.
    pub(crate) fn new(
        module: &ModuleName,
        args: Map<String, Value>,
        facts: &Facts<'_>,
    ) -> Result<Call, ArrangementError> {
        let mut call = Call {
            module: module.clone(),
            args,
            source: None,
            tree: Vec::new(),
            creates: None,
            remarks: Vec::new(),
            is_complete: true,
        };
        match module.as_builtin().unwrap_or_default() {
            "command" => call.name_command(),
            "shell" => call.use_shell(),
            "script" => call.bring_script(facts)?,
            "service" => call.choose_service(facts.init_system),
            "package" => call.choose_package_manager(facts),
            "dnf" | "yum" => call.choose_dnf(facts),
            "copy" => call.bring_file(facts)?,
            "template" => call.render(facts)?,
            "assemble" => call.take_from_here(facts)?,
            "unarchive" => call.unpack(facts)?,
            _ if READ_SOURCE.contains(&module.to_string().as_str()) => call.take_from_here(facts)?,
            _ => call.is_complete = false,
        }
        Ok(call)
    }

    /// Returns the modules to run in their order.
    pub(crate) fn steps(&self) -> Vec<Step> {
        match self.tree.is_empty() {
            true => {
                vec![Step { module: self.module.clone(), args: self.args.clone(), source: self.source.clone() }]
            }
            false => self.tree.clone(),
        }
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

    /// Returns a boolean argument in any of the notations of Ansible.
    fn take_truth(&mut self, name: &str, default: bool) -> bool {
        match self.args.remove(name) {
            Some(Value::Bool(truth)) => truth,
            Some(Value::String(text)) => {
                matches!(text.to_lowercase().as_str(), "y" | "yes" | "on" | "1" | "true" | "t" | "1.0")
            }
            Some(Value::Number(number)) => number.as_f64() == Some(1.0),
            _ => default,
        }
    }

    /// Provides the file on this machine, from content in the definition or a local path. As in Ansible, the module
    /// moves a temporary file to its destination, so that the mode of the original does not matter.
    fn bring_file(&mut self, facts: &Facts<'_>) -> Result<(), ArrangementError> {
        self.take_truth("decrypt", true);
        if let Some(content) = self.args.remove("content").filter(|content| !content.is_null()) {
            self.args.remove("remote_src");
            let text = match content {
                Value::String(text) => text,
                Value::Bool(truth) => if truth { "True" } else { "False" }.to_owned(),
                // As Python's serializer writes it.
                other => python_json(&other),
            };
            return self.bring(Content::Bytes(text.into_bytes()), None);
        }
        if self.take_truth("remote_src", false) {
            self.args.insert("remote_src".to_owned(), true.into());
            return Ok(());
        }
        let local_follow = self.take_truth("local_follow", true);
        let written = self.take_text("src").ok_or(ArrangementError::Missing { name: "src" })?;
        let path = facts.find(&written, "files")?;
        if path.is_dir() && (local_follow || !path.is_symlink()) {
            return self.bring_tree(&path, written.ends_with('/'), local_follow, facts);
        }
        if self.args.get("mode").is_some_and(|mode| mode == "preserve") {
            self.args.insert("mode".to_owned(), mode_of(&path)?.into());
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        self.bring(facts.content_of(path)?, name)
    }

    /// Has the module copy a content.
    fn bring(&mut self, content: Content, name: Option<String>) -> Result<(), ArrangementError> {
        let dest = self.args.get("dest").and_then(Value::as_str).unwrap_or_default();
        match name {
            None if dest.ends_with('/') || Path::new(dest).is_dir() => {
                return Err(ArrangementError::ContentForDirectory { dest: dest.to_owned() });
            }
            None => {}
            Some(name) => {
                self.args.insert("_original_basename".to_owned(), name.into());
            }
        }
        self.become_builtin("copy");
        self.source = Some(Source::new(content));
        Ok(())
    }

    /// Copies a directory as Ansible's controller does: each file with `mode`, each directory with `directory_mode`.
    fn bring_tree(
        &mut self,
        top: &Path,
        only_content: bool,
        follow: bool,
        facts: &Facts<'_>,
    ) -> Result<(), ArrangementError> {
        let mut dest = self.take_text("dest").ok_or(ArrangementError::Missing { name: "dest" })?;
        if !dest.ends_with('/') {
            dest.push('/');
        }
        let prefix = top.file_name().filter(|_| !only_content).map(PathBuf::from).unwrap_or_default();
        let mut tree = TreeWalk::default();
        tree.walk(top, &prefix, &mut Vec::new(), follow)?;
        let preserves = self.args.get("mode").is_some_and(|mode| mode == "preserve");
        let has_directories = !tree.directories.is_empty();
        for (from, name) in tree.files {
            let mut args = self.args.clone();
            if preserves {
                args.insert("mode".to_owned(), mode_of(&from)?.into());
            }
            args.insert("dest".to_owned(), dest.clone().into());
            args.insert("_original_basename".to_owned(), name.display().to_string().into());
            if has_directories {
                args.insert("follow".to_owned(), false.into());
            }
            let source = Some(Source::new(facts.content_of(from)?));
            self.tree.push(Step { module: ModuleName::builtin("copy"), args, source });
        }
        for name in tree.directories {
            let mut args = self.file_args(&dest, &name, "directory");
            args.remove("mode");
            args.insert("recurse".to_owned(), false.into());
            if let Some(mode) = self.args.get("directory_mode") {
                args.insert("mode".to_owned(), mode.clone());
            }
            self.tree.push(Step { module: ModuleName::builtin("file"), args, source: None });
        }
        for (target, name) in tree.links {
            let mut args = self.file_args(&dest, &name, "link");
            args.insert("src".to_owned(), target.display().to_string().into());
            args.insert("force".to_owned(), true.into());
            if preserves {
                args.remove("mode");
            }
            if has_directories {
                args.insert("follow".to_owned(), false.into());
            }
            self.tree.push(Step { module: ModuleName::builtin("file"), args, source: None });
        }
        if self.tree.is_empty() {
            // An empty directory is not copied.
            self.creates = Some(top.to_owned());
        }
        Ok(())
    }

    fn file_args(&self, dest: &str, name: &Path, state: &str) -> Map<String, Value> {
        let kept = self.args.iter().filter(|(name, _)| FILE_ARGS.contains(&name.as_str()));
        let mut args: Map<String, Value> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        args.insert("path".to_owned(), format!("{dest}{}", name.display()).into());
        args.insert("state".to_owned(), state.into());
        args
    }

    /// Renders a template with Ansible's own filters, and copies the result.
    fn render(&mut self, facts: &Facts<'_>) -> Result<(), ArrangementError> {
        if let Some(name) = NOT_FOR_TEMPLATES.iter().find(|name| self.args.contains_key(**name)) {
            return Err(ArrangementError::TemplateOption { name });
        }
        let written = self.take_text("src").ok_or(ArrangementError::Missing { name: "src" })?;
        let path = facts.find(&written, "templates")?;
        let text = std::fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let (trims, lstrips) = (self.take_truth("trim_blocks", true), self.take_truth("lstrip_blocks", false));
        if self.args.get("mode").is_some_and(|mode| mode == "preserve") {
            self.args.insert("mode".to_owned(), mode_of(&path)?.into());
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        self.bring(Content::Template { text, folder, trims, lstrips }, name)
    }

    /// Has a command run a local script.
    fn bring_script(&mut self, facts: &Facts<'_>) -> Result<(), ArrangementError> {
        self.name_command();
        let words = self.take_text("_raw_params").ok_or(ArrangementError::Missing { name: "cmd" })?;
        let (script, arguments) = words.split_once(char::is_whitespace).unwrap_or((&words, ""));
        let path = facts.find(script, "files")?;
        let executable = self.take_text("executable").map(|program| program + " ").unwrap_or_default();
        self.args.insert("_raw_params".to_owned(), format!("{executable}{SOURCE} {arguments}").trim().into());
        self.use_shell();
        let content = facts.content_of(path)?;
        self.source = Some(Source { content, argument: "_raw_params", mode: Some(0o700) });
        Ok(())
    }

    fn unpack(&mut self, facts: &Facts<'_>) -> Result<(), ArrangementError> {
        self.args.remove("copy");
        self.creates = self.take_text("creates").map(PathBuf::from);
        self.take_from_here(facts)
    }

    /// Files on Ansible's controller are on this machine as well. Without `remote_src`, modules would move them.
    fn take_from_here(&mut self, facts: &Facts<'_>) -> Result<(), ArrangementError> {
        self.args.remove("decrypt");
        let is_here = self.take_truth("remote_src", false);
        let written = self.args.get("src").and_then(Value::as_str).map(str::to_owned);
        if self.module.as_builtin() != Some("uri") {
            self.args.insert("remote_src".to_owned(), true.into());
        }
        if let Some(source) = written.filter(|source| !is_here && !source.contains("://")) {
            let path = facts.find(&source, "files")?;
            if facts.is_other_user && path.is_file() {
                self.source = Some(Source::new(facts.content_of(path)?));
                self.args.remove("src");
            } else {
                self.args.insert("src".to_owned(), path.display().to_string().into());
            }
        }
        Ok(())
    }
}

/// The files of a directory to be copied, with their paths below it.
#[derive(Default)]
struct TreeWalk {
    files: Vec<(PathBuf, PathBuf)>,
    directories: Vec<PathBuf>,
    links: Vec<(PathBuf, PathBuf)>,
}

impl TreeWalk {
    /// Adds what is in a directory. Symlinks to directories that are being walked are never followed.
    fn walk(
        &mut self,
        folder: &Path,
        name: &Path,
        above: &mut Vec<(u64, u64)>,
        follow: bool,
    ) -> Result<(), ArrangementError> {
        let metadata = std::fs::metadata(folder).map_err(|error| unreadable(folder, &error))?;
        above.push((metadata.dev(), metadata.ino()));
        let entries = std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let below = name.join(path.file_name().unwrap_or_default());
            let target = std::fs::metadata(&path).ok();
            let is_above = target.as_ref().is_some_and(|found| above.contains(&(found.dev(), found.ino())));
            match target {
                Some(found) if found.is_dir() && !is_above && (follow || !path.is_symlink()) => {
                    self.directories.push(below.clone());
                    self.walk(&path, &below, above, follow)?;
                }
                Some(found) if found.is_file() && (follow || !path.is_symlink()) => self.files.push((path, below)),
                _ if path.is_symlink() => {
                    let target = std::fs::read_link(&path).map_err(|error| unreadable(&path, &error))?;
                    self.links.push((target, below));
                }
                // Ansible fails for other kinds of files.
                _ => self.files.push((path, below)),
            }
        }
        above.pop();
        Ok(())
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> ArrangementError {
    ArrangementError::Unreadable { path: path.display().to_string(), reason: holo_change::error::reason(error) }
}

fn mode_of(path: &Path) -> Result<String, ArrangementError> {
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    Ok(format!("0{:03o}", metadata.mode() & 0o7777))
}

/// Returns JSON as Python writes it: with a blank after each comma and colon, and only in ASCII.
fn python_json(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(python_json).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                format!("{}: {}", python_json(&Value::from(name.as_str())), python_json(value))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => format!("\"{}\"", holo_bridge::escaped(text, true)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn arranged(module: &str, args: &Value, init_system: &str, package_manager: &str, has_dnf_5: bool) -> Call {
        let files = PathBuf::from("/usr/share/holo/ansible");
        let facts = Facts { init_system, package_manager, has_dnf_5, files: files.into(), is_other_user: false };
        Call::new(&ModuleName::parse(module).unwrap(), attributes(args), &facts).unwrap()
    }

    fn attributes(args: &Value) -> Map<String, Value> {
        args.as_object().unwrap().clone()
    }

    /// Returns the call in a directory of definitions.
    fn below(folder: &Path, module: &str, args: &Value, is_other_user: bool) -> Result<Call, String> {
        let files = folder.to_owned().into();
        let facts = Facts { init_system: "", package_manager: "", has_dnf_5: false, files, is_other_user };
        let call = Call::new(&ModuleName::parse(module).unwrap(), attributes(args), &facts);
        call.map_err(|error| error.to_string().replace(&folder.display().to_string(), "HERE"))
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
    fn sources_are_found_beside_the_definitions() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        std::fs::create_dir(here.join("files")).unwrap();
        std::fs::write(here.join("files/a"), "hello").unwrap();
        let copy = |src: &str, more: Value| {
            let mut args = json!({"src": src, "dest": "/b", "decrypt": false});
            args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            below(here, "copy", &args, false)
        };
        for src in ["a", "files/a"] {
            let call = copy(src, json!({"remote_src": "no"})).unwrap();
            assert_eq!(Value::Object(call.args), json!({"dest": "/b", "_original_basename": "a"}), "{src}");
            assert_eq!(call.source, Some(Source::new(Content::File(here.join("files/a")))));
        }
        assert_eq!(copy("b", json!({})).unwrap_err(), "there is no b in HERE/files");
        let call = copy("b", json!({"remote_src": true})).unwrap();
        assert_eq!(Value::Object(call.args), json!({"src": "b", "dest": "/b", "remote_src": true}));
        let script = below(here, "script", &json!({"cmd": "a --x 'y z'", "executable": "/bin/sh"}), true).unwrap();
        assert_eq!(Value::Object(script.args), json!({"_raw_params": "/bin/sh \u{0} --x 'y z'", "_uses_shell": true}));
        let content = Content::Bytes(b"hello".to_vec());
        assert_eq!(script.source, Some(Source { content, argument: "_raw_params", mode: Some(0o700) }));
        let patch = below(here, "ansible.posix.patch", &json!({"src": "a"}), false).unwrap();
        assert_eq!(patch.args.get("src"), Some(&json!(here.join("files/a"))));
        let url = json!({"src": "https://example.org/a.tar", "copy": true, "creates": "/x"});
        let call = below(here, "unarchive", &url, false).unwrap();
        assert_eq!(Value::Object(call.args), json!({"src": "https://example.org/a.tar", "remote_src": true}));
        assert_eq!(call.creates, Some("/x".into()));
    }

    #[test]
    fn a_tree_is_copied_file_by_file() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        std::fs::create_dir_all(here.join("files/top/deep")).unwrap();
        std::fs::write(here.join("files/top/deep/a"), "").unwrap();
        std::fs::write(here.join("files/top/b"), "").unwrap();
        std::os::unix::fs::symlink("..", here.join("files/top/deep/up")).unwrap();
        let steps = |src: &str| {
            let args = json!({"src": src, "dest": "/d", "mode": "0600", "directory_mode": "0700", "owner": "x"});
            let steps = below(here, "copy", &args, false).unwrap().steps();
            let shown = |step: Step| {
                let path = step.args.get("_original_basename").or_else(|| step.args.get("path")).cloned().unwrap();
                (step.module.to_string(), path.as_str().unwrap().to_owned(), step.args["mode"].clone())
            };
            steps.into_iter().map(shown).collect::<Vec<_>>()
        };
        let step =
            |module: &str, path: &str, mode: &str| (format!("ansible.builtin.{module}"), path.to_owned(), json!(mode));
        let expected = [
            step("copy", "top/b", "0600"),
            step("copy", "top/deep/a", "0600"),
            step("file", "/d/top/deep", "0700"),
            step("file", "/d/top/deep/up", "0600"),
        ];
        assert_eq!(steps("top"), expected);
        assert_eq!(steps("top/")[1], step("copy", "deep/a", "0600"));
        // Another user may not be able to read them.
        let steps = below(here, "copy", &json!({"src": "top", "dest": "/d"}), true).unwrap().steps();
        let contents: Vec<Content> = steps.into_iter().filter_map(|step| Some(step.source?.content)).collect();
        assert_eq!(contents, [Content::Bytes(Vec::new()), Content::Bytes(Vec::new())]);
    }

    #[test]
    fn the_body_of_a_request_is_a_local_file() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        std::fs::create_dir(here.join("files")).unwrap();
        std::fs::write(here.join("files/a"), "x").unwrap();
        let args = json!({"url": "http://localhost", "src": "a"});
        let own = below(here, "uri", &args, false).unwrap();
        let path = here.join("files/a").display().to_string();
        assert_eq!(Value::Object(own.args), json!({"url": "http://localhost", "src": path}));
        let other = below(here, "uri", &args, true).unwrap();
        assert_eq!(other.source, Some(Source::new(Content::Bytes(b"x".to_vec()))));
        assert!(other.args.get("src").is_none(), "{:?}", other.args);
        let remote = json!({"url": "http://localhost", "src": "a", "remote_src": true});
        assert_eq!(below(here, "uri", &remote, false).unwrap().args["src"], "a");
        assert_eq!(below(here, "uri", &json!({"src": "b"}), false).err().unwrap(), "there is no b in HERE/files");
    }

    #[test]
    fn content_becomes_a_file() {
        let call = |args: &Value| below(Path::new("/nowhere"), "copy", args, false);
        let content = json!({"content": {"a": ["ä", 1]}, "dest": "/b", "remote_src": true});
        let content = call(&content).unwrap();
        assert_eq!(Value::Object(content.args), json!({"dest": "/b"}));
        let json = b"{\"a\": [\"\\u00e4\", 1]}".to_vec();
        assert_eq!(content.source, Some(Source::new(Content::Bytes(json))));
        let content = call(&json!({"content": true, "dest": "/b"})).unwrap();
        assert_eq!(content.source, Some(Source::new(Content::Bytes(b"True".to_vec()))));
        for dest in ["/etc", "/b/", "/usr"] {
            let refused = call(&json!({"content": "x", "dest": dest})).unwrap_err();
            assert_eq!(refused, format!("cannot use content when dest is a directory: {dest}"));
        }
    }

    #[test]
    fn other_modules_get_what_is_written() {
        let args = json!({"src": "a", "use": "b", "cmd": "c", "content": "d"});
        assert_eq!(call("local.test.copy", &args), ("local.test.copy".to_owned(), args.clone()));
        assert!(!arranged("local.test.copy", &args, "", "", false).is_complete);
    }
}
