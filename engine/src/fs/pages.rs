//! PageBuffer: memory in whole pages, for writes past the page cache.

/// Bytes of a page. Offset, address and length of a write past the cache are multiples of this.
pub(crate) const PAGE_BYTES: usize = 4096;

/// A buffer of bytes that begins at a page boundary in memory.
#[derive(Debug)]
pub(crate) struct PageBuffer {
    bytes: Box<[u8]>,
    start: usize,
    length: usize,
}

impl PageBuffer {
    /// An empty buffer with room for `room` bytes.
    pub(crate) fn new(room: usize) -> PageBuffer {
        let bytes = vec![0; room.next_multiple_of(PAGE_BYTES) + PAGE_BYTES].into_boxed_slice();
        let address = bytes.as_ptr().addr();
        PageBuffer {
            start: address.next_multiple_of(PAGE_BYTES) - address,
            bytes,
            length: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Appends `bytes`, for which there must be room.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.grow(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends zeros, for which there must be room.
    pub(crate) fn extend_zeros(&mut self, count: usize) {
        self.grow(count).fill(0);
    }

    fn grow(&mut self, count: usize) -> &mut [u8] {
        let from = self.start + self.length;
        self.length += count;
        &mut self.bytes[from..from + count]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_begin_with_a_page() {
        let mut buffer = PageBuffer::new(5000);
        buffer.extend(b"one");
        buffer.extend_zeros(2);
        assert_eq!(buffer.bytes(), b"one\0\0");
        buffer.bytes_mut()[4] = 7;
        buffer.extend(&[9; 4995]);
        assert_eq!(buffer.len(), 5000);
        assert_eq!(buffer.bytes()[..6], [b'o', b'n', b'e', 0, 7, 9]);
        assert!(buffer.bytes().as_ptr().addr().is_multiple_of(PAGE_BYTES));
        buffer.clear();
        assert_eq!(buffer.bytes(), b"");
    }
}
