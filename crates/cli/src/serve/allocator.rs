//! Returns free memory to the system where the allocator would keep it.
//!
//! mimalloc returns free memory at some later call of the same thread. The snapshot thread makes no such call until the next
//! snapshot is due: it would keep the memory of a large one until then.

/// Returns the memory that this thread and ended threads have freed.
pub(super) fn give_back() {
    #[expect(unsafe_code, reason = "the allocator has no other way to be asked")]
    // SAFETY: mimalloc takes this call from any thread at any time; it frees only what is free.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}
