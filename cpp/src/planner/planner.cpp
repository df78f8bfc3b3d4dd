#include "warploom/planner.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>

#include "planner/host_product.hpp"
#include "planner/measuring.hpp"
#include "planner/predicting.hpp"
#include "warploom/cusparse.hpp"
#include "warploom/error.hpp"
#include "warploom/features.hpp"
#include "warploom/permutation.hpp"
#include "warploom/selector.hpp"

namespace warploom {
namespace {

bool is_unknown(const error& failure) {
  return failure.kind() == error_kind::parameter && failure.argument() == "candidate";
}

}  // namespace

// ---- Profiles

planner::planner(std::vector<std::filesystem::path> profile_folders, bool blend)
    : folders_(std::move(profile_folders)) {
  if (!blend) return;
  for (const std::filesystem::path& folder : folders_) network_folders_.push_back(folder / "network");
}
planner::~planner() = default;

std::vector<std::string> planner::take_warnings() {
  const std::lock_guard<std::mutex> lock(loading_);
  return std::exchange(warnings_, {});
}

std::shared_ptr<const prediction_source> planner::source_for_gpu(const std::string& name,
                                                                 const compute_capability* capability) {
  const std::lock_guard<std::mutex> lock(loading_);
  const std::string key = capability ? name : name + " by name";
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const auto wanted = capability ? std::optional(*capability) : std::nullopt;
  const auto found = find_profile(name, wanted, folders_, warnings_);
  std::shared_ptr<const prediction_source> made;
  if (found) {
    const auto networks = find_profile(found->loaded->gpu, std::nullopt, network_folders_, warnings_);
    selector chooser(found->loaded, networks ? networks->loaded : nullptr);
    made = std::make_shared<const prediction_source>(
        prediction_source{std::move(chooser), found->loaded->gpu, found->note, found->holds_for_gpu});
  }
  if (made) known_[key] = made;  // one may be calibrated later
  return made;
}

std::shared_ptr<const prediction_source> planner::source_for(const problem& given) {
  if (!given.on_gpu()) return nullptr;
  {
    const std::lock_guard<std::mutex> lock(loading_);
    if (const auto found = of_device_.find(given.device); found != of_device_.end()) return found->second;
  }
  const gpu_info gpu = query_cuda().devices.at(given.device);
  const compute_capability capability{gpu.major, gpu.minor};
  std::shared_ptr<const prediction_source> made = source_for_gpu(gpu.name, &capability);
  const std::lock_guard<std::mutex> lock(loading_);
  if (made) of_device_[given.device] = made;
  return made;
}

// ---- Ways of choosing

namespace {

std::unique_ptr<plan> prepare_named(const problem& given, const plan_options& options) {
  try {
    const candidate named = parse_candidate(options.select);
    if (named.kernel->op != given.op) {
      throw error(error_kind::parameter, "candidate", -1,
                  named.name() + " is not a candidate for " + name_of(given.op));
    }
    return prepare_candidate(given, named, options.inputs);
  } catch (const error& failure) {
    if (!is_unknown(failure)) throw;
    throw error(failure.kind(), "select", failure.position(), failure.what());  // as plan_options calls it
  }
}

std::unique_ptr<plan> measure_all(const problem& given, const plan_options& options) {
  constexpr double products_per_repeat = 8;  // as many candidates as there would be time for, preparation aside
  measuring_options limits;
  limits.calls = options.calls;
  limits.budget = options.budget.value_or(default_budget);
  const bool as_called = options.select == "auto" && !given.on_gpu() && !options.patterns && !options.budget;
  if (as_called && std::isfinite(options.calls)) {
    limits.products = measured_share_of_calls * options.calls;
    limits.repeats = static_cast<int>(std::clamp(limits.products / products_per_repeat, 1.0, 30.0));
  }
  if (!given.on_gpu()) limits.compared = options.compared;
  auto session = std::make_shared<measuring>(given, limits);
  session->measure_all(options.patterns, options.progress);
  std::unique_ptr<plan> best = session->take_best();
  const std::int64_t floor_bytes = product_floor_bytes(given.matrix(), given.k, given.dtype());
  best->explain_by([given = given.without_resident(), floor_bytes, rows = session->rows(),
                    chosen = best->chosen().name(), left_out = session->left_out(),
                    lacked_memory = session->lacked_memory(), products = session->products(), limits] {
    explanation found = explain_measurements(given, floor_bytes, rows, chosen, limits.compared);
    found.budget = limits.budget;
    if (std::isfinite(products)) {
      found.calls_of_budget = limits.calls;
      found.share_of_calls = products / limits.calls;
    }
    found.left_out = left_out;
    found.lacked_memory = lacked_memory;
    return found;
  });
  return best;
}

}  // namespace

std::unique_ptr<plan> planner::make(const problem& given, const plan_options& options) {
  const bool named = options.select != "auto" && options.select != "predict" && options.select != "measure";
  std::unique_ptr<plan> planned = choose(given, options);
  if (options.small_on_host.value_or(!named)) planned->multiply_small_on_host(host_product::prepare(given));
  if (!given.updatable) return planned;
  try {
    planned->make_updatable(given, options.inputs);
    return planned;
  } catch (const error& failure) {
    if (failure.kind() != error_kind::out_of_memory || !given.on_gpu() || named || options.patterns) throw;
  }
  // Values of CSR lie in the order in which they come: no other format takes less.
  planned.reset();
  plan_options plain = options;
  plain.patterns = std::vector<std::string>{std::string(name_of(given.op)) + "/none/csr/*"};
  planned = choose(given, plain);
  planned->make_updatable(given, options.inputs);
  return planned;
}

std::unique_ptr<plan> planner::choose(const problem& given, const plan_options& options) {
  validate(given);
  if (!(options.calls > 0)) throw error(error_kind::parameter, "calls", -1, "calls must be a positive number");
  if (options.budget && !(*options.budget > 0))
    throw error(error_kind::parameter, "budget", -1, "budget must be a positive number");
  const bool predict = options.select == "predict";
  if (!predict && options.select != "auto" && options.select != "measure") return prepare_named(given, options);
  if (!options.inputs.empty()) {
    const std::string& name = options.inputs.begin()->first;
    throw error(error_kind::parameter, name, -1, name + " goes with a candidate named in select");
  }
  std::shared_ptr<const prediction_source> from;
  if (options.select != "measure") from = source_for(given);
  if (!from && predict) {
    throw error(error_kind::parameter, "select", -1,
                given.on_gpu() ? "there is no profile for " + query_cuda().devices.at(given.device).name +
                                     ": 'measure', or make one with warploom calibrate"
                               : "predictions are for GPUs, and the plan is for the CPU: 'measure' there, or "
                                 "warploom.predict and --gpu for a GPU that need not be present");
  }
  if (from) return plan_by_prediction(given, from, options);
  try {
    return measure_all(given, options);
  } catch (const error& failure) {
    if (failure.kind() != error_kind::out_of_memory || !given.on_gpu()) throw;
    from = source_for(given);
    if (!from) throw;
    return plan_without_measuring(given, from, options, failure.what());
  }
}

explanation planner::predict(const problem& given, const std::string& gpu, const plan_options& options) {
  validate(given);
  if (!(options.calls > 0)) throw error(error_kind::parameter, "calls", -1, "calls must be a positive number");
  const std::shared_ptr<const prediction_source> from = source_for_gpu(gpu, nullptr);
  if (!from) {
    std::vector<std::string> left_out, names;
    for (const profile_file& file : list_profiles(folders_, left_out)) names.push_back(file.gpu);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw error(error_kind::parameter, "gpu", -1,
                "there is no profile of '" + gpu + "'; known: " + (known.empty() ? "none" : known));
  }
  return explain_by_prediction(given, *from, options);
}

std::vector<std::filesystem::path> default_profile_folders(const std::filesystem::path& installed) {
  std::vector<std::filesystem::path> folders;
  const auto environment = [](const char* name) -> std::filesystem::path {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (const auto own = environment("WARPLOOM_PROFILES"); !own.empty()) {
    folders.push_back(own);
  } else {
    const auto configuration = environment("XDG_CONFIG_HOME");
    folders.push_back((configuration.empty() ? environment("HOME") / ".config" : configuration) / "warploom/profiles");
  }
  if (!installed.empty()) folders.push_back(installed);
  return folders;
}

}  // namespace warploom
