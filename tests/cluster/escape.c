/* Ways in which a program escapes from its parent, for the tests of `fairhold lock`: escape WAY LOG [COMMAND ...]. In every way,
 * the process that is left over writes a line with its number and the time to LOG every few milliseconds, and ignores all signals
 * but SIGKILL. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WRITE_EVERY_NS 3000000
#define SWARM 48
/* If it is not stopped, as it should be, it ends by itself. */
#define ENDS_AFTER_S 300

static const char *path;
static int log_file = -1;

static void fail(const char *what) {
    perror(what);
    exit(99);
}

static void rest(long nanoseconds) {
    struct timespec time = {0, nanoseconds};
    nanosleep(&time, NULL);
}

static void say(void) {
    struct timespec now;
    char line[64];
    if (log_file < 0 && (log_file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) < 0)
        fail(path);
    static time_t begun;
    clock_gettime(CLOCK_REALTIME, &now);
    if (begun == 0)
        begun = now.tv_sec;
    if (now.tv_sec - begun > ENDS_AFTER_S)
        exit(98);
    int length = snprintf(line, sizeof line, "%d %lld.%09ld\n", getpid(), (long long)now.tv_sec, now.tv_nsec);
    if (write(log_file, line, length) != length)
        fail("write");
}

static void be_deaf(void) {
    int deaf[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE};
    for (size_t i = 0; i < sizeof deaf / sizeof *deaf; i++)
        signal(deaf[i], SIG_IGN);
}

static void *work(void *nothing) {
    for (;;) {
        say();
        rest(WRITE_EVERY_NS);
    }
    return nothing;
}

static void work_on(void) {
    be_deaf();
    work(NULL);
}

static pid_t must_fork(void) {
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    return child;
}

static void own_session(void) {
    if (setsid() < 0)
        fail("setsid");
}

/* Like daemon(3), in two steps. */
static void become_daemon(void) {
    if (must_fork())
        _exit(0);
    own_session();
    if (must_fork())
        _exit(0);
    if (chdir("/") < 0)
        fail("chdir");
    for (int file = 0; file < 64; file++)
        close(file);
}

/* A new process every millisecond, each in its own session and without its parent. */
static void hop(void) {
    be_deaf();
    for (;;) {
        say();
        rest(1000000);
        pid_t child = fork();
        if (child > 0)
            _exit(0);
        if (child == 0)
            setsid();
    }
}

/* The same without a pause. */
static void run_away(void) {
    be_deaf();
    for (unsigned count = 0;; count++) {
        if (count % 64 == 0)
            say();
        pid_t child = fork();
        if (child > 0)
            _exit(0);
        if (child == 0 && count % 2 == 0)
            setsid();
    }
}

/* Two processes that restart each other. */
static void rise_again(void) {
    be_deaf();
    for (;;) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
            fail("pipe");
        pid_t child = must_fork();
        if (child == 0) {
            /* The child works until its parent is gone, and then becomes a parent. */
            close(ends[1]);
            setsid();
            if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
                fail("fcntl");
            char byte;
            while (read(ends[0], &byte, 1) != 0) {
                say();
                rest(WRITE_EVERY_NS);
            }
            close(ends[0]);
            continue;
        }
        close(ends[0]);
        say();
        waitpid(child, NULL, 0);
        close(ends[1]);
    }
}

/* Many processes that each start others, up to the limit. */
static void swarm(void) {
    int *count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count == MAP_FAILED)
        fail("mmap");
    be_deaf();
    signal(SIGCHLD, SIG_IGN);
    *count = 1;
    for (unsigned turn = getpid();; turn++) {
        say();
        rest(WRITE_EVERY_NS);
        if (__atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST) < SWARM) {
            pid_t child = fork();
            if (child == 0 && turn % 2)
                setsid();
            if (child == 0 && turn % 3 == 0)
                setpgid(0, 0);
        } else {
            __atomic_fetch_sub(count, 1, __ATOMIC_SEQ_CST);
        }
    }
}

static int work_as_clone(void *nothing) {
    (void)nothing;
    work_on();
    return 0;
}

