#include "base/contained.h"

#include <doctest/doctest.h>

#include <string>

#include "base/text.h"
#include "support/paths.h"

namespace zt {
namespace {

namespace fs = std::filesystem;

// What require_contained says; "" when it says nothing.
std::string refusal(const fs::path& folder, const std::string& name) {
  try {
    require_contained(folder, name, Blame::model);
  } catch (const Error& e) {
    CHECK(e.blame() == Blame::model);
    CHECK(e.hint() == "copy the file that is meant into the folder");
    return e.problem();
  }
  return "";
}

}  // namespace

TEST_CASE("contained: names that lead out of a folder are told apart from those that stay below it") {
  for (const char* const name : {"a", "a/b", "a/./b", "..a", "a..", "a/...", ".hidden", "a//b"})
    CHECK_MESSAGE(stays_below(name), name);
  for (const std::string& name : {std::string(), std::string("/a"), std::string(".."), std::string("../a"),
                                  std::string("a/.."), std::string("a/../../b"), std::string("a\0b", 3)})
    CHECK_FALSE_MESSAGE(stays_below(name), name);
}

TEST_CASE("contained: a link may lead anywhere inside its folder and nowhere else") {
  const test::ScratchDir scratch;
  const fs::path model = scratch.path() / "model";
  scratch.write("secret", "s");
  scratch.write("model2/near", "n");  // a folder whose name begins alike is another folder
  scratch.write("model/real", "r");
  scratch.write("model/sub/deep", "d");
  const auto link = [&](const fs::path& to, const char* name) { fs::create_symlink(to, model / name); };
  link("real", "to_real");
  link("to_real", "to_link");
  link("sub", "to_folder");
  link("../model/real", "round");
  link("../secret", "out");
  link("out", "out_in_two");
  link(scratch.path() / "secret", "absolute");
  link("..", "up");
  link("../model2/near", "near");
  link("/etc/passwd", "system");
  link("nothing", "dangling");
  for (const char* const name :
       {"real", "absent", "dangling", "to_real", "to_link", "to_folder/deep", "round"})
    CHECK_MESSAGE(refusal(model, name) == "", name);
  for (const char* const name : {"out", "out_in_two", "absolute", "up/secret", "near", "system"})
    CHECK(refusal(model, name) == cat((model / name).string(), " is a link that leads out of its folder"));
  // However the folder is called.
  fs::create_directory_symlink("model", scratch.path() / "alias");
  CHECK(refusal(scratch.path() / "alias", "real") == "");
  CHECK(refusal(scratch.path() / "alias", "out") != "");
  CHECK(refusal(model / "..", "secret") == "");
}

TEST_CASE("contained: a snapshot of Hugging Face's cache may have its files among the blobs beside it") {
  const test::ScratchDir scratch;
  scratch.write("hub/models--a--b/blobs/0123", "bytes");
  scratch.write("hub/models--a--b/refs/main", "r1");
  scratch.write("hub/models--c--d/blobs/4567", "others");
  const fs::path snapshot = scratch.path() / "hub/models--a--b/snapshots/r1";
  fs::create_directories(snapshot);
  fs::create_symlink("../../blobs/0123", snapshot / "config.json");
  fs::create_symlink("../../refs/main", snapshot / "refs");
  fs::create_symlink("../../../models--c--d/blobs/4567", snapshot / "others");
  CHECK(refusal(snapshot, "config.json") == "");
  CHECK(refusal(snapshot, "refs") != "");
  CHECK(refusal(snapshot, "others") != "");
}

}  // namespace zt
