// Which of the compiled tables this processor can run.
#include "ops.h"

namespace seer {

extern const OpsTable ops_baseline;
#if defined(SEER_X86)
extern const OpsTable ops_avx2;
extern const OpsTable ops_avx512;
extern const OpsTable ops_avx512_bf16;
#endif

std::vector<const OpsTable*> supported_ops() {
  std::vector<const OpsTable*> tables;
#if defined(SEER_X86)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) tables.push_back(&ops_avx512_bf16);
  if (avx512) tables.push_back(&ops_avx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables.push_back(&ops_avx2);
#endif
  tables.push_back(&ops_baseline);
  return tables;
}

}  // namespace seer
