#include "wire/json.h"

#include <gtest/gtest.h>

#include "wire/json_writer.h"

namespace tandem::wire {
namespace {

Json Parsed(std::string_view text) {
  auto json = ParseJson(text);
  EXPECT_TRUE(json.has_value()) << text << ": " << (json ? "" : json.error().message);
  return json ? *json : Json();
}

std::string Refused(std::string_view text, const JsonLimits& limits = {}) {
  const auto json = ParseJson(text, limits);
  EXPECT_FALSE(json.has_value()) << text;
  return json ? "" : json.error().message;
}

TEST(Json, KeepsKindsOfNumbers) {
  EXPECT_TRUE(Parsed("1").IsInt());
  EXPECT_EQ(Parsed("-9223372036854775808").AsInt(), INT64_MIN);
  EXPECT_EQ(Parsed("9223372036854775807").AsInt(), INT64_MAX);
  EXPECT_EQ(Parsed("18446744073709551615").AsUint(), UINT64_MAX);
  EXPECT_FALSE(Parsed("18446744073709551615").IsInt());
  EXPECT_TRUE(Parsed("1.0").IsNumber());
  EXPECT_FALSE(Parsed("1.0").IsInt());
  EXPECT_EQ(Parsed("1e2").AsDouble(), 100.0);
  EXPECT_EQ(Parsed("7").AsDouble(), 7.0);
}

TEST(Json, FindsMembersInOrder) {
  const Json json = Parsed(R"({"b":[1,"x",null,true],"a":{"c":"\u00e9\ud83d\ude00"}})");
  ASSERT_TRUE(json.IsObject());
  EXPECT_EQ(json.AsObject()[0].key, "b");
  EXPECT_EQ(json.Find("b")->AsArray().size(), 4u);
  EXPECT_EQ(json.Find("a")->Find("c")->AsString(), "é😀");
  EXPECT_EQ(json.Find("z"), nullptr);
  EXPECT_EQ(Json(3).Find("z"), nullptr);
  EXPECT_EQ(ToJsonText(json), R"({"b":[1,"x",null,true],"a":{"c":"é😀"}})");
}

TEST(Json, RefusalsNameTheByte) {
  EXPECT_EQ(Refused(""), "invalid JSON: an empty text at byte 0");
  EXPECT_EQ(Refused("{\"a\":1,}"), "invalid JSON: expected a name in double quotes at byte 7");
  EXPECT_EQ(Refused("[1,2"), "invalid JSON: the text ends too early at byte 4");
  EXPECT_EQ(Refused("{\"a\" 1}"), "invalid JSON: expected a colon after the name at byte 5");
  EXPECT_EQ(Refused("[1 2]"),
            "invalid JSON: expected a comma or the end of the array or object at byte 3");
  EXPECT_EQ(Refused("{\"t\":NaN}"), "invalid JSON: expected a value at byte 5");
  EXPECT_EQ(Refused("[1e999]"), "invalid JSON: a number too large at byte 1");
  EXPECT_EQ(Refused("[\"\xff\"]"), "invalid JSON: bytes that are not UTF-8 at byte 2");
  EXPECT_EQ(Refused("[\"a\nb\"]"), "invalid JSON: a control character in a string at byte 3");
  EXPECT_EQ(Refused("[\"\\ud800x\"]"), "invalid JSON: half of a surrogate pair at byte 2");
  EXPECT_EQ(Refused("[\"\\x\"]"), "invalid JSON: an unknown escape at byte 3");
  EXPECT_EQ(Refused("[01]"), "invalid JSON: a number with a leading zero at byte 2");
  EXPECT_EQ(Refused("1 2"), "invalid JSON: something after the end of the value at byte 2");
}

TEST(Json, IntegersBeyond64BitsAreNamed) {
  const auto expect = [](std::string_view text, std::string_view path, size_t at) {
    const auto json = ParseJson(text);
    ASSERT_FALSE(json.has_value()) << text;
    EXPECT_EQ(json.error().param, path) << text;
    EXPECT_NE(json.error().message.find("out of range"), std::string::npos) << text;
    EXPECT_TRUE(json.error().message.ends_with("at byte " + std::to_string(at)))
        << json.error().message;
  };
  expect(R"({"seed": 18446744073709551616})", "seed", 9);
  expect(R"({"b":[{}],"a":{"x":[1,[],-9223372036854775809]}})", "a.x[2]", 25);
  expect("[18446744073709551616]", "[0]", 1);
  expect("1000000000000000000000000000000", "", 0);
  // Still told as broken JSON.
  EXPECT_EQ(Refused("[1e999]"), "invalid JSON: a number too large at byte 1");
}

TEST(Json, RefusesDuplicateKeys) {
  EXPECT_NE(Refused(R"({"a":1,"b":2,"a":3})").find("key \"a\" twice"), std::string::npos);
  std::string many = "{";
  for (int i = 0; i < 40; ++i) many += "\"k" + std::to_string(i) + "\":1,";
  EXPECT_NE(Refused(many + "\"k7\":1}").find("key \"k7\" twice"), std::string::npos);
  EXPECT_EQ(Parsed(many + "\"z\":1}").AsObject().size(), 41u);
}

TEST(Json, BoundsDepthBytesAndValues) {
  JsonLimits limits;
  limits.max_depth = 3;
  EXPECT_TRUE(ParseJson("[[[1]]]", limits).has_value());
  EXPECT_NE(Refused("[[[[1]]]]", limits).find("nested too deeply at byte 3"), std::string::npos);
  limits.max_values = 4;
  EXPECT_TRUE(ParseJson("[1,2,3]", limits).has_value());
  EXPECT_EQ(ParseJson("[1,2,3,4]", limits).error().code, Code::kTooLarge);
  limits.max_bytes = 4;
  EXPECT_EQ(ParseJson("[1,2]", limits).error().code, Code::kTooLarge);
}

TEST(JsonFault, AgreesWithTheParser) {
  for (const std::string_view text :
       {"{}", "[]", "[{}]", " {\"a\": [1, 2.5e-3, -0, \"\\u0041\\n\"]} ", "true", "\"x\"", "1e-999",
        "{\"a\":{\"b\":[]},\"c\":null}"}) {
    EXPECT_FALSE(FindJsonFault(text, 64).has_value()) << text;
    EXPECT_TRUE(ParseJson(text).has_value()) << text;
  }
  for (const std::string_view text : {"{", "[,]", "[1,]", "{\"a\"}", "nul", "-", "1.", "\"", "{]"})
    EXPECT_TRUE(FindJsonFault(text, 64).has_value()) << text;
}

TEST(JsonWriter, PutsCommasAndEscapes) {
  std::string out;
  JsonWriter writer(out);
  writer.BeginObject().Key("a").Int(1).Key("b").BeginArray().String("x\"\n\x01\x7f").Bool(false);
  writer.Null().BeginObject().EndObject().EndArray().Key("c").Double(0.1).Key("d").Float(-0.25f);
  writer.Key("e").Raw("[1]").Key("f").Int(UINT64_MAX).EndObject();
  EXPECT_EQ(out,
            "{\"a\":1,\"b\":[\"x\\\"\\n\\u0001\x7f\",false,null,{}],\"c\":0.1,\"d\":-0.25,"
            "\"e\":[1],\"f\":18446744073709551615}");
  EXPECT_TRUE(ParseJson(out).has_value());
}

TEST(JsonWriter, ReplacesBytesThatAreNotUtf8) {
  std::string out;
  AppendJsonString(out, "a\xff\xc3\xa9\xf0\x9f\x98");
  EXPECT_EQ(out, "\"a\xEF\xBF\xBD\xc3\xa9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace tandem::wire
