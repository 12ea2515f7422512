//! Md5: a digest, as headers and properties carry it.

/// An MD5 digest.
pub type Md5 = [u8; 16];
