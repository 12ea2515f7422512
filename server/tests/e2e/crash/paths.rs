//! The work on paths of a hierarchical container: a directory renamed to and fro with all that is
//! below it, directories deleted whole, and a file that is appended to.

use std::io::Result;

use super::Writer;
use crate::http::{Connection, Request};
use crate::server::Service;

/// Number of files below the directory that is renamed.
const FILES: u64 = 20;

fn path(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

/// The names of all paths below a directory.
fn listed(connection: &mut Connection, container: &str, directory: &str) -> Result<Vec<String>> {
    let target = format!("/{container}?resource=filesystem&recursive=true&directory={directory}");
    let found = connection.send(&path("GET", &target))?;
    if found.status == 404 {
        return Ok(Vec::new());
    }
    assert_eq!(found.status, 200, "{}", found.text());
    let paths = found.json()["paths"].as_array().unwrap().clone();
    let name = |path: &serde_json::Value| path["name"].as_str().unwrap().to_string();
    Ok(paths.iter().map(name).collect())
}

/// Renames one directory between two places.
#[derive(Default)]
pub(super) struct Renames {
    acknowledged: u64,
    pending: bool,
}

impl Renames {
    /// The place after this number of renames.
    fn place(renames: u64) -> &'static str {
        ["here", "some/where/else"][(renames % 2) as usize]
    }
}

impl Writer for Renames {
    fn service(&self) -> Service {
        Service::Blob
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        connection
            .send(&path("PUT", "/renames?resource=filesystem"))?
            .is(201);
        connection
            .send(&path("PUT", "/renames/some/where?resource=directory"))?
            .is(201);
        for file in 0..FILES {
            let target = format!("/renames/here/{}/{file}?resource=file", file % 3);
            connection.send(&path("PUT", &target))?.is(201);
        }
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        let [from, to] = [0, 1].map(|more| Renames::place(self.acknowledged + more));
        self.pending = true;
        let rename = path("PUT", &format!("/renames/{to}?mode=legacy"));
        let rename = rename.header("x-ms-rename-source", &format!("/renames/{from}"));
        connection.send(&rename)?.is(201);
        self.acknowledged += 1;
        self.pending = false;
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let [here, there] = [0, 1].map(|more| Renames::place(self.acknowledged + more));
        let here = listed(connection, "renames", here)?.len() as u64;
        let there = listed(connection, "renames", there)?.len() as u64;
        // Three directories are below it, too.
        let all = FILES + 3;
        match (here, there) {
            (found, 0) if found == all => {}
            (0, found) if found == all && self.pending => self.acknowledged += 1,
            _ => panic!("{here} paths here, {there} there"),
        }
        self.pending = false;
        Ok(())
    }
}

/// Appends to one file, and flushes each time.
#[derive(Default)]
pub(super) struct Flushes {
    /// Length of the file.
    acknowledged: u64,
    pending: bool,
}

const PIECE: &[u8] = b"0123456789";

impl Writer for Flushes {
    fn service(&self) -> Service {
        Service::Blob
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        connection
            .send(&path("PUT", "/flushes?resource=filesystem"))?
            .is(201);
        connection
            .send(&path("PUT", "/flushes/a/file?resource=file"))?
            .is(201);
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        let (at, end) = (self.acknowledged, self.acknowledged + PIECE.len() as u64);
        let append = path(
            "PATCH",
            &format!("/flushes/a/file?action=append&position={at}"),
        );
        connection.send(&append.body(PIECE))?.is(202);
        self.pending = true;
        let flush = path(
            "PATCH",
            &format!("/flushes/a/file?action=flush&position={end}"),
        );
        connection.send(&flush)?.is(200);
        self.acknowledged = end;
        self.pending = false;
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let found = connection.send(&path("GET", "/flushes/a/file"))?;
        let length = found.body.len() as u64;
        if self.pending && length == self.acknowledged + PIECE.len() as u64 {
            self.acknowledged = length;
        }
        assert_eq!(length, self.acknowledged);
        assert!(found.body.chunks(PIECE.len()).all(|piece| piece == PIECE));
        self.pending = false;
        Ok(())
    }
}

/// Makes a directory with files in it, and deletes it whole.
#[derive(Default)]
pub(super) struct Deletions {
    acknowledged: u64,
    pending: bool,
}

/// Number of requests that make the directory; the next one deletes it.
const MADE: u64 = 5;

impl Writer for Deletions {
    fn service(&self) -> Service {
        Service::Blob
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        connection
            .send(&path("PUT", "/deletions?resource=filesystem"))?
            .is(201);
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        self.pending = true;
        let number = self.acknowledged % (MADE + 1);
        if number == MADE {
            connection
                .send(&path("DELETE", "/deletions/d?recursive=true"))?
                .is(200);
        } else {
            let target = format!("/deletions/d/{number}/file?resource=file");
            connection.send(&path("PUT", &target))?.is(201);
        }
        self.acknowledged += 1;
        self.pending = false;
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let found = listed(connection, "deletions", "d")?.len() as u64;
        let expected = |acknowledged: u64| 2 * (acknowledged % (MADE + 1));
        if self.pending && found == expected(self.acknowledged + 1) {
            self.acknowledged += 1;
        }
        assert_eq!(found, expected(self.acknowledged));
        self.pending = false;
        Ok(())
    }
}
