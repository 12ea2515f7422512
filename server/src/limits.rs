//! What the operating system allows this process.

/// Raises the number of open files to what the system allows at most: the usual 1,024 are fewer than the connections of one busy test
/// suite, and 256 on some systems fewer than those of one web page.
pub fn raise_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        // A system that refuses leaves what there is, which is enough for most.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}
