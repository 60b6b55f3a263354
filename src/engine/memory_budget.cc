#include "engine/memory_budget.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>

namespace tandem::engine {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The number after `key` in "key 123" or "key: 123 kB" lines.
std::optional<int64_t> NumberAfter(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    std::string_view rest = text.substr(at + key.size());
    const size_t digit = rest.find_first_not_of(": \t");
    if (digit == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(digit);
    int64_t value = 0;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (parsed.ec == std::errc()) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> NumberIn(const std::string& path) {
  const std::string text = ReadFile(path);
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
}

// Limit minus use of one group; file cache that could be dropped is not use.
int64_t Headroom(std::optional<int64_t> limit, std::optional<int64_t> current,
                 std::optional<int64_t> droppable) {
  if (!limit || !current) return kUnlimited;
  return std::max<int64_t>(0, *limit - *current + droppable.value_or(0));
}

// The process's group and all above it: each may set a limit.
int64_t GroupHeadroom(const std::string& root) {
  const std::string groups = ReadFile(root + "proc/self/cgroup");
  int64_t least = kUnlimited;
  const auto walk = [&](std::string path, const std::string& mount, bool v2) {
    while (true) {
      const std::string folder = mount + path + "/";
      const std::string stat = ReadFile(folder + "memory.stat");
      least = std::min(
          least, v2 ? Headroom(NumberIn(folder + "memory.max"), NumberIn(folder + "memory.current"),
                               NumberAfter(stat, "inactive_file"))
                    : Headroom(NumberIn(folder + "memory.limit_in_bytes"),
                               NumberIn(folder + "memory.usage_in_bytes"),
                               NumberAfter(stat, "total_inactive_file")));
      const size_t slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos) return;
      path.resize(slash);
    }
  };
  for (size_t begin = 0; begin < groups.size();) {
    const size_t end = std::min(groups.find('\n', begin), groups.size());
    const std::string_view line = std::string_view(groups).substr(begin, end - begin);
    begin = end + 1;
    const size_t first = line.find(':');
    const size_t second = line.find(':', first == std::string_view::npos ? first : first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string path(line.substr(second + 1));
    if (path == "/") path.clear();
    if (controllers.empty()) walk(path, root + "sys/fs/cgroup", true);
    if (("," + std::string(controllers) + ",").find(",memory,") != std::string::npos)
      walk(path, root + "sys/fs/cgroup/memory", false);
  }
  return least;
}

}  // namespace

int64_t AvailableMemory(const std::string& root) {
  const auto kib = NumberAfter(ReadFile(root + "proc/meminfo"), "MemAvailable");
  const int64_t machine = kib ? *kib * 1024 : kUnlimited;
  return std::min(machine, GroupHeadroom(root));
}

std::string FormatBytes(int64_t bytes) {
  constexpr double kMib = 1024.0 * 1024.0;
  const auto value = static_cast<double>(bytes);
  if (value >= 1024 * kMib) return fmt::format("{:.2f} GiB", value / (1024 * kMib));
  return fmt::format("{:.1f} MiB", value / kMib);
}

Result<KvBudget> PlanKv(const WorkerOptions& options, int64_t model_context, uint64_t block_bytes,
                        int64_t available) {
  KvBudget budget;
  const int64_t wanted_len = options.max_model_len > 0 ? options.max_model_len : model_context;
  if (options.max_model_len > model_context)
    return FieldErr("--max-model-len",
                    "--max-model-len {} exceeds the model's context of {} tokens",
                    options.max_model_len, model_context);
  const auto bytes = static_cast<int64_t>(block_bytes);
  int64_t blocks = 0;
  if (options.num_gpu_blocks_override > 0) {
    blocks = options.num_gpu_blocks_override;
    budget.reason = "--num-gpu-blocks-override";
  } else if (options.kv_cache_memory_bytes > 0) {
    blocks = options.kv_cache_memory_bytes / bytes;
    budget.reason = "--kv-cache-memory-bytes";
    if (blocks == 0)
      return FieldErr(
          "--kv-cache-memory-bytes",
          "--kv-cache-memory-bytes {} holds no block; one block of {} tokens needs {} bytes",
          options.kv_cache_memory_bytes, options.block_size, bytes);
  } else {
    const int64_t per_sequence = (wanted_len + options.block_size - 1) / options.block_size;
    const int64_t useful = per_sequence * options.max_num_seqs;
    const int64_t affordable = available / 2 / options.workers_on_host / bytes;
    blocks = std::min(useful, affordable);
    budget.reason = useful <= affordable
                        ? "--max-num-seqs x --max-model-len"
                        : fmt::format("half of the {} available, shared by {} worker(s) here",
                                      FormatBytes(available), options.workers_on_host);
    if (blocks == 0)
      return Err(Code::kResourceExhausted,
                 "{} of memory are available, too little for one KV block of {} bytes; free memory "
                 "or choose a smaller model",
                 FormatBytes(available), bytes);
  }
  budget.blocks =
      static_cast<int32_t>(std::min<int64_t>(blocks, std::numeric_limits<int32_t>::max()));
  const int64_t held = int64_t{budget.blocks} * options.block_size;
  budget.max_model_len = std::min(wanted_len, held);
  budget.clamped = budget.max_model_len < wanted_len;
  if (budget.max_model_len < 2)
    return FieldErr("--num-gpu-blocks-override",
                    "a context of {} token(s) serves nobody; give more KV "
                    "blocks (--num-gpu-blocks-override) or a larger --max-model-len",
                    budget.max_model_len);
  return budget;
}

}  // namespace tandem::engine
