"""Question: as in stream_triton.py, in CUDA C: how many bytes a second move between DRAM and the SMs, by direction?

read   s = sum(b)        4 bytes an element
write  a = f(index)      4
copy   a = b             8
triad  a = b + q c       12
One or more 16-byte accesses per thread, no loop, full grid, streaming cache hints.
Cannot show: bandwidth of strided or random access, or of buffers that fit in a cache.
"""

from __future__ import annotations

from typing import Any

from roofline.kernels import streams
from roofline.kernels.microkernel import Arena, Job, Microkernel, Variant
from roofline.kernels.raw import launcher
from roofline.machine.record import Device

ACCESS = r"""
#if POLICY  // keep what was read for a while and let writes leave at once: DRAM then turns around less often
__device__ __forceinline__ unsigned long long evict_last() {
    unsigned long long p;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p));
    return p;
}
__device__ __forceinline__ unsigned long long evict_first() {
    unsigned long long p;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(p));
    return p;
}
#define LOAD_ASM "ld.global.L1::no_allocate.L2::cache_hint.v4.f32 {%0,%1,%2,%3}, [%4], %5;"
#define LOAD_POLICY , "l"(evict_last())
#define STORE_ASM "st.global.L2::cache_hint.v4.f32 [%0], {%1,%2,%3,%4}, %5;"
#define STORE_POLICY , "l"(evict_first())
#else
#define LOAD_ASM "ld.global" HINT ".v4.f32 {%0,%1,%2,%3}, [%4];"
#define LOAD_POLICY
#define STORE_ASM "st.global" STORE_HINT ".v4.f32 [%0], {%1,%2,%3,%4};"
#define STORE_POLICY
#endif
__device__ __forceinline__ float4 load(const float4* p) {
    float4 v;
    asm volatile(LOAD_ASM : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p) LOAD_POLICY);
    return v;
}
__device__ __forceinline__ void store(float4* p, float4 v) {
    asm volatile(STORE_ASM :: "l"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) STORE_POLICY : "memory");
}
"""
SOURCE = (
    ACCESS
    + r"""
typedef unsigned int word;
#define FIRST ((long long)blockIdx.x * THREADS * VECTORS + threadIdx.x)
#define EACH_VECTOR _Pragma("unroll") for (int k = 0; k < VECTORS; ++k)

extern "C" __global__ void __launch_bounds__(THREADS) read_stream(const float4* b, float* out, long long n4) {
    float4 v[VECTORS];
    EACH_VECTOR { long long i = FIRST + k * THREADS; v[k] = i < n4 ? load(b + i) : make_float4(0, 0, 0, 0); }
    float sum = 0;
    EACH_VECTOR sum += (v[k].x + v[k].y) + (v[k].z + v[k].w);
    for (int lane = 16; lane; lane >>= 1) sum += __shfl_xor_sync(~0u, sum, lane);
    if (threadIdx.x % 32 == 0) out[((long long)blockIdx.x * THREADS + threadIdx.x) / 32] = sum;
}
extern "C" __global__ void __launch_bounds__(THREADS) write_stream(float4* a, word seed, long long n4) {
    EACH_VECTOR {
        long long i = FIRST + k * THREADS;
        word w = (word)i * 4u * 0x9E3779B1u + seed;
        if (i < n4) store(a + i, make_float4(__uint_as_float(w), __uint_as_float(w + 0x9E3779B1u),
            __uint_as_float(w + 2u * 0x9E3779B1u), __uint_as_float(w + 3u * 0x9E3779B1u)));
    }
}
extern "C" __global__ void __launch_bounds__(THREADS) copy_stream(float4* a, const float4* b, long long n4) {
    float4 v[VECTORS];
    EACH_VECTOR { long long i = FIRST + k * THREADS; if (i < n4) v[k] = load(b + i); }
    EACH_VECTOR { long long i = FIRST + k * THREADS; if (i < n4) store(a + i, v[k]); }
}
extern "C" __global__ void __launch_bounds__(THREADS)
triad_stream(float4* a, const float4* b, const float4* c, float q, long long n4) {
    float4 v[VECTORS], w[VECTORS];
    EACH_VECTOR { long long i = FIRST + k * THREADS; if (i < n4) { v[k] = load(b + i); w[k] = load(c + i); } }
    EACH_VECTOR {
        long long i = FIRST + k * THREADS;
        const float4 x = v[k], y = w[k];
        if (i < n4) store(a + i, make_float4(x.x + q * y.x, x.y + q * y.y, x.z + q * y.z, x.w + q * y.w));
    }
}
"""
)

