// Runs a program and tells what the kernel counted for it alone:
//     launch REPORT STDIN STDOUT PROGRAM ARGUMENTS...
// writes "STATUS USER_US KERNEL_US MAXIMUM_RSS_KB CLOCK_US" to REPORT, STATUS as
// wait gives it. The greatest resident set of a process begins with that of the
// process that started it, so this is a program of its own, and small.
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int redirect(const char *path, int flags, int descriptor) {
    int opened = open(path, flags, 0666);
    return opened < 0 || dup2(opened, descriptor) < 0;
}

static long long microseconds(struct timeval time) {
    return time.tv_sec * 1000000LL + time.tv_usec;
}

int main(int count, char **words) {
    if (count < 5)
        return 2;
    struct timeval start, end;
    gettimeofday(&start, NULL);
    pid_t child = fork();
    if (child < 0)
        return 3;
    if (child == 0) {
        if (redirect(words[2], O_RDONLY, 0) || redirect(words[3], O_WRONLY | O_CREAT | O_TRUNC, 1))
            _exit(126);
        execv(words[4], words + 4);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (wait4(child, &status, 0, &usage) != child)
        return 3;
    gettimeofday(&end, NULL);
    FILE *report = fopen(words[1], "w");
    if (!report)
        return 3;
    fprintf(report, "%d %lld %lld %ld %lld\n", status, microseconds(usage.ru_utime),
            microseconds(usage.ru_stime), usage.ru_maxrss,
            microseconds(end) - microseconds(start));
    return fclose(report) ? 3 : 0;
}
