#include "rt/core_board.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace tandem::rt {
namespace {

using std::chrono::milliseconds;

class Board : public testing::Test {
 protected:
  Board() : folder_("/tmp/tandem-board-test-" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Board() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<CoreBoard> Open(std::vector<int> cpus) {
    auto board = CoreBoard::Open({folder_, std::move(cpus), 64});
    EXPECT_TRUE(board) << board.error().message;
    return *std::move(board);
  }
  std::string File() const { return fmt::format("{}/tandem-cores-1-{}", folder_, geteuid()); }

  std::string folder_;
};

TEST_F(Board, TheFileIsPrivateAndAnotherOneIsRefused) {
  Open({0});
  struct stat info{};
  ASSERT_EQ(stat(File().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(chmod(File().c_str(), 0644), 0);
  EXPECT_FALSE(CoreBoard::Open({folder_, {0}, 1}));
  ASSERT_EQ(unlink(File().c_str()), 0);
  ASSERT_EQ(symlink("/tmp/elsewhere", File().c_str()), 0);
  EXPECT_FALSE(CoreBoard::Open({folder_, {0}, 1}));
}

TEST_F(Board, AloneAWorkerGetsWhatItAsksFor) {
  const auto board = Open({0, 1, 2, 3});
  EXPECT_EQ(board->Interested(), 0);
  EXPECT_EQ(board->Acquire(8), 4);
  EXPECT_EQ(board->Interested(), 1);
  board->Release();
  EXPECT_EQ(board->Acquire(3), 3);
  board->Release();
  EXPECT_EQ(board->stats().waits, 0u);
}

TEST_F(Board, TwoWorkersWithWorkShare) {
  const auto first = Open({0, 1, 2, 3, 4});
  const auto second = Open({0, 1, 2, 3, 4});
  EXPECT_EQ(first->Acquire(2), 2);
  EXPECT_EQ(second->Acquire(5), 2);
  first->Release();
  EXPECT_EQ(first->Acquire(5), 3);  // what is left over goes to the lower seat
  EXPECT_EQ(first->Interested(), 2);
  first->Release();
  second->Release();
  // The interest of a worker without work ends by itself.
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(second->Acquire(5), 5);
  second->Release();
}

TEST_F(Board, AWorkerWithFewThreadsKeepsThemWhereThereIsRoom) {
  auto small = CoreBoard::Open({folder_, {0, 1, 2, 3, 4, 5}, 2});
  ASSERT_TRUE(small);
  EXPECT_EQ((*small)->cores(), 2);
  const auto other = Open({0, 1, 2, 3, 4, 5});
  EXPECT_EQ(other->Acquire(6), 6);
  other->Release();
  EXPECT_EQ((*small)->Acquire(6), 2);
  EXPECT_EQ(other->Acquire(6), 3);
  other->Release();
  (*small)->Release();
}

TEST_F(Board, WorkersOnOtherCpusDoNotMatter) {
  const auto first = Open({0, 1});
  const auto second = Open({2, 3});
  EXPECT_EQ(first->Acquire(2), 2);
  EXPECT_EQ(second->Acquire(2), 2);
  second->Release();
  first->Release();
}

TEST_F(Board, BelowOneCoreWorkersTakeTurns) {
  constexpr int kWorkers = 3;
  constexpr int kTurns = 20;
  std::mutex mutex;
  std::string order;
  std::atomic<int> inside = 0;
  std::vector<std::unique_ptr<CoreBoard>> boards;
  for (int i = 0; i < kWorkers; ++i) boards.push_back(Open({0}));
  std::vector<std::thread> threads;
  for (int i = 0; i < kWorkers; ++i) {
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < kTurns; ++turn) {
        EXPECT_EQ(boards[static_cast<size_t>(i)]->Acquire(4), 1);
        EXPECT_EQ(++inside, 1);
        std::this_thread::sleep_for(milliseconds(2));
        --inside;
        {
          const std::lock_guard lock(mutex);
          order.push_back(static_cast<char>('a' + i));
        }
        boards[static_cast<size_t>(i)]->Release();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_EQ(order.size(), static_cast<size_t>(kWorkers * kTurns));
  // In ticket order nobody runs twice while others wait, apart from the start and the end.
  int repeats = 0;
  for (size_t i = 1; i + kTurns < order.size(); ++i) repeats += order[i] == order[i - 1];
  EXPECT_LE(repeats, kTurns / 4) << order;
}

TEST_F(Board, ADeadOwnersClaimIsVoid) {
  const auto board = Open({0, 1});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto claims = CoreBoard::Open({folder_, {0, 1}, 2});
    const bool good = claims.has_value() && (*claims)->Acquire(2) == 2;
    _exit(good ? 0 : 1);  // without Release: as if killed
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_GE(board->Acquire(2), 1);
  board->Release();
  std::this_thread::sleep_for(milliseconds(60));
  board->Interested();
  EXPECT_EQ(board->Acquire(2), 2);
  board->Release();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(board->stats().overrides, 0u);
}

TEST_F(Board, ASeatTakenOverBringsNoClaims) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto claims = CoreBoard::Open({folder_, {0, 1}, 2});
    _exit(claims.has_value() && (*claims)->Acquire(2) == 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto board = Open({0, 1});  // the same seat
  EXPECT_EQ(board->Acquire(2), 2);
  EXPECT_EQ(board->stats().waits, 0u);
  board->Release();
}

TEST_F(Board, AClaimHeldForTwoSecondsIsOverridden) {
  const auto stuck = Open({0});
  const auto board = Open({0});
  EXPECT_EQ(stuck->Acquire(1), 1);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(board->Acquire(1), 1);
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, milliseconds(1900));
  EXPECT_LT(waited, milliseconds(4000));
  EXPECT_EQ(board->stats().overrides, 1u);
  board->Release();
  stuck->Release();
}

TEST_F(Board, SeatsAreBounded) {
  std::vector<std::unique_ptr<CoreBoard>> boards;
  for (int i = 0; i < 64; ++i) boards.push_back(Open({0}));
  const auto one_more = CoreBoard::Open({folder_, {0}, 1});
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error().code, Code::kResourceExhausted);
  boards.pop_back();
  EXPECT_TRUE(CoreBoard::Open({folder_, {0}, 1}));
}

TEST(Cores, AtLeastOneAndNoMoreThanAllowed) {
  EXPECT_GE(AvailableCores(), 1);
  EXPECT_LE(AvailableCores(), static_cast<int>(AllowedCpus().size()));
}

}  // namespace
}  // namespace tandem::rt
