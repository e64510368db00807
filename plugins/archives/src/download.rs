//! Downloads: over HTTP and HTTPS, or from a file of this machine, into a temporary file beside the target.

mod http;
mod part;

use crate::address::{Address, Credentials};
use crate::checksum::{Checksum, Sums};
use crate::known::Known;
use http::{Answer, Client, Failure};
use part::Part;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::thread;
use std::time::{Duration, Instant};

use holo_change::error::reason;
use holo_change::{PathHandle, Tree};
use holo_plugin::{Host, Meter, Output};

pub(crate) use http::Timeouts;
pub(crate) use part::PART_SUFFIX;

/// By what a server tells whether something has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Validators {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_modified: Option<String>,
}

impl Validators {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Validators::default()
    }

    /// What tells two versions apart byte by byte.
    fn for_range(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/")).or(self.last_modified.as_deref())
    }
}

/// What is to be downloaded.
pub(crate) struct Request<'a> {
    /// From where, the first choice first.
    pub(crate) addresses: &'a [Address],
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) checksum: Option<Checksum>,
    /// What we have already, if it is still what we want unless the server says otherwise.
    pub(crate) earlier: Option<Earlier>,
    /// Sums of files that need not be read again.
    pub(crate) sums: &'a Known,
    /// How long it may be.
    pub(crate) max_size: u64,
    /// When it has to be done.
    pub(crate) deadline: Option<Instant>,
    pub(crate) timeouts: Timeouts,
}

/// A download that is there.
#[derive(Clone, Debug)]
pub(crate) struct Earlier {
    pub(crate) sha256: String,
    pub(crate) validators: Validators,
}

/// How a download ended.
pub(crate) enum Download {
    /// What we have is what the server has.
    Unmodified,
    /// A file beside the target, which only we can read.
    Whole(Whole),
}

/// A download that is complete, and what the checksum says.
pub(crate) struct Whole {
    pub(crate) place: PathHandle,
    pub(crate) file: std::fs::File,
    pub(crate) sums: Sums,
    pub(crate) validators: Validators,
    /// Where we had it already.
    pub(crate) copied_from: Option<String>,
}

/// Downloads something to the temporary place beside its target.
///
/// # Errors
/// Why it could not be had from anywhere, in words without secrets.
pub(crate) fn download(
    request: &Request<'_>,
    target: &PathHandle,
    host: &Host,
    output: &mut Output<'_>,
) -> Result<Download, DownloadError> {
    let place = target.temporary(PART_SUFFIX);
    let mut failure = DownloadError::from("there is nowhere to download it from".to_owned());
    for (index, address) in request.addresses.iter().enumerate() {
        let result = match address.file() {
            Some(path) => copy(request, &path, &place, host, output),
            None => Attempts { request, address, place: &place, output }.run(),
        };
        match result {
            Ok(download) => return Ok(download),
            Err(problem) => {
                failure = problem.at(address);
                if index + 1 < request.addresses.len() {
                    output.warning(format!("{failure}; trying the next mirror"));
                }
            }
        }
    }
    Err(failure)
}

/// A download that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DownloadError {
    /// It may be better some other time, so that what is there will do until then.
    #[error("{0}")]
    Failed(String),
    /// The source is larger than the definition allows.
    #[error("{0}")]
    TooLarge(String),
}

impl DownloadError {
    /// Says where it was to come from.
    fn at(self, address: &Address) -> DownloadError {
        match self {
            DownloadError::Failed(problem) => DownloadError::Failed(format!("cannot download {address}: {problem}")),
            DownloadError::TooLarge(problem) => {
                DownloadError::TooLarge(format!("cannot download {address}: {problem}"))
            }
        }
    }
}

impl From<String> for DownloadError {
    fn from(problem: String) -> Self {
        DownloadError::Failed(problem)
    }
}

