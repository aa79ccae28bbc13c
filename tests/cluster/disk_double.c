// A disk that can be full, broken or slow, and that reports what is durable: loaded before the C library into one node's process.
//
// FAIRHOLD_DISK_ROOT   the folder whose files it controls; it leaves all other files alone
// FAIRHOLD_DISK_RULE   a file with the one rule in force, or empty:
//                        ID full BYTES PART   only BYTES more bytes fit into files whose path has PART; then ENOSPC, like a full
//                                             disk: what fits is written, the rest is not
//                        ID sync NTH PART     the NTH sync from now on of such a file fails with EIO; later ones succeed,
//                                             as with a kernel that drops pages that it could not write
//                        ID skip 0 PART     syncs of such files are left out, but report success
//                        ID slow MS PART    each sync of such a file takes MS milliseconds longer
//                      A rule counts from the moment at which its ID is first seen.
// FAIRHOLD_DISK_TRACE  what is durable, one line each, written before the caller learns of it:
//                        S SIZE PATH          a file is on disk up to this size     E 0 PATH   a sync of it failed
//                        N 0 PATH             a name is on disk                     R 0 OLD NEW   renamed
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static long counted_for = -1, count;

struct rule { long id, number; char verb[16], part[256]; };

static int is_ours(const char *path) {
    const char *root = getenv("FAIRHOLD_DISK_ROOT");
    size_t length = root ? strlen(root) : 0;
    // The path of the folder itself has no last slash.
    return length > 0 && strncmp(path, root, length - 1) == 0 && (path[length - 1] == '/' || path[length - 1] == 0);
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

// The rule in force for a path; the caller holds the mutex.
static int rule_for(const char *path, const char *verb, struct rule *rule) {
    const char *name = getenv("FAIRHOLD_DISK_RULE");
    char text[512];
    int fd = name ? (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return 0;
    ssize_t length = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    if (length <= 0) return 0;
    text[length] = 0;
    if (sscanf(text, "%ld %15s %ld %255s", &rule->id, rule->verb, &rule->number, rule->part) != 4) return 0;
    if (rule->id != counted_for) { counted_for = rule->id; count = 0; }
    return strcmp(rule->verb, verb) == 0 && strstr(path, rule->part) != NULL;
}

static void note(char what, long long size, const char *path, const char *other) {
    const char *name = getenv("FAIRHOLD_DISK_TRACE");
    char line[2 * PATH_MAX + 64];
    if (!name) return;
    int length = snprintf(line, sizeof line, "%c %lld %s%s%s\n", what, size, path, other ? " " : "", other ? other : "");
    int fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || syscall(SYS_write, fd, line, length) != length) abort();
    syscall(SYS_close, fd);
}

// How many of these bytes fit.
static size_t room_for(int fd, size_t wanted) {
    char path[PATH_MAX];
    struct rule rule;
    size_t fits = wanted;
    if (!path_of(fd, path)) return wanted;
    pthread_mutex_lock(&turn);
    if (rule_for(path, "full", &rule)) {
        long left = rule.number > count ? rule.number - count : 0;
        if ((size_t)left < fits) fits = (size_t)left;
        count += (long)fits;
    }
    pthread_mutex_unlock(&turn);
    return fits;
}

ssize_t write(int fd, const void *bytes, size_t wanted) {
    size_t fits = room_for(fd, wanted);
    if (wanted > 0 && fits == 0) { errno = ENOSPC; return -1; }
    return syscall(SYS_write, fd, bytes, fits);
}

ssize_t writev(int fd, const struct iovec *parts, int parts_count) {
    size_t wanted = 0;
    for (int part = 0; part < parts_count; part++) wanted += parts[part].iov_len;
    size_t fits = room_for(fd, wanted);
    if (fits == wanted) return syscall(SYS_writev, fd, parts, parts_count);
    if (fits == 0) { errno = ENOSPC; return -1; }
    size_t first = parts[0].iov_len < fits ? parts[0].iov_len : fits;
    return syscall(SYS_write, fd, parts[0].iov_base, first);
}

// Preallocates nothing, so that only written bytes count.
int fallocate(int fd, int mode, off_t offset, off_t length) {
    char path[PATH_MAX];
    if (path_of(fd, path)) { errno = EOPNOTSUPP; return -1; }
    return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length) { return fallocate(fd, mode, offset, length); }

static void note_names(const char *directory) {
    char path[PATH_MAX + 257];
    DIR *open_directory = opendir(directory);
    if (!open_directory) return;
    for (struct dirent *entry; (entry = readdir(open_directory));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        note('N', 0, path, NULL);
    }
    closedir(open_directory);
}

static int sync_by(long call, int fd) {
    char path[PATH_MAX];
    struct rule rule;
    struct stat before;
    if (!path_of(fd, path)) return (int)syscall(call, fd);
    pthread_mutex_lock(&turn);
    int fails = rule_for(path, "sync", &rule) && ++count == rule.number;
    int left_out = rule_for(path, "skip", &rule);
    long extra_ms = rule_for(path, "slow", &rule) ? rule.number : 0;
    pthread_mutex_unlock(&turn);
    if (fails) { note('E', 0, path, NULL); errno = EIO; return -1; }
    if (left_out) return 0;
    usleep((useconds_t)extra_ms * 1000);
    // The sync need not include what is written while it runs.
    int known = fstat(fd, &before);
    int result = (int)syscall(call, fd);
    if (known == 0 && result == 0) {
        if (S_ISDIR(before.st_mode)) note_names(path);
        else note('S', before.st_size, path, NULL);
    }
    return result;
}

int fdatasync(int fd) { return sync_by(SYS_fdatasync, fd); }

int fsync(int fd) { return sync_by(SYS_fsync, fd); }

int rename(const char *from, const char *to) {
    int result = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (result == 0 && is_ours(to)) note('R', 0, from, to);
    return result;
}
