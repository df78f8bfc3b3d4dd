// Profiles in files: every flipped bit is noticed, and the right one is found.
#include "warploom/profile.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include "support.hpp"

namespace warploom {
namespace {

const std::filesystem::path toy = WARPLOOM_TEST_DATA "/toy-profile.safetensors";

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder for the files of a test, removed with them.
class temporary_folder {
 public:
  explicit temporary_folder(const std::string& name) : path_(std::filesystem::temp_directory_path() / name) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~temporary_folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("a profile is loaded with all that it holds") {
  const std::shared_ptr<const profile> loaded = load_profile(toy);
  CHECK(loaded->gpu == "Toy GPU");
  CHECK(loaded->capability == compute_capability{0, 0});
  CHECK(loaded->geometry ==
        std::map<std::string, std::int64_t>{{"elements_per_cache_line", 32}, {"threads", 32}, {"warps", 32}});
  CHECK(*loaded->metrics.find("note")->as_string() == "a test fixture");
  const trained_model& forest = *loaded->models.at("forest");
  CHECK(forest.kind() == "tree_ensemble");
  CHECK(forest.inputs() == std::vector<std::string>{"x0", "x1", "x2", "x3", "x4"});
  CHECK(forest.find_output("slow") == 1);
  CHECK(!forest.find_output("other"));
  CHECK(forest.arrays().contains("leaf.value"));
  CHECK(forest.check()->inputs.view.shape == std::vector<std::int64_t>{8, 5});
}

TEST_CASE("a flipped bit anywhere in a file is noticed") {
  const std::string content = content_of(toy);
  const temporary_folder folder("warploom-flipped");
  const std::filesystem::path path = folder.write("flipped.safetensors", content);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](std::size_t at, char c) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put(c).flush();
  };
  // All of the length, then every 13th byte, each with another bit flipped.
  for (std::size_t at = 0; at < content.size(); at += at < 8 ? 1 : 13) {
    put(at, static_cast<char>(content[at] ^ 1 << at % 8));
    CAPTURE(at);
    const error e = test::error_of([&] { load_profile(path); });
    CHECK(e.kind() == error_kind::profile);
    CHECK(std::string(e.what()).starts_with(path.string()));
    put(at, content[at]);
  }
  CHECK(load_profile(path)->models.size() == 5);
}

TEST_CASE("stored vectors are verified") {
  const std::shared_ptr<const profile> loaded = load_profile(toy);
  for (const auto& [name, model] : loaded->models) {
    CAPTURE(name);
    const stored_vectors& stored = *model->check();
    const auto* const first = static_cast<const double*>(stored.outputs.view.data);
    std::vector<double> outputs(first, first + stored.outputs.view.size());
    const stored_vectors check{stored.inputs, {{outputs, stored.outputs.view.shape}, nullptr}};
    model->verify(check);
    const std::size_t width = model->outputs().size();
    double largest = 0;
    for (std::size_t o = 0; o < width; ++o) largest = std::max(largest, std::abs(outputs[3 * width + o]));
    outputs[4 * width - 1] += 3e-6 * largest;
    const error e = test::error_of([&] { model->verify(check); });
    CHECK(e.argument() == "check");
    CHECK(e.position() == 3);
  }
}

TEST_CASE("the profile of a GPU is found by name, then by compute capability; what is none is left out") {
  const temporary_folder folder("warploom-found");
  const std::string content = content_of(toy);
  folder.write("b/toy.safetensors", content);
  folder.write("a/bad.safetensors", "bad");
  folder.write("a/toy.txt", content);
  std::filesystem::create_directory(folder.path() / "a" / "folder.safetensors");
  const std::vector<std::filesystem::path> folders{folder.path() / "a", folder.path() / "none", folder.path() / "b"};
  std::vector<std::string> left_out;
  const std::optional<found_profile> found = find_profile("TOY gpu", std::nullopt, folders, left_out);
  REQUIRE(found);
  CHECK(found->path == folder.path() / "b" / "toy.safetensors");
  CHECK(found->note.empty());
  REQUIRE(left_out.size() == 2);
  CHECK(left_out[0].find("bad.safetensors: truncated") != std::string::npos);
  CHECK(left_out[1].find("folder.safetensors") != std::string::npos);
  CHECK(!find_profile("Other", std::nullopt, folders, left_out));
  const std::optional<found_profile> other = find_profile("Other", compute_capability{9, 0}, folders, left_out);
  REQUIRE(other);
  CHECK(other->note == "no profile of Other: predictions are for Toy GPU");
}

}  // namespace warploom