/// Takes a file of this machine.
pub(crate) fn copy(
    request: &Request<'_>,
    path: &std::path::Path,
    place: &PathHandle,
    host: &Host,
    output: &mut Output<'_>,
) -> Result<Download, DownloadError> {
    let words = |error: holo_change::error::PathError| error.to_string();
    let source = Tree::open(host.root()).and_then(|root| root.place(path).followed()).map_err(words)?;
    let mut from = source.open().map_err(words)?;
    if !from.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("it is not a regular file".to_owned().into());
    }
    if let Some(earlier) = &request.earlier
        && request.sums.sums(&source, None).map_err(words)?.sha256 == earlier.sha256
    {
        return Ok(Download::Unmodified);
    }
    let mut part = Part::new(place)?;
    let mut meter = Meter::of_bytes("copying", from.metadata().ok().map(|metadata| metadata.len()));
    let mut buffer = vec![0; BUFFER_SIZE];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                part.append(buffer.get(..length).unwrap_or_default())?;
                if let Err(problem) = check_size(part.length(), request.max_size) {
                    part.discard();
                    return Err(DownloadError::TooLarge(problem));
                }
                meter.reached(part.length(), output);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(reason(&error).into()),
        }
    }
    let sums = part.sums(request.checksum.as_ref())?;
    if let Some(Err(problem)) = request.checksum.as_ref().map(|wanted| judge(&sums, wanted)) {
        part.discard();
        return Err(problem.into());
    }
    Ok(part.into_whole(sums, Validators::default()))
}

const BUFFER_SIZE: usize = 1 << 16;

/// How long a download may be if the definition says nothing.
pub(crate) const MAX_SIZE: u64 = 16 << 30;
/// How long it may take likewise, from all mirrors: whoever sends a byte now and then would never come to an end.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

fn check_size(size: u64, limit: u64) -> Result<(), String> {
    if size <= limit { Ok(()) } else { Err(format!("it has more than {limit} bytes")) }
}

/// Whether what we have is what a server has, of which nothing is downloaded: the first that answers decides.
///
/// # Errors
/// Why it cannot be told.
pub(crate) fn is_unmodified(request: &Request<'_>, host: &Host) -> Result<bool, String> {
    let mut failure = "there is nowhere to download it from".to_owned();
    for address in request.addresses {
        match is_unmodified_at(request, address, host) {
            Ok(is_unmodified) => return Ok(is_unmodified),
            Err(problem) => failure = format!("cannot download {address}: {problem}"),
        }
    }
    Err(failure)
}

fn is_unmodified_at(request: &Request<'_>, address: &Address, host: &Host) -> Result<bool, String> {
    let Some(earlier) = &request.earlier else { return Ok(false) };
    if let Some(path) = address.file() {
        let source = Tree::open(host.root()).and_then(|root| root.place(&path).followed());
        let sums = source.and_then(|source| request.sums.sums(&source, None)).map_err(|error| error.to_string())?;
        return Ok(sums.sha256 == earlier.sha256);
    }
    match Client::new(request, address)?.get(0, None) {
        Ok(Answer::Unmodified) => Ok(true),
        // Some servers do not care what we have, and send what they have.
        Ok(Answer::Body(body)) => Ok(!body.validators.is_empty() && body.validators == earlier.validators),
        Ok(Answer::Unsatisfiable) => Ok(false),
        Err(Failure::Transient(problem) | Failure::Permanent(problem) | Failure::TooLarge(problem)) => Err(problem),
    }
}

fn judge(sums: &Sums, wanted: &Checksum) -> Result<(), String> {
    sums.matches(wanted).map_err(|found| format!("the checksum is {found}, not {wanted}"))
}

/// Attempts to download something from one address.
struct Attempts<'a, 'o> {
    request: &'a Request<'a>,
    address: &'a Address,
    place: &'a PathHandle,
    output: &'a mut Output<'o>,
}

