// Choosing by the models of a profile.
#include <pybind11/functional.h>

#include <cmath>
#include <string>

#include "models.hpp"
#include "warploom/error.hpp"
#include "warploom/selector.hpp"

namespace warploom::python {
namespace {

using values = py::array_t<double, int{py::array::c_style} | int{py::array::forcecast}>;

std::vector<double> vector_of(const values& array) { return {array.data(), array.data() + array.size()}; }

matrix_features make_features(const values& spmv, const std::optional<values>& spmm,
                              const std::optional<values>& column_vectors, const std::optional<values>& locality) {
  const auto taken = [](const std::optional<values>& of) { return of ? vector_of(*of) : std::vector<double>{}; };
  return {vector_of(spmv), taken(spmm), taken(column_vectors), taken(locality)};
}

// The value among those with a name.
template <class Value>
Value parse(const char* argument, const std::string& name, std::initializer_list<std::pair<const char*, Value>> known) {
  std::string all;
  for (const auto& [known_name, value] : known) {
    if (name == known_name) return value;
    if (!all.empty()) all += ", ";
    all += known_name;
  }
  throw error(error_kind::parameter, argument, -1,
              "unknown " + std::string(argument) + " '" + name + "'; known are: " + all);
}

setting make_setting(const std::string& op, const std::string& dtype, const std::string& layout_name,
                     const std::string& cache) {
  setting made;
  made.op = parse<operation>("op", op, {{"spmm", operation::spmm}, {"spmv", operation::spmv}});
  made.dtype = parse<value_type>("dtype", dtype,
                                 {{"float16", value_type::float16},
                                  {"bfloat16", value_type::bfloat16},
                                  {"float32", value_type::float32},
                                  {"float64", value_type::float64}});
  if (made.op == operation::spmm) {
    made.order = parse<layout>("layout", layout_name, {{"row", layout::row_major}, {"column", layout::column_major}});
  }
  made.cache = parse<cache_state>("cache", cache, {{"warm", cache_state::warm}, {"cold", cache_state::cold}});
  return made;
}

struct prediction {
  std::string candidate;
  double time_us;
  double preparation_ms;
  double total_us;
  bool operator==(const prediction&) const = default;
};

prediction predicted(const choice& self, std::size_t candidate) {
  const ranking& all = self.ranked();
  return {self.name(candidate), all.times_us[candidate], all.preparation_ms[candidate], all.totals_us[candidate]};
}

std::size_t first_of(choice& self) {
  const std::optional<std::size_t> first = self.first();
  if (first) return *first;
  throw error(error_kind::parameter, "among", -1, "none of the candidates that the profile knows may be taken");
}

py::tuple ranked(choice& self) {
  py::list found;
  for (const std::size_t candidate : self.all()) found.append(predicted(self, candidate));
  return py::tuple(found);
}

py::tuple shortlist(choice& self) {
  py::list found;
  for (const std::size_t candidate : self.shortlist()) found.append(self.name(candidate));
  return py::tuple(found);
}

// Names in the order of the ranking; whether one may be taken is asked as it is reached.
struct name_iterator {
  std::shared_ptr<choice> of;
  std::size_t passed = 0;
};

std::string next_name(name_iterator& self) {
  const std::optional<std::size_t> candidate = self.of->next(self.passed);
  if (!candidate) throw py::stop_iteration();
  return self.of->name(*candidate);
}

std::shared_ptr<choice> make_choice(std::vector<std::string> candidates, const values& scores, double least_us,
                                    const values& preparation_ms, std::optional<double> calls,
                                    std::optional<choice::predicate> among, double expected_loss, bool unsure,
                                    double margin, std::string outside) {
  ranking all;
  all.candidates = std::make_shared<const std::vector<std::string>>(std::move(candidates));
  all.scores = vector_of(scores);
  all.preparation_ms = vector_of(preparation_ms);
  if (all.scores.size() != all.candidates->size() || all.preparation_ms.size() != all.scores.size()) {
    throw error(error_kind::shape, "scores", -1, "one score and one time of preparation for each candidate");
  }
  all.calls = calls.value_or(many_calls);
  all.least_us = least_us;
  all.margin = margin;
  all.expected_loss = expected_loss;
  all.unsure = unsure;
  all.outside = std::move(outside);
  all.complete();
  return std::make_shared<choice>(std::make_shared<const ranking>(std::move(all)), std::move(among).value_or(nullptr));
}

std::shared_ptr<choice> choose(const selector& self, const matrix_features& features, const std::string& op,
                               std::int64_t k, const std::string& dtype, const std::string& layout_name,
                               std::optional<double> calls, const std::string& cache,
                               std::optional<choice::predicate> among) {
  const setting of = make_setting(op, dtype, layout_name, cache);
  auto found = std::make_shared<const ranking>(self.rank(features, k, of, calls.value_or(many_calls)));
  return std::make_shared<choice>(std::move(found), std::move(among).value_or(nullptr));
}

std::vector<std::string> deciding_inputs(const selector& self, const matrix_features& features, choice& made,
                                         const std::string& op, std::int64_t k, const std::string& dtype,
                                         const std::string& layout_name, const std::string& cache, std::size_t count) {
  const setting of = make_setting(op, dtype, layout_name, cache);
  const std::size_t chosen = first_of(made);
  const std::optional<std::size_t> other = made.first_of_another_kernel();
  if (!other) return {};
  return self.deciding_inputs(features, k, of, chosen, *other, count);
}

void bind_choice(py::module_& module) {
  py::class_<prediction>(module, "Prediction", "What is expected of one candidate.")
      .def_readonly("candidate", &prediction::candidate)
      .def_readonly("time_us", &prediction::time_us, "Of a product.")
      .def_readonly("preparation_ms", &prediction::preparation_ms)
      .def_readonly("total_us", &prediction::total_us, "Preparation and products together, per product.")
      .def("__eq__",
           [](const prediction& self, const py::object& other) {
             return py::isinstance<prediction>(other) && self == other.cast<const prediction&>();
           })
      .def("__hash__", [](const prediction& self) { return std::hash<std::string>()(self.candidate); });
  py::class_<name_iterator>(module, "CandidateNames")
      .def("__iter__", [](const name_iterator& self) { return self; })
      .def("__next__", &next_name);
  py::class_<choice, std::shared_ptr<choice>>(module, "Choice",
                                              "Candidates in the order in which they are worth taking.")
      .def(py::init(&make_choice), py::kw_only(), py::arg("candidates"), py::arg("scores"), py::arg("least_us"),
           py::arg("preparation_ms"), py::arg("calls").none(true), py::arg("among").none(true),
           py::arg("expected_loss"), py::arg("unsure"), py::arg("margin"), py::arg("outside") = "")
      .def_property_readonly(
          "candidate", [](choice& self) { return self.name(first_of(self)); }, "The first one.")
      .def_property_readonly("ranked", &ranked, "All that may be taken, best first.")
      .def_property_readonly("shortlist", &shortlist, "Candidates that may be as fast as the fastest.")
      .def(
          "names", [](std::shared_ptr<choice> self) { return name_iterator{std::move(self)}; },
          "Those that may be taken, best first.")
      .def(
          "prediction", [](choice& self) { return predicted(self, first_of(self)); }, "What is expected of the first.")
      .def_property_readonly("scores",
                             [](const choice& self) {
                               return py::array_t<double>(static_cast<py::ssize_t>(self.ranked().scores.size()),
                                                          self.ranked().scores.data());
                             })
      .def_property_readonly("candidates",
                             [](const choice& self) { return py::tuple(py::cast(*self.ranked().candidates)); })
      .def_property_readonly("least_us", [](const choice& self) { return self.ranked().least_us; })
      .def_property_readonly("margin", [](const choice& self) { return self.ranked().margin; })
      .def_property_readonly("expected_loss", [](const choice& self) { return self.ranked().expected_loss; })
      .def_property_readonly("doubt", &choice::doubt, "The expected loss times how many others are near the first.")
      .def_property_readonly("unsure", &choice::unsure)
      .def_property_readonly(
          "share_of_network", [](const choice& self) { return self.ranked().share_of_network; },
          "By how much the predictions of a network count beside those of trees.")
      .def_property_readonly("outside", [](const choice& self) { return self.ranked().outside; });
}

}  // namespace

void bind_selector(py::module_& module) {
  py::class_<matrix_features>(module, "MatrixFeatures", "The features of a matrix that models read.")
      .def(py::init(&make_features), py::arg("spmv"), py::arg("spmm") = py::none(),
           py::arg("column_vectors") = py::none(), py::arg("locality") = py::none())
      .def_readonly("spmv", &matrix_features::spmv)
      .def_readonly("spmm", &matrix_features::spmm)
      .def_readonly("column_vectors", &matrix_features::column_vectors)
      .def_readonly("locality", &matrix_features::locality);
  bind_choice(module);
  module.def(
      "setting_name",
      [](const std::string& op, const std::string& dtype, const std::string& layout_name, const std::string& cache) {
        return make_setting(op, dtype, layout_name, cache).name();
      },
      py::arg("op"), py::arg("dtype"), py::arg("layout"), py::arg("cache"));
  py::class_<selector>(module, "Selector", "Chooses candidates by the models of a profile.")
      .def(py::init([](std::shared_ptr<profile> from, std::shared_ptr<profile> networks) {
             return std::make_unique<selector>(std::move(from), std::move(networks));
           }),
           py::arg("profile"), py::arg("networks").none(true) = nullptr)
      .def("names", &selector::names, "Settings that models choose for.")
      .def(
          "feature_sets",
          [](const selector& self, const std::string& op, const std::string& dtype, const std::string& layout_name,
             const std::string& cache) {
            const setting of = make_setting(op, dtype, layout_name, cache);
            py::list names;
            if (self.needs_spmm_features(of)) names.append("spmm");
            names.append("spmv");
            if (self.needs_column_vectors(of)) names.append("column_vectors");
            if (self.needs_locality(of)) names.append("locality");
            return py::tuple(names);
          },
          py::arg("op"), py::arg("dtype"), py::arg("layout") = "", py::arg("cache") = "warm",
          "Sets of features that `choose` needs.")
      .def("choose", &choose, py::arg("features"), py::arg("op"), py::arg("k") = 1, py::arg("dtype") = "float32",
           py::arg("layout") = "", py::arg("calls") = py::none(), py::arg("cache") = "warm",
           py::arg("among") = py::none(), "Rank the candidates that the models know.")
      .def("deciding_inputs", &deciding_inputs, py::arg("features"), py::arg("choice"), py::arg("op"), py::arg("k") = 1,
           py::arg("dtype") = "float32", py::arg("layout") = "", py::arg("cache") = "warm", py::arg("count") = 5,
           "The inputs that a choice depends on most.");
}

}  // namespace warploom::python
