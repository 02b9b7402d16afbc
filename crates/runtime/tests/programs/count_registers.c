/* The first call in a thread changes no register and no flag, and a backtrace
 * taken within finds the caller. */
#include "count.h"

struct registers {
    uint64_t general[14];
    unsigned char vectors[16][16];
    uint64_t flags;
};

extern struct module { char bytes; } __backtrail_module __attribute__((visibility("hidden")));
void __backtrail_enter(struct module *);

/* Fills every register, calls, and stores every register. rdi is the module. */
void call_with_registers(const struct registers *before, struct registers *after);
__asm__(".text\n"
        ".globl call_with_registers\n"
        "call_with_registers:\n"
        "pushq %rbx\n pushq %rbp\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "pushq %rsi\n"
        "movq %rdi, %rax\n"
        ".set i, 0\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "movdqu 112+16*i(%rax), %xmm\\n\n"
        ".set i, i+1\n"
        ".endr\n"
        "movq 8(%rax), %rbx\n movq 16(%rax), %rcx\n movq 24(%rax), %rdx\n movq 32(%rax), %rsi\n"
        "movq 40(%rax), %rbp\n movq 48(%rax), %r8\n movq 56(%rax), %r9\n movq 64(%rax), %r10\n"
        "movq 72(%rax), %r11\n movq 80(%rax), %r12\n movq 88(%rax), %r13\n movq 96(%rax), %r14\n"
        "movq 104(%rax), %r15\n"
        "pushq 368(%rax)\n popfq\n"
        "movq (%rax), %rax\n"
        "leaq __backtrail_module(%rip), %rdi\n"
        "call *__backtrail_enter@GOTPCREL(%rip)\n"
        "pushfq\n"
        "movq 8(%rsp), %rdi\n"
        "popq 368(%rdi)\n"
        "movq %rax, (%rdi)\n"
        "movq %rbx, 8(%rdi)\n movq %rcx, 16(%rdi)\n movq %rdx, 24(%rdi)\n movq %rsi, 32(%rdi)\n"
        "movq %rbp, 40(%rdi)\n movq %r8, 48(%rdi)\n movq %r9, 56(%rdi)\n movq %r10, 64(%rdi)\n"
        "movq %r11, 72(%rdi)\n movq %r12, 80(%rdi)\n movq %r13, 88(%rdi)\n movq %r14, 96(%rdi)\n"
        "movq %r15, 104(%rdi)\n"
        ".set i, 0\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "movdqu %xmm\\n, 112+16*i(%rdi)\n"
        ".set i, i+1\n"
        ".endr\n"
        "cld\n"
        "popq %rsi\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbp\n popq %rbx\n"
        "ret\n");

static void *run(void *nothing) {
    struct registers before, after;
    memset(&before, 0, sizeof before);
    for (int i = 0; i < 14; i++)
        before.general[i] = 0x0123456789abcdefull * (uint64_t)(i + 3);
    for (int i = 0; i < 16; i++)
        memset(before.vectors[i], i + 1, 16);
    /* Carry, parity, adjust, zero, sign, direction, overflow; interrupts. */
    before.flags = 0x202 | 0x1 | 0x4 | 0x10 | 0x40 | 0x80 | 0x400 | 0x800;
    memset(&after, 0, sizeof after);
    call_with_registers(&before, &after);
    if (memcmp(&before, &after, sizeof before)) {
        puts("registers differ");
        _exit(1);
    }
    count_many(1, 100);
    return nothing;
}

int main(void) {
    run(NULL);
    pthread_t id;
    pthread_create(&id, NULL, run, NULL);
    pthread_join(id, NULL);
    tell();
    return 0;
}
