//! `holo rollback`

use super::{Context, apply};
use crate::cli::{Apply, Output, Rollback};
use crate::error::{FatalError, exit};
use crate::generations::{Generation, Pin, Store};
use crate::host::cache::CacheDirectory;
use crate::host::lock;
use crate::report::table::Cell;
use crate::report::{Event, Remarks, Reporter, Severity};
use bstr::ByteSlice;

/// The number of paths that are listed.
const NAMED: usize = 10;

pub(super) fn run(arguments: &Rollback, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = &mut *context;
    let root = settings.root.clone();
    if !arguments.dry_run {
        lock::wait_for_survivors(&root.lock(), interrupt, |survivors| {
            reporter.warning(format!("Waiting: {survivors}"));
            reporter.end_paragraph();
        })?;
    }
    if arguments.release {
        return release(context);
    }
    let store = Store::new(&root);
    let number = match arguments.generation {
        Some(number) => number,
        None => {
            let pin = Pin::read(&root).map_err(FatalError::could_not_run)?;
            store.before(pin.map(|pin| pin.generation)).map_err(FatalError::could_not_run)?
        }
    };
    let generation = store.generation(number).map_err(FatalError::could_not_run)?;
    // Must outlive the use of its inputs.
    let cache;
    if arguments.dry_run {
        cache = CacheDirectory::create(&settings.temporary_directory)?;
        let directory = cache.path().join("inputs");
        store.check_out(&generation, &root, &directory).map_err(FatalError::could_not_run)?;
        settings.root = root.with_inputs(directory, None);
        let time = Cell::Time(generation.time).for_people();
        say(format!("generation {number} of {time} would be used until `holo rollback --release`"), *reporter);
    } else {
        let lock = apply::acquire(&root.lock(), *reporter)?;
        Pin::set(&root, &store, number, settings.run.as_str()).map_err(FatalError::could_not_run)?;
        drop(lock);
        super::use_pinned(&mut context.settings, context.reporter)?;
    }
    name_not_kept(&generation, context.reporter);
    apply::run(&as_apply(arguments), context)
}

fn say(text: impl AsRef<str>, reporter: &mut dyn Reporter) {
    reporter.event(Event::Aside(Severity::Warning, text.as_ref()));
}

/// Returns to the current inputs. Does not apply them, because the user may want to see a preview first.
fn release(context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, reporter, .. } = context;
    let root = &settings.root;
    // A damaged pin does not tell its generation.
    let number = Pin::read(root).ok().flatten().map(|pin| pin.generation);
    let _lock = apply::acquire(&root.lock(), *reporter)?;
    let released = Pin::release(root).map_err(FatalError::could_not_run)?;
    let text = match (released, number) {
        (true, Some(number)) => format!("generation {number} is not used any more: `holo apply` uses today's inputs"),
        (true, None) => "no generation is used any more: `holo apply` uses today's inputs".to_owned(),
        (false, _) => "no generation is used: `holo apply` uses today's inputs".to_owned(),
    };
    say(text, *reporter);
    Ok(exit::DONE)
}

/// Lists the files that the inputs refer to and that are not part of the generation, so that the current ones are used.
fn name_not_kept(Generation { number, not_kept, .. }: &Generation, reporter: &mut dyn Reporter) {
    if not_kept.is_empty() {
        return;
    }
    let names = not_kept.iter().take(NAMED).map(|path| path.as_bstr().to_str_lossy());
    let more = if not_kept.len() > NAMED { ", …" } else { "" };
    let names = names.collect::<Vec<_>>().join(", ");
    say(format!("not kept with generation {number}, and used as it is today: {names}{more}"), reporter);
}

fn as_apply(&Rollback { dry_run, diff, force, output: Output { json }, .. }: &Rollback) -> Apply {
    Apply { force, dry_run, diff, output: Output { json }, ..Apply::default() }
}
