//! The operations whose answers are texts, with one process per operation.

use super::{Said, operate};
use crate::interrupt::Interrupt;
use crate::plugin::error::{OperationError, check_status};
use crate::plugin::{Adopted, Adoption, Identity};
use bstr::{BStr, ByteSlice};
use holo_protocol::environment as names;
use holo_protocol::session::Stream;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Returns the lines that list candidates.
pub(in crate::plugin) fn candidates(
    plugin: &Identity,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Vec<u8>, OperationError> {
    lines(plugin, vec![OsStr::new("adopt")], interrupt, on_output)
}

/// Returns the lines with the origins of a file's lines.
pub(in crate::plugin) fn blame(
    plugin: &Identity,
    id: &BStr,
    path: &Path,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Vec<u8>, OperationError> {
    let id = id.to_os_str_lossy();
    lines(plugin, vec![OsStr::new("blame"), &id, path.as_os_str()], interrupt, on_output)
}

/// Returns the output to file descriptor 3.
fn lines(
    plugin: &Identity,
    arguments: Vec<&OsStr>,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Vec<u8>, OperationError> {
    let mut said_on_3 = Vec::new();
    let ended = operate(plugin, arguments, Vec::new(), interrupt, &mut |said| match said {
        Said::Output(stream, bytes) => on_output(stream, bytes),
        Said::Message(bytes) => said_on_3.extend_from_slice(bytes),
        Said::Waiting => {}
    })?;
    check_status(ended.status)?;
    Ok(said_on_3)
}

pub(in crate::plugin) fn adopt(
    plugin: &Identity,
    adoption: Adoption<'_>,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Adopted, OperationError> {
    let Adoption { id, directory, resolved, with } = adoption;
    let id = id.to_os_str_lossy();
    let mut environment = vec![(names::ADOPT_DIR, directory.into())];
    environment.extend(resolved.map(|path| (names::ADOPT_RESOLVED, path.into())));
    let with = bstr::join("\n", with);
    environment.extend((!with.is_empty()).then(|| (names::ADOPT_WITH, OsString::from_vec(with))));
    let (mut definition, mut said_on_3) = (Vec::new(), Vec::new());
    let ended = operate(plugin, vec![OsStr::new("adopt"), &id], environment, interrupt, &mut |said| match said {
        Said::Output(Stream::Stdout, bytes) => definition.extend_from_slice(bytes),
        Said::Output(stream, bytes) => on_output(stream, bytes),
        Said::Message(bytes) => said_on_3.extend_from_slice(bytes),
        Said::Waiting => {}
    })?;
    check_status(ended.status)?;
    Ok(Adopted::new(Adopted::messages(&said_on_3), definition))
}
