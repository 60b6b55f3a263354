#include <gtest/gtest.h>

#include "base/error_table.h"
#include "base/hash.h"
#include "base/metrics.h"

namespace tandem {
namespace {

TEST(ErrorTable, EveryCodeHasARowWithAnErrorStatus) {
  for (int i = 1; i <= static_cast<int>(Code::kInternal); ++i) {
    const ErrorRow& row = RowOf(static_cast<Code>(i));
    EXPECT_EQ(static_cast<int>(row.code), i);
    EXPECT_GE(row.http_status, 400) << row.name;
    EXPECT_FALSE(row.openai_type.empty()) << row.name;
  }
  EXPECT_EQ(RowOf(static_cast<Code>(9999)).code, Code::kInternal);
}

TEST(Hash, Sha256KnownAnswer) {
  EXPECT_EQ(Hex(Sha256(std::string_view("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hash, NumbersHaveSixteenDigits) {
  std::string out = "x";
  AppendHex(0x0123456789abcdef, out);
  AppendHex(7, out);
  EXPECT_EQ(out, "x0123456789abcdef0000000000000007");
}

TEST(Metrics, RendersCountersGaugesAndHistograms) {
  Metrics metrics;
  metrics.GetCounter("requests_total", "Requests.", {{"model", "a\"b"}}).Add(3);
  metrics.GetHistogram("seconds", "Time.", {0.1, 1}).Observe(0.5);
  const std::string text = metrics.Render();
  EXPECT_NE(text.find("requests_total{model=\"a\\\"b\"} 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("seconds_bucket{le=\"0.1\"} 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("seconds_bucket{le=\"+Inf\"} 1\n"), std::string::npos) << text;
}

TEST(Metrics, LabelSetsAreBounded) {
  Metrics metrics;
  for (size_t i = 0; i < Metrics::kMaxSeries + 50; ++i)
    metrics.GetCounter("c", "C.", {{"id", std::to_string(i)}}).Add();
  EXPECT_EQ(metrics.GetCounter("c", "C.", {{"id", "another"}}).Value(), 50u);
}

}  // namespace
}  // namespace tandem
