//! Reads a description into a [`Package`]. Every mistake becomes a finding, so that all of them are shown at once.

mod attributes;
mod values;

use crate::content::Contents;
use crate::findings::{Finding, Findings};
use crate::format::{Format, Version};
use crate::package::{Kind, Node, Nodes, Origin, Owner, Package, RESOURCES, Trigger};
use crate::pacman;
use crate::relation::Relation;
use crate::tables::{
    self, ActionTable, DirectoryTable, FileTable, PackageTable, SymlinkTable, Table, TriggerTable, When,
};
use holo_definitions::reading;
use holo_process::words::reason;
use std::fs::File;
use std::io;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// A description to read, and what its package is made for.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// The name of the description in messages.
    pub name: &'a str,
    /// The content of the description.
    pub text: &'a [u8],
    /// The directory to which paths in the description are relative.
    pub directory: &'a Path,
    /// The format of the package.
    pub format: Format,
    /// The root directory whose sync databases of pacman are used.
    pub root: &'a Path,
    /// The time of all files, in seconds since 1970.
    pub time: u32,
}

impl Source<'_> {
    /// Reads the description. There is a package if no finding is an error.
    ///
    /// # Errors
    /// If the contents of the files cannot be stored temporarily.
    pub fn read(&self) -> io::Result<(Option<Package>, Vec<Finding>)> {
        let text = match std::str::from_utf8(self.text) {
            Ok(text) => text,
            Err(error) => {
                let line = 1 + self.text.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count();
                let mut findings = Findings::new(self.name, "");
                findings.error(line, "is not UTF-8");
                return Ok((None, findings.into_sorted()));
            }
        };
        let mut findings = Findings::new(self.name, text);
        let root = match DeTable::parse(text) {
            Ok(root) => root,
            Err(error) => {
                let (message, offset) = reading::syntax(text, &error);
                findings.error(findings.line(&(offset..offset)), message);
                return Ok((None, findings.into_sorted()));
            }
        };
        let mut reader = Reader {
            source: self,
            findings,
            nodes: Nodes::default(),
            contents: Contents::new()?,
            actions: Vec::new(),
            triggers: Vec::new(),
        };
        let table = reader.package_table(root.get_ref());
        let name = reader.name(&table);
        let version = reader.version(&table);
        let changes = reader.changes(&table, name.as_deref(), version.as_ref())?;
        reader.nodes(text, root.get_ref(), &table)?;
        let (package, findings) = reader.finish(&table, name.zip(version), changes);
        let package = package.filter(|_| !findings.has_errors());
        Ok((package, findings.into_sorted()))
    }
}

struct Reader<'a> {
    source: &'a Source<'a>,
    findings: Findings,
    nodes: Nodes,
    contents: Contents,
    /// The scripts of actions in their order.
    actions: Vec<(When, String)>,
    triggers: Vec<Trigger>,
}

/// The default mode of files and directories.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

