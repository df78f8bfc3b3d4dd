// Storage formats, seen alike: a registry of descriptions (cpp/src/kernels/registry.cpp), and matrices stored in one of
// them, whose arrays and numbers are found by name. Bindings, tests and pictures know formats through this header only.
//
// A format is a struct with num_rows, num_cols, dtype, nnz(), bytes(), fields() and a function to_csr; places() if it
// pads. Its description stands beside its conversion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/error.hpp"
#include "warploom/formats/csr.hpp"

namespace warploom {

enum class element_type { uint8, uint16, uint32, uint64, int32, int64, float16, float32, float64, bfloat16 };

// An array of a stored matrix, as it lies in memory.
struct stored_array {
  const void* data = nullptr;
  element_type type = element_type::uint8;
  std::int64_t size = 0;
  std::int64_t columns = 0;           // of an array of records; 0: one-dimensional
  std::shared_ptr<const void> owner;  // of an array that was made for the caller; null: it belongs to the matrix
};

class stored_matrix;
class device_csr;  // a CSR matrix in the memory of a GPU (device/device_csr.hpp)

// Numbers by name, such as rows and entries of categories of rows.
using named_counts = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;
// What is not stored is made when it is asked for.
using made_array = std::function<stored_array()>;
using made_counts = std::function<named_counts()>;
using field_value = std::variant<std::monostate, bool, std::int64_t, double, stored_array, made_array, made_counts,
                                 std::shared_ptr<const stored_matrix>>;

// What a format shows of itself. References to the matrix may stand in it.
struct format_field {
  std::string name;
  field_value value;
};

// A matrix in a format that only its description knows.
class stored_matrix {
 public:
  virtual ~stored_matrix() = default;
  virtual std::int64_t num_rows() const = 0;
  virtual std::int64_t num_cols() const = 0;
  virtual value_type dtype() const = 0;
  virtual std::int64_t nnz() const = 0;
  virtual std::int64_t places() const = 0;  // stored places for entries: nnz and padding
  virtual std::size_t bytes() const = 0;    // of the stored arrays
  virtual std::vector<format_field> fields() const = 0;
  virtual csr_matrix to_csr() const = 0;
};

// Nothing: an option that is not given and has no default value.
using option_value = std::variant<std::monostate, bool, std::int64_t, double>;

struct format_option {
  std::string name;
  option_value default_value;        // its type is that of the option; nothing: an integer, or nothing
  std::vector<option_value> tested;  // values that the tests of all formats go through
};

// Values of the options of a format, all of them.
class option_values {
 public:
  explicit option_values(std::map<std::string, option_value, std::less<>> values) : values_(std::move(values)) {}

  bool flag(std::string_view name) const { return std::get<bool>(values_.find(name)->second); }
  double real(std::string_view name) const { return std::get<double>(values_.find(name)->second); }
  std::optional<std::int64_t> optional_integer(std::string_view name) const;
  // Throws error_kind::parameter if it does not fit.
  template <class Integer = int>
  Integer integer(std::string_view name) const {
    const std::int64_t value = std::get<std::int64_t>(values_.find(name)->second);
    if (value < std::numeric_limits<Integer>::min() || value > std::numeric_limits<Integer>::max()) {
      throw error(error_kind::parameter, std::string(name), -1,
                  std::string(name) + " is out of range, got " + std::to_string(value));
    }
    return static_cast<Integer>(value);
  }

