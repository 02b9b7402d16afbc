/* Calls functions of the C library and says of each how often it called the allocator,
   which is this program's, and the functions of a stream, which are this program's, too. */
#define _GNU_SOURCE
#include <aio.h>
#include <arpa/inet.h>
#include <argz.h>
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <langinfo.h>
#include <libgen.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <regex.h>
#include <sched.h>
#include <search.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
#include <gnu/libc-version.h>
#include <sys/syslog.h>
#include <ulimit.h>
#include <utime.h>
#include <wchar.h>
#include <wctype.h>

static char arena[1 << 26] __attribute__((aligned(16)));
static size_t used;
static long allocator, stream;

static void *take(size_t align, size_t size) {
  allocator++;
  size_t at = (used + 16 + align - 1) & ~(align - 1);
  used = at + size;
  if (used > sizeof arena) _exit(9);
  ((size_t *)(arena + at))[-1] = size;
  return arena + at;
}
void *malloc(size_t size) { return take(16, size); }
void *calloc(size_t n, size_t size) { return take(16, n * size); }
void *memalign(size_t align, size_t size) { return take(align, size); }
void *aligned_alloc(size_t align, size_t size) { return take(align, size); }
int posix_memalign(void **to, size_t align, size_t size) { *to = take(align, size); return 0; }
void free(void *it) { (void)it; allocator++; }
void *realloc(void *old, size_t size) {
  char *fresh = take(16, size);
  size_t before = old ? ((size_t *)old)[-1] : 0;
  for (size_t i = 0; i < before && i < size; i++) fresh[i] = ((char *)old)[i];
  return fresh;
}

static void say(const char *name, long allocations, long callbacks) {
  char line[128];
  int at = 0;
  for (; name[at] && name[at] != ' '; at++) line[at] = name[at];
  line[at++] = ' ';
  line[at++] = allocations ? '1' : '0';
  line[at++] = ' ';
  line[at++] = callbacks ? '1' : '0';
  line[at++] = '\n';
  if (write(3, line, at) != at) _exit(8);
}

