// Every kernel of every instruction level: near a plain double-precision reference, and equal to
// the other levels bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "model/ops.h"
#include "model/rope.h"
#include "model/simd_plain.h"
#include "model/test_levels.h"
#include "model/tiny_gguf.h"

namespace tandem::model {

namespace {

// Printed for whoever reads the log of a machine: the tests below are about these.
TEST(Levels, AreThoseOfThisCpu) {
  std::string names;
  const OpsList list = AvailableOps();
  for (int i = 0; i < list.count; ++i)
    names += (i == 0 ? "" : " ") + std::string(list.levels[i]->name);
  std::printf("levels of this CPU: %s\n", names.c_str());
  ASSERT_GE(list.count, 1);
  EXPECT_EQ(list.levels[0], &PlainOps());
}

TEST_F(KernelsTest, QuantizeRoundsAsTheContractSays) {
  RandomBytes random(3);
  std::vector<float> x = RandomFloats(random, 128, 2.0F);
  for (size_t i = 32; i < 64; ++i) x[i] = 1e-31F;  // below the smallest block that counts
  for (const Ops* ops : Levels()) {
    std::vector<int8_t> q(128);
    std::vector<float> scale(4), scaled_sum(4);
    std::vector<int32_t> sum(4), halves(4);
    ops->quantize(x.data(), 128,
                  {q.data(), scale.data(), scaled_sum.data(), sum.data(), halves.data()});
    for (size_t b = 0; b < 4; ++b) {
      float a = 0;
      for (size_t i = 0; i < 32; ++i) a = std::max(a, std::fabs(x[b * 32 + i]));
      if (b == 1) a = 0;
      EXPECT_EQ(scale[b], a / 127.0F);
      int32_t half[2] = {0, 0};
      for (size_t i = 0; i < 32; ++i) {
        const float wanted = a == 0 ? 0.0F : std::nearbyint(x[b * 32 + i] * (127.0F / a));
        EXPECT_EQ(static_cast<float>(q[b * 32 + i]), wanted) << ops->name;
        half[i / 16] += q[b * 32 + i];
      }
      EXPECT_EQ(sum[b], half[0] + half[1]);
      EXPECT_EQ(scaled_sum[b], scale[b] * static_cast<float>(sum[b]));
      EXPECT_EQ(halves[b] & 0xFFFF, half[0] & 0xFFFF);
      EXPECT_EQ(halves[b] >> 16, half[1]);
    }
  }
}

TEST_F(KernelsTest, RowOperationsMatchTheReferenceAndEachOther) {
  RandomBytes random(4);
  constexpr size_t kN = 576;
  const std::vector<float> x = RandomFloats(random, kN, 20.0F);
  const std::vector<float> y = RandomFloats(random, kN, 2.0F);
  std::vector<float> first;
  for (const Ops* ops : Levels()) {
    std::vector<float> out(kN * 4);
    float* at = out.data();
    ops->rms_norm(x.data(), y.data(), kN, 1e-5F, at);
    ops->swiglu(x.data(), y.data(), kN, at + kN);
    std::copy(x.begin(), x.end(), at + 2 * kN);
    ops->rope(y.data(), x.data(), kN, at + 2 * kN);
    std::copy(x.begin(), x.end(), at + 3 * kN);
    ops->add(y.data(), kN, at + 3 * kN);
    ops->scale(0.3F, kN, at + 3 * kN);
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
    const double factor = 1.0 / std::sqrt(squares / kN + 1e-5);
    for (size_t i = 0; i < kN; ++i) {
      const auto g = static_cast<double>(x[i]);
      const auto u = static_cast<double>(y[i]);
      const auto swapped = static_cast<double>(x[i ^ 1]);
      EXPECT_NEAR(static_cast<double>(out[i]), g * factor * u, 1e-5);
      EXPECT_NEAR(static_cast<double>(out[kN + i]), g / (1.0 + std::exp(-g)) * u, 1e-5);
      EXPECT_NEAR(static_cast<double>(out[2 * kN + i]), g * u + swapped * g, 1e-4);
      EXPECT_NEAR(static_cast<double>(out[3 * kN + i]), (g + u) * 0.3F, 1e-5);
    }
    if (first.empty()) first = out;
    EXPECT_EQ(0, std::memcmp(out.data(), first.data(), out.size() * sizeof(float))) << ops->name;
  }
}

void ExpectNarrowed(const std::vector<float>& x) {
  ASSERT_EQ(x.size(), 16U);
  for (const Ops* ops : Levels()) {
    std::vector<uint16_t> out(16);
    ops->narrow(x.data(), 16, out.data());
    for (size_t i = 0; i < 16; ++i)
      EXPECT_EQ(out[i], FloatToHalf(std::clamp(x[i], -65504.0F, 65504.0F)))
          << ops->name << " " << x[i];
  }
}

TEST_F(KernelsTest, NarrowClampsAndRoundsToNearest) {
  ExpectNarrowed({0.0F, -0.0F, 1.0F, 65504.0F, 65519.0F, 1e9F, -1e9F, 2048.9F, 2051.1F, 1e-7F,
                  7e-8F, 4e-8F, -3e-5F, 0.1F, -0.1F, 1e-20F});
}

// Apart from the others because the emulator of tests/tools/avx512_under_bochs gets ties wrong.
TEST_F(KernelsTest, NarrowRoundsTiesToEven) {
  ExpectNarrowed({2049.0F, 2051.0F, -2049.0F, -2051.0F, 1.00048828125F, 1.00146484375F, 4098.0F,
                  4102.0F, 32784.0F, 32816.0F, 0x1p-25F, 0x1.8p-24F, -0x1p-25F, -0x1.8p-24F,
                  0x1.002p-14F, 0x1.006p-14F});
}

TEST_F(KernelsTest, PlainFusedMultiplyAddRoundsOnce) {
  RandomBytes random(5);
  for (int i = 0; i < 200000; ++i) {
    const float a = std::ldexp(random.Uniform(-2, 2), random.Integer(-20, 20));
    const float b = std::ldexp(random.Uniform(-2, 2), random.Integer(-20, 20));
    const float c =
        i % 3 == 0 ? -a * b : std::ldexp(random.Uniform(-2, 2), random.Integer(-45, 45));
    ASSERT_EQ(FusedMultiplyAdd(a, b, c), std::fma(a, b, c)) << a << " " << b << " " << c;
  }
  EXPECT_EQ(FusedMultiplyAdd(INFINITY, 1.0F, 1.0F), INFINITY);
  EXPECT_EQ(FusedMultiplyAdd(-3e38F, 3e38F, 1.0F), -INFINITY);
}

TEST_F(KernelsTest, SineAndCosineAreExactEnough) {
  RandomBytes random(6);
  for (int i = 0; i < 20000; ++i) {
    const auto x = static_cast<double>(random.Uniform(0, i % 2 == 0 ? 4.0F : 1e6F));
    ASSERT_NEAR(Sine(x), std::sin(x), 1e-12) << x;
    ASSERT_NEAR(Cosine(x), std::cos(x), 1e-12) << x;
  }
}

TEST_F(KernelsTest, RopeRowsTurnPairsByPosition) {
  RopeConfig config;
  config.dims = 12;
  const Rope rope(config, 16, 100);
  std::vector<float> cosine(16), sine(16);
  rope.Row(1234, cosine, sine);
  for (size_t i = 0; i < 6; ++i) {
    const double angle = 1234.0 * std::pow(10000.0, -2.0 * static_cast<double>(i) / 12.0);
    EXPECT_FLOAT_EQ(cosine[2 * i], static_cast<float>(std::cos(angle)));
    EXPECT_FLOAT_EQ(cosine[2 * i + 1], static_cast<float>(std::cos(angle)));
    EXPECT_FLOAT_EQ(sine[2 * i], static_cast<float>(-std::sin(angle)));
    EXPECT_FLOAT_EQ(sine[2 * i + 1], static_cast<float>(std::sin(angle)));
  }
  EXPECT_EQ(cosine[12], 1.0F);
  EXPECT_EQ(sine[15], 0.0F);
}

TEST_F(KernelsTest, UnknownLevelIsRefusedWithTheChoices) {
  const auto ops = ChooseOps("mmx");
  ASSERT_FALSE(ops);
  EXPECT_NE(ops.error().message.find("plain"), std::string::npos);
  EXPECT_EQ((*ChooseOps("plain"))->name, "plain");
}

}  // namespace
}  // namespace tandem::model
