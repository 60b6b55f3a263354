#include "text/chat_template.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "text/json.h"
#include "text/value_text.h"

namespace tandem::text {
namespace {

Result<std::string> Render(std::string_view text, RenderInput input = {}) {
  TRY_ASSIGN(const ChatTemplate compiled, ChatTemplate::Compile(text));
  return compiled.Render(input);
}

void ExpectExhausted(std::string_view text, RenderLimits limits = {}) {
  RenderInput input;
  input.limits = limits;
  const auto got = Render(text, input);
  ASSERT_FALSE(got) << text;
  EXPECT_EQ(got.error().code, Code::kResourceExhausted) << text << ": " << got.error().message;
}

TEST(ChatTemplate, ErrorsNameTheLineAndCarryTheTemplatesOwnWords) {
  const auto syntax = ChatTemplate::Compile("a\nb\n{% if %}");
  ASSERT_FALSE(syntax);
  EXPECT_EQ(syntax.error().code, Code::kInvalidArgument);
  EXPECT_NE(syntax.error().message.find("line 3"), std::string::npos) << syntax.error().message;
  const auto raised = Render("a\n{{ raise_exception('roles must alternate') }}");
  ASSERT_FALSE(raised);
  EXPECT_EQ(raised.error().code, Code::kInvalidArgument);
  EXPECT_EQ(raised.error().message, "chat template, line 2: roles must alternate");
  EXPECT_FALSE(ChatTemplate::Compile("\xFF"));
}

TEST(ChatTemplate, ProductsOfTwoTextsOrTwoListsAreErrors) {
  for (const char* product : {"'a' * 'b'", "[1] * [2]", "'a' * [1]", "[] * ''", "none * 'a'"}) {
    const auto rendered = Render(fmt::format("{{{{ {} }}}}", product));
    ASSERT_FALSE(rendered) << product;
    EXPECT_EQ(rendered.error().code, Code::kInvalidArgument) << product;
  }
  EXPECT_EQ(Render("{{ 2 * 'ab' }}{{ 'ab' * true }}{{ 2 * [1] }}"), "ababab[1, 1]");
}

TEST(ChatTemplate, StepsAreBounded) {
  RenderLimits limits;
  limits.steps = 100000;
  ExpectExhausted("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                  limits);
}

TEST(ChatTemplate, OutputIsBounded) {
  RenderLimits limits;
  limits.output_bytes = 1000;
  ExpectExhausted("{% for a in range(999) %}xxxx{% endfor %}", limits);
}

TEST(ChatTemplate, MemoryIsBounded) {
  RenderLimits limits;
  limits.memory_bytes = 1 << 20;
  ExpectExhausted("{{ ('x' * 9999999999) | length }}", limits);
  ExpectExhausted(
      "{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
      limits);
  ExpectExhausted(
      "{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
      limits);
  ExpectExhausted(
      "{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s.replace('x', 'xx') "
      "%}{% endfor %}",
      limits);
}

TEST(ChatTemplate, DepthIsBounded) {
  ExpectExhausted("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  ExpectExhausted(
      "{% set n = namespace(v=[]) %}{% for i in range(999) %}{% set n.v = [n.v] %}{% endfor %}");
  EXPECT_FALSE(Render("{{ " + std::string(10000, '(') + "1" + std::string(10000, ')') + " }}"));
  EXPECT_FALSE(Render("{{ " + std::string(10000, '[') + "}}"));
  std::string minus = "{{ ";
  for (int i = 0; i < 10000; ++i) minus += "not ";
  EXPECT_FALSE(Render(minus + "1 }}"));
  std::string blocks;
  for (int i = 0; i < 10000; ++i) blocks += "{% if 1 %}";
  EXPECT_FALSE(Render(blocks));
  std::string dots = "{{ a";
  for (int i = 0; i < 10000; ++i) dots += ".b";
  EXPECT_FALSE(Render(dots + " }}"));
  // Long but flat is fine.
  std::string sum = "{{ 0";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  EXPECT_EQ(Render(sum + " }}").value_or(""), "5000");
}

// Values that share their parts can be far larger written out than held.
TEST(ChatTemplate, SharedValuesDoNotBlowUp) {
  const std::string doubled =
      "{% set n = namespace(v=[1], w=[1]) %}{% for i in range(60) %}{% set n.v = [n.v, n.v] %}"
      "{% set n.w = [n.w, n.w] %}{% endfor %}";
  RenderLimits limits;
  limits.memory_bytes = 1 << 20;
  limits.steps = 1000000;
  ExpectExhausted(doubled + "{{ n.v }}", limits);
  ExpectExhausted(doubled + "{{ n.v == n.w }}", limits);
  ExpectExhausted(doubled + "{{ n.v | tojson }}", limits);
}

TEST(ChatTemplate, ValuesThatHoldEachOtherAreFreed) {
  const auto got = Render(
      "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{% set a.a = a %}"
      "{% macro m() %}{% endmacro %}{% set a.m = m %}{{ a.b.a.a.b is defined }}{{ a }}");
  EXPECT_EQ(got.value_or("failed"), "True<Namespace>");
  const auto chain = Render(
      "{% set n = namespace(p=0) %}{% for i in range(20000) %}{% set n.p = namespace(p=n.p) %}"
      "{% endfor %}{{ n.p.p is defined }}");
  EXPECT_EQ(chain.value_or("failed"), "True");
}

TEST(ChatTemplate, MacrosOutliveTheBlockTheyWereMadeIn) {
  const auto got = Render(
      "{% set n = namespace(f=[]) %}{% for i in range(3) %}{% macro m() %}{{ i }}{% endmacro %}"
      "{% set n.f = n.f + [m] %}{% endfor %}{% for f in n.f %}{{ f() }}{% endfor %}");
  EXPECT_EQ(got.value_or("failed"), "012");
}

TEST(ChatTemplate, ContinuesTheFinalMessage) {
  const std::string text =
      "{% for m in messages %}<{{ m.role }}>{{ m.content if m.content is string else "
      "m.content[0].text }}<end>\n{% endfor %}";
  RenderInput input;
  input.add_generation_prompt = false;
  input.continue_final_message = true;
  input.messages = *ValueFromJson(
      R"([{"role":"user","content":"x"},{"role":"assistant","content":"The rain "}])");
  EXPECT_EQ(Render(text, input).value_or("failed"), "<user>x<end>\n<assistant>The rain ");
  input.messages = *ValueFromJson(R"([{"role":"assistant","content":[{"text":"Two"}]}])");
  EXPECT_EQ(Render(text, input).value_or("failed"), "<assistant>Two");
  EXPECT_EQ(Render("{{ messages[0].content[0].text | trim }}<end>", input).value_or("failed"),
            "Two");
  const auto absent = Render("nothing", input);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().param, "continue_final_message");
  input.messages = Value::List({});
  EXPECT_FALSE(Render(text, input));
}

TEST(ChatTemplate, VariablesWinInTheDocumentedOrder) {
  RenderInput input;
  input.messages = Value::List({});
  input.bos_token = "<s>";
  input.kwargs = {{"bos_token", Value::String("<k>")}, {"messages", Value::String("no")}};
  EXPECT_EQ(Render("{{ bos_token }}{{ messages }}{{ eos_token }}{{ tools }}", input).value_or(""),
            "<k>[]None");
}

TEST(Json, WritesAsPythonDoes) {
  const Value value = *ValueFromJson(
      R"({"a":[1,2.0,-0.5,1e300,true,null,"é\n\u0001\"\\/"],"b":{},"c":[],"a2":18446744073709551615})");
  EXPECT_EQ(ToJson(value).value_or("failed"),
            "{\"a\": [1, 2.0, -0.5, 1e+300, true, null, \"é\\n\\u0001\\\"\\\\/\"], \"b\": {}, "
            "\"c\": [], \"a2\": 1.8446744073709552e+19}");
  EXPECT_EQ(ToJson(Value::List({Value()})).error().code, Code::kInvalidArgument);
  EXPECT_FALSE(ValueFromJson("{"));
}

