#include "frontend/choice.h"

#include <gtest/gtest.h>

#include "frontend/answer_writer.h"
#include "frontend/test_assets.h"
#include "wire/json.h"

namespace tandem::frontend {
namespace {

wire::GenerateItem ItemOf(std::string_view text,
                          wire::FinishReason finish = wire::FinishReason::kNone) {
  wire::GenerateItem item;
  item.tokens = IdsOf(text);
  item.finish = finish;
  return item;
}

class ChoiceTest : public testing::Test {
 protected:
  Choice Make() { return *Choice::Create(params_, assets_); }
  const ModelAssets assets_ = TestAssets();
  GenerateParams params_;
};

TEST_F(ChoiceTest, TextNeverSplitsACharacter) {
  Choice choice = Make();
  EXPECT_EQ(choice.Push(ItemOf("a\xc3")).text, "a");
  EXPECT_EQ(choice.Push(ItemOf("\xa9")).text, "\xc3\xa9");
  EXPECT_EQ(choice.Push(ItemOf("\xf0\x9f", wire::FinishReason::kLength)).text, "\xEF\xBF\xBD");
  EXPECT_TRUE(choice.finished());
  EXPECT_EQ(choice.completion_tokens(), 5);
}

TEST_F(ChoiceTest, EosHasNoTextButCounts) {
  Choice choice = Make();
  wire::GenerateItem item = ItemOf("hi", wire::FinishReason::kStop);
  item.tokens.push_back(kEndToken);
  item.stop_token = kEndToken;
  params_.skip_special_tokens = false;
  const ChoiceDelta delta = choice.Push(item);
  EXPECT_EQ(delta.text, "hi");
  EXPECT_EQ(delta.finish_reason, "stop");
  EXPECT_FALSE(delta.stop_token.has_value());
  EXPECT_EQ(choice.completion_tokens(), 3);
}

TEST_F(ChoiceTest, AStopTokenOfTheClientIsTheReason) {
  params_.stop_token_ids = {'x'};
  Choice choice = Make();
  wire::GenerateItem item = ItemOf("ax", wire::FinishReason::kStop);
  item.stop_token = 'x';
  const ChoiceDelta delta = choice.Push(item);
  EXPECT_EQ(delta.text, "a");
  EXPECT_EQ(delta.stop_token, 'x');
}

TEST_F(ChoiceTest, StopStringsCutTheTextAcrossItems) {
  params_.stop = {"END", "zz"};
  Choice choice = Make();
  EXPECT_EQ(choice.Push(ItemOf("abE")).text, "ab");
  EXPECT_EQ(choice.Push(ItemOf("xE")).text, "Ex");
  const ChoiceDelta delta = choice.Push(ItemOf("NDmore"));
  EXPECT_EQ(delta.text, "");
  EXPECT_TRUE(delta.finished);
  EXPECT_EQ(delta.finish_reason, "stop");
  EXPECT_EQ(delta.stop_string, "END");
  EXPECT_EQ(delta.tokens, IdsOf("ND"));
  EXPECT_EQ(choice.completion_tokens(), 7);
  EXPECT_TRUE(choice.Push(ItemOf("late")).tokens.empty());
}

TEST_F(ChoiceTest, IncludedStopStringsAndHeldBackText) {
  params_.stop = {"END"};
  params_.include_stop_str_in_output = true;
  Choice included = Make();
  EXPECT_EQ(included.Push(ItemOf("aEND")).text, "aEND");
  Choice unfinished = Make();
  EXPECT_EQ(unfinished.Push(ItemOf("aEN", wire::FinishReason::kLength)).text, "aEN");
}

TEST_F(ChoiceTest, NoStopStringBeforeMinTokens) {
  params_.stop = {"b"};
  params_.min_tokens = 3;
  Choice choice = Make();
  EXPECT_EQ(choice.Push(ItemOf("abc")).text, "abc");
  EXPECT_TRUE(choice.Push(ItemOf("b")).finished);
}

class WriterTest : public ChoiceTest {
 protected:
  AnswerWriter Writer(Endpoint endpoint) {
    return AnswerWriter(endpoint, "id-1", 5, "m", params_, assets_);
  }
  static ChoiceDelta Delta(std::string text) {
    ChoiceDelta delta;
    delta.tokens = IdsOf(text);
    delta.text = std::move(text);
    return delta;
  }
  static void Finish(ChoiceDelta& delta) {
    delta.finished = true;
    delta.finish_reason = "length";
  }
};

TEST_F(WriterTest, WholeChat) {
  ChoiceDelta delta = Delta("h\"i");
  Finish(delta);
  const std::vector<ChoiceAnswer> choices = {{delta, {}}};
  EXPECT_EQ(Writer(Endpoint::kChat).Whole(choices, {3, 2, 1}, {}),
            R"({"id":"id-1","object":"chat.completion","created":5,"model":"m","choices":[)"
            R"({"index":0,"message":{"role":"assistant","content":"h\"i","refusal":null},)"
            R"("logprobs":null,"finish_reason":"length","stop_reason":null}],)"
            R"("usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,)"
            R"("prompt_tokens_details":{"cached_tokens":1}}})");
}

