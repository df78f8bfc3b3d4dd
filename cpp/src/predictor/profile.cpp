#include "warploom/profile.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include "predictor/safetensors.hpp"
#include "warploom/error.hpp"

namespace warploom {
namespace {

constexpr const char* format = "warploom-profile";
constexpr const char* version = "2";

[[noreturn]] void refuse(const std::string& argument, const std::string& message) {
  throw error(error_kind::profile, argument, -1, message);
}

// What `read` returns; the messages of its errors get something in front.
template <class Function>
auto with_prefix(const std::string& prefix, const Function& read) {
  try {
    return read();
  } catch (const error& e) {
    if (e.kind() != error_kind::profile) throw;
    throw error(error_kind::profile, e.argument(), e.position(), prefix + ": " + e.what());
  }
}

const std::string& text(const text_map& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) refuse(key, key + ": missing in the metadata");
  return found->second;
}

void check_version(const text_map& metadata) {
  const auto found = metadata.find("format");
  if (found == metadata.end() || found->second != format) {
    refuse("format", "not a warploom profile: the metadata do not say so");
  }
  if (text(metadata, "version") != version) {
    refuse("version", "the profile's format has version " + text(metadata, "version").substr(0, 20) +
                          ", this warploom reads " + version);
  }
}

void check_digest(const safetensors& file) {
  if (text(file.metadata, "digest") != digest_of(file.metadata, file.arrays)) {
    refuse("digest", "damaged: the content is not what the digest was computed of");
  }
}

// One to three digits.
bool read_number(std::string_view digits, int& number) {
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return status == std::errc() && end == digits.data() + digits.size() && digits.size() <= 3 && digits[0] != '-';
}

compute_capability capability_of(const text_map& metadata) {
  const std::string& given = text(metadata, "compute_capability");
  const std::string_view view = given;
  const std::size_t point = view.find('.');
  compute_capability read;
  if (point == std::string_view::npos || !read_number(view.substr(0, point), read.major) ||
      !read_number(view.substr(point + 1), read.minor)) {
    refuse("compute_capability", "compute_capability: not two numbers such as 9.0");
  }
  return read;
}

json object_of(const text_map& metadata, const std::string& key) {
  json value;
  try {
    value = parse_json(text(metadata, key));
  } catch (const error& e) {
    if (!e.argument().empty()) throw;
    refuse(key, key + ": " + e.what());
  }
  if (!value.as_object()) refuse(key, key + ": not a JSON object");
  return value;
}

std::map<std::string, std::int64_t> geometry_of(const text_map& metadata) {
  const json given = object_of(metadata, "geometry");
  std::map<std::string, std::int64_t> read;
  for (const auto& [name, value] : *given.as_object()) {
    const std::int64_t* const number = value.as_integer();
    if (!number || *number <= 0) refuse("geometry", "geometry: a value is not a positive number");
    read.emplace(name, *number);
  }
  return read;
}

void check_model_name(const std::string& name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_allowed)) {
    refuse("models", std::string("'").append(name, 0, 60) + "': a model's name has letters, digits, _ and - only");
  }
}

std::vector<std::string> names_of(const std::string& model, const json& description, const char* key) {
  const json::array* const entries = description.find(key)->as_array();
  if (!entries) refuse("models", model + ": inputs or outputs are not a list of names");
  std::vector<std::string> names;
  for (const json& entry : *entries) {
    const std::string* const name = entry.as_string();
    names.push_back(name ? *name : "");  // which no name may be
  }
  return names;
}

// Takes the stored vectors out of the arrays of a model.
std::optional<stored_vectors> take_stored_vectors(std::map<std::string, shared_array>& arrays) {
  const auto inputs = arrays.extract("check.inputs");
  const auto outputs = arrays.extract("check.outputs");
  if (inputs.empty() && outputs.empty()) return std::nullopt;
  if (inputs.empty() || outputs.empty()) {
    refuse("check", "stored vectors are inputs and outputs, two float64 matrices");
  }
  return stored_vectors{inputs.mapped(), outputs.mapped()};
}

std::shared_ptr<const trained_model> model_of(const std::string& name, const json& description,
                                              std::map<std::string, shared_array> arrays) {
  check_model_name(name);
  const json* const kind = description.find("kind");
  const json* const settings = description.find("settings");
  if (!kind || !settings || !description.find("inputs") || !description.find("outputs") ||
      description.as_object()->size() != 4) {
    refuse("models", name + ": a model has kind, inputs, outputs and settings, nothing else");
  }
  if (!kind->as_string() || !settings->as_object()) {
    refuse("models", name + ": kind is not a string, or settings is not an object");
  }
  std::map<std::string, std::string> chosen;
  for (const auto& [setting, value] : *settings->as_object()) {
    if (!value.as_string()) refuse("models", name + ": a setting is not a string");
    chosen.emplace(setting, *value.as_string());
  }
  std::vector<std::string> inputs = names_of(name, description, "inputs");
  std::vector<std::string> outputs = names_of(name, description, "outputs");
  return with_prefix("model '" + name + "'", [&] {
    std::optional<stored_vectors> check = take_stored_vectors(arrays);
    return std::make_shared<const trained_model>(*kind->as_string(), std::move(inputs), std::move(outputs),
                                                 std::move(chosen), std::move(arrays), std::move(check));
  });
}

