// Requests that were recorded against a real vLLM server, with the status it gave. Where ours
// differs on purpose, the reason stands here; docs/http-api.md tells users.
#include <fstream>
#include <map>

#include "base/source_dir.h"
#include "frontend/test_frontend.h"

namespace tandem::frontend {
namespace {

struct Difference {
  int status;
  std::string_view why;
};

const std::map<std::string_view, Difference>& Differences() {
  static const std::map<std::string_view, Difference> kDifferences = {
      {"chat-stream-string", {400, "a boolean is not a string"}},
      {"chat-max_tokens-10", {400, "a number is not a boolean"}},
      {"chat-stop-6", {200, "up to 32 stop strings"}},
      {"chat-stop-7", {200, "up to 32 stop strings"}},
      {"chat-beam", {400, "no beam search"}},
      {"chat-rf-json", {400, "no constrained output yet"}},
      {"chat-guided-old", {400, "no constrained output yet, and nothing is ignored silently"}},
      {"chat-kvt", {400, "inner field"}},
      {"comp-bestof", {400, "no best_of"}},
      {"comp-echo-max0", {400, "max_tokens is at least 1"}},
  };
  return kDifferences;
}

class ReplayTest : public FrontendTest {};

TEST_F(ReplayTest, StatusesAreThoseOfTheRealServer) {
  model_ = "tiny";
  max_model_len_ = 512;
  // The recorded vocabulary; tokens beyond the bytes are only there to be valid.
  text::TokenizerSpec spec = *text::ParseTokenizerSpec(tokenizer_);
  for (int id = static_cast<int>(spec.tokens.size()); id < 49152; ++id) {
    spec.tokens.push_back(fmt::format("<{}>", id));
    spec.token_types.push_back(text::TokenType::kUnused);
  }
  tokenizer_ = *text::Serialize(spec);
  AddWorker(1, "agg", "hello");
  Start();
  std::ifstream file(std::string(kSourceDir) + "/tests/goldens/http/vllm_api.jsonl");
  ASSERT_TRUE(file.is_open());
  int cases = 0;
  size_t differences = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const auto recorded = wire::ParseJson(line);
    ASSERT_TRUE(recorded.has_value()) << recorded.error().message;
    const std::string& id = recorded->Find("id")->AsString();
    int64_t expected = recorded->Find("status")->AsInt();
    const auto difference = Differences().find(id);
    if (difference != Differences().end()) {
      ++differences;
      EXPECT_NE(expected, difference->second.status) << id << " is no difference any more";
      expected = difference->second.status;
    }
    const Json* type = recorded->Find("content_type");
    const Reply reply =
        Post(recorded->Find("path")->AsString(), recorded->Find("body")->AsString(),
             {{"content-type", type == nullptr ? "application/json" : type->AsString()}});
    EXPECT_EQ(reply.status, expected) << id << ": " << reply.body.substr(0, 300);
  }
  EXPECT_EQ(cases, 132);
  EXPECT_EQ(differences, Differences().size());
}

}  // namespace
}  // namespace tandem::frontend
