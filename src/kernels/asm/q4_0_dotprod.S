// One row of Q4_0 blocks times one activation row, class i8 (row_kernels.hpp): the assembly body of
// AArch64 with the dot product extension. See q4_0_avx512.S for the layouts.
//
//   void orrery_q4_0_row_dotprod(const void* w, const int8_t* q, const float* d,
//                                const int16_t* sums, long blocks, float* y)
//   x0 blocks of 18 bytes, x1 q, x2 d, x3 sums, x4 blocks, x5 out
        .arch   armv8.2-a+dotprod
        .text
        .p2align 4
        .globl  orrery_q4_0_row_dotprod
        .type   orrery_q4_0_row_dotprod, %function
orrery_q4_0_row_dotprod:
        movi    v0.4s, #0                       // lane p: partial sum p
        movi    v16.16b, #15
        mov     x6, #0                          // the partial sum of this block
        cbz     x4, 5f

1:      add     x7, x0, #2
        ldr     q1, [x7]
        ldr     h2, [x0]
        add     x0, x0, #18
        fcvt    s2, h2
        ldr     s3, [x2], #4
        fmul    s2, s2, s3                      // s = d_w * d_a
        and     v4.16b, v1.16b, v16.16b
        ushr    v5.16b, v1.16b, #4
        ldp     q6, q7, [x1], #32
        movi    v17.4s, #0
        sdot    v17.4s, v4.16b, v6.16b
        sdot    v17.4s, v5.16b, v7.16b
        addv    s17, v17.4s
        ldrsh   w8, [x3], #2
        ldrsh   w9, [x3], #2
        add     w8, w8, w9
        fmov    w9, s17
        sub     w9, w9, w8, lsl #3              // the zero point: 8 * sum(q)
        scvtf   s17, w9
        and     x10, x6, #3                     // which partial sum
        add     x6, x6, #1
        cbz     x10, 2f
        cmp     x10, #2
        b.lo    3f
        b.eq    4f
        mov     s18, v0.s[3]
        fmadd   s18, s17, s2, s18
        mov     v0.s[3], v18.s[0]
        b       9f
2:      mov     s18, v0.s[0]
        fmadd   s18, s17, s2, s18
        mov     v0.s[0], v18.s[0]
        b       9f
3:      mov     s18, v0.s[1]
        fmadd   s18, s17, s2, s18
        mov     v0.s[1], v18.s[0]
        b       9f
4:      mov     s18, v0.s[2]
        fmadd   s18, s17, s2, s18
        mov     v0.s[2], v18.s[0]
9:      subs    x4, x4, #1
        b.ne    1b

5:      ext     v1.16b, v0.16b, v0.16b, #8      // (0 + 2) + (1 + 3)
        fadd    v0.4s, v0.4s, v1.4s
        faddp   s0, v0.2s
        str     s0, [x5]
        ret
        .size   orrery_q4_0_row_dotprod, . - orrery_q4_0_row_dotprod
        .section .note.GNU-stack, "", %progbits
