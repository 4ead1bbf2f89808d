/* The clocks of the wall, since boot, and steady, each with an offset in ms from a file: LD_PRELOAD it.

Waits until a steady time are shifted too. Otherwise they would all end at once in a process whose
steady clock stood still. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WALL, BOOT, STEADY, CLOCKS };
static const volatile int64_t *offsets;
static int (*wait_for_condition)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*wait_for_semaphore)(sem_t *, clockid_t, const struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CLOCK_OFFSETS");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    size_t size = CLOCKS * sizeof(int64_t);
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    *(void **)&wait_for_condition = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!wait_for_condition) /* only x86 has an older version too, which would be found here */
        *(void **)&wait_for_condition = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    *(void **)&wait_for_semaphore = dlsym(RTLD_NEXT, "sem_clockwait");
    if (mapped == MAP_FAILED || !wait_for_condition || !wait_for_semaphore)
        abort(); /* a test must not run with the machine's clock unawares */
    offsets = mapped;
}

static int64_t offset_of(clockid_t id)
{
    if (!offsets)
        return 0;
    switch (id) {
    case CLOCK_REALTIME:
        return offsets[WALL];
    case CLOCK_BOOTTIME:
        return offsets[BOOT];
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
        return offsets[STEADY];
    }
    return 0;
}

static void shift(struct timespec *at, int64_t by_ms)
{
    int64_t ns = at->tv_nsec + by_ms % 1000 * 1000000;
    at->tv_sec += by_ms / 1000 + ns / 1000000000;
    at->tv_nsec = ns % 1000000000;
    if (at->tv_nsec < 0) {
        at->tv_nsec += 1000000000;
        at->tv_sec -= 1;
    }
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    int failed = (int)syscall(SYS_clock_gettime, id, at);
    if (!failed)
        shift(at, offset_of(id));
    return failed;
}

int gettimeofday(struct timeval *at, void *zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

/* Return the machine's time of the shifted one at which a wait ends. */
static struct timespec real(clockid_t id, const struct timespec *until)
{
    struct timespec at = *until;
    shift(&at, -offset_of(id));
    return at;
}

int pthread_cond_timedwait(
    pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    struct timespec at = real(CLOCK_MONOTONIC, until); /* the clock of Python's and libuv's */
    return wait_for_condition(condition, mutex, &at);
}

int sem_clockwait(sem_t *semaphore, clockid_t id, const struct timespec *until)
{
    struct timespec at = real(id, until);
    return wait_for_semaphore(semaphore, id, &at);
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *until, struct timespec *left)
{
    struct timespec at = flags & TIMER_ABSTIME ? real(id, until) : *until;
    return syscall(SYS_clock_nanosleep, id, flags, &at, left) ? errno : 0;
}
