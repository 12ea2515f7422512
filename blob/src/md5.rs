//! Md5: the digest in headers and properties.

/// An MD5 digest.
pub type Md5 = [u8; 16];
