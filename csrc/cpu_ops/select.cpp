// Which of the compiled tables this processor can run.
#include "ops.h"

#if defined(SEER_AMX)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace seer {

extern const OpsTable ops_baseline;
#if defined(SEER_X86)
extern const OpsTable ops_avx2;
extern const OpsTable ops_avx512;
extern const OpsTable ops_avx512_bf16;
#endif
#if defined(SEER_AMX)
extern const OpsTable ops_amx;

namespace {

// Whether this process may use AMX tiles of bfloat16. Linux gives the memory for their state only
// to a process that has asked (Documentation/arch/x86/xstate.rst); a refusal is no error.
bool has_amx() {
  constexpr unsigned kTile = 1u << 24;
  constexpr unsigned kBFloat16 = 1u << 22;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kTile) == 0 || (edx & kBFloat16) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace
#endif

std::vector<const OpsTable*> supported_ops() {
  std::vector<const OpsTable*> tables;
#if defined(SEER_X86)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool bfloat16 = avx512 && __builtin_cpu_supports("avx512bf16");
#if defined(SEER_AMX)
  static const bool amx = bfloat16 && has_amx();
  if (amx) tables.push_back(&ops_amx);
#endif
  if (bfloat16) tables.push_back(&ops_avx512_bf16);
  if (avx512) tables.push_back(&ops_avx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables.push_back(&ops_avx2);
#endif
  tables.push_back(&ops_baseline);
  return tables;
}

}  // namespace seer
