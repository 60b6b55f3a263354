// Speed of the native engine's compute alone: no scheduler, no HTTP. Prints one line per figure
// with the share of what this machine's memory, measured in the same minute, would allow.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/team.h"
#include "memory_rate.h"
#include "model/memory.h"
#include "model/model.h"
#include "rt/team.h"
#include "type_rates.h"

namespace tandem::model {
namespace {

constexpr int kBlockTokens = 16;
constexpr int kPrefill = 512;
constexpr int kDecodeTokens = 64;
constexpr int kMaxSequences = 32;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

struct Sample {
  double per_second;
  double cpu_share;  // CPU seconds per wall second
};

class Bench {
 public:
  Bench(std::unique_ptr<Model> model, Team& team, int runs)
      : model_(std::move(model)), team_(team), runs_(runs) {
    const size_t block_bytes = model_->kv_layout().BlockBytes();
    blocks_ = 8192 / kBlockTokens;
    arena_ = std::move(*Mapping::Anonymous(block_bytes * static_cast<size_t>(blocks_)));
    if (!model_->ReserveScratch(kPrefill, kMaxSequences)) std::abort();
    vocab_ = static_cast<size_t>(model_->config().vocab);
    logits_.resize(kMaxSequences * vocab_);
    std::mt19937 random(0);
    tokens_.resize(8192);
    for (TokenId& token : tokens_)
      token = std::uniform_int_distribution<TokenId>(0, model_->config().vocab - 1)(random);
  }

  void Prefill() {
    Report("prefill_512", kPrefill, 0, [&] {
      const double start = Seconds();
      Feed(0, kPrefill, 0, 1);
      return kPrefill / (Seconds() - start);
    });
  }

  void Decode(int context) {
    Feed(0, context, 0, 1);
    Report("decode_ctx_" + std::to_string(context), 1, context, [&] {
      const double start = Seconds();
      for (int i = 0; i < kDecodeTokens; ++i) Rows(1, context + i);
      return kDecodeTokens / (Seconds() - start);
    });
  }

  void Batch(int sequences) {
    constexpr int kContext = 128;
    constexpr int kSteps = 16;
    for (int s = 0; s < sequences; ++s) Feed(s, kContext, 0, 0);
    Report("batch_" + std::to_string(sequences), sequences, kContext, [&] {
      const double start = Seconds();
      for (int i = 0; i < kSteps; ++i) Rows(sequences, kContext + i);
      return kSteps * sequences / (Seconds() - start);
    });
  }

 private:
  // Blocks of a sequence; each has room for 256 tokens, the first of one alone for all.
  std::vector<BlockId> Table(int sequence) const {
    std::vector<BlockId> table(static_cast<size_t>(blocks_));
    std::iota(table.begin(), table.end(), 0);
    const auto first = static_cast<std::ptrdiff_t>(sequence) * 256 / kBlockTokens;
    std::rotate(table.begin(), table.begin() + first, table.end());
    return table;
  }

  void Run(const std::vector<BatchSlice>& slices, size_t rows) {
    const Status status = model_->Forward(slices, {arena_.data(), blocks_}, team_,
                                          {logits_.data(), rows * vocab_}, nullptr);
    if (!status) {
      std::fprintf(stderr, "error: %s\n", status.error().message.c_str());
      std::exit(1);
    }
  }

  void Feed(int sequence, int count, int start, int logit_rows) {
    const std::vector<BlockId> table = Table(sequence);
    for (int i = start; i < count; i += kPrefill) {
      const int n = std::min(kPrefill, count - i);
      Run({{{tokens_.data() + i, static_cast<size_t>(n)}, i, table, logit_rows}},
          static_cast<size_t>(logit_rows));
    }
  }

  void Rows(int sequences, int position) {
    std::vector<std::vector<BlockId>> tables;
    std::vector<BatchSlice> slices;
    for (int s = 0; s < sequences; ++s) tables.push_back(Table(s));
    for (int s = 0; s < sequences; ++s)
      slices.push_back(
          {{tokens_.data() + position + s, 1}, position, tables[static_cast<size_t>(s)], 1});
    Run(slices, static_cast<size_t>(sequences));
  }

