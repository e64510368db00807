//! Sorted rows in a file.

use super::{Key, Row};
use crate::error::{PathError, Result};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The minimum size of a complete block.
const BLOCK: usize = if cfg!(test) { 64 } else { 8 << 10 };
/// The number of cached blocks: that of a path, and those of its parents.
const KEPT_BLOCKS: usize = 4;
/// The size of the header of a row: the lengths of its key and of its data.
const LENGTHS: usize = 8;

/// Sorted rows in a file, in blocks that are read as a whole. The first key of each block is kept in memory.
#[derive(Debug)]
pub(super) struct Run {
    file: File,
    /// The path in errors.
    shown: PathBuf,
    blocks: Vec<Block>,
    last: Option<Key>,
    /// The most recently used blocks.
    read: Mutex<VecDeque<(usize, Arc<[u8]>)>>,
}

#[derive(Debug)]
struct Block {
    first: Key,
    offset: u64,
    length: usize,
}

impl Run {
    pub(super) fn new(file: File, shown: PathBuf) -> Run {
        Run { file, shown, blocks: Vec::new(), last: None, read: Mutex::default() }
    }

    /// Returns true if all rows precede this key.
    pub(super) fn is_before(&self, key: &Key) -> bool {
        self.last.as_ref().is_none_or(|last| last < key)
    }

    /// Appends rows, which must follow all existing ones.
    pub(super) fn append<R: Row>(&mut self, rows: &BTreeMap<Key, R>) -> Result<()> {
        let (mut block, mut first) = (Vec::new(), None);
        for (key, row) in rows {
            first.get_or_insert_with(|| key.clone());
            encode(key, row, &mut block);
            if block.len() >= BLOCK {
                self.add_block(first.take(), &block)?;
                block.clear();
            }
        }
        self.last = rows.keys().next_back().cloned().or(self.last.take());
        self.add_block(first, &block)
    }

    fn add_block(&mut self, first: Option<Key>, bytes: &[u8]) -> Result<()> {
        let Some(first) = first else { return Ok(()) };
        let offset = self.blocks.last().map_or(0, |block| block.offset + block.length as u64);
        self.file.write_all_at(bytes, offset).map_err(|error| PathError::new("write", &self.shown, error))?;
        self.blocks.push(Block { first, offset, length: bytes.len() });
        Ok(())
    }

    pub(super) fn contains(&self, key: &Key) -> Result<bool> {
        self.find(key, |_| Some(())).map(|found| found.is_some())
    }

    pub(super) fn get<R: Row>(&self, key: &Key) -> Result<Option<R>> {
        self.find(key, R::decode)
    }

    /// Finds the row with this key, and converts it.
    fn find<T>(&self, key: &Key, make: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>> {
        let Some(index) = self.blocks.partition_point(|block| block.first <= *key).checked_sub(1) else {
            return Ok(None);
        };
        let block = self.block(index)?;
        let mut rest = &*block;
        while !rest.is_empty() {
            let (other, row, next) = split(rest).ok_or_else(|| self.damaged())?;
            if *other == **key {
                return make(row).map(Some).ok_or_else(|| self.damaged());
            }
            rest = next;
        }
        Ok(None)
    }

    fn block(&self, index: usize) -> Result<Arc<[u8]>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = read.iter().find(|(other, _)| *other == index) {
            return Ok(Arc::clone(bytes));
        }
        let block = self.blocks.get(index).ok_or_else(|| self.damaged())?;
        let mut bytes = vec![0; block.length];
        let failed = |error| PathError::new("read", &self.shown, error);
        self.file.read_exact_at(&mut bytes, block.offset).map_err(failed)?;
        let bytes: Arc<[u8]> = bytes.into();
        if read.len() >= KEPT_BLOCKS {
            read.pop_front();
        }
        read.push_back((index, Arc::clone(&bytes)));
        Ok(bytes)
    }

    /// Returns all rows, in order or reversed.
    pub(super) fn rows<R: Row>(&self, is_reversed: bool) -> RunRows<'_, R> {
        let rows = Vec::new().into_iter();
        RunRows { run: self, blocks: 0..self.blocks.len(), is_reversed, rows, row: PhantomData }
    }

    fn damaged(&self) -> PathError {
        PathError::new("read", &self.shown, io::Error::other("a temporary file has changed"))
    }
}

/// The rows of a run.
pub(super) struct RunRows<'a, R> {
    run: &'a Run,
    /// The blocks that have not been read yet.
    blocks: std::ops::Range<usize>,
    is_reversed: bool,
    rows: std::vec::IntoIter<(Key, R)>,
    row: PhantomData<R>,
}

impl<R: Row> RunRows<'_, R> {
    fn read(&self, index: usize) -> Result<Vec<(Key, R)>> {
        let block = self.run.block(index)?;
        let (mut rest, mut rows) = (&*block, Vec::new());
        while !rest.is_empty() {
            let (key, row, next) = split(rest).ok_or_else(|| self.run.damaged())?;
            rows.push((key.into(), R::decode(row).ok_or_else(|| self.run.damaged())?));
            rest = next;
        }
        if self.is_reversed {
            rows.reverse();
        }
        Ok(rows)
    }
}

impl<R: Row> Iterator for RunRows<'_, R> {
    type Item = Result<(Key, R)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(Ok(row));
            }
            let index = if self.is_reversed { self.blocks.next_back() } else { self.blocks.next() }?;
            match self.read(index) {
                Ok(rows) => self.rows = rows.into_iter(),
                Err(error) => {
                    self.blocks = 0..0;
                    return Some(Err(error));
                }
            }
        }
    }
}

fn encode<R: Row>(key: &Key, row: &R, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; LENGTHS]);
    bytes.extend_from_slice(key);
    row.encode(bytes);
    let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let rest = bytes.len() - start - LENGTHS - key.len();
    let lengths = [length(key.len()), length(rest)].concat();
    if let Some(place) = bytes.get_mut(start..start + LENGTHS) {
        place.copy_from_slice(&lengths);
    }
}

/// Splits a block into the key and data of its first row, and the remaining rows.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let length = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
    let (key, bytes) = bytes.split_first_chunk()?;
    let (row, bytes) = bytes.split_first_chunk()?;
    let (key, bytes) = bytes.split_at_checked(length(key))?;
    let (row, bytes) = bytes.split_at_checked(length(row))?;
    Some((key, row, bytes))
}
