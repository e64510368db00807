//! The main names of units in records.

use crate::definition::Service;
use crate::provider::ServiceProvider;
use crate::record::Record;
use crate::unit::{UnitName, UnitNameError};
use holo_change::base_store::Things;
use holo_plugin::definitions::Definition;
use holo_plugin::system::Root;

/// Returns the main name of the unit in a record.
///
/// # Errors
/// If the name is invalid.
pub(crate) fn main_name(
    provider: &dyn ServiceProvider,
    root: &Root,
    record: &Record,
) -> Result<UnitName, UnitNameError> {
    let name = provider.unit_name(&record.unit)?.in_scope(record.scope.clone());
    Ok(provider.main_name(root, &name))
}

/// Like `main_name`, but returns a name that is unique among all managers.
pub(crate) fn name_of(provider: &dyn ServiceProvider, root: &Root, record: &Record) -> String {
    main_name(provider, root, record).map_or_else(|_| record.scope.qualify(&record.unit), |name| name.qualified())
}

/// Returns the units in records, with aliases resolved.
pub(crate) fn things<'a>(name_of: &'a dyn Fn(&Record) -> String) -> Things<'a, Record> {
    Things { entity_type: Service::TABLE, name_of }
}