std::shared_ptr<const profile> profile_of(const safetensors& file) {
  check_version(file.metadata);
  check_digest(file);
  profile read;
  read.geometry = geometry_of(file.metadata);
  const json descriptions = object_of(file.metadata, "models");
  std::map<std::string, std::map<std::string, shared_array>> of_models;
  for (const auto& [name, array] : file.arrays) {
    const std::size_t point = name.find('.');
    const std::string owner = name.substr(0, point);
    if (!descriptions.find(owner)) refuse(name, name + ": the array belongs to no model");
    of_models[owner].emplace(point == std::string::npos ? "" : name.substr(point + 1), array);
  }
  read.gpu = text(file.metadata, "gpu");
  read.capability = capability_of(file.metadata);
  read.cuda = text(file.metadata, "cuda");
  read.data_hash = text(file.metadata, "data_hash");
  read.metrics = object_of(file.metadata, "metrics");
  for (const auto& [name, description] : *descriptions.as_object()) {
    read.models.emplace(name, model_of(name, description, std::move(of_models[name])));
  }
  return std::make_shared<const profile>(std::move(read));
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// Files of a folder that are called like profiles, by name; none if there is no such folder.
std::vector<std::filesystem::path> candidates_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; entry != end; entry.increment(ignored)) {
    if (entry->path().filename().string().ends_with(".safetensors")) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::shared_ptr<const profile> load_profile(const std::filesystem::path& path) {
  const safetensors file = read_safetensors(path);
  return with_prefix(path.string(), [&] { return profile_of(file); });
}

std::vector<profile_file> list_profiles(std::span<const std::filesystem::path> folders,
                                        std::vector<std::string>& left_out) {
  std::vector<profile_file> listed;
  for (const std::filesystem::path& folder : folders) {
    for (const std::filesystem::path& path : candidates_in(folder)) {
      try {
        const text_map metadata = read_safetensors_metadata(path);
        with_prefix(path.string(), [&] {
          check_version(metadata);
          listed.push_back({path, text(metadata, "gpu"), capability_of(metadata)});
        });
      } catch (const error& e) {
        left_out.emplace_back(e.what());
      } catch (const std::filesystem::filesystem_error& e) {
        left_out.emplace_back(e.path1().string() + ": " + e.code().message());
      }
    }
  }
  return listed;
}

namespace {

// A name without its maker, and with letters and digits alone, in lower case.
std::string model_of(const std::string& name) {
  std::string kept;
  for (const char c : lower(name)) {
    if (std::isalnum(static_cast<unsigned char>(c))) kept += c;
  }
  const std::string maker = "nvidia";
  return kept.find(maker) == 0 && kept.size() > maker.size() ? kept.substr(maker.size()) : kept;
}

}  // namespace

// Whether training scored the choices of a profile on another GPU too ("elsewhere" in its metrics).
static bool scored_on(const profile& of, const std::string& gpu) {
  const json* const selectors = of.metrics.find("selectors");
  const json::object* const members = selectors ? selectors->as_object() : nullptr;
  return members && std::any_of(members->begin(), members->end(), [&](const json::member& selector) {
           const json* const elsewhere = selector.value.find("elsewhere");
           return elsewhere && elsewhere->find(gpu);
         });
}

std::optional<found_profile> find_profile(const std::string& gpu, std::optional<compute_capability> capability,
                                          std::span<const std::filesystem::path> folders,
                                          std::vector<std::string>& left_out) {
  const std::vector<profile_file> listed = list_profiles(folders, left_out);
  for (const profile_file& file : listed) {
    if (lower(file.gpu) == lower(gpu)) return found_profile{load_profile(file.path), file.path, ""};
  }
  if (!capability) {  // as somebody wrote it: "h200", or the name of the file
    for (const profile_file& file : listed) {
      if (model_of(file.gpu) == model_of(gpu) || model_of(file.path.stem().string()) == model_of(gpu)) {
        return found_profile{load_profile(file.path), file.path, ""};
      }
    }
  }
  if (!capability || listed.empty()) return std::nullopt;
  const auto distance = [&](const profile_file& file) {
    return std::pair(std::abs(file.capability.major - capability->major),
                     std::abs(file.capability.minor - capability->minor));
  };
  const profile_file& nearest = *std::min_element(
      listed.begin(), listed.end(), [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  std::shared_ptr<const profile> loaded = load_profile(nearest.path);
  const bool scored = scored_on(*loaded, gpu);
  return found_profile{std::move(loaded), nearest.path,
                       "no profile of " + gpu + ": predictions are for " + nearest.gpu +
                           (scored ? ", whose choices were scored on this GPU" : ""),
                       scored};
}

}  // namespace warploom
