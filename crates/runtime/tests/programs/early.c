/* Logs before main and after it. */
#include "event.h"

UNIT(unit, 1, 10);

#ifdef PREINIT
static void before_all(void) { LOG(unit, 0); }
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_all;
#endif
__attribute__((constructor)) static void before(void) { LOG(unit, 1); }
__attribute__((destructor)) static void after(void) {
    LOG(unit, 3);
    tell();
}

int main(void) {
    LOG(unit, 2);
    return 0;
}
