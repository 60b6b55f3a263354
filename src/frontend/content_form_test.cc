// Contents of messages as texts and as parts, against templates that want the one or the other.
#include "frontend/content_form.h"

#include <gtest/gtest.h>

#include "frontend/message_values.h"
#include "frontend/prompt.h"
#include "frontend/test_assets.h"

namespace tandem::frontend {
namespace {

constexpr std::string_view kTexts = "{% for m in messages %}[{{ m.content }}]{% endfor %}";
// With a branch for texts, as most templates that know parts.
constexpr std::string_view kBoth =
    "{% for m in messages %}[{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m['content'] %}<{{ part.text }}>{% endfor %}{% endif %}]{% endfor %}";
constexpr std::string_view kParts =
    "{% for m in messages %}[{% for part in m.content | list %}<{{ part.text }}>{% endfor %}]"
    "{% endfor %}";

constexpr std::string_view kConversation =
    R"([{"role":"user","content":"one"},)"
    R"({"role":"user","content":[{"type":"text","text":"two","x":1},"three"]},)"
    R"({"role":"assistant","content":null},{"role":"assistant"}])";

std::string Rendered(std::string_view chat_template, const std::string& format) {
  const auto assets = BuildAssets({.tokenizer = {},
                                   .chat_template = std::string(chat_template),
                                   .generation_config = {},
                                   .content_format = format});
  if (!assets) return assets.error().message;
  ChatPrompt prompt;
  prompt.messages = *wire::ParseJson(kConversation);
  const auto text = RenderChat(*assets, prompt, {});
  return text ? *text : text.error().message;
}

TEST(ContentForm, AutoFollowsTheTemplate) {
  EXPECT_EQ(Rendered(kTexts, "auto"), "[one][two\nthree][][]");
  EXPECT_EQ(Rendered(kBoth, "auto"), "[one][<two><three>][][]");
  EXPECT_EQ(Rendered(kParts, "auto"), "[<one>][<two><three>][][]");
  EXPECT_EQ(Rendered(kBoth, ""), Rendered(kBoth, "auto"));
}

TEST(ContentForm, MayBeForced) {
  EXPECT_EQ(Rendered(kBoth, "string"), "[one][two\nthree][][]");
  EXPECT_EQ(Rendered(kBoth, "openai"), "[<one>][<two><three>][][]");
  EXPECT_EQ(Rendered("{{ messages[1].content | tojson }}", "openai"),
            R"([{"type": "text", "text": "two"}, {"type": "text", "text": "three"}])");
}

bool Loops(std::string_view text) {
  const auto compiled = text::ChatTemplate::Compile(text);
  EXPECT_TRUE(compiled) << compiled.error().message;
  return compiled && compiled->LoopsOverContent();
}

TEST(ContentForm, LoopsOverContentAreFound) {
  EXPECT_TRUE(Loops(kBoth));
  EXPECT_TRUE(
      Loops("{% set ms = messages[1:] %}{% set rest = ms | list %}{% for m in rest %}"
            "{% if true %}{% for c in m.content %}{% endfor %}{% endif %}{% endfor %}"));
  EXPECT_TRUE(
      Loops("{% macro show(content) %}{% for c in content %}{{ c }}{% endfor %}"
            "{% endmacro %}{% for m in messages %}{{ show(m.content) }}{% endfor %}"));
  EXPECT_FALSE(Loops(kTexts));
  EXPECT_FALSE(Loops("{% for t in tools %}{% for c in t.content %}{% endfor %}{% endfor %}"));
  EXPECT_FALSE(Loops("{% for m in messages %}{% for c in m.tool_calls %}{% endfor %}{% endfor %}"));
  EXPECT_FALSE(Loops("{% for m in messages %}{{ m.content[0] }}{% endfor %}"));
}

TEST(ContentForm, TemplatesOfRequestsNeedTrust) {
  const ModelAssets assets = TestAssets();
  ChatPrompt prompt;
  prompt.messages = *wire::ParseJson(kConversation);
  prompt.chat_template = kParts;
  const auto refused = RenderChat(assets, prompt, {.now = 0, .trust_request_template = false});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "chat_template");
  EXPECT_NE(refused.error().message.find("--trust-request-chat-template"), std::string::npos);
  EXPECT_EQ(RenderChat(assets, prompt, {.now = 0, .trust_request_template = true}),
            "[<><><>][<two><three>][][]")
      << "its text contents are the client's choice";
}

TEST(GenerationDefaults, MaxNewTokensBoundsEveryAnswer) {
  ModelAssets assets = TestAssets();
  const auto most = [&](std::optional<int64_t> asked) {
    GenerateParams params;
    params.max_tokens = asked;
    return Resolve(params, assets, 10, 100, 1)->max_tokens;
  };
  EXPECT_EQ(most({}), 90);
  EXPECT_EQ(most(95), 90);
  assets.defaults = *ParseGenerationConfig(R"({"max_new_tokens":20,"temperature":0.5,"top_k":7})");
  EXPECT_EQ(most({}), 20);
  EXPECT_EQ(most(5), 5);
  EXPECT_EQ(most(50), 20);
  const auto request = Resolve({}, assets, 10, 100, 1);
  EXPECT_EQ(request->sampling.temperature, 0.5);
  EXPECT_EQ(request->sampling.top_k, 7);
}

}  // namespace
}  // namespace tandem::frontend
