#include "kernels/row_split/row_loads.hpp"

#include <atomic>

namespace warploom {
namespace {

std::atomic<row_loads> chosen{row_loads::by_size};

}  // namespace

void choose_row_loads(row_loads when) { chosen = when; }

row_loads chosen_row_loads() { return chosen; }

}  // namespace warploom
