#include "cluster/file_discovery.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "cluster/instance_file.h"

namespace tandem::cluster {
namespace {

constexpr Duration kPollWhenEmpty = std::chrono::milliseconds(20);
constexpr Duration kPresenceCheck = std::chrono::seconds(1);

struct FolderId {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint32_t owner = 0;
  bool operator==(const FolderId&) const = default;
};

class FileRegistration final : public Registration {
 public:
  FileRegistration(rt::Runtime& runtime, const FileDiscoveryOptions& options,
                   const wire::Instance& instance)
      : runtime_(runtime), options_(options) {
    record_.boot_id = BootId();
    record_.instance = instance;
  }

  ~FileRegistration() override { unlink(Path().c_str()); }

  Status Start() {
    TRY(Write());
    Arm();
    return {};
  }

 private:
  std::string Path() const { return options_.folder + "/" + InstanceFileName(record_.instance.id); }

  Status Write() {
    ++record_.sequence;
    TRY_ASSIGN(held_, WriteInstanceFile(options_.folder, record_));
    renew_at_ = runtime_.Now() + options_.ttl / 3;
    return {};
  }

  void Arm() {
    const Duration check = std::min(kPresenceCheck, options_.ttl / 3);
    timer_ = runtime_.RunAt(runtime_.Now() + check, [this] { OnTimer(); });
  }

  void OnTimer() {
    const bool present = access(Path().c_str(), F_OK) == 0;
    if (!present || runtime_.Now() >= renew_at_) Renew();
    Arm();
  }

  // A store that was lost (folder removed) is made again: the instance comes back by itself.
  void Renew() {
    Status done = EnsurePrivateFolder(options_.folder);
    if (done) done = Write();
    if (!done && !failing_)
      LOG_ERROR(
          "cannot renew this worker's discovery file in '{}': {}; other processes forget it "
          "after {} s unless this is mended",
          options_.folder, done.error().message, ToSeconds(options_.ttl));
    if (done && failing_) LOG_INFO("discovery file in '{}' is renewed again", options_.folder);
    failing_ = !done;
  }

  rt::Runtime& runtime_;
  const FileDiscoveryOptions options_;
  InstanceRecord record_;
  Fd held_;  // its lock says that this process lives
  MonoTime renew_at_;
  bool failing_ = false;
  std::unique_ptr<rt::Timer> timer_;
};

class FileWatch final : public Watch {
 public:
  FileWatch(rt::Runtime& runtime, const FileDiscoveryOptions& options, std::string ns,
            Discovery::OnChange on_change)
      : runtime_(runtime), options_(options), ns_(std::move(ns)), on_change_(std::move(on_change)) {
    Arm(Duration::zero());
  }

  ~FileWatch() override {
    if (destroyed_) *destroyed_ = true;
  }

 private:
  struct Known {
    OpenInstance open;
    MonoTime seen;         // when its sequence number last changed
    bool present = false;  // in this poll's listing
    bool hidden = false;   // its writer died or it was not renewed for one TTL
  };

  void Arm(Duration wait) {
    timer_ = runtime_.RunAt(runtime_.Now() + wait, [this] { OnTimer(); });
  }

  void OnTimer() {
    Poll();
    if (changed_ || first_) {
      changed_ = first_ = false;
      std::vector<wire::Instance> live;
      for (const auto& [id, known] : known_)
        if (Shown(known)) live.push_back(known.open.record.instance);
      // The callback may destroy this watch.
      bool destroyed = false;
      destroyed_ = &destroyed;
      const auto on_change = on_change_;
      on_change(live);
      if (destroyed) return;
      destroyed_ = nullptr;
    }
    Arm(known_.empty() ? std::min(kPollWhenEmpty, options_.poll) : options_.poll);
  }

  bool Shown(const Known& known) const {
    return !known.hidden && (ns_.empty() || known.open.record.instance.ns == ns_);
  }

  void Poll() {
    DIR* folder = opendir(options_.folder.c_str());
    if (folder == nullptr) return OnStoreLost();
    struct stat info = {};
    fstat(dirfd(folder), &info);
    const FolderId id{info.st_dev, info.st_ino, info.st_uid};
    if (lost_) LOG_INFO("discovery folder '{}' is back", options_.folder);
    // A new folder in the old one's place lacks files whose writers still live: they get one TTL
    // to write again.
    if (!first_ && (lost_ || !(id == folder_))) forgive_until_ = runtime_.Now() + options_.ttl;
    lost_ = false;
    folder_ = id;
    for (auto& [instance, known] : known_) known.present = false;
    List(folder);
    closedir(folder);
    DropGone();
  }

  void OnStoreLost() {
    if (!lost_)
      LOG_WARN(
          "discovery folder '{}' cannot be read: keeping the {} known instances until it is "
          "back",
          options_.folder, known_.size());
    lost_ = true;
  }

