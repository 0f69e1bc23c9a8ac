// Sixteen floats anywhere in memory. vload16 and vstore16 do the same, but some compilers build them
// of eight pairs, and putting those together again takes half of the time that a kernel compiles.

#define INLINE static inline __attribute__((always_inline))

INLINE float16 load16(const int i, __global const float *from) {
  struct __attribute__((packed)) Packed {
    float16 v;
  };
  return ((__global const struct Packed *)(from + i * 16))->v;
}

INLINE void store16(const float16 v, const int i, __global float *to) {
  struct __attribute__((packed)) Packed {
    float16 v;
  };
  ((__global struct Packed *)(to + i * 16))->v = v;
}