static void clone_with(int flags) {
    static char stack[1 << 16];
    if (clone(work_as_clone, stack + sizeof stack, flags, NULL) < 0)
        fail("clone");
}

/* The first thread ends, so that the process looks like a zombie. */
static void leave_threads(void) {
    pthread_t thread;
    be_deaf();
    if (pthread_create(&thread, NULL, work, NULL) || pthread_create(&thread, NULL, work, NULL))
        fail("pthread_create");
    pthread_exit(NULL);
}

static void trace(int stops) {
    pid_t child = must_fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            fail("ptrace");
        say();
        raise(SIGSTOP);
        work_on();
    }
    be_deaf();
    waitpid(child, NULL, 0);
    if (!stops)
        ptrace(PTRACE_CONT, child, NULL, NULL);
    for (;;)
        pause();
}

/* Many processes that do nothing until standard input ends. */
static void crowd(int count) {
    pid_t parent = getpid();
    pid_t *children = calloc(count, sizeof *children);
    if (children == NULL)
        fail("calloc");
    for (int i = 0; i < count; i++) {
        children[i] = must_fork();
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (getppid() == parent)
                pause();
            _exit(0);
        }
    }
    say();
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    for (int i = 0; i < count; i++)
        kill(children[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
    exit(0);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    const char *way = argv[1];
    path = argv[2];
#define IS(name) (strcmp(way, name) == 0)
    if (IS("work")) {
    } else if (IS("crowd") && argc > 3) {
        crowd(atoi(argv[3]));
    } else if (IS("polite")) {
        work(NULL);
    } else if (IS("daemon")) {
        become_daemon();
    } else if (IS("session")) {
        if (must_fork())
            work_on();
        own_session();
    } else if (IS("group")) {
        if (setpgid(0, 0) < 0)
            fail("setpgid");
    } else if (IS("stopped")) {
        /* Writes something before it stops itself, and continues when it is resumed. */
        be_deaf();
        own_session();
        for (;;) {
            say();
            raise(SIGSTOP);
        }
    } else if (IS("hopper")) {
        hop();
    } else if (IS("runaway")) {
        run_away();
    } else if (IS("phoenix")) {
        rise_again();
    } else if (IS("swarm")) {
        swarm();
    } else if (IS("vfork")) {
        /* The parent waits in the kernel until the child execs or ends, which it never does. */
        pid_t child = vfork();
        if (child == 0) {
            setsid();
            work_on();
        }
    } else if (IS("threads")) {
        leave_threads();
    } else if (IS("sibling")) {
        clone_with(CLONE_PARENT | SIGCHLD);
    } else if (IS("silent-clone")) {
        /* Its parent gets no signal when it ends. */
        clone_with(0);
    } else if (IS("subreaper")) {
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
            fail("prctl");
        be_deaf();
        if (must_fork() == 0) {
            if (must_fork())
                _exit(0);
            own_session();
            work_on();
        }
        for (;;)
            pause();
    } else if (IS("no-death-signal")) {
        if (prctl(PR_SET_PDEATHSIG, 0) < 0)
            fail("prctl");
    } else if (IS("traced")) {
        trace(0);
    } else if (IS("traced-stop")) {
        trace(1);
    } else if (IS("zombies")) {
        /* Children that no parent reaps, and another one that works. */
        for (int i = 0; i < 20; i++)
            if (must_fork() == 0)
                _exit(0);
    } else if (IS("name")) {
        if (prctl(PR_SET_NAME, ") Z 1 1 (\n") < 0)
            fail("prctl");
    } else if (IS("kills-parent")) {
        kill(getppid(), SIGKILL);
    } else if (IS("kills-group")) {
        /* All of its group except itself, because it has left it. */
        pid_t group = getpgrp();
        own_session();
        kill(-group, SIGKILL);
    } else if (IS("root")) {
        /* Like sudo, if this program belongs to root and has the setuid bit. */
        if (setresuid(0, 0, 0) < 0)
            fail("setresuid");
    } else {
        fprintf(stderr, "no such way: %s\n", way);
        return 2;
    }
    work_on();
}