#define T(name, ...) do { \
    long allocator_before = allocator, stream_before = stream; __VA_ARGS__; \
    say(#name, allocator - allocator_before, stream - stream_before); } while (0)
/* A function that is called with these arguments. */
#define C(name, ...) T(name, (void)(name)(__VA_ARGS__))

static const char text[] = "a line of the stream\n12 34\nand more of it\n";
static size_t at;
static ssize_t reads(void *c, char *to, size_t n) {
  stream++;
  (void)c;
  for (size_t i = 0; i < n; i++, at++) to[i] = text[at % (sizeof text - 1)];
  return n;
}
static ssize_t writes(void *c, const char *from, size_t n) { stream++; (void)c; (void)from; return n; }
static int seeks(void *c, off64_t *to, int whence) {
  stream++;
  (void)c;
  if (whence == SEEK_END) *to = 1000;
  else if (whence == SEEK_CUR) *to += at;
  at = *to;
  return 0;
}
static int closes(void *c) { stream++; (void)c; return 0; }
static FILE *cookie(int buffered) {
  FILE *it = fopencookie(NULL, "w+", (cookie_io_functions_t){reads, writes, seeks, closes});
  if (!buffered) setvbuf(it, NULL, _IONBF, 0);
  return it;
}

static int compare(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }
static void formatted(FILE *f, const char *format, ...) {
  va_list list;
  va_start(list, format);
  T(vfprintf, vfprintf(f, format, list));
  va_end(list);
}

static void memory_and_strings(void) {
  char a[256] = "some text, and more", b[256], c[256];
  wchar_t w[64] = L"some wide text", v[64];
  char *rest = NULL;
  wchar_t *wrest = NULL;
  C(memcpy, b, a, 20); C(memmove, b, b + 1, 10); C(memset, c, 0, 256); C(memcmp, a, b, 5);
  C(memchr, a, 't', 20); C(memrchr, a, 't', 20); C(rawmemchr, a, 't'); C(memmem, a, 20, "xt", 2);
  C(mempcpy, b, a, 20); C(memccpy, b, a, ',', 20); C(memfrob, c, 4); C(swab, a, b, 6);
  C(bcmp, a, b, 4); C(bcopy, a, b, 4); C(bzero, c, 4); C(explicit_bzero, c, 4);
  C(strlen, a); C(strnlen, a, 9); C(strcpy, b, a); C(strncpy, b, a, 9); C(stpcpy, b, a);
  C(stpncpy, b, a, 9); C(strcat, b, "x"); C(strncat, b, "xy", 1); C(strcmp, a, b);
  C(strncmp, a, b, 4); C(strcasecmp, a, b); C(strncasecmp, a, b, 4); C(strchr, a, 't');
  C(strrchr, a, 't'); C(strchrnul, a, 'z'); C(strstr, a, "more"); C(strcasestr, a, "MORE");
  C(strspn, a, "some"); C(strcspn, a, ","); C(strpbrk, a, ",;"); C(index, a, 't'); C(rindex, a, 't');
  C(strcoll, a, b); C(strxfrm, c, a, 200); C(strverscmp, "a1", "a02"); C(strfry, c);
  C(strcpy, b, "x,y"); rest = b; C(strsep, &rest, ","); C(strtok, b, ","); C(strtok_r, c, ",", &rest);
  C(basename, a); C(dirname, c); C(strerrorname_np, 2); C(strerrordesc_np, 2);
  C(sigabbrev_np, 2); C(sigdescr_np, 2); C(ffs, 4); C(ffsl, 4L); C(ffsll, 4LL);
  C(wcslen, w); C(wcsnlen, w, 3); C(wcscpy, v, w); C(wcsncpy, v, w, 3); C(wcscat, v, L"x");
  C(wcsncat, v, L"x", 1); C(wcscmp, v, w); C(wcsncmp, v, w, 3); C(wcscasecmp, v, w);
  C(wcsncasecmp, v, w, 3); C(wcschr, w, L'w'); C(wcsrchr, w, L'w'); C(wcsstr, w, L"wide");
  C(wcsspn, w, L"some"); C(wcscspn, w, L" "); C(wcspbrk, w, L" "); C(wcscoll, v, w);
  C(wcsxfrm, v, w, 60); C(wcstok, v, L" ", &wrest); C(wcpcpy, v, w); C(wcpncpy, v, w, 3);
  C(wmemcpy, v, w, 4); C(wmemmove, v, w, 4); C(wmemset, v, L'x', 4); C(wmemcmp, v, w, 4);
  C(wmemchr, w, L'w', 8); C(wmempcpy, v, w, 4); C(wcschrnul, w, L'x'); C(wcswidth, w, 4); C(wcwidth, L'x');
  C(strdup, a); C(strndup, a, 3); C(wcsdup, w); C(strerror, 2); C(strsignal, 2);
  C(strerror_r, 2, b, 200);
}

static void numbers(void) {
  char *end;
  wchar_t *wend;
  unsigned short seed[3] = {1, 2, 3};
  unsigned state = 1;
  struct drand48_data drand;
  double d;
  char chars[64];
  C(atoi, "12"); C(atol, "12"); C(atoll, "12"); C(atof, "1e300"); C(strtol, "-12", &end, 0);
  C(strtoul, "12", &end, 0); C(strtoll, "12", &end, 16); C(strtoull, "12", &end, 0);
  C(strtoimax, "12", &end, 0); C(strtoumax, "12", &end, 0);
  T(strtod, strtod("0.1234567890123456789012345678901234567890e-290", &end));
  T(strtof, strtof("1.17549435082228750796873653722224567781866555677e-38", &end));
  T(strtold, strtold("123456789012345678901234567890.5e-400", &end));
  C(wcstol, L"12", &wend, 0); C(wcstoul, L"12", &wend, 0); C(wcstoll, L"12", &wend, 0);
  C(wcstoull, L"12", &wend, 0); C(wcstod, L"1e10", &wend); C(wcstof, L"1", &wend); C(wcstold, L"1", &wend);
  C(abs, -1); C(labs, -1L); C(llabs, -1LL); C(imaxabs, -1); T(div, (void)div(4, 3));
  T(ldiv, (void)ldiv(4, 3)); T(lldiv, (void)lldiv(4, 3));
  C(rand); C(srand, 1); C(rand_r, &state); C(random); C(srandom, 1); C(initstate, 1, chars, 64);
  C(drand48); C(erand48, seed); C(lrand48); C(nrand48, seed); C(mrand48); C(jrand48, seed);
  C(srand48, 1L); C(srand48_r, 1L, &drand); C(drand48_r, &drand, &d); C(lcong48, (unsigned short[7]){0});
  C(arc4random); C(arc4random_buf, chars, 8); C(arc4random_uniform, 9); C(getrandom, chars, 4, 0);
  C(getentropy, chars, 4); C(a64l, "x"); C(l64a, 5L); C(htonl, 1); C(htons, 1); C(ntohl, 1); C(ntohs, 1);
}

static void characters(void) {
  mbstate_t state = {0};
  wchar_t w[32];
  char c[32];
  C(isalnum, 'a'); C(isalpha, 'a'); C(isblank, 'a'); C(iscntrl, 'a'); C(isdigit, 'a'); C(isgraph, 'a');
  C(islower, 'a'); C(isprint, 'a'); C(ispunct, 'a'); C(isspace, 'a'); C(isupper, 'a'); C(isxdigit, 'a');
  C(isascii, 'a'); C(toascii, 'a'); C(tolower, 'A'); C(toupper, 'a'); C(iswalnum, L'a');
  C(iswalpha, L'a'); C(iswblank, L'a'); C(iswcntrl, L'a'); C(iswdigit, L'a'); C(iswgraph, L'a');
  C(iswlower, L'a'); C(iswprint, L'a'); C(iswpunct, L'a'); C(iswspace, L'a'); C(iswupper, L'a');
  C(iswxdigit, L'a'); C(towlower, L'A'); C(towupper, L'a'); C(wctype, "alpha"); C(wctrans, "tolower");
  T(iswctype, iswctype(L'a', wctype("alpha"))); T(towctrans, towctrans(L'a', wctrans("toupper")));
  C(mbsinit, &state); C(localeconv); C(nl_langinfo, CODESET); C(uselocale, (locale_t)0);
  C(mblen, "a", 1); C(mbtowc, w, "a", 1); C(wctomb, c, L'a'); C(mbrtowc, w, "a", 1, &state);
  C(wcrtomb, c, L'a', &state); C(mbstowcs, w, "abc", 30); C(wcstombs, c, L"abc", 30);
  C(btowc, 'a'); C(wctob, L'a'); C(setlocale, LC_ALL, "C.UTF-8"); C(mbstowcs, w, "abc", 30);
  C(__ctype_get_mb_cur_max); C(__ctype_b_loc); C(__ctype_tolower_loc); C(__ctype_toupper_loc);
  C(__errno_location);
}

static void environment(void) {
  char c[256];
  struct utsname names;
  struct rlimit limit;
  struct rusage usage;
  struct sysinfo info;
  struct tms times_;
  double load[3];
  gid_t groups[64];
  C(getenv, "PATH"); C(secure_getenv, "PATH"); C(getpid); C(getppid); C(gettid); C(getuid); C(geteuid);
  C(getgid); C(getegid); C(getpgrp); C(getpgid, 0); C(getsid, 0); C(getgroups, 64, groups);
  C(getpagesize); C(getdtablesize); C(sysconf, _SC_NPROCESSORS_ONLN); C(sysconf, _SC_OPEN_MAX);
  C(confstr, _CS_PATH, c, 256); C(getauxval, AT_PAGESZ); C(uname, &names); C(gethostname, c, 256);
  C(getdomainname, c, 256); C(getrlimit, RLIMIT_NOFILE, &limit); C(setrlimit, RLIMIT_NOFILE, &limit);
  C(getrusage, RUSAGE_SELF, &usage); C(sysinfo, &info); C(times, &times_); C(getloadavg, load, 3);
  C(get_nprocs); C(get_nprocs_conf); C(get_phys_pages); C(get_avphys_pages); C(getpriority, PRIO_PROCESS, 0);
  C(nice, 0); C(sched_yield); C(sched_getcpu); C(sched_getscheduler, 0); C(umask, 022); C(ulimit, 1);
  C(setenv, "BT", "1", 1); C(unsetenv, "BT"); C(putenv, "BT=2"); C(ctermid, c); C(isatty, 1);
  C(gnu_get_libc_version); C(gnu_get_libc_release); C(getlogin_r, c, 256);
  C(getpwuid, 0); C(getpwnam, "root"); C(setlogmask, 0); C(alarm, 0); C(system, "true");
}

static void times_and_signals(void) {
  struct timespec t = {0, 1};
  struct timeval v;
  struct itimerval i = {0};
  time_t now = 1700000000;
  struct tm tm = {.tm_mday = 1, .tm_year = 100};
  char c[128];
  sigset_t set, other;
  struct sigaction action;
  C(time, NULL); C(clock); C(clock_gettime, CLOCK_REALTIME, &t); C(clock_getres, CLOCK_REALTIME, &t);
  C(gettimeofday, &v, NULL); C(difftime, 1, 2); C(nanosleep, &(struct timespec){0, 1}, NULL);
  C(clock_nanosleep, CLOCK_REALTIME, 0, &(struct timespec){0, 1}, NULL); C(usleep, 1); C(sleep, 0);
  C(getitimer, ITIMER_REAL, &i); C(setitimer, ITIMER_REAL, &i, NULL); C(timespec_get, &t, TIME_UTC);
  C(gmtime, &now); C(gmtime_r, &now, &tm); C(localtime, &now); C(mktime, &tm); C(timegm, &tm);
  C(asctime, &tm); C(ctime, &now); C(tzset); C(strftime, c, 128, "%c", &tm); C(strptime, "12", "%H", &tm);
  C(sigemptyset, &set); C(sigfillset, &other); C(sigaddset, &set, SIGUSR1); C(sigdelset, &other, SIGUSR1);
  C(sigismember, &set, SIGUSR1); C(sigisemptyset, &set); C(sigandset, &set, &set, &other);
  C(sigorset, &set, &set, &other); C(sigprocmask, SIG_BLOCK, NULL, &set); C(pthread_sigmask, SIG_BLOCK, NULL, &set);
  C(sigpending, &set); C(sigaction, SIGUSR2, NULL, &action); C(signal, SIGUSR2, SIG_IGN);
  C(ssignal, SIGUSR2, SIG_IGN); C(sysv_signal, SIGUSR2, SIG_IGN); C(raise, SIGUSR2);
  C(kill, getpid(), SIGUSR2); C(tgkill, getpid(), gettid(), SIGUSR2); C(killpg, getpgrp(), 0);
  C(pthread_kill, pthread_self(), SIGUSR2); C(siginterrupt, SIGUSR2, 0); C(sigaltstack, NULL, NULL);
  C(sighold, SIGUSR2); C(sigrelse, SIGUSR2); C(sigset, SIGUSR2, SIG_IGN); C(sigignore, SIGUSR2);
}

static void files(void) {
  char c[512], name[64] = "behaviour.XXXXXX", dir[64] = "behaviour.XXXXXX", path[PATH_MAX];
  struct stat s;
  struct statfs f;
  struct statvfs vf;
  struct termios tio;
  struct iovec vec = {c, 4};
  int ends[2], fd;
  fd_set set;
  FD_ZERO(&set);
  T(mkstemp, fd = mkstemp(name));
  C(write, fd, "text", 4); C(pwrite, fd, "text", 4, 0); C(lseek, fd, 0, SEEK_SET); C(read, fd, c, 4);
  C(pread, fd, c, 4, 0); C(readv, fd, &vec, 1); C(writev, fd, &vec, 1); C(preadv, fd, &vec, 1, 0);
  C(pwritev, fd, &vec, 1, 0); C(fsync, fd); C(fdatasync, fd); C(ftruncate, fd, 8); C(truncate, name, 9);
  C(fstat, fd, &s); C(stat, name, &s); C(lstat, name, &s); C(fstatat, AT_FDCWD, name, &s, 0);
  C(fstatfs, fd, &f); C(statfs, name, &f); C(fstatvfs, fd, &vf); C(statvfs, name, &vf);
  C(fchmod, fd, 0600); C(chmod, name, 0600); C(fchmodat, AT_FDCWD, name, 0600, 0); C(access, name, R_OK);
  C(faccessat, AT_FDCWD, name, R_OK, 0); C(euidaccess, name, R_OK); C(chown, name, -1, -1);
  C(fchown, fd, -1, -1); C(lchown, name, -1, -1); C(utime, name, NULL); C(utimes, name, NULL);
  C(futimens, fd, NULL); C(utimensat, AT_FDCWD, name, NULL, 0); C(flock, fd, LOCK_SH); C(lockf, fd, F_TEST, 0);
  C(posix_fadvise, fd, 0, 0, 0); C(posix_fallocate, fd, 0, 8); C(fcntl, fd, F_GETFL); C(ioctl, fd, FIONREAD, c);
  C(dup, fd); C(dup2, fd, 60); C(dup3, fd, 61, O_CLOEXEC); C(symlink, name, "behaviour.link");
  C(readlink, "behaviour.link", c, 512); C(readlinkat, AT_FDCWD, "behaviour.link", c, 512);
  C(link, name, "behaviour.hard"); C(rename, "behaviour.hard", "behaviour.moved"); C(unlink, "behaviour.moved");
  C(remove, "behaviour.link"); C(unlinkat, AT_FDCWD, "behaviour.none", 0); C(mkfifo, "behaviour.fifo", 0600);
  C(unlink, "behaviour.fifo"); C(mkdtemp, dir); C(rmdir, dir); C(mkdir, dir, 0700); C(rmdir, dir);
  T(open, close(open(name, O_RDONLY))); T(openat, close(openat(AT_FDCWD, name, O_RDONLY)));
  T(creat, close(creat(name, 0600))); C(pathconf, "/", _PC_NAME_MAX); C(fpathconf, fd, _PC_NAME_MAX);
  C(ftok, name, 1); C(close, fd); C(unlink, name); C(pipe, ends); C(poll, NULL, 0, 0);
  C(select, 0, &set, NULL, NULL, &(struct timeval){0, 0}); C(ppoll, NULL, 0, &(struct timespec){0, 0}, NULL);
  C(pselect, 0, NULL, NULL, NULL, &(struct timespec){0, 0}, NULL); C(pipe2, ends, O_CLOEXEC);
  T(epoll_create1, fd = epoll_create1(0)); C(epoll_wait, fd, (struct epoll_event[1]){0}, 1, 0);
  T(eventfd, fd = eventfd(0, 0)); C(eventfd_write, fd, 1); C(socketpair, AF_UNIX, SOCK_STREAM, 0, ends);
  C(send, ends[0], "x", 1, 0); C(recv, ends[1], c, 1, 0); C(sendto, ends[0], "x", 1, 0, NULL, 0);
  C(shutdown, ends[0], SHUT_RDWR); C(getsockopt, ends[0], SOL_SOCKET, SO_ERROR, c, &(socklen_t){4});
  C(tcgetattr, 0, &tio); C(chdir, "."); C(getcwd, path, PATH_MAX); C(realpath, ".", path);
  DIR *here = NULL;
  T(opendir, here = opendir(".")); C(readdir, here); C(telldir, here); C(rewinddir, here); C(dirfd, here);
  C(closedir, here); C(mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  T(munmap, munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096));
  C(inet_addr, "127.0.0.1"); C(inet_aton, "127.0.0.1", (struct in_addr *)c);
  C(inet_pton, AF_INET6, "::1", c); C(inet_ntop, AF_INET, c, path, 64); C(inet_ntoa, (struct in_addr){1});
  C(wait, NULL); C(waitpid, -1, NULL, WNOHANG); C(sbrk, 0);
}

static void *begins(void *it) { return it; }
static void nothing(void) {}
static void drops(void *it) { (void)it; }

static void threads(void) {
  pthread_t thread;
  pthread_attr_t attr;
  pthread_mutex_t mutex;
  pthread_mutexattr_t mattr;
  pthread_cond_t cond;
  pthread_condattr_t cattr;
  pthread_rwlock_t rw;
  pthread_barrier_t barrier;
  pthread_spinlock_t spin;
  pthread_key_t key;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  sem_t sem;
  mtx_t mtx;
  cnd_t cnd;
  size_t size;
  int n;
  C(pthread_self); C(pthread_equal, pthread_self(), pthread_self()); C(pthread_attr_init, &attr);
  C(pthread_attr_setstacksize, &attr, 1 << 17); C(pthread_attr_getstacksize, &attr, &size);
  C(pthread_attr_setdetachstate, &attr, PTHREAD_CREATE_JOINABLE); C(pthread_mutexattr_init, &mattr);
  C(pthread_mutexattr_settype, &mattr, PTHREAD_MUTEX_RECURSIVE); C(pthread_mutex_init, &mutex, &mattr);
  C(pthread_mutex_lock, &mutex); C(pthread_mutex_trylock, &mutex); C(pthread_mutex_unlock, &mutex);
  C(pthread_mutex_destroy, &mutex); C(pthread_mutexattr_destroy, &mattr); C(pthread_condattr_init, &cattr);
  C(pthread_cond_init, &cond, &cattr); C(pthread_cond_signal, &cond); C(pthread_cond_broadcast, &cond);
  C(pthread_cond_destroy, &cond); C(pthread_rwlock_init, &rw, NULL); C(pthread_rwlock_rdlock, &rw);
  C(pthread_rwlock_unlock, &rw); C(pthread_rwlock_wrlock, &rw); C(pthread_rwlock_unlock, &rw);
  C(pthread_rwlock_tryrdlock, &rw); C(pthread_rwlock_destroy, &rw); C(pthread_spin_init, &spin, 0);
  C(pthread_spin_lock, &spin); C(pthread_spin_unlock, &spin); C(pthread_barrier_init, &barrier, NULL, 1);
  C(pthread_barrier_wait, &barrier); C(pthread_barrier_destroy, &barrier); C(pthread_key_create, &key, drops);
  C(pthread_setspecific, key, &key); C(pthread_getspecific, key); C(pthread_key_delete, key);
  C(pthread_once, &once, nothing); C(pthread_setcancelstate, PTHREAD_CANCEL_DISABLE, &n);
  C(pthread_testcancel); C(sem_init, &sem, 0, 1); C(sem_wait, &sem); C(sem_post, &sem); C(sem_trywait, &sem);
  C(sem_getvalue, &sem, &n); C(sem_destroy, &sem); C(mtx_init, &mtx, mtx_plain); C(mtx_lock, &mtx);
  C(mtx_unlock, &mtx); C(mtx_destroy, &mtx); C(cnd_init, &cnd); C(cnd_signal, &cnd); C(cnd_destroy, &cnd);
  C(thrd_current); C(thrd_yield); C(pthread_create, &thread, &attr, begins, NULL);
  C(pthread_join, thread, NULL); C(pthread_attr_destroy, &attr); C(pthread_atfork, NULL, NULL, NULL);
  C(atexit, nothing); C(sched_getparam, 0, &(struct sched_param){0});
}

static void callers(void) {
  char chars[] = "sortable";
  void *root = NULL;
  size_t n = 8;
  jmp_buf place;
  regex_t regex;
  C(qsort, chars, 8, 1, compare); C(bsearch, "o", chars, 8, 1, compare); C(lfind, "o", chars, &n, 1, compare);
  C(tsearch, chars, &root, compare); C(tfind, chars, &root, compare); C(tdelete, chars, &root, compare);
  T(setjmp, (void)setjmp(place)); C(fnmatch, "a*", "abc", 0); C(hcreate, 10);
  C(hsearch, (ENTRY){"x", NULL}, FIND); C(hdestroy); C(insque, chars, NULL); C(regcomp, &regex, "a*b", 0);
  C(regexec, &regex, "aab", 0, NULL, 0); C(regfree, &regex); C(argz_count, "a\0b", 4);
  C(dlsym, RTLD_DEFAULT, "main");
}

static void streams(void) {
  char c[128], *line = NULL;
  size_t n = 0;
  wchar_t w[32];
  fpos_t pos;
  int number;
  FILE *f = cookie(1), *g = cookie(0);
  C(feof, f); C(ferror, f); C(fileno, f); C(clearerr, f); C(feof_unlocked, f); C(ferror_unlocked, f);
  C(fileno_unlocked, f); C(flockfile, f); C(ftrylockfile, f); C(funlockfile, f); C(funlockfile, f);
  C(__fbufsize, f); C(__freading, f); C(__fwriting, f); C(__freadable, f); C(__fwritable, f); C(__flbf, f);
  C(__fpending, f); C(__fpurge, f); C(__fsetlocking, f, FSETLOCKING_QUERY);
  C(fgets, c, 100, f); C(fgetc, f); C(getc, f); C(ungetc, 'x', f); C(fread, c, 1, 3, f); C(getline, &line, &n, f);
  C(getdelim, &line, &n, ' ', f); C(fscanf, f, "%d", &number); C(rewind, f); C(fseek, f, 0, SEEK_SET);
  C(ftell, f); C(fgetpos, f, &pos); C(fsetpos, f, &pos); C(getw, g); C(fgets, c, 20, g); C(fgetc, g);
  C(fread, c, 1, 3, g); C(fseeko, f, 0, SEEK_SET); C(fputs, "x", f); C(fputc, 'x', f); C(putc, 'x', f);
  C(fwrite, "x", 1, 1, f); C(fflush, f); C(fprintf, f, "%d", 4); formatted(f, "%s", "x"); C(fputs, "x\n", g);
  C(fputc, 'x', g); C(fwrite, "x", 1, 1, g); C(fprintf, g, "%d", 4); formatted(g, "%s", "x"); C(putw, 1, g);
  C(fflush, NULL); C(fputs_unlocked, "x", g); C(fputc_unlocked, 'x', g); C(fwrite_unlocked, "x", 1, 1, g);
  C(fflush_unlocked, g); C(fgets_unlocked, c, 20, g); C(fgetc_unlocked, g); C(fread_unlocked, c, 1, 1, g);
  C(setvbuf, f, NULL, _IOFBF, 64); C(setbuf, f, NULL); C(setlinebuf, f); C(clearerr_unlocked, f);
  stdout = g; C(puts, "x"); C(putchar, 'x'); C(printf, "%d", 1); C(putchar_unlocked, 'x');
  stdin = cookie(0); C(getchar, ); C(getchar_unlocked, ); C(scanf, "%d", &number);
  stderr = g; errno = 2; C(perror, "x"); C(psignal, 2, "x");
  T(fclose, fclose(f)); C(snprintf, c, 100, "%d %s %g", 1, "x", 1.5); C(sprintf, c, "%d", 1);
  C(sscanf, "12", "%d", &number); C(asprintf, &line, "%d", 1); 
  /* Wide streams cannot be cookies. */
  f = fopen("behaviour.wide", "w+"); C(fwide, f, 1); C(fgetws, w, 30, f);
  C(fgetwc, f); C(fseek, f, 0, SEEK_SET); C(fputwc, L'x', f); C(fputws, L"x", f); C(fflush, f); C(freopen, "/dev/null", "r", f);
  T(fopen, f = fopen("/dev/null", "r")); C(fdopen, 0, "r"); C(popen, "true", "r"); C(tmpfile); C(fcloseall);
}

int main(void) {
  memory_and_strings(); numbers(); characters(); environment(); times_and_signals(); files(); threads();
  callers(); streams();
  say("end", 0, 0);
  _exit(0);
}
