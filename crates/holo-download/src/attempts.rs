//! Attempts to download a file from one address.

use super::http::{Client, Response, ResponseBody};
use super::partial::PartialFile;
use super::{BUFFER_SIZE, Download, Request, TransferError, Validators, check_size, verify};
use crate::address::Address;
use crate::checksum::Digests;
use holo_change::PathHandle;
use holo_plugin::{Meter, Output};
use std::io::{self, Read};
use std::thread;
use std::time::{Duration, Instant};

pub(super) struct Attempts<'a, 'o> {
    pub(super) request: &'a Request<'a>,
    pub(super) address: &'a Address,
    pub(super) part: &'a PathHandle,
    pub(super) output: &'a mut Output<'o>,
}

/// The maximum delay that a server can request.
const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);

/// The outcome of an attempt.
enum Attempt {
    Unmodified,
    Complete,
}

impl Attempts<'_, '_> {
    pub(super) fn run(mut self) -> Result<Download, TransferError> {
        let client = Client::new(self.request, self.address)?;
        // A part from an earlier run is only useful if a checksum can verify the result.
        let mut part = match self.request.checksum {
            Some(_) => PartialFile::resume(self.part)?,
            None => PartialFile::new(self.part)?,
        };
        if let Some(digests) = self.digests_if_complete(&mut part)? {
            return Ok(part.into_download(digests, Validators::default()));
        }
        let mut validators: Option<Validators> = None;
        let mut failures = 0;
        let mut furthest = part.length();
        loop {
            if !self.may_resume(validators.as_ref()) {
                part.restart()?;
            }
            match self.attempt(&client, &mut part, &mut validators) {
                Ok(Attempt::Unmodified) => {
                    part.discard();
                    return Ok(Download::Unmodified);
                }
                Ok(Attempt::Complete) => {
                    let digests = part.digests(self.request.checksum.as_ref())?;
                    match self.request.checksum.as_ref().map(|expected| verify(&digests, expected)) {
                        None | Some(Ok(())) => {
                            return Ok(part.into_download(digests, validators.unwrap_or_default()));
                        }
                        // The parts may be of different versions: request the whole file once.
                        Some(Err(_)) if part.is_patched() => part.restart()?,
                        Some(Err(error)) => {
                            part.discard();
                            return Err(error);
                        }
                    }
                }
                Err(error @ (TransferError::Transient(_) | TransferError::Later { .. })) => {
                    // As long as each attempt makes progress, the download will finish.
                    if part.length() > furthest {
                        furthest = part.length();
                        failures = 0;
                    }
                    failures += 1;
                    let again = failures < self.request.timeouts.attempts && self.back_off(failures, &error);
                    if !again {
                        if self.request.checksum.is_none() || part.length() == 0 {
                            part.discard();
                        }
                        return Err(error);
                    }
                }
                Err(error) => {
                    part.discard();
                    return Err(error);
                }
            }
        }
    }

    /// Returns the digests of the part from an earlier run if it is complete.
    fn digests_if_complete(&self, part: &mut PartialFile) -> Result<Option<Digests>, TransferError> {
        let Some(expected) = self.request.checksum.as_ref().filter(|_| part.length() > 0) else { return Ok(None) };
        let digests = part.digests(Some(expected))?;
        Ok(verify(&digests, expected).is_ok().then_some(digests))
    }

    fn may_resume(&self, validators: Option<&Validators>) -> bool {
        self.request.checksum.is_some() || validators.is_some_and(|known| known.for_range().is_some())
    }

    fn attempt(
        &mut self,
        client: &Client<'_>,
        part: &mut PartialFile,
        validators: &mut Option<Validators>,
    ) -> Result<Attempt, TransferError> {
        let range = validators.as_ref().and_then(Validators::for_range);
        let body = match client.get(part.length(), range)? {
            Response::Unmodified => return Ok(Attempt::Unmodified),
            Response::Unsatisfiable => {
                part.restart()?;
                return Err(TransferError::Transient("the server has less than what was downloaded".to_owned()));
            }
            Response::Body(body) => body,
        };
        if body.start == 0 {
            part.restart()?;
        } else {
            let is_other = validators.as_ref().is_some_and(|known| {
                known.etag.is_some() && body.validators.etag.is_some() && known.etag != body.validators.etag
            });
            if is_other || body.start != part.length() {
                part.restart()?;
                *validators = None;
                return Err(TransferError::Transient("it was changed while it was downloaded".to_owned()));
            }
            part.set_patched();
        }
        *validators = Some(body.validators.clone());
        self.receive(body, part)?;
        Ok(Attempt::Complete)
    }

    fn receive(&mut self, body: ResponseBody, part: &mut PartialFile) -> Result<(), TransferError> {
        let mut reader = body.reader;
        let mut meter = Meter::of_bytes("downloading", body.total);
        let mut buffer = vec![0; BUFFER_SIZE];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    part.append(buffer.get(..length).unwrap_or_default())?;
                    check_size(part.length(), self.request.max_size)?;
                    meter.reached(part.length(), self.output);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TransferError::from_body(&error)),
            }
            if self.request.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(TransferError::DeadlineExceeded);
            }
        }
        match body.total {
            Some(total) if total != part.length() => {
                Err(TransferError::Transient(format!("it ended after {} of {total} bytes", part.length())))
            }
            _ => Ok(()),
        }
    }

    /// Waits before another attempt. Returns false if there is no time left.
    fn back_off(&mut self, failures: u32, error: &TransferError) -> bool {
        let timeouts = &self.request.timeouts;
        let own = timeouts.back_off.saturating_mul(1 << (failures - 1).min(6));
        let delay = match error {
            TransferError::Later { after, .. } => own.max(*after),
            _ => own,
        };
        let left = self.request.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left <= delay) || delay > LONGEST_WAIT {
            return false;
        }
        let (address, retries) = (self.address, timeouts.attempts - 1);
        self.output.warning(format!("{address}: {error}; trying again in {delay:?} ({failures} of {retries})"));
        thread::sleep(delay);
        true
    }
}
