# One row of Q4_0 blocks times one activation row, class i8 (row_kernels.hpp): the assembly body
# beside the intrinsics one, with the same bits. AVX-512 F, BW, VL, VNNI and F16C; System V calling.
#
#   void orrery_q4_0_row_avx512(const void* w, const int8_t* q, const float* d,
#                               const int16_t* sums, long blocks, float* y)
#   rdi: blocks of 18 bytes (f16 d, 16 bytes of nibbles: values i and i + 16 share a byte)
#   rsi: 32 int8 a block   rdx: one float a block   rcx: two int16 sums a block
#   r8: blocks   r9: out
        .intel_syntax noprefix
        .text
        .p2align 4
        .globl  orrery_q4_0_row_avx512
        .type   orrery_q4_0_row_avx512, @function
orrery_q4_0_row_avx512:
        vpxor   xmm0, xmm0, xmm0                # lane p: partial sum p
        mov     eax, 0x0f0f0f0f
        vpbroadcastd zmm16, eax
        mov     eax, 0x00010001
        vpbroadcastd xmm17, eax
        mov     eax, 0x1111
        kmovd   k1, eax
        sub     r8, 4
        jl      .Lrest

.Lfour:                                         # four blocks: one for each partial sum
        prefetcht0 [rdi + 2048]
        vmovdqu xmm1, [rdi + 2]
        vinserti32x4 zmm1, zmm1, [rdi + 20], 1
        vinserti32x4 zmm1, zmm1, [rdi + 38], 2
        vinserti32x4 zmm1, zmm1, [rdi + 56], 3
        vpandd  zmm2, zmm1, zmm16               # values 0..15 of the four blocks
        vpsrlw  zmm3, zmm1, 4
        vpandd  zmm3, zmm3, zmm16               # values 16..31
        vmovdqu64 zmm4, [rsi]
        vshufi64x2 zmm5, zmm4, [rsi + 64], 0x88
        vshufi64x2 zmm6, zmm4, [rsi + 64], 0xdd
        vpxord  zmm7, zmm7, zmm7
        vpdpbusd zmm7, zmm2, zmm5
        vpdpbusd zmm7, zmm3, zmm6
        vpshufd zmm8, zmm7, 0x4e
        vpaddd  zmm7, zmm7, zmm8
        vpshufd zmm8, zmm7, 0xb1
        vpaddd  zmm7, zmm7, zmm8
        vpcompressd zmm7{k1}{z}, zmm7           # one dword of each block
        vpmaddwd xmm9, xmm17, [rcx]
        vpslld  xmm9, xmm9, 3
        vpsubd  xmm7, xmm7, xmm9                # the zero point: 8 * sum(q)
        vpxor   xmm10, xmm10, xmm10
        vpinsrw xmm10, xmm10, word ptr [rdi], 0
        vpinsrw xmm10, xmm10, word ptr [rdi + 18], 1
        vpinsrw xmm10, xmm10, word ptr [rdi + 36], 2
        vpinsrw xmm10, xmm10, word ptr [rdi + 54], 3
        vcvtph2ps xmm10, xmm10
        vmulps  xmm10, xmm10, [rdx]
        vcvtdq2ps xmm7, xmm7
        vfmadd231ps xmm0, xmm7, xmm10
        add     rdi, 72
        add     rsi, 128
        add     rdx, 16
        add     rcx, 16
        sub     r8, 4
        jge     .Lfour

.Lrest:
        add     r8, 4
        jz      .Lsum
        mov     eax, 1
.Lone:                                          # a last block: its partial sum alone changes
        kmovd   k2, eax
        vmovdqu xmm1, [rdi + 2]
        vpandd  xmm2, xmm1, xmm16
        vpsrlw  xmm3, xmm1, 4
        vpandd  xmm3, xmm3, xmm16
        vpxor   xmm7, xmm7, xmm7
        {evex} vpdpbusd xmm7, xmm2, [rsi]
        {evex} vpdpbusd xmm7, xmm3, [rsi + 16]
        vpshufd xmm8, xmm7, 0x4e
        vpaddd  xmm7, xmm7, xmm8
        vpshufd xmm8, xmm7, 0xb1
        vpaddd  xmm7, xmm7, xmm8
        movsx   r10d, word ptr [rcx]
        movsx   r11d, word ptr [rcx + 2]
        add     r10d, r11d
        shl     r10d, 3
        vpbroadcastd xmm9, r10d
        vpsubd  xmm7, xmm7, xmm9
        vpbroadcastw xmm10, word ptr [rdi]
        vcvtph2ps xmm10, xmm10
        vmulps  xmm10, xmm10, dword ptr [rdx]{1to4}
        vcvtdq2ps xmm7, xmm7
        vfmadd231ps xmm0{k2}, xmm7, xmm10
        add     rdi, 18
        add     rsi, 32
        add     rdx, 4
        add     rcx, 4
        add     eax, eax
        dec     r8
        jnz     .Lone

.Lsum:                                          # (0 + 2) + (1 + 3)
        vmovhlps xmm1, xmm0, xmm0
        vaddps  xmm0, xmm0, xmm1
        vmovshdup xmm1, xmm0
        vaddss  xmm0, xmm0, xmm1
        vmovss  [r9], xmm0
        vzeroupper
        ret
        .size   orrery_q4_0_row_avx512, . - orrery_q4_0_row_avx512
        .section .note.GNU-stack, "", @progbits