 private:
  std::map<std::string, option_value, std::less<>> values_;
};

// Converts a matrix on the GPU where it is, and returns the arrays in host memory: those that from_csr makes.
using convert_on_gpu_function = std::unique_ptr<stored_matrix>(const device_csr& matrix, const option_values& options);

struct format_description {
  std::string name;  // "sell", as in the names of candidates
  std::vector<format_option> options{};
  bool adds_repeated = false;  // entries of one row and column are added up
  std::unique_ptr<stored_matrix> (*from_csr)(const csr_view& matrix, const option_values& options);
  // Null for formats that are made on the host only, and in builds without CUDA.
  convert_on_gpu_function* from_csr_on_gpu = nullptr;
};

// The registry.
std::span<const format_description> formats();

// Throws error_kind::parameter with the known names.
const format_description& find_format(std::string_view name);

// Stores a matrix with the options that are given and the defaults of the others. Throws error_kind::parameter for an
// unknown option or one of another type, and whatever the format throws.
std::unique_ptr<stored_matrix> store(const format_description& format, const csr_view& matrix,
                                     const std::map<std::string, option_value>& given);

// The same, converted on the current device, where the matrix is. Throws error_kind::parameter as well if the format is
// not made on a GPU, and index_overflow from 2^31 nonzeros on.
std::unique_ptr<stored_matrix> store_on_gpu(const format_description& format, const device_csr& matrix,
                                            const std::map<std::string, option_value>& given);

// ---- For the formats themselves

template <class Value>
constexpr element_type element_type_of() {
  if constexpr (std::is_same_v<Value, std::byte> || std::is_same_v<Value, std::uint8_t>) return element_type::uint8;
  if constexpr (std::is_same_v<Value, std::uint16_t>) return element_type::uint16;
  if constexpr (std::is_same_v<Value, std::uint32_t>) return element_type::uint32;
  if constexpr (std::is_same_v<Value, std::uint64_t>) return element_type::uint64;
  if constexpr (std::is_same_v<Value, std::int32_t>) return element_type::int32;
  if constexpr (std::is_same_v<Value, std::int64_t>) return element_type::int64;
}

inline element_type element_type_of(value_type type) {
  if (type == value_type::float16) return element_type::float16;
  if (type == value_type::bfloat16) return element_type::bfloat16;
  return type == value_type::float32 ? element_type::float32 : element_type::float64;
}

template <class Value>
stored_array array_of(const std::vector<Value>& values) {
  return {values.data(), element_type_of<Value>(), static_cast<std::int64_t>(values.size()), 0, nullptr};
}

// Values of the matrix.
inline stored_array array_of(const std::vector<std::byte>& values, value_type type) {
  return {values.data(), element_type_of(type), static_cast<std::int64_t>(values.size() / size_of(type)), 0, nullptr};
}

// Records whose members are all of 32 bits, as rows of a matrix of `Element`.
template <class Element, class Record>
stored_array records_of(const std::vector<Record>& records) {
  static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) % sizeof(Element) == 0);
  constexpr std::int64_t columns = sizeof(Record) / sizeof(Element);
  const auto count = static_cast<std::int64_t>(records.size());
  return {records.data(), element_type_of<Element>(), count * columns, columns, nullptr};
}

// An array that was made for the caller.
template <class Value>
stored_array array_for_caller(std::vector<Value> values) {
  auto owner = std::make_shared<const std::vector<Value>>(std::move(values));
  stored_array view = array_of(*owner);
  view.owner = std::move(owner);
  return view;
}

template <class Matrix>
class matrix_in_format final : public stored_matrix {
 public:
  explicit matrix_in_format(std::shared_ptr<const Matrix> matrix) : matrix_(std::move(matrix)) {}

  std::int64_t num_rows() const override { return matrix_->num_rows; }
  std::int64_t num_cols() const override { return matrix_->num_cols; }
  value_type dtype() const override { return matrix_->dtype; }
  std::int64_t nnz() const override { return matrix_->nnz(); }
  std::int64_t places() const override {
    if constexpr (requires { matrix_->places(); }) return matrix_->places();
    return matrix_->nnz();
  }
  std::size_t bytes() const override { return matrix_->bytes(); }
  std::vector<format_field> fields() const override { return matrix_->fields(); }
  csr_matrix to_csr() const override { return convert(*matrix_); }

 private:
  // The member of the same name hides the function.
  static csr_matrix convert(const Matrix& matrix) {
    using warploom::to_csr;
    return to_csr(matrix);
  }

  std::shared_ptr<const Matrix> matrix_;
};

template <class Matrix>
std::unique_ptr<stored_matrix> stored(Matrix matrix) {
  return std::make_unique<matrix_in_format<Matrix>>(std::make_shared<const Matrix>(std::move(matrix)));
}

// A part of a matrix that is stored in a format of its own. It must not outlive the whole.
template <class Matrix>
std::shared_ptr<const stored_matrix> part_of(const Matrix& part) {
  return std::make_shared<matrix_in_format<Matrix>>(
      std::shared_ptr<const Matrix>(std::shared_ptr<const Matrix>(), &part));
}

}  // namespace warploom
