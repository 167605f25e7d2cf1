// File blocks -> panels: 32 lines of weights over some k steps. The lines of a plain matmul are 32
// rows, those of a glu 16 rows of gate and the same 16 of up, so that a product has both.
#pragma once

#include "kernels/block_kernels.hpp"
#include "kernels/body/block_tables.hpp"
#include "kernels/body/packed_rows.hpp"

namespace orrery::kernels {
namespace {

inline int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

// Weight rows of a panel.
inline int panel_rows(const MatmulBlocks& a) {
  return a.w_up != nullptr ? 16 : 32;
}

constexpr int kMostBlocks = 16;  // token blocks that pass the panels together
constexpr int kWholeSteps = 20;  // up to this many k steps are one part of a panel

// Which weights a panel holds: rows from `row` of the task, k steps [step, step + count).
struct PanelPart {
  int row, step, count;
};

template <class P>
struct Panels {
  using Unpack = void (*)(const MatmulBlocks& a, const PanelPart& part, std::uint8_t* panel);

  template <class W>
  static void unpack(const MatmulBlocks& a, const PanelPart& part, std::uint8_t* panel) {
    const int rows = panel_rows(a), last = a.n - part.row < rows ? a.n - part.row : rows;
    for (int line = 0; line < 32; ++line) {
      const Byte* w = static_cast<const Byte*>(line < rows ? a.w : a.w_up);
      if (line % rows >= last) {
        zero_line(part.count, panel, line);
      } else {
        unpack_line<W>(a, w + (part.row + line % rows) * a.w_stride, part, panel, line);
      }
    }
  }

  // From packed layout: the record of sixteen rows and a step at a time.
  template <class W>
  static void unpack_packed(const MatmulBlocks& a, const PanelPart& part, std::uint8_t* panel) {
    constexpr int kBytes = packed_record(W::kType).bytes;
    const std::size_t ahead = panel_rows(a) * a.w_stride;  // the next panel, which comes soon
    for (int step = 0; step < part.count; ++step, panel += P::kStepBytes) {
      const int at = packed_position(part.step + step, a.k / 32) * kBytes;
      for (int half = 0; half < 2; ++half) {
        const bool up = half == 1 && a.w_up != nullptr;
        const int row = up ? part.row : part.row + kPackedRows * half;
        if (row < a.n) {
          const Byte* w = static_cast<const Byte*>(up ? a.w_up : a.w) + row * a.w_stride + at;
          for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(w + ahead + i, 0, 2);
          unpack_record<W>(w, panel, kPackedRows * half);
        } else {
          for (int r = 0; r < kPackedRows; ++r) zero_line(1, panel, kPackedRows * half + r);
        }
      }
    }
  }

  // Lines [line, line + 16) of one step.
  template <class W>
  [[gnu::always_inline]] static void unpack_record(const Byte* record, std::uint8_t* panel,
                                                   int line) {
    constexpr PackedRecord kRecord = packed_record(W::kType);
    constexpr bool kHalves = requires { ShortStore<W>::kHalves; };
    alignas(64) Byte blocks[kPackedRows * W::kBytes];
    record_to_blocks<W::kType, W::kBytes, !kHalves>(record, blocks);
    alignas(64) float scale[kPackedRows], minimum[kPackedRows];
    if constexpr (kHalves) {
      V::store(scale, V::load_f16(record));
      V::store(minimum, V::load_f16(record + kRecord.minimum));
    }
    for (int r = 0; r < kPackedRows; ++r) {
      const Byte* block = blocks + r * W::kBytes;
      if constexpr (kHalves) {
        P::place(panel, line + r,
                 [&](void* target) { store_block<W>(target, block, scale[r], minimum[r]); });
      } else {
        P::template pack_weights<W>(panel, line + r, block, W::open(block), 0);
      }
    }
  }

 private:
  static void zero_line(int count, std::uint8_t* panel, int line) {
    for (int j = 0; j < count; ++j, panel += P::kStepBytes) {
      P::pack(panel, line, V::zero(), V::zero());
    }
  }

  template <class W>
  static void unpack_line(const MatmulBlocks& a, const Byte* row, const PanelPart& part,
                          std::uint8_t* panel, int line) {
    const int end = part.step + part.count;
    const int whole = a.k / 32 < end ? a.k / 32 : end;  // k steps of whole blocks
    const Byte* source = row + static_cast<std::size_t>(part.step / W::kSteps) * W::kBytes;
    // The same line of the next panel, which comes soon.
    const std::size_t ahead = panel_rows(a) * a.w_stride;
    const auto fetch = [&](const Byte* block) {
      for (int at = 0; at < W::kBytes; at += 64) __builtin_prefetch(block + ahead + at, 0, 2);
    };
    if constexpr (requires { ShortStore<W>::kHalves; }) {
      for (int step = part.step; step < whole; step += 16) {
        alignas(64) float scales[2][16];
        const int n = whole - step < 16 ? whole - step : 16;
        half_headers(source, W::kBytes, n, scales[0], scales[1]);
        for (int i = 0; i < n; ++i, source += W::kBytes, panel += P::kStepBytes) {
          fetch(source);
          P::place(panel, line, [&](void* target) {
            store_block<W>(target, source, scales[0][i], scales[1][i]);
          });
        }
      }
    } else {
      for (int step = part.step; step < whole; step += W::kSteps, source += W::kBytes) {
        fetch(source);
        typename W::Shared shared = W::open(source);
        // Scales become vectors by loads: shuffles would take turns with those of the codes.
        if constexpr (!__is_empty(typename W::Shared)) asm("" : "+m"(shared));
        if constexpr (requires { ShortStore<W>::kPairs; }) {
#pragma GCC unroll 4
          for (int j = 0; j < W::kSteps; j += 2, panel += 2 * P::kStepBytes) {
            P::place(panel, line, [&](void* even) {
              P::place(panel + P::kStepBytes, line,
                       [&](void* odd) { ShortStore<W>::store(even, odd, source, shared, j); });
            });
          }
        } else {
#pragma GCC unroll 8
          for (int j = 0; j < W::kSteps; ++j, panel += P::kStepBytes) {
            P::template pack_weights<W>(panel, line, source, shared, j);
          }
        }
      }
    }
    if constexpr (W::kElement != 0) {  // the end of a row of plain elements
      if (whole == end) return;
      Byte tail[W::kBytes] = {};
      __builtin_memcpy(tail, source, W::kElement * (a.k % 32));
      P::template pack_weights<W>(panel, line, tail, typename W::Shared{}, 0);
    }
  }
};

}  // namespace
}  // namespace orrery::kernels
