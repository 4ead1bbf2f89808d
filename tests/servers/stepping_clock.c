/* CLOCK_REALTIME and CLOCK_BOOTTIME, each with an offset in ms that a file has: LD_PRELOAD it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offsets; /* of the wall, and of the time since boot */

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CLOCK_OFFSETS");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    if (mapped == MAP_FAILED)
        abort(); /* a test must not run with the machine's clock unawares */
    offsets = mapped;
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    int failed = (int)syscall(SYS_clock_gettime, id, at);
    if (!failed && offsets && (id == CLOCK_REALTIME || id == CLOCK_BOOTTIME)) {
        int64_t ns = at->tv_nsec + offsets[id == CLOCK_BOOTTIME] * 1000000;
        at->tv_sec += ns / 1000000000;
        at->tv_nsec = ns % 1000000000;
        if (at->tv_nsec < 0) {
            at->tv_nsec += 1000000000;
            at->tv_sec -= 1;
        }
    }
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
