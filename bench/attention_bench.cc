// Speed of attention alone, without weights: microseconds of one layer for a decode row at a given
// context, by shape, KV dtype and window, and the rate at which it goes through keys and values.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/team.h"
#include "model/attention.h"
#include "model/kv_writer.h"
#include "model/memory.h"
#include "rt/team.h"

namespace tandem::model {
namespace {

constexpr int kRuns = 7;
// A layer's keys and values have left the caches when their turn comes again: as many layers as
// make this many bytes.
constexpr size_t kArenaBytes = size_t{256} << 20;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Case {
  const char* name;
  AttentionShape shape;
  KvDtype dtype;
  int context;
  int64_t window;
};

class Bench {
 public:
  Bench(const Case& c, const Ops& ops, Team& team)
      : case_(c), layout_(LayoutOf(c)), attention_(c.shape, layout_, ops), team_(team) {
    const int blocks = c.context / layout_.block_tokens;
    memory_ = std::move(*Mapping::Anonymous(layout_.BlockBytes() * static_cast<size_t>(blocks)));
    arena_ = {memory_.data(), blocks};
    table_.resize(static_cast<size_t>(blocks));
    std::iota(table_.begin(), table_.end(), 0);
    // Blocks of a sequence lie anywhere.
    std::ranges::shuffle(table_, std::mt19937(1));
    Fill(ops);
    if (!attention_.Reserve(1, team.MaxSize())) std::abort();
  }

  void Run() {
    const TokenId token = 0;
    const BatchSlice slice{{&token, 1}, case_.context - 1, table_, 1};
    const int64_t windows[] = {case_.window};
    attention_.Plan({&slice, 1}, arena_, team_.MaxSize(), windows);
    std::vector<double> times;
    for (int run = 0; run < kRuns; ++run) {
      const double start = Seconds();
      for (int layer = 0; layer < layout_.layers; ++layer) {
        attention_.StartLayer(layer, false, case_.window);
        team_.Run([&](TeamMember& member) {
          attention_.Work(member.index(), queries_.data(), out_.data());
          member.Barrier();
          if (member.index() == 0) static_cast<void>(attention_.Row(0, out_.data(), own_.data()));
        });
      }
      times.push_back((Seconds() - start) / layout_.layers);
    }
    std::ranges::sort(times);
    const double median = times[times.size() / 2];
    const int64_t seen =
        case_.window == 0 ? case_.context : std::min<int64_t>(case_.window, case_.context);
    const double bytes = static_cast<double>(seen) * static_cast<double>(layout_.BlockBytes()) /
                         layout_.layers / layout_.block_tokens;
    std::printf("%-8s %-5s context %6d window %5d   %8.1f us a layer   %5.1f GB/s of KV\n",
                case_.name, std::string(KvDtypeName(case_.dtype)).c_str(), case_.context,
                static_cast<int>(case_.window), median * 1e6, bytes / median / 1e9);
    std::fflush(stdout);
  }

 private:
  static KvLayout LayoutOf(const Case& c) {
    KvLayout layout = {.layers = 1,
                       .kv_heads = c.shape.kv_heads,
                       .k_dim = c.shape.k_dim,
                       .v_dim = c.shape.v_dim,
                       .block_tokens = 16,
                       .dtype = c.dtype};
    const size_t layer = layout.BlockBytes() * static_cast<size_t>(c.context / 16);
    layout.layers = static_cast<int>(std::max<size_t>(kArenaBytes / layer, 1));
    return layout;
  }

  void Fill(const Ops& ops) {
    std::mt19937 random(2);
    const auto floats = [&](int count) {
      std::vector<float> values(static_cast<size_t>(count));
      for (float& v : values) v = std::uniform_real_distribution<float>(-1, 1)(random);
      return values;
    };
    queries_ = floats(case_.shape.heads * case_.shape.k_dim);
    out_ = own_ = floats(case_.shape.heads * case_.shape.v_dim);
    const std::vector<float> k = floats(case_.shape.k_dim);
    const std::vector<float> v = floats(case_.shape.v_dim);
    KvWriter writer(layout_, ops);
    writer.SetArena(arena_);
    for (BlockId block = 0; block < arena_.blocks; ++block)
      for (int layer = 0; layer < layout_.layers; ++layer)
        for (int head = 0; head < layout_.kv_heads; ++head)
          for (int slot = 0; slot < layout_.block_tokens; ++slot)
            writer.Store({.block = block, .slot = slot}, layer, head, k.data(), v.data());
  }

  Case case_;
  KvLayout layout_;
  Attention attention_;
  Team& team_;
  Mapping memory_;
  KvArena arena_;
  std::vector<BlockId> table_;
  std::vector<float> queries_, out_, own_;
};

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  if (threads < 1 || argc > 2) {
    std::fprintf(stderr, "usage: attention_bench [THREADS]\n");
    return 2;
  }
  FlushDenormalsOnThisThread();
  rt::ThreadTeam team({.max_threads = threads});
  const Ops& ops = **ChooseOps("");
  const AttentionShape small = {.heads = 9, .kv_heads = 3, .k_dim = 64, .v_dim = 64};
  const AttentionShape large = {.heads = 32, .kv_heads = 8, .k_dim = 128, .v_dim = 128};
  const AttentionShape capped = {
      .heads = 8, .kv_heads = 4, .k_dim = 256, .v_dim = 256, .softcap = 50};
  const AttentionShape latent = {.heads = 128, .kv_heads = 1, .k_dim = 576, .v_dim = 512};
  for (const KvDtype dtype :
       {KvDtype::kFloat16, KvDtype::kBfloat16, KvDtype::kInt8, KvDtype::kFloat32}) {
    Bench({"9/3x64", small, dtype, 2048, 0}, ops, team).Run();
    Bench({"32/8x128", large, dtype, 2048, 0}, ops, team).Run();
  }
  for (const int context : {4096, 32768})
    for (const int64_t window : {0, 512, 4096})
      Bench({"8/4x256", capped, KvDtype::kFloat16, context, window}, ops, team).Run();
  Bench({"latent", latent, KvDtype::kFloat16, 4096, 0}, ops, team).Run();
  return 0;
}

}  // namespace
}  // namespace tandem::model

int main(int argc, char** argv) { return tandem::model::Main(argc, argv); }
