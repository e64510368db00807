//! Finds the defined tasks and orphans.

use crate::definition::{self, PythonTable};
use crate::library::ModuleName;
use crate::record::{NoLog, Record};
use crate::task::{Defined, Origin, Shared, Task};
use holo_bridge::{Attributes, Sensitive, order};
use holo_change::base_store::{BaseStore, Remembered};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{self, Common};
use holo_plugin::{Entity, EntityReport, Host, Job, Output, Plugin, ScanError, SetAnswers};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The plugin.
#[derive(Debug, Default)]
pub(crate) struct Ansible {
    shared: Arc<Shared>,
}

impl Plugin for Ansible {
    type Entity = Declared<Task>;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Declared<Task>>, ScanError> {
        let (mut definitions, mut tables) = definitions::read_with::<definition::Task, PythonTable>(host, output);
        if tables.is_broken("") {
            // The error was reported already. Without the declaration, no task can be run.
            let ids: Vec<String> = definitions.valid.keys().cloned().collect();
            ids.iter().for_each(|id| drop(definitions.refuse(id, &[])));
        }
        let table = Arc::new(tables.valid.remove("").map(|(table, _)| table).unwrap_or_default());
        let mut kept = records(host, output)?;
        let no_log = NoLog::read(host);
        let mut tasks = Vec::new();
        for (id, defined) in std::mem::take(&mut definitions.valid) {
            // Validated with the definition.
            let Ok(module) = ModuleName::parse(&defined.definition.module) else { continue };
            let kept = kept.remove(&id);
            let task = self.task(id, module, defined.definition, &defined.common, kept, (&table, &no_log));
            tasks.push(Declared::new(task, defined.common));
        }
        for (id, remembered) in kept.into_iter().filter(|(id, _)| definitions.is_orphan(id)) {
            match self.orphan(remembered, &table) {
                Ok(task) => tasks.push(Declared::orphan(task)),
                Err(problem) => output.error(format!("cannot use what is remembered of {id}: {problem}")),
            }
        }
        Ok(tasks)
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, Declared<Task>>], answers: &mut dyn SetAnswers) {
        // All modules share a process, so they are treated as a single one.
        order::apply_by_module(host, set, |_| (), answers);
    }

    fn end(&self, _: &Host) {
        self.shared.runner.end();
    }
}

impl Ansible {
    fn task(
        &self,
        id: String,
        module: ModuleName,
        definition: definition::Task,
        common: &Common,
        kept: Option<Remembered<Record>>,
        (table, no_log): (&Arc<PythonTable>, &NoLog),
    ) -> Task {
        let options = definition.options();
        let definition::Task { args, check_mode, send, mut sensitive, scrub, refresh_only, .. } = definition;
        let mut computed = Attributes::default();
        options.expressions.iter().for_each(|(name, expression)| computed.insert(name, expression.as_str()));
        let arguments: Vec<&Attributes> =
            [Some(&args), scrub.as_ref(), Some(&computed)].into_iter().flatten().collect();
        sensitive.extend(no_log.names(&module.to_string(), &arguments));
        let timeout = common.keys.timeout;
        let hidden = Sensitive::new(&sensitive, [Some(&args), scrub.as_ref()].into_iter().flatten());
        let record = scrub.map(|scrub| Record::new(&module, scrub, &sensitive, timeout, options.clone()));
        let location = common.location_of("module").to_string();
        let full_report = EntityReport::new(id.as_str());
        let defined = Defined { location, check_mode, refresh_only, send, record, kept, full_report };
        let mut task = Task {
            id,
            module,
            args,
            sensitive: Mutex::new(hidden),
            options,
            timeout,
            table: Arc::clone(table),
            shared: Arc::clone(&self.shared),
            origin: Origin::Defined(Box::new(defined)),
        };
        let mut full_report = task.report();
        definitions::complete(common, &mut full_report);
        if let Origin::Defined(defined) = &mut task.origin {
            defined.full_report = full_report;
        }
        task
    }

    fn orphan(&self, remembered: Remembered<Record>, table: &Arc<PythonTable>) -> Result<Task, String> {
        let Record { scrub, sensitive, timeout, options, .. } = &remembered.base;
        Ok(Task {
            id: remembered.id.clone(),
            module: remembered.base.module()?,
            args: scrub.clone(),
            sensitive: Mutex::new(Sensitive::new(sensitive, [scrub])),
            options: options.clone(),
            timeout: *timeout,
            table: Arc::clone(table),
            shared: Arc::clone(&self.shared),
            origin: Origin::Orphan(Box::new(remembered)),
        })
    }
}

/// Reads the records of tasks; errors are reported.
fn records(host: &Host, output: &mut Output<'_>) -> Result<BTreeMap<String, Remembered<Record>>, ScanError> {
    let records = BaseStore::open(host.locations()).all(output);
    records.map_err(|error| {
        output.error(error.to_string());
        ScanError
    })
}
