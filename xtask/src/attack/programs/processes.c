// What processes do to each other.
#define _GNU_SOURCE
#include "work.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int status_of(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int tree(int depth) {
    int sum = work(10 + depth);
    if (depth) {
        for (int i = 0; i < 2; i++) {
            pid_t child = fork();
            if (!child)
                _exit(tree(depth - 1) & 63);
            sum += status_of(child);
        }
    }
    return sum;
}

static int in_clone(void *word) {
    *(int *)word = work(20);
    return 9;
}

static void *forks(void *number) {
    pid_t child = fork();
    if (!child)
        _exit((work(30) + (int)(long)number) & 63);
    return (void *)(long)status_of(child);
}

static char *again[] = {"program", "exec-end", 0};

static void *execs(void *path) {
    work(10);
    execv(path, again);
    return 0;
}

int main(int argc, char **argv) {
    const char *kind = KIND;
    char self[4096] = {0};
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 9;
    if (IS("fork-200")) {
        int sum = 0;
        for (int i = 0; i < 200; i++) {
            pid_t child = fork();
            if (!child)
                _exit(work(i % 7) & 31);
            sum += status_of(child);
        }
        printf("sum %d\n", sum);
        return 3;
    }
    if (IS("fork-tree")) {
        printf("tree %d\n", tree(4));
        return 4;
    }
    if (IS("vfork")) {
        for (int i = 0; i < 5; i++) {
            pid_t child = vfork();
            if (!child)
                _exit(7);
            printf("child %d\n", status_of(child));
        }
        work(40);
        return 5;
    }
    if (IS("exec-true")) {
        work(40);
        execl("/bin/true", "true", (char *)0);
        return 9;
    }
    if (IS("exec-itself")) {
        int left = argc > 2 ? atoi(argv[2]) : 5;
        work(left);
        if (!left) {
            puts("last");
            return 6;
        }
        char text[16];
        snprintf(text, sizeof text, "%d", left - 1);
        execl(self, argv[0], "exec-itself", text, (char *)0);
        return 9;
    }
    if (IS("exec-end")) {
        printf("end %d\n", work(12));
        return 7;
    }
    if (IS("exec-in-thread")) {
        pthread_t thread;
        pthread_create(&thread, 0, execs, self);
        pthread_join(thread, 0);
        return 9;
    }
    if (IS("raw-fork")) {
        work(15);
        long child = syscall(SYS_fork);
        if (!child)
            _exit(work(25) & 31);
        printf("raw %d\n", status_of((pid_t)child));
        return 8;
    }
    if (IS("clone-vm")) {
        static int word;
        size_t size = 1 << 20;
        char *stack = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pid_t child = clone(in_clone, stack + size, CLONE_VM | SIGCHLD, &word);
        int status = status_of(child);
        printf("clone %d %d\n", status, word);
        return 10;
    }
    if (IS("daemon")) {
        int ends[2];
        if (pipe(ends))
            return 9;
        pid_t child = fork();
        if (!child) {
            close(ends[0]);
            if (daemon(1, 1))
                _exit(9);
            int sum = work(50);
            if (write(ends[1], &sum, sizeof sum) < 0)
                _exit(9);
            _exit(0);
        }
        close(ends[1]);
        status_of(child);
        int sum = -1, none;
        if (read(ends[0], &sum, sizeof sum) < 0)
            return 9;
        while (read(ends[0], &none, sizeof none) > 0)
            ;
        printf("daemon %d\n", sum);
        return 11;
    }
    if (IS("fork-in-threads")) {
        pthread_t threads[8];
        long sum = 0;
        for (long i = 0; i < 8; i++)
            pthread_create(&threads[i], 0, forks, (void *)i);
        for (int i = 0; i < 8; i++) {
            void *status;
            pthread_join(threads[i], &status);
            sum += (long)status;
        }
        printf("sum %ld\n", sum);
        return 12;
    }
    return 99;
}
