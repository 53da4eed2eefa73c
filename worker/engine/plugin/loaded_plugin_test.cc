#include "worker/engine/plugin/loaded_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/model/shape_check.h"

namespace dp::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kGoodPlugin[] = DP_PLUGINS "/good_plugin.so";

std::string ErrorLoading(const std::string& library) {
  return std::string(LoadedPlugin::Load(library).status().message());
}

// The error of a model of one layer, on samples of four features.
std::string ErrorMaking(const std::string& layer, std::vector<model::PluginValue> config) {
  const auto kind = LoadedPlugin::Load(kGoodPlugin)->Find(layer);
  if (!kind.ok()) return std::string(kind.status().message());
  const model::Plugin plugin = {kGoodPlugin, layer, std::move(config), *kind};
  return std::string(model::CheckShapes({{"mine", plugin}}, {4}).status().message());
}

model::PluginValue Text(const std::string& path, const std::string& text) {
  return {.path = path, .type = model::PluginValue::Type::kText, .text = text};
}
model::PluginValue Number(const std::string& path, double number) {
  return {.path = path, .type = model::PluginValue::Type::kNumber, .number = number};
}

TEST(LoadedPluginTest, AMissingLibraryIsNamed) {
  EXPECT_TRUE(absl::IsNotFound(LoadedPlugin::Load("/nowhere/mine.so").status()));
  EXPECT_THAT(ErrorLoading("/nowhere/mine.so"),
              AllOf(HasSubstr("plug-in library '/nowhere/mine.so' is not on this host"),
                    HasSubstr("put the same file there on every host")));
}

TEST(LoadedPluginTest, AFileThatIsNoLibraryIsRejected) {
  const std::string text = ::testing::TempDir() + "text.so";
  std::ofstream(text) << "no library";
  EXPECT_THAT(ErrorLoading(text), AllOf(HasSubstr(text + "' cannot be loaded: "),
                                        HasSubstr("build it as a shared library")));
}

TEST(LoadedPluginTest, ALibraryWithoutTheSymbolIsRejected) {
  EXPECT_THAT(ErrorLoading(DP_PLUGINS "/stray_plugin.so"),
              HasSubstr("stray_plugin.so' has no symbol dp_plugin; name its layers by DP_PLUGIN"));
}

TEST(LoadedPluginTest, AnotherVersionIsRejectedWithBoth) {
  EXPECT_THAT(
      ErrorLoading(DP_PLUGINS "/old_plugin.so"),
      HasSubstr("has version 2 of the plug-in interface, and this trainer has 1; build it"));
}

TEST(LoadedPluginTest, ALayerIsFoundByItsName) {
  const absl::StatusOr<LoadedPlugin> loaded = LoadedPlugin::Load(kGoodPlugin);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->Find("center").ok());
  EXPECT_THAT(loaded->Find("centre").status().message(),
              HasSubstr("has no layer 'centre'; there are: rmsNorm, mlp, center, faulty"));
  EXPECT_THAT(loaded->Find("").status().message(),
              HasSubstr("has several layers; give plugin.layer, one of rmsNorm, mlp, "));
}

TEST(LoadedPluginTest, TheOnlyLayerNeedsNoName) {
  static constexpr DpPluginKind kKind = {
      .name = "mine", .make = [](const DpPluginPlace*, DpPluginLayer*) { return "told to fail"; }};
  const DpPlugin table = {.abi = DP_PLUGIN_ABI, .kind_count = 1, .kinds = &kKind};
  const auto kind = LoadedPlugin::Of(table, "/mine.so")->Find("");
  ASSERT_TRUE(kind.ok()) << kind.status();
  EXPECT_EQ((*kind)->Make({}, {.in = {4}}).status().message(),
            "'mine' of library '/mine.so': told to fail");
}

TEST(LoadedPluginTest, AnEmptyTableIsRejected) {
  const DpPlugin table = {.abi = DP_PLUGIN_ABI, .kind_count = 0, .kinds = nullptr};
  EXPECT_THAT(LoadedPlugin::Of(table, "/mine.so").status().message(), HasSubstr("has no layers"));
}

TEST(LoadedPluginTest, AnErrorOfTheConfigNamesTheLayerAndTheValue) {
  EXPECT_EQ(ErrorMaking("rmsNorm", {Number("epsilon", 0.1)}), "");
  EXPECT_THAT(ErrorMaking("rmsNorm", {Text("epsilon", "small")}),
              AllOf(StartsWith("layer 'mine' (plugin): 'rmsNorm' of library '"),
                    HasSubstr("config.epsilon is a text; it must be a number")));
  EXPECT_THAT(ErrorMaking("rmsNorm", {Number("epsilom", 0.1)}),
              HasSubstr("config has an unknown field 'epsilom'; there are: epsilon"));
  EXPECT_THAT(ErrorMaking("mlp", {Number("hidden", 1.5)}),
              HasSubstr("config.hidden is 1.500000; it must be a whole number"));
  EXPECT_THAT(ErrorMaking("mlp", {Number("hidden", 3)}),
              HasSubstr("config.classes is missing; give a number"));
}

TEST(LoadedPluginTest, WhatAPluginSaysOfItselfIsChecked) {
  EXPECT_THAT(ErrorMaking("faulty", {Text("at", "make")}), HasSubstr("told to fail"));
  EXPECT_THAT(ErrorMaking("faulty", {Text("at", "shape")}),
              HasSubstr("its output has the shape 0; each extent must be above 0"));
  EXPECT_THAT(ErrorMaking("faulty", {Text("at", "names")}),
              HasSubstr("two parameters have the name 'a'"));
  EXPECT_THAT(ErrorMaking("faulty", {Text("at", "name")}),
              HasSubstr("a parameter has the name 'a.b'; it must be of letters"));
}

}  // namespace
}  // namespace dp::engine
