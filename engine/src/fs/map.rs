//! Log segments in memory maps: the only unsafe code of the engine.
//!
//! A page of a mapping that cannot be had is a signal (SIGBUS) instead of an error: the disk failed to read it, the file system
//! has shut itself down, or something has cut the file short. So each mapping is watched: a handler puts an empty page in
//! the place of the lost one and notes the loss, and the write that met it answers an error. Nothing but the log is mapped:
//! a lost page of a file that is read would be zeros, after its checksum was verified.
//!
//! Without the mapping, `fillseq` and `fillrandom` of `lazurite-engine-bench` do half the puts a second.
//!
//! A segment is mapped only where the file system keeps the blocks that it gave: on those that copy on write (btrfs) a full
//! disk would show here too.
#![allow(
    unsafe_code,
    reason = "a mapping is as sound as its file; each block has a comment on why that holds"
)]
#![allow(
    clippy::disallowed_types,
    reason = "part of the seam that the rest of the engine goes through"
)]

use memmap2::{MmapOptions, MmapRaw, UncheckedAdvice};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The first bytes of a log segment, writable.
///
/// A put of 100 bytes takes 0.6 us of the processor less than through `pwrite`, of 2.1 to 2.8 us.
#[derive(Debug)]
pub(super) struct LogMap {
    /// Dropped before the mapping.
    watch: Watch,
    map: MmapRaw,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Where the last write ended.
    written: usize,
    /// Bytes before this are not mapped any more.
    released: usize,
}

/// A multiple of the size of a page on every machine.
const RELEASED_UNIT: usize = 64 << 10;

impl LogMap {
    /// `None` where a mapping is not known to be safe.
    pub(super) fn new(file: &File, length: u64) -> Option<LogMap> {
        if length == 0 || !keeps_its_blocks(file) {
            return None;
        }
        let length = usize::try_from(length).ok()?;
        let map = MmapOptions::new().len(length).map_raw(file).ok()?;
        Some(LogMap {
            watch: Watch::new(map.as_mut_ptr() as usize, length)?,
            map,
            progress: Mutex::default(),
        })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes within the mapped length. In the page cache on return, as after `pwrite`: a killed process loses nothing. An error
    /// once a page could not be had, from then on.
    pub(super) fn write(&self, bytes: &[u8], offset: usize) -> io::Result<()> {
        let end = offset + bytes.len();
        assert!(end <= self.map.len(), "the write is within the mapping");
        let mut progress = self.progress();
        // SAFETY: The target is within the mapping, which is watched: a page that the file does not have is replaced. Only
        // this process, which holds the lock of the directory, writes it, only here, and one thread at a time.
        unsafe {
            let target = self.map.as_mut_ptr().add(offset);
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        progress.written = end;
        self.watch.check()
    }

    /// Takes full pages out of the mapping; to be called before a sync. Otherwise the kernel protects each page by
    /// itself when it writes it, and interrupts every processor that the process runs on each time: that was a seventh of
    /// the processor time of a put.
    pub(super) fn release_written(&self) -> io::Result<()> {
        self.watch.check()?;
        let mut progress = self.progress();
        let end = progress.written / RELEASED_UNIT * RELEASED_UNIT;
        let start = std::mem::replace(&mut progress.released, end);
        drop(progress);
        if start < end {
            // SAFETY: The mapping is shared with the file: written bytes stay in the page cache, and would be mapped
            // again if it was touched. That this fails harms nothing.
            let _ = unsafe {
                self.map
                    .unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start)
            };
        }
        Ok(())
    }
}

/// ext2 to ext4 and tmpfs write allocated blocks in place. (So does xfs, unless the file was copied by reference.)
fn keeps_its_blocks(file: &File) -> bool {
    const EXT: u64 = 0xef53;
    const TMPFS: u64 = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|found| matches!(found.f_type as u64, EXT | TMPFS))
}

