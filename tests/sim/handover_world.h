// Processes of a simulated hand-over: owners that compute, lease and recycle, readers that pull.
#ifndef TANDEM_TESTS_SIM_HANDOVER_WORLD_H_
#define TANDEM_TESTS_SIM_HANDOVER_WORLD_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "kv/block_pool.h"
#include "kv/lease_table.h"
#include "rt/scope.h"
#include "rt/sim_runtime.h"
#include "xfer/arena.h"
#include "xfer/handover_keeper.h"
#include "xfer/kv_reader.h"
#include "xfer/kv_server.h"
#include "xfer/transfer_params.h"

namespace tandem::xfer::handover {

inline constexpr size_t kBlockBytes = 1024;

// What a block's bytes must be: nothing but this (incarnation, block, generation) looks like it.
uint64_t ContentWord(uint64_t incarnation, const kv::BlockRef& ref, size_t word);
void FillBlock(std::byte* block, uint64_t incarnation, const kv::BlockRef& ref);
bool HasContent(const std::byte* block, uint64_t incarnation, const kv::BlockRef& ref);

KvIdentity TestIdentity();

struct Dice {
  explicit Dice(uint64_t seed) : engine(seed) {}
  uint64_t Below(uint64_t n) { return engine() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  Duration UpTo(Duration d) { return Duration(static_cast<int64_t>(Below(d.count() + 1))); }
  std::mt19937_64 engine;
};

// What the test knows about the world: offers as a frontend would carry them, and the tally.
struct Board {
  std::vector<TransferParams> offers;    // the latest few, dead owners' too
  std::map<std::string, int> arena_fds;  // by shm address; where simulated readers find them
  bool winding_down = false;
  uint64_t granted = 0;
  uint64_t pulled = 0;  // accepted as valid
  uint64_t stale = 0;
  uint64_t failed = 0;   // for any other reason
  uint64_t foreign = 0;  // accepted blocks with other content: must stay 0
  std::map<std::string, uint64_t> by_transport;
};

struct OwnerOptions {
  std::string name;
  uint16_t port = 0;
  uint64_t incarnation = 1;
  Duration lease{};
  int32_t blocks = 24;
};

// A prefill worker's process: its scheduler fills blocks with new content all the time.
class OwnerProcess {
 public:
  OwnerProcess(rt::SimHost& host, Board& board, OwnerOptions options, uint64_t seed);
  ~OwnerProcess();
  void Start();
  rt::Task<void> Stop();
  rt::SimHost& host() { return host_; }
  kv::LeaseTable& leases() { return leases_; }
  kv::BlockPool& pool() { return pool_; }
  size_t connections() const { return server_.connections(); }

 private:
  rt::Task<void> Schedule();
  void TakeBack();
  void ComputePrompt();
  void RecycleEverything();

  rt::SimHost& host_;
  Board& board_;
  OwnerOptions options_;
  Dice dice_;
  Metrics metrics_;
  Arena arena_;
  kv::BlockPool pool_;
  kv::LeaseTable leases_;
  KvServer server_;
  uint64_t prompts_ = 0;
  rt::TaskScope scope_;
};

// A decode worker's process.
class ReaderProcess {
 public:
  ReaderProcess(rt::SimHost& host, Board& board, std::vector<std::string> transports,
                uint64_t seed);
  ~ReaderProcess();
  void Start();
  rt::Task<void> Stop();
  rt::SimHost& host() { return host_; }
  bool Clean() const;

 private:
  rt::Task<void> Generate();
  rt::Task<void> OneRequest(TransferParams params);
  void Judge(const TransferParams& params, const std::vector<kv::BlockRef>& asked,
             const std::vector<std::byte>& memory, const Result<PullStats>& result);

  rt::SimHost& host_;
  Board& board_;
  Dice dice_;
  Metrics metrics_;
  KvReader reader_;
  HandoverKeeper keeper_;
  rt::TaskScope scope_;
};

}  // namespace tandem::xfer::handover

#endif  // TANDEM_TESTS_SIM_HANDOVER_WORLD_H_
