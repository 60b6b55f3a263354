#include "frontend/request.h"

#include <gtest/gtest.h>

#include "base/error_table.h"

namespace tandem::frontend {
namespace {

constexpr std::string_view kChatStart =
    R"({"model":"m","messages":[{"role":"user","content":"hi"}])";
constexpr std::string_view kCompletionStart = R"({"model":"m","prompt":"hi")";

std::string Body(std::string_view start, std::string_view more) {
  return std::string(start) + (more.empty() ? "" : ",") + std::string(more) + "}";
}

struct Refusal {
  std::string_view more;  // members added to a good request
  std::string_view param;
  std::string_view says;  // part of the message
};

template <class Parse>
void ExpectRefusals(std::string_view start, const std::vector<Refusal>& refusals, Parse parse) {
  for (const Refusal& refusal : refusals) {
    const auto result = parse(Body(start, refusal.more));
    ASSERT_FALSE(result.has_value()) << refusal.more;
    EXPECT_EQ(RowOf(result.error().code).http_status, 400) << refusal.more;
    EXPECT_EQ(result.error().param, refusal.param) << result.error().message;
    EXPECT_NE(result.error().message.find(refusal.says), std::string::npos)
        << result.error().message;
  }
}

// What both endpoints refuse.
const std::vector<Refusal> kShared = {
    {R"("bogus":1)", "bogus", "unknown field \"bogus\""},
    {R"("temperature":-0.1)", "temperature", "at least 0 and at most 2, not -0.1"},
    {R"("temperature":2.5)", "temperature", "2.5"},
    {R"("temperature":"x")", "temperature", "must be a number, not string"},
    {R"("temperature":true)", "temperature", "must be a number, not boolean"},
    {R"("top_p":0)", "top_p", "greater than 0 and at most 1"},
    {R"("top_p":1.1)", "top_p", "1.1"},
    {R"("top_k":-2)", "top_k", "-2"},
    {R"("top_k":1.5)", "top_k", "must be an integer, not number"},
    {R"("min_p":1.1)", "min_p", "1.1"},
    {R"("presence_penalty":2.1)", "presence_penalty", "2.1"},
    {R"("frequency_penalty":-2.1)", "frequency_penalty", "-2.1"},
    {R"("repetition_penalty":0)", "repetition_penalty", "greater than 0"},
    {R"("repetition_penalty":1e-300)", "repetition_penalty", "1e-300"},
    {R"("repetition_penalty":1e300)", "repetition_penalty", "1e+300"},
    {R"("seed":9223372036854775808)", "seed", "is 9223372036854775808, out of range"},
    {R"("seed":18446744073709551616)", "seed", "out of range"},
    {R"("max_tokens":1000000000000000000000000000000)", "max_tokens", "out of range"},
    {R"("stop_token_ids":[9223372036854775808])", "stop_token_ids[0]", "out of range"},
    {R"("n":0)", "n", "between 1 and 128, not 0"},
    {R"("n":20000)", "n", "20000"},
    {R"("n":"x")", "n", "integer"},
    {R"("seed":"a")", "seed", "integer"},
    {R"("max_tokens":0)", "max_tokens", "between 1"},
    {R"("max_tokens":1.5)", "max_tokens", "integer"},
    {R"("max_tokens":99999999999)", "max_tokens", "99999999999"},
    {R"("min_tokens":-1)", "min_tokens", "-1"},
    {R"("min_tokens":5,"max_tokens":4)", "min_tokens", "more than max_tokens"},
    {R"("stop":"")", "stop", "empty"},
    {R"("stop":[5])", "stop[0]", "string"},
    {R"("stop":["a",""])", "stop", "empty"},
    {R"("stop":{})", "stop", "a string or a list of strings"},
    {R"("stop_token_ids":["a"])", "stop_token_ids[0]", "integer"},
    {R"("stop_token_ids":[1,-1])", "stop_token_ids[1]", "-1"},
    {R"("logit_bias":{"x":1})", "logit_bias", "token ids"},
    {R"("logit_bias":{"5":101})", "logit_bias.5", "101"},
    {R"("allowed_token_ids":[])", "allowed_token_ids", "empty"},
    {R"("bad_words":["a",""])", "bad_words[1]", "empty"},
    {R"("stream":"yes")", "stream", "true or false, not string"},
    {R"("stream_options":{"include_usage":true})", "stream_options", "needs stream"},
    {R"("stream":true,"stream_options":{"x":1})", "x", "unknown field"},
    {R"("stream":true,"stream_options":5)", "stream_options", "object"},
    {R"("cache_salt":"")", "cache_salt", "empty"},
    {R"("cache_salt":5)", "cache_salt", "string"},
    {R"("kv_transfer_params":{"do_remote_decode":true})", "kv_transfer_params", "by a client"},
    {R"("kv_transfer_params":null)", "kv_transfer_params", "by a client"},
    {R"("response_format":{"type":"json_object"})", "response_format", "not supported"},
    {R"("structured_outputs":{"regex":"a"})", "structured_outputs", "not supported"},
    {R"("use_beam_search":true)", "use_beam_search", "not supported"},
    {R"("prompt_logprobs":1)", "prompt_logprobs", "not supported"},
    {R"("nvext":{"bogus":1})", "nvext.bogus", "unknown field"},
};

TEST(ChatRequest, RefusalsNameTheField) {
  ExpectRefusals(kChatStart, kShared, ParseChatRequest);
  ExpectRefusals(
      kChatStart,
      {
          {R"("top_logprobs":2)", "top_logprobs", "needs logprobs"},
          {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", "21"},
          {R"("logprobs":1)", "logprobs", "true or false"},
          {R"("tools":[])", "tools", "empty"},
          {R"("tools":[{"type":"function","function":{"name":"f"}}])", "tool_choice", "none"},
          {R"("tool_choice":"auto")", "tool_choice", "none"},
          {R"("continue_final_message":true)", "continue_final_message", "add_generation_prompt"},
          {R"("reasoning_effort":"zzz")", "reasoning_effort", "zzz"},
          {R"("max_completion_tokens":0)", "max_completion_tokens", "between 1"},
          {R"("echo":true)", "echo", "not supported"},
      },
      ParseChatRequest);
}

TEST(ChatRequest, RefusesBadMessages) {
  const auto param_of = [](std::string_view messages) {
    const auto result = ParseChatRequest(fmt::format(R"({{"model":"m","messages":{}}})", messages));
    return result ? "accepted" : result.error().param;
  };
  EXPECT_EQ(param_of("null"), "messages");
  EXPECT_EQ(param_of("[]"), "messages");
  EXPECT_EQ(param_of("[5]"), "messages[0]");
  EXPECT_EQ(param_of(R"([{"content":"x"}])"), "messages[0].role");
  EXPECT_EQ(param_of(R"([{"role":"user","content":5}])"), "messages[0].content");
  EXPECT_EQ(param_of(R"([{"role":"user","content":[{"type":"image_url"}]}])"),
            "messages[0].content[0]");
  EXPECT_EQ(param_of(R"([{"role":"user","content":[{"type":"text","text":"x"}]}])"), "accepted");
  EXPECT_EQ(param_of(R"([{"role":"critic"}])"), "accepted");
}

TEST(ChatRequest, ReadsEverything) {
  const auto result = ParseChatRequest(Body(
      kChatStart,
      R"("temperature":0.5,"top_p":0.9,"top_k":5,"seed":-3,"n":2,"max_completion_tokens":7,)"
      R"("stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},"logprobs":true,)"
      R"("top_logprobs":3,"chat_template_kwargs":{"x":1},"user":"u","best_of":1,)"
      R"("logit_bias":{"7":-5},"top_k":5)"
      R"(,"nvext":{"extra_fields":["worker_id","kv","future"]})"));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().param, "top_k") << "keys must not come twice";
  const auto request = ParseChatRequest(Body(
      kChatStart,
      R"("temperature":0.5,"top_k":5,"seed":-3,"n":2,"max_completion_tokens":7,)"
      R"("stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},"logprobs":true,)"
      R"("top_logprobs":3,"chat_template_kwargs":{"x":1},"user":"u","best_of":1,"min_p":null,)"
      R"("logit_bias":{"7":-5},"nvext":{"extra_fields":["worker_id","kv","future"]})"));
  ASSERT_TRUE(request.has_value()) << request.error().message;
  const GenerateParams& params = request->params;
  EXPECT_EQ(params.model, "m");
  EXPECT_EQ(params.temperature, 0.5);
  EXPECT_EQ(params.top_k, 5);
  EXPECT_FALSE(params.min_p.has_value());
  EXPECT_EQ(params.seed, -3);
  EXPECT_EQ(params.n, 2);
  EXPECT_EQ(params.max_tokens, 7);
  EXPECT_EQ(params.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(params.stream && params.include_usage);
  EXPECT_EQ(params.logprobs, 3);
  EXPECT_EQ(params.logit_bias.at(7), -5);
  EXPECT_TRUE(params.want_worker_id && params.want_kv && !params.want_timing);
  EXPECT_FALSE(params.add_special_tokens);
  EXPECT_EQ(request->prompt.variables.size(), 1u);
}

