// A matrix product divided over the threads of a region: each thread takes a fixed range of panels,
// the same at every step, and hands each finished tile to an epilogue while it is in the nearest
// cache.
#ifndef TANDEM_MODEL_MATMUL_H_
#define TANDEM_MODEL_MATMUL_H_

#include <algorithm>
#include <cstddef>

#include "base/team.h"
#include "model/activations.h"
#include "model/ops.h"
#include "model/pack.h"

namespace tandem::model {

// Rows that go through all of a thread's panels before the next ones: their quantised form stays in
// the second-level cache.
inline constexpr size_t kRowChunk = 128;

// Members take parts [begin, end) of `count` things.
struct Part {
  size_t begin;
  size_t end;
};
inline Part PartOf(const TeamMember& member, size_t count) {
  const auto index = static_cast<size_t>(member.index());
  const auto members = static_cast<size_t>(member.count());
  return {count * index / members, count * (index + 1) / members};
}

// Calls tile(first_row, rows) over `rows` rows in tiles of at most `most`, of nearly equal size.
template <class F>
void ForEachTile(size_t rows, size_t most, F tile) {
  const size_t tiles = (rows + most - 1) / most;
  for (size_t t = 0; t < tiles; ++t) {
    const size_t begin = rows * t / tiles;
    tile(begin, rows * (t + 1) / tiles - begin);
  }
}

// Panels [part.begin, part.end) of a matrix times `rows` rows of x. epilogue(panel, row, outputs)
// gets the 32 outputs of one row; it may change them.
template <class Epilogue>
void MultiplyPanels(const Ops& ops, const PackedMatrix& matrix, Part part, const Activations& x,
                    size_t rows, Epilogue epilogue) {
  alignas(64) float out[kMaxTileRows * kPanel];
  const PanelFn* kernels = ops.panel[static_cast<int>(matrix.format)];
  for (size_t chunk = 0; chunk < rows; chunk += kRowChunk) {
    const size_t chunk_rows = std::min(kRowChunk, rows - chunk);
    for (size_t p = part.begin; p < part.end; ++p)
      ForEachTile(chunk_rows, static_cast<size_t>(ops.max_rows), [&](size_t first, size_t count) {
        kernels[count - 1](matrix.panel(p), matrix.blocks(), x.View(chunk + first), out, kPanel);
        for (size_t r = 0; r < count; ++r) epilogue(p, chunk + first + r, out + r * kPanel);
      });
  }
}

// The same for rows quantised in two parts: x, and what x's rounding left over. The outputs of both
// are added. A panel is still cached when it meets the second part.
template <class Epilogue>
void MultiplyTwice(const Ops& ops, const PackedMatrix& matrix, Part part, const Activations& x,
                   const Activations& rest, size_t rows, Epilogue epilogue) {
  alignas(64) float out[kMaxTileRows * kPanel];
  alignas(64) float out_rest[kMaxTileRows * kPanel];
  const PanelFn* kernels = ops.panel[static_cast<int>(matrix.format)];
  for (size_t chunk = 0; chunk < rows; chunk += kRowChunk) {
    const size_t chunk_rows = std::min(kRowChunk, rows - chunk);
    for (size_t p = part.begin; p < part.end; ++p)
      ForEachTile(chunk_rows, static_cast<size_t>(ops.max_rows), [&](size_t first, size_t count) {
        const PanelFn kernel = kernels[count - 1];
        kernel(matrix.panel(p), matrix.blocks(), x.View(chunk + first), out, kPanel);
        kernel(matrix.panel(p), matrix.blocks(), rest.View(chunk + first), out_rest, kPanel);
        ops.add(out_rest, count * kPanel, out);
        for (size_t r = 0; r < count; ++r) epilogue(p, chunk + first + r, out + r * kPanel);
      });
  }
}

// One part of the rows times two matrices of equal shape whose panels are interleaved:
// epilogue(panel, row, a, b).
template <class Epilogue>
void MultiplyPairs(const Ops& ops, const PackedMatrix& a, const PackedMatrix& b, Part part,
                   const Activations& x, size_t rows, Epilogue epilogue) {
  alignas(64) float out_a[kMaxTileRows * kPanel];
  alignas(64) float out_b[kMaxTileRows * kPanel];
  const PanelFn* kernels_a = ops.panel[static_cast<int>(a.format)];
  const PanelFn* kernels_b = ops.panel[static_cast<int>(b.format)];
  for (size_t chunk = 0; chunk < rows; chunk += kRowChunk) {
    const size_t chunk_rows = std::min(kRowChunk, rows - chunk);
    for (size_t p = part.begin; p < part.end; ++p)
      ForEachTile(chunk_rows, static_cast<size_t>(ops.max_rows), [&](size_t first, size_t count) {
        const RowsView view = x.View(chunk + first);
        kernels_a[count - 1](a.panel(p), a.blocks(), view, out_a, kPanel);
        kernels_b[count - 1](b.panel(p), b.blocks(), view, out_b, kPanel);
        for (size_t r = 0; r < count; ++r)
          epilogue(p, chunk + first + r, out_a + r * kPanel, out_b + r * kPanel);
      });
  }
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_MATMUL_H_
