// The scheduler alone: named behaviours first, then random schedules against a model.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/mock_executor.h"

namespace tandem::engine {
namespace {

constexpr int kBlockTokens = 4;
constexpr int32_t kVocab = 1000;
using std::chrono::seconds;

// A scheduler with the mock executor, run by hand.
struct Rig {
  explicit Rig(SchedulerOptions options, bool with_leases = false)
      : memory(static_cast<size_t>(options.blocks) * mock.block_bytes),
        executor(mock, kBlockTokens, {.base = memory.data(), .blocks = options.blocks}, Says()),
        leases({.incarnation = 99, .lease = seconds(30)}),
        scheduler(options, with_leases ? &leases : nullptr,
                  [this](BlockId from, BlockId to) { executor.CopyBlock(from, to); }) {}

  static MockOptions Mock() {
    MockOptions options;
    options.vocab = kVocab;
    options.block_bytes = kBlockTokens * 8;
    return options;
  }
  static std::vector<TokenId> Says() {
    std::vector<TokenId> says;
    for (TokenId id = 8; id < kVocab; ++id) says.push_back(id);
    return says;
  }
  static SchedulerOptions Options(int32_t blocks) {
    SchedulerOptions options;
    options.blocks = blocks;
    options.block_tokens = kBlockTokens;
    options.max_num_seqs = 16;
    options.max_num_batched_tokens = 32;
    options.max_model_len = int64_t{blocks} * kBlockTokens;
    options.vocab = kVocab;
    options.eos_ids = {7};
    return options;
  }
  static wire::GenerateRequest Request(std::vector<TokenId> prompt, int32_t max_tokens) {
    wire::GenerateRequest request;
    request.request_id = "r";
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    return request;
  }

  void Submit(RequestKey key, wire::GenerateRequest request, Leg leg = Leg::kWhole,
              std::optional<RemoteKv> remote = {}) {
    scheduler.Submit({.key = key,
                      .leg = leg,
                      .request = std::move(request),
                      .remote = std::move(remote),
                      .fallback_reason = {},
                      .seed = 0});
    Collect();
  }
  // One step; false if there was nothing to do.
  bool Step() {
    const StepPlan& plan = scheduler.Schedule(now);
    scheduler.CheckInvariants();
    Collect();
    if (plan.empty()) return false;
    rows = plan.rows.size();
    tokens = plan.tokens;
    scheduler.Complete(executor.Run(plan, abort), now);
    scheduler.CheckInvariants();
    Collect();
    return true;
  }
  void Collect() {
    for (Output& output : scheduler.TakeOutputs()) {
      if (output.item) {
        auto& to = text[output.key];
        const auto choice = static_cast<size_t>(output.item->choice);
        if (to.size() <= choice) to.resize(choice + 1);
        to[choice].insert(to[choice].end(), output.item->tokens.begin(), output.item->tokens.end());
        if (output.item->computed_prompt_tokens > 0) first[output.key] = *output.item;
        last[output.key] = *output.item;
      }
      if (output.granted) granted[output.key] = *output.granted;
      if (output.end) {
        EXPECT_FALSE(ends.contains(output.key)) << "request " << output.key << " ended twice";
        ends.emplace(output.key, *output.end);
      }
    }
    for (TransferCommand& command : scheduler.TakeTransfers()) commands.push_back(command);
  }
  std::vector<TokenId> Expected(std::vector<TokenId> prompt, int64_t count,
                                const engine::Request& request, int32_t choice) const {
    std::vector<TokenId> out;
    for (int64_t i = 0; i < count; ++i) {
      out.push_back(executor.NextToken(MockExecutor::Fingerprint(prompt), request, choice));
      prompt.push_back(out.back());
    }
    return out;
  }

