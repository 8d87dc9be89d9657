/* Refuses calls as file systems of clusters do. CHAOS names what: fsync, rename, link, symlink, flock. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int refused(const char *name) {
  const char *chosen = getenv("CHAOS");
  return chosen && !strcmp(chosen, name);
}

static int fail(int number) {
  errno = number;
  return -1;
}

#define NEXT(name) static __typeof__(&name) next; if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static int folder(int file) {
  struct stat about;
  return !fstat(file, &about) && S_ISDIR(about.st_mode);
}

int fsync(int file) {
  NEXT(fsync);
  return refused("fsync") && folder(file) ? fail(EINVAL) : next(file);
}

int fdatasync(int file) {
  NEXT(fdatasync);
  return refused("fsync") && folder(file) ? fail(EINVAL) : next(file);
}

/* whether this process has the file open that a rename would replace */
static int open_here(const char *path) {
  struct stat target, other;
  if (stat(path, &target)) return 0;
  for (int file = 0; file < 1024; file++)
    if (!fstat(file, &other) && other.st_ino == target.st_ino && other.st_dev == target.st_dev) return 1;
  return 0;
}

int rename(const char *from, const char *to) {
  NEXT(rename);
  return refused("rename") && open_here(to) ? fail(EBUSY) : next(from, to);
}

int renameat(int a, const char *from, int b, const char *to) {
  NEXT(renameat);
  return refused("rename") && open_here(to) ? fail(EBUSY) : next(a, from, b, to);
}

int link(const char *from, const char *to) {
  NEXT(link);
  return refused("link") ? fail(EPERM) : next(from, to);
}

int linkat(int a, const char *from, int b, const char *to, int flags) {
  NEXT(linkat);
  return refused("link") ? fail(EPERM) : next(a, from, b, to, flags);
}

int symlink(const char *from, const char *to) {
  NEXT(symlink);
  return refused("symlink") ? fail(EPERM) : next(from, to);
}

int symlinkat(const char *from, int b, const char *to) {
  NEXT(symlinkat);
  return refused("symlink") ? fail(EPERM) : next(from, b, to);
}

int flock(int file, int operation) {
  NEXT(flock);
  return refused("flock") ? fail(ENOLCK) : next(file, operation);
}

static int locks(int command) { return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW; }

int fcntl(int file, int command, ...) {
  NEXT(fcntl);
  va_list given;
  va_start(given, command);
  void *argument = va_arg(given, void *);
  va_end(given);
  return refused("flock") && locks(command) ? fail(ENOLCK) : next(file, command, argument);
}

int fcntl64(int file, int command, ...) {
  NEXT(fcntl64);
  va_list given;
  va_start(given, command);
  void *argument = va_arg(given, void *);
  va_end(given);
  return refused("flock") && locks(command) ? fail(ENOLCK) : next(file, command, argument);
}
