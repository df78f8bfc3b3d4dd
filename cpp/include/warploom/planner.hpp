// Planning: from a validated matrix and what is wanted to a prepared plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "warploom/candidate.hpp"
#include "warploom/plan.hpp"
#include "warploom/profile.hpp"

namespace warploom {

// Called before each candidate that is measured with how many are done, how many there are, and its name.
using progress_function = std::function<void(std::int64_t done, std::int64_t total, const std::string& name)>;

// A product of somebody else's in the memory of the host, such as SciPy's: candidates on the CPU are compared with it.
struct compared_product {
  std::string name;
  std::shared_ptr<product_plan> product;
};

// Seconds that measuring takes at most, unless the caller says otherwise.
inline constexpr double default_budget = 2;

// Products that a plan is expected to be used for, unless the caller knows better.
inline constexpr double default_calls = 1000;

// What measuring on a CPU is to take of the time of all products, unless the caller says otherwise. Four times as much
// where what was found is slower than what it is compared with.
inline constexpr double measured_share_of_calls = 0.05;

struct plan_options {
  // "predict": what models trained on measurements say is fastest; where they are unsure, the few candidates that may
  // be are measured. "measure": every candidate is prepared, checked and timed. "auto": predict where there is a
  // profile for the GPU. Or the name of a candidate.
  std::string select = "auto";
  double calls = default_calls;  // products that share one preparation; infinite: it does not count
  bool verify = false;           // measure a predicted choice against the vendor's kernels
  name_patterns patterns;        // only candidates whose name matches
  kernel_inputs inputs;          // of a candidate that is named
  // Seconds for measuring all candidates: the most promising come first, and those that there is no time for are left
  // out. One at least is measured, however long it takes. Infinite: all of them. Unless it is given, default_budget;
  // and where "auto" measures on a CPU, without patterns, measured_share_of_calls of what `calls` products take, if
  // that is less.
  std::optional<double> budget;
  // Whether the CPU may multiply small operands in host memory, where that is quicker than a GPU with its transfers. By
  // default unless a candidate is named.
  std::optional<bool> small_on_host;
  std::vector<compared_product> compared;  // the first is the baseline, on the CPU
  progress_function progress;
};

struct prediction_source;

// Where the profiles lie that were installed with the library: its CMake target says so to the programs that use it.
#ifndef WARPLOOM_PROFILE_FOLDER
#define WARPLOOM_PROFILE_FOLDER ""
#endif

// Where profiles are looked for: WARPLOOM_PROFILES if it is set, else warploom/profiles in the user's configuration
// folder (XDG_CONFIG_HOME); then those that were installed with the library.
std::vector<std::filesystem::path> default_profile_folders(
    const std::filesystem::path& installed = WARPLOOM_PROFILE_FOLDER);

// Knows profiles, the user's own before those that ship. Safe to use from several threads.
class planner {
 public:
  // Folders with profiles, the ones that come first first; most programs give default_profile_folders(). With `blend`,
  // the networks in their folders "network" count too where families left out say that this is better.
  explicit planner(std::vector<std::filesystem::path> profile_folders, bool blend = true);
  ~planner();

  // Throws error_kind::parameter for an unknown name, patterns that match nothing, or a candidate that cannot run the
  // problem; `argument` says which.
  std::unique_ptr<plan> make(const problem& given, const plan_options& options = {});

  // What would be chosen on a GPU that need not be there. The problem is on the CPU.
  explanation predict(const problem& given, const std::string& gpu, const plan_options& options = {});

  // Profiles that were left out because they are damaged, said once.
  std::vector<std::string> take_warnings();

 private:
  std::unique_ptr<plan> choose(const problem& given, const plan_options& options);
  std::shared_ptr<const prediction_source> source_for_gpu(const std::string& name,
                                                          const compute_capability* capability);
  std::shared_ptr<const prediction_source> source_for(const problem& given);

  std::vector<std::filesystem::path> folders_;
  std::vector<std::filesystem::path> network_folders_;
  std::mutex loading_;
  std::map<std::string, std::shared_ptr<const prediction_source>> known_;  // by GPU
  std::map<int, std::shared_ptr<const prediction_source>> of_device_;      // by number
  std::vector<std::string> warnings_;
};

}  // namespace warploom
