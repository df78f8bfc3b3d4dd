// Names, arrays and settings of Python as the core's, shared by what binds models, profiles and selectors.
#pragma once

#include <string>
#include <vector>

#include "common.hpp"
#include "warploom/kernels/product.hpp"
#include "warploom/profile.hpp"

namespace warploom::python {

// An array that the core keeps alive, as NumPy sees it: not to be written to.
py::array to_numpy(const shared_array& array);

// An array of Python that lives as long as the core needs it. Throws error_kind::profile for another type than int32,
// float32 and float64, and for what is not contiguous and aligned.
shared_array share(const std::string& name, const py::array& array);

}  // namespace warploom::python
