//! Image: the bytes of a file, in pages.

pub(super) const PAGE_BYTES: usize = 64 << 10;

/// Bytes of a file, in pages so that growing does not copy; an absent page is zeros.
#[derive(Debug, Default, Clone)]
pub(super) struct Image {
    pages: Vec<Option<Box<[u8]>>>,
    pub(super) length: u64,
}

/// A change of an image: bytes at an offset, or another length.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

impl Image {
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let available = self.length.saturating_sub(offset);
        let length = (buffer.len() as u64).min(available) as usize;
        let mut done = 0;
        while done < length {
            let (page, start) = place(offset + done as u64);
            let part = (PAGE_BYTES - start).min(length - done);
            match self.pages.get(page).and_then(Option::as_ref) {
                Some(bytes) => {
                    buffer[done..done + part].copy_from_slice(&bytes[start..start + part])
                }
                None => buffer[done..done + part].fill(0),
            }
            done += part;
        }
        length
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        let mut done = 0;
        while done < bytes.len() {
            let (page, start) = place(offset + done as u64);
            let part = (PAGE_BYTES - start).min(bytes.len() - done);
            if self.pages.len() <= page {
                self.pages.resize(page + 1, None);
            }
            let target = self.pages[page].get_or_insert_with(|| vec![0; PAGE_BYTES].into());
            target[start..start + part].copy_from_slice(&bytes[done..done + part]);
            done += part;
        }
        self.length = self.length.max(offset + bytes.len() as u64);
    }

    /// Bytes of the pages that are there.
    pub(super) fn allocated(&self) -> u64 {
        self.pages.iter().flatten().count() as u64 * PAGE_BYTES as u64
    }

    /// Bytes of the pages that a write would add.
    pub(super) fn growth(&self, length: usize, offset: u64) -> u64 {
        if length == 0 {
            return 0;
        }
        let (first, _) = place(offset);
        let (last, _) = place(offset + length as u64 - 1);
        let absent = |page: &usize| self.pages.get(*page).is_none_or(Option::is_none);
        (first..=last).filter(absent).count() as u64 * PAGE_BYTES as u64
    }

    pub(super) fn set_length(&mut self, length: u64) {
        if length < self.length {
            let (page, start) = place(length);
            self.pages.truncate(page + usize::from(start > 0));
            if let Some(Some(last)) = self.pages.get_mut(page) {
                last[start..].fill(0);
            }
        }
        self.length = length;
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Write(offset, bytes) => self.write(bytes, *offset),
            Change::Length(length) => self.set_length(*length),
        }
    }
}

fn place(offset: u64) -> (usize, usize) {
    (
        (offset / PAGE_BYTES as u64) as usize,
        (offset % PAGE_BYTES as u64) as usize,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinking_and_growing_leaves_zeros() {
        let mut image = Image::default();
        image.write(&[1; 100], 0);
        image.set_length(10);
        image.set_length(20);
        let mut bytes = [9; 20];
        assert_eq!(image.read(&mut bytes, 0), 20);
        assert_eq!(bytes[..10], [1; 10]);
        assert_eq!(bytes[10..], [0; 10]);
    }
}
