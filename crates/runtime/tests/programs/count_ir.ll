; What is injected into a function, as LLVM sees it: the check, which must leave
; every argument where it is, and a count.
target triple = "x86_64-pc-linux-gnu"

@__backtrail_owner = external hidden addrspace(256) global i64
@__backtrail_counts_0 = external hidden addrspace(256) global [2048 x i64]
@__backtrail_module = external hidden global i8

declare preserve_allcc void @__backtrail_enter(ptr) nonlazybind nounwind

define double @mix(double %a, double %b, double %c, double %d, double %e, double %f, double %g,
                   double %h, i64 %i, i64 %j, i64 %k, i64 %l, i64 %m, i64 %n) {
  %thread = load volatile i64, ptr addrspace(257) null
  %owner = load volatile i64, ptr addrspace(256) @__backtrail_owner
  %same = icmp eq i64 %thread, %owner
  br i1 %same, label %body, label %slow

slow:
  call preserve_allcc void @__backtrail_enter(ptr @__backtrail_module)
  br label %body

body:
  %place = getelementptr inbounds [2048 x i64], ptr addrspace(256) @__backtrail_counts_0, i64 0, i64 %i
  %before = load i64, ptr addrspace(256) %place
  %after = add i64 %before, 1
  store i64 %after, ptr addrspace(256) %place
  %s1 = fadd double %a, %b
  %s2 = fmul double %s1, %c
  %s3 = fadd double %s2, %d
  %s4 = fmul double %s3, %e
  %s5 = fadd double %s4, %f
  %s6 = fmul double %s5, %g
  %s7 = fadd double %s6, %h
  %t1 = add i64 %i, %j
  %t2 = mul i64 %t1, %k
  %t3 = add i64 %t2, %l
  %t4 = mul i64 %t3, %m
  %t5 = add i64 %t4, %n
  %t6 = uitofp i64 %t5 to double
  %result = fadd double %s7, %t6
  ret double %result
}