TEST(Value, DictsKeepOrderAndFindKeysOfAnySize) {
  Dict dict;
  for (int i = 0; i < 100; ++i) dict.Set("k" + std::to_string(i), Value::Int(i));
  dict.Set("k3", Value::Int(-3));
  dict.Set(Value::Int(7), Value::Int(70));
  EXPECT_EQ(dict.size(), 101u);
  EXPECT_EQ(dict.entries()[3].second.AsInt(), -3);
  const Dict copy = dict;
  EXPECT_EQ(copy.Find("k99")->AsInt(), 99);
  EXPECT_EQ(copy.Find(Value::Float(7))->AsInt(), 70);
  EXPECT_EQ(copy.Find("none"), nullptr);
  EXPECT_TRUE(Equal(Value::FromDict(dict), Value::FromDict(copy)));
}

TEST(Value, FloatsAsPythonWritesThem) {
  EXPECT_EQ(FormatDouble(1), "1.0");
  EXPECT_EQ(FormatDouble(0.0001), "0.0001");
  EXPECT_EQ(FormatDouble(0.00001), "1e-05");
  EXPECT_EQ(FormatDouble(1e15), "1000000000000000.0");
  EXPECT_EQ(FormatDouble(1e16), "1e+16");
  EXPECT_EQ(FormatDouble(-123.456), "-123.456");
  EXPECT_EQ(FormatDouble(1.5e-300), "1.5e-300");
}

}  // namespace
}  // namespace tandem::text
