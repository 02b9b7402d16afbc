# Jumps through tables by way of words of the stack, as compilers write them where
# registers do not suffice: the sum is kept there, or the table, or it is jumped through;
# and one by an entry that is always the same.
  .text
  .globl main
  .type main, @function
main:
  .cfi_startproc
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  subq $48, %rsp
  .cfi_adjust_cfa_offset 48
  movl $0, %ebx
  cmpl $2, %edi
  ja .Lend
  movl %edi, %eax
  leaq .Lsums(%rip), %rcx
  movslq (%rcx,%rax,4), %rax
  addq %rcx, %rax
  movq %rax, 8(%rsp)
.Lloop:
  movl $0, (%rsp)
  call other
  movq 8(%rsp), %rax
  jmp *%rax
.Lsum0:
  addl $5, %ebx
.Lsum1:
  addl $1, %ebx
.Lsum2:
  addl $1, %ebx
  cmpl $9, %ebx
  jb .Lloop
  leaq .Lbases(%rip), %rcx
  movq %rcx, 16(%rsp)
.Lagain:
  call other
  movl %ebx, %eax
  andl $1, %eax
  movq 16(%rsp), %rcx
  movslq (%rcx,%rax,4), %rax
  addq 16(%rsp), %rax
  jmp *%rax
.Lbase0:
  addl $3, %ebx
.Lbase1:
  addl $1, %ebx
  cmpl $20, %ebx
  jb .Lagain
  movl %ebx, %eax
  andl $3, %eax
  leaq .Lwords(%rip), %rcx
  movslq (%rcx,%rax,4), %rdx
  addq %rcx, %rdx
  movq %rdx, 24(%rsp)
  cmpl $90, %ebx
  ja .Lend
  movslq .Lones+8(%rip), %rdx
  leaq .Lones(%rip), %rax
  addq %rdx, %rax
  movq %rax, 32(%rsp)
  cmpl $20, %ebx
  je .Lone
  jmp *24(%rsp)
.Lone:
  movq 32(%rsp), %rax
  jmp *%rax
.Lone2:
  jmp *24(%rsp)
.Lword0:
  addl $1, %ebx
.Lword1:
  addl $1, %ebx
.Lword2:
  addl $1, %ebx
.Lword3:
  addl $1, %ebx
.Lend:
  movl %ebx, %eax
  addq $48, %rsp
  .cfi_adjust_cfa_offset -48
  popq %rbx
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .size main, .-main

  .type other, @function
other:
  .cfi_startproc
  xorl %eax, %eax
  movl $7, %ecx
  ret
  .cfi_endproc
  .size other, .-other

  .section .rodata
  .balign 4
.Lsums:
  .long .Lsum0-.Lsums, .Lsum1-.Lsums, .Lsum2-.Lsums
.Lbases:
  .long .Lbase0-.Lbases, .Lbase1-.Lbases
.Lwords:
  .long .Lword0-.Lwords, .Lword1-.Lwords, .Lword2-.Lwords, .Lword3-.Lwords
.Lones:
  .long .Lend-.Lones, .Lend-.Lones, .Lone2-.Lones
  .section .note.GNU-stack, "", @progbits
