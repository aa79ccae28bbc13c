//! Returns free memory to the system that the allocator would otherwise keep.
//!
//! mimalloc returns free memory in a later call of the same thread. The snapshot thread makes no such call until the
//! next snapshot, and would keep the memory of a large one until then.

/// Returns the memory that this thread and threads that have ended freed.
pub(super) fn return_free_memory() {
    #[expect(unsafe_code, reason = "the allocator has no safe interface for this")]
    // SAFETY: any thread may make this call at any time; it releases only free memory.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}
