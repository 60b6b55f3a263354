// Attention of whole steps: near a plain double-precision reference for every shape, window and
// dtype, and the same bits however a sequence is cut into steps, batched, divided over threads and
// laid out in blocks. Slots that hold no key that is seen are NaN.
#include "model/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/kv_writer.h"
#include "model/test_kv.h"
#include "model/test_levels.h"
#include "model/test_team.h"

namespace tandem::model {
namespace {

constexpr int kLayers = 2;
constexpr int kArenaTokens = 4096;
constexpr int kMaxTokens = 400;

// Queries, keys and values of one sequence, the same at each position however it is computed.
struct Sequence {
  Sequence(const AttentionShape& shape, int tokens, uint32_t seed) : length(tokens) {
    RandomBytes random(seed);
    const auto n = static_cast<size_t>(tokens);
    const auto k_dim = static_cast<size_t>(shape.k_dim);
    const auto heads = static_cast<size_t>(shape.heads);
    const auto kv_heads = static_cast<size_t>(shape.kv_heads);
    q = RandomFloats(random, n * heads * k_dim, 3.0F / std::sqrt(static_cast<float>(k_dim)));
    k = RandomFloats(random, n * kv_heads * k_dim, 2.0F);
    v = RandomFloats(random, n * kv_heads * static_cast<size_t>(shape.v_dim), 2.0F);
  }
  int length;
  std::vector<float> q, k, v;  // [position][head][dim]
};

struct Options {
  AttentionShape shape;
  std::vector<int64_t> windows = {0};  // of all layers; the first is the one that is tested
  KvDtype dtype = KvDtype::kFloat16;
  int block_tokens = 16;
  int threads = 1;
  const Ops* ops = &PlainOps();
};

// What a model does around attention, for one layer: stores keys and values, runs the step, takes
// the rows. Blocks of a sequence are scattered; those wholly before a window are taken away.
class Runner {
 public:
  explicit Runner(const Options& options)
      : options_(options),
        layout_{.layers = kLayers,
                .kv_heads = options.shape.kv_heads,
                .k_dim = options.shape.k_dim,
                .v_dim = options.shape.v_dim,
                .block_tokens = options.block_tokens,
                .dtype = options.dtype},
        attention_(options.shape, layout_, *options.ops),
        writer_(layout_, *options.ops),
        team_(options.threads),
        blocks_(CeilDiv(kArenaTokens, options.block_tokens)),
        bytes_(layout_.BlockBytes() * static_cast<size_t>(blocks_) + 64, std::byte{0xFF}) {
    EXPECT_TRUE(attention_.Reserve(kMaxTokens, options.threads));
    writer_.SetArena(Arena());
  }

  struct Request {
    int id;
    const Sequence* sequence;
    int tokens;
  };
  // One step; outputs are appended by id.
  void Step(const std::vector<Request>& requests, bool only_logits = false) {
    std::vector<BatchSlice> slices;
    std::vector<std::vector<BlockId>> tables;
    std::vector<float> q;
    for (const Request& r : requests) {
      Store(r);
      const auto width = static_cast<std::ptrdiff_t>(options_.shape.heads * options_.shape.k_dim);
      const auto first = r.sequence->q.begin() + lengths_[r.id] * width;
      q.insert(q.end(), first, first + r.tokens * width);
      tables.push_back(TableWithoutUnseen(r.id));
    }
    const std::vector<TokenId> tokens(kMaxTokens, 1);
    for (size_t i = 0; i < requests.size(); ++i)
      slices.push_back({{tokens.data(), static_cast<size_t>(requests[i].tokens)},
                        lengths_[requests[i].id],
                        tables[i],
                        only_logits ? 1 : requests[i].tokens});
    attention_.Plan(slices, Arena(), options_.threads, options_.windows);
    const size_t width = OutWidth();
    std::vector<float> out(q.size() / static_cast<size_t>(options_.shape.k_dim) *
                               static_cast<size_t>(options_.shape.v_dim),
                           NAN);
    // Another layer first, of another window: its work must not show.
    for (const int layer : {0, 1}) {
      attention_.StartLayer(layer, only_logits,
                            layer == 0 ? options_.windows.back() : options_.windows.front());
      team_.Run([&](TeamMember& member) { attention_.Work(member.index(), q.data(), out.data()); });
    }
    size_t token = 0;
    for (const Request& r : requests) {
      for (int i = 0; i < r.tokens; ++i, ++token) {
        if (only_logits && i + 1 < r.tokens) continue;
        std::vector<float> own(width, NAN);
        const float* row = attention_.Row(token, out.data(), own.data());
        outputs_[r.id].insert(outputs_[r.id].end(), row, row + width);
      }
      lengths_[r.id] += r.tokens;
    }
  }

