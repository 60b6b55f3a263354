#include "model/rope.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace tandem::model {
namespace {

// pi / 2 in three parts. The first has 33 bits: its product with a quadrant number below 2^20, an
// angle of 1.6 million, is exact.
constexpr double kHalfPi1 = 1.57079632673412561417e+00;
constexpr double kHalfPi2 = 6.07710050630396597660e-11;
constexpr double kHalfPi3 = 2.02226624879595063154e-21;
constexpr double kTwoOverPi = 0.63661977236758134308;

// Taylor polynomials; |x| <= pi / 4, where the first term left out is below 1e-17.
double SineNearZero(double x) {
  const double s = x * x;
  double p = -1.0 / 1307674368000.0;  // -1 / 15!
  p = p * s + 1.0 / 6227020800.0;
  p = p * s - 1.0 / 39916800.0;
  p = p * s + 1.0 / 362880.0;
  p = p * s - 1.0 / 5040.0;
  p = p * s + 1.0 / 120.0;
  p = p * s - 1.0 / 6.0;
  return x + x * (s * p);
}

double CosineNearZero(double x) {
  const double s = x * x;
  double p = 1.0 / 20922789888000.0;  // 1 / 16!
  p = p * s - 1.0 / 87178291200.0;
  p = p * s + 1.0 / 479001600.0;
  p = p * s - 1.0 / 3628800.0;
  p = p * s + 1.0 / 40320.0;
  p = p * s - 1.0 / 720.0;
  p = p * s + 1.0 / 24.0;
  p = p * s - 0.5;
  return 1.0 + s * p;
}

struct Reduced {
  double rest;  // in [-pi/4, pi/4]
  int64_t quadrant;
};

Reduced Reduce(double x) {
  const double turns = x * kTwoOverPi;
  const auto quadrant = static_cast<int64_t>(turns + (turns < 0 ? -0.5 : 0.5));
  const auto n = static_cast<double>(quadrant);
  return {((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3, quadrant};
}

double SineOfQuadrant(double rest, int64_t quadrant) {
  switch (quadrant & 3) {
    case 0:
      return SineNearZero(rest);
    case 1:
      return CosineNearZero(rest);
    case 2:
      return -SineNearZero(rest);
    default:
      return -CosineNearZero(rest);
  }
}

// ln x for x > 0: the exponent times ln 2, plus 2 atanh((m - 1) / (m + 1)) of the mantissa.
double NaturalLog(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
  double mantissa = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFULL) | (uint64_t{1023} << 52));
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    exponent += 1.0;
  }
  const double t = (mantissa - 1.0) / (mantissa + 1.0);
  double sum = 0.0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * (t * t) + 1.0 / k;
  return exponent * 0.69314718055994530942 + 2.0 * t * sum;
}

// e^x for -100 < x <= 0: halved until small, then squared back.
double NaturalExp(double x) {
  int halvings = 0;
  for (; x < -0.25; x *= 0.5) ++halvings;
  double p = 1.0;
  for (int k = 14; k >= 1; --k) p = 1.0 + p * x / k;
  for (; halvings > 0; --halvings) p *= p;
  return p;
}

constexpr double kTwoPi = 6.28318530717958647693;

// Dynamic NTK widens the base by how far the served context goes beyond the trained one. Where
// others widen it while a sequence grows, keys already kept would no longer fit
// (docs/adr/0004-rope-is-fixed-per-server.md).
double BaseOf(const RopeConfig& config, int64_t positions) {
  if (config.scaling != RopeConfig::Scaling::kDynamic || positions <= config.original_context ||
      config.dims <= 2)
    return config.base;
  const double ratio =
      static_cast<double>(positions) / static_cast<double>(config.original_context);
  const double widened = config.factor * ratio - (config.factor - 1.0);
  const double exponent = static_cast<double>(config.dims) / (config.dims - 2);
  return config.base / NaturalExp(-NaturalLog(widened) * exponent);
}

// Long waves are stretched, short ones kept, those between mixed.
double Llama3Frequency(const RopeConfig& config, double frequency) {
  const double turns = static_cast<double>(config.original_context) * frequency / kTwoPi;
  if (turns < config.low_freq_factor) return frequency / config.factor;
  if (turns > config.high_freq_factor) return frequency;
  const double kept =
      (turns - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor);
  return (1.0 - kept) * frequency / config.factor + kept * frequency;
}

// Dimensions that turn often over the trained context are kept, those that turn rarely stretched,
// with a ramp between.
void ScaleYarn(const RopeConfig& config, double log_base, std::vector<double>& frequencies) {
  const auto dimension_of = [&](double turns) {
    const double positions = static_cast<double>(config.original_context) / (turns * kTwoPi);
    return config.dims * NaturalLog(positions) / (2.0 * log_base);
  };
  double low = dimension_of(config.beta_fast);
  double high = dimension_of(config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, config.dims - 1.0);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / config.factor * ramp + frequencies[i] * (1.0 - ramp);
  }
}

}  // namespace

double Sine(double x) {
  const Reduced reduced = Reduce(x);
  return SineOfQuadrant(reduced.rest, reduced.quadrant);
}

double Cosine(double x) {
  const Reduced reduced = Reduce(x);
  return SineOfQuadrant(reduced.rest, reduced.quadrant + 1);
}

Rope::Rope(const RopeConfig& config, int head_dim, int64_t positions)
    : head_dim_(head_dim), attention_factor_(config.attention_factor) {
  CHECK(config.dims % 2 == 0 && config.dims <= head_dim && config.base >= 1.0);
  const bool is_long = positions > config.original_context;
  const double log_base = NaturalLog(BaseOf(config, positions));
  for (int i = 0; i < config.dims; i += 2)
    frequencies_.push_back(NaturalExp(-log_base * i / config.dims));
  switch (config.scaling) {
    case RopeConfig::Scaling::kNone:
    case RopeConfig::Scaling::kDynamic:
      return;
    case RopeConfig::Scaling::kLinear:
      for (double& frequency : frequencies_) frequency /= config.factor;
      return;
    case RopeConfig::Scaling::kLlama3:
      for (double& frequency : frequencies_) frequency = Llama3Frequency(config, frequency);
      return;
    case RopeConfig::Scaling::kYarn:
      ScaleYarn(config, log_base, frequencies_);
      return;
    case RopeConfig::Scaling::kLongRope:
      const std::vector<float>& divisors = is_long ? config.long_divisors : config.short_divisors;
      for (size_t i = 0; i < std::min(divisors.size(), frequencies_.size()); ++i)
        frequencies_[i] /= static_cast<double>(divisors[i]);
      return;
  }
}

void Rope::Row(int64_t position, std::span<float> cosine, std::span<float> sine) const {
  CHECK(cosine.size() == static_cast<size_t>(head_dim_) && sine.size() == cosine.size());
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    const Reduced angle = Reduce(static_cast<double>(position) * frequencies_[i]);
    const auto s =
        static_cast<float>(SineOfQuadrant(angle.rest, angle.quadrant) * attention_factor_);
    const auto c =
        static_cast<float>(SineOfQuadrant(angle.rest, angle.quadrant + 1) * attention_factor_);
    cosine[2 * i] = cosine[2 * i + 1] = c;
    sine[2 * i] = -s;
    sine[2 * i + 1] = s;
  }
  for (size_t i = 2 * frequencies_.size(); i < cosine.size(); ++i) {
    cosine[i] = 1.0F;
    sine[i] = 0.0F;
  }
}

}  // namespace tandem::model
