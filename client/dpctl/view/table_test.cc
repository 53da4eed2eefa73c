#include "client/dpctl/view/table.h"

#include <sstream>

#include "client/dpctl/view/display_width.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

TEST(DisplayWidthTest, CharactersTakeTheirColumnsAndNotTheirBytes) {
  EXPECT_EQ(DisplayWidth(""), 0u);
  EXPECT_EQ(DisplayWidth("ann"), 3u);
  EXPECT_EQ(DisplayWidth("j\u00f6rg"), 4u);
  EXPECT_EQ(DisplayWidth("jo\u0308rg"), 4u);  // a combining mark
  EXPECT_EQ(DisplayWidth("\u5f20\u4f1f"), 4u);
  EXPECT_EQ(DisplayWidth("\U0001F600"), 2u);
  EXPECT_EQ(DisplayWidth("a\xff"), 2u);
}

TEST(TableTest, ColumnsAreAsWideAsTheyLook) {
  Table table({"NAME", "KIND"});
  table.Add({"j\u00f6rg", "person"});
  table.Add({"\u5f20\u4f1f\u4f1f", "person"});
  table.Add({"ann", "worker"});
  std::ostringstream out;
  table.Print(out, /*with_headings=*/true);
  EXPECT_EQ(out.str(),
            "NAME    KIND\n"
            "j\u00f6rg    person\n"
            "\u5f20\u4f1f\u4f1f  person\n"
            "ann     worker\n");
}

}  // namespace
}  // namespace dp::ctl
