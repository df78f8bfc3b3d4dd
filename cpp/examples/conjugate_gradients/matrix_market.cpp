#include "matrix_market.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace {

struct entry {
  std::int32_t row, col;
  double value;
};

class reader {
 public:
  explicit reader(const std::filesystem::path& path) : path_(path), file_(path) {
    if (!file_) throw std::runtime_error(path.string() + ": cannot be opened");
  }

  sparse_matrix read() {
    read_header();
    if (!next_line()) fail("the line with the size is missing");
    const auto num_rows = number<std::int64_t>("the number of rows", 0, largest_size);
    const auto num_cols = number<std::int64_t>("the number of columns", 0, largest_size);
    const auto num_entries = number<std::int64_t>("the number of entries", 0);
    end_of_line();
    if (symmetric_ && num_rows != num_cols) fail("a symmetric matrix is square");

    std::vector<entry> entries;
    for (std::int64_t read = 0; read < num_entries; ++read) {
      if (!next_line()) fail("ends after " + std::to_string(read) + " of " + std::to_string(num_entries) + " entries");
      const auto row = static_cast<std::int32_t>(number<std::int64_t>("a row", 1, num_rows) - 1);
      const auto col = static_cast<std::int32_t>(number<std::int64_t>("a column", 1, num_cols) - 1);
      const double value = pattern_ ? 1.0 : number<double>("a value");
      end_of_line();
      if (!std::isfinite(value)) fail("the value is not finite");
      entries.push_back({row, col, value});
      if (!symmetric_ || row == col) continue;
      if (row < col) fail("an entry above the diagonal of a symmetric matrix");
      entries.push_back({col, row, value});
    }
    if (next_line()) fail("more than " + std::to_string(num_entries) + " entries");
    return to_csr(num_rows, num_cols, entries);
  }

 private:
  static constexpr std::int64_t largest_size = std::numeric_limits<std::int32_t>::max();

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(path_.string() + ", line " + std::to_string(line_number_) + ": " + what);
  }

  bool read_line() {
    if (!std::getline(file_, line_)) return false;
    ++line_number_;
    at_ = line_.data();
    return true;
  }

  // Skips comments and empty lines.
  bool next_line() {
    while (read_line()) {
      skip_spaces();
      if (at_ != end() && *at_ != '%') return true;
    }
    return false;
  }

  void read_header() {
    read_line();
    std::transform(line_.begin(), line_.end(), line_.begin(), [](unsigned char c) { return std::tolower(c); });
    std::string banner, object, format, values, symmetry;
    std::istringstream(line_) >> banner >> object >> format >> values >> symmetry;
    if (banner != "%%matrixmarket") fail("not a Matrix Market file");
    if (object != "matrix" || format != "coordinate") fail("only 'matrix coordinate' is read");
    pattern_ = values == "pattern";
    if (!pattern_ && values != "real" && values != "integer") fail("values are real, integer or pattern");
    symmetric_ = symmetry == "symmetric";
    if (!symmetric_ && symmetry != "general") fail("only general and symmetric matrices are read");
  }

  template <class Number>
  Number number(const char* what, Number least = std::numeric_limits<Number>::lowest(),
                Number most = std::numeric_limits<Number>::max()) {
    skip_spaces();
    Number value{};
    const auto [stop, failure] = std::from_chars(at_, end(), value);
    if (failure != std::errc{} || (stop != end() && !std::isspace(static_cast<unsigned char>(*stop)))) {
      fail(std::string(what) + " is expected");
    }
    at_ = stop;
    if (value < least || value > most) fail(std::string(what) + " is out of range");
    return value;
  }

  void end_of_line() {
    skip_spaces();
    if (at_ != end()) fail("something follows the last number");
  }

  void skip_spaces() {
    while (at_ != end() && std::isspace(static_cast<unsigned char>(*at_))) ++at_;
  }

  const char* end() const { return line_.data() + line_.size(); }

  static sparse_matrix to_csr(std::int64_t num_rows, std::int64_t num_cols, const std::vector<entry>& entries) {
    sparse_matrix matrix{num_rows, num_cols, std::vector<std::int64_t>(num_rows + 1),
                         std::vector<std::int32_t>(entries.size()), std::vector<double>(entries.size())};
    for (const entry& e : entries) ++matrix.indptr[e.row + 1];
    for (std::int64_t row = 0; row < num_rows; ++row) matrix.indptr[row + 1] += matrix.indptr[row];
    std::vector<std::int64_t> next(matrix.indptr.begin(), matrix.indptr.end() - 1);
    for (const entry& e : entries) {
      const std::int64_t place = next[e.row]++;
      matrix.indices[place] = e.col;
      matrix.data[place] = e.value;
    }
    return matrix;
  }

  std::filesystem::path path_;
  std::ifstream file_;
  std::string line_;
  const char* at_ = nullptr;
  std::int64_t line_number_ = 0;
  bool pattern_ = false;
  bool symmetric_ = false;
};

}  // namespace

sparse_matrix read_matrix_market(const std::filesystem::path& path) { return reader(path).read(); }
