// A wrong clock, and a slow or broken disk. This library is loaded before the C library into a node's process.
//
// FAIRHOLD_CHAOS_CONTROL   a file with a struct control, written by the harness while the node runs; all else is as always
//
// The wall clock is shifted. The monotonic clocks run at another rate, from a base that avoids a jump. Timed waits get the true
// time: a timer of 50 ms takes 25 ms if the clock runs twice as fast.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    uint64_t generation;    // odd while it is written
    int64_t wall_shift;     // nanoseconds
    int64_t rate;           // millionths
    int64_t base_true;      // nanoseconds of CLOCK_MONOTONIC
    int64_t base_shown;     // what was shown then
    uint64_t sync_delay;    // microseconds that each sync takes longer
    uint64_t syncs_to_fail; // the next so many syncs of a file of the log fail with EIO
    uint64_t seen;          // how often a clock was read or a disk synced during a fault
};

static struct control *control;
static long (*real_syscall)(long, ...);

static __attribute__((constructor)) void begin(void) {
    const char *name = getenv("FAIRHOLD_CHAOS_CONTROL");
    real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *page = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) control = page;
}

static struct control look(void) {
    struct control now = {.rate = 1000000};
    if (!control) return now;
    uint64_t before, after;
    do {
        before = __atomic_load_n(&control->generation, __ATOMIC_ACQUIRE);
        now = *(volatile struct control *)control;
        after = __atomic_load_n(&control->generation, __ATOMIC_ACQUIRE);
    } while (before != after || before % 2 == 1);
    return now;
}

static void seen(void) { __atomic_fetch_add(&control->seen, 1, __ATOMIC_RELAXED); }

static int64_t nanoseconds(const struct timespec *time) { return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec; }

static struct timespec timespec_of(int64_t time) {
    if (time < 0) time = 0;
    return (struct timespec){.tv_sec = time / 1000000000, .tv_nsec = time % 1000000000};
}

static int is_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

static int is_monotonic(clockid_t clock) {
    return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
}

// All monotonic clocks count as CLOCK_MONOTONIC here: suspended machines are not simulated.
static int64_t shown(const struct control *now, int64_t true_time) {
    if (now->base_true == 0) return true_time;
    return now->base_shown + (int64_t)((__int128)(true_time - now->base_true) * now->rate / 1000000);
}

static int64_t truth(const struct control *now, int64_t shown_time) {
    if (now->base_true == 0) return shown_time;
    return now->base_true + (int64_t)((__int128)(shown_time - now->base_shown) * 1000000 / now->rate);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    struct control now = look();
    int wrong = control && (now.wall_shift != 0 || now.base_true != 0);
    if (!wrong) return real(clock, time);
    seen();
    if (is_wall(clock)) {
        int result = real(clock, time);
        if (result == 0) *time = timespec_of(nanoseconds(time) + now.wall_shift);
        return result;
    }
    if (!is_monotonic(clock)) return real(clock, time);
    int result = real(CLOCK_MONOTONIC, time);
    if (result == 0) *time = timespec_of(shown(&now, nanoseconds(time)));
    return result;
}

int gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    *time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout) {
    static int (*real)(int, struct epoll_event *, int, int);
    if (!real) real = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    struct control now = look();
    if (timeout > 0 && now.base_true != 0) timeout = (int)((int64_t)timeout * 1000000 / now.rate) + 1;
    return real(epoll, events, count, timeout);
}

// Converts a shown deadline to the true time of the same clock.
static struct timespec true_deadline(clockid_t clock, const struct timespec *time) {
    struct control now = look();
    if (is_wall(clock)) return timespec_of(nanoseconds(time) - now.wall_shift);
    return timespec_of(truth(&now, nanoseconds(time)));
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *time) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec deadline = true_deadline(CLOCK_REALTIME, time);
    return real(condition, mutex, &deadline);
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *time) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    if (!real) {
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *))dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    }
    struct timespec deadline = true_deadline(clock, time);
    return real(condition, mutex, clock, &deadline);
}

// Rust's own locks wait on futexes with a deadline.
long syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    if (!real_syscall) real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    int waits = number == SYS_futex && (b & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && d != 0;
    if (!waits) return real_syscall(number, a, b, c, d, e, f);
    clockid_t clock = (b & FUTEX_CLOCK_REALTIME) ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    struct timespec deadline = true_deadline(clock, (const struct timespec *)d);
    return real_syscall(number, a, b, c, (long)&deadline, e, f);
}

static int sync_by(long number, int fd) {
    struct control now = look();
    if (now.sync_delay > 0) {
        seen();
        // By the true clock: only the disk is slow.
        struct timespec wait = timespec_of((int64_t)now.sync_delay * 1000);
        nanosleep(&wait, NULL);
    }
    if (now.syncs_to_fail > 0) {
        uint64_t left = __atomic_load_n(&control->syncs_to_fail, __ATOMIC_RELAXED);
        while (left > 0) {
            if (__atomic_compare_exchange_n(&control->syncs_to_fail, &left, left - 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
                seen();
                errno = EIO;
                return -1;
            }
        }
    }
    if (!real_syscall) real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return (int)real_syscall(number, (long)fd, 0L, 0L, 0L, 0L, 0L);
}

int fdatasync(int fd) { return sync_by(SYS_fdatasync, fd); }

int fsync(int fd) { return sync_by(SYS_fsync, fd); }
