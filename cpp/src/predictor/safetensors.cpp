#include "predictor/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>

#include "predictor/crc32.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace {

static_assert(std::endian::native == std::endian::little, "the numbers in a file are in this byte order");

constexpr const char* metadata_name = "__metadata__";
constexpr std::size_t max_dimensions = 8;

struct stored_type {
  const char* name;
  array_type type;
  std::int64_t size;
};

constexpr std::array stored_types{
    stored_type{"F64", array_type::float64, 8},
    stored_type{"F32", array_type::float32, 4},
    stored_type{"I32", array_type::int32, 4},
};

const stored_type& stored(array_type type) {
  return *std::find_if(stored_types.begin(), stored_types.end(), [&](const auto& row) { return row.type == type; });
}

[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& message) {
  throw error(error_kind::profile, "path", -1, path.string() + ": " + message);
}

[[noreturn]] void refuse(const std::string& message) { throw error(error_kind::profile, "", -1, message); }

// What `read` returns; its errors say which file they are about.
template <class Function>
auto of_file(const std::filesystem::path& path, const Function& read) {
  try {
    return read();
  } catch (const error& e) {
    refuse_file(path, e.what());
  }
}

class open_file {
 public:
  explicit open_file(const std::filesystem::path& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
    if (!file_) fail();
    if (std::fseek(file_, 0, SEEK_END) != 0) fail();
    const long size = std::ftell(file_);
    if (size < 0 || std::fseek(file_, 0, SEEK_SET) != 0) fail();
    size_ = static_cast<std::uint64_t>(size);
    if (std::filesystem::is_directory(path)) {
      errno = EISDIR;
      fail();
    }
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() {
    if (file_) std::fclose(file_);
  }

  std::uint64_t size() const { return size_; }

  void read(void* to, std::size_t bytes) {
    if (std::fread(to, 1, bytes, file_) == bytes) return;
    if (std::ferror(file_)) fail();
    refuse_file(path_, "the size changed while the file was read");
  }

  bool has_more() { return std::fgetc(file_) != EOF; }

 private:
  [[noreturn]] void fail() {
    const std::error_code code(errno, std::generic_category());
    if (file_) std::fclose(file_);
    file_ = nullptr;
    throw std::filesystem::filesystem_error("cannot read the file", path_, code);
  }

  std::filesystem::path path_;
  std::FILE* file_;
  std::uint64_t size_ = 0;
};

// The header; `size` receives the number of bytes after it.
json read_header(open_file& file, const std::filesystem::path& path, const safetensors_limits& limits,
                 std::uint64_t& size) {
  std::uint64_t length = 0;
  if (file.size() >= sizeof length) file.read(&length, sizeof length);
  const auto numbers = [&] { return std::to_string(file.size()) + " bytes "; };
  if (file.size() < sizeof length || length > file.size() - sizeof length) {
    refuse_file(path, "truncated: " + numbers() + "cannot hold a header of " + std::to_string(length));
  }
  if (file.size() > limits.file || length > limits.header) {
    refuse_file(path, numbers() + "with a header of " + std::to_string(length) + " are too many");
  }
  std::string text(length, '\0');
  file.read(text.data(), text.size());
  if (!text.starts_with('{')) refuse_file(path, "not a safetensors file");
  size = file.size() - sizeof length - length;
  try {
    return parse_json(text);
  } catch (const error& e) {
    refuse_file(path, std::string("the header's ") + e.what());
  }
}

text_map metadata_of(const json& header) {
  const json* const given = header.find(metadata_name);
  if (!given) return {};
  const json::object* const entries = given->as_object();
  text_map metadata;
  if (entries) {
    for (const auto& [name, value] : *entries) {
      if (const std::string* const text = value.as_string()) metadata.emplace(name, *text);
    }
  }
  if (!entries || metadata.size() != entries->size()) refuse("the metadata are not a map of strings");
  return metadata;
}

struct description {
  std::string name;
  stored_type type;
  std::vector<std::int64_t> shape;
  std::int64_t begin;
  std::int64_t end;
};

// Reads an array of integers of 0 or more; returns whether it is one.
bool read_sizes(const json& value, std::vector<std::int64_t>& sizes) {
  const json::array* const entries = value.as_array();
  if (!entries) return false;
  for (const json& entry : *entries) {
    const std::int64_t* const size = entry.as_integer();
    if (!size || *size < 0) return false;
    sizes.push_back(*size);
  }
  return true;
}

// A value of the header, as it is shown in a message.
std::string shown(const json& value) {
  if (const std::string* const text = value.as_string()) return std::string("'").append(*text, 0, 38) + "'";
  double number = 0;
  if (!value.to_double(number)) return "not a string";
  char digits[32];
  std::snprintf(digits, sizeof digits, "%g", number);
  return digits;
}

description describe(const std::string& name, const json& entry) {
  const json* const type = entry.find("dtype");
  const json* const shape = entry.find("shape");
  const json* const offsets = entry.find("data_offsets");
  if (!type || !shape || !offsets || entry.as_object()->size() != 3) {
    refuse(name + ": an array has dtype, shape and data_offsets, nothing else");
  }
  const std::string* const type_name = type->as_string();
  const auto known = std::find_if(stored_types.begin(), stored_types.end(),
                                  [&](const stored_type& row) { return type_name && *type_name == row.name; });
  if (known == stored_types.end()) refuse(name + ": the type is " + shown(*type) + "; profiles have F64, F32, I32");
  description read{name, *known, {}, 0, 0};
  if (!read_sizes(*shape, read.shape) || read.shape.size() > max_dimensions ||
      std::find(read.shape.begin(), read.shape.end(), 0) != read.shape.end()) {
    refuse(name + ": the shape is not one of 0 to " + std::to_string(max_dimensions) + " positive numbers");
  }
  std::vector<std::int64_t> range;
  if (!read_sizes(*offsets, range) || range.size() != 2 || range[0] > range[1]) {
    refuse(name + ": data_offsets are not two numbers in ascending order");
  }
  read.begin = range[0];
  read.end = range[1];
  return read;
}

// Whether elements of that size and shape are so many bytes.
bool fills(const std::vector<std::int64_t>& shape, std::int64_t size, std::int64_t bytes) {
  for (const std::int64_t extent : shape) {
    if (size > bytes / extent) return false;  // extents are not 0
    size *= extent;
  }
  return size == bytes;
}

std::string text(const std::vector<std::int64_t>& shape) {
  std::string joined;
  for (const std::int64_t extent : shape) joined += (joined.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + joined + "]";
}

std::vector<description> describe_all(const json& header, std::int64_t size) {
  std::vector<description> described;
  for (const auto& [name, entry] : *header.as_object()) {
    if (name != metadata_name) described.push_back(describe(name, entry));
  }
  std::stable_sort(described.begin(), described.end(),
                   [](const description& a, const description& b) { return a.begin < b.begin; });
  std::int64_t end_of_last = 0;
  for (const description& one : described) {
    const std::string range = std::to_string(one.begin) + " to " + std::to_string(one.end);
    if (one.begin != end_of_last || one.end > size) {
      refuse(one.name + ": bytes " + range + " overlap others, leave a gap or are beyond the file");
    }
    if (!fills(one.shape, one.type.size, one.end - one.begin)) {
      refuse(one.name + ": " + std::to_string(one.end - one.begin) + " bytes do not fill the shape " + text(one.shape));
    }
    end_of_last = one.end;
  }
  if (end_of_last != size) refuse(std::to_string(size - end_of_last) + " bytes after the last array");
  return described;
}

// Files of other writers need not align their arrays: each is read to a place of its own.
shared_array read_array(open_file& file, const description& described) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(described.end - described.begin);
  file.read(bytes->data(), bytes->size());
  return {{described.type.type, described.shape, bytes->data()}, bytes};
}

}  // namespace

