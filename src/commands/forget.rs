//! `holo forget`: the way out for an orphan that cannot be scrubbed, or shall stay as it is.

use super::{Context, apply};
use crate::cli::{Apply, Forget, Output, Selection};
use crate::error::FatalError;

pub(super) fn run(arguments: &Forget, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let &Forget { keep: _, restore, output: Output { json }, ref entities } = arguments;
    let selection = Selection { selectors: entities.clone() };
    apply::run(
        &Apply { forgets: true, force: restore, output: Output { json }, selection, ..Apply::default() },
        context,
    )
}
