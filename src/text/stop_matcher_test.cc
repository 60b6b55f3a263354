#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem::text {
namespace {

StopMatcher Make(std::vector<std::string> stops, bool include = false) {
  auto matcher = StopMatcher::Create(std::move(stops), include);
  EXPECT_TRUE(matcher);
  return std::move(*matcher);
}

TEST(StopMatcher, WithoutStopsEverythingPassesAtOnce) {
  StopMatcher matcher = Make({});
  EXPECT_EQ(matcher.Push("abc").emit, "abc");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcher, HoldsBackExactlyWhatMayBecomeAStop) {
  StopMatcher matcher = Make({"</end>", "\n\nUser"});
  EXPECT_EQ(matcher.Push("Hello <").emit, "Hello ");
  EXPECT_EQ(matcher.Push("b>").emit, "<b>");
  EXPECT_EQ(matcher.Push("\n").emit, "");
  EXPECT_EQ(matcher.Push("\n").emit, "");
  EXPECT_EQ(matcher.Push("\n").emit, "\n");
  EXPECT_EQ(matcher.Push("Us").emit, "");
  EXPECT_EQ(matcher.Push("ed").emit, "\n\nUsed");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcher, MatchSpansPiecesAndIsCutOff) {
  StopMatcher matcher = Make({"zzz", "STOP"});
  EXPECT_EQ(matcher.Push("one ST").emit, "one ");
  const auto out = matcher.Push("OP two");
  EXPECT_EQ(out.emit, "");
  EXPECT_EQ(out.stop, 1u);
  EXPECT_EQ(matcher.Push("more").emit, "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcher, IncludesTheStopStringWhenAskedTo) {
  StopMatcher matcher = Make({"STOP"}, true);
  EXPECT_EQ(matcher.Push("one ST").emit, "one ");
  const auto out = matcher.Push("OP two");
  EXPECT_EQ(out.emit, "STOP");
  EXPECT_EQ(out.stop, 0u);
}

TEST(StopMatcher, TheStopThatEndsFirstWinsAndThenTheFirstInTheList) {
  EXPECT_EQ(Make({"abcd", "bc"}).Push("xabcd").emit, "xa");
  const auto out = Make({"c", "abc"}).Push("abc");
  EXPECT_EQ(out.stop, 0u);
  EXPECT_EQ(out.emit, "ab");
  EXPECT_EQ(Make({"abc", "c"}).Push("abc").stop, 0u);
  EXPECT_EQ(Make({"abc", "c"}).Push("abc").emit, "");
}

TEST(StopMatcher, FlushGivesBackTheHeldText) {
  StopMatcher matcher = Make({"STOP"});
  EXPECT_EQ(matcher.Push("a STO").emit, "a ");
  EXPECT_EQ(matcher.Flush(), "STO");
}

TEST(StopMatcher, MayNotStopBeforeMinTokens) {
  StopMatcher matcher = Make({"end"});
  const auto first = matcher.Push("the end e", false);
  EXPECT_EQ(first.emit, "the end ");
  EXPECT_FALSE(first.stop);
  const auto second = matcher.Push("nd.");
  EXPECT_EQ(second.emit, "");
  EXPECT_EQ(second.stop, 0u);
}

TEST(StopMatcher, RefusesEmptyAndTooMany) {
  const auto empty = StopMatcher::Create({""}, false);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().param, "stop");
  EXPECT_FALSE(StopMatcher::Create(std::vector<std::string>(65, "x"), false));
  EXPECT_FALSE(StopMatcher::Create({std::string(5000, 'x')}, false));
}

// However the text is cut, the result is that of a plain search over the whole of it.
TEST(StopMatcher, EqualsAPlainSearchHoweverTheTextIsCut) {
  std::mt19937 random(1);
  const auto word = [&](size_t length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 0; i < 1 + random() % 3; ++i) stops.push_back(word(1 + random() % 5));
    const std::string text = word(random() % 30);
    size_t best_end = std::string::npos;
    size_t best = 0;
    for (size_t i = 0; i < stops.size(); ++i) {
      const size_t at = text.find(stops[i]);
      if (at == std::string::npos || at + stops[i].size() >= best_end) continue;
      best_end = at + stops[i].size();
      best = i;
    }
    StopMatcher matcher = Make(stops);
    std::string got;
    std::optional<size_t> stop;
    for (size_t at = 0; at < text.size();) {
      const size_t size = std::min<size_t>(1 + random() % 4, text.size() - at);
      const auto out = matcher.Push(text.substr(at, size));
      got += out.emit;
      if (out.stop) stop = out.stop;
      at += size;
    }
    got += matcher.Flush();
    if (best_end == std::string::npos) {
      EXPECT_FALSE(stop);
      EXPECT_EQ(got, text);
    } else {
      ASSERT_TRUE(stop);
      EXPECT_EQ(*stop, best);
      EXPECT_EQ(got, text.substr(0, best_end - stops[best].size()));
    }
  }
}

}  // namespace
}  // namespace tandem::text
