/* HOW: exec of itself; or vfork, whose child counts as its parent, and exec. */
#include "count.h"

int main(int argc, char **argv) {
    if (argc == 2) {
        count_many(1, 10);
        pid_t child = *argv[1] == 'v' ? vfork() : 0;
        if (child == 0) {
            count_many(2, 20);
            if (*argv[1] == 'e')
                tell();
            execl(argv[0], argv[0], argv[1], "again", (char *)NULL);
            _exit(1);
        }
        int status;
        waitpid(child, &status, 0);
        count_many(3, 30);
        tell();
        return WEXITSTATUS(status);
    }
    count_many(4, 40);
    tell();
    return 5;
}
