//! `holo diff --pending`: shows only the differences that an apply would make.

use super::Context;
use crate::cli::Diff;
use crate::commands::check::{self, Preview};
use crate::error::FatalError;
use crate::report::{Event, Remarks, Reporter};

pub(super) fn run(arguments: &Diff, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let preview = Preview { differences: true, ..Preview::default() };
    let tally = check::walk(settings, interrupt, &mut Differences(*reporter), &arguments.selection, preview)?;
    Ok(crate::commands::exit_code(tally.has_failed(), arguments.exit_zero, settings))
}

/// Forwards differences and errors.
struct Differences<'a>(&'a mut dyn Reporter);

impl Reporter for Differences<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin(entity) => self.0.event(Event::About(Some(entity))),
            Event::Preview { difference, .. } => self.0.event(Event::Preview { difference, is_alone: true }),
            Event::Failed(Some(reason)) => self.0.error(reason),
            Event::End(..) => {
                self.0.end_paragraph();
                self.0.event(Event::About(None));
            }
            Event::Remark(_) | Event::About(_) | Event::Conflict(..) | Event::UnknownSelector(_) => self.0.event(event),
            _ => {}
        }
    }

    fn is_read(&self) -> bool {
        self.0.is_read()
    }
}
