//! The items that a work was confirmed for, in a temporary file: memory stays bounded.

use crate::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, Write};
use std::marker::PhantomData;

/// Items in the order in which they were added, a line of JSON each.
pub struct Spool<T> {
    file: BufWriter<File>,
    items: PhantomData<fn() -> T>,
}

fn of_file(error: io::Error) -> Error {
    Error::of_file(&std::env::temp_dir(), error)
}

impl<T: Serialize + DeserializeOwned> Spool<T> {
    pub fn new() -> Result<Spool<T>> {
        Ok(Spool {
            file: BufWriter::new(tempfile::tempfile().map_err(of_file)?),
            items: PhantomData,
        })
    }

    pub fn add(&mut self, item: &T) -> Result<()> {
        let line = serde_json::to_string(item).map_err(|error| error.to_string())?;
        writeln!(self.file, "{line}").map_err(of_file)
    }

    /// Passes each item to `take`.
    pub fn each(&mut self, take: &mut dyn FnMut(T) -> Result<()>) -> Result<()> {
        self.file.rewind().map_err(of_file)?;
        for line in BufReader::new(self.file.get_ref()).lines() {
            let line = line.map_err(of_file)?;
            take(serde_json::from_str(&line).map_err(|error| error.to_string())?)?;
        }
        Ok(())
    }
}
