// Chat templates against what jinja2, set up as transformers sets it up, makes of them.
#include <gtest/gtest.h>

#include "base/source_dir.h"
#include "text/chat_template.h"
#include "text/golden_file.h"
#include "text/json.h"

namespace tandem::text {
namespace {

constexpr int64_t kNow = 1796042096;  // 2026-11-30 12:34:56

Value ReadGolden(const std::string& name) {
  const std::string path = std::string(kSourceDir) + "/tests/goldens/text/" + name;
  auto value = ValueFromJson(ReadWholeFile(path));
  EXPECT_TRUE(value) << path << " is absent or damaged: " << (value ? "" : value.error().message);
  return value ? *value : Value();
}

const Value& At(const Value& dict, std::string_view key) {
  static const Value kAbsent;
  const Value* found = dict.IsDict() ? dict.AsDict().Find(key) : nullptr;
  return found == nullptr ? kAbsent : *found;
}

Result<std::string> Render(const std::string& text, const RenderInput& input) {
  TRY_ASSIGN(const ChatTemplate compiled, ChatTemplate::Compile(text));
  return compiled.Render(input);
}

void ExpectAsRecorded(const Value& row, const Result<std::string>& got) {
  if (At(row, "output").IsString()) {
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, At(row, "output").AsString());
  } else {
    EXPECT_FALSE(got) << "recorded is " << At(row, "error").AsString() << "\ngot " << *got;
  }
}

TEST(ChatTemplateGolden, SmallTemplatesOfEveryFeature) {
  const Value golden = ReadGolden("templates.json");
  ASSERT_TRUE(At(golden, "rows").IsSequence());
  for (const Value& row : At(golden, "rows").Items()) {
    RenderInput input;
    input.now = kNow;
    input.bos_token = "<s>";
    for (const auto& [key, value] : At(golden, "variables").AsDict().entries()) {
      if (key.AsString() == "messages") {
        input.messages = value;
      } else {
        input.kwargs.emplace_back(key.AsString(), value);
      }
    }
    const std::string& text = At(row, "template").AsString();
    SCOPED_TRACE(text);
    ExpectAsRecorded(row, Render(text, input));
  }
}

TEST(ChatTemplateGolden, DemoModelOnEveryRecordedConversation) {
  const Value golden = ReadGolden("template_smollm2.json");
  ASSERT_TRUE(At(golden, "cases").IsSequence());
  EXPECT_GE(At(golden, "cases").Items().size(), 30u);
  for (const Value& row : At(golden, "cases").Items()) {
    SCOPED_TRACE(At(row, "id").AsString());
    RenderInput input;
    input.now = kNow;
    input.messages = At(row, "messages");
    for (const auto& [key, value] : At(golden, "tokens").AsDict().entries()) {
      input.kwargs.emplace_back(key.AsString(), value);
    }
    for (const auto& [key, value] : At(row, "params").AsDict().entries()) {
      const std::string& name = key.AsString();
      if (name == "add_generation_prompt") {
        input.add_generation_prompt = value.AsBool();
      } else if (name == "continue_final_message") {
        input.continue_final_message = value.AsBool();
      } else if (name == "tools") {
        input.tools = value;
      } else if (name == "documents") {
        input.documents = value;
      } else {
        input.kwargs.emplace_back(name, value);
      }
    }
    ExpectAsRecorded(row, Render(At(golden, "template").AsString(), input));
  }
}

}  // namespace
}  // namespace tandem::text
