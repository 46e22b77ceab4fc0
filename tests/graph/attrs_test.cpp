#include "tessera/graph/attrs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

struct Window {
  double eps = 1e-5;
  bool causal = true;
  std::int64_t size = 3;
  void describe(AttrWriter& write) const {
    write("eps", eps);
    write("causal", causal);
    write("size", size);
  }
};

struct Other {
  double eps = 1e-5;
  void describe(AttrWriter& write) const { write("eps", eps); }
};

TEST(Attrs, TextListsTheFields) {
  EXPECT_EQ(Attrs(Window{}).text(), "eps=1e-05 causal=true size=3");
  EXPECT_EQ(Attrs().text(), "");
}

TEST(Attrs, EqualFieldsHaveEqualText) {
  EXPECT_EQ(Attrs(Window{0.1, false, 7}).text(), Attrs(Window{0.1, false, 7}).text());
  // Numbers print with as many digits as they need: two that differ never look the same.
  const double next = std::nextafter(0.1, 1.0);
  EXPECT_NE(Attrs(Window{0.1, false, 7}).text(), Attrs(Window{next, false, 7}).text());
  EXPECT_NE(Attrs(Window{0.1, false, 7}).text(), Attrs(Window{0.1, true, 7}).text());
}

TEST(Attrs, GiveBackWhatWasPutIn) {
  const Attrs attrs(Window{0.25, false, 9});
  const Attrs copy = attrs;  // shares the struct
  EXPECT_EQ(copy.as<Window>().eps, 0.25);
  EXPECT_FALSE(copy.as<Window>().causal);
  EXPECT_EQ(copy.as<Window>().size, 9);
}

TEST(AttrsDeathTest, AnotherTypeIsOurBug) {
  EXPECT_DEATH(Attrs(Window{}).as<Other>(), "typeid");
  EXPECT_DEATH(Attrs().as<Other>(), "typeid");
}

}  // namespace
}  // namespace tessera