TEST_F(WriterTest, StreamedChat) {
  params_.stream = true;
  const AnswerWriter writer = Writer(Endpoint::kChat);
  const std::string head =
      R"(data: {"id":"id-1","object":"chat.completion.chunk","created":5,"model":"m","choices":[)";
  std::string out;
  writer.AppendRole(out, 1, {});
  EXPECT_EQ(out, head + R"({"index":1,"delta":{"role":"assistant","content":""},"logprobs":null,)"
                        R"("finish_reason":null}]})"
                        "\n\n");
  out.clear();
  writer.AppendDelta(out, 1, Delta("x"), {}, nullptr, {});
  EXPECT_EQ(out, head +
                     R"({"index":1,"delta":{"content":"x"},"logprobs":null,"finish_reason":null}]})"
                     "\n\n");
  out.clear();
  ChoiceDelta last = Delta("y");
  Finish(last);
  last.stop_string = "s";
  const Usage usage{3, 2, 0};
  writer.AppendDelta(out, 0, last, {}, &usage, R"({"a":1})");
  EXPECT_EQ(out, head +
                     R"({"index":0,"delta":{"content":"y"},"logprobs":null,)"
                     R"("finish_reason":"length","stop_reason":"s"}],"usage":{"prompt_tokens":3,)"
                     R"("total_tokens":5,"completion_tokens":2,"prompt_tokens_details":)"
                     R"({"cached_tokens":0}},"nvext":{"a":1}})"
                     "\n\n");
  out.clear();
  writer.AppendUsage(out, usage);
  EXPECT_TRUE(out.starts_with(head + R"(],"usage":{"prompt_tokens":3)")) << out;
  out.clear();
  AnswerWriter::AppendError(out, {Code::kConnectionLost, "gone", {}});
  AnswerWriter::AppendDone(out);
  EXPECT_EQ(
      out,
      "data: {\"error\":{\"message\":\"gone\",\"type\":\"service_unavailable\",\"param\":null,"
      "\"code\":502}}\n\ndata: [DONE]\n\n");
}

TEST_F(WriterTest, LogprobsInBothShapes) {
  params_.logprobs = 2;
  ChoiceDelta delta = Delta("a\xc3");
  Finish(delta);
  delta.text_offset = 4;
  const float none = -std::numeric_limits<float>::infinity();
  delta.logprobs = {{'a', -0.5f, 1, {{'a', -0.5f}, {'b', -1.5f}}},
                    {0xc3, -2.0f, 3, {{'c', -0.25f}, {kEndToken, none}}}};
  const std::vector<ChoiceAnswer> choices = {{delta, {}}};
  const auto chat = wire::ParseJson(Writer(Endpoint::kChat).Whole(choices, {}, {}));
  ASSERT_TRUE(chat.has_value()) << chat.error().message;
  EXPECT_EQ(
      wire::ToJsonText(*chat->Find("choices")->AsArray()[0].Find("logprobs")),
      R"({"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[)"
      R"({"token":"a","logprob":-0.5,"bytes":[97]},{"token":"b","logprob":-1.5,"bytes":[98]}]},)"
      "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-2.0,\"bytes\":[195],\"top_logprobs\":["
      R"({"token":"c","logprob":-0.25,"bytes":[99]},{"token":"<|im_end|>","logprob":-9999.0,)"
      R"("bytes":[60,124,105,109,95,101,110,100,124,62]}]}]})");
  const auto plain = wire::ParseJson(Writer(Endpoint::kCompletion).Whole(choices, {}, {}));
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  EXPECT_EQ(wire::ToJsonText(*plain->Find("choices")->AsArray()[0].Find("logprobs")),
            "{\"text_offset\":[4,5],\"token_logprobs\":[-0.5,-2.0],\"tokens\":[\"a\","
            "\"\xEF\xBF\xBD\"],\"top_logprobs\":[{\"a\":-0.5,\"b\":-1.5},{\"\xEF\xBF\xBD\":-2.0,"
            "\"c\":-0.25,\"<|im_end|>\":-9999.0}]}");
}

TEST_F(WriterTest, TokenIdsWhereAsked) {
  params_.return_token_ids = true;
  params_.return_tokens_as_token_ids = true;
  ChoiceDelta delta = Delta("ab");
  Finish(delta);
  const std::vector<TokenId> prompt = {7, 8};
  const std::vector<ChoiceAnswer> choices = {{delta, prompt}};
  const std::string whole = Writer(Endpoint::kCompletion).Whole(choices, {}, {});
  EXPECT_NE(whole.find("\"token_ids\":[97,98],\"prompt_token_ids\":[7,8]"), std::string::npos);
  EXPECT_EQ(TokenName(params_, assets_, 97), "token_id:97");
}

}  // namespace
}  // namespace tandem::frontend
