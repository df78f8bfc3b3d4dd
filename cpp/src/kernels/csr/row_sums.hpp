// The innermost loops of SpMV on CSR rows on the CPU, in the widest instructions that the processor has.
#pragma once

#include <cstdint>

#include "warploom/csr_view.hpp"

namespace warploom {

// Rows in the order in which they are stored. Row p has the nonzeros indptr[p] .. indptr[p+1] and its sum becomes
// y[row_ids[p]], or y[p] if `row_ids` is null.
template <class Value, class Offset>
struct csr_rows_view {
  const Offset* indptr;
  const std::int32_t* indices;
  const Value* values;
  const std::int32_t* row_ids;
};

// The sums of the rows begin .. end. The order in which a row is added up depends on its length and on the processor
// alone.
template <class Value, class Offset>
using row_sums_function = void (*)(const csr_rows_view<Value, Offset>& rows, std::int64_t begin, std::int64_t end,
                                   const Value* x, Value* y);

// Where most rows are as long as the one before and short, the processor predicts where they end, and one product after
// the other is fastest, as it is where very short rows read a large x at random; elsewhere vectors are.
enum class row_lengths_are { irregular, regular };

row_lengths_are regularity(const csr_pattern& matrix);

template <class Value, class Offset>
row_sums_function<Value, Offset> row_sums_for_this_cpu(row_lengths_are lengths = row_lengths_are::irregular);

}  // namespace warploom
