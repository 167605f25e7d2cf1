// A panel made in units of 512 weights, and these in eight pieces, without a branch that depends on
// how far it is: while a matrix unit multiplies, vectors make a few pieces at each tile product,
// and a branch that was guessed wrong would cost more than the pieces.
#pragma once

#include "kernels/body/block_panels.hpp"

namespace orrery::kernels {
namespace {

constexpr int kPieces = 8;  // of a unit

// Which panel is made, and how far that is.
struct PanelWork {
  const MatmulBlocks* a;
  PanelPart part;
  std::uint8_t* panel;
  int unit = 0;                     // the next one
  alignas(64) float scales[2][32];  // of a unit
  alignas(64) Byte codes[2048];     // of a packed record; or rows, some of which do not exist

  PanelWork(const MatmulBlocks& call, const PanelPart& first, std::uint8_t* to)
      : a(&call), part(first), panel(to) {}
  int units() const { return 2 * part.count; }
};

// Where a unit comes from and goes: `stride` bytes between its rows.
struct PieceUnit {
  const Byte* source;
  std::size_t stride, ahead;  // `ahead`: to the same unit of the next panel, which comes soon
  std::uint8_t* target;
};

template <class P>
struct Pieces {
  // Units of the file's layout are kRows rows of some steps: 16 of one, 8 of two or 2 of eight.
  template <class W>
  struct FromFile {
    static constexpr bool kHalves = requires { ShortStore<W>::kHalves; };
    static constexpr int kRows = 16 / W::kSteps;
    static constexpr int kGroups = 32 / kRows;  // of rows, in a panel

    [[gnu::always_inline]] static PieceUnit begin(PanelWork& work, int unit) {
      const MatmulBlocks& a = *work.a;
      const int rows = panel_rows(a), line = unit % kGroups * kRows;
      const int step = unit / kGroups * W::kSteps, at = work.part.step + step;
      const bool up = line >= rows;
      const int row = work.part.row + (up ? line - rows : line);
      const Byte* w = static_cast<const Byte*>(up ? a.w_up : a.w) + row * a.w_stride +
                      static_cast<std::size_t>(at / W::kSteps) * W::kBytes;
      const bool cut = W::kElement != 0 && at == a.k / 32;  // the end of rows of plain elements
      PieceUnit of{w, a.w_stride, rows * a.w_stride,
                   work.panel + step * P::kStepBytes + P::row_at(line)};
      if (a.n - row < kRows || cut) {
        copy_rows(work, w, a.n - row, cut ? W::kElement * (a.k % 32) : W::kBytes);
        of.source = work.codes, of.stride = W::kBytes;
      }
      if constexpr (kHalves) {
        ShortStore<W>::headers(of.source, of.stride, work.scales[0], work.scales[1]);
      }
      return of;
    }

    template <int kPiece>
    [[gnu::always_inline]] static void make(PanelWork& work, const PieceUnit& of) {
      constexpr int kRow = kPiece * kRows / kPieces;
      const Byte* block = of.source + kRow * of.stride;
      std::uint8_t* target = of.target + P::row_at(kRow);
      if constexpr (W::kSteps == 1) {
        const Byte* next = block + of.stride;
        fetch(block + of.ahead, W::kBytes), fetch(next + of.ahead, W::kBytes);
        std::uint8_t* second = of.target + P::row_at(kRow + 1);
        if constexpr (kHalves) {
          using Store = ShortStore<W>;
          const TwoBytes codes{block + Store::kCodesAt, next + Store::kCodesAt};
          const TwoBytes fifth{block + Store::kFifthAt, next + Store::kFifthAt};
          P::place(target, 0, [&](void* to) {
            P::place(second, 0, [&](void* to_second) {
              store_two<W>(to, to_second, codes, fifth, work.scales[0] + kRow);
            });
          });
        } else {
          P::template pack_weights<W>(target, 0, block, W::open(block), 0);
          P::template pack_weights<W>(second, 0, next, W::open(next), 0);
        }
      } else {
        constexpr int kStep = kPiece * 2 % W::kSteps;
        target += kStep * P::kStepBytes;
        if constexpr (kStep == 0) {
          fetch(block + of.ahead, W::kBytes);
          *shared(work) = W::open(block);
        }
        const typename W::Shared& s = *shared(work);
        if constexpr (requires { ShortStore<W>::kPairs; }) {
          P::place(target, 0, [&](void* even) {
            P::place(target + P::kStepBytes, 0,
                     [&](void* odd) { ShortStore<W>::store(even, odd, block, s, kStep); });
          });
        } else {
          P::template pack_weights<W>(target, 0, block, s, kStep);
          P::template pack_weights<W>(target + P::kStepBytes, 0, block, s, kStep + 1);
        }
      }
    }

