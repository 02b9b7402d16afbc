// Processes that have less than they are used to.
#define _GNU_SOURCE
#include "work.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static void limit(int what, rlim_t most) {
    struct rlimit both = {most, most};
    if (setrlimit(what, &both))
        exit(98);
}

// Whatever is not needed to print and to end kills the process.
static int allow_little(void) {
#define ALLOW(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read),
        ALLOW(SYS_write),
        ALLOW(SYS_brk),
        ALLOW(SYS_exit),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_newfstatat),
        ALLOW(SYS_rt_sigreturn),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program);
}

// Removes the files of the folder, or cuts them off.
static void wipe(const char *folder, int cut) {
    DIR *all = opendir(folder);
    struct dirent *entry;
    while (all && (entry = readdir(all))) {
        char path[4096];
        struct stat data;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || lstat(path, &data))
            continue;
        if (S_ISDIR(data.st_mode)) {
            wipe(path, cut);
            if (!cut)
                rmdir(path);
        } else if (cut ? truncate(path, 0) : unlink(path)) {
            exit(97);
        }
    }
    if (all)
        closedir(all);
}

int main(int argc, char **argv) {
    const char *kind = KIND, *records = getenv("BACKTRAIL_DIR");
    if (IS("seccomp") || IS("seccomp-long")) {
        work(10);
        if (allow_little())
            return 98;
        // Not by printf, which may ask for random numbers.
        char text[32];
        int length = snprintf(text, sizeof text, "%d\n", work(IS("seccomp") ? 50 : 2000000));
        return write(1, text, (size_t)length) == length ? 3 : 97;
    }
    if (IS("chroot")) {
        char name[] = "empty-XXXXXX";
        int here = open(".", O_RDONLY | O_DIRECTORY);
        if (!mkdtemp(name) || (geteuid() == 0 && (chroot(name) || chdir("/"))))
            return 98;
        printf("inside %d\n", work(3000));
        unlinkat(here, name, AT_REMOVEDIR);
        return 4;
    }
    if (IS("setuid")) {
        work(10);
        if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
            return 98;
        printf("nobody %d\n", work(3000));
        return 5;
    }
    if (IS("limit-memory")) {
        limit(RLIMIT_AS, 64 << 20);
        void *volatile large = malloc(128 << 20);
        printf("memory %d %d\n", large != 0, work(3000));
        return 6;
    }
    if (IS("limit-file")) {
        limit(RLIMIT_FSIZE, 8192);
        printf("file %d\n", work(200000));
        return 7;
    }
    if (IS("limit-descriptors")) {
        limit(RLIMIT_NOFILE, 3);
        errno = 0;
        int none = open("/dev/null", O_RDONLY);
        printf("descriptors %d %d %d\n", none, errno == EMFILE, work(3000));
        return 8;
    }
    if (IS("closed")) {
        for (int i = 0; i < 1024; i++)
            if (i != 1)
                close(i);
        printf("closed %d\n", work(3000));
        return 9;
    }
    if (IS("close-range")) {
        work(10);
        syscall(SYS_close_range, 3, ~0U, 0);
        int next = open("/dev/null", O_RDONLY);
        printf("range %d %d\n", next, work(3000));
        return 10;
    }
    if (IS("writes-everywhere")) {
        for (int i = 3; i < 1024; i++)
            if (write(i, "damage", 6) > 0)
                sink++;
        printf("wrote %d\n", work(3000));
        return 11;
    }
    if (IS("locked")) {
        int locked = mlockall(MCL_CURRENT | MCL_FUTURE);
        printf("locked %d %d\n", locked, work(3000));
        return 12;
    }
    if (IS("records-removed") || IS("records-cut")) {
        work(100);
        if (records)
            wipe(records, IS("records-cut"));
        printf("without %d\n", work(300000));
        return 13;
    }
    if (IS("arguments")) {
        size_t sum = 0;
        for (int i = 2; i < argc; i++)
            for (char *at = argv[i]; *at; at++)
                sum += (unsigned char)*at;
        printf("arguments %d %zu %d\n", argc, sum, work(100));
        return 14;
    }
    if (IS("errno")) {
        errno = 77;
        int sum = work(300000);
        printf("errno %d %d\n", errno, sum);
        return 15;
    }
    return 99;
}