  template <class F>
  void Report(const std::string& name, int rows, int context, F run) {
    run();
    std::vector<Sample> samples;
    for (int i = 0; i < runs_; ++i) {
      const double cpu = CpuSeconds();
      const double start = Seconds();
      const double rate = run();
      samples.push_back({rate, (CpuSeconds() - cpu) / (Seconds() - start)});
    }
    std::ranges::sort(samples, {}, &Sample::per_second);
    const Sample& median = samples[samples.size() / 2];
    const double gigabytes = StreamedGigabytes(team_);
    const KvLayout& kv = model_->kv_layout();
    const double kv_bytes = static_cast<double>(kv.BlockBytes()) / kv.block_tokens * context;
    const double step_bytes = static_cast<double>(model_->WeightBytes()) + rows * kv_bytes;
    const double limit = gigabytes * 1e9 / step_bytes * rows;
    std::printf("%-16s %8.1f %8.1f %8.1f tok/s   cpus %.2f   memory %5.1f GB/s", name.c_str(),
                samples.front().per_second, median.per_second, samples.back().per_second,
                median.cpu_share, gigabytes);
    if (rows <= kMaxSequences)
      std::printf("   memory limit %7.1f tok/s, share %3.0f %%", limit,
                  100.0 * median.per_second / limit);
    std::printf("\n");
    std::fflush(stdout);
  }

  std::unique_ptr<Model> model_;
  Team& team_;
  int runs_;
  int32_t blocks_ = 0;
  Mapping arena_;
  size_t vocab_ = 0;
  std::vector<float> logits_;
  std::vector<TokenId> tokens_;
};

int Main(int argc, char** argv) {
  LoadOptions options;
  int threads = 2;
  int runs = 5;
  std::string only;
  int only_context = 0;
  bool types = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (argument == "--threads") {
      threads = std::atoi(value().c_str());
    } else if (argument == "--runs") {
      runs = std::atoi(value().c_str());
    } else if (argument == "--only") {
      only = value();
    } else if (argument == "--context") {
      only_context = std::atoi(value().c_str());
    } else if (argument == "--isa") {
      options.force_isa = value();
    } else if (argument == "--types") {
      types = true;
    } else if (argument == "--kv-cache-dtype") {
      const std::string name = value();
      const auto dtype = KvDtypeOfFlag(name);
      if (!dtype) {
        std::fprintf(stderr, "error: no such KV dtype: %s\n", name.c_str());
        return 2;
      }
      options.kv_dtype = *dtype;
    } else if (argument == "--cache") {
      options.cache_dir = value();
    } else {
      options.path = argument;
    }
  }
  if (options.path.empty() == !types || threads < 1 || runs < 1) {
    std::fprintf(
        stderr,
        "usage: model_bench MODEL.gguf [--threads 2] [--runs 5] [--only "
        "prefill,decode,batch] [--context 32|512|2000] [--isa plain|avx2|avx512] [--cache FOLDER] "
        "[--kv-cache-dtype float16|bfloat16|int8_per_token_head|float32]\n"
        "       model_bench --types [--threads 2] [--runs 5] [--isa plain|avx2|avx512] [--only "
        "Q4_1,...]\n"
        "min, median and max of the runs; decode is one sequence, batch is several at "
        "context 128; --types streams generated weights of each type, without a model\n");
    return 2;
  }
  FlushDenormalsOnThisThread();
  rt::ThreadTeam team({.max_threads = threads});
  if (types) return PrintTypeRates(team, options.force_isa, runs, only);
  if (only.empty()) only = "prefill,decode,batch";
  const double start = Seconds();
  auto model = Model::Load(options, team);
  if (!model) {
    std::fprintf(stderr, "error: %s\n", model.error().message.c_str());
    return 1;
  }
  std::printf("loaded in %.2f s: %s, %.1f MB of weights per token\n", Seconds() - start,
              (*model)->NumericsId().c_str(), static_cast<double>((*model)->WeightBytes()) / 1e6);
  Bench bench(std::move(*model), team, runs);
  if (only.find("prefill") != only.npos) bench.Prefill();
  if (only.find("decode") != only.npos)
    for (const int context : {32, 512, 2000})
      if (only_context == 0 || only_context == context) bench.Decode(context);
  if (only.find("batch") != only.npos)
    for (const int sequences : {8, 32}) bench.Batch(sequences);
  return 0;
}

}  // namespace
}  // namespace tandem::model

int main(int argc, char** argv) { return tandem::model::Main(argc, argv); }
