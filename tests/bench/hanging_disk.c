/* A disk that neither takes nor refuses what is written, for one process: put before the C library
 * (LD_PRELOAD). While the file HANG_WHILE is there, whatever writes below the directory HANG_UNDER
 * does not return; reading goes on, as it does from a frozen file system. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int is_below(const char *path)
{
    const char *directory = getenv("HANG_UNDER");
    return directory != NULL && strncmp(path, directory, strlen(directory)) == 0;
}

static void wait_for_path(const char *path)
{
    const char *mark = getenv("HANG_WHILE");
    while (mark != NULL && is_below(path) && access(mark, F_OK) == 0)
        usleep(5000);
}

static void wait_for_file(int file)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        wait_for_path(path);
    }
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *data, size_t size)
{
    wait_for_file(file);
    return REAL(ssize_t, write, int, const void *, size_t)(file, data, size);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at)
{
    wait_for_file(file);
    return REAL(ssize_t, pwrite, int, const void *, size_t, off_t)(file, data, size, at);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at)
{
    wait_for_file(file);
    return REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)(file, data, size, at);
}

int fsync(int file)
{
    wait_for_file(file);
    return REAL(int, fsync, int)(file);
}

int fdatasync(int file)
{
    wait_for_file(file);
    return REAL(int, fdatasync, int)(file);
}

int ftruncate(int file, off_t size)
{
    wait_for_file(file);
    return REAL(int, ftruncate, int, off_t)(file, size);
}

int ftruncate64(int file, off64_t size)
{
    wait_for_file(file);
    return REAL(int, ftruncate64, int, off64_t)(file, size);
}

int unlink(const char *path)
{
    wait_for_path(path);
    return REAL(int, unlink, const char *)(path);
}

int rename(const char *from, const char *to)
{
    wait_for_path(to);
    return REAL(int, rename, const char *, const char *)(from, to);
}