  // Only the keys and values of the tokens before `end`.
  void Skip(int id, const Sequence& sequence, int end) {
    Store({id, &sequence, end});
    lengths_[id] = end;
  }

  void Feed(int id, const Sequence& sequence, int end, int chunk) {
    for (int at = static_cast<int>(lengths_[id]); at < end; at += chunk)
      Step({{id, &sequence, std::min(chunk, end - at)}});
  }

  const std::vector<float>& outputs(int id) { return outputs_[id]; }
  size_t OutWidth() const {
    return static_cast<size_t>(options_.shape.heads) * static_cast<size_t>(options_.shape.v_dim);
  }

 private:
  static int CeilDiv(int a, int b) { return (a + b - 1) / b; }
  KvArena Arena() { return {bytes_.data(), blocks_}; }

  void Store(const Request& r) {
    std::vector<BlockId>& table = tables_[r.id];
    const auto kv_heads = static_cast<size_t>(options_.shape.kv_heads);
    for (int64_t p = lengths_[r.id]; p < lengths_[r.id] + r.tokens; ++p) {
      if (p % options_.block_tokens == 0) table.push_back(next_block_++ * 7 % blocks_);
      for (size_t head = 0; head < kv_heads; ++head) {
        const size_t at = static_cast<size_t>(p) * kv_heads + head;
        for (int layer = 0; layer < kLayers; ++layer)
          writer_.Store(
              {.block = table.back(), .slot = static_cast<int32_t>(p % options_.block_tokens)},
              layer, static_cast<int>(head),
              r.sequence->k.data() + at * static_cast<size_t>(options_.shape.k_dim),
              r.sequence->v.data() + at * static_cast<size_t>(options_.shape.v_dim));
      }
    }
  }

  // Entries of blocks that no layer's window reaches are of no block, so that using one is a crash.
  std::vector<BlockId> TableWithoutUnseen(int id) {
    std::vector<BlockId> table = tables_[id];
    const int64_t widest = *std::ranges::max_element(options_.windows);
    if (std::ranges::count(options_.windows, 0) > 0) return table;
    const int64_t first = lengths_[id] - widest + 1;
    for (int64_t block = 0; (block + 1) * options_.block_tokens <= first; ++block)
      table[static_cast<size_t>(block)] = -(1 << 28);
    return table;
  }

