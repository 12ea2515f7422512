use super::*;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The files of `server/tests/certificates`; its README says how they were made.
macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!("../../../tests/certificates/", $name))
    };
}

const ALL: [(&str, &[u8]); 5] = [
    ("aes-256", file!("aes-256.pfx")),
    ("rc2", file!("rc2.pfx")),
    ("triple-des", file!("triple-des.pfx")),
    ("aes-128-sha-512", file!("aes-128-sha-512.pfx")),
    ("unencrypted", file!("unencrypted.pfx")),
];

fn certificate(pem: &[u8]) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem).unwrap().to_vec()
}

fn key() -> Vec<u8> {
    let key = PrivateKeyDer::from_pem_slice(file!("key.pem")).unwrap();
    key.secret_der().to_vec()
}

#[test]
fn key_and_chain_are_read_whatever_the_cipher() {
    let chain = [file!("issued.pem").as_slice(), file!("authority.pem")].map(certificate);
    for (name, file) in ALL {
        let pfx = read(file, "secret").unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((pfx.key, &pfx.chain[..]), (key(), &chain[..]), "{name}");
    }
}

#[test]
fn password_may_hold_any_letters() {
    let pfx = read(file!("unicode-password.pfx"), "schlüssel-Ω").unwrap();
    assert_eq!(pfx.key, key());
    let wrong = read(file!("unicode-password.pfx"), "schlussel-Ω").unwrap_err();
    assert_eq!(wrong, Error::WrongPassword);
}

#[test]
fn wrong_password_and_a_changed_file_are_refused() {
    for (name, file) in &ALL[..4] {
        for password in ["", "Secret", "secret "] {
            let refused = read(file, password).unwrap_err();
            assert_eq!(refused, Error::WrongPassword, "{name}");
        }
        let mut changed = file.to_vec();
        changed[200] ^= 1;
        assert!(read(&changed, "secret").is_err(), "{name}");
    }
}

#[test]
fn damaged_files_are_errors() {
    assert_eq!(read(b"", "secret").unwrap_err(), Error::Malformed);
    for (name, file) in ALL {
        for length in 0..file.len() {
            assert!(read(&file[..length], "secret").is_err(), "{name} {length}");
        }
    }
    // Each byte in turn: of the lengths, some then reach beyond the file. These two derive their keys in one round.
    for (_, file) in &ALL[3..] {
        for at in 0..file.len() {
            for value in [0x00, 0x7F, 0x80, 0x84, 0xFF] {
                let mut changed = file.to_vec();
                changed[at] = value;
                let _ = read(&changed, "secret");
            }
        }
    }
}

#[test]
fn certificates_outside_the_chain_are_left_out() {
    let [own, authority, other] = [
        file!("issued.pem").as_slice(),
        file!("authority.pem"),
        file!("self-signed.pem"),
    ]
    .map(certificate);
    let ordered = chain(own.clone(), vec![other, authority.clone(), own.clone()]);
    assert_eq!(ordered, [own, authority]);
}
