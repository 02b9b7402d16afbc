# A table whose address is kept in a register over a loop. A call that never returns
# stands before a case: were it to return, nothing would be known of the register.
        .text
        .globl  main
        .type   main, @function
main:
        .cfi_startproc
        push    %r12
        .cfi_def_cfa_offset 16
        push    %rbx
        .cfi_def_cfa_offset 24
        sub     $8, %rsp
        .cfi_def_cfa_offset 32
        test    %edi, %edi
        jle     .Lbad
        lea     .Ltable(%rip), %r12
        xor     %ebx, %ebx
.Lnext:
        cmp     $2, %ebx
        ja      .Ldone
        mov     %ebx, %eax
        inc     %ebx
        movslq  (%r12,%rax,4), %rax
        add     %r12, %rax
        jmp     *%rax
.Lbad:
        mov     $1, %edi
        call    leave@plt
.Lone:
        nop
        jmp     .Lnext
.Ltwo:
        test    %ebx, %ebx
        jmp     .Lnext
.Lthree:
        cmp     $7, %ebx
        jmp     .Lnext
.Ldone:
        mov     $5, %eax
        add     $8, %rsp
        .cfi_def_cfa_offset 24
        pop     %rbx
        .cfi_def_cfa_offset 16
        pop     %r12
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc
        .size   main, .-main

        .section .rodata
        .align  4
.Ltable:
        .long   .Lone-.Ltable
        .long   .Ltwo-.Ltable
        .long   .Lthree-.Ltable
        .section .note.GNU-stack,"",@progbits