  MockOptions mock = Mock();
  std::vector<std::byte> memory;
  MockExecutor executor;
  kv::LeaseTable leases;
  Scheduler scheduler;
  std::atomic<bool> abort = false;
  MonoTime now{seconds(1)};
  size_t rows = 0;
  int64_t tokens = 0;
  std::map<RequestKey, std::vector<std::vector<TokenId>>> text;
  std::map<RequestKey, wire::GenerateItem> first, last;
  std::map<RequestKey, GrantedKv> granted;
  std::map<RequestKey, Status> ends;
  std::vector<TransferCommand> commands;
};

std::vector<TokenId> Tokens(int64_t count, int32_t salt) {
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<TokenId>((i * 31 + salt * 17 + 100) % kVocab));
  return tokens;
}

engine::Request GreedyRequest() {
  engine::Request request;
  request.sampling.temperature = 0;
  return request;
}

TEST(Scheduler, ComputesAPromptInChunksAndStreams) {
  Rig rig(Rig::Options(64));
  const auto prompt = Tokens(70, 1);
  rig.Submit(1, Rig::Request(prompt, 5));
  EXPECT_TRUE(rig.Step());
  EXPECT_EQ(rig.tokens, 32);
  EXPECT_TRUE(rig.text.empty());
  EXPECT_TRUE(rig.Step());
  EXPECT_TRUE(rig.Step());
  EXPECT_EQ(rig.tokens, 6);
  ASSERT_EQ(rig.text[1][0].size(), 1U);
  EXPECT_EQ(rig.first[1].computed_prompt_tokens, 70);
  while (rig.Step()) {
  }
  EXPECT_EQ(rig.text[1][0], rig.Expected(prompt, 5, GreedyRequest(), 0));
  EXPECT_TRUE(rig.ends.at(1).has_value());
  EXPECT_EQ(rig.last[1].finish, wire::FinishReason::kLength);
  EXPECT_EQ(rig.scheduler.pool().stats().used, 0);
}

TEST(Scheduler, DecodeRowsComeBeforePrompts) {
  Rig rig(Rig::Options(64));
  rig.Submit(1, Rig::Request(Tokens(5, 1), 20));
  rig.Step();
  rig.Submit(2, Rig::Request(Tokens(100, 2), 5));
  rig.Step();
  EXPECT_EQ(rig.rows, 2U);
  EXPECT_EQ(rig.tokens, 32);  // one decode token and a chunk of 31
  EXPECT_EQ(rig.text[1][0].size(), 2U);
}

TEST(Scheduler, ReusesFullBlocksButAlwaysComputesTheLastToken) {
  Rig rig(Rig::Options(64));
  const auto prompt = Tokens(16, 1);
  rig.Submit(1, Rig::Request(prompt, 3));
  while (rig.Step()) {
  }
  rig.Submit(2, Rig::Request(prompt, 3));
  while (rig.Step()) {
  }
  EXPECT_EQ(rig.first[2].cached_tokens, 12);
  EXPECT_EQ(rig.first[2].computed_prompt_tokens, 4);
  EXPECT_EQ(rig.text[1], rig.text[2]);
  // Another salt is another prefix.
  auto salted = Rig::Request(prompt, 3);
  salted.cache_salt = "s";
  rig.Submit(3, salted);
  while (rig.Step()) {
  }
  EXPECT_EQ(rig.first[3].cached_tokens, 0);
}

TEST(Scheduler, ForksChoicesAfterOnePrefill) {
  Rig rig(Rig::Options(64));
  const auto prompt = Tokens(10, 1);
  auto request = Rig::Request(prompt, 6);
  request.n = 3;
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  rig.Submit(1, request);
  while (rig.Step()) {
  }
  engine::Request reference;
  reference.seed = 5;
  reference.sampling.temperature = 1;
  ASSERT_EQ(rig.text[1].size(), 3U);
  for (int32_t choice = 0; choice < 3; ++choice)
    EXPECT_EQ(rig.text[1][static_cast<size_t>(choice)], rig.Expected(prompt, 6, reference, choice));
  EXPECT_EQ(rig.scheduler.counters().prompt_tokens_computed, 10U);
  EXPECT_NE(rig.text[1][0], rig.text[1][1]);
  EXPECT_EQ(rig.scheduler.pool().stats().used, 0);
}

TEST(Scheduler, PreemptsTheYoungestAndTheTextStaysTheSame) {
  Rig rig(Rig::Options(10));
  for (RequestKey key = 1; key <= 4; ++key)
    rig.Submit(key, Rig::Request(Tokens(6, static_cast<int32_t>(key)), 24));
  while (rig.Step()) {
  }
  EXPECT_GT(rig.scheduler.counters().preemptions, 0U);
  for (RequestKey key = 1; key <= 4; ++key) {
    EXPECT_TRUE(rig.ends.at(key).has_value());
    EXPECT_EQ(rig.text[key][0],
              rig.Expected(Tokens(6, static_cast<int32_t>(key)), 24, GreedyRequest(), 0));
  }
}

TEST(Scheduler, PriorityGoesFirst) {
  auto options = Rig::Options(64);
  options.max_num_seqs = 1;
  Rig rig(options);
  for (RequestKey key = 1; key <= 3; ++key) {
    auto request = Rig::Request(Tokens(4, static_cast<int32_t>(key)), 2);
    request.priority = key == 3 ? -1 : 0;
    rig.Submit(key, request);
  }
  rig.Step();
  EXPECT_TRUE(rig.text.contains(3));
  EXPECT_FALSE(rig.text.contains(1));
}

TEST(Scheduler, RefusesWhatItCannotServe) {
  auto options = Rig::Options(16);
  options.max_waiting = 2;
  Rig rig(options);
  const auto code = [&](wire::GenerateRequest request, Leg leg = Leg::kWhole) {
    static RequestKey key = 100;
    rig.Submit(++key, std::move(request), leg);
    return rig.ends.contains(key) && !rig.ends.at(key) ? rig.ends.at(key).error().code : Code::kOk;
  };
  EXPECT_EQ(code(Rig::Request({}, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Rig::Request({5, kVocab}, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Rig::Request({-1}, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(Rig::Request({1}, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code(Rig::Request(Tokens(64, 1), 1)), Code::kContextLength);
  EXPECT_EQ(code(Rig::Request({1}, 1), Leg::kPrefill), Code::kInvalidArgument);
  auto wide = Rig::Request({1}, 1);
  wide.n = 17;
  EXPECT_EQ(code(wide), Code::kInvalidArgument);
  auto echo = Rig::Request({1}, 1);
  echo.prompt_logprobs = 0;
  EXPECT_EQ(code(echo), Code::kUnsupported);
  auto hot = Rig::Request({1}, 1);
  hot.sampling.top_p = 7;
  EXPECT_EQ(code(hot), Code::kInvalidArgument);
  rig.Submit(1, Rig::Request({1}, 1));
  rig.Submit(2, Rig::Request({1}, 1));
  EXPECT_EQ(code(Rig::Request({1}, 1)), Code::kOverloaded);
  while (rig.Step()) {
  }
  EXPECT_EQ(rig.scheduler.load().requests, 0);
}

TEST(Scheduler, AnswersAreCutAtTheContext) {
  Rig rig(Rig::Options(4));  // 16 tokens
  rig.Submit(1, Rig::Request(Tokens(12, 1), 100));
  while (rig.Step()) {
  }
  EXPECT_EQ(rig.text[1][0].size(), 4U);
  EXPECT_EQ(rig.last[1].finish, wire::FinishReason::kLength);
}

TEST(Scheduler, StopIdsEndAChoiceAfterMinTokens) {
  Rig rig(Rig::Options(64));
  const auto expected = rig.Expected(Tokens(5, 1), 10, GreedyRequest(), 0);
  auto request = Rig::Request(Tokens(5, 1), 10);
  request.stop_token_ids = {expected[3]};
  rig.Submit(1, request);
  request.min_tokens = 6;
  rig.Submit(2, request);
  while (rig.Step()) {
  }
  EXPECT_EQ(rig.text[1][0].size(), 4U);
  EXPECT_EQ(rig.last[1].finish, wire::FinishReason::kStop);
  EXPECT_EQ(rig.last[1].stop_token, expected[3]);
  EXPECT_GE(rig.text[2][0].size(), 6U);
}

TEST(Scheduler, PrefillLegKeepsItsBlocksUnderALease) {
  Rig rig(Rig::Options(8), true);
  rig.Submit(1, Rig::Request(Tokens(21, 1), 50), Leg::kPrefill);
  rig.Step();
  ASSERT_TRUE(rig.granted.contains(1));
  EXPECT_EQ(rig.granted[1].blocks.size(), 6U);
  EXPECT_EQ(rig.granted[1].tokens, 21);
  EXPECT_EQ(rig.text[1][0].size(), 1U);
  EXPECT_EQ(rig.scheduler.pool().stats().used, 6);
  // Leased blocks count: a second prompt of six blocks waits until the lease ends.
  rig.Submit(2, Rig::Request(Tokens(21, 2), 50), Leg::kPrefill);
  EXPECT_FALSE(rig.Step());
  EXPECT_EQ(rig.scheduler.NextWake(), rig.now + seconds(30));
  rig.now += seconds(31);
  EXPECT_TRUE(rig.Step());
  EXPECT_TRUE(rig.granted.contains(2));
  EXPECT_EQ(rig.leases.stats().expired, 1U);
}

RemoteKv Remote(int64_t tokens, MonoTime give_up) {
  RemoteKv remote;
  remote.tokens = tokens;
  remote.give_up = give_up;
  for (int64_t i = 0; i * kBlockTokens < tokens; ++i)
    remote.blocks.push_back({.block = static_cast<BlockId>(i + 50), .generation = 1});
  return remote;
}

// What the owner's blocks of this prompt hold, written where the command says.
void CopyIn(Rig& rig, const TransferCommand& command, const std::vector<TokenId>& prompt) {
  for (size_t i = 0; i < command.local_blocks.size(); ++i) {
    const int64_t first = int64_t{command.remote_blocks[i].block - 50} * kBlockTokens;
    for (int64_t t = 0; t < kBlockTokens && first + t < static_cast<int64_t>(prompt.size()); ++t) {
      const uint64_t value =
          MockExecutor::Fingerprint(std::span(prompt).first(static_cast<size_t>(first + t + 1)));
      std::memcpy(rig.memory.data() +
                      static_cast<size_t>(command.local_blocks[i]) * rig.mock.block_bytes +
                      static_cast<size_t>(t) * 8,
                  &value, 8);
    }
  }
}

TEST(Scheduler, PulledPromptComputesExactlyOneToken) {
  Rig rig(Rig::Options(64));
  const auto prompt = Tokens(21, 1);
  rig.Submit(1, Rig::Request(prompt, 5), Leg::kDecode, Remote(21, rig.now + seconds(120)));
  EXPECT_FALSE(rig.Step());
  ASSERT_EQ(rig.commands.size(), 1U);
  EXPECT_EQ(rig.commands[0].kind, TransferCommand::Kind::kPull);
  EXPECT_EQ(rig.commands[0].local_blocks.size(), 5U);  // 20 tokens; the 21st is computed here
  EXPECT_EQ(rig.scheduler.load().waiting_for_kv, 1);
  CopyIn(rig, rig.commands[0], prompt);
  rig.scheduler.PullFinished(rig.commands[0].pull,
                             PullDone{.bytes = 160, .seconds = 1e-3, .transport = "tcp"});
  while (rig.Step()) {
  }
  EXPECT_EQ(rig.text[1][0], rig.Expected(prompt, 5, GreedyRequest(), 0));
  EXPECT_EQ(rig.first[1].computed_prompt_tokens, 1);
  EXPECT_EQ(rig.first[1].pulled_tokens, 20);
  EXPECT_EQ(rig.first[1].pulled_bytes, 160);
  // The pulled blocks now shrink the next pull, or make it needless.
  rig.commands.clear();
  const auto longer = Tokens(27, 1);
  rig.Submit(2, Rig::Request(longer, 5), Leg::kDecode, Remote(27, rig.now + seconds(120)));
  rig.Submit(3, Rig::Request(prompt, 5), Leg::kDecode, Remote(21, rig.now + seconds(120)));
  rig.Step();
  ASSERT_EQ(rig.commands.size(), 2U);
  EXPECT_EQ(rig.commands[0].kind, TransferCommand::Kind::kPull);
  EXPECT_EQ(rig.commands[0].local_blocks.size(), 2U);
  EXPECT_EQ(rig.commands[0].remote_blocks[0].block, 55);
  EXPECT_EQ(rig.commands[1].kind, TransferCommand::Kind::kRelease);
  EXPECT_EQ(rig.commands[1].key, 3U);
  EXPECT_EQ(rig.first[3].cached_tokens, 20);
}

TEST(Scheduler, FailedAndLatePullsAreComputedLocally) {
  Rig rig(Rig::Options(64));
  const auto prompt = Tokens(21, 1);
  rig.Submit(1, Rig::Request(prompt, 3), Leg::kDecode, Remote(21, rig.now + seconds(120)));
  rig.Submit(2, Rig::Request(Tokens(30, 2), 3), Leg::kDecode, Remote(30, rig.now + seconds(120)));
  rig.Submit(3, Rig::Request(Tokens(30, 3), 3), Leg::kDecode, Remote(29, rig.now + seconds(120)));
  rig.Step();
  EXPECT_EQ(rig.first[3].fallback_reason, "mismatch");
  const auto pulls = rig.commands;
  rig.scheduler.PullFinished(pulls[1].pull, Err(Code::kStale, "the lease ended"));
  while (rig.Step()) {
  }
  EXPECT_EQ(rig.first[1].fallback_reason, "stale");
  EXPECT_EQ(rig.first[1].computed_prompt_tokens, 21);
  EXPECT_EQ(rig.text[1][0], rig.Expected(prompt, 3, GreedyRequest(), 0));
  EXPECT_FALSE(rig.text.contains(2));
  rig.now += seconds(121);
  while (rig.Step()) {
  }
  EXPECT_EQ(rig.first[2].fallback_reason, "deadline");
  EXPECT_EQ(rig.scheduler.load().zombie_pulls, 1);
  EXPECT_EQ(rig.scheduler.pool().stats().used, 8);  // the late pull may still write into them
  rig.scheduler.PullFinished(pulls[2].pull, Err(Code::kCancelled, "cancelled"));
  rig.scheduler.CheckInvariants();
  EXPECT_EQ(rig.scheduler.pool().stats().used, 0);
  EXPECT_EQ(rig.scheduler.counters().fallbacks.at("deadline"), 1U);
}

TEST(Scheduler, CancelFreesEverythingAtOnceOrAtTheEndOfTheStep) {
  Rig rig(Rig::Options(64));
  rig.Submit(1, Rig::Request(Tokens(10, 1), 50));
  rig.Submit(2, Rig::Request(Tokens(10, 2), 50));
  const StepPlan& plan = rig.scheduler.Schedule(rig.now);
  rig.scheduler.Cancel(1);
  rig.scheduler.CheckInvariants();
  EXPECT_EQ(rig.scheduler.pool().stats().used, 6);
  rig.scheduler.Complete(rig.executor.Run(plan, rig.abort), rig.now);
  EXPECT_EQ(rig.scheduler.pool().stats().used, 3);
  rig.scheduler.Cancel(2);
  EXPECT_EQ(rig.scheduler.pool().stats().used, 0);
  EXPECT_EQ(rig.scheduler.load().requests, 0);
  rig.Collect();
  EXPECT_TRUE(rig.ends.empty());
}

TEST(Scheduler, FortyBlocksUnderSixtyFourRequestsAllEnd) {
  Rig rig(Rig::Options(40));
  for (RequestKey key = 1; key <= 64; ++key) {
    auto request =
        Rig::Request(Tokens(20 + static_cast<int64_t>(key) % 60, static_cast<int32_t>(key)), 40);
    request.n = key % 5 == 0 ? 3 : 1;
    request.sampling.temperature = 1;
    request.sampling.seed = 3;
    rig.Submit(key, request);
  }
  int steps = 0;
  while (rig.Step()) ASSERT_LT(++steps, 20000);
  EXPECT_EQ(rig.ends.size(), 64U);
  EXPECT_EQ(rig.scheduler.pool().stats().used, 0);
  EXPECT_GT(rig.scheduler.counters().preemptions, 0U);
}

// --- random schedules -------------------------------------------------------------------------

class RandomSchedule {
 public:
  explicit RandomSchedule(uint64_t seed)
      : random_(seed), rig_(MakeOptions(random_), /*with_leases=*/true) {}

  void Run() {
    for (int i = 0; i < 400; ++i) Act();
    Drain();
    Check();
  }

 private:
  struct Sent {
    wire::GenerateRequest request;
    Leg leg;
    bool cancelled = false;
  };

  static SchedulerOptions MakeOptions(std::mt19937_64& random) {
    auto options = Rig::Options(static_cast<int32_t>(12 + random() % 60));
    options.max_num_seqs = static_cast<int32_t>(4 + random() % 12);
    options.max_num_batched_tokens = options.max_num_seqs + static_cast<int32_t>(random() % 40);
    options.prefix_caching = random() % 4 != 0;
    options.max_waiting = 40;
    return options;
  }
  uint64_t Below(uint64_t n) { return random_() % n; }

  void Act() {
    switch (Below(12)) {
      case 0:
      case 1:
        return SubmitOne();
      case 2:
        if (!sent_.empty() && Below(3) == 0) CancelOne();
        return;
      case 3:
      case 4:
        return FinishPull(Below(4) != 0);
      case 5:
        if (Below(10) == 0) rig_.now += seconds(Below(60));
        return;
      case 6:
        return EndLease();
      default:
        return Step(true);
    }
  }

  void SubmitOne() {
    const RequestKey key = next_key_++;
    const auto longest = static_cast<uint64_t>(rig_.scheduler.options().max_model_len - 1);
    // Few salts, so that prompts share prefixes of all lengths.
    auto prompt = Tokens(static_cast<int64_t>(1 + Below(std::min<uint64_t>(longest, 60))),
                         static_cast<int32_t>(Below(3)));
    auto request = Rig::Request(prompt, static_cast<int32_t>(1 + Below(30)));
    request.request_id = std::to_string(key);
    if (Below(3) == 0) {
      request.n = static_cast<int32_t>(1 + Below(4));
      request.sampling.temperature = 1;
      request.sampling.seed = static_cast<int64_t>(Below(5));
    }
    request.priority = static_cast<int32_t>(Below(3)) - 1;
    const auto leg = static_cast<Leg>(Below(3));
    std::optional<RemoteKv> remote;
    if (leg == Leg::kDecode)
      remote = Remote(static_cast<int64_t>(prompt.size()), rig_.now + seconds(40));
    sent_[key] = {request, leg};
    rig_.Submit(key, request, leg, std::move(remote));
    Absorb();
  }

  void CancelOne() {
    auto it = sent_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(Below(sent_.size())));
    if (!rig_.ends.contains(it->first)) it->second.cancelled = true;
    rig_.scheduler.Cancel(it->first);
    rig_.scheduler.CheckInvariants();
    rig_.Collect();
    Absorb();
  }

  void Step(bool interrupt) {
    const StepPlan& plan = rig_.scheduler.Schedule(rig_.now);
    rig_.scheduler.CheckInvariants();
    rig_.Collect();
    Absorb();
    if (plan.empty()) return;
    if (interrupt && Below(4) == 0) CancelOne();
    if (interrupt && Below(4) == 0) FinishPull(true);
    const bool abort = interrupt && Below(8) == 0;
    rig_.scheduler.Complete(rig_.executor.Run(plan, abort), rig_.now);
    rig_.scheduler.CheckInvariants();
    rig_.Collect();
    Absorb();
  }

  // Commands of the scheduler, as the transfer side would see them.
  void Absorb() {
    for (TransferCommand& command : rig_.commands) {
      if (command.kind == TransferCommand::Kind::kPull) pulls_.push_back(command);
    }
    rig_.commands.clear();
  }

  void FinishPull(bool good) {
    if (pulls_.empty()) return;
    const size_t which = Below(pulls_.size());
    const TransferCommand command = pulls_[which];
    pulls_.erase(pulls_.begin() + static_cast<std::ptrdiff_t>(which));
    if (good) {
      CopyIn(rig_, command, sent_.at(command.key).request.prompt);
      rig_.scheduler.PullFinished(command.pull,
                                  PullDone{.bytes = 1, .seconds = 0, .transport = ""});
    } else {
      // Half a transfer: garbage that nobody may ever use.
      for (const BlockId block : command.local_blocks)
        std::memset(rig_.memory.data() + static_cast<size_t>(block) * rig_.mock.block_bytes, 0xEE,
                    rig_.mock.block_bytes);
      rig_.scheduler.PullFinished(command.pull, Err(Code::kStale, "stale"));
    }
    rig_.scheduler.CheckInvariants();
    rig_.Collect();
    Absorb();
  }

  void EndLease() {
    if (rig_.granted.empty()) return;
    auto it = rig_.granted.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(Below(rig_.granted.size())));
    rig_.leases.Release(it->second.lease);
  }

  void Drain() {
    for (int i = 0; i < 5000; ++i) {
      Step(false);
      FinishPull(true);
      if (rig_.scheduler.load().requests == 0) break;
      if (i % 50 == 49) rig_.now += seconds(40);  // leases that hold all blocks end
    }
    while (!pulls_.empty()) FinishPull(true);
    rig_.now += seconds(1000);
    Step(false);
  }

  void Check() {
    EXPECT_EQ(rig_.scheduler.load().requests, 0);
    EXPECT_EQ(rig_.scheduler.load().zombie_pulls, 0);
    EXPECT_EQ(rig_.scheduler.pool().stats().used, 0);
    for (const auto& [key, sent] : sent_) {
      EXPECT_EQ(rig_.ends.contains(key), !sent.cancelled) << key;
      if (sent.cancelled || !rig_.ends.at(key)) continue;
      engine::Request reference;
      reference.seed = static_cast<uint64_t>(sent.request.sampling.seed.value_or(0));
      reference.sampling.temperature = static_cast<float>(sent.request.sampling.temperature);
      const bool prefill = sent.leg == Leg::kPrefill;
      const int32_t choices = prefill ? 1 : sent.request.n;
      ASSERT_EQ(rig_.text.at(key).size(), static_cast<size_t>(choices));
      for (int32_t choice = 0; choice < choices; ++choice) {
        const auto& text = rig_.text.at(key)[static_cast<size_t>(choice)];
        const int64_t room = rig_.scheduler.options().max_model_len -
                             static_cast<int64_t>(sent.request.prompt.size());
        EXPECT_EQ(static_cast<int64_t>(text.size()),
                  prefill ? 1 : std::min<int64_t>(room, sent.request.max_tokens));
        EXPECT_EQ(text, rig_.Expected(sent.request.prompt, static_cast<int64_t>(text.size()),
                                      reference, choice));
      }
    }
  }

  std::mt19937_64 random_;
  Rig rig_;
  RequestKey next_key_ = 1;
  std::map<RequestKey, Sent> sent_;
  std::vector<TransferCommand> pulls_;
};

TEST(SchedulerRandom, EveryRequestEndsOnceWithItsOwnTextAndNothingLeaks) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    RandomSchedule(seed).Run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tandem::engine