TEST(CompletionRequest, RefusalsNameTheField) {
  ExpectRefusals(kCompletionStart, kShared, ParseCompletionRequest);
  ExpectRefusals(kCompletionStart,
                 {
                     {R"("logprobs":21)", "logprobs", "21"},
                     {R"("logprobs":-1)", "logprobs", "-1"},
                     {R"("logprobs":true)", "logprobs", "integer"},
                     {R"("suffix":"x")", "suffix", "not supported"},
                     {R"("best_of":2)", "best_of", "use n"},
                     {R"("echo":true,"logprobs":1)", "echo", "logprobs"},
                     {R"("messages":[])", "messages", "unknown field"},
                 },
                 ParseCompletionRequest);
}

TEST(CompletionRequest, TakesEveryFormOfPrompt) {
  const auto parse = [](std::string_view prompt) {
    return ParseCompletionRequest(fmt::format(R"({{"model":"m","prompt":{}}})", prompt));
  };
  EXPECT_EQ(std::get<std::string>(parse("\"x\"")->prompts[0]), "x");
  EXPECT_EQ(parse(R"(["x","y"])")->prompts.size(), 2u);
  EXPECT_EQ(std::get<std::vector<TokenId>>(parse("[1,2]")->prompts[0]),
            (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(parse("[[1],[2,3]]")->prompts.size(), 2u);
  EXPECT_EQ(parse("\"x\"")->params.max_tokens, 16);
  EXPECT_TRUE(parse("\"x\"")->params.add_special_tokens);
  for (const auto& [prompt, param] :
       std::vector<std::pair<std::string_view, std::string_view>>{{"\"\"", "prompt"},
                                                                  {"[]", "prompt"},
                                                                  {"[[]]", "prompt[0]"},
                                                                  {"[-1]", "prompt[0]"},
                                                                  {"[1,\"x\"]", "prompt[1]"},
                                                                  {"[\"x\",1]", "prompt[1]"},
                                                                  {"[1.5]", "prompt[0]"},
                                                                  {"{\"a\":1}", "prompt"},
                                                                  {"[null]", "prompt[0]"},
                                                                  {"null", "prompt"}}) {
    const auto result = parse(prompt);
    ASSERT_FALSE(result.has_value()) << prompt;
    EXPECT_EQ(result.error().param, param) << prompt;
  }
}

TEST(AnyRequest, RefusesWhatIsNoObject) {
  for (const std::string_view body : {"[]", "null", "5", "\"x\""}) {
    EXPECT_EQ(ParseChatRequest(body).error().param, "body");
    EXPECT_EQ(ParseDetokenizeRequest(body).error().param, "body");
  }
  EXPECT_NE(ParseChatRequest("").error().message.find("empty text at byte 0"), std::string::npos);
  EXPECT_NE(ParseChatRequest("{\"a\":NaN}").error().message.find("at byte 5"), std::string::npos);
}

TEST(TokenizeRequest, TakesTextOrMessages) {
  const auto text = ParseTokenizeRequest(R"({"prompt":""})");
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_TRUE(text->add_special_tokens);
  const auto chat = ParseTokenizeRequest(R"({"messages":[{"role":"user","content":"x"}]})");
  ASSERT_TRUE(chat.has_value());
  EXPECT_FALSE(chat->add_special_tokens);
  EXPECT_EQ(ParseTokenizeRequest("{}").error().param, "prompt");
  EXPECT_EQ(ParseTokenizeRequest(R"({"prompt":"x","messages":[{"role":"u"}]})").error().param,
            "prompt");
  EXPECT_EQ(ParseDetokenizeRequest("{}").error().param, "tokens");
  EXPECT_EQ(ParseDetokenizeRequest(R"({"tokens":[-1]})").error().param, "tokens[0]");
}

}  // namespace
}  // namespace tandem::frontend
