// The features of a random 96 x 200 matrix with 576 nonzeros.
#pragma once

#include "warploom/features.hpp"

namespace warploom::test {

inline matrix_features example_features() {
  return {
      {96.0, 200.0, 576.0, 0.03, 1.0, 11.0, 6.0, 4.833333333333333, 5.0, 2.449489742783178, 0.36641405439646996},
      {96.0, 200.0,   0.03, 1.0, 6.0,  11.0, 1.0, 3.8333333333333335, 6.0, 3.0, 3.0, 3.0, 13.0, 52.57142857142857, 67.0,
       5.0,  6.03125, 7.0,  8.0, 11.5, 15.0, 1.0, 3.210526315789474,  6.0},
      {0.875, 0.140625, 0.75, 0.0, 0.75, 0.0859375, 0.5, 0.25},
      {0.375}};
}

}  // namespace warploom::test
