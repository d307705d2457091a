/* Vectors of 16 bytes. The header is the compiler's own. */
#ifndef INSITU_ISA_V128_INTRINSICS_H
#define INSITU_ISA_V128_INTRINSICS_H

#include <wasm_simd128.h>

#endif
