// Runs a fuzz target without libFuzzer: all files of the folders that are given, then inputs made from them by random
// changes. Takes -runs, -seed, -max_len and -max_total_time as libFuzzer does. An input that ends the process is left
// in crash-input.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "fuzz.hpp"

namespace {

using input = std::vector<std::uint8_t>;

input current;

void keep_input(int signal) {
  if (std::FILE* file = std::fopen("crash-input", "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const input& given) {
  current = given;
  LLVMFuzzerTestOneInput(current.data(), current.size());
}

class mutation {
 public:
  mutation(std::vector<input> corpus, std::uint32_t seed, std::size_t longest)
      : corpus_(std::move(corpus)), random_(seed), longest_(longest) {}

  input next() {
    input made = corpus_[up_to(corpus_.size() - 1)];
    for (std::size_t changes = 1 + up_to(7); changes > 0; --changes) change(made);
    if (made.size() > longest_) made.resize(longest_);
    return made;
  }

 private:
  std::size_t up_to(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(random_); }

  void change(input& made) {
    const std::size_t at = up_to(made.size());
    const std::size_t length = std::min(made.size() - at, up_to(16));
    const auto from = made.begin() + static_cast<std::ptrdiff_t>(at);
    const auto to = from + static_cast<std::ptrdiff_t>(length);
    switch (up_to(6)) {
      case 0:  // a bit
        if (at < made.size()) made[at] ^= static_cast<std::uint8_t>(1u << up_to(7));
        break;
      case 1:  // a byte, often an extreme one
        if (at < made.size()) made[at] = extreme();
        break;
      case 2:  // bytes that are extreme together
        std::fill(from, to, extreme());
        break;
      case 3:
        made.erase(from, to);
        break;
      case 4:
        made.insert(from, 1 + up_to(8), static_cast<std::uint8_t>(up_to(255)));
        break;
      case 5: {  // again
        const input copy(from, to);
        made.insert(made.begin() + static_cast<std::ptrdiff_t>(up_to(made.size())), copy.begin(), copy.end());
        break;
      }
      default: {  // a part of another one
        const input& other = corpus_[up_to(corpus_.size() - 1)];
        const std::size_t first = up_to(other.size());
        const std::size_t count = std::min(other.size() - first, up_to(64));
        made.erase(from, to);
        made.insert(made.begin() + static_cast<std::ptrdiff_t>(at), other.begin() + static_cast<std::ptrdiff_t>(first),
                    other.begin() + static_cast<std::ptrdiff_t>(first + count));
      }
    }
  }

  std::uint8_t extreme() {
    constexpr std::uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, ' ', '\n', '"'};
    return up_to(1) ? values[up_to(7)] : static_cast<std::uint8_t>(up_to(255));
  }

  std::vector<input> corpus_;
  std::mt19937 random_;
  std::size_t longest_;
};

input content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, long> options{{"-runs", -1}, {"-seed", 1}, {"-max_len", 4096}, {"-max_total_time", 0}};
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    if (argument.starts_with('-')) {
      options[argument.substr(0, equals)] = std::stol(argument.substr(equals + 1));
    } else if (std::filesystem::is_directory(argument)) {
      for (const auto& entry : std::filesystem::directory_iterator(argument)) paths.push_back(entry.path());
    } else {
      paths.emplace_back(argument);
    }
  }
  std::sort(paths.begin(), paths.end());
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, keep_input);
  std::vector<input> corpus{{}};
  for (const auto& path : paths) {
    corpus.push_back(content_of(path));
    run(corpus.back());
  }
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  mutation mutated(corpus, static_cast<std::uint32_t>(options["-seed"]), static_cast<std::size_t>(options["-max_len"]));
  long runs = 0;
  const long most = options["-runs"], time = options["-max_total_time"];
  while ((most >= 0 || time > 0) && (most < 0 || runs < most) && (time <= 0 || seconds() < static_cast<double>(time))) {
    run(mutated.next());
    ++runs;
  }
  std::printf("%zu inputs of the corpus and %ld made from them in %.1f s\n", corpus.size() - 1, runs, seconds());
  return 0;
}