impl Attempts<'_, '_> {
    fn run(mut self) -> Result<Download, DownloadError> {
        let client = Client::new(self.request, self.address)?;
        // What an earlier run has left is of use only where a checksum will tell whether it all fits together.
        let mut part = match self.request.checksum {
            Some(_) => Part::take_up(self.place)?,
            None => Part::new(self.place)?,
        };
        if let Some(whole) = self.left_complete(&mut part)? {
            return Ok(part.into_whole(whole, Validators::default()));
        }
        let mut validators: Option<Validators> = None;
        let mut failures = 0;
        let mut furthest = part.length();
        loop {
            if !self.may_resume(validators.as_ref()) {
                part.restart()?;
            }
            match self.attempt(&client, &mut part, &mut validators) {
                Ok(true) => {
                    part.discard();
                    return Ok(Download::Unmodified);
                }
                Ok(false) => {
                    let sums = part.sums(self.request.checksum.as_ref())?;
                    match self.request.checksum.as_ref().map(|wanted| judge(&sums, wanted)) {
                        None | Some(Ok(())) => return Ok(part.into_whole(sums, validators.unwrap_or_default())),
                        // Parts of different versions: the whole is asked for once.
                        Some(Err(_)) if part.is_patched() => part.restart()?,
                        Some(Err(problem)) => {
                            part.discard();
                            return Err(problem.into());
                        }
                    }
                }
                Err(Failure::Permanent(problem)) => {
                    part.discard();
                    return Err(problem.into());
                }
                Err(Failure::TooLarge(problem)) => {
                    part.discard();
                    return Err(DownloadError::TooLarge(problem));
                }
                Err(Failure::Transient(problem)) => {
                    // As long as each attempt brings more, it will come to an end.
                    if part.length() > furthest {
                        furthest = part.length();
                        failures = 0;
                    }
                    failures += 1;
                    let again = failures < self.request.timeouts.attempts && self.back_off(failures, &problem);
                    if !again {
                        if self.request.checksum.is_none() || part.length() == 0 {
                            part.discard();
                        }
                        return Err(problem.into());
                    }
                }
            }
        }
    }

    /// The sums of what an earlier run has left, if that is the whole already.
    fn left_complete(&self, part: &mut Part) -> Result<Option<Sums>, String> {
        let Some(wanted) = self.request.checksum.as_ref().filter(|_| part.length() > 0) else { return Ok(None) };
        let sums = part.sums(Some(wanted))?;
        Ok(judge(&sums, wanted).is_ok().then_some(sums))
    }

    fn may_resume(&self, validators: Option<&Validators>) -> bool {
        self.request.checksum.is_some() || validators.is_some_and(|known| known.for_range().is_some())
    }

    /// One attempt; whether what we have is what the server has.
    fn attempt(
        &mut self,
        client: &Client<'_>,
        part: &mut Part,
        validators: &mut Option<Validators>,
    ) -> Result<bool, Failure> {
        let range = validators.as_ref().and_then(Validators::for_range);
        let body = match client.get(part.length(), range)? {
            Answer::Unmodified => return Ok(true),
            Answer::Unsatisfiable => {
                part.restart().map_err(Failure::Permanent)?;
                return Err(Failure::Transient("the server has less than what was downloaded".to_owned()));
            }
            Answer::Body(body) => body,
        };
        if body.start == 0 {
            part.restart().map_err(Failure::Permanent)?;
        } else {
            let is_other = validators.as_ref().is_some_and(|known| {
                known.etag.is_some() && body.validators.etag.is_some() && known.etag != body.validators.etag
            });
            if is_other || body.start != part.length() {
                part.restart().map_err(Failure::Permanent)?;
                *validators = None;
                return Err(Failure::Transient("it was changed while it was downloaded".to_owned()));
            }
            part.patched();
        }
        *validators = Some(body.validators);
        let mut reader = body.reader;
        let mut meter = Meter::of_bytes("downloading", body.total);
        let mut buffer = vec![0; BUFFER_SIZE];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    part.append(buffer.get(..length).unwrap_or_default()).map_err(Failure::Permanent)?;
                    check_size(part.length(), self.request.max_size).map_err(Failure::TooLarge)?;
                    meter.reached(part.length(), self.output);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::of_body(&error)),
            }
            if self.request.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(Failure::Permanent("it took too long".to_owned()));
            }
        }
        match body.total {
            Some(total) if total != part.length() => {
                Err(Failure::Transient(format!("it ended after {} of {total} bytes", part.length())))
            }
            _ => Ok(false),
        }
    }

    /// Waits before another attempt; whether there is time for one.
    fn back_off(&mut self, failures: u32, problem: &str) -> bool {
        let timeouts = &self.request.timeouts;
        let delay = timeouts.back_off.saturating_mul(1 << (failures - 1).min(6));
        let left = self.request.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left <= delay) {
            return false;
        }
        let (address, retries) = (self.address, timeouts.attempts - 1);
        self.output.warning(format!("{address}: {problem}; trying again in {delay:?} ({failures} of {retries})"));
        thread::sleep(delay);
        true
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(15),
            first_byte: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            attempts: 5,
            back_off: Duration::from_millis(500),
        }
    }
}

#[cfg(test)]
mod tests;
