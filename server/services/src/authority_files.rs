//! The place of the certificate authority that `--https` makes: the user's directory for settings.
//! Commands print the path of its certificate if the server's certificate is from this authority
//! and the user's machine does not trust the authority.

use crate::platform;
use std::path::PathBuf;

/// The file with the certificate that users trust.
pub const CERTIFICATE: &str = "ca.pem";

/// The path of the certificate that users trust, if the user's directory is known.
pub fn certificate_path() -> Option<PathBuf> {
    let directory = directory().ok()?;
    Some(directory.join(CERTIFICATE))
}

/// The user's directory for settings. The error is a sentence.
pub fn directory() -> Result<PathBuf, String> {
    directory_of(|name| std::env::var_os(name).map(PathBuf::from))
}

fn directory_of(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, String> {
    let set = |name: &str| variable(name).filter(|path| path.is_absolute());
    let home = set("HOME").map(|home| home.join(platform::SETTINGS_IN_HOME));
    let base = set("XDG_CONFIG_HOME").or_else(|| set("APPDATA")).or(home);
    let base = base.ok_or(
        "--https keeps its certificate authority in the user's configuration directory, and there is none: set XDG_CONFIG_HOME or HOME",
    )?;
    Ok(base.join("lazurite"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_configuration_directory_is_the_user_s() {
        let of = |set: &[(&str, &str)]| {
            let found = |name: &str| set.iter().find(|(found, _)| *found == name);
            directory_of(|name| found(name).map(|(_, path)| PathBuf::from(path)))
        };
        let home = of(&[("HOME", "/home/me"), ("XDG_CONFIG_HOME", "")]).unwrap();
        assert!(home.starts_with("/home/me") && home.ends_with("lazurite"));
        let both = of(&[("HOME", "/home/me"), ("XDG_CONFIG_HOME", "/etc/me")]);
        assert_eq!(both.unwrap(), Path::new("/etc/me/lazurite"));
        assert!(of(&[]).unwrap_err().contains("XDG_CONFIG_HOME"));
    }
}