  void List(DIR* folder) {
    size_t count = 0;
    while (const dirent* entry = readdir(folder)) {
      const auto id = InstanceIdOfFileName(entry->d_name);
      if (!id) continue;
      if (++count > kMaxInstanceFiles) {
        LOG_WARN_ONCE("discovery folder '{}' holds more than {} instances: the rest is ignored",
                      options_.folder, kMaxInstanceFiles);
        return;
      }
      Visit(*id);
    }
  }

  void Visit(uint64_t id) {
    const auto found = known_.find(id);
    if (found != known_.end()) {
      Known& known = found->second;
      known.present = true;
      const FileState state = StateOf(known.open);
      if (state == FileState::kHeld) return;
      if (state == FileState::kOrphaned) return OnOrphan(id, known);
    }
    auto read = ReadInstanceFile(options_.folder, id, folder_.owner);
    if (!read) return OnUnreadable(id, read.error());
    complained_.erase(id);
    const auto [place, fresh] = known_.try_emplace(id);
    Known& known = place->second;
    if (fresh || known.open.record.sequence != read->record.sequence) {
      changed_ = changed_ || fresh || known.hidden;
      known.hidden = false;
      known.seen = runtime_.Now();
    }
    known.open = *std::move(read);
    known.present = true;
    if (StateOf(known.open) == FileState::kOrphaned) OnOrphan(id, known);
  }

  // The writer died without saying so. Its id is never used again, so the file can go.
  void OnOrphan(uint64_t id, Known& known) {
    Hide(known, "its process died without a goodbye");
    unlink((options_.folder + "/" + InstanceFileName(id)).c_str());
  }

  void Hide(Known& known, std::string_view why) {
    if (known.hidden) return;
    const wire::Instance& instance = known.open.record.instance;
    if (Shown(known))
      LOG_WARN("worker {:x} ({}) of '{}' at {} counts as lost: {}", instance.id, instance.card.role,
               instance.card.name, instance.address, why);
    changed_ = true;
    known.hidden = true;
  }

  void OnUnreadable(uint64_t id, const Error& error) {
    if (error.code == Code::kNotFound || complained_.contains(id)) return;
    if (complained_.size() >= kMaxInstanceFiles) complained_.clear();
    complained_.insert(id);
    LOG_WARN("ignoring '{}/{}': {}", options_.folder, InstanceFileName(id), error.message);
  }

  void DropGone() {
    const MonoTime now = runtime_.Now();
    for (auto it = known_.begin(); it != known_.end();) {
      Known& known = it->second;
      if (now - known.seen >= options_.ttl)
        Hide(known, "it has not renewed its registration in time, so it hangs or cannot write");
      const bool gone = !known.present && (known.hidden || now >= forgive_until_);
      changed_ = changed_ || (gone && !known.hidden);
      it = gone ? known_.erase(it) : std::next(it);
    }
  }

  rt::Runtime& runtime_;
  const FileDiscoveryOptions options_;
  const std::string ns_;  // empty: all
  const Discovery::OnChange on_change_;
  std::map<uint64_t, Known> known_;
  std::set<uint64_t> complained_;
  FolderId folder_;
  MonoTime forgive_until_;
  bool first_ = true;
  bool lost_ = false;
  bool changed_ = false;
  bool* destroyed_ = nullptr;
  std::unique_ptr<rt::Timer> timer_;
};

class FileDiscovery final : public Discovery {
 public:
  FileDiscovery(rt::Runtime& runtime, FileDiscoveryOptions options)
      : runtime_(runtime), options_(std::move(options)) {}

  Result<std::unique_ptr<Registration>> Register(const wire::Instance& instance) override {
    auto registration = std::make_unique<FileRegistration>(runtime_, options_, instance);
    TRY(registration->Start());
    return registration;
  }

  std::unique_ptr<Watch> WatchInstances(std::string ns, OnChange on_change) override {
    return std::make_unique<FileWatch>(runtime_, options_, std::move(ns), std::move(on_change));
  }

 private:
  rt::Runtime& runtime_;
  const FileDiscoveryOptions options_;
};

}  // namespace

std::string DefaultDiscoveryFolder() {
  const char* runtime_folder = std::getenv("XDG_RUNTIME_DIR");
  if (runtime_folder != nullptr && *runtime_folder == '/')
    return std::string(runtime_folder) + "/tandem";
  return fmt::format("/tmp/tandem-{}", geteuid());
}

Result<std::unique_ptr<Discovery>> OpenFileDiscovery(rt::Runtime& runtime,
                                                     FileDiscoveryOptions options) {
  if (options.folder.empty()) options.folder = DefaultDiscoveryFolder();
  TRY(EnsurePrivateFolder(options.folder));
  return std::make_unique<FileDiscovery>(runtime, std::move(options));
}

}  // namespace tandem::cluster
