#include "rt/cancel.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace tandem::rt {
namespace {

TEST(Cancel, ADefaultTokenNeverFires) {
  const CancelToken token;
  EXPECT_FALSE(token.Cancelled());
  const auto registration = token.OnCancel([] { FAIL(); });
}

TEST(Cancel, CallbacksRunOnceInOrderOfRegistration) {
  CancelSource source;
  std::string order;
  const auto a = source.Token().OnCancel([&] { order += "a"; });
  const auto b = source.Token().OnCancel([&] { order += "b"; });
  source.Cancel({Code::kDeadlineExceeded, "late", {}});
  source.Cancel();
  EXPECT_EQ(order, "ab");
  EXPECT_EQ(source.Token().Reason().code, Code::kDeadlineExceeded);
  const auto c = source.Token().OnCancel([&] { order += "c"; });
  EXPECT_EQ(order, "abc");
}

TEST(Cancel, ADroppedRegistrationDoesNotRun) {
  CancelSource source;
  std::optional<CancelRegistration> dropped = source.Token().OnCancel([] { FAIL(); });
  dropped.reset();
  source.Cancel();
}

TEST(Cancel, ACallbackMayDropAnother) {
  CancelSource source;
  std::optional<CancelRegistration> second;
  const auto first = source.Token().OnCancel([&] { second.reset(); });
  second = source.Token().OnCancel([] { FAIL(); });
  source.Cancel();
}

TEST(Cancel, ACallbackMayDestroyTheSource) {
  std::optional<CancelSource> source(std::in_place);
  const auto registration = source->Token().OnCancel([&] { source.reset(); });
  source->Cancel();
  EXPECT_FALSE(source.has_value());
}

TEST(Cancel, ChildrenFireWithTheirParentAndAlone) {
  CancelSource parent;
  CancelSource first(parent.Token());
  CancelSource second(parent.Token());
  first.Cancel();
  EXPECT_FALSE(parent.Token().Cancelled());
  EXPECT_FALSE(second.Token().Cancelled());
  parent.Cancel({Code::kCancelled, "gone", {}});
  EXPECT_EQ(second.Token().Reason().message, "gone");
  const CancelSource late(parent.Token());
  EXPECT_TRUE(late.Token().Cancelled());
}

TEST(Cancel, AMovedSourceStillHearsItsParent) {
  CancelSource parent;
  CancelSource child(parent.Token());
  const CancelSource moved = std::move(child);
  parent.Cancel();
  EXPECT_TRUE(moved.Token().Cancelled());
}

}  // namespace
}  // namespace tandem::rt
