// Choosing a candidate by the models of a profile: from features of a matrix to candidates in the order in which they
// are worth taking.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "warploom/features.hpp"
#include "warploom/kernels/product.hpp"
#include "warploom/profile.hpp"

namespace warploom {

// What a model that chooses is for.
struct setting {
  operation op = operation::spmm;
  value_type dtype = value_type::float32;
  layout order = layout::row_major;  // of no meaning for SpMV
  cache_state cache = cache_state::warm;

  std::string name() const;  // "spmm-float32-row-warm", "spmv-float64-cold"
};

// Products with one preparation, if they are so many that the preparation does not matter.
inline constexpr double many_calls = std::numeric_limits<double>::infinity();

// What is expected of all candidates that a model knows.
struct ranking {
  std::shared_ptr<const std::vector<std::string>> candidates;
  std::vector<double> scores;  // compressed logarithms of the time over the least time
  std::vector<double> times_us;
  std::vector<double> preparation_ms;
  std::vector<double> totals_us;     // preparation and products together, per product
  std::vector<std::size_t> order;    // candidates, best first
  std::vector<std::size_t> fastest;  // the same, by their scores alone
  double calls = many_calls;         // products with one preparation
  double least_us = 0;               // the least time
  double margin = 0;                 // scores within it of the least one belong to the short list
  double share_of_network = 0;       // by how much the predictions of a network count in these, from 0 to 1
  double expected_loss = 0;          // what the time of the first is expected to be above the least, as a share of it
  bool unsure = false;  // whether the models may be far off: sizes are outside, or the expected loss is too high
  // Profiles that say how much doubt is too much: see `choice::doubt`.
  double most_doubt = std::numeric_limits<double>::infinity();
  std::string outside;  // what of the problem is far larger or smaller than any that was measured, or empty

  // Fills in what follows from the other members: times, totals and orders.
  void complete();
};

// A ranking of which some candidates may not be taken. Whether one may is asked once at most, and only where the answer
// matters: it can take longer than the ranking. Candidates are given by their position in the ranking.
class choice {
 public:
  using predicate = std::function<bool(const std::string& candidate)>;

  explicit choice(std::shared_ptr<const ranking> ranked, predicate among = {});

  const ranking& ranked() const { return *ranked_; }
  const std::string& name(std::size_t candidate) const { return (*ranked_->candidates)[candidate]; }
  bool may_be_taken(std::size_t candidate);

  // The best one that may be taken, or nothing.
  std::optional<std::size_t> first();

  // The best one that may be taken of those after the first `passed` of the order; `passed` grows to include it.
  std::optional<std::size_t> next(std::size_t& passed);

  // All that may be taken, best first.
  std::vector<std::size_t> all();

  // The expected loss, as a logarithm, times how many others of the first six are predicted to be near the first. Both
  // say little alone: what is lost by a choice depends on how hard the matrix is and on how close the others are.
  double doubt();

  // Whether that or the expected loss is more than may go unmeasured: for at most three in ten training matrices.
  bool unsure();

  // Those that may be as fast as the fastest: for 19 in 20 unsure held-out matrices one of these is.
  std::vector<std::size_t> shortlist();

  // The best one of another kernel than that of the first; nothing if there is none.
  std::optional<std::size_t> first_of_another_kernel();

 private:
  std::shared_ptr<const ranking> ranked_;
  predicate among_;
  std::vector<signed char> answers_;  // -1: not asked yet
};

class selector {
 public:
  // Throws error_kind::profile if the profile has no models that choose, or lacks what belongs to them.
  //
  // `networks`, if there is one, is the profile of networks that were trained on the same measurements for the same
  // GPU; one of others is not used. What it says under "blend" in its metrics is by how much its predictions count
  // beside those of `from`, by setting: predicted logarithms are averaged. Other settings are those of `from` alone.
  explicit selector(std::shared_ptr<const profile> from, std::shared_ptr<const profile> networks = nullptr);
  ~selector();
  selector(selector&&) noexcept;
  selector& operator=(selector&&) noexcept;

  // Settings that models choose for, in alphabetical order.
  std::vector<std::string> names() const;
  bool knows(const setting& of) const;

  // Whether the better of the models for the setting reads the features of SpMM too, those of column vectors, and those
  // of locality.
  bool needs_spmm_features(const setting& of) const;
  bool needs_column_vectors(const setting& of) const;
  bool needs_locality(const setting& of) const;
  // Whether there is a model that does without them, and what share of its losses the better one spares.
  bool knows_quick(const setting& of) const;
  double loss_spared(const setting& of) const;
  // What computing them takes on the profile's GPU, in milliseconds; infinite if it is not known.
  double spmm_features_ms(const matrix_features& features) const;

  // Without features that the better model reads, by the model that does without them if there is one. Throws
  // error_kind::parameter if there is no model for the setting, features are missing, or `calls` is not above 0.
  ranking rank(const matrix_features& features, std::int64_t k, const setting& of, double calls = many_calls) const;

  // The inputs that a decision depends on most, the most important first: those whose change by one, which for
  // logarithms is a factor of two, changes most what candidate `chosen` gains over `other`, by their positions in the
  // ranking.
  std::vector<std::string> deciding_inputs(const matrix_features& features, std::int64_t k, const setting& of,
                                           std::size_t chosen, std::size_t other, std::size_t count = 5) const;

 private:
  struct known;
  // Positions in known_ for a setting, or -1: of the better model, and of the one that reads row lengths only.
  struct places {
    int best = -1;
    int quick = -1;
  };
  const places& places_of(const setting& of) const;
  const known& find(const setting& of) const;
  const known& find(const setting& of, const matrix_features& features) const;

  std::shared_ptr<const profile> profile_;
  std::shared_ptr<const profile> networks_;  // or null
  std::vector<known> known_;                 // by name
  std::vector<places> places_;               // by the members of a setting: a plan asks several times
  const trained_model* features_cost_ = nullptr;
};

}  // namespace warploom