   private:
    [[gnu::always_inline]] static void fetch(const Byte* p, int bytes) {
      for (int at = 0; at < bytes; at += 64) __builtin_prefetch(p + at, 0, 2);
    }
    static typename W::Shared* shared(PanelWork& work) {
      static_assert(sizeof(typename W::Shared) <= sizeof(work.scales));
      return reinterpret_cast<typename W::Shared*>(work.scales);
    }
    // So many blocks of so many bytes, and zeros in the place of what is missing.
    [[gnu::noinline]] static void copy_rows(PanelWork& work, const Byte* w, int rows, int bytes) {
      static_assert(kRows * W::kBytes <= sizeof(work.codes));
      __builtin_memset(work.codes, 0, kRows * W::kBytes);
      for (int r = 0; r < kRows && r < rows; ++r) {
        __builtin_memcpy(work.codes + r * W::kBytes, w + r * work.a->w_stride,
                         static_cast<std::size_t>(bytes));
      }
    }
  };

  // From packed layout: a unit is a record, laid out as rows 0, 4, 8, 12, 1, 5, ...
  template <class W>
  struct FromPacked {
    static constexpr bool kHalves = requires { ShortStore<W>::kHalves; };

    [[gnu::always_inline]] static PieceUnit begin(PanelWork& work, int unit) {
      const MatmulBlocks& a = *work.a;
      const int step = unit / 2, line = unit % 2 * kPackedRows;
      const bool up = line != 0 && a.w_up != nullptr;
      const int row = up ? work.part.row : work.part.row + line;
      std::uint8_t* target = work.panel + step * P::kStepBytes + P::row_at(line);
      const std::size_t ahead = panel_rows(a) * a.w_stride;
      const Byte* record = static_cast<const Byte*>(up ? a.w_up : a.w) + row * a.w_stride +
                           packed_position(work.part.step + step, a.k / 32) * kRecord.bytes;
      static constexpr Byte kNoRows[kRecord.bytes] = {};
      if (row >= a.n) record = kNoRows;
      if constexpr (kHalves) open(work, record);
      return {record, 0, ahead, target};
    }

    // Rows i and i + 4 of a record.
    template <int kPiece>
    [[gnu::always_inline]] static void make(PanelWork& work, const PieceUnit& of) {
      if constexpr (64 * kPiece < kRecord.bytes) {
        __builtin_prefetch(of.source + of.ahead + 64 * kPiece, 0, 2);
      }
      if constexpr (kHalves) {
        constexpr int kRow = kPiece % 2 * 8 + kPiece / 2;
        const Byte* codes = work.codes + 2 * kPiece * kCodeBytes;
        const float* d = work.scales[0] + 2 * kPiece;
        const auto* fifth = reinterpret_cast<const Byte*>(d + 16);
        P::place(of.target + P::row_at(kRow), 0, [&](void* first) {
          P::place(of.target + P::row_at(kRow + 4), 0, [&](void* second) {
            store_two<W>(first, second, {codes, codes + kCodeBytes}, {fifth, fifth + 4}, d);
          });
        });
      } else if constexpr (kPiece == 0) {
        Panels<P>::template unpack_record<W>(of.source, of.target, 0);
      }
    }

   private:
    static constexpr PackedRecord kRecord = packed_record(W::kType);
    static constexpr int kCodeBytes = 4 * kRecord.words;  // of a row

    [[gnu::always_inline]] static void open(PanelWork& work, const Byte* record) {
      for (int word = 0; word < kRecord.words; word += 4) {
        const Byte* from = record + kRecord.codes + 64 * word;
        V::B rows[4] = {V::load_b(from), V::load_b(from + 64), V::load_b(from + 128),
                        V::load_b(from + 192)};
        V::transpose_words(rows[0], rows[1], rows[2], rows[3]);
        for (int i = 0; i < 4; ++i) {
          Byte* to = work.codes + 4 * kCodeBytes * i;
          if constexpr (kRecord.words == 4) {
            V::store_b(to, rows[i]);
          } else {
            V::store_groups(to + 4 * word, kCodeBytes, rows[i]);
          }
        }
      }
      const auto store = [](float* to, V::F a) { V::store(to, ShortStore<W>::every_fourth(a)); };
      store(work.scales[0], V::load_f16(record));
      store(work.scales[1], V::load_f16(record + kRecord.minimum));
      if constexpr (kRecord.fifth != 0) {
        const auto* planes = reinterpret_cast<const float*>(record + kRecord.fifth);
        store(work.scales[0] + 16, V::as_float(from_planes(V::as_int(V::load(planes)))));
      }
    }
  };
};

}  // namespace
}  // namespace orrery::kernels
