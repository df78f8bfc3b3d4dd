// The errors the core raises. The Python bindings turn each kind into the class of the same name in
// warploom.errors, so that a caller can catch "the matrix is malformed" apart from "there is no GPU".
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace warploom {

enum class error_kind {
  invalid_matrix,  // arrays that do not form a CSR matrix
  shape,           // operands whose shapes do not fit
  dtype,           // a value type that is not supported
  index_overflow,  // a size beyond the index type
  parameter,       // an unknown name or a value out of range
  profile,         // a trained model that is damaged, incomplete or of another version
  device,          // no GPU, no driver, no kernel for this GPU, a failed CUDA call
  out_of_memory,   // host or device memory
};

class error : public std::runtime_error {
 public:
  // `argument` names the offending argument; `position` is the first offending position in it, or -1.
  error(error_kind kind, std::string argument, std::int64_t position, const std::string& message)
      : std::runtime_error(message), kind_(kind), argument_(std::move(argument)), position_(position) {}

  error_kind kind() const { return kind_; }
  const std::string& argument() const { return argument_; }
  std::int64_t position() const { return position_; }

 private:
  error_kind kind_;
  std::string argument_;
  std::int64_t position_;
};

}  // namespace warploom
