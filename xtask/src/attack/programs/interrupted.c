// What is interrupted: it says that it has begun, and handles signals, dies of them or
// ignores them.
#include "work.h"
#include <fcntl.h>
#include <signal.h>

static volatile sig_atomic_t stop;

static void note(int signal) { stop = signal; }

// A name for each run, in a folder that copies of the working directory share.
static void begun(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", folder, getpid());
    close(open(path, O_WRONLY | O_CREAT, 0666));
}

int main(int argc, char **argv) {
    static const int all[] = {SIGINT, SIGTERM, SIGHUP};
    const char *kind = KIND;
    // Milliseconds: longer than anybody waits, but where nobody ends it.
    int most = IS("ignores") ? 5000 : IS("ends") ? 0 : 120000;
    for (int i = 0; i < 3; i++)
        signal(all[i], IS("handles") ? note : IS("ignores") ? SIG_IGN : SIG_DFL);
    if (argc > 2)
        begun(argv[2]);
    for (int i = 0; i < most && !stop; i++) {
        work(10);
        usleep(1000);
    }
    puts(stop ? "stopped" : "ended");
    return 42;
}
