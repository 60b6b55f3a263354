// One instance's file: its format, safe writing and suspicious reading. Pure file operations.
#ifndef TANDEM_CLUSTER_INSTANCE_FILE_H_
#define TANDEM_CLUSTER_INSTANCE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "wire/messages.h"

namespace tandem::cluster {

inline constexpr size_t kMaxInstanceFileBytes = 256 * 1024;
inline constexpr size_t kMaxInstanceFiles = 1024;
inline constexpr std::string_view kInstanceSuffix = ".instance";

// Owns a descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  bool Valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct InstanceRecord {
  std::string boot_id;    // of the writer's kernel; "" if unknown
  bool locked = false;    // the writer holds an flock
  uint64_t sequence = 0;  // grows with each renewal
  wire::Instance instance;
};

std::string EncodeInstanceFile(const InstanceRecord& record);
Result<InstanceRecord> DecodeInstanceFile(std::span<const std::byte> bytes);

// "0123456789abcdef.instance"
std::string InstanceFileName(uint64_t id);
std::optional<uint64_t> InstanceIdOfFileName(std::string_view name);

// This kernel's boot id, read once; "" where /proc is missing.
const std::string& BootId();

// Makes `folder` (and parents) with mode 0700, or checks that an existing one is a real directory
// of this user that nobody else can write to.
Status EnsurePrivateFolder(const std::string& folder);

// Writes the record under its own name, aside first. The returned descriptor holds the lock; keep
// it until the next write has returned. record.locked is set to what the file system allowed.
Result<Fd> WriteInstanceFile(const std::string& folder, InstanceRecord record);

struct OpenInstance {
  Fd fd;
  InstanceRecord record;
};
// Opens and reads a file of `owner_uid`. kNotFound if it is gone.
Result<OpenInstance> ReadInstanceFile(const std::string& folder, uint64_t id, uint32_t owner_uid);

enum class FileState { kHeld, kReplaced, kOrphaned };
// kReplaced: the name now means another file, or none. kOrphaned: the writer died (same boot only).
FileState StateOf(const OpenInstance& open);

}  // namespace tandem::cluster

#endif  // TANDEM_CLUSTER_INSTANCE_FILE_H_
