#include "app/picture_file.h"

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

namespace zt::app {

// Pages begin with "<!DOC", pictures with "<svg ".
static constexpr std::size_t kMark = 5;

void write_picture(const std::string& path, const std::string& text) {
  std::error_code none;
  if (std::filesystem::is_regular_file(path, none) && std::filesystem::file_size(path, none) > 0) {
    std::string begins(kMark, '\0');
    std::ifstream(path, std::ios::binary).read(begins.data(), kMark);
    if (begins != text.substr(0, kMark))
      throw Error(Blame::usage, cat(path, " exists and is another kind of file; it is kept"),
                  "name a new file, or remove that one first");
  }
  write_file(path, text);
  log::info(cat("wrote ", path));
}

}  // namespace zt::app
