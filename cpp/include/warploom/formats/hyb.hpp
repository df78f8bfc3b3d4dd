// Hybrid (Bell and Garland 2009): the first `width` entries of every row in ELL, the remaining ones of longer rows in
// COO.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "warploom/csr_view.hpp"
#include "warploom/formats/coo.hpp"
#include "warploom/formats/csr.hpp"
#include "warploom/formats/ell.hpp"

namespace warploom {

struct hyb_matrix {
  std::int64_t num_rows = 0;
  std::int64_t num_cols = 0;
  value_type dtype = value_type::float32;
  ell_matrix ell;
  coo_matrix coo;

  std::int64_t nnz() const { return ell.nnz() + coo.nnz(); }
  std::int64_t places() const { return ell.places() + coo.places(); }
  std::size_t bytes() const { return ell.bytes() + coo.bytes(); }
  std::vector<format_field> fields() const;
};

// The split of Bell and Garland: the largest width that max(a third of the rows, 4096) rows or more fill. A matrix with
// fewer rows than that is stored at the width that a third of its rows fill.
std::int64_t hyb_width(const csr_pattern& matrix);

// `width` entries of every row go to ELL; 0: as many as hyb_width gives. Throws error_kind::parameter if it is
// negative.
hyb_matrix to_hyb(const csr_view& matrix, std::int64_t width = 0);
csr_matrix to_csr(const hyb_matrix& matrix);

}  // namespace warploom
