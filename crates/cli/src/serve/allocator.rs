//! Gives free memory back to the system where the allocator would keep it.
//!
//! mimalloc gives back what is free at some later call of the same thread. The thread that makes and reads snapshots makes none
//! for as long as no snapshot is due: what a large one had needed stayed with it.

/// Gives back what this thread, and those that have ended, have freed.
pub(super) fn give_back() {
    #[expect(unsafe_code, reason = "the allocator has no other way to be asked")]
    // SAFETY: mimalloc takes this call from any thread at any time; it frees only what is free.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}