safetensors read_safetensors(const std::filesystem::path& path, const safetensors_limits& limits) {
  open_file file(path);
  std::uint64_t size = 0;
  const json header = read_header(file, path, limits, size);
  safetensors read;
  read.metadata = of_file(path, [&] { return metadata_of(header); });
  const auto described = of_file(path, [&] { return describe_all(header, static_cast<std::int64_t>(size)); });
  for (const description& one : described) read.arrays.emplace(one.name, read_array(file, one));
  if (file.has_more()) refuse_file(path, "the size changed while the file was read");
  return read;
}

text_map read_safetensors_metadata(const std::filesystem::path& path, const safetensors_limits& limits) {
  open_file file(path);
  std::uint64_t size = 0;
  const json header = read_header(file, path, limits, size);
  return of_file(path, [&] { return metadata_of(header); });
}

std::string digest_of(const text_map& metadata, const std::map<std::string, shared_array>& arrays) {
  crc32 sum;
  const auto add_number = [&](std::int64_t number) { sum.add(std::as_bytes(std::span(&number, 1))); };
  const auto add_text = [&](std::string_view text) {
    add_number(static_cast<std::int64_t>(text.size()));
    sum.add(std::as_bytes(std::span(text)));
  };
  for (const auto& [name, value] : metadata) {
    if (name == "digest") continue;
    add_text(name);
    add_text(value);
  }
  for (const auto& [name, array] : arrays) {
    const stored_type& type = stored(array.view.type);
    add_text(name);
    add_text(type.name);
    add_number(static_cast<std::int64_t>(array.view.shape.size()));
    for (const std::int64_t extent : array.view.shape) add_number(extent);
    sum.add({static_cast<const std::byte*>(array.view.data), static_cast<std::size_t>(array.view.size() * type.size)});
  }
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(sum.value()));
  return digits;
}

}  // namespace warploom
