// Picks the table of the best instruction set this processor has.
#include <cstdlib>
#include <cstring>

#include "ops.h"

namespace seer {

extern const OpsTable ops_baseline;
#if defined(SEER_X86)
extern const OpsTable ops_avx2;
extern const OpsTable ops_avx512;
extern const OpsTable ops_avx512_bf16;
#endif

const OpsTable& select_ops() {
#if defined(SEER_X86)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return ops_avx512_bf16;
  if (avx512) return ops_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return ops_avx2;
#endif
  return ops_baseline;
}

}  // namespace seer