LOAD_HINTS = ("", ".cg", ".cs", ".nc.L1::no_allocate")
STORE_HINTS = ("", ".cg", ".cs", ".wt")


def _variant(threads: int, vectors: int, load: int = 0, store: int = 0, policy: int = 0) -> Variant:
    hints = "ld evict_last, st evict_first" if policy else f"ld{LOAD_HINTS[load]} st{STORE_HINTS[store]}"
    return Variant(
        f"{vectors} x 16 B/thread, {threads} threads, {hints}",
        {"THREADS": threads, "VECTORS": vectors, "load": load, "store": store, "POLICY": policy},
    )


_NO_ALLOCATE, _STREAM = 3, 2
VARIANTS = {
    "read": (_variant(512, 8, _NO_ALLOCATE), _variant(256, 8, _STREAM), _variant(128, 4, _STREAM), _variant(256, 4, 1)),
    "write": (
        _variant(256, 1, store=_STREAM),
        _variant(512, 1, store=_STREAM),
        _variant(256, 2, store=_STREAM),
        _variant(256, 1, store=1),
    ),
    "copy": (_variant(256, 1, policy=1), _variant(128, 1), _variant(128, 1, policy=1), _variant(256, 1, 1)),
    "triad": (
        _variant(256, 1, policy=1),
        _variant(128, 1, 1, _STREAM),
        _variant(128, 1, policy=1),
        _variant(256, 1, 1, _STREAM),
    ),
}
"""Read: several independent loads per thread. Others: one access per thread keeps most blocks in flight."""


def variants(operation: str, device: Device) -> tuple[Variant, ...]:
    """Variants of an operation; cache policies exist from compute capability 8.0 on."""
    policies = int((device.compute_capability or "8.0").split(".")[0]) >= 8
    return tuple(v for v in VARIANTS[operation] if policies or not v.options["POLICY"])


def compile_options(variant: Variant) -> dict[str, int | str]:
    """Macros of a variant; cache hints as string literals."""
    o = variant.options
    return {
        "THREADS": o["THREADS"],
        "VECTORS": o["VECTORS"],
        "POLICY": o["POLICY"],
        "HINT": f'"{LOAD_HINTS[o["load"]]}"',
        "STORE_HINT": f'"{STORE_HINTS[o["store"]]}"',
    }


def grid_of(variant: Variant, n: int) -> int:
    """Blocks for n elements."""
    return -(-n // (4 * variant.options["THREADS"] * variant.options["VECTORS"]))


def partial_sums(variant: Variant, b: Any) -> Any:
    """Float64 sums in the order of `read_stream`: one per warp, (blocks x warps,)."""
    import torch

    threads, vectors = variant.options["THREADS"], variant.options["VECTORS"]
    padded = torch.nn.functional.pad(b, (0, -b.numel() % (4 * threads * vectors)))
    # (block, vector, warp, lane, component)
    return padded.view(-1, vectors, threads // 32, 32, 4).sum((1, 3, 4), dtype=torch.float64).reshape(-1)


def _prepare(operation: str, variant: Variant, arena: Arena, scale: float) -> Job:
    import numpy as np

    o = variant.options
    call = launcher(SOURCE, f"{operation}_stream", compile_options(variant), arena.torch_device.index)
    scalar = {"write": (np.uint32(streams.SEED),), "triad": (np.float32(streams.Q),)}.get(operation, ())
    warps = o["THREADS"] // 32 if operation == "read" else 1

    def launch(sums: int, tensors: list[Any]) -> None:
        call(sums // warps, o["THREADS"], (*tensors, *scalar, np.int64(tensors[0].numel() // 4)))

    return streams.prepare(
        operation, arena, scale, lambda n: grid_of(variant, n) * warps, launch, lambda b, _: partial_sums(variant, b)
    )


def _microkernel(operation: str) -> Microkernel:
    def prepare(variant: Variant, arena: Arena, scale: float) -> Job:
        return _prepare(operation, variant, arena, scale)

    return Microkernel(
        f"dram_{operation}",
        "cupy",
        lambda device: variants(operation, device),
        prepare,
        streams.TOLERANCE[operation],
        (3, 5),
    )


MICROKERNELS = tuple(_microkernel(operation) for operation in streams.OPERATIONS)
