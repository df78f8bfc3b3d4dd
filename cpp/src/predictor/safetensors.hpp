// Reading safetensors files: a JSON header that describes arrays, then their bytes.
//
// The format is that of https://github.com/huggingface/safetensors. Read here are the types that profiles use. Whatever
// is not exactly as the format says is refused, and no more memory is allocated than the file has bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "warploom/profile.hpp"

namespace warploom {

using text_map = std::map<std::string, std::string>;

struct safetensors {
  text_map metadata;
  std::map<std::string, shared_array> arrays;
};

struct safetensors_limits {
  std::uint64_t header = std::uint64_t{16} << 20;
  std::uint64_t file = std::uint64_t{1} << 30;
};

// Both throw std::filesystem::filesystem_error if the file cannot be read, and error_kind::profile if it is damaged or
// holds something else.
safetensors read_safetensors(const std::filesystem::path& path, const safetensors_limits& limits = {});
text_map read_safetensors_metadata(const std::filesystem::path& path, const safetensors_limits& limits = {});

// A checksum of all that a file holds: CRC-32 over metadata and arrays, as eight hexadecimal digits. It does not depend
// on how the header spells them. An entry `digest` of the metadata is not counted.
std::string digest_of(const text_map& metadata, const std::map<std::string, shared_array>& arrays);

}  // namespace warploom