impl Reader<'_> {
    fn package_table(&mut self, root: &DeTable<'_>) -> Table<PackageTable> {
        tables::note_unknown(root, &mut self.findings);
        let values = tables::entries(root, "package");
        let Some(value) = values.first() else {
            self.findings.error(None, "[package] is missing");
            return Table::absent();
        };
        let line = self.findings.line(&value.span());
        for other in values.iter().skip(1) {
            let text = format!("package: is declared twice (see line {line})");
            self.findings.error(self.findings.line(&other.span()), text);
        }
        match value.get_ref() {
            DeValue::Table(table) => tables::read(table, line, &mut self.findings),
            other => {
                let text = format!("package: expected [package], found {}", reading::kind(other));
                self.findings.error(line, text);
                Table::absent()
            }
        }
    }

    /// Reads everything that is installed, and the actions.
    fn nodes(&mut self, text: &str, root: &DeTable<'_>, package: &Table<PackageTable>) -> io::Result<()> {
        self.files(root)?;
        self.directories(root);
        self.symlinks(root);
        self.accounts(text, root, package)?;
        self.triggers(root, package)?;
        self.tree(package)?;
        self.actions(root, package);
        for (line, error) in self.nodes.complete() {
            self.findings.error(line, error);
        }
        if self.source.format == Format::Pacman {
            for (path, line) in self.nodes.hidden_in_root() {
                let text = format!("/{path}: pacman installs nothing at paths that begin with /.");
                self.findings.error(line, text);
            }
        }
        Ok(())
    }

    fn files(&mut self, root: &DeTable<'_>) -> io::Result<()> {
        for (table, line) in tables::list(root, "file", &mut self.findings) {
            let table = tables::read::<FileTable>(table, line, &mut self.findings);
            let path = self.path(&table, table.value.path.as_deref());
            let mode = self.mode(&table, table.value.mode.as_deref(), FILE_MODE);
            let owner = self.account(&table, "owner", table.value.owner.as_ref());
            let group = self.account(&table, "group", table.value.group.as_ref());
            let content = self.content(&table)?;
            let is_lost = table.value.config && path.as_ref().is_some_and(|path| path.ends_with(' '));
            if is_lost && self.source.format == Format::Debian {
                let text = "config: dpkg knows no configuration files whose paths end with a blank";
                self.findings.error(table.line_of("config"), text);
            }
            let line = table.line_of("content");
            if let (Some(path), Some(content)) = (path, content) {
                let kind = Kind::File { content, is_config: table.value.config };
                self.add(path, Node { kind, mode, owner, group, origin: Origin::Line(line) });
            }
        }
        Ok(())
    }

    /// Stores the content of a file. Returns `None` if it has none.
    fn content(&mut self, table: &Table<FileTable>) -> io::Result<Option<crate::content::Content>> {
        match (&table.value.content, &table.value.content_from) {
            (Some(_), Some(_)) => {
                let text = "contentFrom: excludes content; remove one of them";
                self.findings.error(table.line_of("contentFrom"), text);
            }
            (Some(content), None) if content.is_empty() => {
                self.findings.error(table.line_of("content"), "content: is empty");
            }
            (Some(content), None) => {
                let content = if table.value.raw { content.clone() } else { values::without_indentation(content) };
                return Ok(self.contents.add(&mut content.as_bytes())?.ok());
            }
            (None, Some(from)) => {
                let path = self.source.directory.join(from);
                let opened = match path.metadata() {
                    Ok(metadata) if !metadata.is_file() => Err("it is not a file".to_owned()),
                    Ok(_) => File::open(&path).map_err(|error| reason(&error)),
                    Err(error) => Err(reason(&error)),
                };
                let read = match opened {
                    Ok(mut file) => self.contents.add(&mut file)?.map_err(|error| reason(&error)),
                    Err(why) => Err(why),
                };
                match read {
                    Ok(content) => return Ok(Some(content)),
                    Err(why) => {
                        let text = format!("contentFrom: read {}: {why}", path.display());
                        self.findings.error(table.line_of("contentFrom"), text);
                    }
                }
            }
            (None, None) => table.missing("content", &mut self.findings),
        }
        Ok(None)
    }

    fn directories(&mut self, root: &DeTable<'_>) {
        for (table, line) in tables::list(root, "directory", &mut self.findings) {
            let table = tables::read::<DirectoryTable>(table, line, &mut self.findings);
            let path = self.path(&table, table.value.path.as_deref());
            let mode = self.mode(&table, table.value.mode.as_deref(), DIRECTORY_MODE);
            let owner = self.account(&table, "owner", table.value.owner.as_ref());
            let group = self.account(&table, "group", table.value.group.as_ref());
            if let Some(path) = path {
                self.add(path, Node { kind: Kind::Directory, mode, owner, group, origin: Origin::Line(line) });
            }
        }
    }

    fn symlinks(&mut self, root: &DeTable<'_>) {
        for (table, line) in tables::list(root, "symlink", &mut self.findings) {
            let table = tables::read::<SymlinkTable>(table, line, &mut self.findings);
            let path = self.path(&table, table.value.path.as_deref());
            let target = table.value.target.as_deref();
            match target.map(values::symlink_target) {
                Some(Ok(target)) => {
                    let kind = Kind::Symlink { target };
                    let node = Node { kind, mode: 0o777, ..Node::directory(Origin::Line(line)) };
                    path.into_iter().for_each(|path| self.add(path, node.clone()));
                }
                Some(Err(error)) => self.findings.error(table.line_of("target"), format!("target: {error}")),
                None => table.missing("target", &mut self.findings),
            }
        }
    }

    fn add(&mut self, path: String, node: Node) {
        let line = node.origin.line();
        if let Err(error) = self.nodes.add(path, node) {
            self.findings.error(line, error);
        }
    }

    /// Checks the path of a node, and returns it without the leading slash.
    fn path<T>(&mut self, table: &Table<T>, path: Option<&str>) -> Option<String> {
        match path.map(values::path) {
            Some(Ok(path)) => Some(path),
            Some(Err(error)) => {
                self.findings.error(table.line_of("path"), format!("path: {error}"));
                None
            }
            None => {
                table.missing("path", &mut self.findings);
                None
            }
        }
    }

    fn mode<T>(&mut self, table: &Table<T>, mode: Option<&str>, default: u32) -> u32 {
        mode.map_or(Ok(default), |mode| holo_definitions::values::mode("mode", mode)).unwrap_or_else(|error| {
            self.findings.error(table.line_of("mode"), error);
            default
        })
    }

    fn account<T>(&mut self, table: &Table<T>, key: &'static str, value: Option<&tables::AccountValue>) -> Owner {
        match value.map(|value| values::account(key, value)).transpose() {
            Ok(owner) => owner.unwrap_or(Owner::ROOT),
            Err(error) => {
                self.findings.error(table.line_of(key), format!("{key}: {error}"));
                Owner::ROOT
            }
        }
    }

    /// Checks the users and groups, and adds their definitions as a file.
    fn accounts(&mut self, text: &str, root: &DeTable<'_>, package: &Table<PackageTable>) -> io::Result<()> {
        if let Some(path) = &package.value.definition_file {
            let line = package.line_of("definitionFile");
            self.findings
                .warning(line, "definitionFile: is deprecated; the file has the name of the package by default");
            if let Err(error) = values::path(path) {
                self.findings.error(line, format!("definitionFile: {error}"));
            }
        }
        let mut definitions = String::new();
        let mut first_line = None;
        for kind in ["group", "user"] {
            for (_, line) in tables::list(root, kind, &mut self.findings) {
                first_line.get_or_insert(line);
            }
            let values = tables::entries(root, kind).into_iter();
            for mut table in values.flat_map(|value| reading::read_value::<Vec<toml::Table>>(value).unwrap_or_default())
            {
                table.retain(|key, _| holo_users_groups::has_key(kind, key));
                definitions += &format!("{}[[{kind}]]\n{table}", if definitions.is_empty() { "" } else { "\n" });
            }
        }
        let Some(line) = first_line else { return Ok(()) };
        for finding in holo_users_groups::check_definitions(text) {
            let line = finding.line.or(Some(line));
            if finding.is_error {
                self.findings.error(line, finding.text);
            } else {
                self.findings.warning(line, finding.text);
            }
        }
        let path = match &package.value.definition_file {
            Some(path) => values::path(path).ok(),
            None => package.value.name.as_ref().map(|name| format!("{RESOURCES}users-groups/{name}.toml")),
        };
        let Some(path) = path else { return Ok(()) };
        if values::path(&format!("/{path}")).is_ok()
            && let Ok(content) = self.contents.add(&mut definitions.as_bytes())?
        {
            let kind = Kind::File { content, is_config: false };
            self.add(path, Node { kind, mode: FILE_MODE, ..Node::directory(Origin::Line(line)) });
        }
        Ok(())
    }

    fn actions(&mut self, root: &DeTable<'_>, package: &Table<PackageTable>) {
        let deprecated = [
            ("setupScript", "setup", &package.value.setup_script, When::Setup),
            ("cleanupScript", "cleanup", &package.value.cleanup_script, When::Cleanup),
        ];
        for (key, on, script, when) in deprecated {
            let Some(script) = script else { continue };
            let line = package.line_of(key);
            self.findings.warning(line, format!("{key}: is deprecated; use [[action]] with on = \"{on}\""));
            match values::script(script) {
                Ok(script) => self.actions.extend(script.map(|script| (when, script))),
                Err(error) => self.findings.error(line, format!("{key}: {error}")),
            }
        }
        for (table, line) in tables::list(root, "action", &mut self.findings) {
            let table = tables::read::<ActionTable>(table, line, &mut self.findings);
            if table.value.on.is_none() {
                table.missing("on", &mut self.findings);
            }
            let script = self.script(&table, table.value.script.as_deref());
            self.actions.extend(table.value.on.zip(script));
        }
    }

    /// Checks the script of an action or trigger.
    fn script<T>(&mut self, table: &Table<T>, script: Option<&str>) -> Option<String> {
        match script.map(values::script) {
            Some(Ok(Some(script))) => return Some(script),
            Some(Ok(None)) => self.findings.error(table.line_of("script"), "script: is empty"),
            Some(Err(error)) => self.findings.error(table.line_of("script"), format!("script: {error}")),
            None => table.missing("script", &mut self.findings),
        }
        None
    }

    /// Returns the scripts of all actions on an occasion.
    fn actions_on(&self, when: When) -> String {
        self.actions.iter().filter(|(on, _)| *on == when).map(|(_, script)| script.as_str()).collect()
    }

    /// Reads the triggers. For pacman, they are files.
    fn triggers(&mut self, root: &DeTable<'_>, package: &Table<PackageTable>) -> io::Result<()> {
        let mut lines = Vec::new();
        for (table, line) in tables::list(root, "trigger", &mut self.findings) {
            let table = tables::read::<TriggerTable>(table, line, &mut self.findings);
            let path = self.path(&table, table.value.path.as_deref()).map(|path| format!("/{path}"));
            let script = self.script(&table, table.value.script.as_deref());
            if let Some(Err(error)) = path.as_ref().map(|path| values::trigger(path, self.source.format)) {
                self.findings.error(table.line_of("path"), format!("path: {error}"));
            }
            if let Some((path, script)) = path.zip(script) {
                self.triggers.push(Trigger { path, script });
                lines.push(line);
            }
        }
        let name = package.value.name.as_ref().filter(|name| self.source.format.check_name(name).is_ok());
        let Some(name) = name.filter(|_| self.source.format == Format::Pacman) else { return Ok(()) };
        // pacman runs hooks in the order of their names.
        let width = lines.len().to_string().len();
        let triggers = std::mem::take(&mut self.triggers);
        for (number, (trigger, line)) in triggers.iter().zip(&lines).enumerate() {
            let name = if lines.len() == 1 { name.clone() } else { format!("{name}-{:0width$}", number + 1) };
            for (path, mode, text) in pacman::hook(&name, trigger) {
                let Ok(content) = self.contents.add(&mut text.as_bytes())? else { continue };
                let kind = Kind::File { content, is_config: false };
                self.add(path, Node { kind, mode, ..Node::directory(Origin::Line(*line)) });
            }
        }
        self.triggers = triggers;
        Ok(())
    }

    /// Checks the attributes of the package and puts everything together.
    fn finish(
        mut self,
        table: &Table<PackageTable>,
        identity: Option<(String, Version)>,
        changes: Option<String>,
    ) -> (Option<Package>, Findings) {
        let format = self.source.format;
        let description = table.value.description.as_deref().unwrap_or_default();
        let description = values::description(description).unwrap_or_else(|error| {
            self.findings.error(table.line_of("description"), format!("description: {error}"));
            String::new()
        });
        let details = self.text(table, "details", table.value.details.as_ref(), values::text);
        let license = self.text(table, "license", table.value.license.as_ref(), values::line);
        let homepage = self.text(table, "homepage", table.value.homepage.as_ref(), values::homepage);
        self.author(table);
        let architecture = self.architecture(table);
        let mut groups = None;
        let mut relations = |key: &'static str, texts: &[String]| self.relations(table, key, texts, &mut groups);
        let mut requires = relations("requires", &table.value.requires);
        let provides = relations("provides", &table.value.provides);
        let conflicts = relations("conflicts", &table.value.conflicts);
        let replaces = relations("replaces", &table.value.replaces);
        let plugins = self.nodes.plugins();
        let apply = if plugins.is_empty() { "" } else { "holo apply\n" };
        // Files of data have no plugin.
        for (plugin, line) in plugins.into_iter().filter(|(plugin, _)| plugin != "data") {
            let needed = format!("holo-{plugin}");
            if let Err(error) = format.check_name(&needed) {
                self.findings.error(line, format!("the plugin {plugin} cannot be required: {error}"));
            }
            if requires.iter().all(|relation| relation.name != needed) {
                requires.push(Relation::named(needed));
            }
        }
        let ownership = self.nodes.ownership_script(format == Format::Rpm);
        let package = match (identity, architecture) {
            (Some((name, version)), Some(architecture)) => Some(Package {
                format,
                name,
                version,
                description,
                details,
                license,
                homepage,
                changes,
                author: table.value.author.clone(),
                architecture,
                requires,
                provides,
                conflicts,
                replaces,
                setup: format!("{apply}{ownership}{}", self.actions_on(When::Setup)),
                cleanup: format!("{apply}{}", self.actions_on(When::Cleanup)),
                removal: self.actions_on(When::Removal),
                purge: self.actions_on(When::Purge),
                triggers: self.triggers,
                nodes: self.nodes.into_inner(),
                contents: self.contents,
                time: self.source.time,
            }),
            _ => None,
        };
        (package, self.findings)
    }
}
