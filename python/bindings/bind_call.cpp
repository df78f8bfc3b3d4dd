// The fast path of a product: operands that are what a plan works on, read and multiplied without a step in Python.
//
// It takes an operand only if nothing needs to be converted, copied or refused, and returns NotImplemented for all
// others: the complete path (Plan._multiply in plan.py) then copies them or says what is wrong with them. Whatever is
// taken here, the complete path would take too, with the same result.
#include "common.hpp"
#include "enqueueing.hpp"
#include "operands.hpp"
#include "warploom/plan.hpp"

namespace warploom::python {
namespace {

void multiply(plan& planned, enqueueing& turns, const operand& B, const operand& C, CUstream_st* stream) {
  const layout order = planned.order();
  const dense_view B_view{B.data, B.shape[0], B.shape[1], leading_dimension(B, order)};
  const dense_view C_view{C.data, C.shape[0], C.shape[1], leading_dimension(C, order)};
  const one_at_a_time turn(turns);
  if (B.device != host) {
    planned.multiply(B_view, C_view, stream);
  } else {
    const py::gil_scoped_release release;  // a thread that waits for another one must not hold it
    planned.multiply_on_host(B_view, C_view);
  }
}

// Whether the plan works on an operand of so many rows as it is.
bool fits(const plan& planned, const operand& seen, std::int64_t rows) {
  if (seen.shape[0] != rows || rows < 1 || seen.shape[1] < 1 || seen.shape[1] >= std::int64_t{1} << 31) return false;
  if (planned.op() == operation::spmv && seen.shape[1] != 1) return false;
  if (!is_aligned(seen, planned.dtype())) return false;
  if (seen.device != host && seen.device != planned.device()) return false;
  return leading_dimension(seen, planned.order()) > 0;
}

// The product, or nothing where the complete path is to be taken. An empty object with an exception set is an error.
py::object call(plan& planned, enqueueing& turns, PyObject* B, PyObject* out) {
  const value_type dtype = planned.dtype();
  const framework kind = framework_of(Py_TYPE(B));
  operand B_seen;
  if (!view(kind, B, dtype, purpose::read, B_seen) || !fits(planned, B_seen, planned.num_cols())) return decline();
  const bool on_gpu = B_seen.device != host;
  // CuPy allocates on the current device.
  if (kind == framework::cupy && (!on_gpu || current_device() != planned.device())) return decline();
  CUstream_st* stream = nullptr;
  if (on_gpu && !find_stream(kind, planned.device(), stream)) return decline();

  operand C_seen;
  const auto takes = [&](PyObject* C, purpose use) {
    return framework_of(Py_TYPE(C)) == kind && view(kind, C, dtype, use, C_seen) &&
           fits(planned, C_seen, planned.num_rows()) && C_seen.ndim == B_seen.ndim && C_seen.device == B_seen.device &&
           C_seen.shape[1] == B_seen.shape[1];
  };
  py::object result;
  if (out != Py_None) {
    if (!takes(out, purpose::write) || !apart(B_seen, C_seen, dtype)) return decline();
    result = py::reinterpret_borrow<py::object>(out);
  } else {
    operand wanted;
    wanted.ndim = B_seen.ndim;
    wanted.shape = {planned.num_rows(), B_seen.shape[1]};
    result = make_result(kind, B, wanted, planned.order(), dtype);
    if (!result) return {};
    if (!takes(result.ptr(), purpose::fresh)) return decline();  // it has no rows, or a mode made something else
  }
  multiply(planned, turns, B_seen, C_seen, stream);
  return result;
}

// ---- What Python calls

// The plan, and the object that owns both.
struct called_plan {
  py::object owner;
  plan* planned;
  enqueueing* turns;
};

constexpr const char* capsule_name = "warploom.fast_path";

PyObject* call_fast_path(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "fast_path takes B and out");
    return nullptr;
  }
  const auto* const called = static_cast<const called_plan*>(PyCapsule_GetPointer(self, capsule_name));
  if (called == nullptr) return nullptr;
  return as_builtin([&] { return call(*called->planned, *called->turns, arguments[0], arguments[1]); });
}

PyMethodDef fast_path_definition = {
    "fast_path", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call_fast_path)), METH_FASTCALL,
    "fast_path(B, out): C = A B if the plan works on B and out as they are, else NotImplemented."};

}  // namespace

py::function make_fast_path(py::object owner, plan& planned, enqueueing& turns) {
  const py::capsule self(new called_plan{std::move(owner), &planned, &turns}, capsule_name, [](PyObject* capsule) {
    delete static_cast<called_plan*>(PyCapsule_GetPointer(capsule, capsule_name));
  });
  return make_builtin(fast_path_definition, self);
}

}  // namespace warploom::python
