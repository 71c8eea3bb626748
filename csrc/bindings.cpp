// The only file that knows Python. Addresses come as integers: a tensor's `data_ptr()` costs a
// tenth of what handing over the tensor does, and a decode step makes some 120 of these calls.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cpu_ops/ops.h"

namespace nb = nanobind;

namespace {

using Address = uintptr_t;

template <typename T = void>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (const auto* table : seer::supported_ops()) names.emplace_back(table->name);
  return names;
}

const seer::OpsTable& find_ops(const std::string& isa) {
  for (const auto* table : seer::supported_ops()) {
    if (isa == table->name) return *table;
  }
  throw std::invalid_argument("this processor cannot run " + isa);
}

// One model on one CPU instance: the constants of every call.
class CpuOps {
 public:
  CpuOps(const std::string& isa, bool bfloat16, int num_heads, int num_kv_heads, int head_dim,
         float scale, float eps)
      : ops_(find_ops(isa)),
        dtype_(bfloat16 ? seer::DType::kBFloat16 : seer::DType::kFloat32),
        shape_{num_heads, num_kv_heads, head_dim, scale, eps},
        eps_(eps) {
    if (head_dim % 16 != 0 || head_dim > 512) {
      throw std::invalid_argument("head_dim must be a multiple of 16, at most 512");
    }
  }

  void add_rms_norm(int rows, int dim, Address x, Address residual, Address weight,
                    Address out) const {
    ops_.add_rms_norm(dtype_, rows, dim, at(x), at(residual), at(weight), eps_, at(out));
  }

  void set_batch(int num_rows, int num_seqs, Address positions, Address slots, Address seen,
                 Address also_seen, Address row_seq, Address query_start, Address block_table,
                 int table_stride) {
    batch_ = {num_rows,
              num_seqs,
              at<const int32_t>(positions),
              at<const int32_t>(slots),
              at<const int32_t>(seen),
              at<const int32_t>(also_seen),
              at<const int32_t>(row_seq),
              at<const int32_t>(query_start),
              at<const int32_t>(block_table),
              table_stride};
  }

  void attend(Address kv_base, int64_t block_stride, Address qkv, Address rope, Address q_norm,
              Address k_norm, Address out) const {
    ops_.attend(dtype_, shape_, batch_, {at(kv_base), block_stride}, at(qkv), at<float>(rope),
                at(q_norm), at(k_norm), at(out));
  }

  void silu_mul(int rows, int dim, Address gate_up, Address out) const {
    ops_.silu_mul(dtype_, rows, dim, at(gate_up), at(out));
  }

  void move_tokens(Address memory, int64_t block_stride, int64_t layer_stride, int num_layers,
                   int count, Address moves) const {
    ops_.move_tokens(dtype_, shape_, at(memory), block_stride, layer_stride, num_layers, count,
                     at<const int32_t>(moves));
  }

  void sample(int rows, int vocab, Address logits, Address how, bool raw, Address tokens,
              Address logprobs) const {
    ops_.sample(dtype_, rows, vocab, at(logits), at<const seer::SampleRow>(how), raw,
                at<int32_t>(tokens), at<float>(logprobs));
  }

 private:
  const seer::OpsTable& ops_;
  seer::DType dtype_;
  seer::AttentionShape shape_;
  float eps_;
  seer::BatchLayout batch_{};
};

}  // namespace

NB_MODULE(_cpu_ops, m) {
  m.attr("BLOCK_TOKENS") = seer::kBlockTokens;
  m.attr("SAMPLE_ROW_BYTES") = sizeof(seer::SampleRow);
  m.def("supported_isas", &supported_isas);
  const auto nogil = nb::call_guard<nb::gil_scoped_release>();
  nb::class_<CpuOps>(m, "CpuOps")
      .def(nb::init<const std::string&, bool, int, int, int, float, float>(), nb::arg("isa"),
           nb::arg("bfloat16"), nb::arg("num_heads"), nb::arg("num_kv_heads"),
           nb::arg("head_dim"), nb::arg("scale"), nb::arg("eps"))
      .def("add_rms_norm", &CpuOps::add_rms_norm)
      .def("set_batch", &CpuOps::set_batch)
      .def("attend", &CpuOps::attend, nogil)
      .def("silu_mul", &CpuOps::silu_mul)
      .def("move_tokens", &CpuOps::move_tokens)
      .def("sample", &CpuOps::sample, nogil);
}
