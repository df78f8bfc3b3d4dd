// Profiles: read or refused, and the models of one that is read predict. The digest is made right, without which hardly
// any change would get further.
#include "warploom/profile.hpp"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "predictor/safetensors.hpp"
#include "warploom/error.hpp"

#ifndef __linux__
#error "files are kept in /dev/shm"
#endif
#include <unistd.h>

namespace {

using namespace warploom;

const std::filesystem::path path = "/dev/shm/warploom-fuzz-" + std::to_string(getpid()) + ".safetensors";

void write(const std::string& content) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  fuzz::require(file && std::fwrite(content.data(), 1, content.size(), file) == content.size(), "no space in /dev/shm");
  std::fclose(file);
}

void mend_digest(std::string& content) {
  const safetensors read = read_safetensors(path);
  const std::string key = "\"digest\":\"";
  const std::size_t at = content.find(key);
  if (at == std::string::npos || content.size() < at + key.size() + 8) return;
  content.replace(at + key.size(), 8, digest_of(read.metadata, read.arrays));
  write(content);
}

void check(const profile& loaded) {
  for (const auto& [name, trained] : loaded.models) {
    const std::vector<double> inputs(2 * trained->inputs().size(), 0.5);
    std::vector<double> outputs(2 * trained->outputs().size());
    trained->evaluated().predict(inputs, outputs);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string content(reinterpret_cast<const char*>(data), size);
  write(content);
  try {
    mend_digest(content);
    check(*load_profile(path));
  } catch (const error& refused) {
    fuzz::require(refused.kind() == error_kind::profile, "the error is another one");
  }
  std::filesystem::remove(path);
  return 0;
}
