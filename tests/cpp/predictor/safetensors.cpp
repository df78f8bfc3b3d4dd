#include "predictor/safetensors.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "predictor/crc32.hpp"
#include "support.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace {

const std::filesystem::path toy = WARPLOOM_TEST_DATA "/toy-profile.safetensors";

// A file in the temporary folder, for as long as the object lives.
class temporary_file {
 public:
  temporary_file(const std::string& header, const std::string& data)
      : path_(std::filesystem::temp_directory_path() / "warploom-test.safetensors") {
    std::string length(8, '\0');
    const std::uint64_t size = header.size();
    std::memcpy(length.data(), &size, sizeof size);
    std::ofstream(path_, std::ios::binary) << length << header << data;
  }
  ~temporary_file() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::uint32_t checksum(const std::string& text) {
  crc32 sum;
  sum.add(std::as_bytes(std::span(text)));
  return sum.value();
}

}  // namespace

TEST_CASE("CRC-32 is that of zlib, however the bytes are cut") {
  CHECK(checksum("") == 0);
  CHECK(checksum("123456789") == 0xCBF43926);
  const std::string text = "The quick brown fox jumps over the lazy dog";
  CHECK(checksum(text) == 0x414FA339);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    crc32 sum;
    sum.add(std::as_bytes(std::span(text).first(cut)));
    sum.add(std::as_bytes(std::span(text).subspan(cut)));
    CHECK(sum.value() == 0x414FA339);
  }
}

TEST_CASE("arrays of a file, aligned in memory whatever they are in the file") {
  const std::string header =
      R"({"b":{"dtype":"F64","shape":[],"data_offsets":[4,12]},"a":{"dtype":"I32","shape":[1,1],"data_offsets":[0,4]},)"
      R"("__metadata__":{"key":"text"}})";
  std::string data(12, '\0');
  const std::int32_t whole = -7;
  const double real = 2.5;
  std::memcpy(data.data(), &whole, 4);
  std::memcpy(data.data() + 4, &real, 8);
  const temporary_file file(header, data);
  const safetensors read = read_safetensors(file.path());
  CHECK(read.metadata == text_map{{"key", "text"}});
  CHECK(read_safetensors_metadata(file.path()) == read.metadata);
  REQUIRE(read.arrays.size() == 2);
  CHECK(read.arrays.at("a").view.shape == std::vector<std::int64_t>{1, 1});
  CHECK(*static_cast<const std::int32_t*>(read.arrays.at("a").view.data) == -7);
  CHECK(read.arrays.at("b").view.shape.empty());
  CHECK(*static_cast<const double*>(read.arrays.at("b").view.data) == 2.5);
  CHECK(reinterpret_cast<std::uintptr_t>(read.arrays.at("b").view.data) % 8 == 0);
}

TEST_CASE("oversized files and headers are refused") {
  for (const safetensors_limits limits : {safetensors_limits{16 << 20, 100}, safetensors_limits{10, 1 << 30}}) {
    const error e = test::error_of([&] { read_safetensors(toy, limits); });
    CHECK(e.kind() == error_kind::profile);
    CHECK(std::string(e.what()).find("are too many") != std::string::npos);
  }
}

TEST_CASE("a file that cannot be read is an error of the file system") {
  for (const std::filesystem::path& path : {toy / "nothing", toy.parent_path(), std::filesystem::path("nowhere")}) {
    CHECK_THROWS_AS(read_safetensors(path), std::filesystem::filesystem_error);
  }
}

TEST_CASE("the digest depends on all that is stored") {
  const safetensors file = read_safetensors(toy);
  const std::string digest = digest_of(file.metadata, file.arrays);
  CHECK(digest.size() == 8);
  CHECK(file.metadata.at("digest") == digest);
  text_map metadata = file.metadata;
  metadata["digest"] = "";
  CHECK(digest_of(metadata, file.arrays) == digest);
  metadata["gpu"] += " ";
  CHECK(digest_of(metadata, file.arrays) != digest);
  auto arrays = file.arrays;
  shared_array& changed = arrays.at("forest.leaf.value");
  std::swap(changed.view.shape[0], changed.view.shape[1]);
  CHECK(digest_of(file.metadata, arrays) != digest);
  arrays = file.arrays;
  auto renamed = arrays.extract("forest.base");
  renamed.key() = "forest.bass";
  arrays.insert(std::move(renamed));
  CHECK(digest_of(file.metadata, arrays) != digest);
}

}  // namespace warploom
