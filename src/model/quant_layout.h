// Where the quants of 32 inputs lie in a packed panel (pack.h): a definition for the packer and the
// kernels, which must know it at compile time.
//
// A quad is four inputs, a byte for each: quants of n bits fill n arrays of such bytes for eight
// quads. What fits is whole; with 3, 5 and 6 bits two or three quads are put together from bits
// that are left over, since that takes fewer steps than one array of high bits for all.
#ifndef TANDEM_MODEL_QUANT_LAYOUT_H_
#define TANDEM_MODEL_QUANT_LAYOUT_H_

#include <array>

namespace tandem::model {

// `count` bits from bit `at` of every byte of `array` are those from bit `to` of the quants.
struct QuantPart {
  int array;
  int at;
  int count;
  int to;
};
struct QuantParts {
  int count;
  QuantPart part[3];
};
using QuantLayout = std::array<QuantParts, 8>;  // of each quad

consteval QuantParts Whole(int array, int at, int bits) { return {1, {{array, at, bits, 0}}}; }

// For 2, 3, 4, 5, 6 and 8 bits.
consteval QuantLayout QuantLayoutOf(int bits) {
  QuantLayout layout{};
  for (int quad = 0; quad < 8; ++quad)
    layout[quad] = Whole(quad % bits, bits * (quad / bits), bits);
  if (bits == 3) {
    layout[6] = {2, {{0, 6, 2, 0}, {1, 6, 1, 2}}};
    layout[7] = {2, {{2, 6, 2, 0}, {1, 7, 1, 2}}};
  } else if (bits == 5) {
    layout[5] = {2, {{0, 5, 3, 0}, {1, 5, 2, 3}}};
    layout[6] = {2, {{2, 5, 3, 0}, {3, 5, 2, 3}}};
    layout[7] = {3, {{4, 5, 3, 0}, {1, 7, 1, 3}, {3, 7, 1, 4}}};
  } else if (bits == 6) {
    layout[6] = {3, {{0, 6, 2, 0}, {1, 6, 2, 2}, {2, 6, 2, 4}}};
    layout[7] = {3, {{3, 6, 2, 0}, {4, 6, 2, 2}, {5, 6, 2, 4}}};
  }
  return layout;
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_QUANT_LAYOUT_H_
