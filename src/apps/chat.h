// A conversation with a served model: sends each message, streams the answer.
#ifndef TANDEM_APPS_CHAT_H_
#define TANDEM_APPS_CHAT_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "net/http_client.h"
#include "rt/cancel.h"
#include "rt/runtime.h"

namespace tandem::apps {

struct ChatOptions {
  std::string model;
  std::string system;
  int64_t max_tokens = 1024;
  double temperature = 0.7;
  std::optional<int64_t> seed;
};

// Takes a stream of server-sent events apart, however its bytes were cut.
class SseReader {
 public:
  // The data of each event that is complete now.
  std::vector<std::string> Feed(std::string_view bytes);

 private:
  std::string partial_;
};

// The new text of a chat chunk; an error event is an error.
Result<std::string> ChunkText(const std::string& data);

class Chat {
 public:
  Chat(rt::Runtime& runtime, rt::Address address, ChatOptions options);

  // Gives the answer's text piece by piece. A turn that fails or is cancelled before its first
  // piece is not remembered.
  rt::Task<Status> Ask(std::string message, rt::CancelToken cancel,
                       std::function<void(std::string_view)> on_text);
  std::string RequestBody() const;

 private:
  ChatOptions options_;
  net::HttpClient client_;
  std::vector<std::pair<std::string, std::string>> turns_;  // role, text
};

}  // namespace tandem::apps

#endif  // TANDEM_APPS_CHAT_H_