/// A range of addresses whose lost pages are replaced.
#[derive(Debug)]
struct Watch(&'static Slot);

#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    /// `FREE`, `TAKEN` while it is being filled in, or the end of the range.
    end: AtomicUsize,
    lost: AtomicBool,
}

const FREE: usize = 0;
/// No address lies before this end.
const TAKEN: usize = 1;

/// A store has few log segments open. Where there is no slot for one more, it is written without a mapping.
static SLOTS: [Slot; 64] = [const {
    Slot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(FREE),
        lost: AtomicBool::new(false),
    }
}; 64];

/// The handler that was there before ours, and the size of a page.
static PREVIOUS: OnceLock<Option<(libc::sigaction, usize)>> = OnceLock::new();

impl Watch {
    /// `None` if the range cannot be watched.
    fn new(start: usize, length: usize) -> Option<Watch> {
        PREVIOUS.get_or_init(install).as_ref()?;
        let take = |slot: &&Slot| {
            let taken = slot
                .end
                .compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::SeqCst);
            taken.is_ok()
        };
        let slot = SLOTS.iter().find(take)?;
        slot.lost.store(false, Ordering::SeqCst);
        slot.start.store(start, Ordering::SeqCst);
        slot.end.store(start + length, Ordering::SeqCst);
        Some(Watch(slot))
    }

    fn check(&self) -> io::Result<()> {
        if self.0.lost.load(Ordering::Relaxed) {
            return Err(io::Error::other("a page of the mapped log is lost"));
        }
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.end.store(FREE, Ordering::SeqCst);
    }
}

/// Puts our handler in the place of the present one; `None` if the system does not let us.
fn install() -> Option<(libc::sigaction, usize)> {
    // SAFETY: Calls of the C library as its manual describes them; an all-zero `sigaction` is a valid one.
    unsafe {
        let mut present = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut present) != 0 {
            return None;
        }
        let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).ok()?;
        let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
        ours.sa_sigaction = handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&mut ours.sa_mask);
        (libc::sigaction(libc::SIGBUS, &ours, null_mut()) == 0).then_some((present, page))
    }
}

/// Called by the kernel in the thread that met the fault. After the return the thread repeats its access.
extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let Some(Some((previous, page))) = PREVIOUS.get() else {
        return;
    };
    // SAFETY: The kernel passes valid pointers. Only a fault has an address; a signal from another process has none.
    let fault = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr() as usize) };
    if fault.is_some_and(|address| replace_page(address, *page)) {
        return;
    }
    // SAFETY: The arguments are those of this call.
    unsafe { call_previous(previous, fault.is_some(), signal, info, context) }
}

/// Puts an empty page in the place of the one at `address`, if it lies in a watched range. Answers whether it did.
fn replace_page(address: usize, page: usize) -> bool {
    let holds = |slot: &&Slot| {
        let range = slot.start.load(Ordering::SeqCst)..slot.end.load(Ordering::SeqCst);
        range.contains(&address)
    };
    let Some(slot) = SLOTS.iter().find(holds) else {
        return false;
    };
    slot.lost.store(true, Ordering::SeqCst);
    let start = (address / page * page) as *mut libc::c_void;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: The page lies in a mapping of this module that is in use: a thread is writing to it. A signal handler may load and store
    // atomics and call `mmap`.
    unsafe { libc::mmap(start, page, access, kind, -1, 0) != libc::MAP_FAILED }
}

/// Does with a signal that is not ours what was done before our handler was there.
///
/// # Safety
///
/// For a signal handler, with the arguments that the kernel gave it.
unsafe fn call_previous(
    previous: &libc::sigaction,
    is_fault: bool,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: A signal handler may call `sigaction` and `raise`. A handler has the form that its flags say.
    unsafe {
        match previous.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                // The fault comes again when we return; a signal that was sent does not.
                libc::sigaction(signal, previous, null_mut());
                if !is_fault {
                    libc::raise(signal);
                }
            }
            handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
            }
            handler => {
                std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler)(signal);
            }
        }
    }
}
