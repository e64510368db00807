//! The main names of the units that records are about.

use crate::definition::Service;
use crate::provider::ServiceProvider;
use crate::record::Record;
use crate::unit::{UnitName, UnitNameError};
use holo_change::base_store::Things;
use holo_plugin::definitions::Definition;
use holo_plugin::system::Root;

/// The main name of the unit that a record is about.
///
/// # Errors
/// If that cannot be the name of a unit.
pub(crate) fn main_name(
    provider: &dyn ServiceProvider,
    root: &Root,
    record: &Record,
) -> Result<UnitName, UnitNameError> {
    let name = provider.unit_name(&record.unit)?.in_scope(record.scope.clone());
    Ok(provider.main_name(root, &name))
}

/// The same, as a name that no other unit has.
pub(crate) fn name_of(provider: &dyn ServiceProvider, root: &Root, record: &Record) -> String {
    main_name(provider, root, record).map_or_else(|_| record.scope.qualify(&record.unit), |name| name.qualified())
}

/// The units that records are about. Aliases are resolved as they are now.
pub(crate) fn things<'a>(name_of: &'a dyn Fn(&Record) -> String) -> Things<'a, Record> {
    Things { entity_type: Service::TABLE, name_of }
}