  Options options_;
  KvLayout layout_;
  Attention attention_;
  KvWriter writer_;
  TestTeam team_;
  int32_t blocks_;
  std::vector<std::byte> bytes_;
  int32_t next_block_ = 1;
  std::map<int, std::vector<BlockId>> tables_;
  std::map<int, int64_t> lengths_;
  std::map<int, std::vector<float>> outputs_;
};

// The output of one head at one position, from the definition.
std::vector<double> Reference(const Options& options, const Sequence& s, int position, int head) {
  const AttentionShape& shape = options.shape;
  const int64_t window = options.windows.front();
  const auto k_dim = static_cast<size_t>(shape.k_dim);
  const auto v_dim = static_cast<size_t>(shape.v_dim);
  const float* q = s.q.data() + static_cast<size_t>(position * shape.heads + head) * k_dim;
  std::vector<double> out(v_dim);
  double total = 0;
  for (int key = 0; key <= position; ++key) {
    if (window > 0 && key <= position - window) continue;
    const auto at =
        static_cast<size_t>(key * shape.kv_heads + head / (shape.heads / shape.kv_heads));
    const std::vector<double> k = KeptHead(s.k.data() + at * k_dim, k_dim, options.dtype);
    const std::vector<double> v = KeptHead(s.v.data() + at * v_dim, v_dim, options.dtype);
    double score = 0;
    for (size_t i = 0; i < k_dim; ++i) score += double{q[i]} * k[i];
    if (shape.softcap > 0) score = double{shape.softcap} * std::tanh(score / double{shape.softcap});
    const double p = std::exp(score);
    total += p;
    for (size_t i = 0; i < v_dim; ++i) out[i] += p * v[i];
  }
  for (double& x : out) x /= total;
  return out;
}

std::string Describe(const Options& options) {
  return std::string(KvDtypeName(options.dtype)) + " heads " + std::to_string(options.shape.heads) +
         "/" + std::to_string(options.shape.kv_heads) + " k " +
         std::to_string(options.shape.k_dim) + " v " + std::to_string(options.shape.v_dim) +
         " cap " + std::to_string(options.shape.softcap) + " window " +
         std::to_string(options.windows.front()) + " blocks of " +
         std::to_string(options.block_tokens);
}

// A plain model; many queries for one key; a latent with wide values and a divided group; caps.
const AttentionShape kShapes[] = {
    {.heads = 4, .kv_heads = 2, .k_dim = 32, .v_dim = 32},
    {.heads = 3, .kv_heads = 1, .k_dim = 48, .v_dim = 16, .softcap = 3.0F},
    {.heads = 50, .kv_heads = 1, .k_dim = 32, .v_dim = 16},
};
constexpr int64_t kWindows[] = {0, 1, 5, 16, 100, 256, 300, 4096};

// All windows with the usual dtype, a few with the others.
std::vector<int64_t> WindowsFor(KvDtype dtype) {
  if (dtype == KvDtype::kFloat16) return {std::begin(kWindows), std::end(kWindows)};
  return {0, 100};
}

class AttentionTest : public testing::Test {
 protected:
  void SetUp() override { FlushDenormalsOnThisThread(); }
};

const Ops& Fastest() { return *AvailableOps().levels[AvailableOps().count - 1]; }

TEST_F(AttentionTest, EqualsTheReference) {
  for (const AttentionShape& shape : kShapes)
    for (const KvDtype dtype : kAllKvDtypes)
      for (const int64_t window : WindowsFor(dtype)) {
        const Options options = {
            .shape = shape, .windows = {window}, .dtype = dtype, .ops = &Fastest()};
        SCOPED_TRACE(Describe(options));
        const Sequence sequence(shape, 620, 1);
        Runner runner(options);
        runner.Feed(0, sequence, 620, 310);
        const std::vector<float>& out = runner.outputs(0);
        for (const int position : {0, 4, 5, 99, 100, 255, 256, 257, 300, 511, 512, 556, 619})
          for (int head = 0; head < shape.heads; head += 17) {
            const std::vector<double> expected = Reference(options, sequence, position, head);
            const float* row = out.data() + static_cast<size_t>(position) * runner.OutWidth() +
                               static_cast<size_t>(head * shape.v_dim);
            for (size_t i = 0; i < expected.size(); ++i)
              ASSERT_NEAR(double{row[i]}, expected[i], 2e-5) << position << " head " << head;
          }
      }
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A sequence that crosses the end of a span, in steps of `chunk` tokens after `skipped` ones, gives
// the bits of one long step.
void ExpectSameBits(const Options& options, const Sequence& sequence,
                    const std::vector<float>& expected, int skipped, int chunk) {
  Runner runner(options);
  if (skipped > 0) runner.Skip(0, sequence, skipped);
  runner.Feed(0, sequence, sequence.length, chunk);
  const auto tail = static_cast<std::ptrdiff_t>(static_cast<size_t>(skipped) * runner.OutWidth());
  EXPECT_TRUE(SameBits(runner.outputs(0), {expected.begin() + tail, expected.end()}))
      << options.ops->name << ", " << skipped << " tokens, then " << chunk << " at a time, "
      << options.threads << " threads, blocks of " << options.block_tokens;
}

// In chunks, one by one (rows of several spans are divided), on the plain level, in odd blocks.
TEST_F(AttentionTest, SameBitsForEveryChunkThreadCountLevelAndBlockSize) {
  for (const AttentionShape& shape : kShapes)
    for (const KvDtype dtype : kAllKvDtypes)
      for (const int64_t window : WindowsFor(dtype)) {
        Options options = {.shape = shape, .windows = {window}, .dtype = dtype, .ops = &Fastest()};
        SCOPED_TRACE(Describe(options));
        const Sequence sequence(shape, 524, 2);
        Runner whole(options);
        whole.Feed(0, sequence, 524, 400);
        const auto expect_same = [&](int skipped, int chunk) {
          ExpectSameBits(options, sequence, whole.outputs(0), skipped, chunk);
        };
        expect_same(505, 1);
        expect_same(200, 67);
        options.threads = 2;
        expect_same(508, 1);
        expect_same(417, 13);
        for (const int block_tokens : {1, 5, 24, 128}) {
          options.block_tokens = block_tokens;
          expect_same(510, 1);
          expect_same(403, 130);
        }
        options.ops = &PlainOps();
        options.block_tokens = 32;
        expect_same(509, 1);
      }
}

TEST_F(AttentionTest, SameBitsInAnyBatch) {
  for (const AttentionShape& shape : kShapes)
    for (const int64_t window : {0, 20, 300}) {
      Options options = {.shape = shape, .windows = {window, 0, 64}, .ops = &Fastest()};
      SCOPED_TRACE(Describe(options));
      const Sequence a(shape, 560, 3), b(shape, 90, 4), c(shape, 330, 5);
      Runner alone(options);
      alone.Feed(0, a, 560, 80);
      alone.Feed(1, b, 90, 90);
      alone.Feed(2, c, 330, 300);
      options.threads = 2;
      Runner together(options);
      together.Feed(0, a, 530, 265);
      together.Feed(2, c, 300, 300);
      for (int i = 0; i < 30; ++i) together.Step({{2, &c, 1}, {1, &b, 3}, {0, &a, 1}});
      // So many rows that none of them is divided.
      options.threads = 1;
      Runner crowd(options);
      std::vector<Runner::Request> requests = {{0, &a, 1}, {2, &c, 1}};
      for (int id = 3; id < 10; ++id) requests.push_back({id, &b, 1});
      crowd.Feed(0, a, 540, 270);
      crowd.Feed(2, c, 310, 310);
      crowd.Feed(1, b, 90, 90);
      for (int i = 0; i < 20; ++i) crowd.Step(requests);
      for (int id = 0; id < 3; ++id) {
        EXPECT_TRUE(SameBits(together.outputs(id), alone.outputs(id))) << id;
        EXPECT_TRUE(SameBits(crowd.outputs(id), alone.outputs(id))) << id;
      }
    }
}

TEST_F(AttentionTest, OnlyTheWantedRowsGiveTheSameBits) {
  const AttentionShape& shape = kShapes[0];
  for (const int64_t window : {0, 40, 300}) {
    const Options options = {.shape = shape, .windows = {window}, .threads = 2, .ops = &Fastest()};
    const Sequence a(shape, 400, 6), b(shape, 300, 7);
    Runner all(options);
    all.Step({{0, &a, 250}, {1, &b, 150}});
    all.Step({{0, &a, 150}, {1, &b, 1}});
    Runner last(options);
    last.Step({{0, &a, 250}, {1, &b, 150}}, true);
    last.Step({{0, &a, 150}, {1, &b, 1}}, true);
    const auto row = [&](int id, int position) {
      const auto at =
          all.outputs(id).begin() + static_cast<std::ptrdiff_t>(all.OutWidth()) * position;
      return std::vector<float>(at, at + static_cast<std::ptrdiff_t>(all.OutWidth()));
    };
    std::vector<float> expected = row(0, 249);
    std::ranges::copy(row(0, 399), std::back_inserter(expected));
    EXPECT_TRUE(SameBits(last.outputs(0), expected)) << window;
    expected = row(1, 149);
    std::ranges::copy(row(1, 150), std::back_inserter(expected));
    EXPECT_TRUE(SameBits(last.outputs(1), expected)) << window;
  }
}

// The shape of DeepSeek's latent: its decode row is divided by spans and by queries.
TEST_F(AttentionTest, WideLatentWithAHundredQueriesForOneKey) {
  const AttentionShape shape = {.heads = 128, .kv_heads = 1, .k_dim = 576, .v_dim = 512};
  Options options = {.shape = shape, .ops = &Fastest()};
  const Sequence sequence(shape, 270, 8);
  Runner chunk(options);
  chunk.Skip(0, sequence, 250);
  chunk.Feed(0, sequence, 270, 20);
  options.threads = 3;
  Runner rows(options);
  rows.Skip(0, sequence, 250);
  rows.Feed(0, sequence, 270, 1);
  EXPECT_TRUE(SameBits(chunk.outputs(0), rows.outputs(0)));
  for (const int head : {0, 42, 43, 127}) {
    const std::vector<double> expected = Reference(options, sequence, 269, head);
    const float* row = rows.outputs(0).data() + size_t{19} * rows.OutWidth() +
                       static_cast<size_t>(head * shape.v_dim);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(double{row[i]}, expected[i], 2e-5);
  }
}

}  // namespace
}  // namespace tandem::model
