// Speed of the hand-over between two processes, beside plain memcpy in the same seconds.
//
//   xfer_bench [rounds]     default 15
//
// Blocks are those of a 135M model in float16 (368,640 bytes for 16 tokens). "first" is a pull
// whose pages this process has not touched before; the rest are medians. The share is of memcpy
// between two warm arenas, measured in turn with the pulls.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "rt/real_runtime.h"
#include "xfer/arena.h"
#include "xfer/kv_reader.h"
#include "xfer/kv_server.h"

namespace tandem::xfer {
namespace {

constexpr size_t kBlockBytes = 368640;
constexpr int32_t kBlocks = 512;  // 180 MiB

KvIdentity Identity() {
  KvIdentity id;
  id.model_digest = "bench";
  id.layout_id = "bench";
  id.dtype = "f16";
  id.block_tokens = 16;
  id.block_bytes = kBlockBytes;
  return id;
}

struct Note {
  uint16_t port = 0;
  kv::LeaseId lease = 0;
};

void RunOwner(int to_parent) {
  rt::RealRuntime runtime;
  Metrics metrics;
  Arena arena = Arena::Create({.block_bytes = kBlockBytes, .blocks = kBlocks}).value();
  std::memset(arena.data(), 1, arena.bytes());
  kv::LeaseTable leases({.incarnation = 1, .lease = std::chrono::hours(1)});
  KvServer::Options options;
  options.engine_id = "owner";
  options.identity = Identity();
  options.listen.host = "127.0.0.1";
  KvServer server(runtime, arena, leases, options, metrics);
  CHECK(server.Start().has_value());
  std::vector<kv::BlockRef> refs;
  for (kv::BlockId b = 0; b < kBlocks; ++b) refs.push_back({b, 1});
  const Note note{server.address().port, leases.Grant("r", refs, runtime.Now()).value().lease};
  CHECK(write(to_parent, &note, sizeof(note)) == sizeof(note));
  runtime.Run();
}

struct Case {
  const char* name;
  const char* transport;
  int32_t blocks;
  bool scattered;
};

constexpr Case kCases[] = {
    {"shm, 1 block", "shm", 1, false},
    {"shm, 512 tokens (32 blocks)", "shm", 32, false},
    {"shm, 512 tokens, scattered", "shm", 32, true},
    {"shm, 8,192 tokens", "shm", 512, false},
    {"tcp, 1 block", "tcp", 1, false},
    {"tcp, 512 tokens (32 blocks)", "tcp", 32, false},
    {"tcp, 8,192 tokens", "tcp", 512, false},
};

// Each round takes other blocks than the one before, so that neither side finds them in its caches:
// the KV of a new prompt is not there either.
std::vector<PullBlock> BlocksOf(const Case& c, const Arena& local, int round) {
  std::vector<PullBlock> blocks;
  for (int32_t n = 0; n < c.blocks; ++n) {
    const int32_t i = (n + round * c.blocks) % kBlocks;
    // 37 and 101 have no factor in common with the number of blocks: each block once, far apart.
    const int32_t remote = c.scattered ? i * 37 % kBlocks : i;
    const int32_t mine = c.scattered ? i * 101 % kBlocks : i;
    blocks.push_back({{remote, 1}, local.Block(mine)});
  }
  return blocks;
}

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

rt::Task<void> Measure(rt::Runtime* runtime, KvReader* shm, KvReader* tcp, const Arena* local,
                       const Arena* plain, Note note, int rounds) {
  LeaseSource source{"owner", "127.0.0.1", note.port, 1, note.lease, "r"};
  std::printf("%-30s %10s %12s %12s %10s %8s\n", "case", "first ms", "median ms", "memcpy ms",
              "GB/s", "share");
  for (const Case& c : kCases) {
    KvReader* reader = std::strcmp(c.transport, "shm") == 0 ? shm : tcp;
    const Arena untouched =
        Arena::Create({.block_bytes = kBlockBytes, .blocks = kBlocks, .shared = false}).value();
    std::vector<double> pulls, copies;
    for (int round = 0; round <= rounds; ++round) {
      const auto blocks = BlocksOf(c, round == 0 ? untouched : *local, round);
      const auto result = co_await reader->Pull(source, blocks, false, {}, kNever);
      CHECK(result.has_value() && result->transport == c.transport);
      pulls.push_back(result->seconds);
      const auto others = BlocksOf(c, *local, round + rounds / 2);
      const MonoTime start = runtime->Now();
      for (const PullBlock& b : others) {
        std::memcpy(b.destination, plain->Block(b.remote.block), kBlockBytes);
      }
      copies.push_back(ToSeconds(runtime->Now() - start));
    }
    const double first = pulls[0];
    const double pull = Median({pulls.begin() + 1, pulls.end()});
    const double copy = Median({copies.begin() + 1, copies.end()});
    const double bytes = static_cast<double>(c.blocks) * kBlockBytes;
    std::printf("%-30s %10.2f %12.3f %12.3f %10.2f %7.0f%%\n", c.name, first * 1e3, pull * 1e3,
                copy * 1e3, bytes / pull / 1e9, copy / pull * 100);
  }
}

void RunReader(const Note& note, int rounds) {
  rt::RealRuntime runtime;
  Metrics metrics;
  const Arena local =
      Arena::Create({.block_bytes = kBlockBytes, .blocks = kBlocks, .shared = false}).value();
  const Arena plain = Arena::Create({.block_bytes = kBlockBytes, .blocks = kBlocks}).value();
  std::memset(plain.data(), 1, plain.bytes());
  std::memset(local.data(), 1, local.bytes());
  KvReader::Options options;
  options.identity = Identity();
  options.transports = {"shm"};
  KvReader shm(runtime, options, metrics);
  options.transports = {"tcp"};
  KvReader tcp(runtime, options, metrics);
  CHECK(runtime.RunTask(Measure(&runtime, &shm, &tcp, &local, &plain, note, rounds)));
  CHECK(runtime.RunTask(shm.Stop()));
  CHECK(runtime.RunTask(tcp.Stop()));
}

}  // namespace
}  // namespace tandem::xfer

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t owner = fork();
  CHECK(owner >= 0);
  if (owner == 0) {
    tandem::xfer::RunOwner(ends[1]);
    _exit(0);
  }
  tandem::xfer::Note note;
  CHECK(read(ends[0], &note, sizeof(note)) == sizeof(note));
  tandem::xfer::RunReader(note, rounds);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  return 0;
}
