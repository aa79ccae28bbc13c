//! The two system calls without a safe function: creating a network device, and cutting the power of a file system.

use rustix::ioctl::{Setter, Updater, ioctl};
use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

/// `TUNSETIFF` of `linux/if_tun.h`.
const TUNSETIFF: u32 = 0x4004_54ca;
/// `IFF_TUN | IFF_NO_PI`: packets of IP, with nothing before them.
const TUN_WITHOUT_HEADER: u16 = 0x1001;
/// The size of `struct ifreq` on 64 bits.
const IFREQ_BYTES: usize = 40;
/// `IFNAMSIZ`, including the final zero.
const DEVICE_NAME_BYTES_MAX: usize = 16;
/// `EXT4_IOC_SHUTDOWN`.
const SHUTDOWN: u32 = 0x8004_587d;
/// `EXT4_GOING_FLAGS_NOLOGFLUSH`: nothing more reaches the disk, not even the file system's journal.
const NO_LOG_FLUSH: u32 = 2;

/// Creates a network device whose packets are read from, and written to, the file. Closing the file removes it.
#[expect(unsafe_code, reason = "rustix has no TUNSETIFF; the kernel reads and writes the 40 bytes of a struct ifreq, no more")]
pub(crate) fn open_tun(name: &str) -> io::Result<File> {
    assert!(name.len() < DEVICE_NAME_BYTES_MAX, "{name} is too long for a device");
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    let mut request = [0_u8; IFREQ_BYTES];
    request[..name.len()].copy_from_slice(name.as_bytes());
    request[DEVICE_NAME_BYTES_MAX..DEVICE_NAME_BYTES_MAX + 2].copy_from_slice(&TUN_WITHOUT_HEADER.to_ne_bytes());
    // SAFETY: TUNSETIFF takes a pointer to a struct ifreq, which the array has the size of.
    unsafe { ioctl(&file, Updater::<TUNSETIFF, [u8; IFREQ_BYTES]>::new(&mut request))? };
    Ok(file)
}

/// Cuts the power of a mounted ext4: unsynced data is lost, and every later access fails.
#[expect(unsafe_code, reason = "rustix has no EXT4_IOC_SHUTDOWN; the kernel reads four bytes")]
pub(crate) fn cut_power(mount: &Path) -> io::Result<()> {
    let folder = File::open(mount)?;
    // SAFETY: EXT4_IOC_SHUTDOWN takes a pointer to a 32-bit number.
    unsafe { ioctl(&folder, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH))? };
    Ok(())
}
