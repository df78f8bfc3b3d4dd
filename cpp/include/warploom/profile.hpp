// Profiles: what is known of one GPU, in one file.
//
// A profile holds the trained models of a GPU, and what they were trained on. It is a safetensors file, whose layout
// python/warploom/profiles describes (and writes): arrays, and a map of texts. Nothing in a file is executed,
// everything in it is checked, and a digest tells damage. An error is error_kind::profile and says which file it is
// about; a file that cannot be read at all is a std::filesystem::filesystem_error.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "warploom/json.hpp"
#include "warploom/predictor.hpp"

namespace warploom {

// An array with whatever keeps its memory alive.
struct shared_array {
  array_view view;
  std::shared_ptr<const void> owner;
};

// Inputs with the outputs that the trainer computed for them, by which a model is verified.
struct stored_vectors {
  shared_array inputs;   // float64 [vectors, inputs of the model]
  shared_array outputs;  // float64 [vectors, outputs of the model]
};

// Most vectors a model stores for its own verification.
inline constexpr std::int64_t max_stored_vectors = 16;

// A model with the names of what it reads and returns.
class trained_model {
 public:
  // Checks all of it, and verifies the stored vectors. Throws error_kind::profile.
  trained_model(std::string kind, std::vector<std::string> inputs, std::vector<std::string> outputs,
                std::map<std::string, std::string> settings, std::map<std::string, shared_array> arrays,
                std::optional<stored_vectors> check);

  const std::string& kind() const { return kind_; }
  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  const std::map<std::string, std::string>& settings() const { return settings_; }
  const std::map<std::string, shared_array>& arrays() const { return arrays_; }  // without the stored vectors
  const std::optional<stored_vectors>& check() const { return check_; }
  const model& evaluated() const { return *evaluated_; }

  // The position of an output, or nothing.
  std::optional<std::size_t> find_output(std::string_view name) const;

  // Throws error_kind::profile, with the position of the vector, if the model computes something else than is stored:
  // exactly for trees without a transform, which only compare and add in the trainer's order, else within 1e-6 of the
  // largest output of the vector.
  void verify(const stored_vectors& check) const;

 private:
  std::string kind_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
  std::map<std::string, std::string> settings_;
  std::map<std::string, shared_array> arrays_;
  std::optional<stored_vectors> check_;
  std::unique_ptr<const model> evaluated_;
};

struct compute_capability {
  int major = 0;
  int minor = 0;
  auto operator<=>(const compute_capability&) const = default;
};

struct profile {
  std::string gpu;  // product name, such as "NVIDIA H200"
  compute_capability capability;
  std::string cuda;       // version of CUDA that the measurements were made with
  std::string data_hash;  // of the measurements the models were trained on
  std::map<std::string, std::int64_t> geometry;
  json metrics;  // an object
  std::map<std::string, std::shared_ptr<const trained_model>> models;
};

std::shared_ptr<const profile> load_profile(const std::filesystem::path& path);

// A file that says it is a profile of this version; its models have not been looked at.
struct profile_file {
  std::filesystem::path path;
  std::string gpu;
  compute_capability capability;
};

// The profiles in some folders, in that order and by name within. Files that are none are left out; `left_out` receives
// what is wrong with each.
std::vector<profile_file> list_profiles(std::span<const std::filesystem::path> folders,
                                        std::vector<std::string>& left_out);

struct found_profile {
  std::shared_ptr<const profile> loaded;
  std::filesystem::path path;
  std::string note;           // empty, or that the profile is another GPU's
  bool holds_for_gpu = true;  // it is the GPU's own, or its choices were scored by measurements on that GPU
};

// The profile of a GPU, whose name may be spelt in either case: the first in the order of the folders. If there is
// none, that of the GPU with the nearest compute capability stands in, provided that one is given.
std::optional<found_profile> find_profile(const std::string& gpu, std::optional<compute_capability> capability,
                                          std::span<const std::filesystem::path> folders,
                                          std::vector<std::string>& left_out);

}  // namespace warploom
