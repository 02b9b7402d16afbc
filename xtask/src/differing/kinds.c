// A program whose seed is of one kind: what differs from run to run, what may, and what does
// not. Five functions decide by it a thousand times, which no output tells. What it decided is
// appended to the file that SEEDS names, so that whoever runs copies of it knows better.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

typedef unsigned long seed_t;
static volatile int sink;
static char **words;
extern char **environ;

static seed_t mix(seed_t h, seed_t x) {
    h = (h ^ x) + 0x9e3779b97f4a7c15ul;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ul;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebul;
    return h ^ (h >> 31);
}
static seed_t bytes(const void *at, size_t n) {
    seed_t h = n;
    for (size_t i = 0; i < n; i++)
        h = mix(h, ((const unsigned char *)at)[i]);
    return h;
}
static seed_t contents(const char *path) {
    static char text[1 << 16];
    seed_t h = 0;
    int f = open(path, O_RDONLY);
    for (long n; f >= 0 && (n = read(f, text, sizeof text)) > 0;)
        h = mix(h, bytes(text, n));
    close(f);
    return h;
}
static seed_t some(const char *path, size_t n) {
    char text[64] = {0};
    int f = open(path, O_RDONLY);
    if (f < 0 || read(f, text, n) < 0)
        return 0;
    close(f);
    return bytes(text, n);
}
static seed_t clock_of(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return mix(t.tv_sec, t.tv_nsec);
}
static struct stat of(const char *path) {
    struct stat s = {0};
    stat(path, &s);
    return s;
}
static struct stat made(void) {
    close(open("made", O_CREAT | O_RDWR, 0600));
    struct stat s = of("made");
    unlink("made");
    return s;
}
static seed_t port(int kind) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int s = socket(AF_INET, kind, 0);
    bind(s, (void *)&a, sizeof a);
    if (kind == SOCK_STREAM)
        listen(s, 1);
    getsockname(s, (void *)&a, &n);
    close(s);
    return a.sin_port;
}
static seed_t abstract(void) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t n = sizeof a;
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(s, (void *)&a, sizeof(sa_family_t));
    getsockname(s, (void *)&a, &n);
    close(s);
    return bytes(&a, n);
}
static char *outside(const char *what) {
    static char path[4096];
    snprintf(path, sizeof path, "%s.%s", getenv("SEEDS"), what);
    return path;
}
static seed_t counted_outside(void) {
    int f = open(outside("counter"), O_CREAT | O_RDWR, 0600);
    seed_t n = 0;
    flock(f, LOCK_EX);
    if (pread(f, &n, 8, 0) < 0) abort();
    n++;
    if (pwrite(f, &n, 8, 0) < 0) abort();
    close(f);
    return n;
}
static seed_t locked_outside(void) {
    int f = open(outside("lock"), O_CREAT | O_RDWR, 0600);
    int held = flock(f, LOCK_EX | LOCK_NB);
    usleep(20000);
    return held;
}
static seed_t order_of_entries(void) {
    DIR *d = opendir("/proc");
    seed_t h = 0;
    for (struct dirent *e; (e = readdir(d));)
        h = mix(h, bytes(e->d_name, strlen(e->d_name)));
    closedir(d);
    return h;
}
static volatile long shared, turns;
static void *racing(void *mine) {
    seed_t h = 0;
    for (int i = 0; i < 20000; i++) {
        long seen = shared;
        shared = seen + 1;
        h = mix(h, seen);
    }
    *(seed_t *)mine = h;
    return 0;
}
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *taking(void *mine) {
    seed_t h = 0;
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&mutex);
        h = mix(h, turns++);
        pthread_mutex_unlock(&mutex);
        if (i % 64 == 0) sched_yield();
    }
    *(seed_t *)mine = h;
    return 0;
}
static seed_t threads(void *(*what)(void *)) {
    pthread_t t[2];
    seed_t h[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], 0, what, &h[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], 0);
    return mix(h[0], h[1]);
}
static seed_t two_pipes(void) {
    int p[2][2];
    seed_t h = 0;
    for (int i = 0; i < 2; i++) {
        if (pipe(p[i])) abort();
        if (!fork()) {
            for (int k = 0; k < 50; k++) {
                if (write(p[i][1], "x", 1) != 1) _exit(1);
                usleep(i * 7 + k % 5);
            }
            _exit(0);
        }
        close(p[i][1]);
    }
    for (int open = 2; open;) {
        struct pollfd f[2] = {{p[0][0], POLLIN, 0}, {p[1][0], POLLIN, 0}};
        poll(f, 2, -1);
        char c;
        open = 0;
        for (int i = 0; i < 2; i++) {
            if (f[i].revents && read(p[i][0], &c, 1) == 1) h = mix(h, i);
            open += !(f[i].revents & POLLHUP) || (f[i].revents & POLLIN);
        }
    }
    while (wait(0) > 0) ;
    return h;
}
static volatile sig_atomic_t rung;
static void ring(int signal) { rung = signal; }
static seed_t rung_at(void) {
    signal(SIGALRM, ring);
    struct itimerval t = {{0, 0}, {0, 3000}};
    setitimer(ITIMER_REAL, &t, 0);
    seed_t n = 0;
    while (!rung) n++;
    return n;
}
static seed_t slept(void) {
    seed_t from = clock_of(CLOCK_MONOTONIC);
    usleep(1000);
    return clock_of(CLOCK_MONOTONIC) - from;
}
static seed_t child(void) {
    pid_t p = fork();
    if (!p) _exit(0);
    waitpid(p, 0, 0);
    return p;
}
static seed_t child_of_vfork(void) {
    pid_t p = vfork();
    if (!p) _exit(0);
    waitpid(p, 0, 0);
    return p;
}
static seed_t says(void) {
    int p[2];
    seed_t n = 0;
    if (pipe(p)) abort();
    if (!fork()) {
        n = getpid();
        _exit(write(p[1], &n, 8) != 8);
    }
    if (read(p[0], &n, 8) != 8) abort();
    wait(0);
    return n;
}
static seed_t used(int who) {
    struct rusage u;
    getrusage(who, &u);
    return mix(mix(u.ru_utime.tv_usec, u.ru_stime.tv_usec), mix(u.ru_minflt, u.ru_maxrss));
}
static seed_t random_instruction(void) {
    unsigned long long n = 0;
    __asm__ volatile("rdrand %0" : "=r"(n) : : "cc");
    return n;
}
static seed_t temporary(void) {
    char name[] = "kindXXXXXX";
    close(mkstemp(name));
    unlink(name);
    return bytes(name, sizeof name);
}
static seed_t shared_memory(void) {
    int id = shmget(IPC_PRIVATE, 4096, 0600 | IPC_CREAT);
    shmctl(id, IPC_RMID, 0);
    return id;
}
static seed_t queue(void) {
    int id = msgget(IPC_PRIVATE, 0600 | IPC_CREAT);
    msgctl(id, IPC_RMID, 0);
    return id;
}
static seed_t ticks(void) {
    int f = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec t = {{0, 20000}, {0, 20000}};
    timerfd_settime(f, 0, &t, 0);
    usleep(1500);
    seed_t n = 0;
    if (read(f, &n, 8) != 8) abort();
    return n;
}
static seed_t system_now(void) {
    struct sysinfo s;
    sysinfo(&s);
    return mix(mix(s.uptime, s.freeram), mix(s.loads[0], s.procs));
}
static seed_t free_space(void) {
    struct statfs s;
    statfs(".", &s);
    return s.f_bfree;
}
static seed_t where_allowed(void) {
    cpu_set_t c;
    sched_getaffinity(0, sizeof c, &c);
    return bytes(&c, sizeof c);
}
static seed_t running_on(void) { unsigned cpu = 0; getcpu(&cpu, 0); return cpu; }
static seed_t a_pipe(void) {
    int p[2];
    struct stat s;
    if (pipe(p)) abort();
    fstat(p[0], &s);
    close(p[0]), close(p[1]);
    return s.st_ino;
}
static seed_t of_descriptor(int f) { struct stat s; fstat(f, &s); return mix(s.st_ino, s.st_dev); }
static seed_t times_now(void) { struct tms t; seed_t n = times(&t); return mix(n, t.tms_utime); }
static seed_t name_of_system(void) { struct utsname u; uname(&u); return bytes(&u, sizeof u); }
static seed_t limits(void) { struct rlimit l; getrlimit(RLIMIT_STACK, &l); return l.rlim_cur; }
static seed_t day(void) { struct timeval t; gettimeofday(&t, 0); return mix(t.tv_sec, t.tv_usec); }
static seed_t entropy(void) { seed_t n = 0; if (getentropy(&n, 8)) abort(); return n; }
static seed_t drawn(void) { seed_t n = 0; if (getrandom(&n, 8, 0) != 8) abort(); return n; }
static seed_t mapped(void) { return (seed_t)mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static seed_t here(void) { char p[4096]; return getcwd(p, sizeof p) ? bytes(p, strlen(p)) : 0; }
static seed_t variables(void) {
    seed_t h = 0;
    for (char **v = environ; *v; v++)
        h = mix(h, bytes(*v, strlen(*v)));
    return h;
}
static seed_t on_stack(void) { return (seed_t)__builtin_frame_address(0); }
static seed_t printed(void) { char t[32]; snprintf(t, 32, "%p", (void *)printed); return bytes(t, strlen(t)); }
static seed_t seeded(unsigned with) { srandom(with); return random(); }
static _Thread_local int of_thread;
static seed_t resident(void) { return used(RUSAGE_SELF) * 0 + some("/proc/self/statm", 24); }

#define KINDS \
    K(fixed, 12345) K(argc, words[1] != 0) K(name, bytes(words[0], strlen(words[0]))) \
    K(environment, variables()) K(random_of_fixed, seeded(7)) K(directory, here()) \
    K(system_name, name_of_system()) K(stack_limit, limits()) K(user, getuid()) K(group, getgid()) \
    K(page, sysconf(_SC_PAGESIZE)) K(processors, sysconf(_SC_NPROCESSORS_ONLN)) K(mask, umask(077)) \
    K(priority, getpriority(PRIO_PROCESS, 0)) K(terminal, isatty(1)) K(descriptor, dup(0)) \
    K(hardware, getauxval(AT_HWCAP)) K(boot, contents("/proc/sys/kernel/random/boot_id")) \
    K(version, contents("/proc/version")) K(passwd, contents("/etc/passwd")) \
    K(root_inode, of("/").st_ino) K(null_inode, of("/dev/null").st_ino) K(errors, errno) \
    K(clock, clock_of(CLOCK_REALTIME)) K(monotonic, clock_of(CLOCK_MONOTONIC)) K(time, time(0)) \
    K(boottime, clock_of(CLOCK_BOOTTIME)) K(coarse, clock_of(CLOCK_REALTIME_COARSE)) K(day, day()) \
    K(process_clock, clock_of(CLOCK_PROCESS_CPUTIME_ID)) K(thread_clock, clock_of(CLOCK_THREAD_CPUTIME_ID)) \
    K(clock_called, syscall(SYS_clock_gettime, CLOCK_REALTIME, &sink) + time(0)) \
    K(cpu_time, clock()) K(times, times_now()) K(slept, slept()) K(ticks, ticks()) K(rung, rung_at()) \
    K(counter, __rdtsc()) K(random_instruction, random_instruction()) \
    K(pid, getpid()) K(tid, gettid()) K(pgid, getpgid(0)) K(sid, getsid(0)) K(ppid, getppid()) \
    K(child, child()) K(child_of_vfork, child_of_vfork()) K(child_says, says()) \
    K(self, of("/proc/self/").st_ino) K(tty_group, tcgetpgrp(0)) \
    K(urandom, some("/dev/urandom", 8)) K(dev_random, some("/dev/random", 8)) K(getrandom, drawn()) \
    K(getentropy, entropy()) K(uuid, contents("/proc/sys/kernel/random/uuid")) \
    K(auxiliary, bytes((void *)getauxval(AT_RANDOM), 16)) K(random_of_time, seeded(time(0))) \
    K(random_of_pid, seeded(getpid())) \
    K(code_address, (seed_t)printed) K(data_address, (seed_t)&sink) K(printed_address, printed()) \
    K(stack_address, on_stack()) K(heap_address, (seed_t)malloc(10)) K(large_address, (seed_t)malloc(1 << 20)) \
    K(mapped_address, mapped()) K(break_address, (seed_t)sbrk(0)) K(library_address, (seed_t)puts) \
    K(kernel_address, getauxval(AT_SYSINFO_EHDR)) K(thread_address, (seed_t)&of_thread) \
    K(errno_address, (seed_t)&errno) K(variables_address, (seed_t)environ) K(words_address, (seed_t)words) \
    K(headers_address, getauxval(AT_PHDR)) \
    K(input_inode, of_descriptor(0)) K(output_inode, of_descriptor(1)) K(error_inode, of_descriptor(2)) \
    K(pipe_inode, a_pipe()) K(executable_inode, of("/proc/self/exe").st_ino) \
    K(executable_size, of("/proc/self/exe").st_size) K(executable_time, of("/proc/self/exe").st_mtim.tv_nsec) \
    K(executable_hash, contents("/proc/self/exe")) K(executable_name, getauxval(AT_EXECFN)) \
    K(directory_inode, of(".").st_ino) K(directory_time, of(".").st_mtim.tv_nsec) K(device, of(".").st_dev) \
    K(new_inode, made().st_ino) K(new_time, made().st_mtim.tv_nsec) K(new_device, made().st_dev) \
    K(temporary, temporary()) K(free_space, free_space()) K(proc_order, order_of_entries()) \
    K(maps, contents("/proc/self/maps")) K(smaps, contents("/proc/self/smaps")) \
    K(status, contents("/proc/self/status")) K(stat, contents("/proc/self/stat")) \
    K(statm, resident()) K(io, contents("/proc/self/io")) K(sched, contents("/proc/self/sched")) \
    K(mounts, contents("/proc/self/mountinfo")) K(mount_space, of("/proc/self/ns/mnt").st_ino) \
    K(pid_space, of("/proc/self/ns/pid").st_ino) K(auxv, contents("/proc/self/auxv")) \
    K(meminfo, contents("/proc/meminfo")) K(uptime, contents("/proc/uptime")) K(load, contents("/proc/loadavg")) \
    K(system_stat, contents("/proc/stat")) K(sysinfo, system_now()) \
    K(cpu, running_on()) K(affinity, where_allowed()) K(usage, used(RUSAGE_SELF)) K(usage_of_thread, used(RUSAGE_THREAD)) \
    K(udp_port, port(SOCK_DGRAM)) K(tcp_port, port(SOCK_STREAM)) K(abstract_name, abstract()) \
    K(shared_memory, shared_memory()) K(message_queue, queue()) \
    K(counted_outside, counted_outside()) K(locked_outside, locked_outside()) \
    K(race, threads(racing)) K(mutex_order, threads(taking)) K(two_pipes, two_pipes())

#define K(kind, value) if (!strcmp(name, #kind)) return (seed_t)(value);
static seed_t seed_of(const char *name) {
    KINDS
    abort();
}
#undef K

static int bit(seed_t s, int i) { return mix(s, i) >> 37 & 1; }
#define DECIDES(k) \
    __attribute__((noinline)) void g##k(int x) { sink += x; } \
    __attribute__((noinline)) void h##k(int x) { sink -= x; } \
    __attribute__((noinline)) int decide##k(int b) { \
        int r = 0; \
        if (b) { g##k(b); r = 1; sink++; } else { h##k(b); r = 2; } \
        if (sink == 123456789) r += 4; \
        return r; }
DECIDES(1) DECIDES(2) DECIDES(3) DECIDES(4) DECIDES(5)

int main(int count, char **arguments) {
    words = arguments;
    if (count == 1) {
#define K(kind, value) puts(#kind);
        KINDS
        return 0;
    }
    seed_t seed = seed_of(arguments[1]), decided = 0;
    int s = 0;
    for (int i = 0; i < 1000; i++) {
        int b = bit(seed, i);
        decided = mix(decided, b);
        s += (decide1(b) > 0) + (decide2(b) > 0) + (decide3(b) > 0) + (decide4(b) > 0) + (decide5(b) > 0);
    }
    char line[32];
    int length = snprintf(line, sizeof line, "%016lx\n", decided);
    int f = open(getenv("SEEDS"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (write(f, line, length) != length) return 2;
    close(f);
    printf("done %d\n", s);
    return 0;
}
