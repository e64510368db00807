//! The main names of the units that records are about.

use crate::definition::Service;
use crate::provider::ServiceProvider;
use crate::record::Record;
use holo_change::base_store::Things;
use holo_plugin::definitions::Definition;
use holo_plugin::system::Root;

/// The main name of the unit that a record is about.
pub(crate) fn name_of(provider: &dyn ServiceProvider, root: &Root, record: &Record) -> String {
    match provider.unit_name(&record.unit) {
        Ok(name) => provider.main_name(root, &name).to_string(),
        Err(_) => record.unit.clone(),
    }
}

/// The units that records are about. Aliases are resolved as they are now.
pub(crate) fn things<'a>(name_of: &'a dyn Fn(&Record) -> String) -> Things<'a, Record> {
    Things { entity_type: Service::TABLE, name_of }
}
