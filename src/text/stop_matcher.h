// Finds stop strings in text that arrives in pieces, however the pieces are cut.
#ifndef TANDEM_TEXT_STOP_MATCHER_H_
#define TANDEM_TEXT_STOP_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tandem::text {

// The stop string that ends first wins; of several that end at the same byte, the first in the
// list. Text that could still become a stop string is held back, and no more than that. One thread
// at a time.
class StopMatcher {
 public:
  static constexpr size_t kMaxStops = 64;
  static constexpr size_t kMaxStopBytes = 4096;  // of all stop strings together

  // Fails, naming the field `stop`, for an empty stop string or one of the bounds above.
  static Result<StopMatcher> Create(std::vector<std::string> stops,
                                    bool include_stop_str_in_output);

  struct Output {
    std::string emit;            // text that may go out now
    std::optional<size_t> stop;  // index of the stop string that matched: nothing follows
  };

  // After a match every further Push gives nothing. With may_stop false (before min_tokens) a stop
  // string that ends inside `text` is passed over; one that ends later may still begin in it.
  Output Push(std::string_view text, bool may_stop = true);
  // At the end of the sequence: what was held back.
  std::string Flush();

  const std::vector<std::string>& stops() const { return stops_; }

 private:
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> next;
    uint32_t fail = 0;   // node of the longest proper suffix that is a prefix of a stop string
    uint32_t depth = 0;  // bytes from the root
    uint32_t hold = 0;   // length of the longest suffix that may still grow into a stop string
    int32_t stop = -1;   // lowest index of a stop string that ends here
  };

  StopMatcher() = default;
  void Insert(std::string_view stop, int32_t index);
  void LinkFailures();
  uint32_t Child(uint32_t node, uint8_t byte) const;
  uint32_t Step(uint32_t node, uint8_t byte) const;

  std::vector<std::string> stops_;
  bool include_ = false;
  std::vector<Node> nodes_;
  uint32_t state_ = 0;
  std::string held_;  // the last nodes_[state_].hold bytes
  bool done_ = false;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_STOP_MATCHER_H_
