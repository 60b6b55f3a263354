#include "net/url.h"

#include <gtest/gtest.h>

namespace tandem::net {
namespace {

TEST(Url, Parts) {
  const auto url = ParseUrl("https://Example.COM/a/b?c=d#e");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->host, "example.com");
  EXPECT_EQ(url->port, 443);
  EXPECT_EQ(url->target, "/a/b?c=d");
  EXPECT_EQ(url->ToString(), "https://example.com/a/b?c=d");
  const auto local = ParseUrl("http://[::1]:8080?x");
  ASSERT_TRUE(local);
  EXPECT_EQ(local->host, "::1");
  EXPECT_EQ(local->ToString(), "http://[::1]:8080/?x");
  EXPECT_FALSE(local->SameOrigin(*url));
  EXPECT_TRUE(url->SameOrigin(*ParseUrl("https://example.com:443/other")));
  EXPECT_FALSE(url->SameOrigin(*ParseUrl("http://example.com:443/")));
}

TEST(Url, RefusesWhatIsNoPlainWebAddress) {
  for (const char* bad :
       {"", "ftp://x", "//x", "http://", "http://:80", "http://u:p@x", "http://x:0",
        "http://x:70000", "http://x:y", "http://x/a b", "http://x/a\r\nb"})
    EXPECT_FALSE(ParseUrl(bad)) << bad;
  EXPECT_FALSE(ParseUrl("http://x/" + std::string(20000, 'a')));
}

TEST(Url, Redirects) {
  const Url base = *ParseUrl("https://a.b:444/x/y?z");
  EXPECT_EQ(ResolveUrl(base, "/p?q")->ToString(), "https://a.b:444/p?q");
  EXPECT_EQ(ResolveUrl(base, "//c/d")->ToString(), "https://c/d");
  EXPECT_EQ(ResolveUrl(base, "http://c/d")->ToString(), "http://c/d");
  EXPECT_FALSE(ResolveUrl(base, "relative"));
  EXPECT_FALSE(ResolveUrl(base, "/a\nb"));
  EXPECT_EQ(PercentEncode("a b/c%é", true), "a%20b/c%25%C3%A9");
  EXPECT_EQ(PercentEncode("a/b", false), "a%2Fb");
}

}  // namespace
}  // namespace tandem::net
