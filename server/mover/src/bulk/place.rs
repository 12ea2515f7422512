//! The paths of commands: a container, and the name of a blob or the beginning of names.

use crate::blobs::container::resource;

/// `CONTAINER/NAME`. The name is empty for the container itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub container: String,
    pub name: String,
}

impl Place {
    /// Reads a path. Error: it names no container.
    pub fn read(path: &str) -> Result<Place, String> {
        let (container, name) = path.split_once('/').unwrap_or((path, ""));
        if container.is_empty() {
            return Err(format!("{path:?} names no container: write CONTAINER/NAME"));
        }
        Ok(Place {
            container: container.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Reads the path of a blob. Error: it names no blob.
    pub fn of_blob(path: &str) -> Result<Place, String> {
        match Place::read(path) {
            Ok(place) if !place.name.is_empty() => Ok(place),
            _ => Err(format!("{path:?} names no blob: write CONTAINER/NAME")),
        }
    }

    /// The beginning of the names of all blobs in this directory. Empty for the container.
    pub fn directory(&self) -> String {
        if self.name.is_empty() || self.name.ends_with('/') {
            self.name.clone()
        } else {
            format!("{}/", self.name)
        }
    }

    /// The path of the blob in a request.
    pub fn resource(&self) -> String {
        resource(&self.container, &self.name)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.container, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_a_container_and_a_blob_or_a_directory() {
        assert!(Place::read("").is_err() && Place::read("/x").is_err());
        for path in ["photos", "/x", "photos/"] {
            assert!(Place::of_blob(path).is_err(), "{path}");
        }
        let place = Place::of_blob("photos/a b/#1").unwrap();
        assert_eq!(place.resource(), "photos/a%20b/%231");
        for (path, directory) in [("c", ""), ("c/", ""), ("c/d", "d/"), ("c/d/", "d/")] {
            assert_eq!(Place::read(path).unwrap().directory(), directory);
        }
    }
}
